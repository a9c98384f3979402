"""Runs of candidates: the distances and weights of each candidate, and the loss of one row, worked out in full."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import product
from math import log

import numpy as np
import pytest
from numpy.typing import NDArray

from contracts.domains.lattice import ValueLattice
from contracts.domains.trees import QuantileChoices
from privacy.statistics.quantile_runs import candidate, quantile_runs

Rows = NDArray[np.int64]


def lattice(width: int, low: int = 0) -> ValueLattice:
    return ValueLattice("x", Decimal(low), Decimal(low + width), Decimal(1), counts_missing=False)


def choices(width: int, *shares: str, low: int = 0) -> QuantileChoices:
    return QuantileChoices(lattice(width, low), tuple(map(Decimal, shares)))


def distance(rows: Rows, share: Fraction, offset: int, ends: tuple[int | None, int | None]) -> Fraction:
    below, upper, rank = int(rows[:offset].sum()), int(rows[: offset + 1].sum()), share * int(rows.sum())
    found = Fraction(0)
    if offset != ends[0]:
        found = max(found, below - rank)
    if offset != ends[1]:
        found = max(found, rank - upper)
    return found


def weight(own: QuantileChoices, offset: int) -> int:
    return sum(scale for scale in own.scales if (offset + own.origin) % scale == 0)


def logs(own: QuantileChoices, rows: Rows, base: Fraction) -> dict[tuple[int, ...], float]:
    found, width = {}, own.lattice.width
    for output in product(range(width + 1), repeat=own.parts):
        known: dict[int | None, int | None] = {None: None}
        total = 0.0
        for place, below, above in own.order:
            ends, share = (known[below], known[above]), Fraction(own.shares[place])
            low, high = ends[0] or 0, width if ends[1] is None else ends[1]
            if not low <= output[place] <= high:
                break
            rate = base * own.rate_share(place)
            gaps = {each: float(rate * distance(rows, share, each, ends)) for each in range(low, high + 1)}
            terms = [log(weight(own, each)) - gap for each, gap in gaps.items()]
            here = output[place]
            total += log(weight(own, here)) - gaps[here] - float(np.logaddexp.reduce(terms))
            known[place] = here
        else:
            found[output] = total
    return found


@pytest.mark.parametrize("seed", range(8))
def test_runs_have_the_distances_and_weights_of_their_candidates(seed: int) -> None:
    """Every candidate is in one run; negative lower ends, and ends that other quantiles have chosen."""
    random = np.random.default_rng(seed)
    own = choices(130, "0.25", low=int(random.integers(-50, 50)))
    rows = random.integers(0, 4, 131) * (random.random(131) < 0.2)
    ends = [(None, None), (0, 40), (17, None), (None, 0), (130, 130)][seed % 5]
    offsets = np.flatnonzero(rows)
    runs = quantile_runs(own, 0, offsets, rows[offsets], ends)
    covered = [each for first, last in zip(runs.first, runs.last, strict=True) for each in range(first, last + 1)]
    assert covered == list(range(ends[0] or 0, (130 if ends[1] is None else ends[1]) + 1))
    for first, last, found, heavy in zip(runs.first, runs.last, runs.distances, runs.weights, strict=True):
        inside = range(first, last + 1)
        assert {distance(rows, Fraction(1, 4), each, ends) for each in inside} == {Fraction(int(found), runs.unit)}
        drawn = [candidate(own, int(first), int(last), number) for number in range(heavy)]
        assert {each: drawn.count(each) for each in inside} == {each: weight(own, each) for each in inside}


@pytest.mark.parametrize(
    ("shares", "factor"),
    [(("0.5",), 1), (("0.1",), 1), (("0.1", "0.5", "0.9"), Fraction(19, 9)), (("0.3", "0.4"), None)],
)
def test_no_row_loses_more_than_the_loss_factor(shares: tuple[str, ...], factor: Fraction | None) -> None:
    """All outputs of all neighbours of random small cells, and of two that come near the bound."""
    own = choices(4, *shares)
    assert factor is None or own.loss_factor == factor
    assert 1 <= own.loss_factor <= own.parts
    base, random = 1 / own.loss_factor, np.random.default_rng(5)
    cells = [random.integers(0, size, 5) * (random.random(5) < 0.6) for size in (1, 2, 4, 9, 30, 60)]
    cells += [np.array([0, 0, 30, 0, 0]), np.array([40, 0, 2, 0, 40])]
    worst = 0.0
    for rows in cells:
        without = logs(own, rows, base)
        for place in range(5):
            more = rows.copy()
            more[place] += 1
            canary = logs(own, more, base)
            worst = max(worst, *(abs(canary[each] - without[each]) for each in without))
    assert 0.3 < worst <= 1 + 1e-9


def test_a_rate_without_its_factor_is_found_out() -> None:
    """Twice the rate loses more than is claimed, where few candidates lie below the rows and many above."""
    own = choices(60, "0.5")
    rows = np.zeros(61, dtype=np.int64)
    rows[3], more = 6, rows.copy()
    more[3], more[0] = 6, 1
    pairs = [(logs(own, rows, base), logs(own, more, base)) for base in (Fraction(1), Fraction(2))]
    losses = [max(abs(canary[each] - without[each]) for each in without) for without, canary in pairs]
    assert losses[0] <= 1 < losses[1]
