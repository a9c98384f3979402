"""What the console shows of modifiers of synthetic rows; the table is in `contracts.release.synthetic_modifiers`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from privacy.generators.release_plan import FittedPlan

Lines = list[tuple[str, str]]


class ModifierView:
    """What is shown of a modifier: in `sudare plan --json`, and as lines of a plan and of a version."""

    after: ClassVar[str] = "rows"
    """The line of plan or version after which its own stand."""

    def plan_object(self, plan: FittedPlan[Any]) -> dict[str, Any]:
        """Return its part of the payload; data-free."""
        return {}

    def plan_lines(self, payload: dict[str, Any]) -> Lines:
        """Return its lines of a plan."""
        return []

    def version_lines(self, replay: dict[str, Any]) -> Lines:
        """Return its lines of a version, of the replay block of the record."""
        return []


class InsideView(ModifierView):
    """What noise does to the columns inside whose bins rows are counted."""

    after = "error"

    def plan_object(self, plan: FittedPlan[Any]) -> dict[str, Any]:
        """Return what is expected of each column's sum and ranks; of its mean where the rows are public."""
        rows = plan.public_total
        return {
            "inside_bins": {
                column: {"sum": error.sum, "rank": error.rank, **({"mean": error.sum / rows} if rows else {})}
                for column, error in plan.plan.inside_error.items()
            }
        }

    def plan_lines(self, payload: dict[str, Any]) -> Lines:
        """Return a line for each column."""
        return [
            (
                "inside bins" if place == 0 else "",
                f"{column}: ranks of quantiles ±{error['rank']:,.0f} rows, "
                + (f"mean ±{error['mean']:,.3g}" if "mean" in error else f"sum ±{error['sum']:,.3g}"),
            )
            for place, (column, error) in enumerate(payload.get("inside_bins", {}).items())
        ]


class LinkedTablesView(ModifierView):
    """The parent's rows, and the keys that lead to them."""

    def version_lines(self, replay: dict[str, Any]) -> Lines:
        """Return how many rows of the parent table there are, and by which keys they are found."""
        made, above = replay["rows"], replay["rows"].get("parents")
        if above is None:
            return []
        keys = f"{made['data']}: {above['child_key']} is {above['key']} of {above['table']}"
        return [("parents", f"{above['number']:,} rows of {above['table']}, {above['data']}"), ("keys", keys)]


class CopiesView(ModifierView):
    """How many copies there are."""

    def plan_object(self, plan: FittedPlan[Any]) -> dict[str, Any]:
        """Return their number."""
        return {"copies": plan.task.copies}

    def plan_lines(self, payload: dict[str, Any]) -> Lines:
        """Return their number."""
        return [("copies", f"{payload['copies']}, each of a model of its own")] if "copies" in payload else []

    def version_lines(self, replay: dict[str, Any]) -> Lines:
        """Return their number and the first file."""
        copies = replay.get("copies", ())
        return [("copies", f"{len(copies)}, {copies[0]['data']} and so on")] if copies else []


def with_lines(lines: Lines, added: Iterable[tuple[ModifierView, Lines]]) -> Lines:
    """Return lines with those of modifiers, each after the line that it names."""
    for view, own in added:
        names = [name for name, _ in lines]
        place = names.index(view.after) + 1 if own else 0
        lines = [*lines[:place], *own, *lines[place:]]
    return lines
