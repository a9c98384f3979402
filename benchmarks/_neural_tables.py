"""Tables of the neural benchmark: real values, how they become codes, and how codes become what a classifier reads.

Bins, bounds and categories are public: they stand in `_neural_data` or in the shipped example's contract, each from
the documentation of its data. A number that is made up is drawn uniformly from its bin, as published rows are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privacy.learning.layout import ColumnLayout, RowLayout
from privacy.marginals.graph import CellDomain

Values = NDArray[np.floating[Any]] | NDArray[np.integer[Any]]
Codes = NDArray[np.integer[Any]]
Features = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Number:
    """A number in bins.

    Args:
        lows: first value of each bin, rising.
        highs: last value of each bin; of numbers that are not whole, the end that is not reached.
        whole: whether values are whole numbers.
    """

    lows: NDArray[np.float64]
    highs: NDArray[np.float64]
    whole: bool

    @property
    def size(self) -> int:
        """Codes."""
        return len(self.lows)

    def layout(self, name: str) -> ColumnLayout:
        """Return the middles of the bins, scaled by the bounds."""
        low, high = self.lows[0], self.highs[-1]
        return ColumnLayout(name, "number", (((self.lows + self.highs) / 2 - low) / (high - low))[:, None])

    def codes(self, values: Values) -> Codes:
        """Return the bin of each value; what lies outside the bounds is clipped."""
        return np.clip(np.searchsorted(self.lows, values, side="right") - 1, 0, self.size - 1)

    def features(self, codes: Codes, generator: np.random.Generator) -> Features:
        """Draw a value from each bin, scaled by the bounds."""
        share = generator.random(codes.shape)
        low, high = self.lows[codes], self.highs[codes]
        drawn = np.floor(low + share * (high - low + 1)) if self.whole else low + share * (high - low)
        return self.scaled(drawn)

    def scaled(self, values: Values) -> Features:
        """Scale real values by the bounds; one column."""
        low, high = self.lows[0], self.highs[-1]
        scaled = (np.asarray(values, dtype=np.float64) - low) / (high - low)
        return np.asarray(scaled, dtype=np.float32).reshape(-1, 1)


@dataclass(frozen=True)
class Category:
    """A column of categories; its values are codes.

    Args:
        labels: the categories.
    """

    labels: tuple[str, ...]

    @property
    def size(self) -> int:
        """Codes."""
        return len(self.labels)

    def layout(self, name: str) -> ColumnLayout:
        """Return one entry a category."""
        return ColumnLayout(name, "category", np.eye(self.size))

    def codes(self, values: Values) -> Codes:
        """Values are codes already."""
        return np.asarray(values, dtype=np.int64)

    def features(self, codes: Codes, generator: np.random.Generator) -> Features:
        """Return one entry a category."""
        return self.scaled(codes)

    def scaled(self, values: Values) -> Features:
        """Return one entry a category."""
        return np.eye(self.size, dtype=np.float32)[np.asarray(values, dtype=np.int64)]


@dataclass(frozen=True)
class Picture:
    """A picture of 256 levels; its values are codes, shape (rows, pixels).

    Args:
        pixels: how many there are.
    """

    pixels: int
    size: int = 256

    def layout(self, name: str) -> ColumnLayout:
        """Return one entry a pixel."""
        side = math.isqrt(self.pixels)
        sides = (side, side) if side * side == self.pixels else None
        return ColumnLayout(name, "array", np.linspace(0, 1, self.size)[:, None], length=self.pixels, sides=sides)

    def codes(self, values: Values) -> Codes:
        """Values are codes already."""
        return np.asarray(values, dtype=np.int64)

    def features(self, codes: Codes, generator: np.random.Generator) -> Features:
        """Scale to [0, 1]."""
        return self.scaled(codes)

    def scaled(self, values: Values) -> Features:
        """Scale to [0, 1]."""
        return np.asarray(np.asarray(values, dtype=np.float32) / np.float32(self.size - 1))


Column = Number | Category | Picture


@dataclass(frozen=True, eq=False)
class Table:
    """Real rows.

    Args:
        name: of the table.
        columns: the columns, in order.
        values: real values of each column, one row a person.
        label: the column that a classifier predicts, a category.
        positive: its code that counts as positive; None where all classes are to be told apart.
    """

    name: str
    columns: Mapping[str, Column]
    values: Mapping[str, Values]
    label: str
    positive: int | None = 1

    def __len__(self) -> int:
        return len(self.values[self.label])

    @property
    def layout(self) -> RowLayout:
        """How rows of codes lie in vectors."""
        return RowLayout(tuple(column.layout(name) for name, column in self.columns.items()))

    @property
    def domain(self) -> CellDomain:
        """The columns and their codes; a picture's are one pixel's."""
        return CellDomain(tuple(self.columns), tuple(column.size for column in self.columns.values()))

    def some(self, rows: NDArray[np.int64]) -> Table:
        """Return some of the rows."""
        return replace(self, values={name: values[rows] for name, values in self.values.items()})

    def codes(self) -> NDArray[np.uint16]:
        """Return the rows' codes, shape (rows, codes of a row)."""
        each = [column.codes(self.values[name]) for name, column in self.columns.items()]
        return np.concatenate([codes.reshape(len(self), -1) for codes in each], axis=1).astype(np.uint16)

    def labels(self) -> NDArray[np.int64]:
        """Return the code of each row's label."""
        return np.asarray(self.values[self.label], dtype=np.int64)

    def features(self) -> Features:
        """Return the real values as a classifier reads them: numbers and pixels in [0, 1], one entry a category."""
        return np.concatenate([self.columns[name].scaled(self.values[name]) for name in self._others()], axis=1)

    def made_up(self, codes: Codes, *, seed: int) -> tuple[Features, NDArray[np.int64]]:
        """Return rows of codes as features and labels; values are drawn from their bins."""
        generator = np.random.default_rng(seed)
        each = []
        for name in self._others():
            column, place = self.columns[name], self.layout.code_place(name)
            part = codes[:, place : place + column.pixels] if isinstance(column, Picture) else codes[:, place]
            each.append(column.features(part, generator))
        return np.concatenate(each, axis=1), codes[:, self.layout.code_place(self.label)].astype(np.int64)

    def _others(self) -> list[str]:
        return [name for name in self.columns if name != self.label]


def whole_bins(edges: list[int] | tuple[int, ...]) -> Number:
    """Return bins of whole numbers that begin at the edges; the last edge is the largest value."""
    lows = np.array(edges[:-1], dtype=np.float64)
    highs = np.array([*(edge - 1 for edge in edges[1:-1]), edges[-1]], dtype=np.float64)
    return Number(lows, highs, True)


def equal_bins(low: float, high: float, bins: int, *, whole: bool) -> Number:
    """Return bins of equal width; of whole numbers, `high` is the largest."""
    edges = np.linspace(low, high + whole, bins + 1)
    return Number(edges[:-1], edges[1:] - whole, whole)


def folds_of(rows: int, folds: int) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Return (training rows, test rows) of every fold of a cross-validation, shuffled with a fixed seed."""
    parts = np.array_split(np.random.default_rng(0).permutation(rows), folds)
    return [
        (np.concatenate([part for other, part in enumerate(parts) if other != fold]), parts[fold])
        for fold in range(folds)
    ]
