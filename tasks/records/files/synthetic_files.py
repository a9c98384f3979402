"""The files of synthetic rows: the rows, and the model in whole numbers.

Rows are made and written piece by piece; in memory at once are the codes of all rows (four bytes a
value) and one piece of values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from contracts.canonical import readable_json
from contracts.contract.decoding import Decoded
from contracts.contract.labels import Formulas
from privacy.generators.generator import Model
from privacy.generators.rows import PIECE_ROWS, seed_text, synthetic_rows
from privacy.marginals.portable import PostProcessingSeed
from tasks.records.facts import RunFacts
from tasks.records.files.csv_rows import write_csv
from tasks.records.files.tidy_tables import DATA, WrittenFile, written
from tasks.records.files.write import ARRAY_COLUMNS, arrow_array, row_schema, write_arrays, write_parts
from tasks.records.outputs import RowsFrom, Synthesis

MODEL: Final = "model"
MODEL_VALUES: Final = f"{MODEL}/model.json"
MODEL_ARRAYS: Final = f"{MODEL}/arrays.parquet"


@dataclass(frozen=True)
class RowsFile:
    """A table of synthetic rows, as it is written.

    Args:
        name: of its file, without folder and suffix.
        pieces: the decoded rows, piece by piece.
        rows: how many there are.
        seed: that they come from.
        in_all_formats: whether it is written in all forms that were asked for, and not as Parquet alone.
    """

    name: str
    pieces: Iterator[tuple[Decoded, ...]]
    rows: int
    seed: PostProcessingSeed
    in_all_formats: bool = True


def rows_file(synthesis: Synthesis, facts: RunFacts) -> RowsFile:
    """Return the rows of one table."""
    pieces = synthetic_rows(synthesis.model, facts.contract, synthesis.seed, synthesis.rows)
    return RowsFile(facts.spec.release, pieces, synthesis.rows, synthesis.seed)


def stated_rows(file: RowsFile, rows_from: RowsFrom) -> dict[str, Any]:
    """Return what the replay block states of a table of rows, and why there are so many."""
    seed = seed_text(file.seed)
    return {"number": file.rows, "from": rows_from, "seed": seed, "data": f"{DATA}/{file.name}.parquet"}


def write_rows(
    files: Sequence[RowsFile], facts: RunFacts, folder: Path, *, marks: Mapping[str, str]
) -> tuple[WrittenFile, ...]:
    """Write tables of rows to `data/`, as Parquet, and as CSV and in parts where that was asked for."""
    (folder / DATA).mkdir(parents=True, exist_ok=True)
    return tuple(made for file in files for made in _write_table(file, facts, folder, marks))


def parent_name(release: str) -> str:
    """Name the file of the parent table's rows, without its suffix."""
    return f"{release}-parents"


def _write_table(file: RowsFile, facts: RunFacts, folder: Path, marks: Mapping[str, str]) -> tuple[WrittenFile, ...]:
    formats, formulas = facts.spec.publish.formats if file.in_all_formats else (), facts.spec.publish.formulas
    paths = [f"{DATA}/{file.name}.parquet"] + ([f"{DATA}/{file.name}.csv"] if "csv" in formats else [])
    schema = write_pieces(file.pieces, [folder / path for path in paths], marks=marks, formulas=formulas)
    columns = tuple((field.name, type_name(field.type)) for field in schema)
    files = tuple(written(folder, path, "", "data", file.rows, columns) for path in paths)
    return files + (write_parts(folder, files[0]) if "parts" in formats else ())


def write_pieces(
    pieces: Iterator[tuple[Decoded, ...]],
    targets: Sequence[Path],
    *,
    marks: Mapping[str, str],
    formulas: Formulas | None,
) -> pa.Schema:
    """Write decoded rows to each target, CSV or Parquet by its suffix, one piece at a time; return their schema."""
    first = next(pieces)
    schema = row_schema([column.form for column in first], marks)
    labels = [field.name for field in schema if pa.types.is_dictionary(field.type)]
    with ExitStack() as opened:
        csvs = [opened.enter_context(path.open("wb")) for path in targets if path.suffix == ".csv"]
        parquets = [
            opened.enter_context(pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=labels))
            for path in targets
            if path.suffix != ".csv"
        ]
        for number, piece in enumerate(chain([first], pieces)):
            batch = pa.RecordBatch.from_arrays([arrow_array(column) for column in piece], schema=schema)
            for parquet in parquets:
                parquet.write_batch(batch, row_group_size=PIECE_ROWS)
            for csv in csvs:
                write_csv(pa.Table.from_batches([batch]), csv, header=number == 0, formulas=formulas)
    return schema


def type_name(kind: pa.DataType) -> str:
    """Name a column's type as the record does."""
    if pa.types.is_fixed_size_list(kind):
        return f"{kind.value_type}[{kind.list_size}]"
    return "string" if pa.types.is_dictionary(kind) else "date" if pa.types.is_date(kind) else str(kind)


def write_model(model: Model, folder: Path, *, marks: Mapping[str, str]) -> tuple[WrittenFile, ...]:
    """Write the model: what it consists of as JSON, its whole numbers as one tidy Parquet file."""
    values, arrays = model.to_arrays()
    (folder / MODEL).mkdir(parents=True, exist_ok=True)
    shapes = {name: list(array.shape) for name, array in arrays.items()}
    (folder / MODEL_VALUES).write_bytes(readable_json({"kind": model.kind, "shapes": shapes, "values": values}))
    write_arrays(arrays, folder / MODEL_ARRAYS, marks=marks)
    cells = sum(array.size for array in arrays.values())
    return (
        written(folder, MODEL_VALUES, "", "model", 1, ()),
        written(folder, MODEL_ARRAYS, "", "model", cells, ARRAY_COLUMNS),
    )
