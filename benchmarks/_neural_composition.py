"""Figure 5 of the paper: how tightly the parts of P3GM compose, over noise multipliers of the training.

    zCDP + moments accountant   each part by itself at delta / 2, the epsilons added: rho + 2 sqrt(rho ln(1/delta))
                                for the sums, the least loss + ln(1/delta) / (order - 1) for the training
    RDP                         Rényi losses of all parts added, the tight conversion: what a charge is made of
    PLD                         loss distributions of all parts composed: what the record says beside it

The parts are those of a release of 60,000 rows: seven Gaussian sums (centre, axes, five rounds of expectation and
maximisation), and 2,000 steps of DP-SGD with a batch of 600. Noise on a lattice is taken as the continuous Gaussian
of the same ratio, for which a dominating pair is proven.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

from benchmarks._neural_fit import DELTA
from benchmarks._plots import Line, lines
from benchmarks.results import FOLDER, Row, Setting, machine
from privacy.accounting.claim import pld_epsilon
from privacy.accounting.events import Gaussian, PoissonSampledGaussian, PrivacyEvent
from privacy.accounting.renyi import LARGEST_ORDER, SMALLEST_ORDER, best_epsilon, renyi

SUMS: Final = 7
SUM: Final = Gaussian(Fraction(25))
SAMPLING: Final = Fraction(1, 100)
STEPS: Final = 2_000
MULTIPLIERS: Final = tuple(Fraction(twentieths, 20) for twentieths in (20, 24, 28, 32, 36, 44, 50, 60, 80))
RELEASED: Final = Fraction(44, 20)
"""Near epsilon 1."""
FIGURE: Final = FOLDER / "neural" / "composition.svg"


def composition() -> list[Row]:
    """Draw the figure, and return the smallest ratio and what loss distributions save."""
    found = {multiplier: _epsilons(multiplier) for multiplier in MULTIPLIERS}
    drawn = [
        Line(name, [(float(multiplier), each[name]) for multiplier, each in found.items()])
        for name in found[RELEASED]
    ]
    lines(FIGURE, f"P3GM's parts composed, delta {float(DELTA):g}", "noise multiplier", "epsilon", drawn)
    settings: dict[str, Setting] = {
        **machine("dp-accounting"),
        "figure": FIGURE.name,
        "sums": f"{SUMS} x {SUM}",
        "training": f"{STEPS} steps at sampling probability {SAMPLING}",
        "delta": str(DELTA),
        "epsilons": {str(float(multiplier)): dict(each) for multiplier, each in found.items()},
    }
    apart, together, tightest = ("zCDP + moments accountant", "RDP", "PLD")
    ratio = min(each[apart] / each[together] for each in found.values())
    saved = min(each[together] / each[tightest] for each in found.values())
    at = found[RELEASED]
    return [
        Row(
            "composition: zCDP + moments accountant / RDP, smallest ratio of all noise multipliers",
            round(ratio, 4),
            "ratio",
            target="> 1",
            holds=ratio > 1,
            paper="> 1",
            settings=settings,
        ),
        Row(
            "composition: RDP / PLD, smallest ratio of all noise multipliers",
            round(saved, 4),
            "ratio",
            target="> 1",
            holds=saved > 1,
            settings=settings,
        ),
        Row(
            f"composition: epsilon saved by PLD at noise multiplier {float(RELEASED):g}",
            round(at[together] - at[tightest], 4),
            f"of {at[together]:.4f}",
            settings=settings,
        ),
    ]


def _epsilons(multiplier: Fraction) -> dict[str, float]:
    """Compose by all three."""
    training = PoissonSampledGaussian(multiplier, SAMPLING, STEPS)
    events: list[PrivacyEvent] = [*[SUM] * SUMS, training]
    half = math.log(2 / float(DELTA))
    rho = SUMS / (2 * float(SUM.noise_multiplier) ** 2)
    apart = rho + 2 * math.sqrt(rho * half) + _moments(training, half)
    tightest = pld_epsilon(events, DELTA)
    if tightest is None:
        raise SystemExit("composition: no loss distribution of these events")
    return {"zCDP + moments accountant": apart, "RDP": best_epsilon(events, DELTA)[0], "PLD": tightest}


def _moments(training: PrivacyEvent, log_of_delta: float) -> float:
    """Convert as Abadi et al. 2016, theorem 2.2, with the best real order."""
    low, high = math.log(float(SMALLEST_ORDER) - 1), math.log(min(float(LARGEST_ORDER) - 1, 1000.0))
    orders = [1 + math.exp(low + (high - low) * step / 400) for step in range(401)]
    return min(renyi(training, order) + log_of_delta / (order - 1) for order in orders)
