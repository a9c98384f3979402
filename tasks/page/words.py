"""The guarantee, the cost and the uncertainty in plain words, from the public record."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from math import exp
from typing import Any

from markupsafe import Markup

from tasks.page.charts import belief_bar
from tasks.record.terms import SCOPE_WORDS

PRIORS = (0.01, 0.1, 0.5, 0.9)
_LARGEST_EXPONENT = 700.0
Values = dict[str, Any]


@dataclass(frozen=True)
class Belief:
    """How far the release can move a belief.

    Args:
        before: the belief before, in percent.
        least: the least it can become.
        most: the most it can become.
        bar: the range, drawn.
    """

    before: str
    least: str
    most: str
    bar: Markup


def beliefs(epsilon: str) -> list[Belief]:
    """Compute how far beliefs can move: odds are multiplied by at most exp(epsilon), and at least by its inverse.

    Args:
        epsilon: as the record writes it.
    """
    shown = []
    for prior in PRIORS:
        low, high = (posterior(prior, sign * float(Decimal(epsilon))) for sign in (-1, 1))
        shown.append(Belief(percent(prior), percent(low), percent(high), belief_bar(prior, low, high)))
    return shown


def posterior(prior: float, loss: float) -> float:
    """Return the belief after evidence with that log odds ratio: prior odds times exp(loss), as a probability."""
    if loss > _LARGEST_EXPONENT:
        return 1.0
    odds = prior / (1 - prior) * exp(loss)
    return odds / (1 + odds)


def percent(share: float) -> str:
    """Write a probability in percent; never 0 % or 100 %, which it is not."""
    text = f"{100 * share:.3g}"
    if float(text) >= 100:
        return "almost 100 %"
    return f"{text} %" if share >= 1e-6 else "almost 0 %"


def question(values: Values) -> str:
    """Say what an attacker wants to find out under the release's neighbour relation."""
    unit = values["E.unit"]
    if values["E.adjacency"] == "add_remove":
        return f"whether {unit} is in it at all"
    return f"what it says about {unit}"


def protected(values: Values) -> str:
    """Say in a few words what about a unit is protected."""
    return "whether it is in the data" if values["E.adjacency"] == "add_remove" else "what the data say about it"


def subject(values: Values) -> str:
    """Name whom the accounts protect: one unit, and over which of its data."""
    return f"{values['E.unit']}, {SCOPE_WORDS[values['E.scope']]}"


def brief(amount: str, *, up: bool) -> str:
    """Round an amount to four digits against the spender: what is lost up, what is left down.

    Args:
        amount: as the record writes it.
        up: whether the amount is a loss.
    """
    rounding = ROUND_CEILING if up else ROUND_FLOOR
    rounded = Context(prec=4, rounding=rounding).plus(Decimal(amount))
    return format(rounded.normalize(), "f")


def at_most(amount: str) -> str:
    """Write a loss briefly, with the sign that says whether it was rounded up."""
    shown = brief(amount, up=True)
    return f"{'=' if Decimal(shown) == Decimal(amount) else '≤'} {shown}"


def loss_unit(values: Values) -> str:
    """Name the unit of the account's amounts."""
    calculus = values["F.native_loss"]["calculus"]
    return "pure ε" if calculus["kind"] == "pure" else f"Rényi loss of order {calculus['order']}"


def relative_error(half_width: int, size: float) -> str:
    """Write the 95 % reach of the noise relative to a cell of some size."""
    percent = 100 * half_width / size
    if percent >= 100:
        return f"{percent / 100:,.3g}×"
    return f"{percent:.2g} %"
