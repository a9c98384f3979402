"""Shapes of places in a contract: read from GeoJSON on whole numbers, the same everywhere, and refused by name."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from contracts.comparison.changes import compare
from contracts.contract.column import Column
from contracts.contract.contract import Contract
from contracts.contract.odcs import load_contract
from contracts.contract.shapes import MOST_LETTERS, Outline, PlaceShapes
from contracts.contract.short_form import contract_document
from contracts.errors import ContractRefused
from tasks.storage.workspace.contract_registry import Registry

CONTRACT = """\
id: places
version: 1.0.0
table: people
unit: {kind: row, scope: block}
adjacency: add_remove
defaults: {nulls: category, provenance: declared}
columns:
  region: {labels: {1: north, 2: south}, other: abroad, SHAPES}
  age: 0..99 by 10
"""
PLAIN = "shapes: regions.geojson"
WITH_KEY = "shapes: {file: regions.geojson, key: NAME, attribution: Made up}"


def square(x: float, y: float, size: float = 1.0) -> list[list[list[float]]]:
    """A ring, closed as GeoJSON closes it."""
    return [[[x, y], [x + size, y], [x + size, y + size], [x, y + size], [x, y]]]


def feature(coordinates: Any, kind: str = "Polygon", **properties: Any) -> dict[str, Any]:
    return {"type": "Feature", "properties": properties, "geometry": {"type": kind, "coordinates": coordinates}}


NORTH, SOUTH = feature(square(10, 1), region=1, NAME="north"), feature(square(10, 0), region="south", NAME="south")


def contract(folder: Path, shapes: str, *features: Any, text: str | None = None) -> Contract:
    written = json.dumps({"type": "FeatureCollection", "features": features}) if text is None else text
    (folder / "regions.geojson").write_text(written)
    file = folder / "places.yaml"
    file.write_text(CONTRACT.replace("SHAPES", shapes))
    return load_contract(file)


@pytest.mark.parametrize("shapes", [PLAIN, WITH_KEY])
def test_features_are_named_by_codes_or_labels(tmp_path: Path, shapes: str):
    """The outlines stand in the order of the labels, on a grid whose longer side has 1,000 squares."""
    read = contract(tmp_path, shapes, SOUTH, NORTH).column("region").shapes
    assert read is not None
    assert [outline.label for outline in read.outlines] == ["north", "south"]
    assert (read.width, read.height) == (500, 1000)
    assert read.outlines[0].path == "M500 500L500 0L0 0L0 500Z"
    assert read.attribution == (None if shapes == PLAIN else "Made up")


def test_places_away_from_the_equator_are_narrower(tmp_path: Path):
    """At 60 degrees a degree of longitude is half as wide as one of latitude."""
    north, south = feature(square(10, 60), region=1), feature(square(10, 59), region=2)
    read = contract(tmp_path, PLAIN, north, south).column("region").shapes
    assert read is not None
    assert (read.width, read.height) == (250, 1000)


def test_parts_of_a_place_are_joined_and_specks_left_out(tmp_path: Path):
    """Several features and polygons of one place are one outline; a place that is a speck is a dot."""
    islands = feature([square(10.5, 0.5, 1e-6), square(11.2, 0.1, 0.2)], "MultiPolygon", region="1")
    read = contract(tmp_path, PLAIN, NORTH, islands, feature(square(10, 0, 1e-5), region=2)).column("region").shapes
    assert read is not None
    assert read.outlines[0].path.count("M") == 2
    assert read.outlines[1].path.count("M") == 1


def test_long_and_short_form_and_a_contract_that_is_read_again_are_the_same(tmp_path: Path):
    read = contract(tmp_path, WITH_KEY, NORTH, SOUTH)
    long = contract_document(tmp_path / "places.yaml").text()
    (tmp_path / "long.yaml").write_text(yaml.safe_dump(long, sort_keys=False))
    assert load_contract(tmp_path / "long.yaml").digest == read.digest
    assert Contract.model_validate(read.model_dump(mode="json")) == read
    bare = contract(tmp_path, "description: where")
    assert "shapes" not in bare.model_dump_json()
    changes = compare(bare, read).changes
    assert [(change.field, change.effect) for change in changes if "shapes" in change.field] == [
        ("columns.region.shapes", "compatible")
    ]


def test_a_registered_contract_takes_its_shapes_along(tmp_path: Path):
    """The registry keeps the file beside the contract, so that the registered one loads without the first folder."""
    before = contract(tmp_path, PLAIN, NORTH, SOUTH)
    registry = Registry(tmp_path / "registry")
    entry, _ = registry.register(tmp_path / "places.yaml", now=datetime(2026, 1, 1, tzinfo=UTC))
    (tmp_path / "regions.geojson").unlink()
    assert registry.load(entry) == before


WRONG = [
    ((), "{", "no JSON"),
    ((), "[" * 100_000, "no JSON"),
    ((), "[]", "without features"),
    ((), json.dumps({"type": "FeatureCollection", "features": []}), "without features"),
    ((NORTH,), None, "no shape of south"),
    ((NORTH, SOUTH, feature(square(1, 1), region="nroth")), None, "feature 3 of regions.geojson, of 'nroth'"),
    ((NORTH, feature(square(1, 1), regoin=2)), None, "feature 2 of regions.geojson without 'region'"),
    ((NORTH, feature([1, 2], "Point", region=2)), None, "the geometry 'Point'"),
    ((NORTH, feature([[]], region=2)), None, "other coordinates"),
    ((NORTH, feature([], region=2)), None, "other coordinates"),
    ((NORTH, feature([[[1, 2], [1]]], region=2)), None, "other coordinates"),
    ((NORTH, feature(square(500_000, 4_000_000), region=2)), None, "other coordinates"),
    ((NORTH, feature([[["<", ">"], [1, 2], [3, 4]]], region=2)), None, "other coordinates"),
    ((NORTH, 7), None, "feature 2 of regions.geojson without 'region'"),
    ((feature([[[1, 1]] * 4], region=1), feature([[[1, 1]] * 4], region=2)), None, "one point"),
]


@pytest.mark.parametrize(("features", "text", "found"), WRONG)
def test_what_is_no_shape_of_the_places_is_refused_at_its_line(
    tmp_path: Path, features: tuple[Any, ...], text: str | None, found: str
):
    """Line, what was found, what is allowed."""
    with pytest.raises(ContractRefused) as refused:
        contract(tmp_path, PLAIN, *features, text=text)
    [finding] = refused.value.findings
    assert finding.where.endswith("places.yaml:8")
    assert finding.field == "columns.region.shapes"
    assert found in finding.found


@pytest.mark.parametrize(
    ("shapes", "found"),
    [
        ("shapes: elsewhere.geojson", "elsewhere.geojson, which is no file"),
        ("shapes: ../regions.geojson", "'../regions.geojson'"),
        ("shapes: places.yaml", "'places.yaml'"),
        ("shapes: [1]", "a list"),
        ("shapes: {file: regions.geojson, keys: NAME}", "a mapping"),
    ],
)
def test_shapes_lie_in_a_file_beside_the_contract(tmp_path: Path, shapes: str, found: str):
    with pytest.raises(ContractRefused) as refused:
        contract(tmp_path, shapes, NORTH, SOUTH)
    assert found in refused.value.findings[0].found


def test_bins_have_no_shapes(tmp_path: Path):
    """Only places that the contract names can be drawn."""
    (tmp_path / "regions.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": [NORTH]}))
    text = CONTRACT.replace(", SHAPES", "").replace("0..99 by 10", "{range: 0..99 by 10, shapes: regions.geojson}")
    (tmp_path / "places.yaml").write_text(text)
    with pytest.raises(ContractRefused, match=r"columns\.age\.shapes"):
        load_contract(tmp_path / "places.yaml")


@pytest.mark.parametrize("path", ["M0 0L1 1Z", 'M0 0L1 1L2 2Z"/><script>', "M0 0L1 1L2 2", "M0 0L99999 1L2 2Z", ""])
def test_a_path_is_a_path_and_nothing_else(path: str):
    """What a record claims as an outline is drawn into a page: nothing but points passes."""
    with pytest.raises(ValidationError):
        Outline(label="north", path=path)


def test_outlines_are_of_the_column_and_few_enough(tmp_path: Path):
    """A record with outlines of other places, twice the same, or of endless detail does not load."""
    column = contract(tmp_path, PLAIN, NORTH, SOUTH).column("region")
    assert column.shapes is not None
    north, south = column.shapes.outlines
    long = north.model_copy(update={"path": north.path * (MOST_LETTERS // len(north.path))})
    for outlines in ((south, north), (north, north), (Outline(label="east", path=north.path),), (long, south)):
        wrong = PlaceShapes(width=5, height=5, outlines=outlines)
        with pytest.raises(ValidationError):
            Column(**{**dict(column), "shapes": wrong})
