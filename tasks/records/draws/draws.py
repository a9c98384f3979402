"""Noisy sums of a column by cell, as they are published: each draw in a tidy table, a row a cell and part."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod, sqrt
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from contracts.canonical import readable_json
from contracts.contract.column import Cells, Labelled
from contracts.domains.addends import (
    Addends,
    DistinctCount,
    LoneSum,
    Summands,
    ValueMagnitudes,
    ValueMoments,
    WeightedCount,
)
from contracts.domains.lattice import ValueLattice
from contracts.domains.trees import BinTree, QuantileChoices, ValueTree
from contracts.message import AND, joined, message
from contracts.reading.scalars import parse_bound, plain_text
from privacy.accounting.events import ExponentialMechanism, event_from_json
from privacy.grant.measurement import CellSumMeasurement, Measurement, SumMeasurement
from privacy.grant.queries.quantile_choice import QuantileMeasurement
from privacy.learning.learners import learner_digest, parameters_of
from privacy.learning.moments import Everyone, LabelCodes, Moments, NearestCentre, NormShells
from privacy.learning.trained import Trained, unpacked
from privacy.learning.written_statistics import PART_NAMES, statistic_arrays, tidy_rows
from privacy.marginals.count_noise import half_width, variance
from privacy.table_plans.plan import CONFIDENCE
from tasks.records.draws.marginal import CHOOSER, DrawForm, file_name
from tasks.records.facts import RunFacts
from tasks.records.files.tidy_tables import MEASUREMENTS, Tidy, WrittenFile, write_measurement, written
from tasks.records.files.write import ARRAY_COLUMNS, write_arrays
from tasks.records.groups.guarantee import noise_words
from tasks.records.model.statement import Count, Hash, StatedText, Statement, Tuple
from tasks.records.model.version_statements import FittedDraw
from tasks.records.unpublished import Published

_WHAT: Final[Mapping[type, str]] = {
    ValueLattice: "sums",
    LoneSum: "sums",
    ValueMoments: "sums",
    ValueTree: message("tree of counts"),
    BinTree: message("tree of counts inside bins"),
    ValueMagnitudes: message("histogram of magnitudes"),
    WeightedCount: message("weighted counts"),
    DistinctCount: message("distinct counts"),
}
_UNITS: Final = "units"
PART: Final = "part"
"""The column of a file that says which number of a cell a row has."""


class LatticeStatement(Statement):
    """The lattice of a column."""

    column: StatedText
    low: StatedText
    high: StatedText
    step: StatedText
    counts_missing: bool

    @property
    def lattice(self) -> ValueLattice:
        """The lattice.

        Raises:
            ValueError: an end or the step is no number, or one that no contract can have.
        """
        low, high, step = (parse_bound(text) for text in (self.low, self.high, self.step))
        return ValueLattice(self.column, low, high, step, self.counts_missing)


class AddendsStatement(LatticeStatement):
    """The lattice on which a column was added up; with a resolution or cuts, the tree of counts over it.

    With a weight each row counts as often as its weight says. With `counts_rows` the column is the weight itself, and
    rows were counted by it. `alone` says that only sums were drawn, of which all rows of a unit add `per_unit` at
    most; `whole`, that moments were, in so many steps a row; `magnitudes`, that a histogram of them was. Where
    several are stated, it reads as one of them, which writes itself otherwise.
    """

    resolution: StatedText | None = None
    cuts: Tuple[int] | None = None
    alone: Literal[True] | None = None
    per_unit: StatedText | None = None
    whole: int | None = None
    magnitudes: Literal[True] | None = None
    weight: LatticeStatement | None = None
    counts_rows: Literal[True] | None = None

    @property
    def addends(self) -> Summands:
        """The lattice, the tree, or the weight by which rows were counted.

        Raises:
            ValueError: an end, a step or a resolution is no number, or one that no contract can have.
        """
        lattice = self.lattice
        if self.counts_rows:
            return WeightedCount(lattice)
        if self.weight is not None:
            lattice = replace(lattice, weight=self.weight.lattice)
        if self.whole is not None:
            return ValueMoments(lattice, self.whole)
        if self.alone is not None:
            return LoneSum(lattice, None if self.per_unit is None else parse_bound(self.per_unit))
        if self.magnitudes is not None:
            return ValueMagnitudes(lattice)
        if self.cuts is not None:
            return BinTree(lattice, self.cuts)
        return lattice if self.resolution is None else ValueTree(lattice, parse_bound(self.resolution))


class DistinctStatement(Statement):
    """What was counted: privacy units, or different values of a column, and how many its domain declares.

    `declared_cells` says that all cells are declared: then a unit is in no more of them than there are. `most_cells`
    says in how many it is at most where its keys are bounded.
    """

    counts: Literal["values", "units"]
    column: StatedText | None = None
    values: int | None = None
    declared_cells: bool
    most_cells: int | None = None

    @property
    def addends(self) -> DistinctCount:
        """The distinct count; of a contradiction one that writes itself otherwise."""
        return DistinctCount(self.column, self.values, self.declared_cells, self.most_cells)


class CellSumDraw(FittedDraw):
    """Noisy sums of a column by cell, or distinct counts, in a file of their own."""

    kind: Literal["cell_sums"]
    addends: AddendsStatement | DistinctStatement


@dataclass(frozen=True)
class _PartLabels:
    """The parts of a cell, as labels of a column."""

    labels: tuple[str, ...]

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.labels)


@dataclass(frozen=True)
class PartedCells:
    """The cells of columns, each in parts: what rows above the lower bound, below the upper bound and missing make.

    Args:
        whole: gives the labels and impossible cells of the columns that rows are grouped by.
        parts: the names of the parts; of a tree its nodes.
    """

    whole: Cells
    parts: tuple[str, ...]

    def column(self, name: str) -> Labelled:
        """Return the cells of one column, or the parts."""
        return _PartLabels(self.parts) if name == PART else self.whole.column(name)

    def shape(self, clique: Sequence[str]) -> tuple[int, ...]:
        """Return the number of cells of each column."""
        return tuple(self.column(name).size for name in clique)

    def cells(self, clique: Sequence[str]) -> int:
        """Return the number of cells of all columns together."""
        return prod(self.shape(clique))

    def impossible(self, clique: Sequence[str]) -> NDArray[np.bool_]:
        """Mark the cells that cannot hold anybody, in all their parts; the parts are the last column."""
        return np.repeat(self.whole.impossible(clique[:-1])[..., None], len(self.parts), axis=-1)


class CellSumForm(DrawForm[CellSumMeasurement, CellSumDraw]):
    """How noisy sums by cell are stated, written and told."""

    statement = CellSumDraw
    role = "measurements"
    summary = "Noisy sums by cell as they were drawn."
    cells = "one a cell of the declared domain and part of its sum"
    columns: ClassVar[Mapping[str, str]] = {
        PART: "What was added up over the rows of the cell: steps above the lower end of the clip, steps below its "
        "upper end, or all steps of the clip for each missing value; with a survey weight, as often as it "
        "says; of a sum alone the values in steps; of a distinct count its values or units; of moments "
        "the shares of each row at the lower end of the clip, between the ends, and at the upper end.",
        "noisy": "Noisy sum in steps of the column's lattice, as it was drawn.",
        "variance": "Variance of the noise, in squared steps.",
        "lower": "Lower end of a 95 % interval of the exact sum, in steps.",
        "upper": "Upper end of a 95 % interval of the exact sum, in steps.",
        "structural_zero": "Whether the contract declares the cell impossible.",
        "suppressed": "Whether the cell's noisy count is below the threshold of the minimum-frequency rule; its "
        "numbers are missing then.",
    }
    noise_on = message("sums by cell")

    def files(self, drawn: Sequence[CellSumMeasurement], numbers: Mapping[str, int]) -> dict[str, str]:
        """Name the file of each."""
        return {each.key: f"{MEASUREMENTS}/{sums_name(each)}.parquet" for each in drawn}

    def write(
        self, drawn: Sequence[CellSumMeasurement], facts: RunFacts, folder: Path, *, marks: Mapping[str, str]
    ) -> Iterator[WrittenFile]:
        """Write each, a row a cell and part."""
        for each in drawn:
            cells, width = PartedCells(facts.contract, each.addends.part_names), half_width(each.event, CONFIDENCE)
            parted = Measurement(
                each.key, (*each.clique, PART), each.values, each.event, each.variance, each.number, each.sha256
            )
            gone = None if each.threshold is None else each.threshold.hidden(each.values)
            yield write_measurement(parted, sums_name(each), width, cells, folder, marks=marks, suppressed=gone)

    def stated(self, released: CellSumMeasurement, key: str) -> dict[str, Any]:
        """Return the columns, the shape of the numbers, and the lattice."""
        return {
            "clique": list(released.clique),
            "shape": list(released.values.shape),
            "addends": released.addends.to_json(),
        }

    def described(self, released: CellSumMeasurement, key: str) -> dict[str, Any]:
        """Describe the draw: what is added up, its sensitivity, its noise [steps]."""
        moves, addends = released.event.moves, released.addends
        return {
            "what": _WHAT[type(addends)],
            "of": _UNITS if addends.column is None else addends.column,
            "columns": list(released.clique),
            "numbers": released.values.size,
            **({} if isinstance(addends, DistinctCount) else _lattice_terms(addends.lattice)),
            **_quota_terms(addends),
            "l1_sensitivity": sum(map(abs, moves)),
            "l2_sensitivity_squared": sum(move * move for move in moves),
            "noise": noise_words(released.event),
            "variance": released.variance,
            "half_width_95": half_width(released.event, CONFIDENCE),
        }

    def measured(self, released: CellSumMeasurement) -> dict[str, Any]:
        """Describe what is published."""
        return {
            "columns": cell_sum_words(_named(released), released.clique),
            "cells": prod(released.values.shape[:-1]),
            "deviation": f"{released.variance**0.5:.6g}",
        }

    def sensitivities(self, drawn: Sequence[CellSumMeasurement]) -> list[dict[str, Any]]:
        """Give the norms of the worst neighbour's change: in steps of each column's lattice, of trees in rows."""
        known = {(_named(each), each.event.moves): None for each in drawn}
        return [
            {"of": column, "l1": sum(map(abs, moves)), "l2_squared": sum(part * part for part in moves)}
            for column, moves in known
        ]

    def published(self, draws: Sequence[CellSumDraw]) -> tuple[CellSumMeasurement, ...]:
        """Return the sums without their values, of which only the shape is read."""
        return tuple(_measurement(draw) for draw in draws)


def cell_sum_words(column: str, by: Sequence[str]) -> str:
    """Name what is added up, and by which columns."""
    if not by:
        return message("{column} over all rows", column=column)
    return message("{column} by {columns}", column=column, columns=" × ".join(by))


def sums_name(measurement: CellSumMeasurement) -> str:
    """Name a draw's file after its number, its columns and what is added up."""
    return file_name(measurement.number, (*measurement.clique, measurement.addends.column or _UNITS))


def _named(measurement: CellSumMeasurement) -> str:
    """Name what was drawn: a column that was added up, or a tree of counts over one."""
    column = measurement.addends.column
    if column is None:
        return message("privacy units")
    if isinstance(measurement.addends, DistinctCount):
        return message("different values of {column}", column=column)
    if isinstance(measurement.addends, WeightedCount):
        return message("rows weighted by {column}", column=column)
    if isinstance(measurement.addends, ValueMagnitudes):
        return message("magnitudes of {column}", column=column)
    if isinstance(measurement.addends, ValueTree | BinTree):
        return message("a tree of counts of {column}", column=column)
    return message("moments of {column}", column=column) if isinstance(measurement.addends, ValueMoments) else column


def _lattice_terms(lattice: ValueLattice) -> dict[str, Any]:
    """Say within which ends and in which steps values are added up, and by what they are weighed."""
    clip = f"[{plain_text(lattice.low)}, {plain_text(lattice.high)}]"
    return {"clip": clip, "steps_of": plain_text(lattice.step), **weight_terms(lattice.weight)}


def _quota_terms(addends: Addends) -> dict[str, Any]:
    """Say what all rows of a unit add at most; nothing where each adds its whole value."""
    if not isinstance(addends, LoneSum) or addends.per_unit is None:
        return {}
    return {"per_unit": plain_text(addends.per_unit)}


def weight_terms(weight: ValueLattice | None) -> dict[str, Any]:
    """Say by what rows are weighed; nothing where every row counts once."""
    if weight is None:
        return {}
    clip = f"[{plain_text(weight.low)}, {plain_text(weight.high)}]"
    return {"survey_weight": {"column": weight.column, "clip": clip, "steps_of": plain_text(weight.step)}}


def _measurement(draw: CellSumDraw) -> CellSumMeasurement:
    event: Any = event_from_json(draw.event)
    values = np.broadcast_to(np.int64(0), draw.shape)  # only its shape is read
    entered = draw.number, draw.sha256
    return CellSumMeasurement(draw.key, draw.clique, draw.addends.addends, values, event, variance(event), *entered)


# --- Noisy sums over rows, as they are published.


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


# --- Trainings by DP-SGD, as they are published.


CHECKPOINT_SCHEMA: Final = pa.schema(
    [
        pa.field("part", pa.dictionary(pa.int8(), pa.string()), nullable=False),
        pa.field("value", pa.float32(), nullable=False),
    ]
)
CHECKPOINT_PARTS: Final = ("parameters", "first moments", "second moments", "average", "padding")


SAMPLER: Final = message("Gaussian, drawn exactly and rounded to a lattice; Poisson samples of rows drawn exactly")
TRAINING: Final = message("DP-SGD: Gaussian noise on clipped gradients of Poisson samples")
LOST: Final = "/lost-"


class TrainingStatement(Statement):
    """One interval of a training by DP-SGD.

    Its plan (rationals as text), the digest of what was trained, and which interval it is; None for an attempt that
    was interrupted and lost.
    """

    plan: dict[str, Any]
    learner: Hash
    interval: Count | None


class TrainingDraw(FittedDraw):
    """One interval of a training; the last one's checkpoint is published."""

    kind: Literal["training"]
    training: TrainingStatement


class TrainingForm(DrawForm[Trained, TrainingDraw]):
    """How a training is stated, written and told."""

    statement = TrainingDraw
    role = "checkpoint"
    summary = "The last checkpoint of a training, as it was drawn."
    columns: ClassVar[Mapping[str, str]] = {
        "part": "Parameters, the optimizer's moments, or their average.",
        "value": "A number of it.",
    }

    def keys(self, released: Trained, entered: Sequence[str]) -> Sequence[str]:
        """Return the intervals as the journal has them; attempts that were interrupted and lost too."""
        return [key for key in entered if key.startswith(f"{released.key}/")]

    def files(self, drawn: Sequence[Trained], numbers: Mapping[str, int]) -> dict[str, str]:
        """Name the file of each last checkpoint after its number."""
        return {
            trained.draws[-1]: f"{MEASUREMENTS}/{numbers[trained.draws[-1]]:04d}-checkpoint.parquet"
            for trained in drawn
        }

    def write(
        self, drawn: Sequence[Trained], facts: RunFacts, folder: Path, *, marks: Mapping[str, str]
    ) -> Iterator[WrittenFile]:
        """Write the last checkpoint of each training."""
        (folder / MEASUREMENTS).mkdir(exist_ok=True)
        numbers = {entry.body["key"]: entry.body["number"] for entry in facts.entries if entry.kind == "noise_drawn"}
        for trained, path in zip(drawn, self.files(drawn, numbers).values(), strict=True):
            values = unpacked(trained.checkpoint, 2 * trained.checkpoint.size)
            parts = pa.DictionaryArray.from_arrays(
                pa.array(_parts(trained, values.size)), pa.array(CHECKPOINT_PARTS, pa.string())
            )
            schema = CHECKPOINT_SCHEMA.with_metadata(dict(marks))
            table = pa.Table.from_arrays([parts, pa.array(values)], schema=schema)
            pq.write_table(table, folder / path, compression="zstd", use_dictionary=["part"])
            columns = (("part", "string"), ("value", "float"))
            yield written(folder, path, trained.draws[-1], self.role, values.size, columns)

    def stated(self, released: Trained, key: str) -> dict[str, Any]:
        """Return plan, learner, and which interval it is."""
        interval = released.draws.index(key) if key in released.draws else None
        return {
            "clique": [],
            "shape": [] if LOST in key else [released.checkpoint.size],
            "training": {
                "plan": released.plan.to_json(),
                "learner": learner_digest(released.learner),
                "interval": interval,
            },
        }

    def described(self, released: Trained, key: str) -> dict[str, Any]:
        """Describe an interval."""
        lost = message("interval of a training, lost and paid again")
        return {
            "what": lost if LOST in key else message("interval of a training"),
            "columns": list(released.layout.names),
            "cells": parameters_of(released.learner),
            "noise": noise_of(released),
        }

    def measured(self, released: Trained) -> dict[str, Any]:
        """Describe a training; the keys that marginals have too mean the same."""
        plan = released.plan
        return {
            "columns": ", ".join(released.layout.names),
            "cells": parameters_of(released.learner),
            "deviation": f"{float(plan.standard_deviation):.6g}",
            "trained": message(
                "{kind}: {steps} steps, each on a sample in which every row is with probability {p}, the gradients "
                "of its rows clipped to norm {norm}",
                kind=released.learner.kind.replace("_", " "),
                steps=plan.steps,
                p=f"{float(plan.sampling_probability):.6g}",
                norm=f"{float(plan.clipping_norm):.6g}",
            ),
            "noise": noise_of(released),
        }

    def sensitivities(self, drawn: Sequence[Trained]) -> list[dict[str, Any]]:
        """Give the norm to which gradients are clipped."""
        return [{"of": message("sums of gradients"), "l2": float(each.plan.clipping_norm)} for each in drawn]

    def samplers(self, drawn: Sequence[Trained]) -> set[str]:
        """Name how samples and noise are drawn."""
        return {SAMPLER}

    def mechanism(self, noise: str, drawn: Sequence[Trained]) -> str:
        """Say how noise is added."""
        return message("{noise}, and {training}", noise=noise, training=TRAINING) if noise else TRAINING

    def published(self, draws: Sequence[TrainingDraw]) -> tuple[Any, ...]:
        """Return keys and clipping norms; what was trained stands in files."""
        trainings = {draw.key.rpartition("/")[0]: draw.training.plan for draw in draws}
        return tuple(
            Published(
                kind="training", key=key, plan=Published(clipping_norm=Fraction(str(plan.get("clipping_norm"))))
            )
            for key, plan in trainings.items()
        )


def noise_of(trained: Trained) -> str:
    """Say how much noise a step adds."""
    return message(
        "Gaussian, sigma {sigma} clipping norms on every sum of gradients",
        sigma=f"{float(trained.plan.noise_multiplier):.6g}",
    )


def _parts(trained: Trained, numbers: int) -> np.ndarray[Any, np.dtype[np.int8]]:
    """Say of each number of a checkpoint what it is: parameters, moments, the average, and what fills a word up."""
    size, learner = parameters_of(trained.learner), trained.learner
    averaged = learner.averaging is not None
    moments = numbers // size - 1 - averaged
    kinds = [0, *range(1, 1 + moments), *([3] if averaged else [])]
    found = np.full(numbers, 4, dtype=np.int8)
    found[: size * len(kinds)] = np.repeat(np.array(kinds, dtype=np.int8), size)
    return found


# --- Chosen quantiles by cell, as they are published.


CHOSEN: Final = "chosen"
ZERO: Final = "structural_zero"


class ChoicesStatement(Statement):
    """The lattice among whose offsets quantiles were chosen, and which quantiles."""

    column: StatedText
    low: StatedText
    high: StatedText
    step: StatedText
    counts_missing: bool
    quantiles: Tuple[StatedText]

    @property
    def choices(self) -> QuantileChoices:
        """Lattice and quantiles.

        Raises:
            ValueError: an end, the step or a quantile is no number, or one that no contract can have.
        """
        low, high, step = (parse_bound(text) for text in (self.low, self.high, self.step))
        lattice = ValueLattice(self.column, low, high, step, self.counts_missing)
        return QuantileChoices(lattice, tuple(parse_bound(text) for text in self.quantiles))


class QuantileDraw(FittedDraw):
    """Chosen quantiles by cell, in a file of their own."""

    kind: Literal["quantile_choice"]
    choices: ChoicesStatement


class QuantileChoiceForm(DrawForm[QuantileMeasurement, QuantileDraw]):
    """How chosen quantiles are stated, written and told."""

    statement = QuantileDraw
    role = "chosen quantiles"
    summary = "Quantiles by cell as the exponential mechanism chose them."
    cells = "one a cell of the declared domain and quantile"
    columns: ClassVar[Mapping[str, str]] = {
        PART: "Which quantile was chosen among the values of the cell, in percent.",
        CHOSEN: "The chosen value, in steps of the column's lattice above the lower end of its clip.",
        ZERO: "Whether the contract declares the cell impossible.",
    }

    def files(self, drawn: Sequence[QuantileMeasurement], numbers: Mapping[str, int]) -> dict[str, str]:
        """Name the file of each."""
        return {each.key: f"{MEASUREMENTS}/{_name(each)}.parquet" for each in drawn}

    def write(
        self, drawn: Sequence[QuantileMeasurement], facts: RunFacts, folder: Path, *, marks: Mapping[str, str]
    ) -> Iterator[WrittenFile]:
        """Write each, a row a cell and quantile."""
        for each in drawn:
            cells, clique = PartedCells(facts.contract, each.choices.part_names), (*each.clique, PART)
            tidy = Tidy(cells, clique, {CHOSEN: each.values, ZERO: cells.impossible(clique)})
            yield tidy.write(folder, f"{MEASUREMENTS}/{_name(each)}.parquet", draw=each.key, marks=marks)

    def stated(self, released: QuantileMeasurement, key: str) -> dict[str, Any]:
        """Return the columns, the shape of what was chosen, and among what."""
        return {
            "clique": list(released.clique),
            "shape": list(released.values.shape),
            "choices": released.choices.to_json(),
        }

    def described(self, released: QuantileMeasurement, key: str) -> dict[str, Any]:
        """Describe the draw: which quantiles of what, and how many candidates there were."""
        choices, lattice = released.choices, released.choices.lattice
        return {
            "what": message("chosen quantiles"),
            "of": choices.column,
            "columns": list(released.clique),
            "numbers": released.values.size,
            "clip": f"[{plain_text(lattice.low)}, {plain_text(lattice.high)}]",
            "steps_of": plain_text(lattice.step),
            "quantiles": [plain_text(share) for share in choices.shares],
            "loss_per_row": str(choices.loss_factor),
            "noise": message("exponential mechanism"),
        }

    def measured(self, released: QuantileMeasurement) -> dict[str, Any]:
        """Describe what is published."""
        named = message("quantiles of {column}", column=released.choices.column)
        return {"columns": cell_sum_words(named, released.clique), "quantiles": list(released.choices.part_names)}

    def sensitivities(self, drawn: Sequence[QuantileMeasurement]) -> list[dict[str, Any]]:
        """Say by how much one row moves the distance of a candidate at most, quantile by quantile [rows]."""
        return [
            {
                "of": message("distances from quantiles of {column}", column=each.choices.column),
                "moved_by": [plain_text(max(share, 1 - share)) for share in each.choices.shares],
            }
            for each in drawn
        ]

    def samplers(self, drawn: Sequence[QuantileMeasurement]) -> set[str]:
        """Name how a choice is sampled."""
        return {CHOOSER}

    def mechanism(self, noise: str, drawn: Sequence[QuantileMeasurement]) -> str:
        """Say that quantiles are chosen."""
        return message("{noise}; quantiles chosen by the exponential mechanism", noise=noise)

    def published(self, draws: Sequence[QuantileDraw]) -> tuple[QuantileMeasurement, ...]:
        """Return what was chosen without its values, of which only the shape is read."""
        return tuple(_quantile_measurement(draw) for draw in draws)


def _name(measurement: QuantileMeasurement) -> str:
    return file_name(measurement.number, (*measurement.clique, measurement.choices.column))


def _quantile_measurement(draw: QuantileDraw) -> QuantileMeasurement:
    event = event_from_json(draw.event)
    if not isinstance(event, ExponentialMechanism):
        raise TypeError(f"{draw.key} is no choice")
    values = np.broadcast_to(np.int64(0), draw.shape)  # only its shape is read
    return QuantileMeasurement(draw.key, draw.clique, draw.choices.choices, values, event, draw.number, draw.sha256)
