"""Noisy sums over rows, as they are published: their values, one file a draw, and what was added up, in two files.

`measurements/statistics.json` holds each statistic's public parameters, `measurements/statistics.parquet` the arrays
that these name by digest: whoever rebuilds a statistic from them has its digest, and the bound of a change by one
privacy unit that the draw's event must state.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import sqrt
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from contracts.canonical import readable_json
from contracts.message import AND, joined, message
from privacy.accounting.events import event_from_json
from privacy.grant.measurement import SumMeasurement
from privacy.learning.groups import Everyone, LabelCodes, NearestCentre, NormShells
from privacy.learning.moments import Moments
from privacy.learning.written_statistics import PART_NAMES, statistic_arrays, tidy_rows
from tasks.records.draws.draw_form import DrawForm
from tasks.records.facts import RunFacts
from tasks.records.files.array_file import ARRAY_COLUMNS, write_arrays
from tasks.records.files.tidy_tables import MEASUREMENTS, WrittenFile, written
from tasks.records.groups.account import noise_words
from tasks.records.model.statement import Count, Hash, Statement, Tuple
from tasks.records.model.version_statements import FittedDraw
from tasks.records.unpublished import Published

STATISTICS: Final = f"{MEASUREMENTS}/statistics.json"
STATISTIC_ARRAYS: Final = f"{MEASUREMENTS}/statistics.parquet"
_LONGEST_NAME: Final = 80
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_MOST_COLUMNS: Final = 8
_PARTS: Final = {
    "counts": message("the number of rows"),
    "sums": message("the sum of their vectors"),
    "diagonal": message("the sum of the squares of the vectors' entries"),
    "full": message("the sum of the products of each two entries of a vector"),
}
NUMBERS: Final = {
    "counts": message("a count [rows]"),
    "sums": message("a sum of entries"),
    "diagonal": message("a sum of squares"),
    "full": message("a sum of products"),
}
SUM_SCHEMA: Final = pa.schema(
    [
        pa.field("part", pa.dictionary(pa.int8(), pa.string()), nullable=False),
        pa.field("group", pa.int32(), nullable=False),
        pa.field("i", pa.int32()),
        pa.field("j", pa.int32()),
        pa.field("noisy", pa.int64(), nullable=False),
        pa.field("value", pa.float64(), nullable=False),
        pa.field("variance", pa.float64(), nullable=False),
    ]
)


class StatisticStatement(Statement):
    """What a sum over rows adds up: its parameters, with arrays by their digests, and the arrays' shapes."""

    digest: Hash
    parameters: dict[str, Any]
    shapes: dict[Hash, Tuple[Count]]


class SumDraw(FittedDraw):
    """Noisy sums over rows, in a file of their own."""

    kind: Literal["sums"]
    statistic: StatisticStatement


class SumForm(DrawForm[SumMeasurement, SumDraw]):
    """How noisy sums over rows are stated, written and told."""

    statement = SumDraw
    role = "sums"
    summary = "Noisy sums over rows as they were drawn."
    columns: ClassVar[Mapping[str, str]] = {
        "part": "What is added up: counts, sums, products (diagonal or full), or features.",
        "group": "Place of the group of rows, from 0.",
        "i": "Place of the entry, from 0; of features the frequency. Missing for counts.",
        "j": "Place of the other factor of a product; of features 0 for the cosine, 1 for the sine.",
        "noisy": "Noisy sum, as it was drawn, in units of its lattice.",
        "value": "The same in natural units.",
        "variance": "Variance of the noise of the value.",
    }
    beside: ClassVar[Mapping[str, str]] = {STATISTICS: "statistics", STATISTIC_ARRAYS: "statistics"}
    noise_on = message("sums over rows")

    def files(self, drawn: Sequence[SumMeasurement], numbers: Mapping[str, int]) -> dict[str, str]:
        """Name the file of each."""
        return {each.key: f"{MEASUREMENTS}/{sum_name(each)}.parquet" for each in drawn}

    def write(
        self, drawn: Sequence[SumMeasurement], facts: RunFacts, folder: Path, *, marks: Mapping[str, str]
    ) -> Iterator[WrittenFile]:
        """Write a file a measurement, the statistics, and their arrays."""
        (folder / MEASUREMENTS).mkdir(exist_ok=True)
        for each in drawn:
            yield _write_values(each, folder, marks)
        arrays = {name: array for each in drawn for name, array in statistic_arrays(each.statistic).items()}
        stated = [{"key": each.key, "number": each.number, **statistic_part(each)} for each in drawn]
        (folder / STATISTICS).write_bytes(readable_json(stated))
        yield written(folder, STATISTICS, "", "statistics", len(drawn), ())
        write_arrays(arrays, folder / STATISTIC_ARRAYS, marks=marks)
        numbers = sum(array.size for array in arrays.values())
        yield written(folder, STATISTIC_ARRAYS, "", "statistics", numbers, ARRAY_COLUMNS)

    def stated(self, released: SumMeasurement, key: str) -> dict[str, Any]:
        """Return what was added up."""
        return {"clique": [], "shape": list(released.values.shape), "statistic": statistic_part(released)}

    def described(self, released: SumMeasurement, key: str) -> dict[str, Any]:
        """Describe the draw: its sensitivity, its noise."""
        return {
            "what": message("sums over rows"),
            "columns": list(released.statistic.embedding.columns),
            "cells": released.values.size,
            "l2_sensitivity_squared": sum(move * move for move in released.event.moves),
            "noise": noise_words(released.event),
            "variance": released.variance,
            "lattice": message("a row moves the sums by at most {units} units a part", units=released.statistic.move),
        }

    def measured(self, released: SumMeasurement) -> dict[str, Any]:
        """Describe what is published; the keys that marginals have too mean the same."""
        statistic = released.statistic
        return {
            "columns": ", ".join(statistic.embedding.columns),
            "cells": released.values.size,
            "deviation": {part: f"{each:.6g}" for part, each in deviations(released).items()},
            "sums": what(statistic),
            "vectors": vectors(statistic),
        }

    def sensitivities(self, drawn: Sequence[SumMeasurement]) -> list[dict[str, Any]]:
        """Give the norms of the worst neighbour's change."""
        norms = sorted({sum(part * part for part in each.event.moves) for each in drawn})
        return [{"of": message("sums over rows, in lattice units"), "l2_squared": norm} for norm in norms]

    def published(self, draws: Sequence[SumDraw]) -> tuple[Any, ...]:
        """Return keys and events; what was added up stands in files."""
        return tuple(
            Published(kind=draw.kind, key=draw.key, number=draw.number, event=event_from_json(draw.event))
            for draw in draws
        )


def sum_name(measurement: SumMeasurement) -> str:
    """Name a measurement's file after its number and what was added up."""
    statistic = measurement.statistic
    parts = "-".join(statistic.parts)
    group = statistic.groups.public["kind"].replace("_", "-")
    return f"{measurement.number:04d}-" + _UNSAFE.sub("-", f"{parts}-{group}")[:_LONGEST_NAME]


def statistic_part(measurement: SumMeasurement) -> dict[str, Any]:
    """Write what was added up as JSON: parameters, with arrays by their digests, and the arrays' shapes."""
    statistic = measurement.statistic
    shapes = {name: list(array.shape) for name, array in statistic_arrays(statistic).items()}
    return {"digest": statistic.digest, "parameters": statistic.public, "shapes": shapes}


def sum_columns(statistic: Moments, noisy: NDArray[np.int64], variance: float) -> dict[str, NDArray[Any]]:
    """Return the columns of a file of sums; i and j are -1 where a part has none.

    Args:
        statistic: what was added up.
        noisy: shape (statistic.length,) [lattice units].
        variance: of the noise of each number [lattice units squared].
    """
    rows = tidy_rows(statistic)
    unit = rows.pop("unit")
    return {**rows, "noisy": noisy, "value": noisy * unit, "variance": variance * (unit * unit)}


def _write_values(measurement: SumMeasurement, folder: Path, marks: Mapping[str, str]) -> WrittenFile:
    columns = sum_columns(measurement.statistic, measurement.values, measurement.variance)
    arrays: dict[str, Any] = {name: pa.array(column) for name, column in columns.items()}
    parts = pa.array(columns["part"].astype(np.int8))
    arrays["part"] = pa.DictionaryArray.from_arrays(parts, pa.array(PART_NAMES, pa.string()))
    for name in ("i", "j"):
        arrays[name] = pa.array(columns[name].astype(np.int32), mask=columns[name] < 0)
    arrays["group"] = arrays["group"].cast(pa.int32())
    schema = SUM_SCHEMA.with_metadata(dict(marks))
    path = f"{MEASUREMENTS}/{sum_name(measurement)}.parquet"
    table = pa.Table.from_arrays([arrays[field.name] for field in schema], schema=schema)
    pq.write_table(table, folder / path, compression="zstd", use_dictionary=["part"])
    typed = tuple((f.name, "string" if pa.types.is_dictionary(f.type) else str(f.type)) for f in schema)
    return written(folder, path, measurement.key, "sums", measurement.values.size, typed)


def groups(statistic: Moments) -> str:
    """Say for which rows the sums are taken."""
    match statistic.groups:
        case Everyone():
            return message("all rows together")
        case LabelCodes(column=column, count=count):
            return message("each of the {count} cells of {column}", count=count, column=column)
        case NearestCentre(count=count):
            return message("the rows nearest to each of {count} released or public centres", count=count)
        case NormShells(count=count):
            return message("the rows in each of {count} shells, by the norms of their vectors", count=count)
        case shared:
            return message(
                "each of {count} components of a released or public mixture, rows shared out among them",
                count=shared.count,
            )


def vectors(statistic: Moments) -> str:
    """Say what a row's vector is, and how it is bounded."""
    embedded = statistic.embedding
    more = ["..."] if len(embedded.columns) > _MOST_COLUMNS else []
    centre = message(", less a released or public centre") if embedded.centre.any() else ""
    turned = "" if embedded.axes is None else message(", on {axes} released or public axes", axes=embedded.dimension)
    return message(
        "{entries} entries in [0, 1] of {columns}{centre}{turned}; clipped to norm {norm}, in whole steps of norm / "
        "2^{bits}",
        entries=embedded.centre.size,
        columns=joined([*embedded.columns[:_MOST_COLUMNS], *more]),
        centre=centre,
        turned=turned,
        norm=f"{float(embedded.bound):.6g}",
        bits=embedded.bits,
    )


def what(statistic: Moments) -> str:
    """Say in one sentence what was added up."""
    added = [_PARTS[part] for part in statistic.parts]
    sums = added[0] if len(added) == 1 else joined([joined(added[:-1]), added[-1]], AND)
    return message("{sums}, for {rows}", sums=sums, rows=groups(statistic))


def deviations(measurement: SumMeasurement) -> dict[str, float]:
    """Give the standard deviation of the noise of one number of each part, in natural units.

    Counts are in rows; sums in the unit of an entry, which goes from 0 to 1; products in its square.
    """
    statistic = measurement.statistic
    one, bound = sqrt(measurement.variance) / statistic.move, float(statistic.embedding.bound)
    units = {"counts": 1.0, "sums": bound, "diagonal": bound * bound, "full": bound * bound}
    return {part: one * units[part] for part in statistic.parts}
