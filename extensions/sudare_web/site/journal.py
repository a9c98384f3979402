"""The pages of the journal: its entries with search, one entry with its proof, and the signed checkpoints."""

from __future__ import annotations

from typing import Any

from contracts.canonical import canonical_json
from privacy.ledger.entries import KINDS, SEALED, Entry
from privacy.ledger.journal.checkpoints import signed_head
from privacy.ledger.journal.merkle import root_from_proof
from privacy.ledger.journal.search import EntryFilter, Inclusion, entries, entry_at, prove
from privacy.ledger.journal.signing import key_id
from privacy.ledger.view import CheckpointLine
from sudare_web.site.asking import PAGE, NotThere, Page, Site
from sudare_web.site.entry_amounts import readable
from sudare_web.site.journal_story import story

_LINE_WORDS = ("release", "number", "name", "account", "key", "reason", "population", "run_key")


def journal_page(site: Site, *, filters: dict[str, str | None], before: int | None) -> Page:
    """List entries, the newest first: all, or those of a kind, about a release, an account or a run.

    A sealed entry shows no more than its number and its hash, and no search finds it.
    """
    asked = {name: value or None for name, value in filters.items()}
    narrowed = any(asked.values())
    with site.view.reading() as connection:
        if asked["kind"] in SEALED or (asked["kind"] is not None and asked["kind"] not in KINDS):
            found: tuple[Entry, ...] = ()
        else:
            search = EntryFilter(**asked, without=SEALED if narrowed else ())
            found = entries(connection, search, before=before, limit=PAGE + 1)
    told = {
        "entries": [_line(entry) for entry in found[:PAGE]],
        "story": story(site, found[:PAGE], by_run=asked["run"] is None and asked["kind"] is None),
        "filter": asked,
        "kinds": [kind for kind in KINDS if kind not in SEALED],
        "next": found[PAGE - 1].sequence if len(found) > PAGE else None,
        "size": site.view.size(),
        "first_page": before is None,
    }
    return Page("journal", told)


def entry_page(site: Site, sequence: int) -> Page:
    """Show one entry, and the proof that it is under the last checkpoint."""
    with site.view.reading() as connection:
        entry = entry_at(connection, sequence)
        if entry is None:
            raise NotThere
        proof = prove(connection, sequence)
    sealed = entry.kind in SEALED
    told: dict[str, Any] = {
        "sequence": entry.sequence,
        "hash": entry.hash,
        "previous": entry.previous,
        "sealed": sealed,
        "entry": None if sealed else entry.to_json(),
        "logged": entry.logged.decode(),
        "canonical": None if sealed else canonical_json(entry.to_json()).decode(),
        "proof": None if proof is None else _proof(site, entry, proof),
        "size": site.view.size(),
    }
    if not sealed:
        told["about"] = _about(site, entry)
        told["amounts"] = readable(entry, lambda account: _cap(site, account))
    return Page("entry", told)


def _cap(site: Site, account: str) -> int | None:
    state = site.view.account(account)
    return None if state is None else state.cap


def checkpoints_page(site: Site, *, before: int | None) -> Page:
    """List the signed checkpoints, the largest first, each with its signature checked."""
    found = site.view.checkpoints(before=before, limit=PAGE + 1)
    told = {
        "checkpoints": [
            {**vars(line), "holds": _signed(site, line), "our_key": line.key_id == key_id(site.public_key)}
            for line in found[:PAGE]
        ],
        "ledger": site.ledger_id,
        "key_id": key_id(site.public_key),
        "public_key": site.public_key,
        "size": site.view.size(),
        "next": found[PAGE - 1].size if len(found) > PAGE else None,
        "first_page": before is None,
    }
    return Page("checkpoints", told)


def _line(entry: Entry) -> dict[str, Any]:
    """Return one line of the journal."""
    if entry.kind in SEALED:
        return {"sequence": entry.sequence, "hash": entry.hash, "sealed": True, "kind": None, "at": None, "says": {}}
    says = {word: str(entry.body[word])[:200] for word in _LINE_WORDS if isinstance(entry.body.get(word), str | int)}
    told = {"sequence": entry.sequence, "hash": entry.hash, "sealed": False}
    return {**told, "kind": entry.kind, "at": entry.at, "says": says}


def _about(site: Site, entry: Entry) -> dict[str, Any] | None:
    """Return the version that an entry's run was published as, where it was."""
    run_key = entry.body.get("run_key")
    if not isinstance(run_key, str):
        return None
    version = site.view.versions_of_runs([run_key]).get(run_key)
    if version is None or site.folders.of(version).standing == "coming":
        return {"run": run_key, "release": None, "version": None}
    return {"run": run_key, "release": version.release, "version": version.number}


def _proof(site: Site, entry: Entry, proof: Inclusion) -> dict[str, Any]:
    """Return an inclusion proof, worked out again: where the path leads, and whether the signature holds."""
    line = CheckpointLine(proof.size, proof.root, proof.at, proof.key_id, "", proof.note)
    reached = root_from_proof(entry.hash, entry.sequence, proof.size, proof.path)
    return {**vars(proof), "path": list(proof.path), "leads": reached == proof.root, "holds": _signed(site, line)}


def _signed(site: Site, line: CheckpointLine) -> bool:
    """Say whether this ledger's key signed a checkpoint."""
    try:
        head = signed_head(line.note, site.public_key)
    except ValueError:
        return False
    return (head.size, head.root) == (line.size, line.root)
