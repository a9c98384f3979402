"""The page that adds up cells of counts by place: what is picked, what is typed, and what is refused."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sudare_web.site import place_sums
from sudare_web.site.asking import NotThere
from sudare_web.site.place_sums import conditions_of, sums_page
from tests.tasks.verification.forgery import load
from tests.worlds.spines import with_totals
from tests.worlds.statistics import pure
from tests.worlds.versions import Version, Worlds


@pytest.fixture(scope="module")
def wings(worlds: Worlds) -> Version:
    return worlds.published(with_totals(), here=True)


def page(version: Version, monkeypatch: pytest.MonkeyPatch, *picked: str, where: str = "") -> dict[str, Any]:
    """Answer for a version, without the ledger that would find it."""
    entry = SimpleNamespace(manifest=str(version.folder))
    folder = SimpleNamespace(path=version.folder, entry=entry, is_readable=True)
    record = load(version.folder / "record.json")
    monkeypatch.setattr(place_sums, "folder_of", lambda *_: folder)
    monkeypatch.setattr(place_sums, "head_of", lambda *_: {"release": "wings", "version": 1})
    site: Any = SimpleNamespace(folders=SimpleNamespace(record=lambda _: record))
    return dict(sums_page(site, "wings", 1, picked, where).payload)


def test_what_is_picked_and_typed_is_one_sum():
    """Labels of one name are joined; what has no label is left out."""
    picked = ("wing=north", "floor=1", "wing=south", "", "floor=")
    assert conditions_of(picked, " insured=true ") == "wing=north|south and floor=1 and insured=true"
    assert conditions_of((), "") == ""


def test_the_sum_has_its_interval_and_the_choices(wings: Version, monkeypatch: pytest.MonkeyPatch):
    """A public total is exact; a part of it is not; every level and column offers its labels."""
    told = page(wings, monkeypatch, "wing=north")
    count = with_totals().wing_counts()["north"]
    assert (told["sum"]["lower"], told["sum"]["count"], told["sum"]["upper"]) == (count, count, count)
    assert [choice["name"] for choice in told["choices"]] == ["hospital", "wing", "ward", "floor", "insured"]
    typed = page(wings, monkeypatch, "wing=north", where=" floor=1 ")
    assert (typed["typed"], typed["picked"]) == ("floor=1", ["wing=north"])
    part = page(wings, monkeypatch, "wing=north", "insured=true")["sum"]
    assert part["lower"] < part["count"] < part["upper"] < count
    both = page(wings, monkeypatch, "ward=surgery", "ward=children")["sum"]
    assert (both["places"], both["lower"], both["upper"]) == (2, count, count)


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("wing=east", "the place 'east'"),
        ("flour=1", "the name 'flour'"),
        ("floor=7", "the label '7' of 'floor'"),
        ("wing=north and ward=surgery", "places that both hold 'surgery'"),
        ("wing", "the condition 'wing'"),
        ("wing=north and wing=south", "'wing' twice"),
    ],
)
def test_what_is_no_sum_of_cells_is_refused(wings: Version, monkeypatch: pytest.MonkeyPatch, where: str, found: str):
    """In the words of `sudare interval`."""
    told = page(wings, monkeypatch, where=where)
    assert told["sum"] is None
    assert [each["found"] for each in told["refused"]] == [found]


def test_a_version_with_a_forged_file_shows_no_sum(wings: Version, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """The page names the file, whether it is read for every sum or for this one."""
    for name in ("measurements/floor.ward.parquet", "data/floor_x_insured.wing.parquet"):
        spoiled = wings.copy(tmp_path / name.partition("/")[0])
        (spoiled.folder / name).write_bytes(b"PAR1 no table")
        told = page(spoiled, monkeypatch, "wing=north")
        assert told["sum"] is None
        assert [each["found"] for each in told["refused"]] == [f"{name}: a file with another SHA-256"]


def test_a_large_version_names_the_command(wings: Version, monkeypatch: pytest.MonkeyPatch):
    """Nothing is computed that would keep other readers waiting."""
    monkeypatch.setattr(place_sums, "MOST_CELLS", 10)
    told = page(wings, monkeypatch, "wing=north")
    assert told["sum"] is None
    assert told["command"].startswith("sudare interval ")
    assert told["command"].endswith('--where "wing=north"')


def test_other_products_have_no_such_page(worlds: Worlds, monkeypatch: pytest.MonkeyPatch):
    """The address is not there."""
    with pytest.raises(NotThere):
        page(worlds.published(pure(), here=True), monkeypatch)
