"""Released tables as tidy files: one row a cell of the declared domain, row-major, labels in dictionary columns.

A sparse table has rows for some cells only: in `measurements/` those whose noisy count reached the threshold, in
`data/` those whose refined count is above 0. What an absent cell means stands in the file's metadata.

Rows are made and written piece by piece, so that memory does not grow with the number of cells.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import RawIOBase
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from contracts.contract.cell_codes import ImpossibleCells, digit
from contracts.release.tables.levels import level_name
from contracts.release.tables.tables import SUPPRESSED, data_marks, measurement_marks
from privacy.refine.tables import Coarser, Refined, RefinedCells
from tasks.records.files import part_names
from tasks.records.files.csv_rows import write_csv
from tasks.records.files.label_arrays import Beside, label_array, label_fields

if TYPE_CHECKING:
    from contracts.contract.column import Cells
    from contracts.contract.contract import Contract
    from contracts.contract.impossible_cells import Clique
    from contracts.contract.labels import DescribedCells, Formulas
    from contracts.release.spec import Publish
    from contracts.release.tables.tables import TableForm
    from privacy.grant.measurement import Measurement, SparseMeasurement
    from tasks.records.outputs import ReleasedTable

DATA, MEASUREMENTS = "data", "measurements"
VALUE_COLUMNS = ("count", "noisy", "variance", "lower", "upper", "structural_zero", "suppressed")
_OF_A_COUNT = frozenset({"count", "noisy", "lower", "upper"})
ColumnValues = Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True)
class WrittenFile:
    """A data file of a version.

    Args:
        path: relative to the version's folder, with slashes.
        draw: key of the draw that it shows; empty where it shows none or many.
        role: what it is: "data", refined or synthetic; "part", some rows of it once more; "measurements" of
            marginals; the role that another kind of draw gives its files; "rounds"; "model"; or "weights", "inputs"
            and "card" of a classifier.
        rows: number of rows; of a dense table fixed by the declared domain, else released like its values.
        columns: name and type of each column, in order.
        sha256: digest of the file (hex).
        bytes: size of the file.
        form: whether it has every cell of its domain.
    """

    path: str
    draw: str
    role: str
    rows: int
    columns: tuple[tuple[str, str], ...]
    sha256: str
    bytes: int
    form: TableForm = "dense"


def write_data(
    table: ReleasedTable, own: DescribedCells, folder: Path, *, marks: Mapping[str, str], publish: Publish
) -> tuple[WrittenFile, ...]:
    """Write a refined table, and each of its coarser resolutions, to `data/`, with 95 % intervals.

    Args:
        table: the table.
        own: its cells, which give the labels.
        folder: the version's folder.
        marks: what the file says about where it comes from.
        publish: whether there is a CSV file beside the Parquet file, how it writes formulas, and whether columns
            beside the labels say what they stand for.
    Returns:
        tuple[WrittenFile, ...]: the files.
    Privacy: released values only.
    """
    refined = table.refined
    shown: list[tuple[str, DescribedCells, Refined | Coarser | RefinedCells, str]] = [
        (level_name(table.name, each.level.name), each.level, counts, each.measurement.key)
        for each, counts in zip(table.levels, refined.coarser, strict=True)
    ]
    shown.append((table.name, own, refined, table.measurement.key))
    files: list[WrittenFile] = []
    for name, cells, made, draw in shown:
        values: ColumnValues = {"count": made.values, "lower": made.intervals.lower, "upper": made.intervals.upper}
        if isinstance(made, Refined) and made.suppressed is not None:
            values = _hidden(values, made.suppressed)
        codes = made.codes if isinstance(made, RefinedCells) else None
        told = {**marks, **data_marks(made.cells)} if isinstance(made, RefinedCells) else marks
        beside = () if publish.labels is None else cells.beside(table.columns)
        tidy = Tidy(cells, table.columns, values, codes=codes, beside=beside)
        paths = [f"{DATA}/{name}.parquet"] + ([f"{DATA}/{name}.csv"] if "csv" in publish.formats else [])
        files += [tidy.write(folder, path, draw=draw, marks=told, formulas=publish.formulas) for path in paths]
    return tuple(files)


def write_measurement(
    measurement: Measurement,
    name: str,
    half_width: int,
    cells: Cells,
    folder: Path,
    *,
    marks: Mapping[str, str],
    suppressed: NDArray[np.bool_] | None = None,
) -> WrittenFile:
    """Write a raw noisy marginal to `measurements/`, with its variance and its 95 % interval.

    Args:
        measurement: what the grant drew.
        name: name of the file.
        half_width: the noise lies within plus or minus this in 95 % of draws [rows].
        cells: gives the labels and the structural zeros: the contract, or the resolution that was measured.
        folder: the version's folder.
        marks: what the file says about where it comes from.
        suppressed: the cells that a minimum-frequency rule suppressed, where the measurement does not say so itself.
    Privacy: released values only.
    """
    impossible = cells.impossible(measurement.clique)
    values = _measured(measurement.values, measurement.variance, half_width, impossible)
    if measurement.threshold is not None:
        suppressed = measurement.threshold.suppressed(measurement.values)
    if suppressed is not None:
        values = _hidden(values, suppressed)
    tidy = Tidy(cells, measurement.clique, values)
    return tidy.write(folder, f"{MEASUREMENTS}/{name}.parquet", draw=measurement.key, marks=marks)


def write_sparse_measurement(
    measurement: SparseMeasurement,
    name: str,
    half_width: int,
    contract: Contract,
    folder: Path,
    *,
    marks: Mapping[str, str],
) -> WrittenFile:
    """Write the listed cells of a sparse marginal to `measurements/`; arguments as for `write_measurement`."""
    table, clique = measurement.table, measurement.clique
    impossible = ImpossibleCells.of(contract, clique).among(table.codes)
    values = _measured(table.values, measurement.variance, half_width, impossible)
    told = {**marks, **measurement_marks(table.cells, table.threshold)}
    tidy = Tidy(contract, clique, values, codes=table.codes)
    return tidy.write(folder, f"{MEASUREMENTS}/{name}.parquet", draw=measurement.key, marks=told)


def _measured(
    noisy: NDArray[np.int64], variance: float, half_width: int, impossible: NDArray[np.bool_]
) -> ColumnValues:
    """Put variance, 95 % interval and structural zeros beside noisy counts."""
    return {
        "noisy": noisy,
        "variance": np.broadcast_to(np.asarray(variance, dtype=np.float64), noisy.shape),
        "lower": noisy - half_width,
        "upper": noisy + half_width,
        "structural_zero": impossible,
    }


def _hidden(values: ColumnValues, suppressed: NDArray[np.bool_]) -> ColumnValues:
    """Mask the counts and intervals of suppressed cells, which are written as missing, and say which they are."""
    masked = {
        name: np.ma.MaskedArray(array, mask=suppressed) if name in _OF_A_COUNT else array
        for name, array in values.items()
    }
    return {**masked, SUPPRESSED: suppressed}


def shown_values(values: ColumnValues, may_lack: Collection[str] = ()) -> ColumnValues:
    """Mask what is written as missing: all values of suppressed cells, and what is NaN of columns that may lack some.

    Such a column may hold missing values in every version, whether or not it does in this one.
    """
    gone = values.get(SUPPRESSED)
    shown: dict[str, NDArray[np.generic]] = {}
    for name, array in values.items():
        mask = np.isnan(array) if name in may_lack else None  # NaN in suppressed cells too
        mask = gone if mask is None and name != SUPPRESSED else mask
        shown[name] = array if mask is None else np.ma.MaskedArray(array, mask=np.asarray(mask, dtype=np.bool_))
    return shown


class Tidy:
    """Arrays over a declared domain, seen as rows of labels and values.

    Args:
        cells: gives the labels: the contract, or a coarser resolution.
        clique: the columns; empty for a single number.
        values: arrays in the shape of the domain, by column name; of a sparse table one number a listed cell. Masked
            values are written as missing.
        codes: row-major numbers of the listed cells of a sparse table.
        beside: of each column what its labels stand for; without it labels stand alone.
    Raises:
        ValueError: a column of the table is named like a column of values.
    """

    def __init__(
        self,
        cells: Cells,
        clique: Clique,
        values: ColumnValues,
        *,
        codes: NDArray[np.int64] | None = None,
        beside: Beside = (),
    ) -> None:
        clash = [name for name in clique if name in values]
        if clash:
            raise ValueError(f"column {clash[0]!r} is named like a column of values; reserved: {VALUE_COLUMNS}")
        self._labels = [pa.array(cells.column(name).labels, pa.string()) for name in clique]
        self._shape = cells.shape(clique)
        self._clique = clique
        self._codes = codes
        self._beside = beside
        self._rows = prod(self._shape) if codes is None else codes.size
        self.values = {name: np.ma.getdata(array).reshape(-1) for name, array in values.items()}
        self._missing = {
            name: np.ma.getmaskarray(array).reshape(-1)
            for name, array in values.items()
            if np.ma.isMaskedArray(array)
        }

    def write(
        self, folder: Path, path: str, *, draw: str, marks: Mapping[str, str], formulas: Formulas | None = None
    ) -> WrittenFile:
        """Write the rows to one file; its suffix says whether Parquet or CSV, in which formulas are written so."""
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        schema = self._schema(marks)
        if target.suffix == ".csv":
            _write_csv(target, self._pieces(schema), formulas)
        else:
            _write_parquet(target, schema, self._clique, self._pieces(schema))
        role: str = "data" if path.startswith(DATA) else "measurements"
        columns = tuple((field.name, _type_name(field.type)) for field in schema)
        form: TableForm = "dense" if self._codes is None else "sparse"
        return replace(written(folder, path, draw, role, self._rows, columns), form=form)

    def digest(self, marks: Mapping[str, str]) -> str:
        """Return the SHA-256 (hex) of the Parquet file that `write` makes, which is written nowhere."""
        sink, schema = _Hashed(), self._schema(marks)
        _write_parquet(sink, schema, self._clique, self._pieces(schema))
        return sink.sha256.hexdigest()

    def _schema(self, marks: Mapping[str, str]) -> pa.Schema:
        labels = [
            pa.field(name, pa.dictionary(index_type(len(labels)), pa.string()), nullable=False)
            for name, labels in zip(self._clique, self._labels, strict=True)
        ]
        values = [
            pa.field(name, pa.from_numpy_dtype(array.dtype), nullable=name in self._missing)
            for name, array in self.values.items()
        ]
        return pa.schema([*labels, *label_fields(self._beside), *values], metadata=dict(marks))

    def _pieces(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order, at most `part_names.PIECE` at a time."""
        for start in range(0, max(self._rows, 1), part_names.PIECE):  # a list without cells is one piece without rows
            stop = min(start + part_names.PIECE, self._rows)
            cells = np.arange(start, stop) if self._codes is None else self._codes[start:stop]
            arrays: list[Any] = []
            for place, labels in enumerate(self._labels):
                codes = pa.array(digit(cells, self._shape, place)).cast(schema.field(place).type.index_type)
                arrays.append(pa.DictionaryArray.from_arrays(codes, labels))
            for place, columns in enumerate(self._beside):
                arrays += [label_array(each, digit(cells, self._shape, place)) for each in columns]
            piece = slice(start, start + part_names.PIECE)
            for name, array in self.values.items():
                missing = self._missing.get(name)
                arrays.append(pa.array(array[piece], mask=None if missing is None else missing[piece]))
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


class _Hashed(RawIOBase):
    """A file that keeps nothing but the digest of its bytes."""

    def __init__(self) -> None:
        self.sha256 = hashlib.sha256()

    def writable(self) -> bool:
        """Say that it takes bytes."""
        return True

    def write(self, data: Any) -> int:
        """Add bytes to the digest."""
        self.sha256.update(data)
        return len(data)


def _write_parquet(
    target: Path | _Hashed, schema: pa.Schema, labels: Sequence[str], pieces: Iterator[pa.RecordBatch]
) -> None:
    with pq.ParquetWriter(target, schema, compression="zstd", use_dictionary=list(labels)) as writer:
        for piece in pieces:
            writer.write_batch(piece, row_group_size=part_names.PIECE)


def written(
    folder: Path, path: str, draw: str, role: str, rows: int, columns: tuple[tuple[str, str], ...]
) -> WrittenFile:
    """Describe a file that has been written, with its digest and size."""
    with (folder / path).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return WrittenFile(path, draw, role, rows, columns, digest, (folder / path).stat().st_size)


def _write_csv(target: Path, pieces: Iterator[pa.RecordBatch], formulas: Formulas | None) -> None:
    with target.open("wb") as file:
        for number, piece in enumerate(pieces):
            write_csv(pa.Table.from_batches([piece]), file, header=number == 0, formulas=formulas)


def index_type(size: int) -> pa.DataType:
    """Return the type of the codes of so many labels."""
    return pa.int8() if size <= 1 << 7 else pa.int16() if size <= 1 << 15 else pa.int32()


def _type_name(kind: pa.DataType) -> str:
    return "string" if pa.types.is_dictionary(kind) else "date" if pa.types.is_date(kind) else str(kind)
