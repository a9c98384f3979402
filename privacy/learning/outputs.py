"""From a decoder's outputs to codes, in whole numbers: numbers against thresholds, cells by their weights.

The outputs stand in the order of a `RowLayout`'s heads. The last layer's outputs are read in one of two ways:

    "logits"    chances are exp(output), a flag's 1 / (1 + exp(-output)), a number 1 / (1 + exp(-output))
    "values"    chances are the outputs' positive parts, a flag's and a number the output between 0 and 1

A number may spread: `spreads` times a standard normal is added to its output before it is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from privacy.learning.lattice import LatticePoints
from privacy.learning.layout import BlockKind, RowLayout
from privacy.learning.portable_normal import BITS, normal_steps
from privacy.learning.whole_network import ONE, StepSizes
from privacy.marginals.portable import PostProcessingSeed, scaled_exponential

OutputForm = Literal["logits", "values"]
UNIT_BITS: Final = 30
_MOST_CELLS: Final = 2**20


@dataclass(frozen=True, eq=False)
class OutputColumn:
    """One column of the rows that come out.

    Args:
        name: the column.
        kind: number, category or array of levels.
        cells: codes that it may have.
        length: codes of a row, 1 but for arrays.
        thresholds: of numbers and arrays: code c is that of outputs from thresholds[c - 1] up to thresholds[c];
            they never fall [2^-30]. Empty for categories.
        nullable: a number whose last code is that of nulls.
    Raises:
        ValueError: what does not fit together.
    """

    name: str
    kind: BlockKind
    cells: int
    length: int
    thresholds: LatticePoints
    nullable: bool = False

    def __post_init__(self) -> None:
        if self.kind not in get_args(BlockKind) or not 1 <= self.cells <= _MOST_CELLS or self.length < 1:
            raise ValueError(f"column {self.name}: no such kind, cells or length")
        numbers = 0 if self.kind == "category" else self.cells - self.nullable - 1
        inside = ((self.thresholds >= 0) & (self.thresholds <= 2**UNIT_BITS)).all()
        if self.thresholds.shape != (numbers,) or not inside or (np.diff(self.thresholds) < 0).any():
            raise ValueError(f"column {self.name}: thresholds must be {numbers} from 0 to 2^30, and never fall")
        if self.nullable and (self.kind != "number" or self.cells < 2):
            raise ValueError(f"column {self.name}: only numbers have a code for nulls")

    @property
    def outputs(self) -> int:
        """How many outputs of the network it takes."""
        return self.cells if self.kind == "category" else self.length + self.nullable

    def codes(
        self, outputs: StepSizes, reading: OutputForm, spreads: LatticePoints, seed: PostProcessingSeed, stream: int
    ) -> NDArray[np.int64]:
        """Return the column's codes of some rows, shape (rows, length).

        Args:
            outputs: shape (rows, outputs) [2^-12].
            reading: how outputs are read.
            spreads: shape (outputs,), at least 0 [2^-12].
            seed: of the random words.
            stream: the first of the two streams that it may read.
        """
        rows = outputs.shape[0]
        if self.kind == "category":
            return _chosen(_weights(outputs, reading), seed.words(stream, rows))[:, None]
        numbers = outputs[:, : self.length]
        if spreads[: self.length].any():
            normals = normal_steps(seed.words(stream, numbers.size)).reshape(numbers.shape)
            # Spread in steps of 2^-12, rounded halves up: whole numbers on every machine.
            numbers = numbers + np.floor((normals * spreads[: self.length] + ONE / 2) * 2.0**-BITS)
        # Thresholds lie midway between neighbouring numbers, so this is the nearest number's code.
        codes = np.searchsorted(self.thresholds, _unit(numbers, reading), side="right").astype(np.int64)
        if self.nullable:
            # Null with the flag's chance: the upper 30 bits of a word are uniform below 2^30.
            chance = _unit(outputs[:, self.length], reading)
            missing = (seed.words(stream + 1, rows) >> np.uint64(64 - UNIT_BITS)).astype(np.int64) < chance
            codes[missing] = self.cells - 1
        return codes

    def to_json(self) -> dict[str, Any]:
        """Write all but the thresholds as JSON values."""
        return {
            "name": self.name,
            "kind": self.kind,
            "cells": self.cells,
            "length": self.length,
            "nullable": self.nullable,
        }


Windows = Mapping[str, tuple[float, float]]
"""For some numbers a part of their range: where it begins, and by how much it is stretched to [0, 1]."""


def output_columns(layout: RowLayout, windows: Windows | None = None) -> tuple[OutputColumn, ...]:
    """Return the columns of a layout, a number's code being the one whose number is nearest.

    Args:
        layout: of all columns.
        windows: outputs of these columns stand for numbers within the window; codes outside of it do not come out.
    """
    columns = []
    for each in layout.columns:
        points = each.points if each.kind != "category" else np.empty(0)
        low, factor = (windows or {}).get(each.name, (0.0, 1.0))
        # Thresholds beyond the window are clipped to its ends, which leaves the codes there no room.
        middles = np.clip(((points[1:] + points[:-1]) / 2 - low) * factor, 0.0, 1.0)
        thresholds = np.rint(middles * 2.0**UNIT_BITS).astype(np.int64)
        columns.append(
            OutputColumn(each.name, each.kind, each.table.shape[0], each.length, thresholds, each.nullable)
        )
    return tuple(columns)


def all_codes(
    columns: Sequence[OutputColumn],
    outputs: StepSizes,
    reading: OutputForm,
    spreads: LatticePoints,
    seed: PostProcessingSeed,
    stream: int,
) -> NDArray[np.int32]:
    """Return the codes of all columns, shape (rows, codes); two streams a column, from `stream` on."""
    found, start = [], 0
    for place, column in enumerate(columns):
        stop = start + column.outputs
        each = column.codes(outputs[:, start:stop], reading, spreads[start:stop], seed, stream + 2 * place)
        found.append(each.astype(np.int32))
        start = stop
    return np.concatenate(found, axis=1)


def _weights(outputs: StepSizes, reading: OutputForm) -> LatticePoints:
    """Return whole weights of a column's cells; some cell has one above 0."""
    if reading == "values":
        positive = np.maximum(outputs, 0.0).astype(np.int64)
        # Where no output is above 0 all cells weigh the same.
        weights: LatticePoints = np.where(positive.any(axis=1, keepdims=True), positive, 1)
        return weights
    # Relative to the highest logit, so that some cell has the full weight.
    highest: StepSizes = outputs.max(axis=1, keepdims=True)
    relative: StepSizes = (outputs - highest) * 2.0**-BITS
    return scaled_exponential(relative, UNIT_BITS)


def _chosen(weights: LatticePoints, words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Choose a cell a row with chances proportional to its weights."""
    # The cell is the number of cumulated weights at or below a uniform place below their sum.
    ends = np.cumsum(weights, axis=1)
    # The remainder of a 64-bit word: weights sum to 2^50 at most, so that its bias is below a relative 2^-13.
    at = (words % ends[:, -1].astype(np.uint64)).astype(np.int64)
    chosen: NDArray[np.int64] = (ends <= at[:, None]).sum(axis=1, dtype=np.int64)
    return chosen


def _unit(outputs: StepSizes, reading: OutputForm) -> NDArray[np.int64]:
    """Return outputs as numbers from 0 to 1 [2^-30]."""
    if reading == "values":
        return (np.clip(outputs, 0.0, ONE) * 2.0 ** (UNIT_BITS - BITS)).astype(np.int64)
    # e / (1 + e) with e = exp(-|output|) <= 1 is the chance of the less likely side.
    lower = scaled_exponential(-np.abs(outputs) * 2.0**-BITS, UNIT_BITS)
    share = (lower << UNIT_BITS) // (lower + 2**UNIT_BITS)  # of the less likely side
    numbers: LatticePoints = np.where(outputs < 0, share, 2**UNIT_BITS - share)
    return numbers
