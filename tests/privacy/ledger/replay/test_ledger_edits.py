"""What an owner of the database may change, and who sees it: `run`, `history --verify`, `verify`, or only a witness.

Each edit is made behind a grown ledger's back, on either store. Then one charges, draws and publishes as `run` does
(the next release, or the run that the edit is about), checks the journal as `history --verify` does, and checks the
proof of what was published as `verify` does, beside the version before. The same table stands in docs/operate.md.
"""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from privacy.grant.grant import open_grant
from privacy.grant.queries.marginal import MarginalQuery
from privacy.ledger import books
from privacy.ledger.entries import KINDS, LedgerCorrupt
from privacy.ledger.entry_bodies import BODY_KEYS
from privacy.ledger.journal.key_changes import signed_change
from privacy.ledger.journal.signing import Signer
from privacy.ledger.ledger import Ledger
from privacy.ledger.replay.fold import SignedCheckpoint
from tasks.records.model.journal_statements import Proof
from tasks.records.model.statement import read_statement
from tasks.verification.inclusion import check_inclusion, check_succession
from tests.privacy.conftest import Databases
from tests.privacy.ledger.forged_entries import Body
from tests.privacy.ledger.ledgers import HALF, SIGNER, SOURCE, Counted, Place, record_publication, request, terms
from tests.privacy.ledger.replay.ledger_edits import EDITS, HISTORY, RUN, VERIFY, Edit
from tests.privacy.ledger.tampering import (
    FIRST,
    KEY,
    SECOND,
    SMALL,
    chained,
    grow,
    journal_rows,
    rewrite,
    seen_by,
    with_entry,
)

DOCS = Path(__file__).parents[4] / "docs" / "operate.md"


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Place]:
    return {}


@pytest.fixture
def edited(
    databases: Databases, template: dict[str, Place], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    kind = type(databases).__name__
    if kind not in template:
        template[kind] = Place(databases.new(tables=True), tmp_path_factory.mktemp(kind))
        grow(template[kind])
        template[kind].close()
    folder = tmp_path_factory.mktemp("edited")
    shutil.copytree(template[kind].folder, folder, dirs_exist_ok=True)
    place = Place(databases.copy(template[kind].url), folder)
    yield place
    place.close()
    databases.drop(place.url)


def run(ledger: Ledger, tried: str) -> object:
    """Do what a command does to this run; return the proof of a new version."""
    if tried == "open":
        return ledger.open_account(terms(block="2024-Q4"))
    if tried.startswith("return "):
        return ledger.return_charge(tried.removeprefix("return "))
    if tried == "run-1":
        ledger.reserve(request("run-1"))
        return open_grant(ledger, "run-1").draw(MarginalQuery(Counted(np.zeros(3, np.int64)).handle, HALF), key="a")
    key, source = ("run-5", "copy") if tried == "copy" else (tried, SOURCE)
    ledger.reserve(request(key, noise=SMALL, source=source))
    open_grant(ledger, key)
    ledger.allocate_version(key)
    record_publication(ledger, key, "f" * 64)
    return ledger.prove(key, SIGNER)


def seen_of(place: Place) -> list[SignedCheckpoint]:
    rows = journal_rows(place)
    return [seen_by(rows, FIRST), seen_by(rows, SECOND, "other v1")]


def proof_fails(proof: object, before: SignedCheckpoint) -> bool:
    """Check a proof as `verify` does, beside the version before."""
    read, findings = read_statement(Proof, json.loads(json.dumps(proof)), where="PROOF.json")
    assert read is not None
    findings += check_inclusion(read, public_key=KEY, where="PROOF.json")
    last = SimpleNamespace(head=before)
    return bool(findings + check_succession(read, last, where="PROOF.json", earlier="v1"))  # type: ignore[arg-type]


def test_a_ledger_that_nobody_edited_is_refused_by_nobody(edited: Place, monkeypatch: pytest.MonkeyPatch):
    """The case in which no column may say anything."""
    assert who_sees(edited, Edit("nothing", lambda place: None, frozenset()), monkeypatch) == set()


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.name)
def test_an_edit_of_the_database_is_seen_by_whom_the_manual_says(
    edited: Place, edit: Edit, monkeypatch: pytest.MonkeyPatch
):
    assert who_sees(edited, edit, monkeypatch) == edit.seen


def who_sees(place: Place, edit: Edit, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    monkeypatch.setattr(books, "EVERY", 2)  # so that a ledger of 13 entries begins at its signed statement
    published = seen_of(place)
    edit.act(place)
    published = published if edit.store else seen_of(place)
    seen, proof = set(), None
    reader = Ledger(place.url, draws=place.folder / "draws", public_key=KEY)
    place.opened.append(reader)
    if reader.verify(published, public_key=KEY):
        seen.add(HISTORY)
    ledger = Ledger(place.url, draws=place.folder / "draws", signer=SIGNER)
    place.opened.append(ledger)
    try:
        proof = run(ledger, edit.tried)
    except LedgerCorrupt:
        seen.add(RUN)
    if proof is not None and edit.tried == "run-5" and proof_fails(proof, published[0]):
        seen.add(VERIFY)
    return seen


def test_the_manual_s_table_is_what_was_tried():
    """Every edit stands in docs/operate.md once, with the same marks."""
    lines = [line.strip().strip("|").split("|") for line in DOCS.read_text().splitlines() if line.startswith("| ")]
    told = {cells[0].strip(): [cell.strip() for cell in cells[1:]] for cells in lines if len(cells) == 5}
    for edit in EDITS:
        marks = ["yes" if who in edit.seen else "" for who in (RUN, HISTORY, VERIFY)]
        alone = "" if edit.seen or "harmless" in edit.name else "yes"
        assert told[edit.name] == [*marks, alone], edit.name


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
def test_an_entry_with_a_key_too_few_or_too_many_is_corruption_to_each_reader(sqlite_place: Place, kind: str):
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


def test_the_keys_of_every_kind_of_entry_are_known():
    assert set(BODY_KEYS) == set(KINDS)


def test_a_charge_whose_request_in_the_database_lacks_a_field_is_corruption(sqlite_place: Place):
    grow(sqlite_place)
    sqlite_place.execute("UPDATE charges SET request = replace(request, '\"unit\"', '\"units\"')")
    with pytest.raises(LedgerCorrupt, match="cannot be read"):
        open_grant(sqlite_place.open_unseen(), "run-1")
