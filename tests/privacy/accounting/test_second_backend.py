"""The second accountant: agrees with exact profiles, bounds from above, stays below Rényi, else says None."""

import math
import subprocess
import sys
from fractions import Fraction

import dp_accounting
import pytest
from dp_accounting.rdp import RdpAccountant

from privacy.accounting.amounts import AmountRefused
from privacy.accounting.claim import pld_epsilon
from privacy.accounting.events import (
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    Gaussian,
    PoissonSampledGaussian,
    PrivacyEvent,
    Pure,
    ZeroConcentrated,
)
from privacy.accounting.renyi import best_epsilon, renyi
from tests.privacy.accounting.test_convert import gaussian_delta, responses_delta

TENTH, THIRD = Fraction(1, 10), Fraction(1, 3)


@pytest.mark.parametrize("count", [1, 9, 100])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9])
def test_discrete_laplace_agrees_with_the_exact_profile(count: int, delta: float):
    """At moves of one the composed profile is a binomial sum: PLD covers it and is within 0.1 % of it."""
    for event in (DiscreteLaplace(TENTH, (1,)), DiscreteLaplace(TENTH, (-1,)), Pure(TENTH)):
        epsilon = pld_epsilon([event] * count, delta)
        assert epsilon is not None
        assert responses_delta(0.1, count, epsilon) <= delta * (1 + 1e-6)
        assert epsilon <= 1e-9 or responses_delta(0.1, count, epsilon * 0.999) > delta


def test_a_replacement_moves_two_cells_and_costs_two_steps():
    """moves (1, 1) is the product of two cells' pairs."""
    two_cells = pld_epsilon([DiscreteLaplace(THIRD, (1, 1))] * 5, 1e-6)
    assert two_cells == pld_epsilon([DiscreteLaplace(THIRD, (1,))] * 10, 1e-6)
    pair = pld_epsilon([DiscreteGaussian(Fraction(40), (1, 1))] * 5, 1e-6)
    assert pair == pld_epsilon([DiscreteGaussian(Fraction(40), (1,))] * 10, 1e-6)


@pytest.mark.parametrize("sigma_squared", [Fraction(4), Fraction(50), Fraction(10_000)])
@pytest.mark.parametrize("count", [1, 30])
def test_discrete_gaussian_agrees_with_the_continuous_one(sigma_squared: Fraction, count: int):
    """From sigma 2 on the discrete Gaussian's PLD is the continuous one's, within 1 %."""
    accountant = dp_accounting.pld.PLDAccountant()
    accountant.compose(dp_accounting.GaussianDpEvent(math.sqrt(sigma_squared)), count)
    epsilon = pld_epsilon([DiscreteGaussian(sigma_squared, (1,))] * count, 1e-6)
    assert epsilon == pytest.approx(accountant.get_epsilon(1e-6), rel=1e-2)


@pytest.mark.parametrize("sigma_squared", [Fraction(2), Fraction(50), Fraction(10_000)])
@pytest.mark.parametrize("count", [1, 30])
def test_our_gaussian_curve_is_the_librarys(sigma_squared: Fraction, count: int):
    """At each order dp_accounting's RDP accountant has our loss; its least epsilon is not below ours, nor far."""
    orders = [1.5, 2.0, 5.0, 12.0, 40.0, 200.0]
    accountant = RdpAccountant(orders)
    accountant.compose(dp_accounting.GaussianDpEvent(math.sqrt(sigma_squared)), count)
    events = [DiscreteGaussian(sigma_squared, (1,))] * count
    for order, theirs in zip(orders, accountant._rdp, strict=True):
        assert sum(renyi(event, order) for event in events) == pytest.approx(theirs, rel=1e-9)
    fine = RdpAccountant([1 + 10 ** (place / 40) for place in range(-80, 161)])
    fine.compose(dp_accounting.GaussianDpEvent(math.sqrt(sigma_squared)), count)
    ours, theirs = best_epsilon(events, 1e-6)[0], fine.get_epsilon(1e-6)
    assert ours <= theirs * (1 + 1e-9)
    assert ours >= theirs * 0.99


@pytest.mark.parametrize("noise_multiplier", [Fraction(1, 2), Fraction(2), Fraction(10**5)])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9])
def test_continuous_noise_agrees_with_the_exact_profile(noise_multiplier: Fraction, delta: float):
    """Four Gaussians are one of half the multiplier, whose delta has a closed form: covered, and within 0.1 %."""
    events = [Gaussian(noise_multiplier)] * 4
    epsilon = pld_epsilon(events, delta)
    assert epsilon is not None
    assert gaussian_delta(float(noise_multiplier) / 2, epsilon) <= delta * (1 + 1e-6)
    assert epsilon <= 1e-6 or gaussian_delta(float(noise_multiplier) / 2, epsilon * 0.999) > delta
    assert pld_epsilon([PoissonSampledGaussian(noise_multiplier, Fraction(1), 4)], delta) == pytest.approx(
        epsilon, rel=1e-3, abs=1e-6
    )


@pytest.mark.long
@pytest.mark.parametrize(("noise_multiplier", "chance"), [(Fraction(1), Fraction(1, 100)), (Fraction(3), TENTH)])
def test_sampled_noise_agrees_with_the_librarys_accountant(noise_multiplier: Fraction, chance: Fraction):
    """dp_accounting's PLDAccountant for the same steps, on its own grid: within 1 %."""
    accountant = dp_accounting.pld.PLDAccountant()
    gaussian = dp_accounting.GaussianDpEvent(float(noise_multiplier))
    accountant.compose(dp_accounting.PoissonSampledDpEvent(float(chance), gaussian), 500)
    epsilon = pld_epsilon([PoissonSampledGaussian(noise_multiplier, chance, 250)] * 2, 1e-6)
    assert epsilon == pytest.approx(accountant.get_epsilon(1e-6), rel=1e-2)


def test_a_choice_is_bounded_as_the_worst_pure_step():
    """The loss distribution knows only that it is pure."""
    assert pld_epsilon([ExponentialMechanism(THIRD)] * 9, 1e-6) == pld_epsilon([Pure(THIRD)] * 9, 1e-6)


@pytest.mark.parametrize(
    "events",
    [
        [Gaussian(Fraction(7))] * 5,
        [PoissonSampledGaussian(Fraction(1), Fraction(1, 100), 100)] * 3,
        [PoissonSampledGaussian(Fraction(1, 2), Fraction(1, 100), 10)],
        [Pure(THIRD), DiscreteGaussian(Fraction(50), (1,)), PoissonSampledGaussian(Fraction(2), TENTH, 50)],
        [DiscreteLaplace(TENTH, (1,))] * 50,
        [DiscreteGaussian(Fraction(50), (1,))] * 20,
        [DiscreteLaplace(THIRD, (1, 1)), DiscreteGaussian(Fraction(30), (1, 1)), Pure(THIRD)] * 3,
    ],
)
def test_pld_is_below_renyi(events: list[PrivacyEvent]):
    """A tight accountant claims no more than the best Rényi order; twice as much would be a wrong event."""
    epsilon, (bound, _) = pld_epsilon(events, 1e-6), best_epsilon(events, 1e-6)
    assert epsilon is not None
    assert bound / 2 < epsilon <= bound * (1 + 1e-6)


@pytest.mark.parametrize(
    "event",
    [
        DiscreteLaplace(TENTH, (2,)),
        DiscreteLaplace(TENTH, (1, 2)),
        DiscreteGaussian(Fraction(9), (3,)),
        DiscreteGaussian(Fraction(10**9), (1,)),
        ZeroConcentrated(TENTH),
    ],
)
def test_where_no_dominating_pair_is_proven_it_says_none(event: PrivacyEvent):
    """Moves above one, zCDP budgets, and Gaussians too wide to tabulate have no second figure."""
    assert pld_epsilon([event], 1e-6) is None
    assert pld_epsilon([Pure(TENTH), event], 1e-6) is None


def test_a_delta_below_the_librarys_tails_has_no_figure():
    """1e-18 is below the mass that the library counts as lost."""
    assert pld_epsilon([Pure(THIRD), DiscreteGaussian(Fraction(30), (1,))], 1e-18) is None


def test_nothing_costs_nothing_and_delta_zero_is_refused():
    """An empty list is zero; PLD has no figure at delta zero."""
    assert pld_epsilon([], 1e-6) == 0
    with pytest.raises(AmountRefused):
        pld_epsilon([Pure(THIRD)], 0)


@pytest.mark.services
def test_importing_the_accountant_is_light():
    """Nobody who only reads a balance waits for numpy, scipy or dp_accounting."""
    modules = ["amounts", "events", "renyi", "claim", "calculus"]
    imports = "; ".join(f"import privacy.accounting.{module}" for module in modules)
    heavy = "[name for name in ('numpy', 'scipy', 'dp_accounting', 'pydantic') if name in sys.modules]"
    script = f"import sys; {imports}; import tasks.verification.recompute.loss; print({heavy})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
