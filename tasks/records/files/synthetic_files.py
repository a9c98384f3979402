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
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from contracts.canonical import readable_json
from contracts.contract.decoding import Decoded
from contracts.contract.spreadsheet import Formulas
from contracts.release.copies import copy_path, rows_of_copy
from privacy.generators.copied_model import copies_of
from privacy.generators.generator import Model
from privacy.generators.linked_model import LinkedModel
from privacy.generators.linked_row_pieces import LinkedRowPieces
from privacy.generators.rows import PIECE_ROWS, copy_seed, synthetic_rows
from privacy.marginals.public_prior import PublicPrior
from privacy.marginals.seeds import PostProcessingSeed
from tasks.records.facts import RunFacts
from tasks.records.files.array_file import ARRAY_COLUMNS, write_arrays
from tasks.records.files.csv_rows import write_csv
from tasks.records.files.row_arrays import arrow_array, row_schema
from tasks.records.files.row_group_parts import write_parts
from tasks.records.files.tidy_tables import DATA, WrittenFile, written
from tasks.records.outputs import Synthesis

MODEL: Final = "model"
MODEL_VALUES: Final = f"{MODEL}/model.json"
MODEL_ARRAYS: Final = f"{MODEL}/arrays.parquet"
PRIOR: Final = f"{MODEL}/prior.json"
"""The marginals of public rows that the model may have begun with."""


@dataclass(frozen=True)
class RowsCopy:
    """A copy of the rows, as it is published.

    Args:
        model: its model.
        seed: derived from that of the rows.
        rows: how many it has.
        path: of its file.
    """

    model: Model
    seed: PostProcessingSeed
    rows: int
    path: str


def published_copies(synthesis: Synthesis, data: str) -> tuple[RowsCopy, ...]:
    """Return the copies of the rows of a file, in order; none where there are none."""
    models = copies_of(synthesis.model)
    rows = rows_of_copy(synthesis.rows, max(1, len(models)))
    return tuple(
        RowsCopy(model, copy_seed(synthesis.seed, number), rows, copy_path(data, number))
        for number, model in enumerate(models, 1)
    )


def write_rows(
    synthesis: Synthesis, facts: RunFacts, folder: Path, *, marks: Mapping[str, str]
) -> tuple[WrittenFile, ...]:
    """Write the synthetic rows to `data/`, as Parquet, and as CSV and in parts where that was asked for.

    Copies of them are Parquet files alone.
    Of two linked tables the child's come first, then the parent's in a file of their own.
    """
    (folder / DATA).mkdir(parents=True, exist_ok=True)
    release, model = facts.spec.release, synthesis.model
    if synthesis.parents is None or not isinstance(model, LinkedModel):
        pieces = synthetic_rows(model, facts.contract, synthesis.seed, synthesis.rows)
        files = _write_table(release, pieces, synthesis.rows, facts, folder, marks)
        return files + _write_copies(synthesis, files[0], facts, folder, marks)
    both = LinkedRowPieces(model, facts.contract, synthesis.seed, synthesis.parents)
    below = _write_table(release, both.child_rows(), synthesis.rows, facts, folder, marks)
    return below + _write_table(parent_name(release), both.parent_rows(), synthesis.parents, facts, folder, marks)


def parent_name(release: str) -> str:
    """Name the file of the parent table's rows, without its suffix."""
    return f"{release}-parents"


def _write_table(
    name: str,
    pieces: Iterator[tuple[Decoded, ...]],
    rows: int,
    facts: RunFacts,
    folder: Path,
    marks: Mapping[str, str],
) -> tuple[WrittenFile, ...]:
    """Write the rows of one table in the forms that were asked for."""
    formats, formulas = facts.spec.publish.formats, facts.spec.publish.formulas
    paths = [f"{DATA}/{name}.parquet"] + ([f"{DATA}/{name}.csv"] if "csv" in formats else [])
    schema = write_pieces(pieces, [folder / path for path in paths], marks=marks, formulas=formulas)
    columns = tuple((field.name, type_name(field.type)) for field in schema)
    files = tuple(written(folder, path, "", "data", rows, columns) for path in paths)
    return files + (write_parts(folder, files[0]) if "parts" in formats else ())


def _write_copies(
    synthesis: Synthesis, rows: WrittenFile, facts: RunFacts, folder: Path, marks: Mapping[str, str]
) -> tuple[WrittenFile, ...]:
    """Write the copies of the rows."""
    files: tuple[WrittenFile, ...] = ()
    for copy in published_copies(synthesis, rows.path):
        pieces = synthetic_rows(copy.model, facts.contract, copy.seed, copy.rows)
        write_pieces(pieces, [folder / copy.path], marks=marks, formulas=facts.spec.publish.formulas)
        files += (written(folder, copy.path, "", "data", copy.rows, rows.columns),)
    return files


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


def write_prior(prior: PublicPrior | None, folder: Path) -> tuple[WrittenFile, ...]:
    """Write the marginals of a prior, which are public; no file without one."""
    if prior is None:
        return ()
    (folder / MODEL).mkdir(parents=True, exist_ok=True)
    (folder / PRIOR).write_bytes(readable_json(prior.to_json()))
    return (written(folder, PRIOR, "", "prior", 1, ()),)


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
