"""Regressions from noisy marginals: those of the rows without noise; intervals that hold them with it."""

from __future__ import annotations

import numpy as np
import pytest

from privacy.inference.components import Components
from privacy.inference.least_squares import INTERCEPT, NoiseTooLarge, Term, least_squares, reach
from privacy.marginals.estimation import Measured
from privacy.marginals.graph import CellDomain

DOMAIN = CellDomain(("a", "b", "c"), (4, 3, 5))
NUMBER = 20_000
PAIRS = {("a", "b"): 40.0, ("a", "c"): 60.0, ("b", "c"): 50.0, ("a",): 10.0}
"""Standard deviation of the noise of each marginal."""


def made_up() -> np.ndarray:
    rng = np.random.default_rng(1)
    hidden = rng.normal(size=NUMBER)
    a = np.clip((hidden + rng.normal(size=NUMBER) + 2).astype(int), 0, 3)
    b = np.clip((hidden + 1.5).astype(int), 0, 2)
    c = np.clip((a + rng.normal(size=NUMBER) + b).astype(int), 0, 4)
    return np.stack([a, b, c], axis=1)


ROWS = made_up()


def exact(clique: tuple[str, ...]) -> np.ndarray:
    sizes = DOMAIN.sizes(clique)
    codes = np.ravel_multi_index([ROWS[:, DOMAIN.place(name)] for name in clique], sizes)
    return np.bincount(codes, minlength=int(np.prod(sizes))).reshape(sizes).astype(float)


def number(column: str) -> Term:
    return Term(column, column, np.arange(DOMAIN.sizes((column,))[0], dtype=float))


LABEL = Term("b[2]", "b", np.array([0.0, 0.0, 1.0]))
DESIGN = np.stack([np.ones(NUMBER), ROWS[:, 0], ROWS[:, 1] == 2], axis=1)
TRUTH = np.linalg.lstsq(DESIGN, ROWS[:, 2], rcond=None)[0]


def noisy(seed: int | None, scale: float = 1.0) -> Components:
    rng = np.random.default_rng(seed)
    measured = [
        Measured(
            clique,
            exact(clique) + (0 if seed is None else scale * rng.normal(0, deviation, DOMAIN.sizes(clique))),
            (scale * deviation) ** 2,
        )
        for clique, deviation in PAIRS.items()
    ]
    return Components(DOMAIN, measured, total=None, model=lambda clique: np.zeros(DOMAIN.sizes(clique)))


def test_without_noise_it_is_the_regression_of_the_rows() -> None:
    """Coefficients and classical variances, by numpy's least squares on the rows themselves."""
    found = least_squares(noisy(None), number("c"), [number("a"), LABEL])
    assert [each.name for each in found] == [INTERCEPT, "a", "b[2]"]
    np.testing.assert_allclose([each.estimate for each in found], TRUTH, rtol=1e-8)
    residual = ROWS[:, 2] - DESIGN @ TRUTH
    classical = residual @ residual / (NUMBER - 3) * np.diag(np.linalg.inv(DESIGN.T @ DESIGN))
    np.testing.assert_allclose([each.sampling_variance for each in found], classical, rtol=1e-8)
    assert all(each.unmeasured == () for each in found)


@pytest.mark.long
@pytest.mark.stat
def test_intervals_hold_the_rows_own_coefficients_at_their_level() -> None:
    """400 drawings by fixed seeds, so that nothing is left to chance: 95 % intervals of three coefficients. The share
    that holds has a standard error of 0.011; the wrong case, an interval from noise 30 % smaller, has 83 %."""
    held, short = np.zeros(3), np.zeros(3)
    for seed in range(400):
        found = least_squares(noisy(seed), number("c"), [number("a"), LABEL])
        error = np.abs(np.array([each.estimate for each in found]) - TRUTH)
        width = np.array(
            [
                np.subtract(*each.interval(reach(0.95, heavy_tailed=False), population=False)[::-1]) / 2
                for each in found
            ]
        )
        held, short = held + (error <= width), short + (error <= 0.7 * width)
    assert (held / 400 > 0.92).all()
    assert (held / 400 < 0.98).all()
    assert (short / 400 < 0.92).all()


def test_a_population_has_wider_intervals_by_the_classical_variance() -> None:
    (_, slope, _) = least_squares(noisy(3), number("c"), [number("a"), LABEL])
    table, population = (slope.standard_error(population=each) for each in (False, True))
    assert population**2 - table**2 == pytest.approx(slope.sampling_variance)


def test_terms_that_say_the_same_and_noise_that_drowns_them_are_refused() -> None:
    """No interval is honest where the noise may have made the difference between two terms."""
    twin = Term("again", "a", 2.0 * number("a").scores)
    with pytest.raises(NoiseTooLarge):
        least_squares(noisy(None), number("c"), [number("a"), twin])
    with pytest.raises(NoiseTooLarge):
        least_squares(noisy(1, scale=100.0), number("c"), [number("a"), LABEL])
    with pytest.raises(NoiseTooLarge):
        least_squares(noisy(1), number("c"), [Term("none", "a", np.zeros(4))])


def test_each_coefficient_names_what_it_rests_on() -> None:
    """With a × b unmeasured, a coefficient of b alone needs no such pair; with a beside it both do."""
    measured = [Measured(pair, exact(pair), 1.0) for pair in (("a", "c"), ("b", "c"))]
    given = Components(DOMAIN, measured, total=None, model=lambda clique: np.ones(DOMAIN.sizes(clique)))
    alone = least_squares(given, number("c"), [number("b")])
    assert [each.unmeasured for each in alone] == [(), ()]
    both = least_squares(given, number("c"), [number("a"), number("b")])
    assert {each.unmeasured for each in both} == {(("a", "b"),)}


@pytest.mark.parametrize("level", [0.9, 0.95, 0.99, 0.999])
@pytest.mark.parametrize("draws", [1, 2, 5, 40])
def test_intervals_of_laplace_noise_hold_as_often_as_they_say(level: float, draws: int) -> None:
    """Sums of a few equal Laplace draws: 400,000 with a fixed seed, four standard errors. Normal ones fall short."""
    noise = np.random.default_rng(1).laplace(size=(400_000, draws)).sum(axis=1) / np.sqrt(2 * draws)
    room = 4 * np.sqrt(level * (1 - level) / len(noise))
    assert (np.abs(noise) <= reach(level, heavy_tailed=True)).mean() > level - room
    if level > 0.95 and draws <= 2:
        assert (np.abs(noise) <= reach(level, heavy_tailed=False)).mean() < level - room
