"""Refinement of a measured table: total, structural zeros, sparsity, whole numbers. Costs nothing.

The same function serves the release and its verification, so that what was published, and what was chosen on the way,
can be replayed from the published noisy measurements alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from contracts.contract.cell_codes import ImpossibleCells
from contracts.contract.contract import Contract
from contracts.message import message
from contracts.reading.scalars import plain_decimal
from contracts.release.product import AUTO, LambdaReference
from contracts.release.tables.tables import RESIDUALS, Refine, TablesProduct, form_of_table, tables_of
from privacy.accounting.events import CountNoise, DiscreteLaplace
from privacy.arrays import Floats, Numbers
from privacy.marginals.count_noise import variance
from privacy.marginals.suppression import Threshold
from privacy.refine.intervals import Intervals, count_intervals, noise_intervals, refined_intervals
from privacy.refine.lambda_choice import choose_lambda_auto
from privacy.refine.methods import CellEvidence, Estimate, Method, estimate
from privacy.refine.simplex import exact_sum, round_to_total
from privacy.refine.sparse import SparseRefined, SparseTable, laplace_excess, sparse_negative_l2
from privacy.refine.sparse_depth import Depth, depth_of

# --- The total that refined tables keep, and where it comes from.
# Where (one letter each)
#     n   cells of a table that can hold something     v   variance of the noise in each
#     s   share of the charge that a total of its own would take
#
# Every noisy marginal, at every resolution, adds up to the exact total plus noise of variance n v. These sums are
# independent, and they are released already: their average with weights 1 / (n v) costs nothing, and no unbiased
# linear estimate of the total has less variance.
#
# Claim: a total that is measured besides makes a table worse, as long as its cells stay away from zero.
#     It takes s, which leaves the cells v' = v / (1 - s)² with Laplace noise; alone it has variance v / s². Its best
#     use, least squares, moves all cells of the table by the same amount, which leaves each of them
#         v' (1 - s² / (n s² + (1 - s)²)),   in units of v at least   1 / (s² + (1 - s)²) > 1,   the value at n = 1.
#     With Gaussian noise v' = v / (1 - s) and the total has v / s, which leaves
#         v ((n - 2) s + 1) / ((1 - s) ((n - 1) s + 1)) ≥ v,   since numerator - denominator = (n - 1) s².
# Where most cells are zero a total does help, but the sum of the table itself serves nearly as well; how often it
# does is measured (benchmarks/refinement). So none is drawn, but for tables that list cells above a threshold: those
# have no sum, since most of their cells are not known.
#
# Claim: a table of whole numbers that stays away from zero gains from the average of several tables' sums, on average
# over draws of any noise, wherever 4 (n v - V) / n ≥ n, with V the variance of the average.
#     Let S be the sum of the table, T the exact one, A the average and D = A - S. No weighted average has less
#     variance than A, so A is uncorrelated with D: E[D (S - T)] = -Var D = -(n v - V). Moving all cells by D / n adds
#     2 D (S - T) / n + D² / n to the squared error of the table, on average -(n v - V) / n. Rounding then moves
#     r = |D| mod n cells by one: that adds r (1 - r / n) ≤ n / 4, and nothing else: noise does not decide which.
#     Where noise is below a row, and in large tables, D / n is small, and nearly all r = |D| units are loss. That A
#     is itself rounded moves D by half a row at most; the bound n / 4 has room for it.
# A table with empty cells gains besides: a negative count that becomes zero loses the square of that count at least,
# since no exact count is below zero. So the table takes the average where its gain and these squares reach the bound
# of what rounding costs, and keeps its own sum, which is a whole number already, where they do not (`kept_total`).
# That the choice reads noisy counts is not in the proof; that it makes no table worse is measured
# (benchmarks/refinement).


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
    Source: the second claim above.
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


NO_SUM = message("The noisy total was below zero and was set to zero.")
ALL_ZERO = message("The total is zero, so every cell is zero and nothing was left to choose.")


@dataclass(frozen=True)
class Chosen:
    """What the noisy values, or an earlier version, decided instead of the spec.

    Args:
        of: λ, the method, or the weights of a mixture.
        by: least estimated error (auto), the wanted share of nonzero cells (sparsity), or the least error on an
            earlier published version (reference).
    """

    of: Literal["lambda", "method", "weights"]
    by: Literal["auto", "sparsity", "reference"]


@dataclass(frozen=True)
class Coarser:
    """The counts of a table with a hierarchy at a coarser resolution, with their 95 % intervals [units]."""

    values: Numbers
    intervals: Intervals


@dataclass(frozen=True)
class Refined:
    """A refined table.

    Args:
        values: int64 when whole numbers were asked for, else float64; shape of the table [units].
        total: the sum that was reached, or None where no total was used [units].
        notes: what a reader of the record should know.
        method: the one that was used.
        lambda_: the λ that was used, if any.
        chosen: what was chosen from the noisy values; None where the spec says it all.
        estimated_rmse: of each method that was judged, by name [units].
        intervals: 95 % intervals of the exact counts; with method "none" those of the noise alone [units].
        disagreement: of a table that was refined together with others, the largest difference between a margin of it
            and the same margin of another one [units].
        coarser: the coarser resolutions of a table with a hierarchy, coarsest first.
        suppressed: the cells that a minimum-frequency rule suppresses, same shape; None without such a rule.
    """

    values: Numbers
    total: int | None
    notes: tuple[str, ...]
    method: Method
    lambda_: Decimal | None
    chosen: Chosen | None
    estimated_rmse: Mapping[str, float]
    intervals: Intervals
    disagreement: float | None = None
    coarser: tuple[Coarser, ...] = ()
    suppressed: NDArray[np.bool_] | None = None


def refine_table(
    noisy: NDArray[np.int64],
    terms: Refine,
    *,
    impossible: NDArray[np.bool_],
    total: int | NoisySum | None,
    event: CountNoise,
    ordered: tuple[int, ...],
    reference: NDArray[np.int64] | None = None,
    threshold: Threshold | None = None,
    by_columns: Floats | None = None,
) -> Refined:
    """Turn a noisy marginal into a table that a reader can use.

    Args:
        noisy: noisy counts over the declared domain, any shape [units].
        terms: method, how λ is found, and whether the counts are whole; method "none" only sets structural zeros.
        impossible: declared structural zeros, same shape.
        total: sum to reach, drawn or declared public; or the average of all tables' noisy sums: then whole numbers
            keep it only where that gains (`kept_total`), and method "auto" may leave the counts as they are. A
            negative one becomes 0 with a note; None only with method "none" [units].
        event: the noise.
        ordered: the axes, at most two, along which neighbouring cells are neighbouring values.
        reference: counts of the table in an earlier published version, same shape; where λ is chosen on one [units].
        threshold: the minimum-frequency rule under which the noisy counts were suppressed; with method "none" only.
        by_columns: where the noise of cells is not independent, its variance by columns, as of `mix` [units²].
    Returns:
        Refined: same shape.
    Raises:
        ValueError: no total, a threshold with a method that reads all cells, no reference where λ is chosen on one,
            no ordered axis for method "neighbourhood", or every cell a structural zero while the total is positive.
    Privacy: post-processing; deterministic.
    """
    if terms.method == "none":
        raw = noise_intervals(noisy, event).with_zeros(impossible)
        # A structural zero is known without a draw, and so is never suppressed.
        gone = None if threshold is None else threshold.suppressed(noisy) & ~impossible
        return Refined(np.where(impossible, 0, noisy), None, (), "none", None, None, {}, raw, suppressed=gone)
    if threshold is not None:
        raise ValueError(f"method {terms.method!r} reads all cells: a threshold goes with method 'none'")
    if total is None:
        raise ValueError(f"method {terms.method!r} needs a total")
    estimated = isinstance(total, NoisySum)
    if isinstance(total, NoisySum):
        total = kept_total(noisy, impossible, event, shared=total) if terms.integers else total.value
    notes = () if total >= 0 else (NO_SUM,)
    chosen = _chosen(terms)
    # With no units to share out all methods give zeros.
    if total <= 0:
        counts: Numbers = np.zeros(noisy.shape, np.int64) if terms.integers else np.zeros(noisy.shape)
        method, lambda_ = _trivial(terms)
        ends = refined_intervals(noisy, counts, event, impossible=impossible)
        return Refined(counts, 0, (*notes, ALL_ZERO) if chosen else notes, method, lambda_, chosen, {}, ends)
    cells = CellEvidence(noisy, impossible, event, ordered, total, reference, estimated, by_columns)
    made: Estimate = estimate(cells, terms)
    counts = cells.whole_table(made.counts)
    notes = (*notes, *made.notes)
    if made.method == "none":
        raw = noise_intervals(noisy, event).with_zeros(impossible)
        return Refined(counts, None, notes, "none", None, chosen, made.estimated_rmse, raw)
    if made.method == "mixture":
        chosen = Chosen("weights", "auto")
    ends = refined_intervals(noisy, counts, event, impossible=impossible)
    return Refined(counts, total, notes, made.method, made.lambda_, chosen, made.estimated_rmse, ends)


def _chosen(terms: Refine) -> Chosen | None:
    """Say what the spec leaves to the noisy values."""
    if terms.sparsity is not None:
        return Chosen("lambda", "sparsity")
    if isinstance(terms.lambda_, LambdaReference):
        return Chosen("lambda", "reference")
    if terms.lambda_ == AUTO:
        return Chosen("lambda", "auto")
    return Chosen("method", "auto") if terms.method == "auto" else None


def _trivial(terms: Refine) -> tuple[Method, Decimal | None]:
    """Return method and λ for a table of zeros, on which all methods agree."""
    if terms.method == "auto":
        return "simplex", None
    if terms.method == "negative_l2":
        return "negative_l2", terms.lambda_ if isinstance(terms.lambda_, Decimal) else Decimal(0)
    return terms.method, None


# --- Refinement of a measured sparse table.


SPARSE_METHODS: Final = ("none", "simplex", "negative_l2")
SparseMethod = Literal["none", "simplex", "negative_l2"]
RESTRICTED: Final = message(
    "Cells that are not listed were held at zero: the total is larger than what lies above the lowest threshold that "
    "may be drawn, and was reached by raising the listed cells."
)
NOTHING_LISTED: Final = message("No cell reached the threshold, so every cell is zero and the total is not kept.")


@dataclass(frozen=True)
class RefinedCells:
    """A refined sparse table: the cells that are not 0; every other cell is 0.

    Args:
        codes: row-major numbers of the cells, ascending and distinct, int64.
        values: their counts, > 0: int64 when whole numbers were asked for, else float64 [units].
        cells: size of the declared domain.
        total, notes, method, lambda_, chosen, estimated_rmse: as of `Refined`.
        intervals: 95 % intervals of the exact counts of these cells, as of `Refined` [units].
        disagreement, coarser: none, for sparse tables are refined by themselves.
        absent_upper: upper end of the interval of every cell that was not listed; its lower end is 0 [units].
    """

    codes: NDArray[np.int64]
    values: NDArray[Any]
    cells: int
    total: int | None
    notes: tuple[str, ...]
    method: SparseMethod
    lambda_: Decimal | None
    chosen: Chosen | None
    estimated_rmse: Mapping[str, float]
    intervals: Intervals
    absent_upper: int
    disagreement: None = None
    coarser: tuple[()] = ()


def refine_sparse_table(
    table: SparseTable, terms: Refine, *, impossible: ImpossibleCells, total: int | None, event: DiscreteLaplace
) -> RefinedCells:
    """Turn the listed cells of a noisy marginal into a table that a reader can use.

    Args:
        table: the listed cells, as far down as they were drawn.
        terms: method none, simplex, or negative_l2 with a number or auto for λ; method "none" only drops structural
            zeros.
        impossible: declared structural zeros.
        total: sum to reach, noisy or declared public; a negative one becomes 0 with a note; None only with
            method "none" [units].
        event: the noise.
    Returns:
        RefinedCells: without structural zeros.
    Raises:
        ValueError: another method, no total, or a threshold that is not the one at which such a draw ends.
    Privacy: post-processing; deterministic.
    """
    scale = event.inverse_scale
    depth = depth_of(terms, cells=table.cells, inverse_scale=scale, total=total, impossible=impossible)
    # Neither deeper nor less deep than the rule says: the depth may not carry a choice of the publisher's.
    if (ends := depth.follow(table)) != table.threshold:
        told = str(ends) if ends > table.threshold else f"below it, {ends} next"
        raise ValueError(f"threshold must be where the draw of these cells ends: {told}, not {table.threshold}")
    possible = depth.possible(table)
    if terms.method == "none":
        raw, rest = noise_intervals(possible.values, event), noise_intervals(np.array([table.threshold - 1]), event)
        counted = possible.codes, possible.values, table.cells
        return RefinedCells(*counted, None, (), "none", None, None, {}, raw, int(rest.upper[0]))
    if total is None:
        raise ValueError(f"method {terms.method!r} needs a total")
    return _on_the_simplex(possible, terms, depth=depth, total=total, event=event)


def _on_the_simplex(
    possible: SparseTable, terms: Refine, *, depth: Depth, total: int, event: DiscreteLaplace
) -> RefinedCells:
    """Refine the possible listed cells to the total."""
    method, lambda_, chosen, errors = _method(possible, terms, depth=depth, total=total, event=event)
    codes, values = np.empty(0, np.int64), np.empty(0)
    notes: tuple[str, ...] = () if total >= 0 else (NO_SUM,)
    if total <= 0:
        notes = (*notes, ALL_ZERO) if chosen else notes
    elif possible.values.size == 0:
        notes = (NOTHING_LISTED,)
    else:
        refined = _projected(possible, total, float(lambda_ or 0), event)
        codes, values = refined.codes, refined.values
        notes = (RESTRICTED,) if refined.restricted else ()
    counts: NDArray[Any] = round_to_total(values, total) if terms.integers and values.size else values
    counts = counts.astype(np.int64) if terms.integers else counts
    kept = np.flatnonzero(counts)
    codes, counts = codes[kept], counts[kept]
    noisy = possible.values[np.searchsorted(possible.codes, codes)]
    ends = count_intervals(noisy, event).holding(counts)
    # A cell that is not listed had a noisy value of tau - 1 at most: that value's upper end holds all of their
    # intervals.
    rest = int(count_intervals(np.array([possible.threshold - 1]), event).upper[0])
    reached = total if counts.size else 0
    return RefinedCells(codes, counts, possible.cells, reached, notes, method, lambda_, chosen, errors, ends, rest)


def _projected(possible: SparseTable, total: int, lambda_: float, event: DiscreteLaplace) -> SparseRefined:
    """Project without drawing any deeper."""
    return sparse_negative_l2(
        possible,
        total,
        lambda_=lambda_,
        lower=_never,
        excess=laplace_excess(event.inverse_scale),
        least_threshold=possible.threshold,
    )


def _method(
    possible: SparseTable, terms: Refine, *, depth: Depth, total: int, event: DiscreteLaplace
) -> tuple[SparseMethod, Decimal | None, Chosen | None, dict[str, float]]:
    """Return method, λ, what was chosen, and the errors that were estimated on the way."""
    if terms.method == "simplex":
        return "simplex", None, None, {}
    if terms.method != "negative_l2" or terms.sparsity is not None:
        raise ValueError(f"method must be one of {', '.join(SPARSE_METHODS)} (with lambda) for a sparse table")
    if isinstance(terms.lambda_, Decimal):
        return "negative_l2", terms.lambda_, None, {}
    if terms.lambda_ != AUTO:
        raise ValueError("method 'negative_l2' needs lambda")
    chosen = Chosen("lambda", "auto")
    if total <= 0 or possible.values.size == 0:
        return "negative_l2", Decimal(0), chosen, {}
    absent = possible.cells - (depth.impossible.count or 0) - possible.values.size
    best = choose_lambda_auto(possible.values, total, event=event, integers=terms.integers, absent=absent)
    errors = {} if best.expected_rmse is None else {"negative_l2": best.expected_rmse}
    return "negative_l2", plain_decimal(Decimal(repr(best.lambda_))), chosen, errors


def _never(threshold: int) -> NoReturn:
    raise ValueError(f"nothing more can be drawn, down to {threshold}: the table is as deep as it must be")
