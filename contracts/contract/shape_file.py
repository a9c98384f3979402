"""Shapes from a GeoJSON file: a feature a place, whose code or label stands among its properties.

    region: {labels: {13: Tokyo, 14: Kanagawa}, shapes: regions.geojson}
    region: {values: [north, south], shapes: {file: regions.geojson, key: NAME, attribution: "..."}}

The file lies beside the contract, and goes where the contract goes.
Degrees become squares of a grid by whole-number arithmetic, so that every machine reads the same contract. Degrees of
longitude are narrowed by the cosine of the middle latitude, to two decimals. Shapes across the 180th meridian are not
joined.
Source: RFC 7946 (GeoJSON), sections 3.1.6, 3.1.7 and 4.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from math import cos, radians
from pathlib import Path
from typing import Any, Final

from contracts.contract.shapes import SIDE, Outline, PlaceShapes
from contracts.contract.short_form import contract_document
from contracts.domains.domain import NULL_LABEL
from contracts.domains.kinds import Domain
from contracts.reading.scalars import Problem, nearest, refuse, show, word_list

LARGEST: Final = 20_000_000
_KEYS: Final = ("file", "key", "attribution")
_FINE: Final = 7
"""Decimals of a degree that are kept: about a centimetre."""
_DOT: Final = 4
"""A place that is smaller than a square of the grid is drawn so large, in squares."""
_FEWEST: Final = 3
"""Points of a ring."""
_SIMPLIFY: Final = "simplify the shapes: a map is a thousand squares across"
_WGS: Final = "write the file anew, in WGS 84 longitude and latitude"
Ring = list[tuple[int, int]]


def read_shapes(written: Any, folder: Path, column: str, domain: Domain) -> PlaceShapes:
    """Read the shapes that a contract names.

    Args:
        written: the file, or a mapping of file, key and attribution.
        folder: of the contract.
        column: whose places they are; features name their place under this key where no other is written.
        domain: its values.
    Raises:
        PydanticCustomError: with the problems.
    """
    terms = {"file": written} if isinstance(written, str) else written
    if not isinstance(terms, dict) or not isinstance(terms.get("file"), str) or not set(terms) <= set(_KEYS):
        refuse([Problem(show(written), "a file of GeoJSON, or file, key and attribution", "write shapes: FILE")])
    key, file = str(terms.get("key") or column), folder / terms["file"]
    if Path(terms["file"]).name != terms["file"] or file.suffix != ".geojson":
        refuse([Problem(show(terms["file"]), "the name of a .geojson file beside the contract", "copy it there")])
    rings: dict[str, list[Ring]] = {}
    names = _names(domain)
    for place, feature in enumerate(_features(file), start=1):
        label = _label(feature, key, names, f"feature {place} of {file.name}")
        rings.setdefault(label, []).extend(_rings(feature, f"feature {place} of {file.name}"))
    nowhere = (NULL_LABEL, domain.rest_label)
    missing = [label for label in domain.labels if label not in rings and label not in nowhere]
    if missing:
        found = f"no shape of {', '.join(missing[:3])}" + (f" and {len(missing) - 3} more" if missing[3:] else "")
        refuse([Problem(found, f"a feature for every place, named under {key!r}", f"add it to {file.name}")])
    ordered = {label: rings[label] for label in domain.labels if label in rings}
    return _on_grid(ordered, terms.get("attribution"))


def shape_files(contract: Path) -> list[str]:
    """Name the files of shapes that a contract's file names, in its order."""
    found: list[str] = []
    waiting: list[Any] = [contract_document(contract).text()]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, dict) and node.get("property") == "shapes":
            value = node.get("value")
            found.append(str(value.get("file") if isinstance(value, dict) else value))
        elif isinstance(node, dict | list):
            waiting += node.values() if isinstance(node, dict) else node
    return list(dict.fromkeys(found))


def _names(domain: Domain) -> dict[str, str]:
    """Return the label of each label and code."""
    names = {label: label for label in domain.labels}
    for label, codes in zip(domain.labels, domain.coded_texts, strict=False):
        names |= {code: label for code in codes if code not in names}
    return names


def _features(file: Path) -> list[Any]:
    allowed = "a GeoJSON file, a FeatureCollection"
    if not file.is_file():
        refuse([Problem(f"{file.name}, which is no file", allowed, "put it beside the contract")])
    size = file.stat().st_size
    if size > LARGEST:
        refuse([Problem(f"{file.name} of {size:,} bytes", f"at most {LARGEST:,}", _SIMPLIFY)])
    try:
        document = json.loads(file.read_bytes(), parse_float=Decimal, parse_constant=Decimal)
    except OSError as error:
        refuse([Problem(f"{file.name}, which cannot be read: {error.strerror}", allowed)])
    except (ValueError, RecursionError):
        refuse([Problem(f"{file.name}, which is no JSON", allowed)])
    features = document.get("features") if isinstance(document, dict) else None
    if not isinstance(features, list) or document.get("type") != "FeatureCollection" or not features:
        refuse([Problem(f"{file.name} without features", allowed)])
    return features


def _label(feature: Any, key: str, names: dict[str, str], where: str) -> str:
    properties = feature.get("properties") if isinstance(feature, dict) else None
    known = properties if isinstance(properties, dict) else {}
    if not isinstance(known.get(key), str | int):
        remedy = nearest(key, known) or f"write `key:`, one of {word_list(sorted(known)[:8])}"
        refuse([Problem(f"{where} without {key!r}", f"the code or label of a place under {key!r}", remedy)])
    name = str(known[key])
    if name not in names:
        remedy = nearest(name, names) or "drop the feature, or add the place to the column"
        refuse([Problem(f"{where}, of {show(name)}", "places of the column", remedy)])
    return names[name]


def _rings(feature: Any, where: str) -> list[Ring]:
    """Return the rings of a feature, in 10^-7 degrees; at least one, each of three points or more."""
    geometry = feature.get("geometry")
    kind = geometry.get("type") if isinstance(geometry, dict) else None
    if kind not in ("Polygon", "MultiPolygon"):
        refuse([Problem(f"{where} with the geometry {show(kind)}", "Polygon or MultiPolygon", "drop it")])
    polygons = geometry.get("coordinates")
    try:
        nested = polygons if kind == "MultiPolygon" else [polygons]
        rings = [[_point(point) for point in ring] for polygon in nested for ring in polygon]
    except (TypeError, KeyError, IndexError, ValueError, ArithmeticError):
        rings = []
    if not rings or min(map(len, rings)) < _FEWEST:
        refuse([Problem(f"{where} with other coordinates", "rings of longitudes and latitudes in degrees", _WGS)])
    return rings


def _point(point: Sequence[Any]) -> tuple[int, int]:
    """Return longitude and latitude in 10^-7 degrees."""
    east, north = (Decimal(each) for each in point[:2])
    if not (abs(east) <= 180 and abs(north) <= 90):
        raise ValueError("no degrees")
    return int(round(east, _FINE).scaleb(_FINE)), int(round(north, _FINE).scaleb(_FINE))


def _on_grid(rings: dict[str, list[Ring]], attribution: str | None) -> PlaceShapes:
    """Put all rings on a grid whose longer side has `SIDE` squares."""
    points = [point for each in rings.values() for ring in each for point in ring]
    west, north = min(east for east, _ in points), max(north for _, north in points)
    width, height = max(east for east, _ in points) - west, north - min(north for _, north in points)
    narrow = max(1, round(100 * cos(radians((north - height / 2) / 10**_FINE))))
    longest = max(width * narrow, height * 100)
    if not longest:
        refuse([Problem("shapes that are one point", "outlines of places", _WGS)])

    def square(point: tuple[int, int]) -> tuple[int, int]:
        across, down = (point[0] - west) * narrow, (north - point[1]) * 100
        return (2 * SIDE * across + longest) // (2 * longest), (2 * SIDE * down + longest) // (2 * longest)

    placed = {label: [[square(point) for point in ring] for ring in each] for label, each in rings.items()}
    right, low = square((west + width, north - height))
    outlines = tuple(Outline(label=label, path=_path(each)) for label, each in placed.items())
    return PlaceShapes(width=max(right, 1), height=max(low, 1), attribution=attribution, outlines=outlines)


def _path(rings: Sequence[Ring]) -> str:
    """Write rings as a path; what is smaller than a square of the grid is left out, and a place of such a dot."""
    thinned = [
        [point for point, last in zip(ring, [*ring[-1:], *ring], strict=False) if point != last] for ring in rings
    ]
    drawn = [ring for ring in thinned if len(set(ring)) > 2]
    if not drawn:
        x, y = rings[0][0]
        drawn = [[(x, y), (x + _DOT, y), (x + _DOT, y + _DOT), (x, y + _DOT)]]
    return "".join("M" + "L".join(f"{x} {y}" for x, y in ring) + "Z" for ring in drawn)
