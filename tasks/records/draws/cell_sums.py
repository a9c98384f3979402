"""Noisy sums of a column by cell, as they are published: each draw in a tidy table, a row a cell and part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

import numpy as np

from contracts.contract.column import Cells, Labelled
from contracts.domains.addends import Addends, Summands, WeightedCount
from contracts.domains.distinct_counts import DistinctCount
from contracts.domains.value_bins import BinTree
from contracts.domains.value_lattices import ValueLattice
from contracts.domains.value_magnitudes import ValueMagnitudes
from contracts.domains.value_sums import LoneSum, ValueMoments
from contracts.domains.value_trees import ValueTree
from contracts.message import message
from contracts.reading.scalars import parse_bound, plain_text
from privacy.accounting.events import event_from_json
from privacy.grant.measurement import CellSumMeasurement, Measurement
from privacy.marginals.uncertainty import half_width, variance
from privacy.table_plans.plan import CONFIDENCE
from tasks.records.draws.draw_form import DrawForm
from tasks.records.draws.marginal import file_name
from tasks.records.facts import RunFacts
from tasks.records.files.tidy_tables import MEASUREMENTS, WrittenFile, write_measurement
from tasks.records.groups.account import noise_words
from tasks.records.model.statement import StatedText, Statement, Tuple
from tasks.records.model.version_statements import FittedDraw

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
