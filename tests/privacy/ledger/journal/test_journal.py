"""The journal: the database refuses to change it, and verification finds whoever did; on either store."""

import json
from collections.abc import Callable

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from privacy.ledger.entries import Entry
from privacy.ledger.ledger import Ledger
from tests.privacy.ledger.ledgers import Place, ledger_with_account
from tests.privacy.ledger.tampering import (
    MONEY,
    Row,
    inserted,
    journal_rows,
    rewrite,
    says,
    told,
    unguard,
    with_entry,
)


@pytest.mark.parametrize(
    "statement", ["UPDATE journal SET at = 'never'", "DELETE FROM journal WHERE sequence = 1", "TRUNCATE journal"]
)
def test_the_database_itself_refuses_to_change_the_journal(place: Place, statement: str):
    ledger = ledger_with_account(place)
    before = journal_rows(place)
    said = "syntax error" if (place.kind, statement) == ("sqlite", "TRUNCATE journal") else "append-only"
    with pytest.raises(DBAPIError, match=said):
        place.execute(statement)
    assert journal_rows(place) == before
    assert ledger.verify() == []


# --- entries ------------------------------------------------------------------------------------------------


def rehashed(row: Row) -> Row:
    """Give an edited entry the hash of what it says now; those after it still name the old one."""
    entry = Entry(row["sequence"], row["previous"], row["kind"], row["at"], json.loads(row["body"]))
    return {**row, "hash": entry.hash}


def swapped(rows: list[Row]) -> list[Row]:
    fifth, sixth = {**rows[6], "sequence": 5}, {**rows[5], "sequence": 6}
    return [*rows[:5], fifth, sixth, *rows[7:]]


TAMPERED: dict[str, tuple[Callable[[list[Row]], list[Row]], set[tuple[str, str]]]] = {
    "edited": (
        with_entry(1, lambda row: says(row, cap=MONEY[1])),
        {("journal entry 1", "hash"), ("account people-2024", "balance")},
    ),
    "edited, with a hash that fits": (
        with_entry(1, lambda row: rehashed(says(row, unit="id"))),
        {("journal entry 2", "previous"), ("account people-2024", "terms")},
    ),
    "dated otherwise": (with_entry(4, lambda row: {**row, "at": "1999"}), {("journal entry 4", "hash")}),
    "of an unknown kind": (with_entry(4, lambda row: {**row, "kind": "forged"}), {("journal entry 4", "kind")}),
    "removed": (lambda rows: rows[:4] + rows[5:], {("journal entry 5", "sequence"), ("journal entry 5", "previous")}),
    "swapped": (swapped, {(f"journal entry {number}", field) for number in (5, 6) for field in ("previous", "hash")}),
    "inserted": (inserted, {("journal entry 5", "hash"), ("journal entry 6", "hash")}),
    "of another hash": (with_entry(12, lambda row: {**row, "hash": "0" * 64}), {("journal entry 12", "hash")}),
    "without its subtrees": (with_entry(3, lambda row: {**row, "subtrees": ""}), {("journal entry 3", "subtrees")}),
    "garbled": (with_entry(4, lambda row: {**row, "body": "no JSON"}), {("journal entry 4", "body")}),
    "of a list": (with_entry(4, lambda row: {**row, "body": "[]"}), {("journal entry 4", "body")}),
    "emptied": (with_entry(4, lambda row: {**row, "body": "{}"}), {("journal entry 4", "hash")}),
}


@pytest.mark.parametrize("how", TAMPERED)
def test_an_entry_that_is_not_what_was_written_is_found_where_it_is(place: Place, grown: Ledger, how: str):
    change, expected = TAMPERED[how]
    rewrite(place, change)
    found = grown.verify()
    assert expected <= told(found)
    assert all(finding.allowed for finding in found)


def test_an_edit_names_what_stands_there_and_what_must(place: Place, grown: Ledger):
    rows = rewrite(place, with_entry(3, lambda row: {**row, "at": f"{row['at'][:11]}00:00:01Z"}))
    (finding,) = grown.verify()
    assert (finding.where, finding.field, finding.found) == ("journal entry 3", "hash", rows[3]["hash"])
    assert finding.allowed.endswith("the hash of what the entry says")
    assert "before anything is charged" in finding.remedy


def test_a_hash_that_is_no_number_is_found_and_ends_nothing(place: Place, grown: Ledger):
    with place.by_hand() as connection:
        unguard(connection)
        connection.execute(text(f"UPDATE journal SET hash = '{'z' * 64}' WHERE sequence = 4"))
    assert {("journal entry 4", "hash"), ("journal entry 5", "body")} <= told(grown.verify())


def test_one_removed_entry_is_one_gap_and_not_a_finding_for_each_that_follows(place: Place, grown: Ledger):
    rewrite(place, lambda rows: rows[:4] + rows[5:])
    gaps = [finding.where for finding in grown.verify() if finding.field in ("sequence", "previous", "subtrees")]
    assert gaps == ["journal entry 5", "journal entry 5"]


@pytest.mark.parametrize(
    "change", ["size = 5", "last = 'other'", "frontier = '[]'", "frontier = 'garbled'"], ids=lambda text: text[:8]
)
def test_a_head_that_is_not_the_journal_s_is_found(place: Place, grown: Ledger, change: str):
    place.execute(f"UPDATE journal_head SET {change}")
    assert told(grown.verify()) == {("the journal", "head")}
