"""Forged versions: what a publisher who owns the signing key and the ledger can make look consistent."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from contracts.canonical import readable_json
from contracts.errors import SudareError
from privacy.ledger.entries import GENESIS, Entry
from privacy.ledger.journal.merkle import appended, inclusion_proof, root
from privacy.ledger.journal.notes import TreeHead, read_checkpoint
from privacy.ledger.journal.signing import Signer, enveloped
from tasks.records.descriptions.description_files import descriptions
from tasks.records.descriptions.descriptions import croissant
from tasks.records.model.journal_statements import Proof
from tasks.records.model.manifest import ReleasePredicate, manifest_of, stated_predicate, stated_release
from tasks.records.page.page import prepare, public_pages
from tasks.records.record import explain, published_explanation
from tests.worlds.versions import Version, broken, named

Json = dict[str, Any]
Change = Callable[[Any], object]


def load(path: Path) -> Json:
    value: Json = json.loads(path.read_bytes())
    return value


def edit(path: Path, change: Callable[[Json], object]) -> None:
    """Change a JSON file and write it in its canonical form again."""
    value = load(path)
    change(value)
    path.write_bytes(readable_json(value))


def forge(
    version: Version,
    *,
    record: Change = lambda record: None,
    journal: Change = lambda entries: None,
    manifest: Change = lambda manifest: None,
    signer: Signer | None = None,
) -> Version:
    """Change record and journal, then make every digest, chain and signature consistent again; return the version."""
    folder, signer = version.folder, signer or version.signer
    before = _told_of(folder)
    _restate_files(folder)
    edit(folder / "record.json", record)
    entries = [proven["entry"] for proven in load(folder / "PROOF.json")["entries"]]
    unchanged = json.dumps(entries)
    journal(entries)
    if _told_of(folder) != before or json.dumps(entries) != unchanged:
        sign_manifest(folder, signer)  # the words tell digests too
        describe_again(folder, entries)
    manifest_sha256 = sign_manifest(folder, signer, manifest)
    for entry in entries:
        if entry["kind"] == "version_published" and isinstance(entry["body"], dict):
            entry["body"]["manifest"] = manifest_sha256
            entry["body"]["earlier"] = []  # nothing was signed before in the journal that is made up here
    (folder / "PROOF.json").write_bytes(readable_json(prove(entries, signer)))
    return version


def as_forged(version: Version) -> Version:
    """Put a version under the journal that `forge` makes up, words and all, so that a forgery changes no more."""
    forge(version)
    with_words(version, lambda record: None)
    return version


def with_words(version: Version, change: Callable[[Json], object]) -> None:
    """Change the record, render pages and descriptions again, and sign everything again."""
    folder = version.folder
    edit(folder / "record.json", change)
    sign_manifest(folder, version.signer)
    explanation = published_explanation(lambda name: (folder / name).read_bytes())
    views = prepare(explanation, lambda name: (folder / name).read_bytes())
    for name, content in public_pages(explanation, views).items():
        (folder / name).write_bytes(content)
    (folder / "croissant.json").write_bytes(readable_json(croissant(explanation)))
    describe_again(folder)
    forge(version)


def _told_of(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in ("record.json", "croissant.json")]


def describe_again(folder: Path, entries: list[Json] | None = None) -> None:
    """Make the files that are made from the record again, as far as it can still be told."""
    record, proof, manifest = (load(folder / name) for name in ("record.json", "PROOF.json", "MANIFEST.json"))
    proof["entries"] = proof["entries"] if entries is None else [{"entry": entry, "path": []} for entry in entries]
    try:
        made = descriptions(explain(record, Proof.model_validate(proof), manifest_of(manifest)))
    except (
        ArithmeticError,
        AssertionError,
        AttributeError,
        LookupError,
        StopIteration,
        TypeError,
        ValueError,
        SudareError,
    ):
        return
    for name, content in made.items():
        (folder / name).write_bytes(content)


def prove(entries: list[Json], signer: Signer) -> Json:
    """Chain the entries into a journal of their own, and prove each under a signed checkpoint."""
    chained: list[Entry] = []
    for place, entry in enumerate(entries):
        previous = chained[-1].hash if chained else GENESIS
        chained.append(Entry(place, previous, entry["kind"], entry["at"], entry["body"]))
    frontier: tuple[str, ...] = ()
    completed: list[tuple[str, ...]] = []
    for size, made in enumerate(chained):
        frontier, subtrees = appended(frontier, size, made.hash)
        completed.append(subtrees)

    def node(level: int, index: int) -> str:
        return completed[((index + 1) << level) - 1][level - 1] if level else chained[index].hash

    size = len(chained)
    head = TreeHead(signer.verifier.name, size, root(frontier))
    return {
        "schema": "sudare-proof/1",
        "earlier": [],
        "keys": [],
        "entries": [{"entry": e.to_json(), "path": list(inclusion_proof(node, e.sequence, size))} for e in chained],
        "checkpoint": signer.note(head.text).to_bytes().decode(),
    }


def proof_head(proof: Json) -> TreeHead:
    return read_checkpoint(proof["checkpoint"])[1]


def with_head(proof: Json, signer: Signer, **changed: Any) -> None:
    proof["checkpoint"] = signer.note(replace(proof_head(proof), **changed).text).to_bytes().decode()


def sign_manifest(folder: Path, signer: Signer, change: Callable[[Json], object] = lambda manifest: None) -> str:
    """State and sign the files as they stand; return the SHA-256 of the new manifest."""
    stated = {**_predicate(folder), "files": {name: _statement(folder / name) for name in _names(folder)}}
    change(stated)
    content = readable_json(enveloped(stated_release(stated.pop("files"), stated), signer))
    (folder / "MANIFEST.json").write_bytes(content)
    return hashlib.sha256(content).hexdigest()


def _predicate(folder: Path) -> Json:
    """The predicate that fits the record, under the release and number of the manifest that is there."""
    there = manifest_of(load(folder / "MANIFEST.json")).predicate.model_dump()
    content = (folder / "record.json").read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    try:
        fitting = stated_predicate(json.loads(content), digest)
        ReleasePredicate.model_validate(fitting)
    except (AttributeError, LookupError, TypeError, ValueError):
        return {**there, "record": digest}
    return {**fitting, "release": there["release"], "version": there["version"]}


def _names(folder: Path) -> list[str]:
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    return sorted(set(names) - {"MANIFEST.json", "PROOF.json"})


def _statement(path: Path) -> Json:
    return {"sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "bytes": path.stat().st_size}


def _restate_files(folder: Path) -> None:
    """Write the data files' new digests into the catalogue entry."""

    def in_catalogue(catalogue: Json) -> None:
        for file in catalogue["distribution"]:
            file["sha256"] = _statement(folder / file["contentUrl"])["sha256"]

    edit(folder / "croissant.json", in_catalogue)


def restate_rows(folder: Path, name: str) -> None:
    """State in the record how many rows a Parquet file has now."""

    def change(record: Json) -> None:
        (file,) = (each for each in record["files"] if each["path"] == name)
        file["rows"] = pq.read_metadata(folder / name).num_rows

    edit(folder / "record.json", change)


def edit_table(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Change a Parquet file, and write it as it is published."""
    as_published(change(pq.read_table(path)), path)


def as_published(table: pa.Table, path: Path) -> None:
    """Write a Parquet file as versions hold it: the same compression, and dictionaries for labels alone."""
    labels = [field.name for field in table.schema if pa.types.is_dictionary(field.type)]
    pq.write_table(table, path, compression="zstd", use_dictionary=labels)


def set_cell(path: Path, column: str, row: int, value: Any) -> None:
    """Overwrite one value of a Parquet file; rows count from 0."""

    def change(table: pa.Table) -> pa.Table:
        place = table.column_names.index(column)
        values = table.column(column).to_numpy().copy()
        values[row] = value
        return table.set_column(place, table.schema.field(column), pa.array(values))

    edit_table(path, change)


def digest_of(path: Path, column: str) -> str:
    """SHA-256 of a column as the record states it."""
    values = pq.read_table(path).column(column).to_numpy()
    form = "<f8" if values.dtype == np.float64 else "<i8"
    return hashlib.sha256(values.astype(form).tobytes()).hexdigest()


def told(record: Json, path: str, value: Any) -> None:
    """Overwrite one of the publisher's declarations ("source.select", "fields.product.measured")."""
    part, _, name = path.partition(".")
    record["declarations"][part][name] = value


def nothing(_: Any) -> None:
    """Change nothing."""


def replay(change: Change) -> Change:
    return lambda record: change(record["replay"])


def both(*changes: Change) -> Change:
    def change(value: Any) -> None:
        for one in changes:
            one(value)

    return change


def assert_caught(
    version: Version, rules: set[int], says: str = "", *, where: str = "", field: str = "", alone: bool = False
) -> None:
    """Assert that `verify` passes none of these rules, that one of them has a finding, and what some finding says."""
    report = version.verify()
    assert not report.ok
    assert not alone or broken(report) == rules, report.findings
    assert rules <= {check.rule for check in report.checks if not check.passed}, report.findings
    assert rules & broken(report), report.findings
    assert says in "\n".join(map(str, report.findings))
    assert not where or where in named(report), report.findings
    assert any(field in each.field for each in report.findings), report.findings
    assert all(finding.where and finding.field and finding.found and finding.allowed for finding in report.findings)


def assert_caught_by_deep(version: Version, says: str = "") -> None:
    """Assert that a version passes the quick rules, that `deep` breaks rule 11 alone, and what its finding says."""
    version.assert_verifies()
    report = version.verify(deep=True)
    assert broken(report) == {11}, report.findings
    assert says in str(report.findings[0])


def of_kind(entries: list[Json], kind: str) -> Json:
    body: Json = next(entry["body"] for entry in entries if entry["kind"] == kind)
    return body


def drawn(place: int | str, part: str = "", **changed: Any) -> Change:
    """Change what the record states of a draw, which has a place or a key, or of one part of it."""

    def change(record: Json) -> None:
        stated = draw_of(record, place)
        (stated[part] if part else stated).update(changed)

    return change


def undrawn(place: int | str, part: str, key: str) -> Change:
    """Take a key out of a part of a draw."""
    return lambda record: draw_of(record, place)[part].pop(key)


def draw_of(record: Json, place: int | str) -> Json:
    draws: list[Json] = record["replay"]["draws"]
    return draws[place] if isinstance(place, int) else next(each for each in draws if each["key"] == place)


def all_events(**changed: Any) -> tuple[Change, Change]:
    """Change the events of all draws in the record, in the journal and in what was planned."""

    def in_record(record: Json) -> None:
        for draw in record["replay"]["draws"]:
            draw["event"].update(changed)

    def in_journal(entries: list[Json]) -> None:
        for entry in entries:
            for event in entry["body"].get("events", []) if isinstance(entry["body"], dict) else []:
                event.update(changed)
            if entry["kind"] == "noise_drawn":
                entry["body"]["event"].update(changed)

    return in_record, in_journal


def cell(name: str, column: str, row: int, value: Any) -> Callable[[Path], object]:
    return lambda folder: set_cell(folder / name, column, row, value)


def raised(name: str, column: str, row: int, by: float = 1) -> Callable[[Path], object]:
    """Add to a number of a Parquet file."""
    return lambda folder: set_cell(folder / name, column, row, pq.read_table(folder / name)[column][row].as_py() + by)


def rewritten(name: str, before: bytes, after: bytes) -> Callable[[Path], object]:
    """Put other bytes in the place of the first of these."""

    def files(folder: Path) -> None:
        content = (folder / name).read_bytes()
        assert before in content
        (folder / name).write_bytes(content.replace(before, after, 1))

    return files


def moved(name: str, row: int, by: int) -> Callable[[Path], object]:
    """Move a noisy number with its interval."""

    def files(folder: Path) -> None:
        for column in ("noisy", "lower", "upper"):
            values = pq.read_table(folder / name).column(column).to_numpy()
            set_cell(folder / name, column, row, values[row] + by)

    return files


@dataclass(frozen=True)
class Forgery:
    """What a publisher changes and signs again, the rules that it breaks, and what the findings say of it."""

    rules: set[int]
    record: Change = nothing
    journal: Change = nothing
    manifest: Change = nothing
    files: Callable[[Path], object] = nothing
    of: str = "town"
    says: str = ""
    where: set[str] = field(default_factory=set)

    def check_found(self, version: Version, *, alone: bool = False) -> None:
        """Its rules have findings, and no others where it is found by them alone; each has all of its words."""
        self.files(version.folder)
        forge(version, record=self.record, journal=self.journal, manifest=self.manifest)
        report = version.verify()
        told = "\n".join(map(str, report.findings))
        assert not report.ok
        assert self.rules == broken(report) if alone else self.rules <= broken(report), told
        assert self.says in told
        assert self.where <= named(report)
        assert all(each.where and each.field and each.found and each.allowed for each in report.findings)

    def check_caught(self, version: Version, then: Callable[[Path], object] = nothing) -> None:
        """Its rules do not pass, where other files are made to fit the record after it was changed."""
        self.files(version.folder)
        edit(version.folder / "record.json", self.record)
        then(version.folder)
        assert_caught(forge(version, journal=self.journal), self.rules, self.says)
