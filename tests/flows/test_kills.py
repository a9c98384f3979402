"""A run that is killed (SIGKILL) where something becomes durable, and the run that follows it.

`python -m benchmarks.kills` kills at every durable instant; here it is every fourth, and the last.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.kills import count_of, kill_once


def test_a_killed_run_leaves_no_version_or_a_whole_one_and_the_next_run_completes_it(tmp_path: Path) -> None:
    """Nothing is drawn or charged twice, and no version is there without its charge."""
    instants = count_of(tmp_path)
    assert instants > 40
    chosen = sorted({*range(1, instants, 4), *range(instants - 6, instants)})
    wrong = {instant: found for instant in chosen if (found := kill_once(tmp_path, instant))}
    assert wrong == {}
