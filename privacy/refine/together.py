"""Refinement of all tables of a release together, so that they agree on what they share. Costs nothing.

Method `none` publishes the weighted least-squares estimates of the noisy tables: unbiased, with less variance, and
in agreement up to their last digits; they may be negative and are no whole numbers. Method `simplex` publishes the
nearest tables that agree, have no negative cell, and all have the total: the estimate of the total that all tables
and the measured total lead to, rounded to a whole number, or the declared one. Where they are rounded to whole
numbers, each table by itself, margins come apart again by a few rows; what is left is stated.

The same function serves the release and its verification.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contracts.message import message
from contracts.release.tables.product import CONSISTENT_METHODS, Refine
from privacy.accounting.events import CountNoise
from privacy.arrays import Floats, Numbers
from privacy.marginals.uncertainty import variance
from privacy.refine.consistency import Agreement, NoisyTable
from privacy.refine.intervals import noise_intervals, refined_intervals
from privacy.refine.methods import Method
from privacy.refine.posterior import STEP
from privacy.refine.rounding import round_to_total
from privacy.refine.simplex import project_simplex
from privacy.refine.tables import NO_SUM, Refined

TOTAL_OF_ALL: Final = message(
    "The total is the average of the measured total and of all tables' sums, weighted by their noise."
)


@dataclass(frozen=True)
class MeasuredTable:
    """A noisy marginal as it was drawn.

    Args:
        columns: its columns.
        noisy: noisy counts over the declared domain, one axis a column [units].
        impossible: declared structural zeros, same shape.
        event: the noise.
    """

    columns: tuple[str, ...]
    noisy: NDArray[np.int64]
    impossible: NDArray[np.bool_]
    event: CountNoise

    def as_table(self) -> NoisyTable:
        """Return the table as consistency sees it."""
        return NoisyTable(self.columns, self.noisy, variance(self.event), ~self.impossible)


@dataclass(frozen=True)
class KnownTotal:
    """The release's total.

    Args:
        value: measured or declared [units].
        event: the noise of a measured one; None where it is declared public, and exact.
    """

    value: int
    event: CountNoise | None

    def as_table(self) -> NoisyTable:
        """Return the total as a table without columns."""
        spread = 0.0 if self.event is None else variance(self.event)
        return NoisyTable((), np.asarray(float(self.value)), spread, np.ones((), np.bool_))


def refine_together(
    tables: Sequence[MeasuredTable], terms: Refine, *, total: KnownTotal | None
) -> tuple[Refined, ...]:
    """Refine noisy tables so that they agree on every margin that they share.

    Args:
        tables: of different sets of columns.
        terms: method "none" or "simplex", and whether the counts are whole.
        total: the release's total; None only with method "none".
    Returns:
        tuple: for each table its refinement, with the largest difference between a margin of it and the same margin
        of another table.
    Raises:
        ValueError: another method, no total, or every cell a structural zero while the total is positive.
    Privacy: post-processing; deterministic.
    """
    if terms.method not in CONSISTENT_METHODS:
        raise ValueError(f"method must be one of {', '.join(CONSISTENT_METHODS)}, not {terms.method!r}")
    known = [] if total is None else [total.as_table()]
    agreement = Agreement([*(table.as_table() for table in tables), *known])
    if terms.method == "none":
        made: list[Numbers] = [_steady(values) for values in agreement.estimates()[: len(tables)]]
        return _stated(tables, made, terms, None, ())
    if total is None:
        raise ValueError("method 'simplex' needs a total")
    # The total took part as a table without columns, the last one.
    estimate = total.value if total.event is None else round(float(agreement.estimates()[-1]))
    notes = [TOTAL_OF_ALL] * (total.event is not None) + [NO_SUM] * (estimate < 0)
    reached = KnownTotal(max(0, estimate), None)
    # Again, with the total fixed at a whole number: the nearest tables that agree and have no cell below 0.
    nearest = Agreement([*(table.as_table() for table in tables), reached.as_table()]).nearest_tables()
    made = [_with_total(table, values, reached.value, terms) for table, values in zip(tables, nearest, strict=False)]
    return _stated(tables, made, terms, reached.value, tuple(notes))


def _steady(values: Floats) -> Floats:
    """Drop the last bits, which differ between machines."""
    steady: Floats = np.rint(values / STEP) * STEP
    return steady


def _with_total(table: MeasuredTable, values: Floats, total: int, terms: Refine) -> Numbers:
    """Return a table with exactly the total: nearly consistent values, moved onto the simplex, rounded if wanted."""
    possible = ~table.impossible
    projected = _steady(project_simplex(values[possible], total))
    counts: Numbers = round_to_total(projected, total) if terms.integers else projected
    whole: NDArray[Any] = np.zeros(values.shape, dtype=counts.dtype)
    whole[possible] = counts
    return whole


def _stated(
    tables: Sequence[MeasuredTable],
    values: Sequence[Numbers],
    terms: Refine,
    total: int | None,
    notes: tuple[str, ...],
) -> tuple[Refined, ...]:
    """State what was made of each table, with its intervals and with how far it is from agreeing."""
    gaps = Agreement([table.as_table() for table in tables]).disagreements(values)
    method: Method = "none" if terms.method == "none" else "simplex"
    refined = []
    for table, counts, gap in zip(tables, values, gaps, strict=True):
        if method == "none":
            ends = noise_intervals(table.noisy, table.event).holding(counts).with_zeros(table.impossible)
        else:
            ends = refined_intervals(table.noisy, counts, table.event, impossible=table.impossible)
        refined.append(Refined(counts, total, notes, method, None, None, {}, ends, disagreement=gap))
    return tuple(refined)
