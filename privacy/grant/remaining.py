"""Whether what a charge has left covers one more draw: as one of its planned events, or out of its budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from contracts.errors import Finding
from privacy.accounting.adaptive import budget_of, limit, share, unplanned
from privacy.accounting.amounts import pico_to_text
from privacy.accounting.event import UnsupportedEvent
from privacy.accounting.events import PrivacyEvent
from privacy.ledger.errors import GrantExceeded
from privacy.ledger.terms import Charge

Costs = Callable[[PrivacyEvent], Mapping[str, int]]
"""From an event to what it costs each account, by name [10^-12 units of its calculus]."""


def check_covered(
    charge: Charge, event: PrivacyEvent, drawn: Sequence[PrivacyEvent], costs: Costs, *, key: str, where: str
) -> None:
    """Refuse a draw that the charge neither planned nor has a budget for.

    Args:
        charge: the opened charge.
        event: what is to be drawn.
        drawn: the run's draws so far.
        costs: what an event costs each account.
        key: name of the draw.
        where: whose grant it is.
    Raises:
        GrantExceeded: nothing was drawn.
    """
    planned = charge.request.events
    left = Counter(planned)
    left.subtract(drawn)
    if left[event] > 0:
        chosen = Counter(unplanned(planned, drawn))
        _check_parts(charge, event, list((Counter(drawn) - chosen).elements()), costs, key=key, where=where)
        return
    budget = budget_of(planned)
    if budget is None:
        found = f"draw {key!r}: {event.kind} that is not planned, or drawn as often as planned"
        raise GrantExceeded([Finding(where, "plan", found, "the planned events; nothing was drawn")])
    spent = sum((share(budget, before) for before in unplanned(planned, drawn)), Fraction(0))
    try:
        wanted, room = share(budget, event), limit(budget) - spent
    except UnsupportedEvent as refused:
        found = f"draw {key!r}: {event.kind} that is not planned, or drawn as often as planned"
        raise GrantExceeded(
            [Finding(where, "plan", found, f"the planned events, and what {budget.kind} holds; nothing was drawn")]
        ) from refused
    if wanted > room:
        found = f"draw {key!r} takes {float(wanted):.12g} of the {budget.kind} budget"
        allowed = f"at most {float(room):.12g}, what is left of it; nothing was drawn"
        raise GrantExceeded([Finding(where, "budget", found, allowed)])


def _check_parts(
    charge: Charge, event: PrivacyEvent, drawn: Sequence[PrivacyEvent], costs: Costs, *, key: str, where: str
) -> None:
    """Refuse a planned draw that some account's part of the charge does not hold."""
    for part in charge.parts:
        left = part.amount - sum(costs(before)[part.account] for before in drawn)
        cost = costs(event)[part.account]
        if cost > left:
            found = f"draw {key!r} costs {pico_to_text(cost)} of account {part.account}"
            allowed = f"at most {pico_to_text(left)}; nothing was drawn"
            raise GrantExceeded([Finding(where, "sub-budget", found, allowed)])
