"""Entries of the journal with a key too few or too many: corruption to each reader."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from privacy.grant.grant import open_grant
from privacy.ledger.entries import KINDS, LedgerCorrupt
from privacy.ledger.entry_bodies import BODY_KEYS
from privacy.ledger.journal.key_changes import signed_change
from privacy.ledger.journal.signing import Signer
from tests.privacy.ledger.forged_entries import Body
from tests.privacy.ledger.ledgers import SIGNER, Place
from tests.privacy.ledger.tampering import chained, grow, journal_rows, rewrite, with_entry

WRITTEN = sorted(
    set(BODY_KEYS) - {"charges_inherited", "account_closed", "gate_failed", "engine_failed", "version_withdrawn"}
)
"""What the grown ledger holds, once its key was changed, or its clock corrected."""


def misshapen(body: Body) -> Iterator[tuple[str, str, Body]]:
    """Each key left out, and one more put in, in the body and in the objects of its list."""
    for key in body:
        yield key, "missing", {name: value for name, value in body.items() if name != key}
    yield "more", "unknown", {**body, "more": 1}
    for name in ("parts", "earlier"):
        if body.get(name):
            [*others, last] = body[name]
            for key, wrong, part in misshapen(last):
                yield f"{name}[{len(others)}].{key}", wrong, {**body, name: [*others, part]}


@pytest.mark.long
@pytest.mark.parametrize("kind", WRITTEN)
def test_an_entry_with_a_key_too_few_or_too_many_is_corruption_to_each_reader(sqlite_place: Place, kind: str) -> None:
    """Chained anew, so that its hash is right; the message names the entry and the key."""
    grown = grow(sqlite_place)
    if kind == "key_changed":
        successor = Signer(bytes(31) + b"\1", SIGNER.public_key.split("+")[0])
        key = SIGNER.public_key, successor.public_key
        grown.change_key("rotated", *key, lambda said: signed_change(said, (SIGNER, successor)))
    if kind == "clock_corrected":
        sqlite_place.open(clock=lambda: "2019-01-01T00:00:00Z").correct_clock()
    rows = journal_rows(sqlite_place)
    number, row = next((n, row) for n, row in enumerate(rows) if row["kind"] == kind)
    for key, wrong, body in misshapen(json.loads(row["body"])):
        edited = with_entry(number, lambda row, body=body: {**row, "body": json.dumps(body)})  # type: ignore[misc]
        rewrite(sqlite_place, lambda _, edited=edited: chained(edited(rows)))  # type: ignore[misc]
        ledger = sqlite_place.open_unseen()
        says_so = re.escape(f"journal entry {number} ({kind}): the key {key!r} is {wrong}")
        with pytest.raises(LedgerCorrupt, match=says_so):
            ledger.account("people-2024")
        assert (f"journal entry {number}", key, wrong) in {(f.where, f.field, f.found) for f in ledger.verify()}
        if row["subject"] == "run-1":
            with pytest.raises(LedgerCorrupt, match=says_so):
                open_grant(ledger, "run-1")
        sqlite_place.close()


def test_the_keys_of_every_kind_of_entry_are_known() -> None:
    assert set(BODY_KEYS) == set(KINDS)


def test_a_charge_whose_request_in_the_database_lacks_a_field_is_corruption(sqlite_place: Place) -> None:
    grow(sqlite_place)
    sqlite_place.execute("UPDATE charges SET request = replace(request, '\"unit\"', '\"units\"')")
    with pytest.raises(LedgerCorrupt, match="cannot be read"):
        open_grant(sqlite_place.open_unseen(), "run-1")
