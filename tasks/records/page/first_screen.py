"""The guarantee, the cost and the uncertainty in plain words, from the public record."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from math import ceil, floor, log10
from typing import Final

import numpy as np
from markupsafe import Markup

from contracts.message import joined, message
from privacy.accounting.amounts import ATTO, PICO, budget_used, percent_text
from privacy.accounting.calculus import calculus_from_json
from privacy.accounting.posterior import largest_posterior, odds_bound, right_of_100, smallest_posterior
from privacy.accounting.scale import further_epsilons
from tasks.records.charts import charts as svg
from tasks.records.charts.charts import belief_bar
from tasks.records.groups.field import NOT_AVAILABLE
from tasks.records.groups.terms import SCOPE_WORDS
from tasks.records.record import RecordExplanation
from tasks.records.sentences import ANY_COLUMN
from tasks.records.values import Values

PRIORS = (Fraction(1, 100), Fraction(1, 10), Fraction(1, 2), Fraction(9, 10))
BUDGET = message("Budget")
ANSWERABLE = ("curator", "contact", "operator", "approvers", "legal_basis", "retention")
"""Fields by which a reader finds who answers for a release, and by which law; missing ones are named at the top."""


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


@dataclass(frozen=True)
class Largest:
    """What can be learned at most of one column of somebody known to be in the table.

    Args:
        column: the contract's column; None where no column is known to be told less of than the others.
        factor: by which odds are multiplied at most.
        exceptions: the probability of the releases after which they may move further.
        beliefs: how far, by the belief before.
    """

    column: str | None
    factor: str
    exceptions: str
    beliefs: list[Belief]


def beliefs(epsilon: str, delta: str, *, priors: tuple[Fraction, ...] = PRIORS) -> list[Belief]:
    """Compute how far beliefs can move: `accounting.posterior`, the bounds that the record's fields give.

    Args:
        epsilon, delta: as the record writes them.
        priors: the beliefs before.
    """
    factor = odds_bound(int(Decimal(epsilon).scaleb(12)), int(Decimal(delta).scaleb(18)))
    shown = []
    for prior in priors:
        low, high = posterior(prior, 1 / factor), posterior(prior, factor)
        least, most = smallest_posterior(prior, factor), largest_posterior(prior, factor)
        shown.append(Belief(f"{float(100 * prior):g} %", least, most, belief_bar(float(prior), low, high)))
    return shown


def posterior(prior: Fraction, factor: Decimal) -> float:
    """Return the belief after odds were multiplied by a factor, as a length to draw."""
    odds = Decimal(prior.numerator) / Decimal((1 - prior).numerator) * factor
    return float(odds / (1 + odds))


def question(values: Values) -> str:
    """Say what an attacker wants to find out under the release's neighbour relation."""
    unit = values["unit.unit"]
    if values["unit.adjacency"] == "add_remove":
        return message("whether {unit} is in it at all", unit=unit)
    return message("what it says about {unit}", unit=unit)


def guessed(values: Values) -> str:
    """Say what is guessed at even odds, for the sentence with which the page begins."""
    unit = values["unit.unit"]
    if values["unit.adjacency"] == "add_remove":
        return message("whether {unit} is in the data", unit=unit)
    return message("which of two things the data say about {unit}", unit=unit)


def right_guesses(values: Values) -> tuple[int, int]:
    """Return how many of 100 guesses are right at most: about a unit, and about the column that is told most of."""
    told = {"epsilon": values["guarantee.epsilon"], "delta": values["guarantee.delta"]}
    unit, attribute = (
        right_of_100(int(Decimal(loss["epsilon"]).scaleb(12)), int(Decimal(loss["delta"]).scaleb(18)))
        for loss in (told, values["guarantee.largest_attribute"])
    )
    return unit, attribute


def undeclared(explanation: RecordExplanation) -> list[str]:
    """Name the fields of who answers for a release that its publisher left undeclared."""
    told = {path.rpartition(".")[2]: field["value"] for path, field in explanation.fields.items()}
    return [name for name in ANSWERABLE if told[name] == NOT_AVAILABLE]


def protected(values: Values) -> str:
    """Say in a few words what about a unit is protected."""
    return (
        message("whether it is in the data")
        if values["unit.adjacency"] == "add_remove"
        else message("what the data say about it")
    )


def largest_attribute(values: Values) -> Largest:
    """Say what the release tells most of, of somebody known to be in the table: one column, or any."""
    largest = values["guarantee.largest_attribute"]
    column = None if largest["column"] == ANY_COLUMN else largest["column"]
    drawn = beliefs(largest["epsilon"], largest["delta"], priors=PRIORS)
    return Largest(column, largest["odds_factor"], largest["except_with_probability"], drawn)


def subject(values: Values) -> str:
    """Name whom the accounts protect: one unit, and over which of its data."""
    return joined([values["unit.unit"], SCOPE_WORDS[values["unit.scope"]]])


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
    calculus = values["guarantee.native_loss"]["calculus"]
    return (
        message("pure ε")
        if calculus["kind"] == "pure"
        else message("Rényi loss of order {order}", order=calculus["order"])
    )


def further(values: Values) -> dict[str, str | None]:
    """Return the largest ε of one more release, by its noise, as `sudare budget show` does; None where none fits."""
    calculus = calculus_from_json(values["guarantee.native_loss"]["calculus"])
    delta = int(Decimal(values["ledger.account_epsilon"]["delta"]) * ATTO)
    found = further_epsilons(calculus, delta, int(Decimal(values["ledger.left"]) * PICO))
    shown = {noise: None if epsilon is None else f"{float(epsilon):.12g}" for noise, epsilon in found.items()}
    return {"gaussian": None, **shown}


def used(values: Values) -> str:
    """Say which share of the account's budget is used with this release."""
    return budget_used(*(Decimal(values[name]) for name in ("ledger.after", "ledger.cap")))


def share(part: str, percent: str, *, up: bool) -> str:
    """Write an amount as a share of another, as `percent_text`; arguments as the record writes amounts."""
    return percent_text(Decimal(part), Decimal(percent), up=up)


def relative_error(half_width: int, size: float) -> str:
    """Write the 95 % reach of the noise relative to a cell of some size."""
    percent = 100 * half_width / size
    if percent >= 100:
        return f"{percent / 100:,.3g}×"
    return f"{percent:.2g} %"


def written(value: float | np.generic) -> str:
    """Write a count: whole ones whole, others with one decimal; a true minus sign."""
    number = float(value)
    text = f"{number:,.0f}" if number == round(number) else f"{number:,.1f}"
    return text.replace("-", "−")


def model_words(kind: str) -> str:
    """Name a kind of published model."""
    return message("model of cells and of values inside bins") if kind == "filled" else kind.replace("_", " ")


# --- The ε of a release on a scale with those of known releases, each with its unit of privacy and its source.


_SIDE: Final = 4
"""Room at each end of the scale [per cent of the width]."""


@dataclass(frozen=True)
class KnownRelease:
    """A release of somebody else, as its publisher or the literature describes it.

    Args:
        letter: its place in the drawing and in the list below.
        epsilon: as published.
        name: what was released.
        unit: whose ε this is.
        source: where it says so.
    """

    letter: str
    epsilon: str
    name: str
    unit: str
    source: str


KNOWN: Final = (
    KnownRelease(
        "a",
        "1",
        message("Wikipedia, page views by country, about this much every day, at δ = 1e-7"),
        message("the first 10 page views of one device on one day"),
        "Wikimedia Foundation, README of country_project_page, 2023",
    ),
    KnownRelease(
        "b",
        "4",
        message("Apple, emoji suggestions, every day; the noise is added on the device"),
        message("one user on one day"),
        "D. Desfontaines, A list of real-world uses of differential privacy, 2021",
    ),
    KnownRelease(
        "c",
        "9.98",
        message("Israel, synthetic rows of the births of 2014"),
        message("one mother with her newborn"),
        "S. Hod, R. Canetti, arXiv 2405.00267, 2024",
    ),
    KnownRelease(
        "d",
        "17.14",
        message("United States, census of 2020, redistricting data, the part about persons"),
        message("one person"),
        "U.S. Census Bureau, Key Parameters to Protect Privacy in 2020 Census Results, 9 June 2021",
    ),
)
"""By their ε."""


def epsilon_scale(epsilon: str) -> svg.Drawing:
    """Draw the ε of a release below a logarithmic axis, and those of known releases above it.

    Args:
        epsilon: as the record writes it, > 0.
    Returns:
        A drawing; the axis reaches from 0.1 to 100, and further in whole powers of ten where ε lies outside.
    """
    own = log10(float(epsilon))
    axis = float(min(-1, floor(own))), float(max(2, ceil(own)))
    letters = "".join(
        svg.text(_place(log10(float(known.epsilon)), axis), 24, known.letter, "middle", "known") for known in KNOWN
    )
    numbers = "".join(
        svg.text(_place(power, axis), 97, svg.short(10**power), "middle") for power in svg.decades(axis)
    )
    ticks = "".join(f"M{svg.place(power, axis)} 0V1000" for power in svg.decades(axis))
    dots = "".join(_dot(log10(float(known.epsilon)), axis, "other") for known in KNOWN)
    line = svg.plot(f'<path class="grid" d="M0 500H1000{ticks}"/>', (_SIDE, 36, 100 - 2 * _SIDE, 8))
    place = _place(own, axis)
    anchor = "start" if place < 20 else "end" if place > 80 else "middle"
    content = line + dots + _dot(own, axis, "own") + letters + numbers + svg.text(place, 72, "{1}", anchor, "own")
    others = joined(message("{name}: {epsilon}", name=known.name, epsilon=known.epsilon) for known in KNOWN)
    label = message("ε of this release, {own}, beside known ones: {others}", own=at_most(epsilon), others=others)
    return svg.figure("scale", label, content, f"ε {at_most(epsilon)}")


def _place(power: float, axis: tuple[float, float]) -> float:
    """Place a power of ten on the drawing [per cent of the width]."""
    return _SIDE + (100 - 2 * _SIDE) * svg.place(power, axis) / 1000


def _dot(power: float, axis: tuple[float, float], name: str) -> str:
    return f'<circle class="{name}" cx="{_place(power, axis):.4g}%" cy="40%" r="4"/>'
