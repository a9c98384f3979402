"""How made-up rows go on from noisy votes: all public, in whole numbers, the same on any machine.

    BEGIN    rows drawn uniformly among those that the contract allows, the labels in equal shares
    SELECT   first rounds: rows drawn in proportion to their noisy votes; later: those with most votes
    CHANGE   a number moves by at most rate · cells; a category, and a null, is drawn anew with chance rate

A change that the contract excludes is tried again, and in the end not made. Rates fall from 1/2 to 1/100 with the
fifth root of time, so by most of it in the first round.

Source: Lin et al. 2024, Tran et al. 2026 (Tab-PE; its schedule and its two ways to select).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.impossible_cells import Clique
from privacy.learning.layout import RowLayout
from privacy.marginals.domain import CellDomain
from privacy.marginals.errors import NothingPossible
from privacy.marginals.graphical_model import GraphicalModel
from privacy.marginals.sampling import sample
from privacy.marginals.seeds import PostProcessingSeed

Codes = NDArray[np.int64]
RATE_BITS: Final = 16
ONE: Final = 2**RATE_BITS
_BEFORE: Final = ONE // 2
_AFTER: Final = ONE // 100
_TRIALS: Final = 4
_BITS: Final = 24
"""Of a uniform number. Times twice a rate of 16 bits, times `MOST_CELLS`, it stays below 2^63."""
MOST_CELLS: Final = 2**20
_MOST_SUM: Final = 2**40
"""Of weights: a word of 64 bits, taken modulo their sum, is even to within 2^-24."""


@dataclass(frozen=True, eq=False)
class Evolution:
    """What rows may be, and where randomness comes from; public.

    Args:
        domain: columns with their cells.
        layout: the same columns; says which are numbers, and which may be missing.
        impossible: structural zeros: for some cliques True where no row can be.
        label: a column that a row keeps as it begins; None for none.
        seed: public.
    """

    domain: CellDomain
    layout: RowLayout
    impossible: Mapping[Clique, NDArray[np.bool_]]
    label: str | None
    seed: PostProcessingSeed

    def begin(self, members: int) -> Codes:
        """Return the first rows, shape (about `members`, columns): of each possible label as many, at least one.

        Raises:
            NothingPossible: no row is possible.
        """
        uniform = GraphicalModel(
            self.domain,
            tuple(self.impossible),
            tuple(np.where(excluded, -np.inf, 0.0) for excluded in self.impossible.values()),
            float(members),
        )
        if self.label is None:
            return sample(uniform, members, seed=self.seed.derived("begin")).astype(np.int64)
        cells = self.domain.sizes((self.label,))[0]
        found: list[Codes] = []
        for label in range(cells):
            own = self.seed.derived(f"begin/{label}")
            try:
                rows = sample(uniform, max(1, members // cells), seed=own, where={self.label: label})
            except NothingPossible:
                continue
            found.append(rows.astype(np.int64))
        if not found:
            raise NothingPossible("no row is possible under the declared structural zeros and constraints")
        return np.concatenate(found)

    def drawn(self, rows: Codes, votes: NDArray[np.int64], count: int, turn: int) -> Codes:
        """Draw rows in proportion to their votes, where these are positive; evenly where none are."""
        weights = brought_down(np.maximum(votes, 0), most=_MOST_SUM)
        ends = np.cumsum(weights if weights.any() else np.ones_like(weights))
        words = self.seed.derived(f"draw/{turn}").words(0, count)
        places = (words % np.uint64(ends[-1])).astype(np.int64)
        return rows[np.searchsorted(ends, places, side="right")]

    def changed(self, rows: Codes, rate: int, turn: int) -> Codes:
        """Change every row a little.

        Args:
            rows: possible rows, shape (rows, columns).
            rate: how much [2^-16].
            turn: tells one change from others.
        Returns:
            possible rows, of the same shape and labels.
        """
        found, seed = rows.copy(), self.seed.derived(f"change/{turn}")
        waiting = np.arange(len(rows))
        for trial in range(_TRIALS):
            made = self._moved(rows[waiting], rate, seed.derived(f"{trial}"))
            fine = self._possible(made)
            found[waiting[fine]] = made[fine]
            waiting = waiting[~fine]
            if not waiting.size:
                break
        return found

    def _moved(self, rows: Codes, rate: int, seed: PostProcessingSeed) -> Codes:
        """Change rows, column by column, whatever the contract excludes."""
        found = rows.copy()
        for place, column in enumerate(self.layout.columns):
            if column.name == self.label:
                continue
            # Two streams a column: how far, or to which cell; and whether.
            first, second = (_uniform(seed.words(2 * place + each, len(rows))) for each in (0, 1))
            known = column.table.shape[0] - column.nullable
            anew = (first * known) >> _BITS
            if column.kind != "number":
                found[:, place] = np.where(second < rate << _BITS - RATE_BITS, anew, rows[:, place])
                continue
            # Uniform from -rate · cells to rate · cells, rounded to whole cells.
            reach = rate * known
            moves = ((first * (2 * reach + 1) >> _BITS) - reach + ONE // 2) >> RATE_BITS
            missing = rows[:, place] == known
            moved = np.where(missing, known, np.clip(rows[:, place] + moves, 0, known - 1))
            if column.nullable:
                # A number goes missing, or what is missing becomes a number, with a quarter of the rate as chance.
                flipped = second < rate << _BITS - RATE_BITS - 2
                moved = np.where(flipped, np.where(missing, anew, known), moved)
            found[:, place] = moved
        return found

    def _possible(self, rows: Codes) -> NDArray[np.bool_]:
        fine = np.ones(len(rows), dtype=np.bool_)
        for clique, excluded in self.impossible.items():
            fine &= ~excluded[tuple(rows[:, self.domain.place(name)] for name in clique)]
        return fine


def _uniform(words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return whole numbers from 0 to 2^24 - 1."""
    return (words >> np.uint64(64 - _BITS)).astype(np.int64)


def _fifth_root(turn: int, whole: int) -> int:
    """Return the fifth root of turn / whole, rounded down [2^-16]."""
    return bisect_right(range(ONE + 1), turn * ONE**5 // whole, key=lambda root: root**5) - 1


def rates(changes: int) -> tuple[int, ...]:
    """Return the rate of each change, falling from 1/2 to 1/100 with the fifth root of time [2^-16]."""
    return tuple(_BEFORE - (_BEFORE - _AFTER) * _fifth_root(turn, changes + 2) // ONE for turn in range(changes))


def brought_down(weights: NDArray[np.int64], *, most: int) -> NDArray[np.int64]:
    """Halve weights until their sum is at most `most`; those above 0 stay above 0."""
    # Python's whole numbers: noise of many candidates may sum to more than 64 bits hold.
    while sum(weights.tolist()) > most:
        weights = (weights + 1) // 2
    return weights


def most_voted(votes: NDArray[np.int64], count: int) -> NDArray[np.intp]:
    """Return the places of those with most votes, the first of equals first."""
    return np.argsort(-votes, kind="stable")[:count]
