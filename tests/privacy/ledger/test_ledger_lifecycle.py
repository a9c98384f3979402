"""Entries that the ledger never writes: whoever appends one, chains it well and fits the tables to it, is found.

Each forgery is complete: the chain holds, the checkpoints hold, and the tables say what the entries say. So it is
found by the rules of `privacy.ledger.replay.entry_rules` and of its sums alone, and nothing else is found beside it.
"""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from privacy.accounting.amounts import PICO
from privacy.accounting.calculus import Calculus
from privacy.grant.grant import open_grant
from privacy.grant.queries.marginal import MarginalQuery
from privacy.ledger.entries import LedgerCorrupt
from privacy.ledger.ledger import Ledger
from privacy.ledger.replay.entry_rules import Lifecycle
from tests.privacy.conftest import Databases
from tests.privacy.ledger import forged_entries as forged
from tests.privacy.ledger.forged_entries import QUARTER
from tests.privacy.ledger.ledgers import (
    HALF,
    SIGNER,
    Counted,
    Place,
    bind,
    laplace,
    ledger_with_account,
    published,
    record_publication,
    request,
    terms,
)
from tests.privacy.ledger.tampering import KEY, SMALL, chained, rewrite, says, told, with_entry


@pytest.fixture
def databases(sqlite_databases: Databases) -> Databases:
    """The rules read entries, which are the same on either store."""
    return sqlite_databases


def found(ledger: Ledger) -> set[tuple[str, str]]:
    findings = ledger.verify(public_key=KEY)
    assert all(finding.found and finding.allowed for finding in findings)
    return told(findings)


FORGERIES: list[tuple[Callable[[Place, Ledger], str], set[str]]] = [
    (forged.created_again, {"ledger_created, sequence"}),
    (forged.opened_again, {"account_opened, name", "account_opened, block", "account_opened, spent"}),
    (forged.opened_beside, {"account_opened, block", "account_opened, spent"}),
    (forged.opened_wide, {"account_opened, cap"}),
    (forged.opened_for_others, {"account_opened, unit and relation"}),
    (forged.opened_anew, {"account_opened, spent"}),
    (forged.opened_without_its_past, {"charges_inherited"}),
    (forged.inherits_less, {"charges_inherited, runs"}),
    (forged.inherits_cheaply, {"charges_inherited, amount"}),
    (forged.closed_twice, {"account_closed, name"}),
    (forged.bound_again, {"source_bound, source"}),
    (forged.negative, {"charge_reserved, amount"}),
    (forged.another_release, {"charge_reserved, run_key"}),
    (forged.told_otherwise, {"charge_reserved, before and after"}),
    (forged.nothing_returnable, {"charge_reserved, returnable"}),
    (forged.charged_after_closing, {"charge_reserved, account"}),
    (forged.one_account_left_out, {"charge_reserved, accounts"}),
    (forged.returned_late, {"charge_returned, status"}),
    (forged.opened_twice, {"grant_opened, status"}),
    (forged.never_planned, {"noise_drawn, event"}),
    (forged.too_dear, {"noise_drawn, event", "noise_drawn, costs"}),
    (forged.too_often, {"noise_drawn, event", "noise_drawn, costs"}),
    (forged.too_cheap, {"noise_drawn, cost"}),
    (forged.out_of_order, {"noise_drawn, number"}),
    (forged.never_opened, {"noise_drawn, status"}),
    (forged.published_with_seeded_noise, {"version_published, status"}),
    (forged.published_unopened, {"version_published, status"}),
    (forged.published_over, {"version_published, number"}),
    (forged.withdrawn_unpublished, {"version_withdrawn, status"}),
]


@pytest.mark.parametrize(("forge", "fields"), FORGERIES, ids=[forge.__name__ for forge, _ in FORGERIES])
def test_an_entry_that_the_ledger_never_writes_is_found_where_it_stands(
    place: Place, grown: Ledger, forge: Callable[[Place, Ledger], str], fields: set[str]
):
    where = forge(place, grown)
    found_there = found(place.open_unseen())
    without_key = {(where, "checkpoint")}  # a version that is made up has none
    assert found_there - without_key == {(where, field) for field in fields}


SUMS = [
    *(forged.account_twice, forged.inherited_twice, forged.charged_to_nobody, forged.closed_of_nobody),
    *(forged.inherited_by_nobody, forged.kept_under_another_name, forged.returned_after_publication),
    *(forged.told_otherwise, forged.nothing_returnable, forged.negative, forged.returned_late),
]


@pytest.mark.parametrize("forge", SUMS, ids=[forge.__name__ for forge in SUMS])
def test_sums_that_the_ledger_never_writes_are_found_by_a_check_and_refused_by_each_reader(
    place: Place, grown: Ledger, forge: Callable[[Place, Ledger], str]
):
    """By each process that begins anew: nothing is charged, opened or shown over them."""
    where = forge(place, grown)
    assert where in {finding.where for finding in place.open_unseen().verify()}
    for read in (
        Ledger.accounts,
        lambda ledger: ledger.account("people-2024"),
        lambda ledger: ledger.reserve(request("run-9")),
    ):
        with pytest.raises(LedgerCorrupt, match=f"{where} "):
            read(place.open_unseen())


def test_an_amount_that_its_events_do_not_cost_is_found_though_all_is_chained_anew(place: Place, grown: Ledger):
    """Half the amount of the last charge, in the entry and in the tables."""
    part = {"account": "people-2024", "amount": 1, "before": 5 * QUARTER, "after": 5 * QUARTER + 1, "returnable": 0}
    rewrite(
        place,
        lambda rows: chained(with_entry(12, lambda row: says(row, parts=[part]))(rows)),
        "UPDATE charge_parts SET amount = 1 WHERE run_key = 'run-4'",
        f"UPDATE accounts SET spent = {5 * QUARTER + 1}",
    )
    assert found(place.open_unseen()) == {("journal entry 12", "charge_reserved, amount")}


def test_a_charge_on_other_days_than_its_source_s_is_found(place: Place):
    """The entry says that the source is about the quarter, so it leaves out the other quarter's account."""
    ledger = place.open()
    for block in ("2024-Q3", "2024-Q4"):
        ledger.open_account(terms(block=block))
    bind(ledger, "2024-H2")
    ledger.reserve(request(account="people-2024-Q3"))
    part = [{"account": "people-2024-Q3", "amount": PICO, "before": 0, "after": PICO, "returnable": 0}]
    rewrite(
        place,
        lambda rows: chained(with_entry(4, lambda row: says(row, block="2024-Q3", parts=part))(rows)),
        "DELETE FROM charge_parts WHERE account = 'people-2024-Q4'",
        "UPDATE accounts SET spent = 0 WHERE name = 'people-2024-Q4'",
    )
    assert found(place.open_unseen()) == {("charge run-1", "request")}


def test_an_entry_under_another_subject_is_found(place: Place, grown: Ledger):
    """The ledger looks entries up by it: a proof of run-1 would leave the draw out."""
    rewrite(place, with_entry(5, lambda row: {**row, "subject": "run-3"}))
    assert found(grown) == {("journal entry 5", "noise_drawn, subject")}


def test_charges_in_another_order_are_found(place: Place, grown: Ledger):
    place.execute("UPDATE charges SET number = 100 WHERE run_key = 'run-1'")
    assert found(grown) == {("charges", "number")}


def test_an_amount_in_its_last_digits_is_another_version_s_rounding(place: Place, grown: Ledger):
    """A part in 10^9 and two units are: 252 of a quarter; one more is not."""
    before = 5 * QUARTER
    for more, expected in ((252, set()), (253, {("journal entry 12", "charge_reserved, amount")})):
        amount = QUARTER + more
        after = before + amount
        part = [{"account": "people-2024", "amount": amount, "before": before, "after": after, "returnable": 0}]
        tables = (
            f"UPDATE charge_parts SET amount = {amount} WHERE run_key = 'run-4'",
            f"UPDATE accounts SET spent = {before + amount}",
        )
        change = with_entry(12, lambda row, part=part: says(row, parts=part))  # type: ignore[misc]
        rewrite(place, lambda rows, change=change: chained(change(rows)), *tables)  # type: ignore[misc]
        assert found(place.open_unseen()) == expected


def test_what_the_ledger_writes_it_could_have_written(place: Place, calculus: Calculus):
    """Every kind of entry, with everything that may happen between them, in either calculus."""
    ledger = ledger_with_account(place, calculus)
    ledger.open_account(terms(calculus, block="2025"))
    ledger.reserve(request("run-1", noise=(HALF, *SMALL)))
    grant = open_grant(ledger, "run-1")
    grant.draw(MarginalQuery(Counted(np.zeros(3, np.int64)).handle, SMALL[0]), key="a")
    for run_key in ("run-2", "run-3"):
        ledger.reserve(request(run_key, noise=laplace(0.1)))
    ledger.return_charge("run-2")
    ledger.open_account(terms(calculus, block="lifetime"))
    grant.draw(MarginalQuery(Counted(np.zeros(3, np.int64)).handle, HALF), key="b")
    ledger.return_charge("run-3")
    ledger.reserve(request("run-3", noise=laplace(0.1)))
    ledger.allocate_version("run-1")
    record_publication(ledger, "run-1", "e" * 64)
    ledger.prove("run-1", SIGNER)
    published(ledger, "run-4", noise=laplace(0.1))
    ledger.withdraw("people-tables", 2, reason="mislabelled")
    ledger.record_gate_failure(request("run-5"), ["domain:age"])
    ledger.open_account(terms(calculus, block="2024-Q4"))
    ledger.close_account("people-2025")
    kinds = {entry.kind for entry in ledger.journal()}
    assert len(kinds) == 12
    assert ledger.verify() == []


LAWLESS: list[tuple[str, dict[str, object], str]] = [
    ("version_published", {"release": "another"}, "version_published, release"),
    ("charge_reserved", {"adjacency": "replace_one"}, "charge_reserved, unit and relation"),
    ("charge_reserved", {"unit": "household"}, "charge_reserved, unit and relation"),
    ("charge_reserved", {"scope": "lifetime"}, "charge_reserved, scope"),
    ("charge_reserved", {"block": "2024-01-01..2026-01-01"}, "charge_reserved, block"),
    ("charge_reserved", {"events": []}, "charge_reserved, events"),
]


@pytest.mark.parametrize(("kind", "changed", "rule"), LAWLESS)
def test_an_entry_that_admission_would_have_refused_is_found(
    place: Place, kind: str, changed: dict[str, object], rule: str
):
    """The rules alone, on a run's own entries with one of them changed; unchanged they pass."""
    with closing(ledger_with_account(place)) as ledger:
        published(ledger, "run-1")
        entries = ledger.journal()
    for altered, expected in ((False, set()), (True, {rule})):
        lifecycle, wrong = Lifecycle(), set()
        for entry in entries:
            body = {**entry.body, **changed} if altered and entry.kind == kind else entry.body
            subject = str(body.get("run_key") or body.get("name") or body.get("source") or "")
            wrong |= {finding.field for finding in lifecycle.entry(replace(entry, body=body), subject)}
        assert wrong >= expected
        assert altered or not wrong
