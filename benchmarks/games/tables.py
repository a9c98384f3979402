"""Games on refined tables: post-processing cannot raise what was paid for, as long as it reads noisy values alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from typing import Any, Final

import numpy as np

from benchmarks.games.attackers import Whole
from benchmarks.games.game import Game
from contracts.release.tables.tables import Refine
from privacy.accounting.events import CountNoise
from privacy.arrays import Floats
from privacy.grant.queries.marginal import noisy_counts
from privacy.grant.sampled_noise import SampledNoise
from privacy.marginals.sensitivity import LaplaceNoise, noise_event
from privacy.noise.random_bytes import RandomBytes, SecureBytes
from privacy.refine.tables import refine_table

TRIALS: Final = 10_000
_TABLE: Final = np.array([[9, 0, 2], [1, 0, 0], [4, 0, 3]])
_CANARY: Final = (2, 1)
_SPEC: Final[Mapping[str, Any]] = {"method": "negative_l2", "lambda": 0.2}


def refined() -> Game:
    """A table refined to its noisy total; the twin is refined to the exact one."""
    event = noise_event(LaplaceNoise(Fraction(1)), adjacency="add_remove", rows_per_unit=1)
    plays = [partial(_play, event=event, exact_total=each) for each in (False, True)]
    threat = "a table of 9 cells refined by negative_l2, one row more or not; all of it is seen"
    return Game("refined table and its total", threat, 2.0, 0.0, TRIALS, *plays, "the total is exact")


def _play(there: bool, trials: int, *, event: CountNoise, exact_total: bool) -> Floats:
    exact = _TABLE.copy()
    exact[_CANARY] += there
    source, terms = SecureBytes(), Refine.model_validate(_SPEC)
    return np.stack([_seen(exact, terms, event, exact_total, source) for _ in range(trials)])


def _seen(exact: Whole, terms: Refine, event: CountNoise, exact_total: bool, source: RandomBytes) -> Floats:
    """Return what a reader of one release sees: the refined cell and the total, of which the attacker makes most."""
    draw = partial(noisy_counts, event=event, threshold=None, noise=SampledNoise(source))
    noisy, total = draw(exact), int(exact.sum() if exact_total else draw(exact.sum(keepdims=True)).item())
    impossible = np.zeros(exact.shape, np.bool_)
    made = refine_table(noisy, terms, impossible=impossible, total=total, event=event, ordered=())
    values = np.asarray(made.values, dtype=np.float64)
    return np.array([min(values[_CANARY], 3.0), min(max(total - _TABLE.sum(), -1.0), 2.0)])


GAMES: Final[Mapping[str, Callable[[], Game]]] = {"refined_table": refined}
