"""What the console asks of a kind of product: the words of its plan; the table of kinds names its class."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any, Protocol

from rich.console import Console

from contracts.release.product_kinds import product_kinds
from contracts.release.spec import ReleaseSpec


@dataclass(frozen=True)
class ExpectedWidth:
    """Half of the 95 % interval of a statistic, as a plan foretells it.

    Args:
        table: the name of its table.
        statistic: `count`, or the column of the published file.
        half_width: of the interval; where `by_rows`, times the rows of the cell [the statistic's units].
        by_rows: whether it falls in proportion to the rows of the cell, while these are many.
        count: half of the interval of the cell's rows; an interval of a mean is longer by it, as the mean is over
            noisy rows [rows].
        most: half of all that is possible; no interval is longer.
        about: whether values elsewhere in the clip may have a longer interval.
    """

    table: str
    statistic: str
    half_width: float
    by_rows: bool = False
    count: float = 0.0
    most: float = inf
    about: bool = False

    def of(self, rows: int) -> float:
        """Return the half width in a cell of so many rows.

        Of a mean by Fieller: with g the squared ratio of the margin of the rows to the rows, its interval is
        1 / (1 - g) times as long as with known rows, at most.
        """
        if not self.by_rows:
            return min(self.most, self.half_width)
        g = (self.count / rows) ** 2
        return self.most if g >= 1 else min(self.most, self.half_width / rows / (1 - g))


class ProductView(Protocol):
    """How a kind of product is shown. A payload is the JSON object of `sudare plan --json`."""

    def plan_object(self, spec: ReleaseSpec, plan: Any) -> dict[str, Any]:
        """Return the part of the payload that only this kind has; data-free. It has `megabytes` and `seconds`."""
        ...

    def noise_words(self, payload: dict[str, Any]) -> str:
        """Name the noise behind the cost, or nothing."""
        ...

    def plan_facts(self, payload: dict[str, Any]) -> list[tuple[str, str]]:
        """Return the lines that stand above the draws: name and words."""
        ...

    def expected_widths(self, payload: dict[str, Any]) -> list[ExpectedWidth]:
        """Return the half width of each statistic that a plan foretells; none of rows and models."""
        ...

    def print_draws(self, console: Console, payload: dict[str, Any]) -> None:
        """Print what is drawn."""
        ...

    def print_version(self, console: Console, replay: dict[str, Any]) -> None:
        """Print what a version holds; `replay` is the part of its record that says how it was computed."""
        ...


def product_view(kind: str) -> ProductView:
    """Return the view of a kind; only its own module is loaded."""
    view: ProductView = product_kinds()[kind].load("view")()
    return view
