"""Games on private clips: the histogram in which a clip is found, and the sums that are added up over that clip.

Each trial is all that leaves: the noisy counts of the histogram, and the noisy sums of one cell over the clip that
follows from them. The attacker knows both tables, follows the rule to the same clip, and weighs both draws.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache, partial
from typing import Final

import numpy as np

from benchmarks.games.attackers import Pair, Whole, log_odds
from benchmarks.games.game import Game
from contracts.contract.contract import Adjacency
from contracts.domains.addends import ValueMagnitudes
from contracts.domains.lattice import ValueLattice
from privacy.accounting.events import CountNoise
from privacy.arrays import Floats
from privacy.grant.queries.cell_sums import noisy_cell_sums
from privacy.grant.sampled_noise import SampledNoise
from privacy.marginals.cell_sums import cell_sum_event
from privacy.marginals.sensitivity import LaplaceNoise
from privacy.noise.random_bytes import SecureBytes
from privacy.statistics.clips import LaterDraw, find_clip

COUNTED: Final = 400_000
"""Trials of the histogram alone."""
CLIPPED: Final = 80_000
"""Trials of histogram and sums: each finds a clip of its own."""
HALF: Final = LaplaceNoise(Fraction(1, 2))
MAGNITUDES: Final = ValueMagnitudes(ValueLattice("income", Decimal(0), Decimal(16), Decimal(1), counts_missing=False))
OFFSETS: Final = (0,) * 90 + (2,) * 60 + (4,) * 40
"""What the other rows have."""
FAR: Final = 16
"""What the row has that may be there: the upper bound, far above all others."""


def histogram(offsets: tuple[int, ...]) -> Whole:
    """Return the exact counts of the bins."""
    lasts = np.array([last for _, last in MAGNITUDES.bins])
    return np.bincount(np.searchsorted(lasts, np.array(offsets)), minlength=MAGNITUDES.parts).astype(np.int64)


COUNTS: Final[Pair] = (histogram(OFFSETS), histogram((*OFFSETS, FAR)))


def event_of(noise: LaplaceNoise, adjacency: Adjacency = "add_remove") -> CountNoise:
    """Return the event of a histogram, as a grant derives it."""
    return cell_sum_event(noise, MAGNITUDES, adjacency=adjacency, rows_per_unit=1)


def counted(there: bool, trials: int, *, pair: Pair, event: CountNoise) -> Floats:
    """Play the histogram alone."""
    noise = SampledNoise(SecureBytes())
    return log_odds(noisy_cell_sums(np.tile(pair[there], (trials, 1)), event=event, noise=noise), pair, event)


def replaced() -> Game:
    """A row goes from one bin to another; the twin pays for one side of it alone."""
    whole = LaplaceNoise(Fraction(1))
    event, one_sided = event_of(whole, "replace_one"), event_of(whole)
    pair = (histogram((*OFFSETS, 0)), histogram((*OFFSETS, FAR)))
    return Game(
        "histogram of magnitudes, replace_one",
        "one row moves from 0 to the upper bound; all noisy counts are seen",
        1.0,
        0.0,
        COUNTED,
        partial(counted, pair=pair, event=event),
        partial(counted, pair=pair, event=one_sided),
        "it pays for one of the two bins that change",
    )


def clipped() -> Game:
    """Histogram and sums, epsilon one half each; the twin's clip ends where the rows do."""
    return Game(
        "a private clip and the sums over it",
        "one row more, at the upper bound; the noisy histogram, the clip and all noisy sums are seen",
        1.0,
        0.0,
        CLIPPED,
        partial(_both, ends=_found),
        partial(_both, ends=_exact_ends),
        "the clip ends where the exact rows do",
    )


def _both(there: bool, trials: int, *, ends: Callable[[Whole, Whole], tuple[int, int]]) -> Floats:
    """Play histogram and sums; a clip that one of the two tables cannot lead to gives that table away."""
    event, noise = event_of(HALF), SampledNoise(SecureBytes())
    noisy = noisy_cell_sums(np.tile(COUNTS[there], (trials, 1)), event=event, noise=noise)
    odds = log_odds(noisy, COUNTS, event)
    for trial, counts in enumerate(noisy):
        clips = [ends(counts, exact) for exact in COUNTS]
        if clips[0] != clips[1]:
            odds[trial] = np.inf if there else -np.inf
            continue
        first, last = clips[there]
        pair = _sums(OFFSETS, first, last), _sums((*OFFSETS, FAR), first, last)
        moved = cell_sum_event(HALF, MAGNITUDES.narrowed(first, last), adjacency="add_remove", rows_per_unit=1)
        sums = noisy_cell_sums(pair[there][None], event=moved, noise=noise)
        odds[trial] += log_odds(sums, pair, moved)[0]
    return np.nan_to_num(odds, posinf=1e6, neginf=-1e6)


def _found(noisy: Whole, exact: Whole) -> tuple[int, int]:
    """Return the clip that is found in noisy counts."""
    return _clip(tuple(noisy.tolist()))


def _exact_ends(noisy: Whole, exact: Whole) -> tuple[int, int]:
    """Return the clip that holds all rows."""
    held = np.flatnonzero(exact)
    return MAGNITUDES.bins[held[0]][0], MAGNITUDES.bins[held[-1]][1]


@lru_cache(maxsize=2**16)
def _clip(counts: tuple[int, ...]) -> tuple[int, int]:
    """Return the first and the last offset of the clip."""
    lattice = find_clip(counts, MAGNITUDES, event=event_of(HALF), later=LaterDraw(1, Fraction(8), means=True)).lattice
    return lattice.first, lattice.first + lattice.width


def _sums(offsets: tuple[int, ...], first: int, last: int) -> Whole:
    """Return the steps above and below of one cell."""
    above = np.clip(np.array(offsets), first, last) - first
    return np.array([above.sum(), ((last - first) - above).sum()], dtype=np.int64)


GAMES: Final = {"clip_histogram": replaced, "private_clip": clipped}
