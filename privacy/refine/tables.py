"""Refinement of a measured table: total, structural zeros, sparsity, whole numbers. Costs nothing.

The same function serves the release and its verification, so that what was published, and what was chosen on the way,
can be replayed from the published noisy measurements alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from contracts.message import message
from contracts.release.lambda_reference import AUTO, LambdaReference
from contracts.release.tables.product import Refine
from privacy.accounting.events import CountNoise
from privacy.arrays import Floats, Numbers
from privacy.marginals.suppression import Threshold
from privacy.refine.intervals import Intervals, RowNoise, noise_intervals, refined_intervals, row_intervals
from privacy.refine.methods import CellEvidence, Estimate, Method, estimate
from privacy.refine.total import NoisySum, kept_total

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
    rows: RowNoise | None = None,
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
        rows: the noise of each row, where it differs; with method "none" only.
        by_columns: where the noise of cells is not independent, its variance by columns, as of `mix` [units²].
    Returns:
        Refined: same shape.
    Raises:
        ValueError: no total, a threshold with a method that reads all cells, no reference where λ is chosen on one,
            no ordered axis for method "neighbourhood", or every cell a structural zero while the total is positive.
    Privacy: post-processing; deterministic.
    """
    if terms.method == "none":
        own = noise_intervals(noisy, event) if rows is None else row_intervals(noisy, rows)
        raw = own.with_zeros(impossible)
        # A structural zero is known without a draw, and so is never suppressed.
        gone = None if threshold is None else threshold.suppressed(noisy) & ~impossible
        return Refined(np.where(impossible, 0, noisy), None, (), "none", None, None, {}, raw, suppressed=gone)
    if rows is not None:
        raise ValueError(f"method {terms.method!r} reads cells of one noise: rows that differ go with method 'none'")
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
