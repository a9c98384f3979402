"""Workloads of ranges that the tests of this folder share."""

from __future__ import annotations

from fractions import Fraction

from contracts.release.tables.range_cells import ranges_of
from privacy.marginals.ordered.design import RangeTable, RangeWorkload, best_design
from privacy.marginals.ordered.strategies import RangeStrategy, strategies_of

ONE = Fraction(1)


def alone(kind: str, cells: int) -> RangeWorkload:
    asked = ("age", ranges_of(kind, cells))  # type: ignore[arg-type]
    return RangeWorkload((), (("age", cells),), (RangeTable((), (asked,), ONE),))


def crossed(cells: int = 12) -> RangeWorkload:
    """Prefixes by sex, cells by trade, a table without the ordered column, and all ranges with a weight."""
    prefixes, identity, ranges = (("age", ranges_of(kind, cells)) for kind in ("prefix", "identity", "range"))  # type: ignore[arg-type]
    return RangeWorkload(
        (("sex", 2), ("trade", 5), ("one", 1)),
        (("age", cells),),
        (
            RangeTable(("sex", "one"), (prefixes,), ONE),
            RangeTable(("trade",), (identity,), Fraction(3)),
            RangeTable(("sex", "trade"), (), ONE),
            RangeTable((), (ranges,), Fraction(1, 4)),
        ),
    )


def two_columns() -> RangeWorkload:
    age, hours = ("age", ranges_of("prefix", 4)), ("hours", ranges_of("range", 3))
    return RangeWorkload(
        (("sex", 2),),
        (("age", 4), ("hours", 3)),
        (RangeTable(("sex",), (hours, age), ONE), RangeTable((), (("age", ranges_of("hierarchy", 4)),), ONE)),
    )


def measured(
    workload: RangeWorkload, adjacency: str = "add_remove", *, worst: bool = False
) -> tuple[RangeStrategy, ...]:
    design = best_design(workload, adjacency=adjacency, worst=worst)  # type: ignore[arg-type]
    return strategies_of(workload.residuals, design)
