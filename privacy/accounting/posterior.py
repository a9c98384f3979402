"""What anybody can come to believe: the largest belief about one unit, or one attribute of it, after a release.

A release multiplies the odds of any hypothesis about one unit by at most exp(epsilon) (delta = 0). With delta > 0 it
multiplies them by at most 10/9 exp(epsilon), except with probability at most 10 delta over the release. Derivation,
and for whom this is said: docs/derivations.md, section 10.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Final, NamedTuple

from contracts.message import message
from privacy.accounting.amounts import ATTO, PICO, loss_up
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace
from privacy.accounting.renyi import best_epsilon

PRIORS: Final = (Fraction(1, 100), Fraction(1, 10), Fraction(1, 2))
ALLOWANCE: Final = Fraction(10, 9)
EXCEPTIONS: Final = 10
_EXACT: Final = Context(prec=60)
_CERTAIN: Final = Decimal("1e-12")

MarginalNoise = DiscreteLaplace | DiscreteGaussian


def odds_bound(epsilon: int, delta: int) -> Decimal:
    """Return the most by which odds are multiplied: exp(epsilon), and 10/9 of it with delta > 0; to 60 digits.

    Args:
        epsilon: >= 0 [10^-12].
        delta: 0 <= delta < 10^18 [10^-18].
    """
    factor = _EXACT.exp(_EXACT.divide(Decimal(epsilon), Decimal(PICO)))
    # With delta odds rise by at most 10/9 exp(epsilon), but for events of probability 10 delta (derivations, 10).
    if delta and epsilon:
        return _EXACT.divide(_EXACT.multiply(factor, Decimal(ALLOWANCE.numerator)), Decimal(ALLOWANCE.denominator))
    return factor


class LossPair(NamedTuple):
    """A privacy loss: epsilon [10^-12] at delta [10^-18]."""

    epsilon: int
    delta: int


def exceptions(epsilon: int, delta: int) -> int:
    """Return the probability [10^-18] with which odds may rise further; nothing where nothing was drawn."""
    return min(EXCEPTIONS * delta, ATTO) if epsilon else 0


def loss_about_a_row(epsilon: int, delta: int, *, adjacency: str) -> LossPair:
    """Return the loss about what the table says of a unit that is known to be in it.

    Under add_remove other rows count as one unit removed and another added: 2 epsilon and (1 + exp(epsilon)) delta.

    Args:
        epsilon: of the release [10^-12].
        delta: of the release [10^-18].
        adjacency: of the release.
    """
    if adjacency != "add_remove":
        return LossPair(epsilon, delta)
    return LossPair(2 * epsilon, min(_whole_up(1 + odds_bound(epsilon, 0), delta), ATTO - 1))


def _whole_up(times: Decimal, amount: int) -> int:
    """Multiply and round up, to four digits and to a whole number."""
    short = Context(prec=4, rounding=ROUND_CEILING).multiply(times, Decimal(amount))
    return int(short.to_integral_value(ROUND_CEILING))


def largest_posterior(prior: Fraction, factor: Decimal) -> str:
    """Return the largest belief after odds were multiplied by a factor, in percent, rounded up.

    posterior = prior * factor / (prior * factor + 1 - prior)

    Args:
        prior: the belief before, 0 < prior < 1 [probability].
        factor: of the odds, >= 1.
    Returns:
        str: such as "2.672 %", four digits; near certainty two digits of what is missing; then "almost 100 %".
    """
    # Worked out as what is missing from certainty, so that beliefs near 100 % keep their digits.
    against = _EXACT.divide(Decimal((1 - prior).numerator), Decimal((1 - prior).denominator))
    odds = _EXACT.multiply(_EXACT.divide(Decimal(prior.numerator), Decimal(prior.denominator)), factor)
    missing = _EXACT.divide(against, _EXACT.add(odds, against))
    if missing < _CERTAIN:
        return message("almost 100 %")
    if missing < Decimal("0.01"):
        # The missing part is rounded down, so the belief is rounded up.
        short = Context(prec=2, rounding=ROUND_FLOOR).plus(100 * missing)
        return f"{100 - short:f} %"
    percent = Context(prec=4, rounding=ROUND_CEILING).plus(100 * (1 - missing))
    return f"{percent.normalize():f} %"


def right_of_100(epsilon: int, delta: int) -> int:
    """Return how many of 100 guesses at even odds are right at most, on average, by whoever sees the release.

    right <= (exp(epsilon) + delta) / (1 + exp(epsilon)); rounded up.

    Args:
        epsilon: >= 0 [10^-12].
        delta: 0 <= delta < 10^18 [10^-18].
    Privacy: post-processing of a bound; the derivation is in docs/derivations.md, section 10.
    """
    up = Context(prec=60, rounding=ROUND_CEILING)
    factor = odds_bound(epsilon, 0)
    share = up.divide(up.add(factor, up.divide(Decimal(delta), Decimal(ATTO))), _EXACT.add(1, factor))
    return min(100, int((100 * share).to_integral_value(ROUND_CEILING)))


def smallest_posterior(prior: Fraction, factor: Decimal) -> str:
    """Return the smallest belief after odds were divided by a factor, in percent, rounded down.

    The belief in the contrary is multiplied by at most the factor: posterior = prior / (prior + (1 - prior) * factor)

    Args:
        prior: the belief before, 0 < prior < 1 [probability].
        factor: of the odds, >= 1.
    Returns:
        str: such as "0.3705 %", four digits; then "almost 0 %".
    """
    odds = _EXACT.divide(Decimal(prior.numerator), Decimal((1 - prior).denominator))
    against = _EXACT.multiply(_EXACT.divide(Decimal((1 - prior).numerator), Decimal(prior.denominator)), factor)
    left = _EXACT.divide(odds, _EXACT.add(odds, against))
    if left < _CERTAIN:
        return message("almost 0 %")
    return f"{Context(prec=4, rounding=ROUND_FLOOR).plus(100 * left).normalize():f} %"


def epsilon_of_attribute(events: Iterable[MarginalNoise], *, rows_per_unit: int, delta: int) -> int:
    """Return the loss about one attribute of a unit of which all else is known, by the draws that count it.

    Another value moves the unit's rows, at most k, from cells to other cells of every marginal that has the column:
    the moves (k, k) of `replace_one`, whatever relation the release has. All other marginals stay as they are.

    Args:
        events: of the draws whose clique has the column, fixed in advance.
        rows_per_unit: k >= 1 [rows].
        delta: of the release [10^-18].
    Returns:
        int: epsilon at this delta, rounded up [10^-12].
    """
    moved: Sequence[MarginalNoise] = [replace(event, moves=(rows_per_unit, rows_per_unit)) for event in events]
    if not moved:
        return 0
    # Pure losses add up: each draw moves two cells by k.
    if not delta and all(isinstance(event, DiscreteLaplace) for event in moved):
        scales = [event.inverse_scale for event in moved if isinstance(event, DiscreteLaplace)]
        return loss_up(2 * rows_per_unit * sum(scales, Fraction(0)))
    return loss_up(best_epsilon(moved, Fraction(delta, ATTO))[0])
