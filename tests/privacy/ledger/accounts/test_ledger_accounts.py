"""Accounts of overlapping time blocks: the same people never have a second budget; on either store."""

from dataclasses import replace
from datetime import date, timedelta
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privacy.accounting.amounts import PICO
from privacy.accounting.calculus import RenyiCalculus
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace, PoissonSampledGaussian
from privacy.grant.grant import open_grant
from privacy.grant.queries.marginal import MarginalQuery
from privacy.ledger.entries import BudgetExceeded, LedgerRefusal
from privacy.ledger.ledger import Ledger
from privacy.marginals.sensitivity import GaussianNoise
from tests.privacy.conftest import NewPlace
from tests.privacy.ledger.ledgers import (
    HALF,
    SIGNER,
    SOURCE,
    Counted,
    Place,
    bind,
    laplace,
    ledger_with_account,
    opened,
    published,
    request,
    terms,
)

RENYI = RenyiCalculus(Fraction(12))
SMALL = laplace(0.25)


def spent(ledger: Ledger) -> dict[str, Fraction]:
    return {state.terms.name: Fraction(state.spent, PICO) for state in ledger.accounts()}


# --- who is charged -----------------------------------------------------------------------------------------


def test_every_account_whose_days_overlap_is_charged_in_one_entry(place: Place):
    ledger = opened(place, "2026", "2026-Q4", "lifetime", "2025", "2026-Q3")
    source = bind(ledger, "2026-Q4")
    charge = ledger.reserve(request(account="people-2026-Q4", source=source))
    names = ["people-2026", "people-2026-Q4", "people-lifetime"]
    assert [part.account for part in charge.parts] == names
    assert spent(ledger) == {name: name in names for name in spent(ledger)}
    last = ledger.journal()[-1]
    assert [(part["account"], part["before"], part["after"]) for part in last.body["parts"]] == [
        (name, 0, PICO) for name in names
    ]
    assert all(ledger.charges(account=name) == (charge,) for name in names)
    assert ledger.verify() == []


def test_a_block_ends_before_the_next_one_begins(place: Place):
    ledger = opened(place, "2026-Q3", "2026-Q4")
    bind(ledger, "2026-Q3")
    ledger.reserve(request(account="people-2026-Q3"))
    assert spent(ledger) == {"people-2026-Q3": 1, "people-2026-Q4": 0}


def test_any_account_of_the_people_may_be_named_and_the_same_ones_are_charged(place: Place):
    ledger = opened(place, "2026", "2026-Q4")
    bind(ledger, "2026-Q4")
    first, second = (
        ledger.reserve(request(f"run-{i}", account=name)) for i, name in enumerate(("people-2026", "people-2026-Q4"))
    )
    assert first.parts == second.parts


DAY = st.dates(date(2025, 1, 1), date(2025, 1, 20))
SPAN = st.tuples(DAY, st.integers(1, 8)).map(lambda span: (span[0], span[0] + timedelta(days=span[1])))


def written(span: tuple[date, date]) -> str:
    return f"{span[0]}..{span[1]}"


def days(span: tuple[date, date]) -> set[date]:
    return {span[0] + timedelta(days=day) for day in range((span[1] - span[0]).days)}


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(accounts=st.lists(SPAN, min_size=1, max_size=4, unique=True), source=SPAN)
def test_exactly_the_accounts_that_share_a_day_with_the_source_are_charged(
    new_place: NewPlace, accounts: list[tuple[date, date]], source: tuple[date, date]
):
    """The edge days decide; a set of days is the second derivation."""
    ledger = opened(new_place(), "lifetime", *map(written, accounts))
    bind(ledger, written(source))
    charge = ledger.reserve(request(account="people-lifetime"))
    sharing = {f"people-{written(span)}" for span in accounts if days(span) & days(source)}
    assert {part.account for part in charge.parts} == {"people-lifetime", *sharing}
    assert {name for name, amount in spent(ledger).items() if amount} == {"people-lifetime", *sharing}


def test_a_parent_s_cap_refuses_what_the_child_s_would_admit_and_nothing_is_written(place: Place):
    ledger = opened(place, "2026-Q3", "2026-Q4")
    ledger.open_account(terms(block="2026", epsilon=1))
    third, fourth = (bind(ledger, block, source=f"file:{block}") for block in ("2026-Q3", "2026-Q4"))
    ledger.reserve(request("run-1", account="people-2026-Q3", source=third, noise=laplace(0.75)))
    before, entries = spent(ledger), ledger.journal()
    with pytest.raises(BudgetExceeded, match=r"account people-2026: cap") as refused:
        ledger.reserve(request("run-2", account="people-2026-Q4", source=fourth, noise=laplace(0.5)))
    assert (refused.value.account, refused.value.remaining) == ("people-2026", PICO // 4)
    assert [finding.where for finding in refused.value.findings] == ["account people-2026"]
    assert (spent(ledger), ledger.journal(), ledger.charge("run-2")) == (before, entries, None)
    ledger.reserve(request("run-2", account="people-2026-Q4", source=fourth, noise=laplace(0.25)))
    assert ledger.verify() == []


def test_every_cap_that_does_not_hold_is_named(place: Place):
    ledger = opened(place, "2026", "2026-Q4", epsilon=1)
    bind(ledger, "2026-Q4")
    with pytest.raises(BudgetExceeded) as refused:
        ledger.reserve(request(account="people-2026", noise=laplace(2)))
    assert [finding.where for finding in refused.value.findings] == ["account people-2026", "account people-2026-Q4"]


def test_each_account_is_charged_in_its_own_calculus(place: Place):
    ledger = opened(place, "2026-Q4")
    ledger.open_account(terms(RENYI, block="2026"))
    bind(ledger, "2026-Q4")
    charge = ledger.reserve(request(account="people-2026-Q4"))
    assert charge.amount_of("people-2026-Q4") == charge.amount == PICO
    assert charge.amount_of("people-2026") == RENYI.cost(charge.request.events) != PICO


def test_a_closed_account_refuses_every_charge_on_its_people(place: Place):
    ledger = opened(place, "2026", "2026-Q4")
    bind(ledger, "2026-Q4")
    ledger.close_account("people-2026")
    with pytest.raises(LedgerRefusal, match=r"(?s)account people-2026: status\n.*closed"):
        ledger.reserve(request(account="people-2026-Q4"))


def test_a_lifetime_unit_needs_an_account_for_its_lifetime(place: Place):
    ledger = opened(place, "2026-Q4")
    bind(ledger, "2026-Q4")
    with pytest.raises(LedgerRefusal, match=r"(?s)lifetime, without such.*sudare budget open people/lifetime"):
        ledger.reserve(request(account="people-2026-Q4", scope="lifetime"))
    ledger.open_account(terms(block="lifetime"))
    ledger.reserve(request(account="people-2026-Q4", scope="lifetime"))
    assert spent(ledger) == {"people-2026-Q4": 1, "people-lifetime": 1}


@pytest.mark.parametrize(
    ("accounts", "source", "named"),
    [
        (("2026-Q4",), "2026-H2", "2026-07-01 to before 2026-10-01"),
        (("2026-Q3",), "2026-H2", "2026-10-01 to before 2027-01-01"),
        (("2026-07", "2026-09"), "2026-Q3", "2026-08-01 to before 2026-09-01"),
        (("2026-Q3",), "2026-07-01..2026-10-02", "2026-10-01 to before 2026-10-02"),
    ],
)
def test_days_of_the_source_without_an_account_are_named(
    place: Place, accounts: tuple[str, ...], source: str, named: str
):
    ledger = opened(place, *accounts)
    bind(ledger, source)
    with pytest.raises(LedgerRefusal, match=f"days {named} of {SOURCE} without an account"):
        ledger.reserve(request(account=f"people-{accounts[0]}"))
    assert set(spent(ledger).values()) == {0}


# --- opening later ------------------------------------------------------------------------------------------


def test_an_account_that_is_opened_later_has_lost_what_its_people_lost(place: Place):
    blocks = ("2026-Q3", "2026-Q4", "2025", "2027")
    ledger = opened(place, *blocks)
    sources = [bind(ledger, block, source=f"file:{block}") for block in blocks]
    for number, source in enumerate(sources):
        account = source.replace("file:", "people-")
        ledger.reserve(request(f"run-{number}", account=account, source=source, noise=laplace(0.25 * (number + 1))))
    ledger.reserve(request("given-back", account="people-2026-Q4", source=sources[1]))
    ledger.return_charge("given-back")
    state = ledger.open_account(terms(block="2026"))
    assert state.spent == 3 * PICO // 4
    opening, inherited = ledger.journal()[-2:]
    amounts = [("run-0", PICO // 4), ("run-1", PICO // 2)]
    assert (opening.kind, inherited.kind) == ("account_opened", "charges_inherited")
    assert (opening.body["spent"], opening.body["cap"]) == (state.spent, state.cap)
    assert "run-" not in str(opening.body)
    assert inherited.body["account"] == "people-2026"
    assert [(one["run_key"], one["amount"]) for one in inherited.body["parts"]] == amounts
    assert [charge.amount_of("people-2026") for charge in ledger.charges(account="people-2026")] == [
        amount for _, amount in amounts
    ]
    assert ledger.verify() == []
    ledger.return_charge("run-0")
    others = {"people-2025": 0.75, "people-2027": 1}
    assert spent(ledger) == {**others, "people-2026": 0.5, "people-2026-Q3": 0, "people-2026-Q4": 0.5}
    assert ledger.verify() == []


def test_an_account_whose_cap_does_not_hold_what_was_lost_is_not_opened(place: Place):
    ledger = opened(place, "2026-Q4")
    bind(ledger, "2026-Q4")
    ledger.reserve(request(account="people-2026-Q4", noise=laplace(2)))
    entries = ledger.journal()
    short = replace(terms(block="2026"), epsilon=2 * PICO - 1)
    with pytest.raises(LedgerRefusal, match=r"1\.999999999999, and these people have lost 2 already"):
        ledger.open_account(short)
    assert (ledger.journal(), [*spent(ledger)]) == (entries, ["people-2026-Q4"])
    assert ledger.open_account(terms(block="2026", epsilon=2)).remaining == 0


def test_no_pure_account_is_opened_for_people_who_met_gaussian_noise(place: Place):
    ledger = place.open()
    ledger.open_account(terms(RENYI, block="2026-Q4"))
    bind(ledger, "2026-Q4")
    ledger.reserve(request(account="people-2026-Q4", noise=(GaussianNoise(Fraction(1, 10)),)))
    with pytest.raises(LedgerRefusal, match=r"account people-2026: calculus"):
        ledger.open_account(terms(block="2026"))
    assert ledger.open_account(terms(RENYI, block="2026")).spent == ledger.account("people-2026-Q4").spent


def test_an_account_that_inherits_has_the_order_that_was_fixed_before_its_people_s_first_charge(place: Place):
    """Whoever chooses an order after outcomes were seen chooses by them."""
    ledger = place.open()
    ledger.open_account(terms(RENYI, block="2026-Q4"))
    bind(ledger, "2026-Q4")
    ledger.reserve(request(account="people-2026-Q4"))
    other = RenyiCalculus(Fraction(8))
    with pytest.raises(LedgerRefusal, match=r"(?s)order\n.*found: 8\n.*12, that of people-2026-Q4.*--order 12"):
        ledger.open_account(terms(other, block="2026"))
    assert ledger.open_account(terms(RENYI, block="2026")).spent > 0
    assert ledger.open_account(terms(other, block="2025")).spent == 0


def test_no_order_is_chosen_once_only_pure_accounts_were_charged(place: Place):
    ledger = opened(place, "2026-Q4")
    bind(ledger, "2026-Q4")
    ledger.reserve(request(account="people-2026-Q4"))
    with pytest.raises(LedgerRefusal, match="after outcomes were seen"):
        ledger.open_account(terms(RENYI, block="2026"))
    assert ledger.open_account(terms(block="2026")).spent == PICO
    ledger.open_account(terms(RENYI, block="2025"))
    with pytest.raises(LedgerRefusal, match="after outcomes were seen"):
        ledger.open_account(terms(RENYI, block="lifetime"))


def test_a_grant_goes_on_while_an_account_is_opened_beside_it(place: Place):
    ledger = opened(place, "2026-Q4")
    bind(ledger, "2026-Q4")
    ledger.reserve(request(account="people-2026-Q4"))
    grant = open_grant(ledger, "run-1")
    ledger.open_account(terms(block="2026"))
    for key, holder in (("a", grant), ("b", open_grant(ledger, "run-1"))):
        holder.draw(MarginalQuery(Counted(np.zeros(3, np.int64)).handle, HALF), key=key)
    assert spent(ledger) == {"people-2026": 1, "people-2026-Q4": 1}
    assert ledger.verify() == []


# --- opened again -------------------------------------------------------------------------------------------


def test_an_account_that_nothing_was_charged_to_is_opened_again_under_other_terms(place: Place):
    """One entry more; the proof of its first version shows the terms that it was charged under."""
    ledger = ledger_with_account(place)
    again = terms(RENYI, epsilon=4)
    with pytest.raises(LedgerRefusal, match=r"(?s)other terms.*nothing was ever charged to it: say --reopen"):
        ledger.open_account(again)
    state = ledger.open_account(again, reopen=True)
    assert (state.terms, state.spent) == (again, 0)
    assert ledger.open_account(again) == state
    assert [entry.kind for entry in ledger.journal()][-1] == "account_opened"
    published(ledger, "run-1", noise=SMALL)
    proof = ledger.prove("run-1", SIGNER)
    shown = [each["entry"]["body"]["epsilon"] for each in proof["entries"] if "cap" in each["entry"]["body"]]
    assert shown == [4 * PICO]
    assert ledger.verify(public_key=SIGNER.public_key) == []


@pytest.mark.parametrize("end", ["reserved", "returned", "inherited", "closed"])
def test_an_account_that_was_ever_used_is_never_opened_again(place: Place, end: str):
    """Not even after a return: somebody has seen what a charge of this size was admitted under."""
    ledger = ledger_with_account(place)
    if end == "closed":
        ledger.close_account("people-2024")
    else:
        ledger.reserve(request(noise=SMALL))
    if end == "returned":
        ledger.return_charge("run-1")
    name, block = ("people-2024", "2024")
    if end == "inherited":
        ledger.open_account(terms(block="2024-Q4"))
        name, block = ("people-2024-Q4", "2024-Q4")
    before = len(ledger.journal())
    with pytest.raises(LedgerRefusal, match="after its first charge a cap never changes"):
        ledger.open_account(terms(name=name, block=block, epsilon=9), reopen=True)
    assert len(ledger.journal()) == before
    assert ledger.verify() == []


def test_other_people_or_days_are_another_account(place: Place):
    ledger = ledger_with_account(place)
    for changed in ({"block": "2025"}, {"population": "firms"}):
        with pytest.raises(LedgerRefusal, match="open an account under another name"):
            ledger.open_account(replace(terms(epsilon=9), **changed), reopen=True)  # type: ignore[arg-type]


def test_a_pure_account_advises_only_what_works(place: Place):
    """Each piece of advice is followed, and works; for a training there is none but another account."""
    ledger, gaussian = ledger_with_account(place), GaussianNoise(Fraction(1, 100))
    with pytest.raises(LedgerRefusal, match=r"sudare budget open people-2024 --reopen .* --calculus renyi"):
        ledger.reserve(request(noise=(gaussian,)))
    ledger.reserve(request("run-2", noise=SMALL))
    with pytest.raises(LedgerRefusal, match=r"ask for `delta: 0` in `charge`"):
        ledger.reserve(request(noise=(gaussian,)))
    sums = replace(request(), events=(DiscreteGaussian(Fraction(10_000), (40, 1)),))
    with pytest.raises(LedgerRefusal, match="of statistics: write `mechanism: laplace` and `delta: 0`"):
        ledger.reserve(sums)
    ledger.reserve(replace(request("run-3"), events=(DiscreteLaplace(Fraction(1, 1000), (40, 1)),)))
    training = replace(request(), events=(PoissonSampledGaussian(Fraction(2), Fraction(1, 100), 10),))
    with pytest.raises(
        LedgerRefusal, match="has no Laplace form: release it for people or days whose account is ren"
    ):
        ledger.reserve(training)
