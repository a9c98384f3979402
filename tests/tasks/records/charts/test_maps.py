"""Maps of places and pictures of pairs of columns: shades follow the numbers, and nothing of a label is markup."""

import json
import re
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contracts.contract.column import Column
from contracts.contract.contract import Contract
from contracts.contract.shapes import Outline, PlaceShapes
from contracts.release.spec import ReleaseSpec
from privacy.ledger.ledger import Ledger
from tasks.records.charts.charts import HEAT_LEVELS
from tasks.records.charts.pair_map import PairMap, pair_map
from tasks.records.charts.place_map import outlines, place_map, shapes_of
from tasks.records.page.language import languages, page_name
from tests.worlds.statistics import StatisticsScenario
from tests.worlds.versions import Version, Worlds, broken, caught

LABELS = ("<b>{0}</b>", "two", "three", "four")
TEXTS = ("1 (0 – 2)", "2 (1 – 3)", "3", "–")


def places(**changed: Any) -> Contract:
    domain = {"kind": "categories", "values": LABELS, "nulls": {"policy": "category"}}
    drawn = tuple(Outline(label=label, path=f"M{place} 0L1 1L2 2Z") for place, label in enumerate(LABELS[:3]))
    shapes = PlaceShapes(width=10, height=20, outlines=drawn)
    domain["provenance"] = {"kind": "declared"}
    fields = {"name": "place", "logical_type": "string", "domain": domain, "shapes": shapes, **changed}
    terms = {"unit": {"kind": "row", "scope": "block"}, "adjacency": "add_remove"}
    identity = {"apiVersion": "v3.1.0", "id": "p", "version": "1.0.0", "name": "p", "table": "t"}
    return Contract.model_validate({**identity, **terms, "columns": [Column.model_validate(fields)]})


def test_shades_follow_the_numbers_and_what_is_unknown_is_hatched():
    """From zero by the square root; else evenly between the least and the largest number that are known."""
    values, known = np.array([0.0, 25.0, 100.0, 9.0, 5.0]), np.array([True, True, True, False, False])
    terms: dict[str, Any] = {"texts": [*TEXTS, ""], "what": "counts", "ends": ("0", "100")}
    drawn = place_map(places(), "place", values, known=known, from_zero=True, **terms)
    assert re.findall(r'class="(h\d|unknown)"', str(drawn.drawing)) == ["h0", "h4", "h8"]
    assert (drawn.roots, drawn.hatched) == (True, False)
    known[1] = False
    even = place_map(places(), "place", values - 50, known=known, from_zero=False, **terms)
    assert re.findall(r'class="(h\d|unknown)"', str(even.drawing)) == ["h1", "unknown", "h8"]
    assert (even.roots, even.hatched) == (False, True)
    none = place_map(places(), "place", values, known=np.zeros(5, np.bool_), from_zero=False, **terms)
    assert re.findall(r'class="(h\d|unknown)"', str(none.drawing)) == ["unknown"] * 3


def test_labels_are_texts_in_a_map():
    """Neither markup nor a brace of a label is taken for ours."""
    terms: dict[str, Any] = {"texts": [*TEXTS, ""], "what": "w", "ends": ("0", "4")}
    drawn = place_map(places(), "place", np.arange(5.0), known=np.ones(5, np.bool_), from_zero=True, **terms)
    titles = re.findall(r"<title>(.*?)</title>", str(drawn.drawing))
    assert [unescape(title) for title in titles] == [
        f"{label}: {text}" for label, text in zip(LABELS[:3], TEXTS[:3], strict=True)
    ]
    assert "<b>" not in str(drawn.drawing)


def test_a_map_refers_to_outlines_that_stand_once():
    contract = places()
    found = re.findall(r'id="(outline-[\d-]+)" d="([^"]+)"', str(outlines(contract)))
    shapes = shapes_of(contract, ["place"])
    assert shapes is not None
    assert [path for _, path in found] == [outline.path for outline in shapes.outlines]
    values = np.arange(5.0)
    known = np.ones(5, np.bool_)
    drawn = place_map(
        contract, "place", values, known=known, from_zero=True, texts=[""] * 5, what="w", ends=("0", "4")
    )
    assert re.findall(r'href="#(outline-[\d-]+)"', str(drawn.drawing)) == [name for name, _ in found]
    assert outlines(places(shapes=None)) == ""
    assert shapes_of(places(shapes=None), ["place"]) is None
    assert shapes_of(contract, ["place", "place"]) is None


@dataclass
class Mapped(StatisticsScenario):
    release: str = "mapped"
    product: str = "{kind: statistics, mechanism: laplace, tables: [{by: [ward], of: [count, {mean: age}]}]}"
    formats: str = "[parquet]"

    def prepared_of(self, folder: Path, kind: type[Any]) -> tuple[ReleaseSpec, Contract, Any, Ledger]:
        """Put the shapes beside the contract."""
        folder.mkdir(parents=True, exist_ok=True)
        rings = {ward: [[[x, 0], [x + 1, 0], [x, 1]]] for x, ward in enumerate(("surgery", "children", 'x, "y"'))}
        features = [
            {"type": "Feature", "properties": {"ward": ward}, "geometry": {"type": "Polygon", "coordinates": ring}}
            for ward, ring in rings.items()
        ]
        text = json.dumps({"type": "FeatureCollection", "features": features})
        (folder / "wards.geojson").write_text(text)
        return super().prepared_of(folder, kind)

    def __post_init__(self) -> None:
        at = self.properties.index("      - name: floor")
        shaped = "          - {property: shapes, value: {file: wards.geojson, attribution: Made up}}\n"
        self.properties = self.properties[:at] + shaped + self.properties[at:]


@pytest.fixture(scope="module")
def mapped(worlds: Worlds) -> Version:
    return worlds.published(Mapped(), here=True)


@pytest.mark.long
def test_a_version_with_shapes_verifies_and_shows_a_map_of_each_statistic(mapped: Version):
    """All pages have the outlines once, and a map each for counts and means with the numbers of the file."""
    assert broken(mapped.verify()) == set()
    for name in map(page_name, languages()):
        page = (mapped.folder / name).read_text()
        assert page.count('<svg class="outlines"') == 1
        assert page.count('<svg class="places"') == 2
        assert page.count("Made up") >= 2


def test_a_page_with_another_map_is_found(mapped: Version, tmp_path: Path):
    """An outline that the record does not have, in the page alone, breaks the rule of the pages."""
    version = mapped.copy(tmp_path / "copy")
    page = (version.folder / "record.html").read_text()
    assert caught(version, "record.html", page.replace('id="outline-', 'id="outlier-', 1).encode())


def drawn(columns: int) -> PairMap:
    darkness = np.zeros((columns, columns))
    darkness[0, 1] = 4.0
    texts = [["4" if (row, column) == (0, 1) else "" for column in range(columns)] for row in range(columns)]
    return pair_map([f"c{place}" for place in range(columns)], darkness, texts, "Pairs.")


def test_few_columns_have_numbers():
    first, others = drawn(12).rows[0]
    assert first == "c0"
    assert (others[1].text, others[1].label, others[1].level) == ("4", "c0 × c1: 4", HEAT_LEVELS)
    assert (others[2].text, others[2].label, others[2].level) == ("", "c0 × c2: none", 0)


@pytest.mark.parametrize("columns", [13, 40])
def test_more_columns_have_names_and_tell_the_number_to_a_pointer(columns: int):
    found = drawn(columns)
    assert found.picture is None
    assert found.rows[0][1][1].text == ""
    assert found.rows[0][1][1].label == "c0 × c1: 4"


def test_very_many_columns_are_squares():
    found = drawn(41)
    assert found.rows == []
    assert 'viewBox="0 0 41 41"' in str(found.picture)
    assert 'class="h8" d="M1 0h1v1h-1z"' in str(found.picture)
