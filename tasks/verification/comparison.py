"""Do two folders tell of one journal? Without a ledger: only what the publisher's key signed is held against itself.

Each folder is a version, a release or a store. Of every proof in it that holds under the key, this is collected:
    the manifest of each release and number         two of them: two versions of one number
    the entry at each place of the journal          two of them: two journals of one key
    the root of each size, earlier ones too         two of them: two journals of one key
Two proofs of one folder are held against each other, too. Each finding rests on two signatures of the key: the
publisher cannot deny it. Nothing found is no proof that there is one journal; where no proof leads from one folder's
checkpoint to the other's, a note says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

from contracts.errors import Finding, SpecRefused
from privacy.ledger.entries import Entry
from tasks.records.model.journal_statements import EntryStatement, Proof
from tasks.records.model.statement import read_statement
from tasks.records.strict_json import printable, read_json
from tasks.storage.manifest import PROOF
from tasks.verification.files.folder import read_text_file
from tasks.verification.inclusion import check_inclusion, read_run
from tasks.verification.keys import key_in_use

_MOST: Final = 1_000
_TWO_VERSIONS: Final = "two versions were signed under one number: show both to the publisher, use neither"
_TWO_JOURNALS: Final = "the publisher showed two journals: use neither folder, and show both to others who verify"


@dataclass
class FolderTestimony:
    """What the proofs of one folder say under the key.

    Args:
        name: the folder, as it was named.
        manifests: by release and number, the SHA-256 of its manifest.
        entries: by place in the journal, the entry's leaf hash.
        roots: by size of the journal, its root; earlier checkpoints that the proofs lead to are among them.
        tops: sizes of the checkpoints that the proofs themselves carry.
        contradictions: what its own proofs contradict each other in, the first of each kind.
        notes: what was left out, and why.
    """

    name: str
    manifests: dict[tuple[str, int], str] = field(default_factory=dict)
    entries: dict[int, str] = field(default_factory=dict)
    roots: dict[int, str] = field(default_factory=dict)
    tops: set[int] = field(default_factory=set)
    contradictions: dict[str, Finding] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def compare_folders(first: Path, second: Path, *, public_key: str) -> tuple[list[Finding], list[str]]:
    """Hold two folders against each other.

    Args:
        first, second: a version, a release or a store each.
        public_key: the publisher's key that the checker pins.
    Returns:
        tuple: what each, and then the two, contradict each other in, and notes.
    Raises:
        SpecRefused: a folder has no proof that holds under the key.
    """
    one, other = testimony(first, public_key), testimony(second, public_key)
    findings = [
        *one.contradictions.values(),
        *other.contradictions.values(),
        *_contradictions(one, other, one.manifests, other.manifests, "manifest", _TWO_VERSIONS),
        *_contradictions(one, other, one.entries, other.entries, "journal entry", _TWO_JOURNALS),
        *_contradictions(one, other, one.roots, other.roots, "journal of size", _TWO_JOURNALS),
    ]
    notes = [*one.notes, *other.notes]
    if not findings and not (one.tops & other.roots.keys() or other.tops & one.roots.keys()):
        notes.append("no proof leads from a checkpoint of one folder to one of the other: ask the public journal")
    return [*dict.fromkeys(findings)], notes


def testimony(folder: Path, public_key: str) -> FolderTestimony:
    """Collect what the proofs of a folder say under the key.

    Raises:
        SpecRefused: there is none that holds.
    """
    found = FolderTestimony(printable(str(folder)))
    for place in islice(_versions(folder), _MOST):
        _hear(found, place, public_key)
    if not found.tops:
        allowed, remedy = (
            "proofs that hold under the pinned key",
            "name a version, release or store of the publisher",
        )
        seen = "; ".join(found.notes[:3]) or "no PROOF.json"
        raise SpecRefused([Finding(found.name, "folder", seen, allowed, remedy)])
    return found


def _versions(folder: Path) -> Iterator[Path]:
    """Yield the version folders in a version, a release or a store; links are not followed."""
    for pattern in (PROOF, f"v*/{PROOF}", f"*/v*/{PROOF}"):
        yield from (path.parent for path in sorted(folder.resolve().glob(pattern)) if not path.parent.is_symlink())


def _hear(found: FolderTestimony, place: Path, public_key: str) -> None:
    """Take in one proof that holds, or note why it does not."""
    data, _ = read_text_file(place, PROOF)
    value = None if data is None else read_json(data, where=PROOF)[0]
    proof = None if value is None else read_statement(Proof, value, where=PROOF)[0]
    used = key_in_use(place, pinned=public_key)
    run = None if proof is None else read_run(proof, where=PROOF)[0]
    wrong = [] if proof is None else [*used.findings, *check_inclusion(proof, public_key=used.key, where=PROOF)]
    if proof is None or run is None or wrong:
        why = wrong[0].field if wrong else "it cannot be read"
        found.notes.append(f"{printable(str(place))} was left out: its proof does not hold ({printable(why)})")
        return
    published = run.published
    roots = [*((each.size, each.root) for each in proof.earlier), (proof.head.size, proof.head.root)]
    own = ((published.release, published.number), published.manifest)
    _take(found, place, found.manifests, [own], "manifest", _TWO_VERSIONS)
    entries = [(each.entry.sequence, _hash(each.entry)) for each in proof.entries]
    _take(found, place, found.entries, entries, "journal entry", _TWO_JOURNALS)
    _take(found, place, found.roots, roots, "journal of size", _TWO_JOURNALS)
    found.tops.add(proof.head.size)


def _take(
    found: FolderTestimony,
    place: Path,
    known: dict[Any, str],
    said: Iterable[tuple[Any, str]],
    what: str,
    remedy: str,
) -> None:
    """Take in what one proof says; what the folder's other proofs say otherwise is a contradiction."""
    for key, value in said:
        before = known.setdefault(key, value)
        if before != value:
            allowed = f"{before[:16]}…, as another version in {found.name} says"
            where, named = printable(str(place)), f"{what} {printable(_named(key))}"
            found.contradictions.setdefault(what, Finding(where, named, f"{value[:16]}…", allowed, remedy))


def _named(key: Any) -> str:
    return f"{key[0]} v{key[1]}" if isinstance(key, tuple) else str(key)


def _hash(entry: EntryStatement) -> str:
    return Entry(**entry.model_dump()).hash


def _contradictions(
    one: FolderTestimony,
    other: FolderTestimony,
    first: Mapping[Any, str],
    second: Mapping[Any, str],
    what: str,
    remedy: str,
) -> Iterator[Finding]:
    """Yield the first place at which both folders say something, and not the same."""
    for place in sorted(place for place in first if place in second and first[place] != second[place])[:1]:
        found, allowed = f"{second[place][:16]}…", f"{first[place][:16]}…, as in {one.name}"
        yield Finding(other.name, f"{what} {printable(_named(place))}", found, allowed, remedy)
