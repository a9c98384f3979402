"""A model that is a list of made-up rows with weights: a row is drawn as often as its weight says.

Rows are shared out by systematic sampling: member i gets floor(w_1 + ... + w_i) - floor(w_1 + ... + w_(i-1)) rows,
each weight scaled to the rows that are wanted and all of them moved by one random number. So each member comes as
often as expected, rounded at random, and all is whole-number arithmetic.

Source: Madow 1949 (systematic sampling).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.impossible_cells import Clique
from privacy.marginals.blocks import NothingPossible
from privacy.marginals.graph import CellDomain
from privacy.marginals.portable import PostProcessingSeed

MOST_ROWS: Final = 2**31 - 1
MOST_WEIGHT: Final = 2**31 - 1
"""Of all members together: times the rows that are wanted it stays below 2^62."""


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """Made-up rows with weights.

    Args:
        domain: the columns with their cells.
        rows: public or estimated number of rows, 0 to 2^31 - 1 [rows].
        codes: of each member, shape (members, columns), at least one member.
        weights: of each member, at least 1, summing to at most 2^31 - 1.
    Raises:
        ValueError: what does not fit together, or is out of range.
    """

    kind: ClassVar[str] = "weighted_rows"
    in_whole_numbers: ClassVar[bool] = True
    domain: CellDomain
    rows: int
    codes: NDArray[np.int64]
    weights: NDArray[np.int64]

    def __post_init__(self) -> None:
        if isinstance(self.rows, bool) or not isinstance(self.rows, int) or not 0 <= self.rows <= MOST_ROWS:
            raise ValueError(f"rows must be a whole number from 0 to {MOST_ROWS}")
        members = len(self.weights)
        if members < 1 or self.codes.shape != (members, len(self.domain.columns)):
            raise ValueError("weighted rows have at least one member, with a code of each column and a weight")
        if self.codes.dtype != np.int64 or self.weights.dtype != np.int64:
            raise ValueError("codes and weights must be int64")
        if ((self.codes < 0) | (self.codes >= np.array(self.domain.shape))).any():
            raise ValueError("a member has a code that its column does not have")
        # In floats first: a stranger's weights could wrap around.
        if self.weights.min() < 1 or self.weights.sum(dtype=np.float64) > MOST_WEIGHT:
            raise ValueError("weights must be at least 1, and sum to at most 2^31 - 1")

    def sample(self, rows: int, *, seed: int, where: Mapping[str, Sequence[int]] | None = None) -> NDArray[np.int32]:
        """Draw rows of codes in the order of the members, shape (rows, columns); the same bytes on any machine.

        Args:
            rows: how many, 0 to 2^31 - 1.
            seed: 0 to 2^128 - 1, public.
            where: column to the codes that it may have.
        Raises:
            NothingPossible: no member meets the condition.
            ValueError: an argument out of range, an unknown column or code.
        Privacy: post-processing.
        """
        if not 0 <= rows <= MOST_ROWS:
            raise ValueError(f"rows must lie between 0 and {MOST_ROWS}, not {rows}")
        weights = np.where(self._admitted(where or {}), self.weights, 0)
        ends = np.cumsum(weights)
        total = int(ends[-1])
        if total == 0:
            raise NothingPossible("no made-up row meets the condition; do: ask for another condition")
        word = int(PostProcessingSeed(seed).words(0, 1)[0])
        # Ends as whole rows, all moved by one random part of a row.
        reached = (ends * rows + word % total) // total
        return np.repeat(self.codes.astype(np.int32), np.diff(reached, prepend=0), axis=0)

    def marginal(self, clique: Clique) -> NDArray[np.float64]:
        """Return the expected counts of a clique, axes in its order [rows]."""
        sizes = self.domain.sizes(clique)
        places = [self.domain.place(name) for name in clique]
        flat = np.ravel_multi_index(tuple(self.codes[:, place] for place in places), sizes) if places else 0
        cells = np.broadcast_to(flat, self.weights.shape)
        found = np.bincount(cells, weights=self.weights, minlength=self.domain.cells(clique)).reshape(sizes)
        return np.asarray(found * (self.rows / float(self.weights.sum())))

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[np.int64]]]:
        """Return the model as JSON values and integer arrays, for publication."""
        domain = {"columns": list(self.domain.columns), "shape": list(self.domain.shape)}
        return {"domain": domain, "rows": self.rows}, {"codes": self.codes, "weights": self.weights}

    def _admitted(self, where: Mapping[str, Sequence[int]]) -> NDArray[np.bool_]:
        """Mark the members that meet a condition."""
        fine = np.ones(len(self.weights), dtype=np.bool_)
        for name, codes in where.items():
            place = self.domain.place(name)
            if not len(codes) or min(codes) < 0 or max(codes) >= self.domain.shape[place]:
                raise ValueError(
                    f"column {name}: codes must be at least one, from 0 to {self.domain.shape[place] - 1}"
                )
            fine &= np.isin(self.codes[:, place], list(codes))
        return fine


def read_weighted_rows(values: Mapping[str, Any], arrays: Mapping[str, NDArray[np.int64]]) -> WeightedRows:
    """Read published weighted rows back; written by a stranger, and checked.

    Raises:
        ValueError, KeyError, TypeError: not such a model.
    """
    if set(values) != {"domain", "rows"} or set(arrays) != {"codes", "weights"}:
        raise ValueError("weighted rows have exactly domain and rows, codes and weights")
    return WeightedRows(CellDomain.read(values["domain"]), values["rows"], arrays["codes"], arrays["weights"])
