"""What the console shows of modifiers of synthetic rows; the table is in `contracts.release.synthetic_modifiers`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from contracts.release.acceptance import Acceptance

if TYPE_CHECKING:
    from privacy.generators.release_plan import FittedPlan

Lines = list[tuple[str, str]]


class ModifierView:
    """What is shown of a modifier: in `sudare plan --json`, and as lines of a plan and of a version."""

    after: ClassVar[str] = "rows"
    """The line of plan or version after which its own stand."""
    chosen_by_noise: ClassVar[bool] = False
    """Whether its lines of a version say what noise chose: then they stand at the end of a run too."""

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


class PriorView(ModifierView):
    """Which public rows there are, and whether the model began with their dependence."""

    after = "generator"
    chosen_by_noise = True

    def plan_object(self, plan: FittedPlan[Any]) -> dict[str, Any]:
        """Return the file, its rows, and the columns that it has."""
        prior = plan.task.prior
        columns = [clique[0] for clique in prior.counts if len(clique) == 1]
        return {"prior": {"file": prior.file, "rows": prior.rows, "columns": columns, "pairs": len(prior.pairs)}}

    def plan_lines(self, payload: dict[str, Any]) -> Lines:
        """Return what was read."""
        if "prior" not in payload:
            return []
        read = payload["prior"]
        pairs = f"{read['pairs']:,} pairs" if read["pairs"] else "no pair, so no dependence to begin with"
        return [("prior", f"{read['file']}, {read['rows']:,} rows: {len(read['columns'])} columns, {pairs}")]

    def version_lines(self, replay: dict[str, Any]) -> Lines:
        """Return what was chosen."""
        prior = replay["product"].get("prior")
        if prior is None:
            return []
        chosen = [draw["index"] for draw in replay["draws"] if draw["kind"] == "model_choice"]
        begun = "its columns alone" if not chosen else "begun with" if chosen == [1] else "not begun with"
        return [("prior", f"{prior['path']}, {begun}")]


class AcceptView(ModifierView):
    """Which candidate was accepted, and how many rows its criteria need."""

    after = "generator"
    chosen_by_noise = True

    def plan_object(self, plan: FittedPlan[Any]) -> dict[str, Any]:
        """Return the candidates, and how many rows the bounds need, where nothing says how many there are."""
        from privacy.generators.candidate_trials import CandidateTrials  # the end of a run needs none

        asked = Acceptance.model_validate(plan.options)
        return {
            "candidates": [each.generator for each in asked.candidates],
            "criteria_need_rows": CandidateTrials(plan.task, asked).least_rows,
        }

    def plan_lines(self, payload: dict[str, Any]) -> Lines:
        """Return the same, with what to do."""
        if "candidates" not in payload:
            return []
        candidates, least = ("candidates", ", then ".join(payload["candidates"])), payload["criteria_need_rows"]
        if least is None:
            return [candidates]
        need = f"can be met with {least:,} rows or more; with fewer all is charged for nothing: write rows_about"
        return [candidates, ("criteria", need)]

    def version_lines(self, replay: dict[str, Any]) -> Lines:
        """Return the candidate that was tried last."""
        tried = [draw["candidate"] for draw in replay["draws"] if draw["kind"] == "acceptance"]
        if not tried:
            return []
        candidates = replay["product"]["options"]["candidates"]
        accepted = f"candidate {tried[-1] + 1} of {len(candidates)}, {candidates[tried[-1]]['generator']}"
        return [("accepted", accepted)]


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
