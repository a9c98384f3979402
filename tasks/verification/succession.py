"""What lies around a version: other versions of its release, `latest`, and the name of its own folder.

A version that lies beside this one is a witness if its proof is signed under the pinned key and its entries are
included under it. Held against the witnesses, in the order of the journal:
    1. the journal still begins with what it held at the checkpoint of the version before
    2. no account had less on it before this charge than after one that came before (but for charges that could still
       be given back then)
Whoever can put a folder beside a version cannot make it fail: what is no witness is named in a note, and fails where
it is verified itself. A folder that is called `vN` holds version N; `latest` that was asked for leads to a version
that lies beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from contracts.errors import Finding
from privacy.accounting.amounts import pico_to_text
from tasks.records.model.journal_statements import Proof
from tasks.records.model.manifest import Manifest
from tasks.records.model.statement import read_statement
from tasks.records.strict_json import printable, read_json
from tasks.storage.manifest import PROOF
from tasks.verification.files.folder import read_text_file
from tasks.verification.inclusion import (
    REWRITTEN,
    JournalledRun,
    check_inclusion,
    check_predecessors,
    check_succession,
    read_run,
)

LATEST: Final = "latest"
_VERSION: Final = re.compile(r"v([1-9][0-9]{0,8})")
_MOST_BESIDE: Final = 50
"""Folders of older versions, and of newer ones, that are looked at, the nearest first."""
_STALE: Final = (
    "latest leads to {latest}, although v{newest} lies beside it: an older version, unless v{newest} was withdrawn"
)
_MISNAMED: Final = "files of another version were put in its place: get the version that you want from its publisher"


@dataclass(frozen=True)
class Witness:
    """A version beside this one that the pinned key vouches for.

    Args:
        number: its number.
        proof: its proof.
        run: the run that its proof shows.
    """

    number: int
    proof: Proof
    run: JournalledRun


@dataclass
class Surroundings:
    """What lies around one version.

    Args:
        older: witnesses of smaller numbers, the nearest first.
        newer: witnesses of larger numbers, the nearest first.
        notes: what is no witness, and why; and what else whoever relies on the version should know.
    """

    older: list[Witness] = field(default_factory=list)
    newer: list[Witness] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def look_around(path: Path, manifest: Manifest, *, public_key: str, others: Sequence[str] = ()) -> Surroundings:
    """Read the proofs of the versions that lie beside one.

    Args:
        path: the version's folder, links resolved.
        manifest: its manifest; its own number and release.
        public_key: the key of the version.
        others: further keys that count for the versions beside it: the one before or after a change.
    """
    found = Surroundings()
    numbers = sorted((int(name[1]), each) for each in _siblings(path) if (name := _VERSION.fullmatch(each.name)))
    beside = [(number, each) for number, each in numbers if each.name != path.name]
    older = [pair for pair in reversed(beside) if pair[0] < manifest.version]
    newer = [pair for pair in beside if pair[0] > manifest.version]
    for pairs, witnesses in ((older, found.older), (newer, found.newer)):
        for number, folder in pairs[:_MOST_BESIDE]:
            seen = _witness(folder, number, manifest.release, public_key)
            for key in others:
                seen = seen if isinstance(seen, Witness) else _witness(folder, number, manifest.release, key)
            if isinstance(seen, Witness):
                witnesses.append(seen)
            else:
                found.notes.append(f"v{number}, which lies beside this version, was not asked: {seen}")
        if len(pairs) > _MOST_BESIDE:
            found.notes.append(f"of {len(pairs)} versions on one side only the nearest {_MOST_BESIDE} were asked")
    return found


def _siblings(folder: Path) -> list[Path]:
    try:
        return [each for each in folder.parent.iterdir() if each.is_dir()]
    except OSError:
        return []


def _witness(folder: Path, number: int, release: str, public_key: str) -> Witness | str:
    """Read a version's proof; a text says why it is no witness."""
    data, findings = read_text_file(folder, PROOF)
    value, wrong = (None, findings) if data is None else read_json(data, where=PROOF)
    proof, unread = (None, wrong) if value is None else read_statement(Proof, value, where=PROOF)
    if proof is None:
        return f"its {PROOF} cannot be read: {printable(unread[0].field)}, {printable(unread[0].found)}"
    run, unread = read_run(proof, where=PROOF)
    findings = check_inclusion(proof, public_key=public_key, where=PROOF) + unread
    if run is None or findings:
        return f"its {PROOF} does not hold under the pinned key: {printable(findings[0].field)}"
    if (run.published.release, run.published.number) != (release, number):
        return f"it holds {printable(run.published.release)} v{run.published.number}"
    return Witness(number, proof, run)


def check_before(proof: Proof, run: JournalledRun, around: Surroundings, *, where: str) -> list[Finding]:
    """Hold a version's proof against the witnesses, and against the checkpoints that its own entry names."""
    findings = list(_other_pasts(proof, run, around.older, where))[:1]
    # A version that was finished or restored later than this one has seen more of its journal: it is no witness.
    before = next((each for each in around.older if not _saw_more(each.proof, proof)), None)
    if before is not None and not findings:
        named = f"{run.published.release} v{before.number}"
        findings += check_succession(proof, before.proof, where=where, earlier=named)
    if findings:
        return findings
    findings += _balances(run, [*around.older, *around.newer], where)
    return findings + check_predecessors(proof, run.published, where=where)


def _other_pasts(proof: Proof, run: JournalledRun, witnesses: Sequence[Witness], where: str) -> Iterator[Finding]:
    """Yield each older version whose proof has another entry at a place of this one; a journal has one."""
    own = {each.entry.sequence: each.entry for each in proof.entries}
    for witness in witnesses:
        others = {each.entry.sequence: each.entry for each in witness.proof.entries}
        place = min((at for at in own.keys() & others.keys() if own[at] != others[at]), default=None)
        if place is not None:
            named = f"{run.published.release} v{witness.number}"
            found, allowed = "another entry", f"the entry that the proof of {named} has there"
            yield Finding(where, f"entries, sequence {place}", found, allowed, REWRITTEN)


def _saw_more(before: Proof, proof: Proof) -> bool:
    return before.head.size >= proof.head.size


def _balances(run: JournalledRun, witnesses: Sequence[Witness], where: str) -> Iterator[Finding]:
    """Yield each account that had less on it before this charge than after the charge before.

    The order is that of the journal, for versions may be numbered in another order than they were charged.
    """
    charged_before = (each for each in witnesses if each.run.reserved_at < run.reserved_at)
    earlier = sorted(charged_before, key=_reserved, reverse=True)
    for part in run.charge.parts:
        pairs = [
            (each, taken) for each in earlier for taken in each.run.charge.parts if taken.account == part.account
        ]
        if not pairs:
            continue
        witness, last = pairs[0]
        least = last.after - last.returnable
        if part.before < least:
            allowed = f"at least {pico_to_text(least)}, what v{witness.number} left on it"
            name = printable(f"account {part.account}, before")
            yield Finding(where, name, pico_to_text(part.before), allowed, REWRITTEN)


def _reserved(witness: Witness) -> int:
    return witness.run.reserved_at


def check_names(named: Path, path: Path, manifest: Manifest, around: Surroundings) -> list[Finding]:
    """Check the folder's name, and `latest`, whether it was named or only lies beside; notes say what is no fault.

    Args:
        named: the folder as it was named.
        path: where that leads.
        manifest: the version's manifest.
        around: what lies beside it.
    """
    own = f"{printable(manifest.release)} v{manifest.version}"
    findings = []
    called = _VERSION.fullmatch(path.name)
    if called and int(called[1]) != manifest.version:
        found = f"{printable(path.name)}, which holds {own}"
        findings.append(Finding(".", "the folder's name", found, f"v{manifest.version}", _MISNAMED))
    asked = named.absolute().name == LATEST
    link = named.absolute() if asked else path.parent / LATEST
    target = _resolved(link) if link.is_symlink() else None
    newest = max((each.number for each in around.newer), default=manifest.version)
    if asked and newest > manifest.version:
        around.notes.append(_STALE.format(latest=f"v{manifest.version}", newest=newest))
    if target is None:
        return findings
    if target.parent != _resolved(link.parent) and asked and _holds_versions(link.parent):
        allowed = f"a version of {printable(link.parent.name)}, which lies beside it"
        findings.append(Finding(LATEST, "where it leads", f"{own}, elsewhere", allowed, _MISNAMED))
    elif not asked and target.parent != path.parent:
        around.notes.append(f"latest, beside this version, leads elsewhere: to {printable(str(target))}")
    elif not asked and (led := _VERSION.fullmatch(target.name)) and int(led[1]) < newest:
        around.notes.append(_STALE.format(latest=target.name, newest=newest))
    return findings


def _resolved(path: Path) -> Path | None:
    try:
        return path.resolve(strict=True)
    except (OSError, RuntimeError):
        return None


def _holds_versions(folder: Path) -> bool:
    return any(_VERSION.fullmatch(each.name) for each in _siblings(folder / LATEST))
