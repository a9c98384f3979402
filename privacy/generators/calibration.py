"""The least noise with which a fixed plan keeps its claim and still fits the accounts that pay. Reads no data.

A generator or trainer plans for an epsilon, counting Rényi losses at their best order. That epsilon is turned here,
and nothing else of its plan, until

    CLAIM   what the release claims, which may rest on a loss distribution, is at most the charge's epsilon
    ROOM    what each account is charged, the Rényi (or pure) loss of the same events, is at most what it has left

The first alone allows less noise than Rényi losses would: the epsilon that is planned for is then above the charge's.
The second may ask for more, up to what Rényi losses at the charge's own epsilon need; and beyond only where an
account could hold a release of this (epsilon, delta) by its own rule, such as one whose cap is exactly that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context
from fractions import Fraction
from typing import Final

from privacy.accounting.amounts import PICO, AmountRefused
from privacy.accounting.calculus import Calculus
from privacy.accounting.claim import Claim, release_claim
from privacy.accounting.event import UnsupportedEvent
from privacy.accounting.events import PrivacyEvent
from privacy.generators.generator import CannotGenerate, GeneratorPlan

_FINEST: Final = 10**9
"""Epsilons that are planned for are multiples of 10^-9."""
_DIGITS: Final = Context(prec=7, rounding=ROUND_FLOOR)
"""They have seven digits: losses whose last bits differ between machines lead to the same plan, nearly always."""
_CLOSE: Final = 3e-4
_TURNS: Final = 12


@dataclass(frozen=True)
class MultiplierRange:
    """What an account that pays has left.

    Args:
        calculus: the account's.
        remaining: what it has left [10^-12 of the calculus' loss].
    """

    calculus: Calculus
    remaining: int

    def share(self, events: Sequence[PrivacyEvent]) -> float:
        """Say which share of what it has left events take; 0 of a kind that it cannot hold, refused elsewhere."""
        try:
            cost = self.calculus.cost(events)
        except UnsupportedEvent:
            return 0.0
        except AmountRefused:
            return math.inf
        return 1.0 if cost == self.remaining else cost / self.remaining if self.remaining else math.inf

    def holds(self, events: Sequence[PrivacyEvent]) -> bool:
        """Say whether it holds these events."""
        return self.share(events) <= 1

    def owes(self, epsilon: int, delta: int) -> bool:
        """Say whether by its own rule a release of (epsilon, delta) fits into what it has left."""
        try:
            return self.calculus.cap(epsilon, delta) <= self.remaining
        except AmountRefused:
            return False


@dataclass(frozen=True)
class Calibrated:
    """A plan with its claim.

    Args:
        plan: the plan.
        noise_epsilon: what it was planned for [dimensionless].
        claim: what the release may claim.
    """

    plan: GeneratorPlan
    noise_epsilon: Fraction
    claim: Claim


def calibrated(
    plan: Callable[[Fraction], GeneratorPlan], *, epsilon: Fraction, delta: int, rooms: Sequence[MultiplierRange]
) -> Calibrated:
    """Find the largest epsilon to plan for with which claim and accounts hold; the same every time.

    Args:
        plan: plans for an epsilon; more of it is less noise, or the same.
        epsilon: the charge's [dimensionless].
        delta: the charge's [10^-18].
        rooms: of the accounts that pay; empty where none is known.
    Returns:
        Calibrated: for the charge's own epsilon where nothing better fits; the ledger then says what is missing.
    Raises:
        CannotGenerate: the plan cannot be made for the charge's epsilon.
    Privacy: (epsilon, delta)-DP by `release_claim`. What the accounts have left is public: sums of published events.
    """
    search = _MultiplierSearch(plan, epsilon, delta, tuple(rooms))
    plain = search.plan_at(epsilon)
    # A plan that claims too much at the charge's own epsilon is the caller's to refuse.
    if search.claimed(plain) > 1:
        return search.done(plain)
    # Less noise is possible only where the claim rests on a loss distribution.
    best = search.turned(plain, search.claimed) if release_claim(plain.events, delta).by == "pld" else plain
    if search.taken(best) <= 1:
        return search.done(best)
    # Where the plain plan fits the accounts, one between both just fits.
    if search.taken(plain) <= 1:
        return search.done(search.turned(plain, search.taken, above=best))
    # An account that would not hold such a release by its own rule gets the plan as it is, and refuses it.
    over = [room for room in rooms if not room.holds(plain.events)]
    if not all(room.owes(math.floor(epsilon * PICO), delta) for room in over):
        return search.done(plain)
    # More noise than the charge's epsilon needs, until the accounts hold it; then as little more as they need.
    below = search.below(plain)
    return search.done(plain if below is None else search.turned(below, search.taken, above=plain))


@dataclass(frozen=True)
class _Turned:
    """A plan, and the epsilon that it was made for."""

    plan: GeneratorPlan
    noise_epsilon: Fraction

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        """Its events."""
        return self.plan.events


@dataclass(frozen=True)
class _MultiplierSearch:
    plan: Callable[[Fraction], GeneratorPlan]
    epsilon: Fraction
    delta: int
    rooms: tuple[MultiplierRange, ...]

    def plan_at(self, noise_epsilon: Fraction) -> _Turned:
        """Plan for an epsilon."""
        return _Turned(self.plan(noise_epsilon), noise_epsilon)

    def done(self, found: _Turned) -> Calibrated:
        """Return a plan with its claim."""
        return Calibrated(found.plan, found.noise_epsilon, release_claim(found.events, self.delta))

    def claimed(self, found: _Turned) -> float:
        """Say which share of the charge's epsilon is claimed, not below 1 where it is more."""
        claim = release_claim(found.events, self.delta).epsilon
        share = float(Fraction(claim, PICO) / self.epsilon)
        # Above 1 as a float too, where the exact claim is above the charge.
        return share if claim <= self.epsilon * PICO else max(share, math.nextafter(1.0, 2.0))

    def taken(self, found: _Turned) -> float:
        """Say which share an account's room is taken, of the account that has least."""
        return max((room.share(found.events) for room in self.rooms), default=0.0)

    def turned(self, low: _Turned, share: Callable[[_Turned], float], above: _Turned | None = None) -> _Turned:
        """Turn up the epsilon that is planned for until a share is nearly 1 and never more, from where it is less.

        Shares grow as a power of it, nearly: its exponent is taken from the two ends, and 1 before there are two.
        """
        high, share_low, share_high = above, share(low), None if above is None else share(above)
        for turn in range(_TURNS):
            if share_low >= 1 - _CLOSE or (
                high and high.noise_epsilon <= low.noise_epsilon * Fraction(1 + _CLOSE / 2)
            ):
                break
            wanted = _between(low, high, share_low, share_high)
            if high is not None and turn % 2:
                wanted = float(low.noise_epsilon + high.noise_epsilon) / 2  # a share that leaps is closed in on
            try:
                tried = self.plan_at(_rounded_down(wanted))
            except CannotGenerate:
                break
            if tried.events == low.events:
                break  # the noise does not depend on the charge, or not so finely
            found = share(tried)
            if found <= 1:
                low, share_low = tried, found
            else:
                high, share_high = tried, found
        return low

    def below(self, plain: _Turned) -> _Turned | None:
        """Take more noise than the charge's epsilon needs, until the accounts hold it."""
        tried = plain
        for _ in range(_TURNS):
            # Losses grow about as epsilon squared: so much less should fit, and 2 % of it more is taken off.
            lost = max(_CLOSE, 1 - self.taken(tried) ** -0.5) if self.taken(tried) < math.inf else 0.5
            try:
                tried = self.plan_at(_rounded_down(float(tried.noise_epsilon) * (1 - 1.02 * min(lost, 0.9))))
            except CannotGenerate:
                return None
            if self.taken(tried) <= 1:
                return tried
        return None


def _between(low: _Turned, high: _Turned | None, share_low: float, share_high: float | None) -> float:
    """Say where the share should be just below 1, between the two ends where there are two."""
    start, aim = float(low.noise_epsilon), 1 - _CLOSE / 3
    if high is None or share_high is None:
        return start * aim / share_low
    end = float(high.noise_epsilon)
    if share_high == math.inf:
        return (start + end) / 2
    exponent = math.log(share_high / share_low) / math.log(end / start)
    # A power law through both ends.
    wanted = start * (aim / share_low) ** (1 / exponent)
    return wanted if start < wanted < end else (start + end) / 2


def _rounded_down(epsilon: float) -> Fraction:
    """Round down to a multiple of 10^-9 with seven digits."""
    return Fraction(int(_DIGITS.create_decimal(math.floor(epsilon * _FINEST))), _FINEST)
