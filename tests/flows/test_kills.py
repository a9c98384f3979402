"""A run that is killed (SIGKILL) where something becomes durable, or at random, and the run that follows it.

`python -m benchmarks.kills` kills at every durable instant and far more often at random, also on PostgreSQL and the
whole command.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random, SystemRandom

import pytest

from benchmarks._kill_places import make_place
from benchmarks.kills import Outcome, kill_at_instants, kill_releases_at_random, load

pytestmark = pytest.mark.long

RANDOM_KILLS = 8
"""`benchmarks.kills` makes far more."""


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    load()


def _sample(instants: int) -> Sequence[int]:
    assert instants > 40
    return sorted({*range(1, instants, 13), *range(instants - 4, instants)})


def _wrong(outcomes: Iterable[Outcome]) -> list[Outcome]:
    return [outcome for outcome in outcomes if outcome.wrong]


def test_a_run_that_is_killed_where_something_becomes_durable_is_completed_by_the_next(tmp_path: Path):
    """Nothing is drawn or charged twice, no entry is lost, and no version is there without its charge."""
    assert _wrong(kill_at_instants(tmp_path, _sample)) == []


def test_a_run_that_is_killed_at_a_random_instant_is_completed_by_the_next(tmp_path: Path):
    """The same at instants that nobody chose; where it fails, the seed of the delays is shown."""
    seed = SystemRandom().getrandbits(32)
    outcomes = kill_releases_at_random(tmp_path, RANDOM_KILLS, Random(seed), make_place)
    assert (seed, len(outcomes), _wrong(outcomes)) == (seed, RANDOM_KILLS, [])
