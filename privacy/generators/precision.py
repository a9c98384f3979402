"""What a budget buys where it makes more exact what is measured already, and when a new marginal is worth more.

Where:
    W, c_s      workload and its weights            t_r     share of the budget that clique r has got
    p_r         the model's counts of r             e(t)    mean size of the noise of a share, k t^-a [rows]
    a           1/2; 1 for a pure budget            E_r     what r's noise makes of the error [rows]
    u_s         how far s may be off that nobody measured [rows]

A cell of p expected rows is not off by more than about p for its noise: estimation leaves it where it was. So

    E_r = sum over cells of min(e(t_r), p)          n_r = E_r / e(t_r), the cells that count
    err_s² = sum over measured r within s of E_r², and u_s² where s itself is not measured

The budget that is left goes where  sum over s of c_s err_s  falls fastest. With the weights

    w_r = sum over s of c_s E_r / err_s

held fixed, Lagrange's condition is  w_r n_r a k t_r^-(a + 1) = price  for every r that gets anything: t_r is in
proportion to (w_r n_r)^(1 / (a + 1)), or what r has already, if that is more. Weights and cells are taken again at
the shares that come out, a few times. The price is what a unit of budget is worth here [rows of err].

All of it is post-processing of the model and of public sizes. Under a pure budget shares of one clique do not add up
as they do under zCDP; they are treated as if they did, which costs error and no privacy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.impossible_cells import Clique
from contracts.message import message
from privacy.accounting.events import ZeroConcentrated
from privacy.arrays import Floats
from privacy.generators.spending import Spending
from privacy.marginals.uncertainty import mean_absolute

FIRST_MOVE: Final = 0.5
"""How far a marginal may be off that nobody measured, of all rows: columns that determine each other are off by about
twice that."""
NO_STRUCTURE: Final = message(
    "no marginal was chosen: what the columns have in common cannot be told from noise here"
)
_PASSES: Final = 6
_SMALL: Final = 1024
_LEAST_PART: Final = 1e-3
"""A clique that would get less than this share of what is left gets nothing."""


def noise_error(known: Floats, size: float) -> float:
    """Return E, what noise of a mean size makes of a marginal's error: the sum of min(size, expected rows) [rows]."""
    return float(np.minimum(np.maximum(known, 0.0), size).sum())


def cells_that_count(known: Floats, size: float) -> float:
    """Return n = E / size, at least 1."""
    return max(1.0, noise_error(known, size) / size)


@dataclass(frozen=True)
class Allocation:
    """How a budget is spread over what is measured.

    Args:
        shares: in the order in which they are to be drawn, the largest first; they add up to the budget exactly.
        price: what a unit of the budget takes off the workload's error [rows].
    """

    shares: Mapping[Clique, Fraction]
    price: float


class Precision:
    """What each measured clique has got of the budget.

    Args:
        workload: c_s.
        spending: the budget.
    """

    def __init__(self, workload: Mapping[Clique, Fraction], spending: Spending) -> None:
        self._workload, self._spending = workload, spending
        self._parts = {each: _parts(each) for each in workload}
        self._spent: dict[Clique, Fraction] = {}
        self._power = 0.5 if isinstance(spending.budget, ZeroConcentrated) else 1.0
        # e(t) = k t^-a where the noise is well above a row, as that of a small share is.
        small = spending.total / _SMALL
        self._unit = self.size(small) * float(small) ** self._power

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """What is measured, in the order of the first draws."""
        return tuple(self._spent)

    def add(self, clique: Clique, share: Fraction) -> None:
        """Note a measurement."""
        self._spent[clique] = self._spent.get(clique, Fraction(0)) + share

    def size(self, share: Fraction) -> float:
        """Return the mean size of the noise of a measurement that takes a share [rows]."""
        return mean_absolute(self._spending.event(share))

    def allocate(
        self, known: Mapping[Clique, NDArray[np.float64]], unknown: Mapping[Clique, float], left: Fraction
    ) -> Allocation:
        """Spread what is left of the budget over what is measured.

        Args:
            known: the model's counts of each measured clique.
            unknown: u_s of the workload's cliques; 0 where there is none.
            left: > 0.
        """
        cliques, power, unit = self.cliques, self._power, self._unit
        spent = np.array([float(self._spent[each]) for each in cliques])
        shares = spent
        for _ in range(_PASSES):
            sizes = unit * shares**-power
            cells = np.array([cells_that_count(known[each], size) for each, size in zip(cliques, sizes, strict=True)])
            gains = self._weights(cells * sizes, unknown) * cells
            shares, level = _filled(spent, gains ** (1 / (power + 1)), float(left))
        # Lagrange: w n a k t^-(a + 1) at t = level (w n)^(1 / (a + 1)).
        price = power * unit * level ** -(power + 1)
        return Allocation(_exact(cliques, shares - spent, left, self._spending), price)

    def _weights(self, errors: Floats, unknown: Mapping[Clique, float]) -> Floats:
        """Return w_r, the sum over s of c_s E_r / err_s, in the order of what is measured."""
        place = {each: number for number, each in enumerate(self._spent)}
        weights = np.zeros(len(place))
        for clique, weight in self._workload.items():
            inside = [place[part] for part in self._parts[clique] if part in place]
            apart = 0.0 if clique in place else unknown.get(clique, 0.0)
            whole = float(np.sqrt((errors[inside] ** 2).sum() + apart**2))
            if whole > 0:
                weights[inside] += float(weight) * errors[inside] / whole
        return np.maximum(weights, 1e-12)


def _filled(spent: Floats, wanted: Floats, left: float) -> tuple[Floats, float]:
    """Return max(spent, level · wanted) and the level at which that takes what is left."""
    order = np.argsort(spent / wanted, kind="stable")
    # The level if the first 1, 2, ... get something; it is right for the last of those that it still lifts.
    levels = (left + np.cumsum(spent[order])) / np.cumsum(wanted[order])
    lifted = levels >= (spent / wanted)[order]
    level = float(levels[np.flatnonzero(lifted)[-1]])
    return np.maximum(spent, level * wanted), level


def _exact(cliques: Sequence[Clique], parts: Floats, left: Fraction, spending: Spending) -> dict[Clique, Fraction]:
    """Round the parts to shares that add up to what is left; the last takes what rounding leaves."""
    whole = float(parts.sum())
    order = [int(each) for each in np.argsort(-parts, kind="stable") if parts[each] >= _LEAST_PART * whole]
    kept = float(parts[order].sum())
    shares = {cliques[each]: spending.down(left * Fraction(float(parts[each]) / kept)) for each in order[:-1]}
    shares[cliques[order[-1]]] = left - sum(shares.values())
    return {clique: share for clique, share in shares.items() if share > 0}


def _parts(clique: Clique) -> tuple[Clique, ...]:
    """Return all non-empty subsets of a clique, in its order of columns."""
    return tuple(part for size in range(1, 1 + len(clique)) for part in combinations(clique, size))
