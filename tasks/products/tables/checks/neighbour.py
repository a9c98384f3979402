"""The counts of an earlier version, read with suspicion: under its manifest's digest, cell by cell as declared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.errors import Finding
from contracts.release.tables.levels import table_cells
from contracts.release.tables.tables import TableSpec
from tasks.records.files.label_arrays import label_types
from tasks.records.model.manifest import Manifest
from tasks.records.model.version_statements import Replay
from tasks.records.outputs import EarlierCounts
from tasks.records.strict_json import printable
from tasks.verification.files.folder import VersionFolder, read_manifest, read_published
from tasks.verification.files.table_files import read_parquet
from tasks.verification.table_meaning import Meaning

_NOT_THAT_VERSION: Final = "lambda was chosen on something else than the record says: ask the publisher"
_OTHER_TABLE: Final = "choose another version, whose tables have the same names, columns and cells"


def read_counts(
    folder: Path, manifest: Manifest, tables: Sequence[TableSpec], contract: Contract
) -> tuple[EarlierCounts, list[Finding]]:
    """Read the refined counts of tables from a version whose manifest is known to be the published one.

    Args:
        folder: the version folder.
        manifest: its manifest.
        tables: the tables that are needed.
        contract: gives the columns' cells, which must be those of the version.
    Returns:
        tuple: counts by name of the table, rounded to whole numbers, in the table's shape [units]; and what is wrong.
    """
    counts: dict[str, NDArray[np.int64]] = {}
    findings: list[Finding] = []
    for table in tables:
        read, wrong = _read_table(folder, manifest, table, contract)
        findings += wrong
        if read is not None:
            counts[table.name] = read
    return counts, findings


def _read_table(
    folder: Path, manifest: Manifest, table: TableSpec, contract: Contract
) -> tuple[NDArray[np.int64] | None, list[Finding]]:
    name = f"data/{table.name}.parquet"
    where = printable(name)
    if name not in manifest.files:
        return None, [Finding(where, "the file", "nothing", f"a table named {table.name!r}", _OTHER_TABLE)]
    try:
        size = (folder / name).lstat().st_size
        data = read_published(VersionFolder(folder, {name: size}, {}), manifest, name)
        schema = pq.read_schema(pa.BufferReader(data))
    except (OSError, pa.ArrowException) as error:
        return None, [Finding(where, "the file", printable(str(error)), "the file that was published", _OTHER_TABLE)]
    cells = table_cells(table, contract)
    beside = cells.beside(table.columns)
    described = label_types(beside)
    beside = beside if set(described) <= set(schema.names) else ()
    known = {*table.columns, *(described if beside else ())}
    values = {field: str(schema.field(field).type) for field in schema.names if field not in known}
    if values.get("count") not in ("int64", "double"):
        return None, [Finding(where, "columns", printable(", ".join(values)), "a column of counts", _OTHER_TABLE)]
    clique = table.columns
    columns, findings = read_parquet(data, where=where, cells=cells, clique=clique, values=values, beside=beside)
    if columns is None or findings:
        return None, findings
    whole = np.rint(columns["count"]).astype(np.int64).reshape(cells.shape(table.columns))
    if whole.size and int(whole.min()) < 0:
        allowed = "a version whose counts were refined, so that none is below 0"
        return None, [Finding(where, "column count", "counts below 0", allowed, _OTHER_TABLE)]
    return whole, []


@dataclass(frozen=True)
class Neighbour:
    """The version on which λ was chosen, as it lies beside the one that is checked.

    Args:
        counts: its counts by name of the table; None where λ cannot be chosen again.
        findings: what is wrong with the reference.
        untold: what therefore cannot be told; empty where λ can be chosen again.
    """

    counts: EarlierCounts | None
    findings: tuple[Finding, ...] = ()
    untold: str = ""


def neighbour(folder: Path, replay: Replay, meaning: Meaning, *, where: str) -> Neighbour:
    """Find the version on which λ was chosen beside a version folder, in the same store.

    Its place is made of the product's release name and number, whose form is checked, and of nothing else that stands
    in a file. A neighbour that is not there, or was damaged since, tells nothing; what follows from the stated λ is
    checked all the same. One with another manifest is not the version that the record names: that is a finding.
    """
    reference, stated = meaning.product.reference, replay.reference
    if reference is None or stated is None:
        return Neighbour({})
    named = f"{reference.release} v{reference.version}"
    untold = f"whether lambda is the one that {named} leads to: "
    beside = folder.parent.parent / reference.release / f"v{reference.version}"
    manifest, digest = read_manifest(beside)
    if manifest is None:
        absent = "that version does not lie beside this one; the tables were checked with the lambda that is stated"
        return Neighbour(None, untold=untold + absent)
    if digest != stated.manifest:
        allowed = f"{digest}, the SHA-256 of MANIFEST.json of {named} beside this version"
        finding = Finding(where, "replay.reference.manifest", stated.manifest, allowed, _NOT_THAT_VERSION)
        return Neighbour(
            None, (finding,), f"{untold}the version beside this one is another one than the record names"
        )
    tables = [table for table in meaning.tables if table.hierarchy is None]
    counts, findings = read_counts(beside, manifest, tables, meaning.contract)
    if findings:
        return Neighbour(None, untold=f"{untold}its tables beside this version cannot be read: {findings[0].where}")
    return Neighbour(counts)
