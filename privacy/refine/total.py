"""The total that refined tables keep: where it comes from, and its estimate from the tables' own noisy sums.

Where (one letter each)
    n   cells of a table that can hold something     v   variance of the noise in each
    s   share of the charge that a total of its own would take

Every noisy marginal, at every resolution, adds up to the exact total plus noise of variance n v. These sums are
independent, and they are released already: their average with weights 1 / (n v) costs nothing, and no unbiased
linear estimate of the total has less variance.

Claim: a total that is measured besides makes a table worse, as long as its cells stay away from zero.
    It takes s, which leaves the cells v' = v / (1 - s)² with Laplace noise; alone it has variance v / s². Its best
    use, least squares, moves all cells of the table by the same amount, which leaves each of them
        v' (1 - s² / (n s² + (1 - s)²)),   in units of v at least   1 / (s² + (1 - s)²) > 1,   the value at n = 1.
    With Gaussian noise v' = v / (1 - s) and the total has v / s, which leaves
        v ((n - 2) s + 1) / ((1 - s) ((n - 1) s + 1)) ≥ v,   since numerator - denominator = (n - 1) s².
Where most cells are zero a total does help, but the sum of the table itself serves nearly as well; how often it does
is measured (benchmarks/refinement). So none is drawn, but for tables that list cells above a threshold: those have
no sum, since most of their cells are not known.

Claim: a table of whole numbers that stays away from zero gains from the average of several tables' sums, on average
over draws of any noise, wherever 4 (n v - V) / n ≥ n, with V the variance of the average.
    Let S be the sum of the table, T the exact one, A the average and D = A - S. No weighted average has less variance
    than A, so A is uncorrelated with D: E[D (S - T)] = -Var D = -(n v - V). Moving all cells by D / n adds
    2 D (S - T) / n + D² / n to the squared error of the table, on average -(n v - V) / n. Rounding then moves
    r = |D| mod n cells by one: that adds r (1 - r / n) ≤ n / 4, and nothing else: noise does not decide which.
    Where noise is below a row, and in large tables, D / n is small, and nearly all r = |D| units are loss. That A is
    itself rounded moves D by half a row at most; the bound n / 4 has room for it.
A table with empty cells gains besides: a negative count that becomes zero loses the square of that count at least,
since no exact count is below zero. So the table takes the average where its gain and these squares reach the bound of
what rounding costs, and keeps its own sum, which is a whole number already, where they do not (`kept_total`). That
the choice reads noisy counts is not in the proof; that it makes no table worse is measured (benchmarks/refinement).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.release.tables.all_marginals import RESIDUALS
from contracts.release.tables.expansion import tables_of
from contracts.release.tables.product import TablesProduct
from contracts.release.tables.table_form import form_of_table
from privacy.accounting.events import CountNoise
from privacy.marginals.uncertainty import variance
from privacy.refine.chunks import exact_sum

TotalKind = Literal["estimated", "noisy", "invariant", "none"]
_WEIGHT: Final = 2**40
"""Weights are whole numbers, so that the last bits of a variance, which differ between machines, seldom matter."""
_GRID: Final = 2**20
_MOST: Final = 2**14
_NEARLY_ALONE: Final = 1e-9
"""A table whose sum is all that the average is made of has nothing to choose."""


@dataclass(frozen=True)
class NoisySum:
    """A sum of noisy cells, or an average of such sums.

    Args:
        value: the sum [units].
        variance: of its noise, ≥ 0 [units²].
    """

    value: int
    variance: float


def total_kind(product: TablesProduct, contract: Contract) -> TotalKind:
    """Say where the total comes from that refined tables keep.

    Args:
        product: which tables there are, and how they are refined.
        contract: says which tables are sparse.
    Returns:
        "estimated" from the sums of all tables; "noisy", drawn, where all tables that keep one are sparse, and where
        residuals are measured;
        "invariant", declared public; or "none", where no table keeps one.
    Privacy: reads public parameters only.
    """
    if product.total == "invariant":
        return "invariant"
    if product.split == RESIDUALS:
        return "noisy"  # it is measured with the tables, which have it in common
    forms = _forms_with_a_total(product, contract)
    if not forms:
        return "none"
    return "estimated" if "dense" in forms else "noisy"


def draws_total(product: TablesProduct, contract: Contract) -> bool:
    """Say whether a total is drawn: only a sparse table, which has no sum of its own, needs one."""
    return product.total == "noisy" and "sparse" in _forms_with_a_total(product, contract)


_BY_THEMSELVES: Final = ("none", "hierarchy")


def _forms_with_a_total(product: TablesProduct, contract: Contract) -> set[str]:
    """Return the forms of the tables that keep the release's total."""
    kept = (table for table in tables_of(product, contract) if product.method_of(table) not in _BY_THEMSELVES)
    return {form_of_table(table, product, contract) for table in kept}


def table_sum(noisy: NDArray[np.int64], impossible: NDArray[np.bool_], event: CountNoise) -> NoisySum:
    """Add up the cells of a noisy table that can hold something.

    Args:
        noisy: noisy counts of the table, or of a coarser resolution of it [units].
        impossible: its structural zeros, same shape.
        event: the noise in each cell.
    Privacy: post-processing.
    """
    possible = noisy.reshape(-1)[~impossible.reshape(-1)]
    return NoisySum(exact_sum(possible), possible.size * variance(event))


def kept_total(
    noisy: NDArray[np.int64], impossible: NDArray[np.bool_], event: CountNoise, *, shared: NoisySum
) -> int:
    """Choose what a table of whole numbers adds up to: the average of all sums, or its own sum.

    Formula:  shared  if  (n v - V) / n + Σ min(0, noisy)² ≥ ⌊n / 2⌋ ⌈n / 2⌉ / n,  else the own sum

    Args:
        noisy: noisy counts of the table [units].
        impossible: its structural zeros, same shape.
        event: the noise in each cell.
        shared: the average of the sums of all tables, this one's among them.
    Privacy: post-processing; deterministic.
    Source: second claim of this module.
    """
    cells = noisy.size - int(np.count_nonzero(impossible))
    apart = cells * variance(event) - shared.variance
    if cells == 0 or apart <= _NEARLY_ALONE * shared.variance:
        return shared.value
    # Whole numbers, so that a tie is decided alike where two machines differ in the last bits of a variance.
    gain, cost = round(_GRID * apart / cells), _GRID * (cells // 2) * (cells - cells // 2) // cells
    # The squares are only added up where they can decide.
    if gain < cost and gain + _GRID * _clipped_squares(noisy, impossible) < cost:
        return table_sum(noisy, impossible, event).value
    return shared.value


def _clipped_squares(noisy: NDArray[np.int64], impossible: NDArray[np.bool_]) -> int:
    """Add up the squares of the counts below zero; of each at most _MOST², which keeps the sum within int64."""
    below = np.maximum(noisy[(noisy < 0) & ~impossible], -_MOST)
    return int(np.dot(below, below))


def average_variance(variances: Iterable[float]) -> float:
    """Return the variance of the average of independent sums, weighted by their precision; 0 if one is exact."""
    known = list(variances)
    return 0.0 if min(known, default=0.0) <= 0 else 1 / sum(1 / each for each in known)


def estimate_total(sums: Iterable[NoisySum]) -> NoisySum:
    """Average independent noisy sums of the same rows, weighted by their precision, and round to a whole number.

    Formula:  Σ (sum / variance) / Σ (1 / variance)

    Args:
        sums: of every measured table, of every resolution, and the drawn total, if there is one.
    Returns:
        NoisySum: may be below zero; without any sum, 0 that is known exactly.
    Privacy: post-processing; deterministic.
    Source: least squares; with tables that agree on nothing but the total it is that of `consistency`, claim 2.
    """
    known = list(sums)
    least = min((each.variance for each in known), default=0.0)
    # An exact sum leaves nothing to average.
    if least <= 0:
        known = [each for each in known if each.variance <= 0]
    weights = [1 if least <= 0 else int(_WEIGHT * (least / each.variance)) for each in known]
    if not known:
        return NoisySum(0, 0.0)
    average = Fraction(sum(w * each.value for w, each in zip(weights, known, strict=True)), sum(weights))
    return NoisySum(round(average), average_variance(each.variance for each in known))
