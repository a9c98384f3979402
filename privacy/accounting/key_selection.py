"""A private selection of keys, as an event: its loss, and the probability that it fails.

Where (one letter each)
    e, d   epsilon and delta of one key's coin      m   keys that one unit may have (`groups`)

One unit moves the number of units of at most m keys by one, and each key's coin is (e, d)-DP in both directions. Such
a pair of coins is, with probability d, one that may tell all, and otherwise a pair whose log-likelihood ratio is at
most e (Kairouz, Oh, Viswanath 2015). The coins are independent. So with probability (1 - d)^m none of
the m tells all, and the rest is m pure steps of e:

    loss     m pure steps of e, as `Pure` has them
    failure  1 - (1 - d)^m, an additive probability beside the loss
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final

from privacy.accounting.amounts import ATTO, AmountRefused
from privacy.accounting.event import WrittenEvent

_SMALLEST: Final = Fraction(1, 10**15)
_LARGEST_EPSILON: Final = 100
_LARGEST_TERM: Final = 10**40
_STEP: Final = 10**36
MOST_GROUPS: Final = 4096


@dataclass(frozen=True)
class KeySelection(WrittenEvent):
    """A coin for each key that some unit has, which shows whether the key is published; others are never published.

    Args:
        epsilon: of one key's coin, 10^-15 <= epsilon <= 100 [dimensionless].
        delta: of one key's coin, > 0 and < 1, at most 40 digits a term [probability].
        groups: keys that one unit may have, 1 to 4096.
    Raises:
        AmountRefused: a parameter out of range.
    Privacy: of one unit, added or removed: groups * epsilon, but for a failure of probability 1 - (1 - delta)^groups.
    Source: Desfontaines, Voss, Gipson, Mandayam 2022 (the optimal rule); docs/derivations.md, section 4.
    """

    epsilon: Fraction
    delta: Fraction
    groups: int
    kind: ClassVar[str] = "key_selection"
    adjacencies: ClassVar[frozenset[str]] = frozenset({"add_remove"})

    def __post_init__(self) -> None:
        _within(
            "epsilon", self.epsilon, _SMALLEST <= self.epsilon <= _LARGEST_EPSILON, f"1e-15 to {_LARGEST_EPSILON}"
        )
        _within("delta", self.delta, 0 < self.delta < 1, "above 0 and below 1")
        if type(self.groups) is not int or not 1 <= self.groups <= MOST_GROUPS:
            raise AmountRefused("groups", self.groups, f"an integer from 1 to {MOST_GROUPS}")

    @property
    def failure(self) -> Fraction:
        """The probability that it fails, exactly: 1 - (1 - delta)^groups."""
        return 1 - (1 - self.delta) ** self.groups


def _within(what: str, value: Any, holds: bool, allowed: str) -> None:
    """Refuse what is not an exact rational in range, and terms of any length, which would cost time and memory."""
    if not isinstance(value, Fraction) or not holds or max(value.numerator, value.denominator) > _LARGEST_TERM:
        raise AmountRefused(what, value, f"a Fraction, {allowed}, with at most 40 digits above and below the line")


def key_selection(epsilon: Fraction, failure: int, groups: int) -> KeySelection:
    """Plan the selection that costs a loss and a failure probability, whole.

    epsilon / groups for each key, and the largest delta in units of 10^-36 with 1 - (1 - delta)^groups <= failure.

    Args:
        epsilon: > 0, the pure loss of all keys of a unit together [dimensionless].
        failure: > 0 and < 10^18 [10^-18].
        groups: keys that one unit may have, 1 to 4096.
    Returns:
        KeySelection: its failure, rounded up, is at most `failure`.
    Raises:
        AmountRefused: an amount out of range; no probability is left for a selection.
    """
    if type(groups) is not int or not 1 <= groups <= MOST_GROUPS:
        raise AmountRefused("groups", groups, f"an integer from 1 to {MOST_GROUPS}")
    if type(failure) is not int or not 1 <= failure < ATTO:
        raise AmountRefused(
            "failure", failure, "an int in 10^-18, > 0 and < 10^18: a selection without delta is none"
        )
    kept = Fraction(ATTO - failure, ATTO)
    low, high = 0, _STEP
    # The largest step that is allowed: (1 - step)^groups falls in it, and the comparison is of integers.
    while high - low > 1:
        middle = (low + high) // 2
        fits = kept.denominator * (_STEP - middle) ** groups >= kept.numerator * _STEP**groups
        low, high = (middle, high) if fits else (low, middle)
    return KeySelection(epsilon / groups, Fraction(low, _STEP), groups)


# --- failures of lists --------------------------------------------------------------------------------------------


def failure_of(event: object) -> Fraction:
    """Return the probability that an event fails, beside its loss; 0 for all that is no selection of keys."""
    return event.failure if isinstance(event, KeySelection) else Fraction(0)


def failures(events: Iterable[object]) -> int:
    """Add up the failure probabilities of events, each rounded up, so that parts cost together what the whole does.

    Args:
        events: the events; their order does not matter.
    Returns:
        int: the sum, which bounds the probability that any of them fails [10^-18].
    """
    return sum(math.ceil(failure_of(event) * ATTO) for event in events)


def entered_failures(events: Iterable[Mapping[str, Any]]) -> int:
    """Add up the failure probabilities of events as a journal's entry has them; as `failures`.

    Raises:
        AmountRefused: a parameter out of range.
        KeyError, TypeError, ValueError: a selection that cannot be read.
    """
    entered = [event for event in events if event["kind"] == KeySelection.kind]
    return failures(
        KeySelection(Fraction(event["epsilon"]), Fraction(event["delta"]), event["groups"]) for event in entered
    )
