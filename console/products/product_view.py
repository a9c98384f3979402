"""What the console asks of a kind of product: the words of its plan; the table of kinds names its class."""

from __future__ import annotations

from dataclasses import dataclass
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
        half_width: of the interval; where `by_rows`, in a cell of one row [the statistic's units].
        by_rows: whether it falls in proportion to the rows of the cell.
    """

    table: str
    statistic: str
    half_width: float
    by_rows: bool = False


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
