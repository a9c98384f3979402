"""`sudare interval`: the count of any sum of cells, from a version alone."""

from __future__ import annotations

import json

import pytest

from tests.console.conftest import Typed
from tests.tasks.verification.forgery import edit_table
from tests.worlds.spines import with_totals
from tests.worlds.statistics import pure
from tests.worlds.versions import Version, Worlds


@pytest.fixture(scope="module")
def wings(worlds: Worlds) -> Version:
    return worlds.published(with_totals(), here=True)


def test_a_sum_is_told_in_words_and_as_json(wings: Version, typed: Typed) -> None:
    """The public total of a wing is exact; without conditions it is all rows."""
    count = with_totals().wing_counts()["north"]
    said = typed("interval", str(wings.folder), "--where", "wing=north")
    assert said.code == 0
    assert said.out.startswith(f"{count:,} rows, with 95 % from {count:,} to {count:,}\n")
    told = json.loads(typed("interval", str(wings.folder), "--json").out)
    assert (told["count"], told["lower"], told["upper"], told["places"], told["cells"]) == (2000, 2000, 2000, 1, 9)


def test_no_conditions_of_the_version_and_other_products_are_refused(
    wings: Version, worlds: Worlds, typed: Typed
) -> None:
    """Exit 2, with what may be asked."""
    said = typed("interval", str(wings.folder), "--where", "wing=east")
    assert said.code == 2
    assert "a place of level wing" in said.err
    said = typed("interval", str(worlds.published(pure(), here=True).folder))
    assert said.code == 2
    assert "no record of counts by place that can be read" in said.err


def test_a_version_with_other_places_is_refused(wings: Version, typed: Typed, tmp_path: object) -> None:
    """The places must be those of the record; verify says the rest."""
    spoiled = wings.copy(tmp_path / "v")  # type: ignore[operator]
    edit_table(spoiled.folder / "data/places.parquet", lambda places: places.slice(0, places.num_rows - 1))
    said = typed("interval", str(spoiled.folder), "--where", "wing=north")
    assert said.code == 2
    assert "sudare verify says what is wrong with this version" in said.err
