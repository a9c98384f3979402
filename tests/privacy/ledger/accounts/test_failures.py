"""The second sum of an account: what selections of keys may fail with stays within what is set aside."""

import json
from dataclasses import replace
from fractions import Fraction

import pytest

from privacy.accounting.amounts import ATTO, atto_to_text
from privacy.accounting.calculus import Calculus, PureCalculus, RenyiCalculus
from privacy.accounting.events import PrivacyEvent, key_selection
from privacy.grant.grant import open_grant
from privacy.ledger.accounts import charges as charging
from privacy.ledger.accounts.admission import Admission
from privacy.ledger.entries import BudgetExceeded, LedgerCorrupt, LedgerRefusal
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import AccountTerms, ChargeRequest
from privacy.ledger.view import LedgerView
from tests.privacy.ledger.ledgers import SIGNER, Place, bind, request, terms

NANO = ATTO // 10**9
ASIDE, DELTA = 3 * NANO, 5 * NANO
CALCULI = (PureCalculus(ASIDE), RenyiCalculus(Fraction(12), ASIDE))


def account(calculus: Calculus, block: str = "2024", *, delta: int = DELTA) -> AccountTerms:
    return replace(terms(calculus, epsilon=8, block=block), delta=delta)


def selecting(
    run_key: str, failure: int, *, epsilon: Fraction = Fraction(1, 100), **changed: object
) -> ChargeRequest:
    events: tuple[PrivacyEvent, ...] = (key_selection(epsilon, failure, 2),)
    return request(run_key, events=events, delta=failure, **changed)


def ledger_of(place: Place, calculus: Calculus) -> Ledger:
    ledger = place.open()
    ledger.open_account(account(calculus))
    bind(ledger, "2024")
    return ledger


def sums(ledger: Ledger) -> list[tuple[str, int, int]]:
    return [(state.terms.name, state.failure, state.selections_left) for state in ledger.accounts()]


def told(ledger: Ledger) -> list[tuple[int | None, int | None]]:
    parts = [part for entry in ledger.journal() if entry.kind == "charge_reserved" for part in entry.body["parts"]]
    return [(part.get("failure_before"), part.get("failure_after")) for part in parts]


@pytest.mark.parametrize("calculus", CALCULI)
def test_selections_are_charged_until_nothing_is_left_for_them(place: Place, calculus: Calculus):
    """Both sums stand in the entry, the account and the view; one unit too much is refused, and changes nothing."""
    ledger = ledger_of(place, calculus)
    ledger.reserve(selecting("run-1", NANO))
    ledger.reserve(request("run-2"))
    ledger.reserve(selecting("run-3", 2 * NANO - 1))
    assert told(ledger) == [(0, NANO), (NANO, NANO), (NANO, ASIDE - 1)]
    assert sums(ledger) == [("people-2024", ASIDE - 1, 1)]
    before = ledger.journal()
    with pytest.raises(BudgetExceeded) as refused:
        ledger.reserve(selecting("run-4", 2))
    assert (refused.value.account, refused.value.requested, refused.value.remaining) == ("people-2024", 2, 1)
    assert refused.value.findings[0].field == "selection_delta"
    assert "3e-9" in str(refused.value)
    assert ledger.journal() == before
    ledger.reserve(selecting("run-5", 1))
    assert ledger.account("people-2024").selections_left == 0
    assert ledger.verify() == []
    view = LedgerView(place.url)
    shown = view.account("people-2024")
    assert shown is not None
    assert (shown.failure, [state.failure for state in view.accounts(limit=9)]) == (ASIDE, [ASIDE])
    view.close()


@pytest.mark.parametrize("calculus", CALCULI)
def test_the_claim_is_within_the_cap_when_both_sums_are_spent(place: Place, calculus: Calculus):
    """Selections may take all that is set aside, and losses all of the cap: epsilon at the account's own delta."""
    ledger = ledger_of(place, calculus)
    state = ledger.account("people-2024")
    ledger.reserve(selecting("run-1", ASIDE))
    left = ledger.account("people-2024").remaining
    fitting = next(
        epsilon
        for epsilon in (Fraction(size, 10) for size in range(80, 0, -1))
        if calculus.cost([key_selection(epsilon, 1, 1)]) <= left
    )
    with pytest.raises(BudgetExceeded):
        ledger.reserve(selecting("run-2", 1, epsilon=fitting))
    spent = ledger.account("people-2024")
    assert spent.claim <= spent.terms.epsilon == state.terms.epsilon
    assert calculus.claim(spent.cap, DELTA) <= spent.terms.epsilon


@pytest.mark.parametrize("calculus", [PureCalculus(), RenyiCalculus(Fraction(12))])
def test_an_account_with_nothing_aside_refuses_a_selection_in_words(place: Place, calculus: Calculus):
    """Unused, it may be opened again, as the refusal says; used, it is for others."""
    ledger = place.open()
    ledger.open_account(terms(calculus))
    bind(ledger, "2024")
    with pytest.raises(LedgerRefusal) as refused:
        ledger.reserve(selecting("run-1", NANO))
    [finding] = refused.value.findings
    assert finding.field == "selection_delta"
    assert f"--calculus {calculus.kind}" in finding.remedy
    assert f"--selection-delta {atto_to_text(NANO)}" in finding.remedy
    ledger.reserve(request("run-2"))
    with pytest.raises(LedgerRefusal) as refused:
        ledger.reserve(selecting("run-3", NANO))
    assert "--reopen" not in refused.value.findings[0].remedy
    assert [charge.request.run_key for charge in ledger.charges(account="people-2024")] == ["run-2"]


def test_nothing_changes_for_a_ledger_without_selections(place: Place):
    """Terms, entries, statements and accounts are written as they always were: no key more."""
    ledger = place.open()
    ledger.open_account(terms())
    bind(ledger, "2024")
    ledger.reserve(request("run-1"))
    opened, reserved = ledger.journal()[1].body, ledger.journal()[-1].body
    assert opened["calculus"] == {"kind": "pure"}
    assert set(reserved["parts"][0]) == {"account", "amount", "before", "after", "returnable"}
    open_grant(ledger, "run-1")
    ledger.allocate_version("run-1")
    ledger.publish("run-1", "e" * 64, SIGNER)
    with place.by_hand() as connection:
        [statement] = connection.exec_driver_sql("SELECT balances FROM statements").scalars()
    assert [len(each) for each in json.loads(statement)["balances"].values()] == [5]


@pytest.mark.parametrize("calculus", CALCULI)
def test_a_charge_that_is_given_back_gives_its_failure_back(place: Place, calculus: Calculus):
    """And is charged again like any other; what was opened stays."""
    ledger = ledger_of(place, calculus)
    ledger.reserve(selecting("run-1", ASIDE))
    ledger.return_charge("run-1")
    assert ledger.account("people-2024").failure == 0
    ledger.reserve(selecting("run-1", ASIDE))
    assert ledger.account("people-2024").failure == ASIDE
    open_grant(ledger, "run-1")
    with pytest.raises(LedgerRefusal):
        ledger.return_charge("run-1")
    assert (ledger.account("people-2024").failure, ledger.verify()) == (ASIDE, [])
    assert place.open().account("people-2024").failure == ASIDE


def test_all_accounts_of_the_people_pay_or_none(place: Place):
    """One that has less left refuses the charge for all."""
    ledger = ledger_of(place, CALCULI[0])
    ledger.open_account(account(PureCalculus(NANO), "lifetime"))
    with pytest.raises(BudgetExceeded) as refused:
        ledger.reserve(selecting("run-1", 2 * NANO))
    assert refused.value.account == "people-lifetime"
    ledger.reserve(selecting("run-2", NANO))
    assert sums(ledger) == [("people-2024", NANO, 2 * NANO), ("people-lifetime", NANO, 0)]
    assert ledger.verify() == []


def test_an_account_opened_later_inherits_the_failures(place: Place):
    """One with too little aside is refused; a Rényi one sets aside what the oldest did, before anything was seen."""
    ledger = ledger_of(place, CALCULI[1])
    ledger.reserve(selecting("run-1", NANO))
    ledger.reserve(selecting("run-2", NANO))
    ledger.return_charge("run-2")
    for calculus, field in (
        (PureCalculus(), "selection_delta"),
        (PureCalculus(NANO - 1), "selection_delta"),
        (RenyiCalculus(Fraction(12), 2 * NANO), "selection_delta"),
    ):
        with pytest.raises(LedgerRefusal) as refused:
            ledger.open_account(account(calculus, "lifetime"))
        assert refused.value.findings[0].field in (field, "calculus")
    ledger.open_account(account(RenyiCalculus(Fraction(12), ASIDE), "lifetime"))
    assert sums(ledger) == [("people-2024", NANO, 2 * NANO), ("people-lifetime", NANO, 2 * NANO)]
    ledger.return_charge("run-1")
    assert sums(ledger) == [("people-2024", 0, ASIDE), ("people-lifetime", 0, ASIDE)]
    assert ledger.verify() == []


def test_a_statement_keeps_the_second_sum(place: Place):
    """Whoever begins at a signed statement of balances knows what was spent on selections before it."""
    ledger = ledger_of(place, CALCULI[1])
    ledger.reserve(selecting("run-1", NANO))
    open_grant(ledger, "run-1")
    ledger.allocate_version("run-1")
    ledger.publish("run-1", "e" * 64, SIGNER)
    fresh = Ledger(place.url, draws=place.folder / "draws", public_key=SIGNER.public_key)
    place.opened.append(fresh)
    for number in range(70):
        ledger.record_gate_failure(request(f"gate-{number}"), ["rows"])
    assert fresh.account("people-2024").failure == NANO
    with pytest.raises(BudgetExceeded):
        fresh.reserve(selecting("run-2", 2 * NANO + 1))
    assert ledger.verify(public_key=SIGNER.public_key) == []


@pytest.mark.parametrize("forged", ["nothing", "less", "above"])
def test_an_entry_that_says_otherwise_is_corruption(place: Place, monkeypatch: pytest.MonkeyPatch, forged: str):
    """Without the second sum, with a smaller one, or above what is set aside: every reader of the journal stops."""
    ledger = ledger_of(place, CALCULI[0])
    ledger.reserve(selecting("run-1", 2 * NANO))

    def second_sum(before: int, failure: int, *, aside: int) -> dict[str, int]:
        return {} if forged == "nothing" else {"failure_before": before, "failure_after": before}

    with monkeypatch.context() as patched:
        if forged == "above":
            patched.setattr(Admission, "unselectable", ())
        else:
            patched.setattr(charging, "second_sum", second_sum)
        ledger.reserve(selecting("run-2", ASIDE if forged == "above" else NANO))
    with pytest.raises(LedgerCorrupt):
        place.open_unseen().account("people-2024")
    assert any("failures" in finding.field for finding in place.open_unseen().verify())
