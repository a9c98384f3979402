"""Games on noisy sums of bounded vectors over rows: principal axes and class moments.

The canary is a table's only row, so that a sum is its vector and noise, or noise alone; the attacker knows both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from benchmarks.games.attackers import Whole, claimed, halved, log_odds
from benchmarks.games.game import Game
from benchmarks.games.rows import LAYOUT, NOBODY, ONE, OTHER
from contracts.contract.contract import Adjacency
from privacy.accounting.events import DiscreteGaussian
from privacy.arrays import Floats, Unsigned
from privacy.grant.queries.sums import noisy_sums
from privacy.grant.sampled_noise import SampledNoise
from privacy.learning.embedding import Embedding, embedding
from privacy.learning.layout import RowLayout
from privacy.learning.moments import ON, Everyone, LabelCodes, Moments, sum_event
from privacy.marginals.sensitivity import GaussianNoise
from privacy.noise.random_bytes import SecureBytes

TRIALS: Final = 100_000
DELTA: Final = 0.01
NOISE: Final = GaussianNoise(Fraction(1, 2))
BITS: Final = 8
_COLUMNS: Final = ("x", "y")


@dataclass(frozen=True)
class Repeated:
    """A statistic many times over, so that one draw holds many independent outputs; the grant takes no such thing."""

    statistic: Moments
    times: int

    def total(self, codes: Unsigned, layout: RowLayout) -> Whole:
        """Add up over rows once, and repeat it."""
        return np.tile(self.statistic.total(codes, layout), self.times)


def ball(bound: Fraction = Fraction(1, 2), bits: int = BITS) -> Embedding:
    """Return both numbers about their middle, clipped; the canary lies well outside."""
    return embedding(LAYOUT, bound=bound, bits=bits, columns=_COLUMNS, centre=np.full(2, 0.5))


def weighed(
    there: bool, trials: int, *, tables: tuple[Unsigned, Unsigned], statistic: Moments, event: DiscreteGaussian
) -> Floats:
    """Play sums over rows, weighed along the exact difference of the two tables."""
    many = cast(Moments, Repeated(statistic, trials))
    outputs = noisy_sums(tables[there], statistic=many, layout=LAYOUT, event=event, noise=SampledNoise(SecureBytes()))
    outputs = outputs.reshape(trials, statistic.length)
    pair = (statistic.total(tables[False], LAYOUT), statistic.total(tables[True], LAYOUT))
    return log_odds(outputs, pair, event)


def _game(
    name: str,
    statistic: Moments,
    twin: Callable[[bool, int], Floats] | None = None,
    broken: str = "half the noise",
    *,
    adjacency: Adjacency = "add_remove",
) -> Game:
    tables = (NOBODY, ONE) if adjacency == "add_remove" else (OTHER, ONE)
    event = sum_event(statistic, NOISE, adjacency=adjacency, rows_per_unit=1)
    shipped = partial(weighed, tables=tables, statistic=statistic, event=event)
    threat = {"add_remove": "a table of one row or of none", "replace_one": "a table of one row or of another one"}
    twin = twin or partial(weighed, tables=tables, statistic=statistic, event=halved(event))
    what = f"{threat[adjacency]}; all noisy sums are seen"
    return Game(f"{name}, {adjacency}", what, claimed([event], DELTA), DELTA, TRIALS, shipped, twin, broken)


def axes() -> Game:
    """The second moment for principal axes; the twin adds Wishart noise, as P3GM's first version did."""
    return _game(AXES, second_moment(), wishart, "Wishart noise on the second moment")


AXES: Final = "second moment for principal axes"


def axes_clipped() -> Game:
    """The same; the twin does not clip."""
    statistic = second_moment()
    event = sum_event(statistic, NOISE, adjacency="add_remove", rows_per_unit=1)
    loose = Moments(ball(4 * statistic.embedding.bound, BITS + 2), Everyone(), ("full",))
    twin = partial(weighed, tables=(NOBODY, ONE), statistic=loose, event=event)
    return _game(f"{AXES}, row outside the ball", statistic, twin, "rows are not clipped")


def class_moments(adjacency: Adjacency) -> Game:
    """Counts, sums and second moments of each class: the last draw of `class_pictures`."""
    statistic = Moments(ball(), LabelCodes("kind", 3), ("counts", "sums", "full"))
    return _game("moments of classes", statistic, adjacency=adjacency)


def wishart(there: bool, trials: int) -> Floats:
    """Play axes with Wishart noise in place of symmetric Gaussian noise: d + 1 degrees, scale 3 / (2 epsilon).

    Such noise is positive definite. So what is left when the canary's matrix is taken off an output is positive
    definite whenever the canary was there, and often not when it was not.

    Source: Jiang, Xie, Zhang 2016, "Wishart mechanism for differentially private principal components analysis".
    """
    statistic = second_moment()
    epsilon = claimed([sum_event(statistic, NOISE, adjacency="add_remove", rows_per_unit=1)], DELTA)
    exact = _matrix(statistic, ONE)
    size, radius = exact.shape[0], float(np.sqrt(np.trace(exact)))
    roots = np.random.default_rng().normal(size=(trials, size, size + 1)) * radius * np.sqrt(1.5 / epsilon)
    outputs = there * exact + roots @ roots.transpose(0, 2, 1)
    return np.asarray(np.linalg.eigvalsh(outputs - exact)[:, 0])


def second_moment() -> Moments:
    """Return the second moment of all rows in the ball."""
    return Moments(ball(), Everyone(), ("full",))


def _matrix(statistic: Moments, codes: Unsigned) -> NDArray[np.float64]:
    """Return the exact second moment, symmetric [lattice units squared]."""
    squares = statistic.blocks(statistic.total(codes, LAYOUT)).squares
    assert squares is not None
    return squares[0] * float(statistic.move / ON) / float(statistic.embedding.bound) ** 2


GAMES: Final[Mapping[str, Callable[[], Game]]] = {
    "axes": axes,
    "axes_clipped": axes_clipped,
    "class_moments": partial(class_moments, "add_remove"),
    "class_moments_replace_one": partial(class_moments, "replace_one"),
}
