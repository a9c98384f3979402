"""Tables whose label depends on many columns at once, made up: parities of signs, and structural causal models.

    xor d       d numbers, uniform in [-1, 1]; the label is 1 where an odd number of them is above 0. Any d columns of
                the d + 1 are independent, so that no marginal of fewer than d + 1 columns tells anything
    scm kind    three independent numbers, five more that are each a random function of three earlier ones, and a
                label that is a random function of four of the eight, cut at its median. The functions are regression
                trees, small networks, or sums of random cosines

The shapes are those of the data that the evaluation of Tab-PE publishes (Tran et al. 2026): its parities have 35,000
rows and 1 to 7 numbers, its causal models eight numbers and two classes. The numbers are drawn anew here, and lie in
[-1, 1].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks._synthetic_data import Categorical

Numbers = NDArray[np.float64]
Function = Callable[[Numbers], Numbers]

LABEL: Final = "label"
ROWS: Final = 35_000
TEST_ROWS: Final = 5_000
KINDS: Final = ("tree", "network", "cosines")
_ROOTS: Final = 3
_NODES: Final = 8
_PARENTS: Final = 3
_CAUSES: Final = 4
_NOISE: Final = 0.1
_DEPTH: Final = 4
_WIDTH: Final = 8
_COSINES: Final = 16


@dataclass(frozen=True)
class StressTable:
    """Numbers with a label of two values, to learn from and to test on.

    Args:
        name: its name.
        numbers: to learn from, each in [-1, 1], shape (rows, columns).
        labels: 0 or 1, shape (rows,).
        test_numbers, test_labels: of other rows.
    """

    name: str
    numbers: Numbers
    labels: NDArray[np.int64]
    test_numbers: Numbers
    test_labels: NDArray[np.int64]

    def binned(self, bins: int) -> Categorical:
        """Return the rows in so many equal bins of [-1, 1], which are public, the label last."""
        codes = np.minimum(((self.numbers + 1) * bins / 2).astype(np.int64), bins - 1)
        cells = tuple(str(code) for code in range(bins))
        labels = {f"x{place}": cells for place in range(codes.shape[1])} | {LABEL: ("0", "1")}
        return Categorical(f"{self.name}-{bins}", labels, np.column_stack([codes, self.labels]), LABEL)


def numbers_of(codes: NDArray[np.int64], bins: int, seed: int) -> Numbers:
    """Return numbers for the codes of bins, each drawn uniformly from its bin, as published rows are made."""
    inside = np.random.default_rng(seed).random(codes.shape)
    return np.asarray((codes + inside) * 2 / bins - 1)


def parity(order: int) -> StressTable:
    """Return the parity of so many signs."""
    random = np.random.default_rng(order)
    numbers = random.uniform(-1, 1, (ROWS + TEST_ROWS, order))
    return _split(f"xor-{order}", numbers, (numbers > 0).sum(axis=1) % 2)


def causal(kind: str) -> StressTable:
    """Return a structural causal model of one of `KINDS`."""
    random = np.random.default_rng([1, KINDS.index(kind)])
    rows = ROWS + TEST_ROWS
    nodes = random.uniform(-1, 1, (rows, _ROOTS))
    while nodes.shape[1] < _NODES:
        parents = random.choice(nodes.shape[1], _PARENTS, replace=False)
        made = _function(kind, _PARENTS, random)(nodes[:, parents]) + _NOISE * random.normal(size=rows)
        nodes = np.column_stack([nodes, np.tanh(made)])
    causes = random.choice(_NODES, _CAUSES, replace=False)
    made = _function(kind, _CAUSES, random)(nodes[:, causes]) + _NOISE * random.normal(size=rows)
    return _split(f"scm-{kind}", nodes, made > np.median(made))


def _split(name: str, numbers: Numbers, labels: NDArray[np.generic]) -> StressTable:
    known, other = slice(ROWS), slice(ROWS, None)
    coded = labels.astype(np.int64)
    return StressTable(name, numbers[known], coded[known], numbers[other], coded[other])


def _function(kind: str, parents: int, random: np.random.Generator) -> Function:
    return {"tree": _tree, "network": _network, "cosines": _cosines}[kind](parents, random)


def _tree(parents: int, random: np.random.Generator) -> Function:
    """A full regression tree: the leaf is the number whose digits say on which side of each split a row lies."""
    splits = 2**_DEPTH - 1
    columns, ends = random.integers(0, parents, splits), random.uniform(-0.6, 0.6, splits)
    leaves = random.normal(size=splits + 1)

    def value(rows: Numbers) -> Numbers:
        place = np.zeros(len(rows), dtype=np.int64)
        for _ in range(_DEPTH):
            place = 2 * place + 1 + (rows[np.arange(len(rows)), columns[place]] > ends[place])
        return np.asarray(leaves[place - splits])

    return value


def _network(parents: int, random: np.random.Generator) -> Function:
    inner, shift = random.normal(scale=2.0, size=(parents, _WIDTH)), random.normal(size=_WIDTH)
    outer = random.normal(size=_WIDTH)
    return lambda rows: np.asarray(np.tanh(rows @ inner + shift) @ outer)


def _cosines(parents: int, random: np.random.Generator) -> Function:
    inner, shift = random.normal(scale=2.0, size=(parents, _COSINES)), random.uniform(0, 2 * np.pi, _COSINES)
    outer = random.normal(size=_COSINES) / np.sqrt(_COSINES / 2)
    return lambda rows: np.asarray(np.cos(rows @ inner + shift) @ outer)
