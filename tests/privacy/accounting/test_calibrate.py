"""Calibration: the noise never costs more than the loss it was calibrated to."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privacy.accounting.amounts import ATTO, PICO, AmountRefused
from privacy.accounting.calibrate import gaussian_sigma_squared, laplace_inverse_scale
from privacy.accounting.events import DiscreteLaplace
from privacy.accounting.renyi import pure_loss

losses = st.fractions(min_value=Fraction(1, 10**6), max_value=1000)
moves = st.lists(st.integers(min_value=-20, max_value=20).filter(bool), min_size=1, max_size=4).map(tuple)


@settings(deadline=None)
@given(losses, moves)
def test_laplace_noise_costs_at_most_epsilon_and_nearly_all_of_it(epsilon: Fraction, change: tuple[int, ...]) -> None:
    """The inverse scale is rounded down, by less than 10^-18."""
    inverse_scale = laplace_inverse_scale(epsilon, change)
    reach = sum(map(abs, change))
    loss = pure_loss(DiscreteLaplace(inverse_scale, change))
    assert loss is not None
    assert 0 <= epsilon - loss < Fraction(reach, ATTO)


@settings(deadline=None)
@given(losses, moves)
def test_gaussian_noise_costs_at_most_rho_and_nearly_all_of_it(rho: Fraction, change: tuple[int, ...]) -> None:
    """sigma^2 is rounded up, by less than 10^-12."""
    sigma_squared = gaussian_sigma_squared(rho, change)
    squares = sum(move * move for move in change)
    assert squares / (2 * sigma_squared) <= rho
    assert squares / (2 * (sigma_squared - Fraction(1, PICO))) > rho


def test_the_sensitivities_are_those_of_the_adjacencies() -> None:
    """k rows: L1 k and 2k, L2 k and sqrt(2) k."""
    assert laplace_inverse_scale(Fraction(1), (3,)) == Fraction(ATTO // 3, ATTO)
    assert laplace_inverse_scale(Fraction(1), (2, 2)) == Fraction(1, 4)
    assert gaussian_sigma_squared(Fraction(1, 2), (3,)) == 9
    assert gaussian_sigma_squared(Fraction(1, 2), (3, 3)) == 18


@pytest.mark.parametrize("loss", [Fraction(0), Fraction(-1), float("nan"), float("inf"), True])
@pytest.mark.parametrize("calibrate", [laplace_inverse_scale, gaussian_sigma_squared])
def test_a_loss_that_is_none_is_refused(calibrate: Any, loss: Any) -> None:
    """No noise is calibrated to nothing."""
    with pytest.raises(AmountRefused):
        calibrate(loss, (1,))


@pytest.mark.parametrize("change", [(), (0,)])
@pytest.mark.parametrize("calibrate", [laplace_inverse_scale, gaussian_sigma_squared])
def test_moves_that_move_nothing_are_refused(calibrate: Any, change: Any) -> None:
    """A sensitivity of zero would mean no noise at all."""
    with pytest.raises(AmountRefused, match="moves"):
        calibrate(Fraction(1), change)


def test_a_loss_too_small_for_its_moves_is_refused() -> None:
    """An inverse scale that rounds to zero is no noise that exists."""
    with pytest.raises(AmountRefused, match="1e-18"):
        laplace_inverse_scale(Fraction(1, 10**12), (10**9,))
