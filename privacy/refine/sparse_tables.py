"""Refinement of a measured sparse table: total, structural zeros, sparsity, whole numbers. Costs nothing.

The same function serves the release and its verification: it reads the listed cells, the threshold, and what is
public or released. What it makes is, cell by cell, what `refine_table` would make of the whole noisy table, as long
as theta does not lie below what was drawn (`restricted`, then with a note). That includes `lambda: auto`: at each λ
the absent cells become 0, so the truths that the bootstrap tries differ from the dense ones in nothing.

The interval of a listed cell is the dense one. That of a cell that is not listed is 0 to U(tau - 1), the upper end
that a noisy value of tau - 1 would have: upper ends grow with the noisy value, so it holds the dense interval of
whatever value below tau the cell has. So for each cell the chance to be missed is at most the dense one, 5 %, however
the threshold was found. Among the listed cells alone it is larger: they are listed because their noise was high.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from contracts.contract.cell_codes import ImpossibleCells
from contracts.message import message
from contracts.reading.scalars import plain_decimal
from contracts.release.lambda_reference import AUTO
from contracts.release.tables.product import Refine
from privacy.accounting.events import DiscreteLaplace
from privacy.refine.intervals import Intervals, count_intervals, noise_intervals
from privacy.refine.lambda_choice import choose_lambda_auto
from privacy.refine.rounding import round_to_total
from privacy.refine.sparse import SparseRefined, SparseTable, laplace_excess, sparse_negative_l2
from privacy.refine.sparse_depth import Depth, depth_of
from privacy.refine.tables import ALL_ZERO, NO_SUM, Chosen

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
