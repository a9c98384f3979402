"""`sudare releases catalog`: everything that was published, as Croissant datasets or DCAT, in one JSON-LD file.

A version is described by what lies in the store as the journal has it: its manifest is the one that was entered, its
croissant.json the one of the manifest. One that is not there, or not so, is named and left out. A withdrawn version
is listed without its files.

Source: MLCommons, Croissant Format Specification 1.1 (each dataset); schema.org DataCatalog; W3C, DCAT 3, as SEMIC's
DCAT-AP 3.0.1 asks: of a Catalogue title, description and publisher, of a Dataset title and description, of a
Distribution the access URL, of an Agent its name, of a Checksum algorithm and value (xsd:hexBinary), and media types
as IRIs of IANA's registry.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from console.output import AsJson, At, answer, ledger_at, print_facts, workspace_at
from contracts.canonical import readable_json
from contracts.errors import Finding, Refused
from privacy.ledger.terms import VersionEntry
from tasks.records.descriptions.descriptions import CONTEXT
from tasks.storage.manifest import version_folder
from tasks.verification.files.folder import read_manifest

CatalogueFormat = Literal["croissant", "dcat"]
CROISSANT = "croissant.json"
_DCAT_CONTEXT = {
    "dcat": "http://www.w3.org/ns/dcat#",
    "dct": "http://purl.org/dc/terms/",
    "adms": "http://www.w3.org/ns/adms#",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "spdx": "http://spdx.org/rdf/terms#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}
_MEDIA_TYPES = "http://www.iana.org/assignments/media-types/"
_REGISTERED = {"application/x-parquet": "application/vnd.apache.parquet"}
_PAGE = "record.html"


@dataclass(frozen=True)
class Described:
    """A published version with its own metadata.

    Args:
        name: `release/vN`.
        entry: what the journal knows of it.
        metadata: its croissant.json.
    """

    name: str
    entry: VersionEntry
    metadata: dict[str, Any]


def describe(entries: Iterable[VersionEntry], store: Path) -> tuple[tuple[Described, ...], tuple[str, ...]]:
    """Read the metadata of published versions.

    Args:
        entries: the versions, as the ledger knows them.
        store: the release store.
    Returns:
        tuple: the versions, and the names of those that are not in the store as they were published.
    """
    found, left_out = [], []
    for entry in entries:
        if entry.manifest is None:
            continue
        name = f"{entry.release}/v{entry.number}"
        metadata = _metadata(version_folder(store, entry.release, entry.number), entry.manifest)
        if metadata is None:
            left_out.append(name)
        else:
            found.append(Described(name, entry, metadata))
    return tuple(found), tuple(left_out)


def _metadata(folder: Path, entered: str) -> dict[str, Any] | None:
    manifest, digest = read_manifest(folder)
    if manifest is None or digest != entered or CROISSANT not in manifest.files:
        return None
    try:
        data = (folder / CROISSANT).read_bytes()
    except OSError:
        return None
    if hashlib.sha256(data).hexdigest() != manifest.files[CROISSANT].sha256:
        return None
    metadata: dict[str, Any] = json.loads(data)
    return metadata


def address(store: Path, catalogue: Path, base_url: str | None) -> str:
    """Return what stands before a version's name in the addresses of its files, with a slash at its end.

    Args:
        store: the release store.
        catalogue: the file that will hold the catalogue; without a base URL addresses are relative to its folder.
        base_url: where the store is served.
    """
    if base_url is not None:
        return base_url.rstrip("/") + "/"
    return Path(os.path.relpath(store.absolute(), catalogue.absolute().parent)).as_posix() + "/"


def catalogue(
    versions: Sequence[Described], *, before: str, form: CatalogueFormat, publisher: str | None = None
) -> dict[str, Any]:
    """Describe all versions in one JSON-LD document.

    Args:
        versions: the versions.
        before: see `address`.
        form: `croissant` (schema.org DataCatalog of Croissant datasets) or `dcat` (DCAT-AP 3.0.1).
        publisher: who publishes the store, for DCAT-AP; None where nobody is declared.
    Privacy: published metadata only.
    """
    if form == "dcat":
        return {
            "@context": _DCAT_CONTEXT,
            "@type": "dcat:Catalog",
            "dct:title": "Releases",
            "dct:description": "Versions published with differential privacy; each says how much it can tell.",
            **({"dct:publisher": _agent(publisher)} if publisher else {}),
            "dcat:dataset": [_dcat_dataset(each, before) for each in versions],
        }
    return {
        "@context": CONTEXT,
        "@type": "sc:DataCatalog",
        "name": "Releases",
        "dataset": [_dataset(each, before) for each in versions],
    }


def _dataset(version: Described, before: str) -> dict[str, Any]:
    """A version's Croissant dataset with names of its own in the whole document, and addresses that lead to it."""
    told = {key: value for key, value in version.metadata.items() if key != "@context"}
    named = {"@id": version.name, "creativeWorkStatus": version.entry.status, "isPartOf": version.entry.release}
    if version.entry.status == "withdrawn":
        return {**{key: value for key, value in told.items() if key not in ("distribution", "recordSet")}, **named}
    dataset: dict[str, Any] = _renamed(told, version.name)
    for file in dataset.get("distribution", ()):
        file["contentUrl"] = f"{before}{version.name}/{file['contentUrl']}"
    return {**dataset, **named}


def _renamed(value: Any, name: str) -> Any:
    """Put a version's name before each @id: what was one name in one file is one in the whole catalogue."""
    if isinstance(value, dict):
        return {key: f"{name}/{part}" if key == "@id" else _renamed(part, name) for key, part in value.items()}
    return [_renamed(each, name) for each in value] if isinstance(value, list) else value


def _agent(name: str) -> dict[str, Any]:
    return {"@type": "foaf:Agent", "foaf:name": name}


def _dcat_dataset(version: Described, before: str) -> dict[str, Any]:
    told = version.metadata
    dataset = {
        "@id": version.name,
        "@type": "dcat:Dataset",
        "dct:identifier": version.name,
        "dct:title": told["alternateName"],
        "dct:description": told["description"],
        "dct:issued": {"@value": told["datePublished"], "@type": "xsd:date"},
        **({"dct:publisher": _agent(told["creator"]["name"])} if "creator" in told else {}),
        "dcat:version": str(version.entry.number),
        "adms:status": version.entry.status,
    }
    if version.entry.number > 1:
        dataset["dcat:previousVersion"] = {"@id": f"{version.entry.release}/v{version.entry.number - 1}"}
    if version.entry.status == "withdrawn":
        return dataset
    return {**dataset, "dcat:distribution": [_dcat_file(each, version, before) for each in told["distribution"]]}


def _resource(url: str) -> dict[str, str]:
    """Name what an address leads to; its class is said, since the profile's shapes ask for it."""
    return {"@id": url, "@type": "rdfs:Resource"}


def _dcat_file(file: dict[str, Any], version: Described, before: str) -> dict[str, Any]:
    return {
        "@type": "dcat:Distribution",
        "dct:title": file["name"],
        "dct:description": file["description"],
        "dcat:accessURL": _resource(f"{before}{version.name}/{_PAGE}"),
        "dcat:downloadURL": _resource(f"{before}{version.name}/{file['contentUrl']}"),
        "dcat:mediaType": {
            "@id": _MEDIA_TYPES + _REGISTERED.get(file["encodingFormat"], file["encodingFormat"]),
            "@type": "dct:MediaType",
        },
        "dcat:byteSize": {"@value": file["contentSize"].removesuffix(" B"), "@type": "xsd:nonNegativeInteger"},
        "spdx:checksum": {
            "@type": "spdx:Checksum",
            "spdx:algorithm": {"@id": "spdx:checksumAlgorithm_sha256", "@type": "spdx:ChecksumAlgorithm"},
            "spdx:checksumValue": {"@value": file["sha256"], "@type": "xsd:hexBinary"},
        },
    }


class CatalogueOption(StrEnum):
    """The forms of a catalogue."""

    croissant = "croissant"
    dcat = "dcat"


class CatalogUnwritable(Refused):
    """The catalogue cannot be written where it was asked for."""


def catalog(
    to: Annotated[Path, typer.Option(metavar="FILE", help="Where to write it (JSON-LD); replaced as a whole.")],
    form: Annotated[
        CatalogueOption, typer.Option("--format", help="Croissant datasets, or DCAT-AP 3.")
    ] = CatalogueOption.croissant,
    base_url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Where the store is served; addresses are relative to FILE without it."),
    ] = None,
    workspace: At = None,
    as_json: AsJson = False,
) -> None:
    """Write a catalogue of all published versions, for dataset search and data portals.

    Withdrawn versions are listed without their files. What does not lie in the
    store as it was published is left out, and named.

    Examples:

        sudare releases catalog --to releases/catalog.json

        sudare releases catalog --to site/catalog.json --base-url https://example.org/releases --format dcat
    """
    around = workspace_at(workspace)
    store, publisher = around.releases, None if around.publisher is None else around.publisher.curator
    with ledger_at(workspace) as ledger:
        versions, left_out = describe(ledger.versions(), store)
    made = catalogue(versions, before=address(store, to, base_url), form=form.value, publisher=publisher)
    _write(to, readable_json(made))
    payload = {"file": str(to), "versions": [each.name for each in versions], "left_out": list(left_out)}
    undeclared = form is CatalogueOption.dcat and publisher is None

    def people(console: Console) -> None:
        console.print(f"{len(versions)} {'version' if len(versions) == 1 else 'versions'} in {to}")
        if left_out:
            print_facts(console, [("left out", ", ".join(left_out) + ": not in the store as published")])
        if undeclared:
            remedy = "DCAT-AP asks for one: declare `curator` under [publisher] in sudare.toml"
            print_facts(console, [("publisher", f"nobody is declared. {remedy}")])

    answer(payload, people, as_json=as_json)


def _write(path: Path, content: bytes) -> None:
    """Replace the file as a whole, so that no reader sees half of it."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    except OSError as error:
        found = error.strerror or type(error).__name__
        finding = Finding(str(path), "--to", found, "a file that can be written", "name another")
        raise CatalogUnwritable([finding]) from None
