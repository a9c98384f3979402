"""The auditor's delta of Gaussian noise, against closed forms, a convolution and the library that calibrates."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

from privacy.accounting.claim import pld_epsilon
from privacy.accounting.events import (
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    Gaussian,
    PoissonSampledGaussian,
    PrivacyEvent,
    ZeroConcentrated,
)
from tasks.verification.recompute.event_forms import NotRecomputable
from tasks.verification.recompute.loss_inversion import delta_at

TENTH = Fraction(1, 10)


def inverted(events: list[PrivacyEvent], epsilon: Fraction) -> float | None:
    return delta_at([event.to_json() for event in events], epsilon)


@pytest.mark.parametrize(
    ("multiplier", "epsilon"), [("1", "1"), ("5", "1/2"), ("10", "1/10"), ("3/10", "20"), ("100", "1/20")]
)
def test_gaussian_noise_has_its_closed_profile(multiplier: str, epsilon: str) -> None:
    """delta = Phi(mu/2 - e/mu) - exp(e) Phi(-mu/2 - e/mu), mu = 1 / multiplier (Balle, Wang 2018)."""
    mu, e = 1 / float(Fraction(multiplier)), float(Fraction(epsilon))
    exact = norm.cdf(mu / 2 - e / mu) - math.exp(e) * norm.cdf(-mu / 2 - e / mu)
    assert inverted([Gaussian(Fraction(multiplier))], Fraction(epsilon)) == pytest.approx(exact, rel=1e-9)


def test_one_sampled_step_has_the_integral_of_its_densities() -> None:
    """A second derivation: the positive part of p - e^epsilon q, summed over a fine grid, in both directions."""
    s, q, epsilon = 0.8, 0.2, 0.7
    x = np.arange(-12, 14, 1e-4)
    outside = norm.pdf(x, 0, s)
    inside = (1 - q) * outside + q * norm.pdf(x, 1, s)
    both = [
        float(np.maximum(one - math.exp(epsilon) * other, 0).sum() * 1e-4)
        for one, other in ((inside, outside), (outside, inside))
    ]
    event = PoissonSampledGaussian(Fraction(4, 5), Fraction(1, 5), 1)
    assert inverted([event], Fraction(7, 10)) == pytest.approx(max(both), rel=1e-6)


@pytest.mark.parametrize("steps", [200, 20_000])
@pytest.mark.parametrize(("multiplier", "chance"), [("2", "1/100"), ("3/5", "1/200"), ("40", "1/20")])
def test_the_librarys_epsilon_has_the_delta_that_it_was_asked_for(multiplier: str, chance: str, steps: int) -> None:
    """Its pessimistic grid and our inversion agree to 0.4 %; half the noise would be off by orders of magnitude."""
    events: list[PrivacyEvent] = [PoissonSampledGaussian(Fraction(multiplier), Fraction(chance), steps)]
    epsilon = pld_epsilon(events, 1e-6)
    assert epsilon is not None
    assert inverted(events, Fraction(epsilon)) == pytest.approx(1e-6, rel=4e-3)
    less: list[PrivacyEvent] = [PoissonSampledGaussian(Fraction(multiplier) / 2, Fraction(chance), steps)]
    wrong = inverted(less, Fraction(epsilon))
    assert wrong is not None
    assert wrong > 1e-5


def test_a_claim_that_is_a_thousandth_too_small_has_a_larger_delta() -> None:
    events: list[PrivacyEvent] = [PoissonSampledGaussian(Fraction(2), Fraction(1, 100), 2000), Gaussian(Fraction(8))]
    epsilon = pld_epsilon(events, 1e-9)
    assert epsilon is not None
    at, below = (inverted(events, Fraction(epsilon) * Fraction(each)) for each in ("1.0001", "0.999"))
    assert at is not None
    assert below is not None
    assert at < 1e-9 < below


def test_discrete_noise_counts_as_continuous_noise_of_a_variance_less_by_four() -> None:
    """However its change is spread; the discrete noise's own profile is never above that."""
    for moves in ((6,), (4, 4, 2), (1,) * 36):
        one = inverted([DiscreteGaussian(Fraction(904), moves)], Fraction(1))
        assert one == pytest.approx(inverted([Gaussian(Fraction(5))], Fraction(1)), rel=1e-9)


@pytest.mark.parametrize(("variance", "move"), [(8, 1), (8, 3), (20, 5), (60, 1), (100, 10)])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 3.0])
def test_no_discrete_noise_loses_more_than_that(variance: int, move: int, epsilon: float) -> None:
    """Exact sums over the support; continuous noise of the full variance would not do for all of them."""
    x = np.arange(-40 * variance, 40 * variance + 1, dtype=float)
    p = np.exp(-x * x / (2 * variance))
    q = np.exp(-((x - move) ** 2) / (2 * variance))
    exact = float(np.maximum(p - math.exp(epsilon) * q, 0).sum() / p.sum())
    bound = inverted([DiscreteGaussian(Fraction(variance), (move,))], Fraction(epsilon))
    assert bound is not None
    assert exact <= bound * (1 + 1e-9)


def test_the_four_is_needed() -> None:
    """At some epsilon discrete noise loses more than continuous noise of the same variance."""
    x, worse = np.arange(-400, 401, dtype=float), 0
    for epsilon in np.arange(0.05, 3, 0.05):
        p, q = np.exp(-x * x / 16), np.exp(-((x - 1) ** 2) / 16)
        exact = float(np.maximum(p - math.exp(epsilon) * q, 0).sum() / p.sum())
        mu = 1 / math.sqrt(8)
        same = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
        worse += exact > same
    assert worse > 0


@pytest.mark.parametrize(
    "event",
    [
        DiscreteLaplace(TENTH, (1,)),
        ZeroConcentrated(TENTH),
        ExponentialMechanism(TENTH),
        DiscreteGaussian(Fraction(4), (1,)),
    ],
)
def test_what_is_no_gaussian_noise_has_none(event: PrivacyEvent) -> None:
    assert inverted([event], Fraction(1)) is None
    assert inverted([Gaussian(Fraction(1)), event], Fraction(1)) is None
    assert inverted([], Fraction(1)) == 0


def test_an_event_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(NotRecomputable):
        delta_at([{"kind": "gaussian", "noise_multiplier": "-1"}], Fraction(1))


def test_next_to_no_noise_is_refused_and_is_no_small_delta() -> None:
    """Rounding made negative deltas of so large a loss, and those kept every claim."""
    for inverse in range(40, 400):
        event = {"kind": "gaussian", "noise_multiplier": f"1/{inverse}"}
        with pytest.raises(NotRecomputable, match="far above"):
            delta_at([event], Fraction(1))
    for inverse in range(8, 30):
        delta = delta_at([{"kind": "gaussian", "noise_multiplier": f"1/{inverse}"}], Fraction(1))
        assert delta is not None
        assert 0.99 < delta <= 1 + 1e-5
