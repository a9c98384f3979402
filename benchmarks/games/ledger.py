"""A game through a whole ledger: reserved, opened, drawn, written, entered, resumed; in a throw-away folder.

One draw is a marginal of many cells, each of which is a trial. The run is resumed several times, and the attacker
adds up what it gave each time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from benchmarks.games.attackers import Whole
from contracts.blocks import time_block
from privacy.accounting.amounts import PICO
from privacy.accounting.calculus import PureCalculus
from privacy.audit.games.distinguishing import Scores
from privacy.audit.games.game import Game
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import AccountTerms, ChargeRequest
from privacy.marginals.counts import PrivateCounts
from privacy.marginals.sensitivity import LaplaceNoise, noise_event
from privacy.private_table import snapshot_mark

TRIALS: Final = 100_000
RESUMED: Final = 4
_NOISE: Final = LaplaceNoise(Fraction(1))
_HASH, _SPEC, _CONTRACT = "c" * 64, "a" * 64, "b" * 64
_COUNT: Final = 7


def whole_grant() -> Game:
    """One charge, drawn once and replayed; the twin forgets its draws and draws again."""

    def shipped(there: bool, trials: int) -> Scores:
        with TemporaryDirectory() as folder:
            drawn = [_drawn(Path(folder), there, trials) for _ in range(RESUMED)]
        return _odds(drawn)

    def twin(there: bool, trials: int) -> Scores:
        drawn = []
        for _ in range(RESUMED):
            with TemporaryDirectory() as folder:
                drawn.append(_drawn(Path(folder), there, trials))
        return _odds(drawn)

    threat = f"a cell of a marginal, one row more or not, of a run that is resumed {RESUMED} times; all that it gave"
    broken, way = "a run that is resumed draws anew", "through a whole ledger"
    return Game("a marginal through the whole grant", threat, 1.0, 0.0, TRIALS, shipped, twin, broken, way=way)


def _drawn(folder: Path, there: bool, cells: int) -> Whole:
    """Start a run in a folder, or resume it; return its noisy marginal."""
    exact = np.full(cells, _COUNT + there, dtype=np.int64)
    ledger = Ledger(f"sqlite:///{folder / 'ledger.sqlite'}", draws=folder / "draws")
    try:
        if not ledger.accounts():
            ledger.open_account(
                AccountTerms("people", "people", "2024", "row", "add_remove", PureCalculus(), PICO, 0)
            )
            ledger.bind_source("file:people.parquet", "people", time_block("2024"))
        ledger.reserve(_request())
        counts = PrivateCounts(("place",), exact.shape, _HASH, _CONTRACT, lambda: exact)
        return ledger.open_grant("run").measure(counts, noise=_NOISE, key="place").values
    finally:
        ledger.close()


def _request() -> ChargeRequest:
    return ChargeRequest(
        run_key="run",
        account="people",
        source="file:people.parquet",
        release="places",
        spec_digest=_SPEC,
        contract_digest=_CONTRACT,
        snapshot_hash=snapshot_mark(_HASH, _SPEC),
        adjacency="add_remove",
        unit="row",
        scope="block",
        rows_per_unit=1,
        events=(noise_event(_NOISE, adjacency="add_remove", rows_per_unit=1),),
        epsilon=PICO,
        delta=0,
    )


def _odds(drawn: list[Whole]) -> Scores:
    """Add up the likelihoods of what was given, each thing once."""
    different = list({each.tobytes(): each for each in drawn}.values())
    return np.asarray(sum(np.abs(each - _COUNT) - np.abs(each - _COUNT - 1) for each in different), dtype=np.float64)


GAMES: Final[Mapping[str, Callable[[], Game]]] = {"whole_grant": whole_grant}
