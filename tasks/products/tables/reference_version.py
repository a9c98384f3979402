"""The earlier version on which λ is chosen: found in the journal, held against its manifest, and read.

It may be a version that the journal of this workspace says was published and not withdrawn, whose MANIFEST.json is
the one that was entered, and whose tables are those of the manifest. What it holds was paid for when it was made, so
that choosing on it costs nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from contracts.contract.contract import Contract
from contracts.errors import SpecRefused
from contracts.reading.scalars import Problem, word_list
from contracts.release.product import LambdaReference
from contracts.release.spec import ReleaseSpec
from contracts.release.tables.tables import tables_of
from privacy.ledger.ledger import Ledger
from tasks.products.tables.checks.neighbour import read_counts
from tasks.records.outputs import EarlierVersion
from tasks.storage.manifest import version_folder
from tasks.verification.files.folder import read_manifest

_AT: Final = ("product", "refine", "lambda", "reference")
_ANOTHER: Final = "name another version, or write `lambda: auto`, which needs none"


def earlier_version(spec: ReleaseSpec, contract: Contract, ledger: Ledger, store: Path) -> EarlierVersion | None:
    """Read the version that the spec names for λ; None where it names none.

    Args:
        spec: the release spec.
        contract: its contract; the version's tables must have its cells.
        ledger: knows what was published, and what was withdrawn since.
        store: the release store.
    Raises:
        SpecRefused: there is no such version, it was withdrawn or changed, or it lacks a table of the spec.
    Privacy: reads published files only; they were paid for when they were made.
    """
    reference = spec.reference
    if reference is None:
        return None
    try:
        return _read(reference, spec, contract, ledger, store)
    except _Unusable as unusable:
        raise SpecRefused([spec.finding(_AT, problem) for problem in unusable.problems]) from None


class _Unusable(Exception):
    """What keeps a version from being used."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__(problems)
        self.problems = problems


def _read(
    reference: LambdaReference, spec: ReleaseSpec, contract: Contract, ledger: Ledger, store: Path
) -> EarlierVersion:
    named = reference.reference
    versions = ledger.versions(reference.release)
    known = [f"{each.release}/{each.number}" for each in versions if each.status in ("published", "superseded")]
    entry = next((each for each in versions if each.number == reference.version), None)
    if entry is None or entry.manifest is None or f"{entry.release}/{entry.number}" not in known:
        withdrawn = ", which was withdrawn" if entry is not None and entry.status == "withdrawn" else ""
        allowed = word_list(known) if known else f"a published version; of {reference.release} there is none here"
        raise _Unusable(Problem(f"{named}{withdrawn}", allowed, _ANOTHER))
    folder = version_folder(store, entry.release, entry.number)
    manifest, digest = read_manifest(folder)
    if manifest is None or digest != entry.manifest:
        found = f"{named}, whose MANIFEST.json is not in the release store as it was published"
        raise _Unusable(Problem(found, "the version as it was published", "restore its folder"))
    tables = [table for table in tables_of(spec.tables_product, contract) if table.hierarchy is None]
    counts, findings = read_counts(folder, manifest, tables, contract)
    if findings:
        raise _Unusable(
            *(
                Problem(f"{named}: {each.where}, {each.field}: {each.found}", each.allowed, _ANOTHER)
                for each in findings
            )
        )
    return EarlierVersion(entry.release, entry.number, entry.manifest, counts)
