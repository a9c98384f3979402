"""The tables are the fold of the journal: whoever edits one of them is found; on either store."""

from __future__ import annotations

import pytest

from privacy.ledger.ledger import Ledger
from privacy.ledger.store import schema
from tests.privacy.ledger.ledgers import Place
from tests.privacy.ledger.tampering import KEY, chained, rewrite, says, told, with_entry

ACCOUNT = ("account people-2024", "balance")
TERMS = ("account people-2024", "terms")
REQUEST = ("charge run-1", "request")
VERSION, OF_RUN = "version people-tables v1", "WHERE run_key = 'run-1'"


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("UPDATE accounts SET spent = 0", {ACCOUNT}),
        ("UPDATE accounts SET cap = cap * 2", {ACCOUNT}),
        ("UPDATE accounts SET status = 'closed'", {ACCOUNT}),
        ("UPDATE accounts SET ends = ends - 1", {TERMS}),
        ("UPDATE accounts SET population = 'firms'", {TERMS}),
        ("UPDATE accounts SET terms = replace(terms, 'add_remove', 'replace_one')", {TERMS}),
        (
            "INSERT INTO accounts SELECT 'new', population, begins, ends, terms, cap, 0, status FROM accounts",
            {("account new", "balance"), ("account new", "terms")},
        ),
        ("UPDATE sources SET population = 'firms'", {("source file:people.parquet", "people")}),
        ("UPDATE sources SET begins = begins + 400", {("source file:people.parquet", "people")}),
        (
            "INSERT INTO sources SELECT 'copy', 'nobody', block, begins, ends FROM sources",
            {("source copy", "people")},
        ),
        ("UPDATE charges SET status = 'reserved' " + OF_RUN, {("charge run-1", "status")}),
        ("UPDATE charges SET request = replace(request, 'aaaa', 'bbbb') " + OF_RUN, {REQUEST}),
        ("UPDATE charges SET release = 'other' " + OF_RUN, {REQUEST}),
        ("UPDATE charges SET begins = begins + 400 " + OF_RUN, {REQUEST}),
        ("UPDATE charges SET population = 'firms' " + OF_RUN, {REQUEST}),
        ("UPDATE charges SET security = 'seeded' " + OF_RUN, {("charge run-1", "randomness")}),
        ("UPDATE charge_parts SET amount = 1 " + OF_RUN, {("charge run-1", "amounts")}),
        ("DELETE FROM charge_parts " + OF_RUN, {("charge run-1", "amounts")}),
        ("UPDATE versions SET status = 'withdrawn' " + OF_RUN, {(VERSION, "status")}),
        ("UPDATE versions SET manifest = 'other' " + OF_RUN, {(VERSION, "manifest")}),
        ("DELETE FROM versions " + OF_RUN, {(VERSION, "status"), (VERSION, "manifest")}),
        ("DELETE FROM draws", {("run run-1", "draws"), ("run run-1", "noise")}),
        ("UPDATE draws SET sha256 = 'other'", {("run run-1", "noise")}),
        ("UPDATE draws SET event = replace(event, '1/2', '1/9')", {("run run-1", "noise")}),
    ],
)
def test_a_table_that_does_not_say_what_the_journal_says_is_found(
    place: Place, grown: Ledger, statement: str, expected: set[tuple[str, str]]
) -> None:
    place.execute(statement)
    found = grown.verify(public_key=KEY)
    assert told(found) == expected
    assert all("as the journal says" in finding.allowed for finding in found)


def test_a_cap_that_was_passed_in_between_is_found_though_the_tables_agree(place: Place, grown: Ledger) -> None:
    """Chained anew with a cap below what was spent; the tables say the same."""
    low = 10**12
    mended = f"UPDATE accounts SET cap = {low}"
    rewrite(
        place,
        lambda rows: chained(with_entry(1, lambda row: says(row, cap=low))(rows)),
        mended,
        "DELETE FROM checkpoints",
    )
    assert ("account people-2024", "cap") in told(grown.verify())


def test_verification_writes_nothing(place: Place, grown: Ledger) -> None:
    def everything() -> list[object]:
        with place.by_hand() as connection:
            return [connection.execute(table.select()).all() for table in schema.metadata.sorted_tables]

    before = everything()
    grown.verify(public_key=KEY)
    assert everything() == before
