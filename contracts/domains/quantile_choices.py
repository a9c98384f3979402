"""Quantiles that are chosen by the exponential mechanism: in which order, and how far one row moves the choices.

A candidate is an offset of the column's lattice (`value_lattices`). With L rows of the cell below it, U rows at or
below it, and N rows, its distance from the quantile p is

    d = max(0, L - p N, p N - U)

and it is chosen with probability proportional to weight * exp(-rate * d). The middle quantile is chosen first, of all
offsets; then those below it, of the offsets up to it, and those above it, of the offsets from it on, and so on. Rows
at an end of such a range count as outside: at its upper end d = max(0, L - p N), at its lower one max(0, p N - U).

One row moves L - p N and U - p N by p or by 1 - p. So no distance moves by more than m = max(p, 1 - p), and no two
by more than 2 m against each other; of a row outside of the range all move alike, by at most p where the row lies
above, and by 1 - p where it lies below. Each rate is c / (2 m): alone, each quantile has a loss of c. All together
lose `loss_factor` times c for one row: the most, over the places where it can lie (docs/derivations.md, section 2).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

from contracts.domains.lattice_form import LatticeForm
from contracts.reading.scalars import plain_text

CHOICE: Final = "choice"
_TEN: Final = 10


@dataclass(frozen=True)
class QuantileChoices(LatticeForm):
    """Quantiles of a column that are chosen by the exponential mechanism, in each cell.

    Args:
        lattice: the lattice whose offsets are the candidates.
        shares: the quantiles, ascending, each in (0, 1) and once.
    """

    shares: tuple[Decimal, ...]

    @property
    def key(self) -> str:
        """What its draw is found by among those of a table."""
        return choice_key(self.column)

    @property
    def key_name(self) -> str:
        """The end of its draw's name."""
        return f"{CHOICE}/{self.column}"

    @property
    def parts(self) -> int:
        """Numbers of a cell: one offset for each quantile."""
        return len(self.shares)

    @property
    def part_names(self) -> tuple[str, ...]:
        """Name each of these numbers."""
        return tuple(f"q{plain_text(100 * share)}" for share in self.shares)

    @cached_property
    def order(self) -> tuple[tuple[int, int | None, int | None], ...]:
        """In which order quantiles are chosen: each with those between which it lies, all by their place."""
        return tuple(_order(0, len(self.shares), None, None))

    def rate_share(self, place: int) -> Fraction:
        """Return the rate of a quantile over c: 1 / (2 max(p, 1 - p)) [1 / rows]."""
        share = Fraction(self.shares[place])
        return 1 / (2 * max(share, 1 - share))

    @cached_property
    def loss_factor(self) -> Fraction:
        """Return what one row costs over all quantiles of its cell, over c.

        A row between two neighbouring quantiles lies in the ranges of some, each of which costs 1, and outside of
        those of the others: 2 p times their rate share where it lies above, 2 (1 - p) where below. A row at a
        quantile lies in no more ranges than one beside it.
        """
        return max(self._loss(gap) for gap in range(len(self.shares) + 1))

    def _loss(self, gap: int) -> Fraction:
        """Return what a row costs that lies above so many of the quantiles."""
        total = Fraction(0)
        for place, below, above in self.order:
            share = Fraction(self.shares[place])
            if below is not None and gap <= below:
                total += 2 * (1 - share) * self.rate_share(place)
            elif above is not None and gap > above:
                total += 2 * share * self.rate_share(place)
            else:
                total += 1
        return total

    @cached_property
    def scales(self) -> tuple[int, ...]:
        """Powers of ten up to the width; a multiple of each, counted in steps, weighs as much more."""
        scales = [1]
        while scales[-1] * _TEN <= self.lattice.width:
            scales.append(scales[-1] * _TEN)
        return tuple(scales)

    @cached_property
    def origin(self) -> int:
        """The number of steps from 0 to the lower end of the clip; 0 where that is no whole number."""
        steps = Fraction(self.lattice.low) / Fraction(self.lattice.step)
        return int(steps) if steps.denominator == 1 else 0

    def to_json(self) -> dict[str, Any]:
        """Write it as JSON values."""
        return {**self.lattice.to_json(), "quantiles": [plain_text(share) for share in self.shares]}


def choice_key(column: str) -> str:
    """Return what the choices of a column are found by; no column has this name, since it has a control character."""
    return f"{CHOICE}\x1f{column}"


def _order(
    start: int, end: int, below: int | None, above: int | None
) -> Iterator[tuple[int, int | None, int | None]]:
    """Yield the middle of some quantiles, then those below it and those above it."""
    if start < end:
        middle = (start + end) // 2
        yield middle, below, above
        yield from _order(start, middle, below, middle)
        yield from _order(middle + 1, end, middle, above)
