"""Mutations of a published version, of every kind that a stranger could make: each must be refused and named.

Nobody here has the publisher's key. What somebody who has it can do is in tests/tasks/verification/forgeries.py.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from benchmarks._mutation import MANIFEST, PROOF, RECORD, Mutation, Pristine, proof_with, written
from benchmarks._statement_mutations import forks, from_versions, rewrites, sign_manifest, sign_proof
from contracts.canonical import readable_json
from privacy.ledger.journal.notes import read_checkpoint
from privacy.ledger.journal.signing import Signer

OTHER_KEY = Signer(bytes(range(100, 132)))
_ANY_FILE: Final[tuple[set[int], ...]] = ({2}, {3}, {4})
KINDS: Final[dict[str, tuple[str, tuple[set[int], ...]]]] = {
    "flip a byte": ("one byte of a published file is another", _ANY_FILE),
    "drop a file": ("a published file is gone", ({1},)),
    "swap two files": ("two published files have each other's content", _ANY_FILE),
    "cut or lengthen a file": ("a published file is shorter or longer than it was", _ANY_FILE),
    "add a file": ("the folder holds a file that was not published", ({1},)),
    "a link in the place of a file": ("a published file is a link to something else", ({1},)),
    "edit a number in the record": ("a number in the record is another", ({3},)),
    "edit a number, sign with another key": (
        "a number in the record is another, and a stranger's key signed manifest and proof",
        ({2, 4},),
    ),
    "sign with another key": ("a stranger's key signed the manifest, the proof or both", ({4},)),
    "truncate the journal": ("the proof shows less of the journal, or in another order, than was signed", ({4},)),
    "rewrite a value of JSON": ("a value of a JSON file is another, in canonical form", _ANY_FILE),
    "a file of another version": ("a file is that of another version of the publisher", ({1}, {3}, {4})),
    "replay what another version has": ("several files are those of another version", ({1}, {3})),
    "a fork of the journal, or a second key": (
        "a stranger's key signed the journal's head or the manifest, alone or beside the publisher's",
        ({2}, {4}),
    ),
}
"""Of each kind, the fact that it falsifies, and sets of rules: each mutation breaks all rules of one of them."""


def mutations(
    version: Pristine,
    *,
    flips: int,
    edits: int,
    seed: int,
    others: Mapping[str, Mapping[str, bytes]] = MappingProxyType({}),
) -> Iterator[Mutation]:
    """Yield mutations of every kind.

    Args:
        version: the version.
        flips: how many single bytes are flipped; half drawn over all bytes, half over files first.
        edits: how many numbers of the record, and as many values of any JSON, are changed.
        seed: of what is drawn.
        others: files of other versions of the publisher, by what these are called.
    """
    rng = random.Random(seed)
    yield from _flips(version, flips, rng)
    yield from _drops(version)
    yield from _swaps(version)
    yield from _cuts(version, rng)
    yield from _additions(version)
    yield from _edits(version, edits, rng)
    yield from _keys(version)
    yield from _truncations(version)
    yield from rewrites(version, edits, rng)
    yield from from_versions(version, others)
    yield from forks(version)


def _flips(version: Pristine, number: int, rng: random.Random) -> Iterator[Mutation]:
    names = sorted(version.files)
    sizes = [len(version.files[name]) for name in names]
    for count in range(number):
        [name] = rng.choices(names, sizes if count % 2 else None)
        place, mask = rng.randrange(len(version.files[name])), rng.randrange(1, 256)
        changed = bytearray(version.files[name])
        changed[place] ^= mask
        yield written("flip a byte", f"byte {place} of {name} xor {mask}", name, bytes(changed))


def _drops(version: Pristine) -> Iterator[Mutation]:
    for name in sorted(version.files):
        yield Mutation("drop a file", name, lambda folder, name=name: (folder / name).unlink(), frozenset({name}))


def _swaps(version: Pristine) -> Iterator[Mutation]:
    """Exchange the contents of each two files that differ."""
    for one, other in combinations(sorted(version.files), 2):
        first, second = version.files[one], version.files[other]
        if first == second:
            continue

        def swap(folder: Path, one: str = one, other: str = other) -> None:
            content = (folder / one).read_bytes()
            (folder / one).write_bytes((folder / other).read_bytes())
            (folder / other).write_bytes(content)

        yield Mutation("swap two files", f"{one} and {other}", swap, frozenset({one, other}))


def _cuts(version: Pristine, rng: random.Random) -> Iterator[Mutation]:
    """Shorten and lengthen every file."""
    for name, content in sorted(version.files.items()):
        at = rng.randrange(len(content))
        forms = {"empty": b"", "half": content[: len(content) // 2], f"to {at} bytes": content[:at]}
        forms |= {"without its last byte": content[:-1], "a byte more": content + b"\n", "twice": content * 2}
        for how, changed in forms.items():
            if changed != content:
                yield written("cut or lengthen a file", f"{name}, {how}", name, changed)


def _additions(version: Pristine) -> Iterator[Mutation]:
    """Add a file, a folder, a link in the place of a file."""
    for name in ("extra.txt", "data/extra.parquet", "record.fr.html", "SIGNED.json"):
        yield written("add a file", name, name, b"more\n")
    for name in sorted(version.files):
        if "/" in name:

            def link(folder: Path, name: str = name) -> None:
                (folder / name).unlink()
                (folder / name).symlink_to("/dev/null")

            yield Mutation("a link in the place of a file", name, link, frozenset({name}))


def _edits(version: Pristine, number: int, rng: random.Random) -> Iterator[Mutation]:
    """Change numbers in the record: alone, and with manifest and proof signed again under another key."""
    record = json.loads(version.files[RECORD])
    places = list(_numbers(record, ()))
    for path in rng.sample(places, min(number, len(places))):
        told = ".".join(map(str, path))
        changed = readable_json(_edited(record, path, rng))
        yield written("edit a number in the record", told, RECORD, changed)

        def signed(folder: Path, changed: bytes = changed) -> None:
            (folder / RECORD).write_bytes(changed)
            sign_manifest(folder, OTHER_KEY)
            sign_proof(folder, OTHER_KEY)

        yield Mutation("edit a number, sign with another key", told, signed, frozenset({MANIFEST, PROOF}))


def _numbers(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    """Yield where numbers stand, as numbers or as text."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _numbers(part, (*path, key))
    elif isinstance(value, list):
        for place, part in enumerate(value):
            yield from _numbers(part, (*path, place))
    elif _is_number(value):
        yield path


def _is_number(value: Any) -> bool:
    """Say whether a value is a number, or reads as one."""
    if isinstance(value, str):
        return value[:1].isdigit() and value.replace(".", "", 1).isdigit()
    return isinstance(value, int | float) and not isinstance(value, bool)


def _edited(record: Any, path: tuple[str | int, ...], rng: random.Random) -> Any:
    """Return the record with one number changed."""
    whole = json.loads(json.dumps(record))
    part = whole
    for step in path[:-1]:
        part = part[step]
    old = part[path[-1]]
    if isinstance(old, str):
        place = rng.choice([at for at, letter in enumerate(old) if letter.isdigit()])
        digit = str((int(old[place]) + rng.randrange(1, 10)) % 10)
        part[path[-1]] = old[:place] + digit + old[place + 1 :]
    else:
        part[path[-1]] = old + rng.choice((-1, 1, 10, 1000))
    return whole


def _keys(version: Pristine) -> Iterator[Mutation]:
    """Sign with another key: the manifest, the proof, both; change a file and sign; claim the publisher's key id."""
    own = json.loads(version.files[MANIFEST])["signatures"][0]["keyid"]

    def both(folder: Path) -> None:
        sign_manifest(folder, OTHER_KEY)
        sign_proof(folder, OTHER_KEY)

    def named(folder: Path) -> None:
        sign_manifest(folder, OTHER_KEY, name=own)

    kind = "sign with another key"
    yield Mutation(kind, "the manifest", lambda folder: sign_manifest(folder, OTHER_KEY), frozenset({MANIFEST}))
    yield Mutation(kind, "the proof", lambda folder: sign_proof(folder, OTHER_KEY), frozenset({PROOF}))
    yield Mutation(kind, "both", both, frozenset({MANIFEST, PROOF}))
    yield Mutation(kind, "the manifest, under the publisher's key id", named, frozenset({MANIFEST}))
    for name in sorted(set(version.files) - {MANIFEST, PROOF}):

        def spoilt(folder: Path, name: str = name) -> None:
            (folder / name).write_bytes(version.files[name] + b" ")
            both(folder)

        yield Mutation(kind, f"both, after a change of {name}", spoilt, frozenset({MANIFEST, PROOF}))


def _truncations(version: Pristine) -> Iterator[Mutation]:
    """Shorten the journal that the proof shows: entries, their paths, the checkpoint."""
    proof = json.loads(version.files[PROOF])
    entries = proof["entries"]
    for number in range(len(entries)):
        yield proof_with("truncate the journal", f"the first {number} entries only", proof, entries=entries[:number])
        others = entries[:number] + entries[number + 1 :]
        yield proof_with("truncate the journal", f"without entry {number}", proof, entries=others)
        for length in range(len(entries[number]["path"])):
            shorter = [dict(each) for each in entries]
            shorter[number]["path"] = shorter[number]["path"][:length]
            yield proof_with("truncate the journal", f"path {number} cut to {length}", proof, entries=shorter)
    for one, other in combinations(range(len(entries)), 2):
        turned = list(entries)
        turned[one], turned[other] = turned[other], turned[one]
        yield proof_with("truncate the journal", f"entries {one} and {other} exchanged", proof, entries=turned)
    size = read_checkpoint(proof["checkpoint"])[1].size
    for by in (1, 2, size - 1):
        smaller = proof["checkpoint"].replace(f"\n{size}\n", f"\n{size - by}\n", 1)
        yield proof_with("truncate the journal", f"a checkpoint {by} smaller", proof, checkpoint=smaller)
