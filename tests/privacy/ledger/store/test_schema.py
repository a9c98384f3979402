"""The schema of the ledger's database: a new ledger has it, and a ledger of another is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import inspect, text
from sqlalchemy.exc import DBAPIError

from privacy.ledger.backup import dump, restore
from privacy.ledger.entries import LedgerRefusal, LedgerUnavailable, SchemaUnknown
from privacy.ledger.replay.guards import missing_guards
from privacy.ledger.store.schema import VERSION, metadata, version, version_of
from tests.privacy.conftest import NewPlace
from tests.privacy.ledger.ledgers import Place, ledger_with_account


def test_a_new_ledger_has_the_tables_the_keys_and_the_triggers(new_place: NewPlace) -> None:
    place = new_place(tables=False)
    place.open()
    with place.by_hand() as connection:
        assert version_of(connection) == VERSION
        assert set(inspect(connection).get_table_names()) == {*metadata.tables, version.name}
        assert list(missing_guards(connection)) == []


@pytest.mark.parametrize("table", ["journal", "checkpoints"])
@pytest.mark.parametrize("change", ["UPDATE {} SET size = 0", "DELETE FROM {}"])
def test_a_new_ledger_refuses_to_change_what_is_only_ever_appended(place: Place, table: str, change: str) -> None:
    ledger = ledger_with_account(place)
    ledger.close()
    if table == "checkpoints":
        place.execute("INSERT INTO charges VALUES ('r', 0, 'r', 's', 'p', 0, 1, '{}', 'reserved', NULL)")
        place.execute("INSERT INTO checkpoints VALUES (1, 'r', 'k', 'root', 'at', 'note')")
    statement = change.format(table).replace("size", "body" if table == "journal" else "size")
    with pytest.raises(DBAPIError, match="append-only"):
        place.execute(statement)


@pytest.mark.parametrize("found", ["0", "0005", "2"])
def test_a_ledger_of_an_unknown_schema_is_refused_and_left_as_it_is(place: Place, found: str) -> None:
    place.open().close()
    place.execute(f"UPDATE {version.name} SET version_num = '{found}'")
    with pytest.raises(SchemaUnknown, match=rf"schema {found}, .* knows {VERSION}; .*sudare init DIR") as refused:
        place.open()
    assert refused.value.exit_code == 1
    with place.by_hand() as connection:
        assert version_of(connection) == found


def test_tables_of_somebody_else_are_not_taken_for_a_ledger(new_place: NewPlace) -> None:
    """No table is made where one of its names is taken, neither are the others."""
    place = new_place(tables=False)
    place.execute("CREATE TABLE accounts (name TEXT)")
    with pytest.raises(LedgerUnavailable, match="accounts"):
        place.open()
    with place.by_hand() as connection:
        assert inspect(connection).get_table_names() == ["accounts"]


def test_a_copy_of_an_unknown_schema_is_not_restored(place: Place, new_place: NewPlace, tmp_path: Path) -> None:
    ledger_with_account(place)
    dump(place.url, tmp_path / "copy")
    first, rest = (tmp_path / "copy").read_text().split("\n", 1)
    (tmp_path / "other").write_text(first.replace(f'"schema":"{VERSION}"', '"schema":"2"') + "\n" + rest)
    empty = new_place(tables=False)
    with pytest.raises(LedgerRefusal, match="a copy of schema 2"):
        restore(tmp_path / "other", empty.url, public_key=None)
    with empty.by_hand() as connection:
        assert connection.execute(text("SELECT count(*) FROM journal")).scalar() == 0
