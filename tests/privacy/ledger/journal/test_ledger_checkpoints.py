"""Checkpoints and proofs: what tells a whole history from one that was cut or chained anew; on either store."""

import json
from typing import Any

import numpy as np
import pytest
from sqlalchemy import text

from privacy.grant.grant import open_grant
from privacy.grant.queries.marginal import MarginalQuery
from privacy.ledger.entries import Entry, LedgerCorrupt
from privacy.ledger.journal.merkle import root_from_proof, roots_from_consistency
from privacy.ledger.journal.notes import TreeHead, signed_head
from privacy.ledger.journal.signing import Signer, key_id
from privacy.ledger.ledger import Ledger
from privacy.ledger.store import schema
from tests.privacy.conftest import NewPlace
from tests.privacy.ledger.ledgers import (
    HALF,
    SOURCE,
    Counted,
    Place,
    bind,
    ledger_with_account,
    published,
    record_publication,
    request,
    terms,
)
from tests.privacy.ledger.tampering import (
    FIRST,
    KEY,
    MONEY,
    SECOND,
    SIGNER,
    SIZE,
    SMALL,
    chained,
    grow,
    inserted,
    journal_rows,
    rewrite,
    root_at,
    says,
    seen_by,
    told,
    unguarded,
    with_entry,
)


def test_an_inserted_entry_with_all_after_it_chained_anew_is_found_by_the_checkpoints(place: Place, grown: Ledger):
    rewrite(place, lambda rows: chained(inserted(rows)))
    first, second = (f"checkpoint of {size} entries" for size in (FIRST, SECOND))
    found = told(place.open_unseen().verify())
    assert found == {(where, field) for where in (first, second) for field in ("root",)}


CUT = (
    "DELETE FROM charge_parts WHERE run_key = 'run-4'",
    "DELETE FROM charges WHERE run_key = 'run-4'",
    "UPDATE charges SET status = 'opened' WHERE run_key = 'run-3'",
    "UPDATE versions SET status = 'allocated', manifest = NULL WHERE run_key = 'run-3'",
    "UPDATE accounts SET spent = spent - 250000000000",
)


def test_a_cut_tail_is_found_by_the_ledger_s_own_checkpoints(place: Place, grown: Ledger):
    rewrite(place, lambda rows: rows[:11], *CUT)
    (finding,) = place.open_unseen().verify(public_key=KEY)
    assert (finding.where, finding.field) == ("checkpoint of 12 entries", "size")
    assert (finding.found, finding.allowed[:11]) == ("11 entries in the journal", "at least 12")


def test_a_cut_tail_is_found_by_what_was_published_when_the_checkpoints_are_cut_too(place: Place, grown: Ledger):
    before = journal_rows(place)
    seen = [seen_by(before, FIRST), seen_by(before, SECOND, "other v1")]
    rewrite(place, lambda rows: rows[:11], *CUT, "DELETE FROM checkpoints WHERE size = 12")
    (unseen,) = grown.verify(public_key=KEY)
    assert (unseen.where, unseen.field) == ("journal entry 12", "hash")
    grown = place.open_unseen()
    assert grown.verify(public_key=KEY) == []
    assert grown.verify(seen[:1], public_key=KEY) == []
    gone, finding = grown.verify(seen, public_key=KEY)
    assert (gone.where, gone.field, gone.found) == ("other v1", "checkpoint", "no such checkpoint in the ledger")
    assert (finding.where, finding.field, finding.found) == ("other v1", "size", "11 entries in the journal")
    assert "restore" in finding.remedy


def test_a_tail_that_was_cut_and_grown_anew_is_found(place: Place, grown: Ledger):
    seen = seen_by(journal_rows(place), SECOND)
    rewrite(place, lambda rows: rows[:11], *CUT, "DELETE FROM checkpoints WHERE size = 12")
    with pytest.raises(LedgerCorrupt, match=r"journal entry 11, .* is missing"):
        record_publication(grown, "run-3", "f" * 64)
    grown = place.open_unseen()
    record_publication(grown, "run-3", "f" * 64)
    grown.prove("run-3", SIGNER)
    assert len(grown.journal()) == SECOND
    assert grown.verify() == []
    found = told(grown.verify([seen]))
    assert found == {("people-tables v1", "root"), ("people-tables v1", "checkpoint")}


def test_another_database_in_the_ledger_s_place_is_found(new_place: NewPlace):
    mine, other = new_place(), new_place()
    grow(mine)
    impostor = grow(other)
    assert impostor.verify(public_key=KEY) == []
    found = told(impostor.verify([seen_by(journal_rows(mine), FIRST)]))
    assert found == {("people-tables v1", field) for field in ("root", "checkpoint")}


def with_another_key(head: TreeHead) -> str:
    """A checkpoint that somebody without the key can make: under the name, the line of another key."""
    return Signer(bytes(32), head.origin).note(head.text).to_bytes().decode()


def rewritten_history(place: Place) -> None:
    """Raise the cap in the past, make everything fit that needs no key, and drop what was signed of balances."""
    terms = "UPDATE accounts SET cap = {1}, terms = replace(terms, '{0}', '{1}')".format(*MONEY)
    rows = rewrite(
        place, lambda rows: chained(with_entry(1, lambda row: says(row, cap=MONEY[1], epsilon=MONEY[1]))(rows)), terms
    )
    with unguarded(place) as connection:
        for size in (FIRST, SECOND):
            head = TreeHead(SIGNER.verifier.name, size, root_at(rows, size))
            change = schema.checkpoints.update().where(schema.checkpoints.c.size == size)
            connection.execute(change.values(root=head.root, note=with_another_key(head)))


def test_a_rewritten_history_needs_the_key_or_is_found(place: Place, grown: Ledger):
    before = journal_rows(place)
    rewritten_history(place)
    with pytest.raises(LedgerCorrupt, match=r"journal entry \d+, .* is another one"):
        grown.account("people-2024")
    grown = place.open_unseen()
    assert grown.account("people-2024").cap == MONEY[1]
    assert grown.verify() == []
    assert told(grown.verify(public_key=KEY)) == {
        (f"checkpoint of {size} entries", "signature") for size in (FIRST, SECOND)
    }
    other = key_id(Signer(bytes(32)).public_key)
    with unguarded(place) as connection:
        connection.execute(text(f"UPDATE checkpoints SET key_id = '{other}'"))
    assert grown.verify(public_key=KEY) == []
    found = told(grown.verify([seen_by(before, FIRST)], public_key=KEY))
    assert found == {("people-tables v1", field) for field in ("root", "checkpoint")}


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ("note = 'none'", {"signature"}),
        (f"note = '{with_another_key(TreeHead(SIGNER.verifier.name, FIRST, '0' * 64))}'", {"signature"}),
        ("note = replace(note, 'sudare/', 'others/')", {"signature"}),
        (f"root = '{'0' * 64}'", {"note", "root"}),
        ("size = 6", {"note", "root"}),
        (f"key_id = '{'0' * 16}', root = '{'0' * 64}'", {"note", "root"}),
    ],
)
def test_a_forged_checkpoint_is_found(place: Place, grown: Ledger, change: str, fields: set[str]):
    with unguarded(place) as connection:
        connection.execute(text(f"UPDATE checkpoints SET {change} WHERE size = {FIRST}"))
    where = f"checkpoint of {6 if 'size' in change else FIRST} entries"
    assert told(grown.verify(public_key=KEY)) == {(where, field) for field in fields}


# --- proofs -------------------------------------------------------------------------------------------------


def test_each_entry_of_a_run_and_of_its_accounts_is_proven_under_a_signed_checkpoint(place: Place):
    ledger = ledger_with_account(place)
    for block in ("2024-Q4", "lifetime", "2023"):
        ledger.open_account(terms(block=block))
    bind(ledger, "2024-Q4", source="file:autumn")
    ledger.reserve(request(account="people-2024-Q4", source="file:autumn"))
    open_grant(ledger, "run-1").draw(MarginalQuery(Counted(np.zeros(4, np.int64)).handle, HALF), key="a")
    ledger.allocate_version("run-1")
    record_publication(ledger, "run-1", "e" * 64)
    proof = json.loads(json.dumps(ledger.prove("run-1", SIGNER)))
    entries = [Entry(**proven["entry"]) for proven in proof["entries"]]
    opened = ["account_opened"] * 3
    assert [entry.kind for entry in entries] == [
        *opened,
        "charge_reserved",
        "grant_opened",
        "noise_drawn",
        "version_published",
    ]
    assert {entry.body["name"] for entry in entries[:3]} == {"people-2024", "people-2024-Q4", "people-lifetime"}
    head, rows = signed_head(proof["checkpoint"], KEY), journal_rows(place)
    assert proof["schema"] == "sudare-proof/1"
    assert head == TreeHead(SIGNER.verifier.name, len(rows), root_at(rows, len(rows)))
    for entry, proven in zip(entries, proof["entries"], strict=True):
        assert root_from_proof(entry.hash, entry.sequence, head.size, proven["path"]) == head.root
    assert proof["earlier"] == []
    assert ledger.verify(public_key=KEY) == []


def test_neither_journal_nor_proof_of_a_run_tells_where_its_source_lies(place: Place):
    ledger = grow(place)
    assert SOURCE not in json.dumps([entry.to_json() for entry in ledger.entries_of("run-1")])
    assert SOURCE not in json.dumps(ledger.prove("run-1", SIGNER))


def follows(proof: dict[str, Any]) -> list[tuple[int, str]]:
    head = signed_head(proof["checkpoint"], KEY)
    size, root = head.size, head.root
    for earlier in proof["earlier"]:
        reached = roots_from_consistency(earlier["size"], size, earlier["root"], earlier["path"])
        assert reached == (earlier["root"], root)
    return [(earlier["size"], earlier["root"]) for earlier in proof["earlier"]]


def test_a_proof_shows_the_last_checkpoint_and_that_of_the_version_before(place: Place, grown: Ledger):
    rows = journal_rows(place)
    open_grant(grown, "run-4")
    grown.allocate_version("run-4")
    record_publication(grown, "run-4", "f" * 64)
    proof = grown.prove("run-4", SIGNER)
    assert follows(proof) == [(size, root_at(rows, size)) for size in (FIRST, SECOND)]
    assert follows(grown.prove("run-4", SIGNER)) == follows(proof)
    assert grown.verify(public_key=KEY) == []


def test_a_ledger_whose_past_was_rewritten_cannot_prove_what_it_published_before(place: Place, grown: Ledger):
    """A stranger sees it without the ledger: the new version's proof does not follow the old version's checkpoint."""
    rows = journal_rows(place)
    rewritten_history(place)
    grown = place.open_unseen()
    published(grown, "run-5", noise=SMALL)
    earlier = dict(follows(grown.prove("run-5", SIGNER)))
    assert earlier[FIRST] != root_at(rows, FIRST)


def test_a_tail_that_was_cut_behind_the_checkpoints_makes_no_proof_that_holds(place: Place, grown: Ledger):
    rewrite(place, lambda rows: rows[:11], *CUT)
    grown = place.open_unseen()
    record_publication(grown, "run-3", "f" * 64)
    grown.reserve(request("run-6", noise=SMALL))
    with pytest.raises(LedgerCorrupt, match="does not lead to"):
        grown.prove("run-3", SIGNER)


def test_the_same_proof_asked_again_keeps_the_first_checkpoint(place: Place, grown: Ledger):
    for _ in range(2):
        grown.prove("run-3", SIGNER)
    with place.by_hand() as connection:
        sizes = connection.execute(schema.checkpoints.select().order_by(schema.checkpoints.c.size)).all()
    assert [(row.size, row.run_key) for row in sizes] == [(FIRST, "run-1"), (SECOND, "run-3"), (SIZE, "run-3")]
    assert grown.verify(public_key=KEY) == []
