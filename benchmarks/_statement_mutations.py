"""Mutations of what is signed: values rewritten, files of other versions, forks and second keys.

Nobody here has the publisher's key.
"""

from __future__ import annotations

import json
import random
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Any

from benchmarks._mutation import MANIFEST, PROOF, RECORD, Mutation, Pristine, proof_with, written
from contracts.canonical import canonical_json, readable_json
from privacy.ledger.journal.notes import SignedNote, read_checkpoint, read_note
from privacy.ledger.journal.signing import Signer, enveloped
from tasks.records.model.manifest import manifest_of, stated_release


def rewrites(version: Pristine, number: int, rng: random.Random) -> Iterator[Mutation]:
    """Change one value anywhere in a JSON file, the signed statement too, and write it in its canonical form."""
    for _ in range(number):
        name = rng.choice((MANIFEST, PROOF, RECORD, "croissant.json"))
        value = json.loads(version.files[name])
        inner = name == MANIFEST and rng.random() < 0.8
        part = json.loads(b64decode(value["payload"])) if inner else value
        path = rng.choice(list(_leaves(part, ())))
        _change(part, path, rng)
        if inner:
            value["payload"] = b64encode(canonical_json(part)).decode()
        told = f"{name}: {'.'.join(map(str, path))}"
        yield written("rewrite a value of JSON", told, name, readable_json(value))


def _leaves(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    """Yield where values without parts stand."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, part in parts:
        yield from _leaves(part, (*path, step))
    if not isinstance(value, dict | list):
        yield path


def _change(value: Any, path: tuple[str | int, ...], rng: random.Random) -> None:
    """Put another value of the same kind in a place."""
    for step in path[:-1]:
        value = value[step]
    old = value[path[-1]]
    if isinstance(old, str) and old:
        at = rng.randrange(len(old))
        value[path[-1]] = old[:at] + rng.choice("0123456789abcdefXYZ+/ ".replace(old[at], "")) + old[at + 1 :]
    elif isinstance(old, bool) or old is None or old == "":
        value[path[-1]] = not old
    else:
        value[path[-1]] = old + rng.choice((-1, 1, 7))


def from_versions(version: Pristine, others: Mapping[str, Mapping[str, bytes]]) -> Iterator[Mutation]:
    """Put one or several files of another version into this one: a replay of what was signed once."""
    for whose, files in others.items():
        shared = [name for name in sorted(files) if version.files.get(name, files[name]) != files[name]]
        for name in shared:
            yield written("a file of another version", f"{name} of {whose}", name, files[name])
        for one, other in combinations(shared, 2):
            if {one, other} & {MANIFEST, PROOF}:
                yield _several("replay what another version has", whose, {name: files[name] for name in (one, other)})
        for left in sorted(version.files):
            taken = {name: content for name, content in files.items() if name in version.files and name != left}
            if version.files[left] != files.get(left, b""):
                yield _several("replay what another version has", f"{whose}, all but {left}", taken, also=left)


def _several(kind: str, told: str, files: Mapping[str, bytes], *, also: str | None = None) -> Mutation:
    def write(folder: Path) -> None:
        for name, content in files.items():
            (folder / name).write_bytes(content)

    named = {*files, *(() if also is None else (also,))}
    return Mutation(kind, f"{told}: {', '.join(sorted(files))}"[:120], write, frozenset({*named, MANIFEST, PROOF}))


def forks(version: Pristine) -> Iterator[Mutation]:
    """Sign as if with the publisher's name; leave the publisher's line beside another text, or another's alone."""
    proof = json.loads(version.files[PROOF])
    note, head = read_checkpoint(proof["checkpoint"])
    other = Signer(bytes(range(50, 82)), head.origin)
    kind = "a fork of the journal, or a second key"
    heads = [replace(head, size=head.size + by) for by in range(1 - head.size, 40) if by]
    heads += [replace(head, root=f"{number:064x}") for number in range(40)]
    heads += [replace(head, origin=f"{head.origin}{number}") for number in range(20)]
    for each in heads:
        signed = other.note(each.text)
        for told, made in (
            ("another key's line", signed),
            ("the publisher's line", SignedNote(each.text, note.signatures)),
            ("both lines", signed.signed_by(*note.signatures)),
        ):
            what = f"{told} under {each.size} entries, {each.root[:8]}, {each.origin}"
            yield proof_with(kind, what, proof, checkpoint=made.to_bytes().decode())
    envelope = json.loads(version.files[MANIFEST])
    mine = enveloped(b64decode(envelope["payload"]), other)["signatures"]
    for told, signatures in (("alone", mine), ("beside the publisher's", envelope["signatures"] + mine)):
        changed = readable_json({**envelope, "signatures": signatures})
        yield Mutation(
            kind,
            f"the manifest under another key, {told}",
            lambda folder, changed=changed: (folder / MANIFEST).write_bytes(changed),
            frozenset({MANIFEST, PROOF}),
        )


def sign_manifest(folder: Path, signer: Signer, *, name: str | None = None) -> None:
    """State the files as they stand, and sign, under the signer's key id or another name."""
    predicate = manifest_of(json.loads((folder / MANIFEST).read_bytes())).predicate.model_dump()
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in (MANIFEST, PROOF):
            content = path.read_bytes()
            files[path.relative_to(folder).as_posix()] = {
                "sha256": sha256(content).hexdigest(),
                "bytes": len(content),
            }
    predicate["record"] = files[RECORD]["sha256"]
    envelope = enveloped(stated_release(files, predicate), signer)
    envelope["signatures"][0]["keyid"] = name or envelope["signatures"][0]["keyid"]
    (folder / MANIFEST).write_bytes(readable_json(envelope))


def sign_proof(folder: Path, signer: Signer) -> None:
    """Sign the checkpoint as it stands, in the place of the publisher's signature."""
    proof = json.loads((folder / PROOF).read_bytes())
    text = read_note(proof["checkpoint"].encode()).text
    (folder / PROOF).write_bytes(readable_json({**proof, "checkpoint": signer.note(text).to_bytes().decode()}))
