"""What an attacker sees of a release, and what each kind of it tells of a row: presence, a value, likeness.

Each kind scores rows of codes in the order of its columns. It reads what is published, and the rows that are
attacked; of which rows the release was made it knows nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from privacy.arrays import Floats, Integers
from privacy.classifiers.classifier_model import ClassifierModel
from privacy.evaluation.attribute_inference import evidence
from privacy.evaluation.membership import scaled_confidence
from privacy.evaluation.model_inversion import inverted, likenesses
from privacy.games.inference import closeness, nearness, value_shares

_LEAST_SHARE: Final = 0.01
_LEAST_COUNT: Final = 0.5


class Seen(Protocol):
    """A release as an attacker sees it."""

    def presence(self, rows: Integers) -> Floats:
        """Score each row in one way or several: larger where it looks as if it were in; shape (ways, rows)."""
        ...

    def evidence(self, rows: Integers, secret: int, values: int) -> Floats:
        """Return for each value of a secret column how well it fits the row, log scale, shape (rows, values)."""
        ...


@dataclass(frozen=True, eq=False)
class SeenRows:
    """Synthetic rows.

    Args:
        rows: shape (rows, columns).
    """

    rows: Integers

    def presence(self, rows: Integers) -> Floats:
        """Score by how close all synthetic rows are, and the nearest one."""
        return np.stack([closeness(self.rows, rows), nearness(self.rows, rows)])

    def evidence(self, rows: Integers, secret: int, values: int) -> Floats:
        """Ask the synthetic rows that are nearest in all other columns."""
        shares = value_shares(self.rows, rows, secret=secret, values=values)
        return np.asarray(np.log(shares + _LEAST_SHARE) - np.log1p(_LEAST_SHARE))


@dataclass(frozen=True, eq=False)
class SeenTable:
    """A published table.

    Args:
        places: of its columns among those of the rows.
        counts: refined counts, its shape [rows].
        variance: of the noise of a cell, before refinement [rows squared].
    """

    places: tuple[int, ...]
    counts: Floats
    variance: float

    def cells(self, rows: Integers) -> NDArray[np.intp]:
        """Return the number of each row's cell."""
        return np.ravel_multi_index(tuple(rows[:, place] for place in self.places), self.counts.shape)


@dataclass(frozen=True, eq=False)
class SeenTables:
    """Published tables."""

    tables: tuple[SeenTable, ...]

    def presence(self, rows: Integers) -> Floats:
        """Score by how far the counts of a row's cells lie above what the toss of coins leads to expect.

        The attacker knows all rows that may be in the release. Of n rows of a cell about half are in it, so that its
        count has the variance n / 4 and that of the noise; the sum over the tables weighs each by it. The second way
        does not believe in the noise.
        """
        score = np.zeros((2, len(rows)))
        for table in self.tables:
            cells = table.cells(rows)
            _, places, number = np.unique(cells, return_inverse=True, return_counts=True)
            there = number[places]
            above = table.counts.ravel()[cells] - there / 2
            score += above / np.stack([there / 4 + table.variance, there**2 / 4])
        return score

    def evidence(self, rows: Integers, secret: int, values: int) -> Floats:
        """Compare the counts of the cells that a row would be in."""
        found = np.zeros((len(rows), values))
        for table in self.tables:
            if secret in table.places:
                for value in range(values):
                    placed = rows.copy()
                    placed[:, secret] = value
                    counts = table.counts.ravel()[table.cells(placed)]
                    found[:, value] += np.log(np.maximum(counts, _LEAST_COUNT))
        return found


@dataclass(frozen=True, eq=False)
class SeenModel:
    """A published classifier.

    Args:
        model: with its weights.
        label: place of the label among the columns of the rows.
    """

    model: ClassifierModel
    label: int

    def presence(self, rows: Integers) -> Floats:
        """Score by how sure the model is of the true label."""
        labels = rows[:, self.label].astype(np.int64)
        return scaled_confidence(self.model.probabilities(rows.astype(np.uint32)), labels)[None]

    def evidence(self, rows: Integers, secret: int, values: int) -> Floats:
        """Ask how sure the model is of the true label with each value in place."""
        labels = rows[:, self.label].astype(np.int64)
        return evidence(self.model.probabilities, rows.astype(np.uint32), labels, place=secret, values=values)

    def likeness(self, rows: Integers) -> Floats:
        """Score by the correlation of a row with what the model takes for typical of its class."""
        vectors = self.model.layout.vectors(rows.astype(np.uint32))[:, self.model.features].astype(np.float64)
        score = np.zeros(len(rows))
        for cell in np.unique(rows[:, self.label]):
            found, start = self._typical(int(cell))
            ours = rows[:, self.label] == cell
            score[ours] = likenesses(found, vectors[ours] - start)
        return score

    def _typical(self, cell: int) -> tuple[Floats, Floats]:
        found = self._inverted.setdefault(cell, inverted(self.model, cell))
        return found.moved, found.start

    @cached_property
    def _inverted(self) -> dict[int, Any]:
        return {}
