"""Games on residuals of marginals: a row that comes, and a row that moves to the cell that is farthest away.

Each trial is one output: all noisy numbers of the residuals of a small release, weighed by the noise that is drawn.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.games.attackers import Pair, claimed, log_odds
from benchmarks.games.game import Game
from contracts.contract.contract import Adjacency
from privacy.accounting.events import DiscreteGaussian, gaussian_sigma_squared
from privacy.arrays import Floats
from privacy.grant.queries.query import IntegerNoise
from privacy.grant.queries.residuals import noisy_residuals
from privacy.grant.sampled_noise import SampledNoise
from privacy.marginals.residual_basis import Residual, residual_event, residual_moves, residual_of
from privacy.marginals.sensitivity import GaussianNoise
from privacy.noise.random_bytes import SecureBytes

TRIALS: Final = 40_000
DELTA: Final = 0.01
"""Where so many trials see most of what is claimed."""
NOISE: Final = GaussianNoise(Fraction(1, 2))
SIZES: Final = {"sex": 2, "job": 3}
TOGETHER: Final = tuple(
    Residual(columns, tuple(SIZES[name] for name in columns), multiplier)
    for columns, multiplier in (((), 9), (("sex",), 5), (("job",), 4), (("sex", "job"), 2))
)
ONE: Final = TOGETHER[-1:]
_OUTPUTS: Final = 1000


def counts_of(rows: NDArray[np.int64], residuals: tuple[Residual, ...]) -> tuple[NDArray[np.int64], ...]:
    """Return the marginals of a table of sex by job, one for each residual."""
    axes = [tuple(axis for axis, name in enumerate(SIZES) if name not in each.columns) for each in residuals]
    return tuple(np.asarray(rows.sum(axis=each)) for each in axes)


def exact(rows: NDArray[np.int64], residuals: tuple[Residual, ...]) -> NDArray[np.int64]:
    """Return all numbers of the residuals without noise."""
    paired = zip(counts_of(rows, residuals), residuals, strict=True)
    return np.concatenate([each.multiplier * residual_of(counts).reshape(-1) for counts, each in paired])


class _DrawnTogether(SampledNoise):
    """The same noise, drawn for many outputs at once and handed out in order: one sampler's call costs as much."""

    _left: NDArray[np.int64] = np.empty(0, np.int64)

    def integers(self, size: int, *, event: IntegerNoise) -> NDArray[np.int64]:
        if self._left.size < size:
            self._left = super().integers(_OUTPUTS * size, event=event)
        drawn, self._left = self._left[:size], self._left[size:]
        return drawn


def played(
    there: bool, trials: int, *, tables: Pair, residuals: tuple[Residual, ...], event: DiscreteGaussian
) -> Floats:
    """Draw the residuals of one of two tables, as a grant does, and weigh all numbers."""
    noise = _DrawnTogether(SecureBytes())
    counts = counts_of(tables[there], residuals)
    drawn = [noisy_residuals(counts, residuals, event=event, noise=noise) for _ in range(trials)]
    pair = exact(tables[0], residuals), exact(tables[1], residuals)
    return log_odds(np.stack(drawn), pair, event)


def _game(
    name: str,
    threat: str,
    tables: Pair,
    residuals: tuple[Residual, ...],
    adjacency: Adjacency,
    twin: tuple[tuple[int, ...], str],
) -> Game:
    event = residual_event(residuals, NOISE, adjacency=adjacency, rows_per_unit=1)
    moves, broken = twin
    quieter = DiscreteGaussian(gaussian_sigma_squared(NOISE.rho, moves), event.moves)
    play = partial(played, tables=tables, residuals=residuals)
    seen = f"{threat}; all noisy numbers are seen"
    epsilon = claimed([event], DELTA)
    return Game(name, seen, epsilon, DELTA, TRIALS, partial(play, event=event), partial(play, event=quieter), broken)


def together() -> Game:
    """A row more in four residuals; the twin has the sensitivity of one of them."""
    rows = np.array([[5, 2, 3], [1, 4, 2]])
    more = rows + np.array([[1, 0, 0], [0, 0, 0]])
    twin = (residual_moves(ONE, "add_remove", 1), "the sensitivity of one residual of four")
    return _game("residuals, add_remove", "one row more", (rows, more), TOGETHER, "add_remove", twin)


def replaced() -> Game:
    """A row goes to the cell that differs in the smaller column alone; the twin counts a row that comes or goes."""
    rows = np.array([[5, 2, 3], [1, 4, 2]])
    other = rows + np.array([[-1, 0, 0], [1, 0, 0]])
    twin = (residual_moves(ONE, "add_remove", 1), "the sensitivity of add_remove")
    return _game("residuals, replace_one", "one row moves", (rows, other), ONE, "replace_one", twin)


GAMES: Final = {"residuals": together, "residuals_replace_one": replaced}
