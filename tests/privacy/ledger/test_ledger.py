"""The ledger: caps hold, keys pay once, and a refusal says why; on either store, in either calculus."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, select

from privacy.accounting.amounts import PICO, AmountRefused
from privacy.accounting.calculus import Calculus, PureCalculus, RenyiCalculus
from privacy.accounting.events import PoissonSampledGaussian
from privacy.grant.grant import open_grant
from privacy.ledger.entries import SEALED, BudgetExceeded, ClockBehind, LedgerRefusal
from privacy.ledger.ledger import Ledger
from privacy.ledger.store import schema
from privacy.marginals.sensitivity import GaussianNoise
from privacy.noise.random_bytes import SecureBytes, SeededBytes
from tests.privacy.conftest import NewPlace
from tests.privacy.ledger.ledgers import Place, bind, laplace, ledger_with_account, request, terms

FRESH_EACH_TIME = [HealthCheck.function_scoped_fixture]


def test_a_charge_reserves_what_the_account_s_calculus_says(ledger: Ledger):
    state = ledger.account("people-2024")
    charge = ledger.reserve(request())
    assert charge.amount == state.terms.calculus.cost(charge.request.events) > 0
    after = ledger.account("people-2024")
    assert (after.spent, after.remaining) == (charge.amount, after.cap - charge.amount)
    assert after.claim <= after.terms.epsilon
    assert ledger.charge("run-1") == charge
    assert ledger.charges(account="people-2024") == ledger.charges(spec_digest="a" * 64) == (charge,)


def test_the_same_run_key_never_pays_twice(ledger: Ledger):
    first = ledger.reserve(request())
    entries = ledger.journal()
    assert ledger.reserve(request()) == first
    assert ledger.account("people-2024").spent == first.amount
    assert ledger.journal() == entries


def test_another_release_under_a_known_run_key_is_refused(ledger: Ledger):
    ledger.reserve(request())
    with pytest.raises(LedgerRefusal, match="another key") as refused:
        ledger.reserve(request(spec_digest="d" * 64))
    assert refused.value.exit_code == 4


@pytest.mark.parametrize(
    "changed", [{"spec_digest": "d" * 64}, {"release": "other"}, {"noise": laplace(0.1)}, {"snapshot_hash": "f" * 64}]
)
def test_another_release_under_a_returned_run_key_is_refused_too(ledger: Ledger, changed: dict[str, object]):
    """What was drawn under a key is looked up by it, so a key never changes what it stands for."""
    ledger.reserve(request())
    ledger.return_charge("run-1")
    entries = ledger.journal()
    with pytest.raises(LedgerRefusal, match="another key"):
        ledger.reserve(request(**changed))  # type: ignore[arg-type]
    assert ledger.journal() == entries
    assert ledger.reserve(request()).status == "reserved"
    assert ledger.verify() == []


@pytest.mark.parametrize(
    ("changed", "said"), [({"events": ()}, "no events"), ({"epsilon": -1}, "negative"), ({"delta": -1}, "negative")]
)
def test_a_charge_that_is_none_is_refused(ledger: Ledger, changed: dict[str, object], said: str):
    entries = ledger.journal()
    for ask in (ledger.reserve, ledger.foresee, ledger.price):
        with pytest.raises(LedgerRefusal, match=said):
            ask(request(**changed))
    assert ledger.journal() == entries


def test_charges_are_admitted_up_to_the_cap_and_not_one_unit_above(place: Place):
    ledger = ledger_with_account(place, epsilon=1)
    ledger.reserve(request("run-1", noise=laplace(Fraction(PICO - 1, PICO))))
    with pytest.raises(BudgetExceeded, match=r"at most 0\.000000000001") as refused:
        ledger.reserve(request("run-2", noise=laplace(Fraction(2, PICO))))
    assert (refused.value.account, refused.value.requested, refused.value.remaining) == ("people-2024", 2, 1)
    ledger.reserve(request("run-3", noise=laplace(Fraction(1, PICO))))
    assert ledger.account("people-2024").remaining == 0
    assert ledger.verify() == []


@pytest.mark.long
@settings(max_examples=15, deadline=None, suppress_health_check=FRESH_EACH_TIME)
@given(amounts=st.lists(st.integers(1, 2 * PICO), min_size=1, max_size=8), returned=st.sets(st.integers(0, 7)))
def test_whatever_is_charged_and_returned_the_balance_stays_between_zero_and_the_cap(
    new_place: NewPlace, amounts: list[int], returned: set[int]
):
    ledger = ledger_with_account(new_place())
    expected = 0
    for number, amount in enumerate(amounts):
        try:
            charge = ledger.reserve(request(f"run-{number}", noise=laplace(Fraction(amount, PICO))))
        except BudgetExceeded:
            assert expected + amount > 3 * PICO
            continue
        expected += charge.amount
        if number in returned:
            ledger.return_charge(f"run-{number}")
            expected -= charge.amount
        state = ledger.account("people-2024")
        assert state.spent == expected
        assert 0 <= state.spent <= state.cap
    assert ledger.verify() == []


@pytest.mark.long
@settings(max_examples=8, deadline=None, suppress_health_check=FRESH_EACH_TIME)
@given(amounts=st.lists(st.integers(1, PICO // 8), min_size=2, max_size=6), order=st.randoms(use_true_random=False))
def test_totals_only_grow_and_do_not_depend_on_the_order(
    new_place: NewPlace, calculus: Calculus, amounts: list[int], order: object
):
    shuffled = list(amounts)
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    totals = []
    for sequence in (amounts, shuffled):
        ledger = ledger_with_account(new_place(), calculus)
        states = [ledger.account("people-2024")]
        for number, amount in enumerate(sequence):
            ledger.reserve(request(f"run-{number}", noise=laplace(Fraction(amount, PICO))))
            states.append(ledger.account("people-2024"))
        for before, after in pairwise(states):
            assert before.spent < after.spent
            assert before.claim <= after.claim <= after.terms.epsilon
        totals.append((states[-1].spent, states[-1].claim))
    assert totals[0] == totals[1]


def test_a_grant_that_was_never_opened_is_returned_and_may_be_reserved_again(ledger: Ledger):
    amount = ledger.reserve(request()).amount
    ledger.return_charge("run-1")
    ledger.return_charge("run-1")
    assert ledger.account("people-2024").spent == 0
    with pytest.raises(LedgerRefusal, match="returned"):
        open_grant(ledger, "run-1")
    assert ledger.reserve(request()).amount == amount
    assert ledger.account("people-2024").spent == amount
    assert [entry.kind for entry in ledger.entries_of("run-1")] == [
        "charge_reserved",
        "charge_returned",
        "charge_reserved",
    ]
    assert ledger.verify() == []


def test_an_opened_grant_stays_spent(ledger: Ledger):
    ledger.reserve(request())
    open_grant(ledger, "run-1")
    with pytest.raises(LedgerRefusal, match="never opened"):
        ledger.return_charge("run-1")
    assert ledger.account("people-2024").spent > 0


def test_what_was_never_reserved_is_neither_opened_nor_returned(ledger: Ledger):
    for use in (partial(open_grant, ledger), ledger.return_charge, ledger.allocate_version):
        with pytest.raises(LedgerRefusal, match="run nothing"):
            use("nothing")
    assert ledger.charge("nothing") is None


@pytest.mark.parametrize(
    ("changed", "both_sides"),
    [
        ({"account": "nobody"}, ("nobody", "people-2024", "sudare budget open nobody")),
        ({"source": "file:other.csv"}, ("file:other.csv", "people, block 2024", "sudare budget bind")),
        ({"adjacency": "replace_one"}, ("replace_one, of the contract", "add_remove, of the account")),
        ({"unit": "person_id"}, ("person_id, of the contract", "row, of the account")),
    ],
)
def test_a_charge_for_other_people_or_another_relation_is_refused_naming_both_sides(
    ledger: Ledger, changed: dict[str, object], both_sides: tuple[str, ...]
):
    entries = ledger.journal()
    with pytest.raises(LedgerRefusal) as refused:
        ledger.reserve(request(**changed))
    assert [side for side in both_sides if side not in str(refused.value)] == []
    assert refused.value.exit_code == 4
    assert ledger.account("people-2024").spent == 0
    assert ledger.journal() == entries


def test_a_source_of_other_people_or_days_is_refused_naming_both_sides(ledger: Ledger):
    bind(ledger, "2024", source="file:firms.csv", population="firms")
    with pytest.raises(LedgerRefusal, match=r"(?s)population\n.*firms, of file:firms.csv\n.*allowed: people"):
        ledger.reserve(request(source="file:firms.csv"))
    bind(ledger, "2025", source="file:next.csv")
    with pytest.raises(LedgerRefusal, match=r"(?s)block\n.*2025, of file:next.csv\n.*allowed: 2024"):
        ledger.reserve(request(source="file:next.csv"))


def test_a_closed_account_takes_no_charge_and_keeps_what_it_lost(ledger: Ledger):
    amount = ledger.reserve(request()).amount
    assert ledger.close_account("people-2024").status == "closed"
    entries = ledger.journal()
    assert ledger.close_account("people-2024").status == "closed"
    assert ledger.journal() == entries
    with pytest.raises(LedgerRefusal, match=r"(?s)closed.*open"):
        ledger.reserve(request("run-2"))
    assert ledger.account("people-2024").spent == amount
    assert ledger.verify() == []


def test_gaussian_noise_on_a_pure_account_is_refused_with_what_would_do(place: Place):
    ledger = ledger_with_account(place, PureCalculus())
    with pytest.raises(LedgerRefusal, match="--calculus renyi"):
        ledger.reserve(request(noise=(GaussianNoise(Fraction(1, 10)),)))


def test_an_event_is_refused_under_a_relation_for_which_its_loss_is_not_known(place: Place):
    """Poisson sampling amplifies privacy under add_remove only."""
    ledger = place.open()
    bind(ledger, "2024")
    ledger.open_account(terms(RenyiCalculus(Fraction(12)), adjacency="replace_one"))
    steps = PoissonSampledGaussian(Fraction(1), Fraction(1, 100), 10)
    with pytest.raises(LedgerRefusal, match=r"(?s)poisson_sampled_gaussian under replace_one.*allowed: add_remove"):
        ledger.reserve(request(adjacency="replace_one", events=(steps,)))
    assert ledger.account("people-2024").spent == 0


def test_a_refused_charge_says_what_is_spent_by_which_releases_and_what_still_fits(place: Place):
    ledger = ledger_with_account(place)
    ledger.reserve(request("run-1", release="wages", noise=laplace(0.9)))
    ledger.reserve(request("run-2", release="ages", noise=laplace(1.5)))
    ledger.reserve(request("run-3", release="wages", noise=laplace(0.5)))
    with pytest.raises(BudgetExceeded) as refused:
        ledger.reserve(request("run-4", noise=laplace(0.5)))
    told = str(refused.value)
    assert "a charge of 0.5 (ε)" in told
    assert "at most 0.1: 2.9 of 3 is spent, by ages 1.5, wages 1.4" in told
    fits = re.search(r"ask for epsilon ([0-9.]+) or less: the largest that still fits; nothing was charged", told)
    assert fits is not None
    assert Fraction("0.0999") <= Fraction(fits[1]) <= Fraction("0.1")
    ledger.reserve(request("run-5", noise=laplace(Fraction(fits[1]))))


def test_a_refusal_names_the_releases_that_spent_most_and_counts_the_others(place: Place):
    ledger = ledger_with_account(place)
    for number in range(1, 7):
        ledger.reserve(request(f"run-{number}", release=f"r{number}", noise=laplace(number / 10)))
    ledger.reserve(request("run-7", release="given-back", noise=laplace(0.7)))
    ledger.return_charge("run-7")
    with pytest.raises(BudgetExceeded, match=r"by r6 0\.6, r5 0\.5, r4 0\.4, r3 0\.3, 2 more releases\n"):
        ledger.reserve(request("run-8"))


def test_what_reserve_would_refuse_can_be_foreseen_and_nothing_is_written(ledger: Ledger):
    before = ledger.journal()
    admitted = ledger.foresee(request())
    assert ledger.journal() == before
    assert ledger.reserve(request()).parts == admitted.parts
    with pytest.raises(BudgetExceeded):
        ledger.foresee(request("run-2", noise=laplace(5)))


def test_a_gate_that_stopped_a_release_stays_written(ledger: Ledger):
    """Trying a gate again and again is asking the data; each answer is in the journal, without a charge."""
    for _ in range(2):
        ledger.record_gate_failure(request(), ["domain:age"])
    kept = [(entry.body["account"], entry.body["gates"]) for entry in ledger.journal() if entry.kind == "gate_failed"]
    assert kept == [("people-2024", ["domain:age"])] * 2
    assert ledger.account("people-2024").spent == 0
    assert ledger.verify() == []


def test_a_clock_that_is_moved_back_changes_no_order_and_a_correction_cures_the_journal(place: Place):
    """An older journal, or another machine, has times that go back. What follows a correction is compared with it."""
    ledger_with_account(place).close()
    now = ["2030-01-01T00:00:00Z"]
    ledger = place.open(clock=lambda: now[0])
    for year in (2030, 2029, 2028):
        now[0] = f"{year}-01-01T00:00:00Z"
        ledger.record_gate_failure(request(), ["domain:age"])
    entries = ledger.journal()
    assert [entry.sequence for entry in entries] == list(range(len(entries)))
    told = [entry.at for entry in entries[-3:]]
    assert told == sorted(told, reverse=True)
    found = [(finding.where, finding.field) for finding in ledger.verify()]
    assert found == [("journal entry 4", "date"), ("journal entry 5", "date")]
    now[0] = "2026-12-01T00:00:00Z"
    corrected = ledger.correct_clock()
    assert corrected is not None
    assert (corrected.kind, corrected.at, corrected.body["latest"]) == ("clock_corrected", now[0], told[0])
    assert ledger.correct_clock() is None
    assert ledger.reserve(request()).status == "reserved"
    assert ledger.verify() == []


def test_a_clock_behind_the_journal_is_refused_before_a_charge(place: Place):
    """A version that was charged by it would never verify. A day is allowed: clocks of several machines differ."""
    now = ["2026-03-04T10:00:01Z"]
    ledger = place.open(clock=lambda: now[0])
    ledger.open_account(terms())
    bind(ledger, "2024")
    now[0] = "2019-03-04T10:00:00Z"
    before = ledger.journal()
    for charged in (
        lambda: ledger.reserve(request()),
        lambda: ledger.open_account(terms(name="other")),
        ledger.times,
    ):
        with pytest.raises(ClockBehind):
            charged()
    assert ledger.journal() == before
    now[0] = "2026-03-03T11:00:00Z"
    assert ledger.reserve(request()).status == "reserved"


def test_a_clock_that_lags_behind_the_last_entry_s_hour_counts_as_that_hour(place: Place):
    """Clocks of several machines differ: an honest journal's times do not go back, also across a checkpoint."""
    now = ["2026-03-04T10:00:01Z"]
    ledger = place.open(clock=lambda: now[0])
    ledger.open_account(terms())
    bind(ledger, "2024")
    now[0] = "2026-03-04T09:59:59Z"
    ledger.reserve(request("run-1"))
    now[0] = "2026-03-04T11:20:00Z"
    sealed = ledger.record_gate_failure(request("run-2"), ["rows"])
    now[0] = "2026-03-04T10:59:00Z"
    ledger.return_charge("run-1")
    told = [entry.at for entry in ledger.journal() if entry.kind not in SEALED]
    assert told == sorted(told)
    assert told[2] == "2026-03-04T10:00:00Z"
    assert told[-1] == "2026-03-04T11:00:00Z"
    assert sealed.at == "2026-03-04T11:20:00Z"
    assert ledger.verify() == []


CHARGER = """
from privacy.ledger.entries import BudgetExceeded
ledger = place.open()
admitted = 0
for number in range(20):
    try:
        ledger.reserve(request(f"{arguments[0]}-{number}", noise=laplace("0.05")))
        admitted += 1
    except BudgetExceeded:
        pass
print(admitted)
"""


@pytest.mark.services
def test_processes_that_charge_at_once_never_pass_the_cap(place: Place):
    """Six processes ask for 120 charges of ε = 0.05 on a cap of 3: exactly 60 are admitted."""
    ledger = ledger_with_account(place)
    processes = [place.start(CHARGER, f"p{i}") for i in range(6)]
    admitted = [int(process.communicate(timeout=280)[0]) for process in processes]
    assert sum(admitted) == 60
    assert ledger.account("people-2024").remaining == 0
    assert len(ledger.charges(account="people-2024")) == 60
    assert ledger.verify() == []


def test_what_others_commit_while_one_reads_is_no_cut_tail(place: Place, monkeypatch: pytest.MonkeyPatch):
    """A charge is committed and marked after another ledger's state was taken and before it is added up."""
    charging, looking = ledger_with_account(place), place.open()
    reading, runs = looking._store.reading, iter(("run-1", "run-2"))

    @contextmanager
    def slow() -> Iterator[Connection]:
        with reading() as connection:
            connection.execute(select(schema.head.c.size)).scalar()
            if (run := next(runs, None)) is not None:
                charging.reserve(request(run, noise=laplace("0.05")))
            yield connection

    monkeypatch.setattr(looking._store, "reading", slow)
    assert looking.account("people-2024").remaining > 0
    assert looking.verify() == []
    assert next(runs, None) is None


def test_opening_an_account_whose_cap_leaves_no_room_is_refused(place: Place, calculus: Calculus):
    with pytest.raises(AmountRefused):
        place.open().open_account(terms(calculus, epsilon=0))


def test_noise_of_another_kind_of_source_does_not_go_on_with_an_opened_grant(ledger: Ledger):
    ledger.reserve(request())
    open_grant(ledger, "run-1", seeded=SeededBytes(1))
    with pytest.raises(LedgerRefusal, match=r"(?s)csprng.*seeded"):
        open_grant(ledger, "run-1")


def test_the_secure_source_cannot_be_given_other_bytes():
    with pytest.raises(AttributeError):
        SecureBytes().take = SeededBytes(7).take  # type: ignore[method-assign]


def test_terms_of_an_account_never_change(ledger: Ledger):
    known = ledger.account("people-2024").terms
    assert ledger.open_account(known).terms == known
    with pytest.raises(LedgerRefusal, match="a cap never changes"):
        ledger.open_account(replace(known, epsilon=known.epsilon + 1))


def test_the_charges_before_another_add_up_to_what_the_account_had_lost(place: Place):
    """Those that were given back before it are not among them, one that was reserved again comes after."""
    ledger = ledger_with_account(place, epsilon=30)
    for run_key in ("run-1", "run-2", "run-3"):
        ledger.reserve(request(run_key))
    ledger.return_charge("run-1")
    ledger.reserve(request("run-4"))
    ledger.reserve(request("run-1"))
    ledger.return_charge("run-2")
    reserved = [entry for entry in ledger.journal() if entry.kind == "charge_reserved"]
    found = []
    for entry in reserved:
        before = ledger.charges_before("people-2024", sequence=entry.sequence)
        assert sum(charge.amount_of("people-2024") for charge in before) == entry.body["parts"][0]["before"]
        found.append({charge.request.run_key[-1] for charge in before})
    assert found == [set(), {"1"}, {"1", "2"}, {"2", "3"}, {"2", "3", "4"}]
