"""Lattices: the values of a column of numbers as whole steps between two clipping bounds, for sums and means.

A cell's code says in which bin a value lies; a sum needs the value itself: its offset on a lattice.

    offset = round((clip(value, low, high) - low) / step),   0 <= offset <= width = (high - low) / step

`step` is declared, or a unit of the last decimal of bounds and edges: 1 for whole numbers. A value moves by half a
step at most. A missing value has no offset, unless the contract maps missing values to one.

Where a survey weight is declared, each row counts as often as its weight says. The weight is the offset on a
lattice of its own that starts at 0; a missing weight is 0, unless the contract maps missing weights to a value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from math import floor
from typing import Any, Final

from contracts.reading.scalars import Problem, plain_decimal, plain_text, spelled

WIDEST: Final = 10**9
"""Steps that all rows of one privacy unit may move together: sums over 9 billion rows stay within 64 bits."""
_TOLD_APART: Final = 2**50
"""Steps away from 0, up to which a double tells a quarter of a step."""
MISSING: Final = 0
"""What stands for a missing value in a snapshot; an offset stands as the next whole number."""
_PARTS: Final = ("above", "below", "missing")
_MARK: Final = "\x1f"
"""Between the parts of a name that no column of a contract can have: it is a control character."""


@dataclass(frozen=True)
class ValueLattice:
    """The lattice on which the values of a column are added up.

    Args:
        column: the column.
        low: values below count as this [the column's units].
        high: values above count as this.
        step: what one step is; `high - low` is a whole number of steps.
        counts_missing: whether a missing value is counted apart; else the contract maps it to a value.
        weight: the lattice of the survey weight, which starts at 0; None where every row counts once.
    """

    column: str
    low: Decimal
    high: Decimal
    step: Decimal
    counts_missing: bool
    weight: ValueLattice | None = None

    @property
    def key(self) -> str:
        """What its draw is found by among those of a table."""
        return self.column

    @property
    def width(self) -> int:
        """Steps from the lower to the upper bound."""
        return int((Fraction(self.high) - Fraction(self.low)) / Fraction(self.step))

    @property
    def whole(self) -> int:
        """Steps that each row hands out."""
        return self.width

    @property
    def lattice(self) -> ValueLattice:
        """Itself, as a tree of counts has a lattice."""
        return self

    @property
    def parts(self) -> int:
        """Numbers that are added up for each cell: steps above, steps below, and those of missing values."""
        return len(self.part_names)

    @property
    def part_names(self) -> tuple[str, ...]:
        """Name each of these numbers."""
        return _PARTS if self.counts_missing else _PARTS[:2]

    @property
    def row_moves(self) -> tuple[int, ...]:
        """By how much a row moves the numbers of its cell at most: one by the width times the largest weight."""
        return (self.width * self.most_weight,)

    @property
    def most_weight(self) -> int:
        """The largest weight of a row [steps of the weight]; 1 where rows are not weighed."""
        return 1 if self.weight is None else self.weight.width

    @property
    def weight_step(self) -> Decimal:
        """What one step of the weight is; 1 where rows are not weighed."""
        return Decimal(1) if self.weight is None else self.weight.step

    @property
    def name(self) -> str:
        """The name of the offsets in a snapshot."""
        return _MARK.join([self.column, *map(plain_text, (self.low, self.high, self.step))])

    def to_json(self) -> dict[str, Any]:
        """Write it as JSON values."""
        told = {"low": plain_text(self.low), "high": plain_text(self.high), "step": plain_text(self.step)}
        written = {"column": self.column, **told, "counts_missing": self.counts_missing}
        return written if self.weight is None else {**written, "weight": self.weight.to_json()}


def one_step_wider(lattice: ValueLattice) -> ValueLattice:
    """Return the lattice with one step more at each end: what lies there is what the clip cuts."""
    return replace(lattice, low=lattice.low - lattice.step, high=lattice.high + lattice.step, weight=None)


def usual_step(low: Decimal, high: Decimal, *, decimals: int) -> Decimal:
    """Return the step where none is declared: a unit of the last decimal of both bounds, or of `decimals`."""
    of_bounds = (-int(plain_decimal(bound).as_tuple().exponent) for bound in (low, high))
    return Decimal(1).scaleb(-max(decimals, *of_bounds))


def lattice_problems(low: Decimal, high: Decimal, step: Decimal, rows_per_unit: int) -> list[Problem]:
    """List what is wrong with a lattice: an empty range, a step that does not divide it, or too many steps."""
    if not low < high:
        found = f"[{_shown(low)}, {_shown(high)}]"
        return [Problem(found, "a lower end below the upper end", "swap or widen them", ("clip",))]
    if step <= 0:
        found = f"a step of {_shown(step)}"
        return [Problem(found, "a step above 0", "leave it out, or write a larger one", ("step",))]
    steps = (Fraction(high) - Fraction(low)) / Fraction(step)
    if steps.denominator != 1:
        found = f"[{_shown(low)}, {_shown(high)}] in steps of {_shown(step)}"
        allowed = "a whole number of steps from end to end"
        return [Problem(found, allowed, "choose a step that divides the range", ("step",))]
    if steps * rows_per_unit > WIDEST:
        ends = f"{_shown(step)} from {_shown(low)} to {_shown(high)}"
        found = f"{int(steps):,} steps of {ends}" + (f", times {rows_per_unit:,} rows" if rows_per_unit > 1 else "")
        least = _shown(coarser_step(low, high, rows_per_unit))
        remedy = f"write `step:` {least} or more, and ends of the clip that are whole steps apart"
        return [Problem(found, f"at most {WIDEST:,} steps of all rows of a unit together", remedy, ("step",))]
    farthest = max(abs(low), abs(high))
    if Fraction(farthest) / Fraction(step) > _TOLD_APART:
        found, allowed = f"steps of {_shown(step)} at values of {_shown(farthest)}", "steps that a double tells apart"
        return [Problem(found, allowed, "write a larger `step:`, or rescale the column in `select:`", ("step",))]
    return []


def _shown(number: Decimal) -> str:
    return spelled(plain_decimal(number))


def coarser_step(low: Decimal, high: Decimal, times: int) -> Decimal:
    """Return a power of ten that leaves few enough steps, when all are moved so many times."""
    step = Decimal(1).scaleb(-15)
    while (Fraction(high) - Fraction(low)) / Fraction(step) * times > WIDEST:
        step *= 10
    return step


def offset_sql(lattice: ValueLattice, value: str, null: str, missing: Decimal | None, kind: str) -> str:
    """Write SQL for an offset as it stands in a snapshot: 0 for a missing value, else the offset plus 1.

    Args:
        lattice: the lattice.
        value: SQL for the value as a double.
        null: SQL that is true where the value counts as missing.
        missing: the value to which the contract maps missing ones; None where they are counted apart.
        kind: DuckDB's type of the result.
    """
    low, high, step = (f"CAST({plain_text(each)} AS DOUBLE)" for each in (lattice.low, lattice.high, lattice.step))
    clipped = f"greatest({low}, least({high}, {value}))"
    offset = f"greatest(0, least({lattice.width}, CAST(round(({clipped} - {low}) / {step}) AS BIGINT)))"
    absent = MISSING if missing is None else 1 + offset_of(lattice, missing)
    return f"CAST(CASE WHEN {null} THEN {absent} ELSE 1 + {offset} END AS {kind})"


def portable_offset(lattice: ValueLattice, value: Any, null: Any, missing: Decimal | None) -> Any:
    """Return the same offset as an expression, int32: each step of it is one operation of IEEE 754, or exact.

    What `round` does to halves differs from engine to engine. With x >= 0 steps, half up is (floor(2 x) + 1) // 2:
    to double is exact, and so is the floor.

    Args:
        lattice: the lattice.
        value: the value as a double.
        null: whether it counts as missing; never null itself.
        missing: the value to which the contract maps missing ones; None where they are counted apart.
    """
    import ibis

    low, high, step = (
        ibis.literal(float(plain_text(each)), "float64") for each in (lattice.low, lattice.high, lattice.step)
    )
    steps = (ibis.greatest(low, ibis.least(high, value)) - low) / step
    rounded = ((steps * 2.0).floor().cast("int64") + 1) // 2
    offset = ibis.greatest(0, ibis.least(lattice.width, rounded))
    absent = MISSING if missing is None else 1 + offset_of(lattice, missing)
    return ibis.cases((null, absent), else_=offset + 1).cast("int32")


def offset_of(lattice: ValueLattice, value: Decimal) -> int:
    """Return the offset of a value, clipped to the bounds."""
    clipped = max(lattice.low, min(lattice.high, value))
    offset = (Fraction(clipped) - Fraction(lattice.low)) / Fraction(lattice.step)
    return min(lattice.width, floor(offset + Fraction(1, 2)))  # ties up, as in SQL


# --- What all forms share in which the values of a column are added up, counted or chosen from.


@dataclass(frozen=True)
class LatticeForm:
    """A form over the lattice of a column.

    Args:
        lattice: the lattice of the values.
    """

    lattice: ValueLattice

    @property
    def column(self) -> str:
        """The column."""
        return self.lattice.column

    @property
    def key(self) -> str:
        """What its draw is found by among those of a table."""
        return self.lattice.key

    @property
    def weight(self) -> ValueLattice | None:
        """The lattice of the survey weight; None where every row counts once."""
        return self.lattice.weight

    @property
    def weight_step(self) -> Decimal:
        """What one step of the weight is; 1 where rows are not weighed."""
        return self.lattice.weight_step
