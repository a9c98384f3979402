"""Sums of random Fourier features of bounded vectors, group by group, and how far one privacy unit moves them.

Each row is embedded, z in whole numbers, and shared out among groups, a with sum a_g = A (`embedding`, `groups`).
What is added up over the rows is

    a_g (cos t_1, sin t_1, ..., cos t_D, sin t_D),      t = 2 pi (frequencies' z)

each pair rounded towards zero to multiples of 2^-10. Rounding towards zero lowers every pair's norm, so that a row's
vector has at most the norm of D whole pairs: m = A ceil(2^10 sqrt(D)). k rows that come or go move the sum by at most
k m; exchanged for others, by 2 k m, since features may turn round.

Source: Rahimi, Recht 2007. Deviates in that angles are rounded to 2^16 a turn and features to 2^-10, so that both
the sum and its bound are whole numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import isqrt
from typing import Any, Final

import numpy as np

from contracts.canonical import digest
from contracts.contract import Adjacency
from privacy.learning.embedding import Embedding
from privacy.learning.groups import Groups
from privacy.learning.lattice import EXACT, Array, Whole, sha256, whole_array
from privacy.learning.layout import Codes, RowLayout
from privacy.learning.summing import check_members, check_move, chunks

FEATURE_BITS: Final = 10
TURN_BITS: Final = 24
"""Frequencies are whole numbers of 2^-24 turns a lattice unit."""
_TABLE_BITS: Final = 16


@dataclass(frozen=True, eq=False)
class FeatureSums:
    """Sums of random Fourier features of embedded rows, group by group.

    Args:
        embedding: from rows to vectors in a ball.
        groups: how rows are shared out.
        frequencies: public, shape (dimension, D) [2^-24 turns a lattice unit].
    Raises:
        ValueError: a part of another form; numbers that would not be exact in float64.
    """

    embedding: Embedding
    groups: Groups
    frequencies: Whole

    def __post_init__(self) -> None:
        check_members(self.embedding, self.groups)
        frequencies = whole_array("frequencies", self.frequencies, (self.embedding.dimension, None))
        object.__setattr__(self, "frequencies", frequencies)
        reach = np.abs(frequencies.astype(np.float64)).sum(axis=0).max() * 2.0**self.embedding.bits
        if reach >= EXACT / 2:
            raise ValueError("frequencies must be lower: products with them would not be exact")
        check_move(self.move)

    @property
    def move(self) -> int:
        """How far one row moves the sum: m of the module's docstring."""
        return self.groups.whole * (isqrt((1 << (2 * FEATURE_BITS)) * self.frequencies.shape[1] - 1) + 1)

    @property
    def length(self) -> int:
        """Numbers in the sum."""
        return self.groups.count * 2 * int(self.frequencies.shape[1])

    @property
    def public(self) -> dict[str, Any]:
        """What it is made of, as JSON values with digests of the arrays."""
        members = {"embedding": self.embedding.public, "groups": self.groups.public}
        return {"kind": "feature_sums", "frequencies": sha256(self.frequencies), **members}

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of all its public parameters."""
        return digest(self.public)

    def moves(self, adjacency: Adjacency, rows_per_unit: int) -> tuple[int, ...]:
        """Return whole numbers whose squares add up to the largest squared change by one privacy unit."""
        move = rows_per_unit * self.move
        return (move,) if adjacency == "add_remove" else (2 * move,)

    def rebuilt(self) -> FeatureSums:
        """Return a checked copy that shares nothing changeable."""
        return FeatureSums(self.embedding.rebuilt(), self.groups.rebuilt(), self.frequencies)

    def total(self, codes: Codes, layout: RowLayout) -> Whole:
        """Add up over rows, exactly: int64, shape (length,), group by group; private, for a grant alone."""
        table, exact = circle(), np.zeros((self.groups.count, self.length // self.groups.count), dtype=np.int64)
        turns = self.frequencies.astype(np.float64)
        width = 4 * turns.shape[1] + self.groups.count
        for vectors, weights in chunks(self.embedding, self.groups, codes, layout, width=width):
            angles = (vectors @ turns).astype(np.int64) & ((1 << TURN_BITS) - 1)
            features = table[angles >> (TURN_BITS - _TABLE_BITS)].reshape(vectors.shape[0], -1)
            exact += (weights.T @ features).astype(np.int64)
        return exact.reshape(-1)

    def means(self, values: Whole) -> Array:
        """Return (noisy) sums of features of norm at most 1, shape (K, 2D): cosine, sine, cosine, ..., over sqrt(D).

        Privacy: post-processing where the values are released.
        """
        norm = self.groups.whole * 2.0**FEATURE_BITS * np.sqrt(self.frequencies.shape[1])
        return np.asarray(values.reshape(self.groups.count, -1) / norm)


def circle() -> Array:
    """Return cosine and sine of 2^16 angles as whole numbers, rounded towards zero; shape (2^16, 2) [2^-10].

    The table's own last bits may differ between machines; within one call every row reads the same table, and each
    pair's norm is at most 2^10 in any case.
    """
    angles = 2 * np.pi * np.arange(1 << _TABLE_BITS) / (1 << _TABLE_BITS)
    pairs: Array = np.trunc(np.stack([np.cos(angles), np.sin(angles)], axis=1) * 2.0**FEATURE_BITS)
    pairs[(pairs * pairs).sum(axis=1) > 4.0**FEATURE_BITS] = 0  # never; the bound holds by itself
    return pairs
