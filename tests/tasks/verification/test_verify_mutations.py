"""Mutations by somebody without the publisher's key: every kind, on every file, is refused and named."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from benchmarks._mutation import Mutation, Pristine
from benchmarks.mutations import KINDS, mutations
from tasks.verify import verify
from tests.worlds.versions import Version, broken, named

OF_EACH = 7


@pytest.fixture(scope="module")
def pristine(versions: dict[str, Version], tmp_path_factory: pytest.TempPathFactory) -> Pristine:
    return Pristine(versions["guild"].copy(tmp_path_factory.mktemp("mutated") / "v").folder)


@pytest.fixture(scope="module")
def others(versions: dict[str, Version]) -> dict[str, dict[str, bytes]]:
    """The files of another version of the same publisher."""
    folder = versions["town"].folder
    return {"town": {name: (folder / name).read_bytes() for name in versions["town"].files}}


def chosen(version: Pristine, others: dict[str, dict[str, bytes]], kind: str) -> list[Mutation]:
    """Choose some mutations of a kind, always the same ones."""
    found = [each for each in mutations(version, flips=40, edits=20, seed=7, others=others) if each.kind == kind]
    return random.Random(kind).sample(found, min(OF_EACH, len(found)))


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_mutation_is_refused_and_named(
    pristine: Pristine, others: dict[str, dict[str, bytes]], versions: dict[str, Version], kind: str
) -> None:
    """Seven of each of fourteen kinds (four of additions), drawn from a fixed seed; the benchmark tries thousands."""
    some = chosen(pristine, others, kind)
    assert len(some) >= 4
    for change in some:
        change.apply(pristine.folder)
        report = verify(pristine.folder, public_key=versions["guild"].key)
        pristine.restore()
        assert not report.ok, change.told
        assert change.names & named(report), change.told
        assert any(rules <= broken(report) for rules in KINDS[kind][1]), (change.told, broken(report))


def test_there_are_at_least_a_thousand_mutations_of_every_kind_over_all_files(
    pristine: Pristine, others: dict[str, dict[str, bytes]]
) -> None:
    made = list(mutations(pristine, flips=600, edits=150, seed=1, others=others))
    assert len(made) >= 1000
    assert {each.kind for each in made} == set(KINDS)
    assert set(pristine.files) <= {name for each in made for name in each.names}


@pytest.mark.long
def test_what_was_mutated_is_put_back(pristine: Pristine, versions: dict[str, Version]) -> None:
    """Otherwise one mutation would be found for another's sake."""
    for change in mutations(pristine, flips=5, edits=2, seed=3):
        if change.kind != "swap two files":
            change.apply(pristine.folder)
            pristine.restore()
    assert {name: (pristine.folder / name).read_bytes() for name in pristine.files} == pristine.files
    assert verify(pristine.folder, public_key=versions["guild"].key).ok


def test_the_test_of_mutations_can_fail(pristine: Pristine, versions: dict[str, Version], tmp_path: Path) -> None:
    """No change is no finding."""
    nothing = Mutation("nothing", "nothing", lambda folder: None, frozenset({"record.json"}))
    nothing.apply(pristine.folder)
    report = verify(pristine.folder, public_key=versions["guild"].key)
    assert report.ok
    assert not nothing.names & named(report)
