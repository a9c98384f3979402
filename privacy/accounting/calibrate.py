"""Calibration: how much noise a loss buys, rounded so that there is never less of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from privacy.accounting.amounts import ATTO, PICO, AmountRefused, exact


def laplace_inverse_scale(epsilon: Fraction, moves: Sequence[int]) -> Fraction:
    """Calibrate discrete Laplace noise to a pure loss.

    Formula: inverse_scale = epsilon / sum(|moves|)

    Args:
        epsilon: the loss of the draw, > 0 [dimensionless].
        moves: the change of the worst neighbour, cell by cell [units].
    Returns:
        Fraction: a multiple of 10^-18, rounded down: more noise [1 / unit].
    Raises:
        AmountRefused: an amount out of range, or so small that the inverse scale rounds to zero.
    Privacy: `DiscreteLaplace(inverse_scale, moves)` costs at most epsilon.
    """
    budget = exact(epsilon, what="epsilon")
    inverse_scale = Fraction(math.floor(budget * ATTO / _positive(sum(abs(move) for move in moves))), ATTO)
    if inverse_scale <= 0:
        raise AmountRefused("epsilon", epsilon, "at least 1e-18 a unit of sensitivity")
    return inverse_scale


def gaussian_sigma_squared(rho: Fraction, moves: Sequence[int]) -> Fraction:
    """Calibrate discrete Gaussian noise to a zero-concentrated loss.

    Formula: sigma_squared = sum(moves^2) / (2 * rho)

    Args:
        rho: the loss of the draw, > 0 [dimensionless].
        moves: the change of the worst neighbour, cell by cell [units].
    Returns:
        Fraction: a multiple of 10^-12, rounded up: more noise [units squared].
    Raises:
        AmountRefused: an amount out of range.
    Privacy: `DiscreteGaussian(sigma_squared, moves)` costs at most rho.
    """
    budget = exact(rho, what="rho")
    return Fraction(math.ceil(PICO * _positive(sum(move * move for move in moves)) / (2 * budget)), PICO)


def _positive(sensitivity: int) -> int:
    """Refuse moves that move nothing."""
    if sensitivity < 1:
        raise AmountRefused("moves", sensitivity, "at least one cell that changes")
    return sensitivity
