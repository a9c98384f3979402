"""Public rows that private rows vote for: each row has one vote, and gives it to the candidate that is nearest.

A row lies as its `RowLayout` writes it, in whole numbers: a number or date of a bin's middle from 0 to 2^8 over its
declared range, a category as 2^7 in the entry of its cell, a missing number as 2^7 in an entry of its own. So two
categories that differ are as far apart as numbers that differ by 0.71 of their range. The distance is Euclidean.

Every row votes exactly once, whatever the others do. So the votes are a marginal of one column, whose cells are the
candidates: k rows of a unit that come or go move them by at most k in all, and k that are exchanged by k and k
(docs/derivations.md, "Votes for public candidates").

    label     a row votes among the candidates of its own label, or among all where none has it
    ties      the first of the nearest has the vote
    numbers   |c|² - 2 r·c is compared, whose parts are whole and below 2^24 in float32, or below 2^53 in float64:
              exact in any order of sums, so that threads and libraries do not matter

Source: Lin et al. 2024 (private evolution: votes for the nearest candidate); Tran et al. 2026 (of tables, Tab-PE).
Deviates: a label's share of the votes is not exact, but part of the one noisy draw.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contracts.canonical import digest
from contracts.contract.contract import Adjacency
from privacy.accounting.events import CountNoise
from privacy.arrays import Unsigned
from privacy.learning.layout import RowLayout
from privacy.marginals.sensitivity import Noise, noise_event

BITS: Final = 8
_UNIT: Final = 2**BITS
_CATEGORY: Final = 2 ** (BITS - 1)
_EXACT_FLOAT32: Final = 2**24
_BLOCK_NUMBERS: Final = 2**22
"""Distances that are held at once, and entries of the rows that they are of."""
MOST_CANDIDATES: Final = 2**20
MOST_COLUMNS: Final = 2**10


@dataclass(frozen=True, eq=False)
class Candidates:
    """Public rows, in their order.

    Args:
        columns: of each row, each named once.
        codes: shape (candidates, columns), at least one.
        label: a column of listed values: rows vote for candidates of their own label; None for no such column.
    Raises:
        ValueError: another shape, no candidate, or a label that is no column.
    """

    columns: tuple[str, ...]
    codes: NDArray[np.int64]
    label: str | None

    def __post_init__(self) -> None:
        count = self.codes.shape[0] if self.codes.ndim == 2 else 0
        if not 1 <= count <= MOST_CANDIDATES or self.codes.shape[1] != len(self.columns):
            raise ValueError(f"candidates must be 1 to {MOST_CANDIDATES} rows, with a code of each column")
        if not 1 <= len(self.columns) <= MOST_COLUMNS or len(set(self.columns)) != len(self.columns):
            raise ValueError(f"candidates must have 1 to {MOST_COLUMNS} columns, each named once")
        if self.label is not None and self.label not in self.columns:
            raise ValueError(f"the label {self.label!r} is none of the columns")

    def __len__(self) -> int:
        """Count the candidates."""
        return int(self.codes.shape[0])

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of columns, label and codes."""
        codes = hashlib.sha256(self.codes.astype("<i8").tobytes()).hexdigest()
        return digest([list(self.columns), self.label, list(self.codes.shape), codes])

    def check(self, layout: RowLayout) -> None:
        """Refuse candidates of other rows.

        Raises:
            ValueError: other columns, a column of several codes, a code that there is not, or a label of numbers.
        """
        if layout.names != self.columns:
            raise ValueError(f"candidates of {', '.join(self.columns)}; allowed: of {', '.join(layout.names)}")
        several = next((column.name for column in layout.columns if column.length != 1), None)
        if several is not None:
            raise ValueError(f"the column {several!r} has several codes a row; allowed: columns of single values")
        sizes = np.array([column.table.shape[0] for column in layout.columns])
        if ((self.codes < 0) | (self.codes >= sizes)).any():
            raise ValueError("a candidate has a code that its column does not have")
        if self.label is not None and layout.column(self.label).kind != "category":
            raise ValueError(f"the label {self.label!r} is a number; allowed: a column of listed values")

    def votes(self, codes: Unsigned, layout: RowLayout) -> NDArray[np.int64]:
        """Count each candidate's votes.

        Args:
            codes: of the rows, shape (rows, columns).
            layout: of rows and candidates.
        Returns:
            int64, shape (candidates,) [rows]; they add up to the number of rows.
        Privacy: private; for a grant alone.
        """
        points = vote_vectors(self.codes, layout)
        squares = (points * points).sum(axis=1)
        electorates = list(self._electorates())
        found = np.zeros(len(self), dtype=np.int64)
        size = max(1, _BLOCK_NUMBERS // max(points.shape))
        for start in range(0, len(codes), size):
            some = codes[start : start + size]
            vectors = 2 * vote_vectors(some, layout)
            for places, own in electorates:
                chosen = vectors if own is None else vectors[own(some)]
                # |r - c|² = |r|² + (|c|² - 2 r·c): a row's own length does not tell candidates apart.
                nearest = (squares[places] - chosen @ points[places].T).argmin(axis=1)
                found += np.bincount(places[nearest], minlength=len(self))
        return found

    def _electorates(self) -> Iterator[tuple[NDArray[np.intp], Callable[[Unsigned], NDArray[np.bool_]] | None]]:
        """Yield places of candidates, with which rows vote among them; None for all rows."""
        everyone = np.arange(len(self))
        if self.label is None:
            yield everyone, None
            return
        place = self.columns.index(self.label)
        labels = np.unique(self.codes[:, place])
        for label in labels:
            yield np.flatnonzero(self.codes[:, place] == label), partial(_has_label, place, int(label))
        yield everyone, partial(_has_none_of, place, labels)


def vote_vectors(codes: NDArray[Any], layout: RowLayout) -> NDArray[Any]:
    """Return rows as whole numbers, whose squared distances are compared; float32 where that is exact, else float64.

    Args:
        codes: shape (rows, columns).
        layout: of the rows.
    Returns:
        shape (rows, layout.width), each entry from 0 to 2^8.
    """
    counted = ((head.kind, head.stop - head.start) for head in layout.heads)
    # The longest row: every number at its highest, one cell of each category, every flag.
    longest = sum(width * _UNIT**2 if kind == "unit" else _CATEGORY**2 for kind, width in counted)
    kind = np.float32 if 2 * longest <= _EXACT_FLOAT32 else np.float64
    vectors: NDArray[Any] = layout.lattice(codes.astype(np.int64), bits=BITS).astype(kind)
    for head in layout.heads:
        if head.kind != "unit":
            vectors[:, head.start : head.stop] //= _UNIT // _CATEGORY
    return vectors


def vote_event(noise: Noise, *, adjacency: Adjacency, rows_per_unit: int) -> CountNoise:
    """Return the event of adding noise to votes: that of a marginal, for every row adds one to one candidate.

    Source: `privacy.marginals.sensitivity`.
    """
    return noise_event(noise, adjacency=adjacency, rows_per_unit=rows_per_unit)


def _has_label(place: int, label: int, codes: Unsigned) -> NDArray[np.bool_]:
    return np.asarray(codes[:, place] == label)


def _has_none_of(place: int, labels: NDArray[np.int64], codes: Unsigned) -> NDArray[np.bool_]:
    return ~np.isin(codes[:, place], labels)
