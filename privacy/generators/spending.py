"""What a fit may spend, and what a part of it buys: all in exact rationals, rounded against the spender.

A budget is rho of zCDP where delta > 0, and a pure epsilon where delta = 0. A part of it, called a share here, buys

    budget              Gaussian noise      Laplace noise           a private choice
    rho                 rho = share         epsilon²/2 = share      epsilon²/8 = share
    epsilon (pure)      -                   epsilon = share         epsilon = share
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import floor, isqrt
from typing import Final

from privacy.accounting.adaptive import Budget, limit, share
from privacy.accounting.amounts import PICO, AmountRefused
from privacy.accounting.convert import rho_for
from privacy.accounting.events import CountNoise, ExponentialMechanism, PrivacyEvent, Pure, ZeroConcentrated
from privacy.generators.generator import CannotGenerate, SynthesisTask
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise, Noise, noise_event
from privacy.table_plans.split import NoiseKind, root

TOO_SMALL: Final = "the charge is too small"
_FINEST: Final = 10**9
_UNITS: Final = 10**15
"""Shares and epsilons are whole multiples of 10^-15, those of a pure budget of 10^-12 (`Spending.split`)."""


class Spending:
    """A budget with what has been spent of it.

    Args:
        asked: epsilon, delta and the relation between neighbours.
        noise: kind of noise; None for gaussian unless delta is 0.
    Raises:
        CannotGenerate: Gaussian noise with delta 0, or an epsilon too small for any noise.
    """

    def __init__(self, task: SynthesisTask, noise: NoiseKind | None) -> None:
        if noise == "gaussian" and task.delta == 0:
            raise CannotGenerate(
                "noise: gaussian needs a delta above 0, and delta is 0; "
                "do: use noise: laplace, or give the charge a delta"
            )
        self.noise: NoiseKind = noise or ("gaussian" if task.delta > 0 else "laplace")
        self._asked = task
        try:
            self.budget: Budget = (
                ZeroConcentrated(rho_for(task.epsilon, task.delta))
                if task.delta > 0
                else Pure(down(task.epsilon, PICO))
            )
        except AmountRefused as refused:
            raise too_small(refused) from refused
        self.spent = Fraction(0)

    @property
    def total(self) -> Fraction:
        """The whole budget."""
        return limit(self.budget)

    @property
    def left(self) -> Fraction:
        """What has not been spent."""
        return self.total - self.spent

    def take(self, event: PrivacyEvent) -> None:
        """Count a draw as spent."""
        self.spent += share(self.budget, event)

    def buys(self, part: Fraction) -> Noise:
        """Return the noise of a measurement that takes a share of the budget."""
        if self.noise == "gaussian":
            return GaussianNoise(part)
        return LaplaceNoise(_root(2 * part) if isinstance(self.budget, ZeroConcentrated) else part)

    def event(self, part: Fraction) -> CountNoise:
        """Return the event of such a measurement.

        Raises:
            CannotGenerate: the share is too small for any noise.
        """
        try:
            asked = self._asked
            return noise_event(self.buys(part), adjacency=asked.adjacency, rows_per_unit=asked.rows_per_unit)
        except AmountRefused as refused:
            raise too_small(refused) from refused

    def chooses(self, part: Fraction) -> Fraction:
        """Return the epsilon of a private choice that takes a share of the budget."""
        return _root(8 * part) if isinstance(self.budget, ZeroConcentrated) else down(part)

    def choice(self, part: Fraction) -> ExponentialMechanism:
        """Return the event of such a choice.

        Raises:
            CannotGenerate: the share is too small for any choice.
        """
        try:
            return ExponentialMechanism(self.chooses(part))
        except AmountRefused as refused:
            raise too_small(refused) from refused

    def split(self, total: Fraction, weights: Sequence[Fraction | int]) -> tuple[Fraction, ...]:
        """Split (a part of) the budget in proportion to weights.

        Parts of a pure budget are whole units of the ledger, which rounds each draw's loss up by itself: together
        the draws cost what the budget does, and no unit more.
        """
        return split(total, weights, units=self._units)

    def down(self, amount: Fraction) -> Fraction:
        """Round a part of the budget down to whole units: of a pure budget those of the ledger."""
        return down(amount, self._units)

    @property
    def _units(self) -> int:
        return PICO if isinstance(self.budget, Pure) else _UNITS

    def of_choice(self, epsilon: Fraction) -> Fraction:
        """Return the share that a private choice of an epsilon takes."""
        return epsilon * epsilon / 8 if isinstance(self.budget, ZeroConcentrated) else epsilon

    def optimal(self, sizes: Sequence[Fraction], part: Fraction | None = None) -> tuple[Fraction, ...]:
        """Split the budget over measurements so that the sum of size · deviation is least.

        Formula: a deviation falls as share^-1/2, or as share^-1 for a pure budget; by Lagrange the shares are in
        proportion to size^(2/3), or to size^(1/2)

        Args:
            sizes: weight times cells of each measurement, > 0.
            part: of the budget; all of it, when not given.
        """
        whole = self.total if part is None else part
        if isinstance(self.budget, ZeroConcentrated):
            return self.split(whole, [root(size * size, 3) for size in sizes])
        return self.split(whole, [root(size, 2) for size in sizes])


def epsilon_of_part(task: SynthesisTask, part: Fraction) -> Fraction:
    """Return the largest epsilon, in steps of 10^-9, whose budget is within a part of that of a charge.

    Args:
        task: the charge.
        part: of its budget, in (0, 1].
    Raises:
        AmountRefused: the charge is too small for any budget.
        CannotGenerate: the part is.
    """
    if task.delta == 0:
        return down(task.epsilon * part, PICO)
    return _within(rho_for(task.epsilon, task.delta) * part, task.epsilon, task.delta)


@lru_cache(maxsize=256)
def _within(most: Fraction, epsilon: Fraction, delta: Fraction) -> Fraction:
    # The budget of an epsilon rises with it: halving finds the largest one.
    low, high = 0, int(epsilon * _FINEST) + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _budget(Fraction(middle, _FINEST), delta) <= most else (low, middle)
    if low == 0:
        raise CannotGenerate(f"{TOO_SMALL} to be split over the draws; do: raise epsilon")
    return Fraction(low, _FINEST)


def _budget(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the budget of an epsilon; 0 of one that is too small for any."""
    try:
        return rho_for(epsilon, delta)
    except AmountRefused:
        return Fraction(0)


def too_small(refused: AmountRefused) -> CannotGenerate:
    """Return what is said when the charge is too small to be split."""
    return CannotGenerate(f"{TOO_SMALL} to be split over the draws: {refused}; do: raise epsilon")


def split(budget: Fraction, weights: Sequence[Fraction | int], *, units: int = _UNITS) -> tuple[Fraction, ...]:
    """Split a budget in proportion to weights, into multiples of 1 / units; the last part takes what rounding leaves.

    Args:
        budget: > 0.
        weights: > 0, at least one.
        units: in one.
    """
    total = sum(weights)
    parts = [down(budget * weight / total, units) for weight in weights[:-1]]
    return (*parts, budget - sum(parts))


def down(amount: Fraction, units: int = _UNITS) -> Fraction:
    """Round down to a multiple of 1 / units."""
    return Fraction(floor(amount * units), units)


def _root(square: Fraction) -> Fraction:
    """Return the square root, rounded down to a multiple of 10^-15."""
    return Fraction(isqrt(floor(square * _UNITS * _UNITS)), _UNITS)
