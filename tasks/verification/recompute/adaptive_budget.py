"""Do draws that were chosen on the way keep within the charge's budget for them? From the JSON of the events alone.

A charge's events are planned draws, and at most one budget: `zero_concentrated` (rho) or `pure` (epsilon). A draw is
one of the planned ones as long as one like it is left; every other takes a share of the budget, exact in rationals:
    of rho       discrete Gaussian  moves^2 / (2 sigma^2)      exponential mechanism  epsilon^2 / 8
                 discrete Laplace   (inverse_scale * |moves|)^2 / 2
    of epsilon   discrete Laplace   inverse_scale * |moves|    exponential mechanism  epsilon
Shares nothing with `privacy.accounting`; derivations: docs/derivations.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

from contracts.canonical import canonical_json
from contracts.errors import Finding
from tasks.records.strict_json import printable, shown
from tasks.verification.recompute.event_forms import NotRecomputable, exact_sum, read_event

BUDGETS: Final = ("zero_concentrated", "pure")
_OVERDRAWN: Final = "more was drawn than was charged: the loss is larger than the account was told"
EventJson = Mapping[str, Any]


def split(planned: Sequence[EventJson]) -> tuple[list[EventJson], EventJson | None]:
    """Split a charge's events into the planned draws and the budget, if there is one; a second one is a draw."""
    budgets = [event for event in planned if event.get("kind") in BUDGETS]
    budget = budgets[0] if budgets else None
    return [event for event in planned if event is not budget], budget


def chosen(planned: Sequence[EventJson], drawn: Sequence[EventJson]) -> list[int]:
    """Return the places of the draws that are none of the planned ones."""
    left = Counter(canonical_json(event) for event in split(planned)[0])
    places = []
    for place, event in enumerate(drawn):
        known = canonical_json(event)
        if left[known]:
            left[known] -= 1
        else:
            places.append(place)
    return places


def undrawn(planned: Sequence[EventJson], drawn: Sequence[EventJson]) -> list[EventJson]:
    """Return the planned draws that were not made, in order."""
    made = Counter(canonical_json(event) for event in drawn)
    rest = []
    for event in split(planned)[0]:
        known = canonical_json(event)
        if made[known]:
            made[known] -= 1
        else:
            rest.append(event)
    return rest


def check_budget(
    planned: Sequence[EventJson], drawn: Sequence[EventJson], *, where: str, reserved: bool = False
) -> list[Finding]:
    """Check that what was drawn beyond the planned draws keeps within the budget.

    Args:
        planned: the charge's events.
        drawn: the events of the draws, in order.
        where: the file that they stand in.
        reserved: some of the planned draws are a reserve, which may not have been needed.
    Returns:
        list[Finding]: empty when it holds, and when there is no budget.
    """
    draws, budget = split(planned)
    if budget is None:
        return []
    rest = [drawn[place] for place in chosen(planned, drawn)]
    missing = len(draws) - (len(drawn) - len(rest))
    if missing and not reserved:
        found = f"{missing} of the planned draws not made"
        return [Finding(where, "draws", found, f"all {len(draws)} that the charge planned", _OVERDRAWN)]
    try:
        limit = read_event(budget)[1]
        taken = exact_sum(_share(str(budget["kind"]), event) for event in rest)
    except NotRecomputable as error:
        return [Finding(where, "draws from the budget", printable(str(error)), "noise of a known loss", _OVERDRAWN)]
    if taken <= limit:
        return []
    found = f"draws that take {float(taken):.15g} of it"
    return [Finding(where, shown(budget["kind"]), found, f"at most {float(limit):.15g}", _OVERDRAWN)]


def _share(of: str, event: EventJson) -> Fraction:
    """Compute an event's share of a budget."""
    kind, value, *others = read_event(event)
    parameter: Fraction = value
    match kind:
        case "discrete_gaussian" if of == "zero_concentrated":
            return Fraction(sum(move * move for move in others[0])) / (2 * parameter)
        case "exponential_mechanism":
            return parameter**2 / 8 if of == "zero_concentrated" else parameter
        case "discrete_laplace":
            epsilon: Fraction = parameter * sum(map(abs, others[0]))
            return epsilon**2 / 2 if of == "zero_concentrated" else epsilon
    raise NotRecomputable(f"{kind} from a {of} budget")
