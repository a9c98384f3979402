"""How AIM spends its budget, round by round, in shares of it.

A share of a zCDP budget is 1/(2σ²) for a measurement and ε²/8 for a choice: where the paper doubles ε and halves σ,
both shares become four times as large. A share of a pure budget is the ε of the draw, which doubles.

Deviations from the paper: none under add_remove. Under replace_one a share of a measurement is 1/σ² (DESIGN.md): the
shares are the same, the noise is √2 larger.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from privacy.accounting.adaptive import Budget
from privacy.accounting.events import ZeroConcentrated
from privacy.generators.spending import down


@dataclass(frozen=True)
class SigmaSchedule:
    """What the next round takes.

    Where: T = rounds, α = measured_share, ρ = the whole budget.

    Args:
        measurement: share of a measurement, αρ/T at first.
        choice: share of a choice, (1 - α)ρ/T at first.
        growth: how much larger both get at a time.
        measured_share: α.
        last: whether the next round is the last.
    """

    measurement: Fraction
    choice: Fraction
    growth: int
    measured_share: Fraction
    last: bool = False

    @classmethod
    def first(cls, budget: Budget, total: Fraction, rounds: int, measured_share: Fraction) -> SigmaSchedule:
        """Return the first round's (algorithm 2, lines 1 and 2)."""
        # Half the σ and twice the ε cost four times the zCDP, and twice the pure loss.
        growth = 4 if isinstance(budget, ZeroConcentrated) else 2
        measurement = down(measured_share * total / rounds)
        return cls(measurement, down((1 - measured_share) * total / rounds), growth, measured_share)

    def annealed(self, improved: bool) -> SigmaSchedule:
        """Return the next round's: larger, if the last measurement changed the model by less than its noise.

        Source: algorithm 4, lines 1 to 4.
        """
        if improved:
            return self
        return replace(self, measurement=self.growth * self.measurement, choice=self.growth * self.choice)

    def within(self, left: Fraction) -> SigmaSchedule:
        """Return the round that takes all that is left, if less than two rounds would fit.

        Source: algorithm 4, lines 5 to 7.
        """
        if left > 2 * (self.measurement + self.choice):
            return self
        # The last round takes all that is left, split as every round is.
        choice = down((1 - self.measured_share) * left)
        return replace(self, measurement=left - choice, choice=choice, last=True)
