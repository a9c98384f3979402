"""The schema of the ledger's database, and its tables, which are the fold of the journal; on either store."""

from pathlib import Path

import pytest
from sqlalchemy import inspect, text
from sqlalchemy.exc import DBAPIError

from privacy.ledger.backup import dump, restore
from privacy.ledger.entries import LedgerRefusal, LedgerUnavailable, SchemaUnknown
from privacy.ledger.ledger import Ledger
from privacy.ledger.replay.guards import missing_guards
from privacy.ledger.store import schema
from privacy.ledger.store.schema import VERSION, metadata, version, version_of
from tests.privacy.conftest import NewPlace
from tests.privacy.ledger.ledgers import Place, ledger_with_account
from tests.privacy.ledger.tampering import KEY, chained, rewrite, says, told, with_entry


def test_a_new_ledger_has_the_tables_the_keys_and_the_triggers(new_place: NewPlace):
    place = new_place(tables=False)
    place.open()
    with place.by_hand() as connection:
        assert version_of(connection) == VERSION
        assert set(inspect(connection).get_table_names()) == {*metadata.tables, version.name}
        assert list(missing_guards(connection)) == []


@pytest.mark.parametrize("table", ["journal", "checkpoints"])
@pytest.mark.parametrize("change", ["UPDATE {} SET size = 0", "DELETE FROM {}"])
def test_a_new_ledger_refuses_to_change_what_is_only_ever_appended(place: Place, table: str, change: str):
    ledger = ledger_with_account(place)
    ledger.close()
    if table == "checkpoints":
        place.execute("INSERT INTO charges VALUES ('r', 0, 'r', 's', 'p', 0, 1, '{}', 'reserved', NULL)")
        place.execute("INSERT INTO checkpoints VALUES (1, 'r', 'k', 'root', 'at', 'note')")
    statement = change.format(table).replace("size", "body" if table == "journal" else "size")
    with pytest.raises(DBAPIError, match="append-only"):
        place.execute(statement)


@pytest.mark.parametrize("found", ["0", "0005", "2"])
def test_a_ledger_of_an_unknown_schema_is_refused_and_left_as_it_is(place: Place, found: str):
    place.open().close()
    place.execute(f"UPDATE {version.name} SET version_num = '{found}'")
    with pytest.raises(SchemaUnknown, match=rf"schema {found}, .* knows {VERSION}; .*sudare init DIR") as refused:
        place.open()
    assert refused.value.exit_code == 1
    with place.by_hand() as connection:
        assert version_of(connection) == found


def test_tables_of_somebody_else_are_not_taken_for_a_ledger(new_place: NewPlace):
    """No table is made where one of its names is taken, neither are the others."""
    place = new_place(tables=False)
    place.execute("CREATE TABLE accounts (name TEXT)")
    with pytest.raises(LedgerUnavailable, match="accounts"):
        place.open()
    with place.by_hand() as connection:
        assert inspect(connection).get_table_names() == ["accounts"]


def test_a_copy_of_an_unknown_schema_is_not_restored(place: Place, new_place: NewPlace, tmp_path: Path):
    ledger_with_account(place)
    dump(place.url, tmp_path / "copy")
    first, rest = (tmp_path / "copy").read_text().split("\n", 1)
    (tmp_path / "other").write_text(first.replace(f'"schema":"{VERSION}"', '"schema":"2"') + "\n" + rest)
    empty = new_place(tables=False)
    with pytest.raises(LedgerRefusal, match="a copy of schema 2"):
        restore(tmp_path / "other", empty.url, public_key=None)
    with empty.by_hand() as connection:
        assert connection.execute(text("SELECT count(*) FROM journal")).scalar() == 0


ACCOUNT = ("account people-2024", "balance")
TERMS = ("account people-2024", "terms")
REQUEST = ("charge run-1", "request")
PEOPLE, OF_RUN = "version people-tables v1", "WHERE run_key = 'run-1'"


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
        ("UPDATE versions SET status = 'withdrawn' " + OF_RUN, {(PEOPLE, "status")}),
        ("UPDATE versions SET manifest = 'other' " + OF_RUN, {(PEOPLE, "manifest")}),
        ("DELETE FROM versions " + OF_RUN, {(PEOPLE, "status"), (PEOPLE, "manifest")}),
        ("DELETE FROM draws", {("run run-1", "draws"), ("run run-1", "noise")}),
        ("UPDATE draws SET sha256 = 'other'", {("run run-1", "noise")}),
        ("UPDATE draws SET event = replace(event, '1/2', '1/9')", {("run run-1", "noise")}),
    ],
)
def test_a_table_that_does_not_say_what_the_journal_says_is_found(
    place: Place, grown: Ledger, statement: str, expected: set[tuple[str, str]]
):
    place.execute(statement)
    found = grown.verify(public_key=KEY)
    assert told(found) == expected
    assert all("as the journal says" in finding.allowed for finding in found)


def test_a_cap_that_was_passed_in_between_is_found_though_the_tables_agree(place: Place, grown: Ledger):
    """Chained anew with a cap below what was spent; the tables say the same."""
    low = 10**12
    mended = f"UPDATE accounts SET cap = {low}"
    rewrite(
        place,
        lambda rows: chained(with_entry(1, lambda row: says(row, cap=low))(rows)),
        mended,
        "DELETE FROM checkpoints",
    )
    assert ("journal entry 7", "charge_reserved, cap") in told(grown.verify())


def test_verification_writes_nothing(place: Place, grown: Ledger):
    def everything() -> list[object]:
        with place.by_hand() as connection:
            return [connection.execute(table.select()).all() for table in schema.metadata.sorted_tables]

    before = everything()
    grown.verify(public_key=KEY)
    assert everything() == before
