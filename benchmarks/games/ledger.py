"""A game through a whole ledger: reserved, opened, drawn, written, entered, resumed; in a throw-away folder.

One draw is a marginal of many cells, each of which is a trial. The run is resumed several times, and the attacker
adds up what it gave each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from benchmarks.games.attackers import Whole
from benchmarks.games.game import Game
from benchmarks.games.grant import ACCOUNT, CONTRACT, HASH, RUN, SOURCE, request_of
from contracts.periods.time_blocks import time_block
from privacy.accounting.amounts import PICO
from privacy.accounting.calculus import Calculus, PureCalculus
from privacy.accounting.events import PrivacyEvent
from privacy.arrays import Floats
from privacy.grant.grant import open_grant
from privacy.grant.queries.marginal import MarginalQuery
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import AccountTerms
from privacy.marginals.counts import PrivateCounts
from privacy.marginals.sensitivity import LaplaceNoise, noise_event

TRIALS: Final = 100_000
RESUMED: Final = 4
_NOISE: Final = LaplaceNoise(Fraction(1))
_COUNT: Final = 7


def whole_grant() -> Game:
    """One charge, drawn once and replayed; the twin forgets its draws and draws again."""

    def shipped(there: bool, trials: int) -> Floats:
        with TemporaryDirectory() as folder:
            drawn = [_drawn(Path(folder), there, trials) for _ in range(RESUMED)]
        return _odds(drawn)

    def twin(there: bool, trials: int) -> Floats:
        drawn = []
        for _ in range(RESUMED):
            with TemporaryDirectory() as folder:
                drawn.append(_drawn(Path(folder), there, trials))
        return _odds(drawn)

    threat = f"a cell of a marginal, one row more or not, of a run that is resumed {RESUMED} times; all that it gave"
    broken, way = "a run that is resumed draws anew", "through a whole ledger"
    return Game("a marginal through the whole grant", threat, 1.0, 0.0, TRIALS, shipped, twin, broken, way=way)


@contextmanager
def opened(
    folder: Path, events: Sequence[PrivacyEvent], calculus: Calculus, *, epsilon: int, delta: int
) -> Iterator[Ledger]:
    """Open a ledger in a folder, or open it again, and reserve what a run needs; `RUN` is the run.

    Args:
        folder: of the ledger.
        events: what the run's draws cost.
        calculus: of the account.
        epsilon, delta: of the charge; what the account holds is as much as that.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ledger = Ledger(f"sqlite:///{folder / 'ledger.sqlite'}", draws=folder / "draws")
    try:
        if not ledger.accounts():
            ledger.open_account(
                AccountTerms(ACCOUNT, "people", "2024", "row", "add_remove", calculus, epsilon, delta)
            )
            ledger.bind_source(SOURCE, "people", time_block("2024"))
        ledger.reserve(request_of(events, epsilon=epsilon, delta=delta))
        yield ledger
    finally:
        ledger.close()


def _drawn(folder: Path, there: bool, cells: int) -> Whole:
    """Start a run in a folder, or resume it; return its noisy marginal."""
    exact = np.full(cells, _COUNT + there, dtype=np.int64)
    event = noise_event(_NOISE, adjacency="add_remove", rows_per_unit=1)
    with opened(folder, (event,), PureCalculus(), epsilon=PICO, delta=0) as ledger:
        counts = PrivateCounts(("place",), exact.shape, HASH, CONTRACT, lambda: exact)
        return open_grant(ledger, RUN).draw(MarginalQuery(counts, _NOISE), key="place").values


def _odds(drawn: list[Whole]) -> Floats:
    """Add up the likelihoods of what was given, each thing once."""
    different = list({each.tobytes(): each for each in drawn}.values())
    return np.asarray(sum(np.abs(each - _COUNT) - np.abs(each - _COUNT - 1) for each in different), dtype=np.float64)


GAMES: Final[Mapping[str, Callable[[], Game]]] = {"whole_grant": whole_grant}
