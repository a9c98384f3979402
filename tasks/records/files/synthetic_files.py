"""The files of a synthetic version: rows, raw noisy marginals and sums, private choices, the model in whole numbers.

Rows and marginals are made and written piece by piece; in memory at once are the codes of all rows (four bytes a
value) and one piece of values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from contracts.canonical import readable_json
from contracts.contract.decoding import Decoded
from contracts.contract.spreadsheet import Formulas
from privacy.generators.generator import Fitted, Model
from privacy.generators.rows import PIECE_ROWS, synthetic_rows
from privacy.grant.measurement import Measurement, Selection, SumMeasurement
from privacy.marginals.uncertainty import half_width
from privacy.table_plans.plan import CONFIDENCE
from tasks.records.facts import RunFacts
from tasks.records.files.array_file import ARRAY_COLUMNS, write_arrays
from tasks.records.files.checkpoint_files import write_checkpoints
from tasks.records.files.csv_rows import write_csv
from tasks.records.files.row_arrays import arrow_array, row_schema
from tasks.records.files.row_group_parts import write_parts
from tasks.records.files.sum_files import sum_name, write_sums
from tasks.records.files.tidy_tables import DATA, MEASUREMENTS, WrittenFile, write_measurement, written
from tasks.records.outputs import Synthesis

MODEL: Final = "model"
MODEL_VALUES: Final = f"{MODEL}/model.json"
MODEL_ARRAYS: Final = f"{MODEL}/arrays.parquet"
CHOICES: Final = f"{MEASUREMENTS}/choices.json"
_LONGEST_NAME: Final = 80
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")


def write_synthetic_files(facts: RunFacts, folder: Path, *, marks: Mapping[str, str]) -> tuple[WrittenFile, ...]:
    """Write the data files of a synthetic run: rows, measurements, choices, model.

    Args:
        facts: the finished run.
        folder: the version's folder.
        marks: what each Parquet file says about where it comes from.
    Returns:
        tuple[WrittenFile, ...]: the files, rows first.
    Privacy: released values only.
    """
    _, made = facts.synthetic
    rows = write_rows(made, facts, folder, marks=marks)
    drawn = write_drawn(made.fitted, facts, folder, marks=marks)
    return (*rows, *drawn, *write_model(made.model, folder, marks=marks))


def write_drawn(
    fitted: Fitted[Any], facts: RunFacts, folder: Path, *, marks: Mapping[str, str]
) -> tuple[WrittenFile, ...]:
    """Write what was drawn for a fit: noisy marginals and sums, checkpoints, private choices."""
    files: list[WrittenFile] = []
    for measurement in fitted.measurements:
        name, width = measurement_name(measurement), half_width(measurement.event, CONFIDENCE)
        files.append(write_measurement(measurement, name, width, facts.contract, folder, marks=marks))
    if fitted.sums:
        files += write_sums(fitted.sums, folder, marks=marks)
    files += write_checkpoints(fitted.trainings, facts.entries, folder, marks=marks)
    if fitted.selections:
        (folder / CHOICES).parent.mkdir(exist_ok=True)
        (folder / CHOICES).write_bytes(readable_json([choice_entry(each) for each in fitted.selections]))
        files.append(written(folder, CHOICES, "", "choices", len(fitted.selections), ()))
    return tuple(files)


def measurement_name(measurement: Measurement | SumMeasurement) -> str:
    """Name a measurement's file after its number, and its columns or what was added up."""
    if isinstance(measurement, SumMeasurement):
        return sum_name(measurement)
    columns = _UNSAFE.sub("-", "_x_".join(measurement.clique))[:_LONGEST_NAME] or "total"
    return f"{measurement.number:04d}-{columns}"


def choice_entry(selection: Selection) -> dict[str, Any]:
    """Write one private choice as JSON."""
    return {
        "key": selection.key,
        "number": selection.number,
        "columns": list(selection.clique),
        "index": selection.index,
        "epsilon": str(selection.event.epsilon),
    }


def write_rows(
    synthesis: Synthesis, facts: RunFacts, folder: Path, *, marks: Mapping[str, str]
) -> tuple[WrittenFile, ...]:
    """Write the synthetic rows to `data/`, as Parquet, and as CSV and in parts where that was asked for."""
    (folder / DATA).mkdir(parents=True, exist_ok=True)
    paths = [f"{DATA}/{facts.spec.release}.parquet"]
    paths += [f"{DATA}/{facts.spec.release}.csv"] if "csv" in facts.spec.publish.formats else []
    pieces = synthetic_rows(synthesis.model, facts.contract, synthesis.seed, synthesis.rows)
    targets, formulas = [folder / path for path in paths], facts.spec.publish.formulas
    schema = write_pieces(pieces, targets, marks=marks, formulas=formulas)
    columns = tuple((field.name, type_name(field.type)) for field in schema)
    files = tuple(written(folder, path, "", "data", synthesis.rows, columns) for path in paths)
    return files + (write_parts(folder, files[0]) if "parts" in facts.spec.publish.formats else ())


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
