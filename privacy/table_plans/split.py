"""How many tables share one charge, from public parameters only: weights, declared cells, kind of noise.

Where (one letter each)
    w   weight of a table          n   cells of its declared domain          s   its share of the budget B
    A table's noise has variance  2 (L1 / (B s))²  (Laplace, B = epsilon)  or  L2² / (2 B s)  (Gaussian, B = rho);
    L1 and L2 are the same for all marginals, so they do not matter here.

Objective of `optimal`: least sum of w n variance, the expected squared errors of all cells, weighted:
    Laplace   sum w n / s²,   least where  w n / s³  is the same for all tables:  s proportional to (w n)^(1/3)
    Gaussian  sum w n / s,    least where  w n / s²  is the same for all tables:  s proportional to (w n)^(1/2)
Both sums are convex in s and the shares add up to one: by Lagrange these are the minima. The discrete noises have a
variance slightly below that of the continuous ones, which matters only where it is below about one.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from math import floor
from typing import TYPE_CHECKING, Final, Literal

from privacy.accounting.amounts import PICO, root
from privacy.marginals.sensitivity import NoiseKind

if TYPE_CHECKING:
    from contracts.contract.contract import Contract
    from contracts.release.tables.tables import TablesProduct

STEP: Final = Fraction(1, 1000)


def shares_by_weight(weights: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """Return shares in proportion to the weights; they add up to one."""
    total = sum(weights, Fraction(0))
    return tuple(weight / total for weight in weights)


def whole_parts(budget: Fraction, shares: Sequence[Fraction]) -> list[Fraction]:
    """Split a budget into whole units of 10⁻¹², rounded down; the last part takes what the rounding left."""
    units = [floor(budget * share * PICO) for share in shares[:-1]]
    units.append(floor(budget * PICO) - sum(units))
    return [Fraction(part, PICO) for part in units]


def optimal_shares(weights: Sequence[Fraction], cells: Sequence[int], noise: NoiseKind) -> tuple[Fraction, ...]:
    """Return the shares under which the expected weighted squared error is least.

    Args:
        weights: of each table, > 0.
        cells: of each table's declared domain, >= 1.
        noise: which noise.
    Returns:
        tuple: a share for each table, in multiples of 10^-12, at least one, rounded down; the largest takes what the
        rounding left, so that they add up to one.
    Raises:
        ValueError: a weight or a number of cells out of range.
    Privacy: reads public parameters only.
    """
    if len(weights) != len(cells) or not weights or min(weights) <= 0 or min(cells) < 1:
        raise ValueError("weights must be above 0 and cells at least 1, one of each for every table")
    power: Literal[2, 3] = 3 if noise == "laplace" else 2
    roots = [root(weight * size, power) for weight, size in zip(weights, cells, strict=True)]
    total = sum(roots)
    shares = [Fraction(max(1, floor(Fraction(each * PICO, total))), PICO) for each in roots]
    shares[roots.index(max(roots))] += 1 - sum(shares, Fraction(0))
    return tuple(shares)


def weighted_rmse(weights: Sequence[Fraction], cells: Sequence[int], variances: Sequence[float]) -> float:
    """Return the expected root mean square error over all cells, each counted with its table's weight [units].

    Args:
        weights: of each table, > 0.
        cells: of each table's declared domain.
        variances: of the noise in each table's cells [units²].
    Privacy: reads public parameters only.
    """
    counted = [float(weight) * size for weight, size in zip(weights, cells, strict=True)]
    squares = sum(count * variance for count, variance in zip(counted, variances, strict=True))
    return float((squares / sum(counted)) ** 0.5)


def level_shares(sizes: Sequence[int], *, noise: NoiseKind, total_known: bool) -> tuple[Fraction, ...]:
    """Return each level's part: the sum of the levels' error variances after consistency is least.

    A cell of every level counts the same, so that counts at all resolutions come out about equally accurate. Parts
    are rounded down to thousandths, and the finest level takes what the rounding leaves: the last digits of a search,
    which differ between machines, do not change a plan.

    Args:
        sizes: declared cells of each level, coarsest first.
        noise: which noise.
        total_known: the total is public.
    Returns:
        tuple[Fraction, ...]: > 0, summing to 1.
    Raises:
        ValueError: sizes that decrease or are below 1.
    Privacy: reads public parameters only.
    """
    return _shares(tuple(sizes), noise, total_known)


@cache
def _shares(sizes: tuple[int, ...], noise: NoiseKind, total_known: bool) -> tuple[Fraction, ...]:
    if len(sizes) == 1:
        return (Fraction(1),)
    from privacy.refine.hierarchy import split_budget  # here, so that plans without a hierarchy do not load scipy

    best = split_budget(sizes, weights=[1.0] * len(sizes), noise=noise, total_known=total_known)
    coarser = [max(share // STEP, 1) * STEP for share in best[:-1]]
    return (*coarser, 1 - sum(coarser, Fraction(0)))


def kept_public_total(product: TablesProduct, contract: Contract) -> int | None:
    """Return the declared number of rows, where the release keeps it."""
    keeps = product.total == "invariant" and contract.total is not None
    return contract.total.value if keeps and contract.total else None
