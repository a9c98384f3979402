"""Rule 10, beyond the catalogue entry: what other programs and people read beside the record agrees with it.

`deployment.yaml`, `lineage.json` and `label.html` are made from record.json alone. Their main numbers are compared
with the record's whatever made them. Where the very code that made them runs here (`pages.words_of_this_code`), they
are made again and compared byte for byte. The pages of the record show the data too: `pages.check_pages`.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import yaml

from contracts.errors import Finding
from tasks.records.descriptions.description_files import DEPLOYMENT, FROM_RECORD, LABEL, LINEAGE
from tasks.records.model.manifest import Manifest
from tasks.records.record import RecordExplanation
from tasks.records.strict_json import LARGEST_JSON, read_json, shown
from tasks.verification.files.folder import VersionFolder
from tasks.verification.record_identity import DESCRIPTIONS, TRANSLATED

_MISDESCRIBED: Final = "the description says something else than the record: go by the record"
_LABELLED: Final = re.compile(r'<data value="([^"<]{1,80})">')


def check_descriptions(
    folder: VersionFolder, explanation: RecordExplanation, manifest: Manifest, sound: frozenset[str], *, again: bool
) -> list[Finding]:
    """Check the files that were made from the record.

    Args:
        folder: the version's folder.
        explanation: what the record tells people.
        manifest: the manifest.
        sound: names of the files whose checksums hold; others are not opened.
        again: whether this code made them, so that they must be the same byte for byte.
    """
    missing = sorted(DESCRIPTIONS - TRANSLATED - set(manifest.files))
    findings = [
        Finding(name, "the file", "nothing", "a description of the version", _MISDESCRIBED) for name in missing
    ]
    for name, make in FROM_RECORD.items():
        if name not in manifest.files or name not in sound:
            continue
        try:
            data = folder.read(name, limit=LARGEST_JSON)
        except OSError as error:
            findings.append(Finding(name, "the file", error.strerror or str(error), "a readable file", _MISDESCRIBED))
            continue
        wrong = list(_CHECKS[name](data, explanation.values))
        if again and not wrong and data != make(explanation):
            allowed = "byte for byte what this code makes of the record"
            wrong = [Finding(name, "the file", "other bytes", allowed, _MISDESCRIBED)]
        findings += wrong
    return findings


def _amount(value: Any) -> Decimal | None:
    """Read a number, or its text."""
    try:
        return None if isinstance(value, bool) else Decimal(str(value))
    except InvalidOperation:
        return None


def _follow(value: Any, *path: str | int) -> Any:
    """Follow a path through objects and lists; None where it does not lead on."""
    for step in path:
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and -len(value) <= step < len(value):
            value = value[step]
        else:
            return None
    return value


def _differences(name: str, pairs: list[tuple[str, Any, Any]]) -> Iterator[Finding]:
    for field, found, expected in pairs:
        if found != expected:
            yield Finding(name, field, shown(found), f"{shown(expected)}, as in record.json", _MISDESCRIBED)


def _check_deployment(data: bytes, fields: dict[str, Any]) -> Iterator[Finding]:
    try:
        entry = yaml.safe_load(data)
    except (yaml.YAMLError, ValueError, RecursionError):
        yield Finding(DEPLOYMENT, "the file", "what is no YAML", "an entry of the registry", _MISDESCRIBED)
        return
    parameters = ("deployment", "privacy_loss", "privacy_parameters")
    delta = _amount(fields.get("guarantee.delta"))
    epsilon, found = _amount(fields.get("guarantee.epsilon")), _amount(_follow(entry, *parameters, "epsilon"))
    pairs: list[tuple[str, Any, Any]] = [
        ("privacy_parameters.epsilon", _as_float(found), _as_float(epsilon)),
        ("privacy_parameters.delta", _as_float(_amount(_follow(entry, *parameters, "delta") or 0)), _as_float(delta)),
        ("product.name", _follow(entry, "deployment", "product", "name"), fields.get("identity.title")),
    ]
    yield from _differences(DEPLOYMENT, pairs)


def _as_float(amount: Decimal | None) -> float | None:
    """The registry's numbers are floating point: two amounts are told apart as far as these are."""
    return None if amount is None else float(amount)


def _check_lineage(data: bytes, fields: dict[str, Any]) -> Iterator[Finding]:
    event, findings = read_json(data, where=LINEAGE)
    yield from findings
    if event is None:
        return
    release, version = fields.get("identity.release_id"), fields.get("identity.version")
    privacy = ("run", "facets", "sudare_privacy")
    outputs = _follow(event, "outputs")
    listed = outputs if isinstance(outputs, list) else []
    stated = [
        (
            _follow(each, "name"),
            _follow(each, "facets", "sudare_digest", "sha256"),
            _follow(each, *_STATISTICS, "rowCount"),
        )
        for each in listed
    ]
    files = fields.get("output.files")
    expected = [
        (f"{release}/v{version}/{_follow(file, 'path')}", _follow(file, "sha256"), _follow(file, "rows"))
        for file in (files if isinstance(files, list) else [])
    ]
    yield from _differences(
        LINEAGE,
        [
            ("eventType", _follow(event, "eventType"), "COMPLETE"),
            ("job.name", _follow(event, "job", "name"), release),
            ("sudare_privacy.epsilon", _follow(event, *privacy, "epsilon"), fields.get("guarantee.epsilon")),
            ("sudare_privacy.delta", _follow(event, *privacy, "delta"), fields.get("guarantee.delta")),
            ("sudare_privacy.charged", _follow(event, *privacy, "charged"), fields.get("ledger.charged")),
        ],
    )
    if stated != expected:
        place = next((i for i, pair in enumerate(zip(stated, expected, strict=False)) if pair[0] != pair[1]), None)
        found = f"{len(stated)} files" if place is None else shown(stated[place][0])
        allowed = f"{len(expected)} files" if place is None else shown(expected[place][0])
        wanted = f"{allowed} with the digest and rows of record.json"
        yield Finding(LINEAGE, "outputs", found, wanted, _MISDESCRIBED)


_STATISTICS: Final = ("outputFacets", "outputStatistics")


def _check_label(data: bytes, fields: dict[str, Any]) -> Iterator[Finding]:
    found = [html.unescape(text) for text in _LABELLED.findall(data.decode("utf-8", "replace"))]
    stated = [str(fields.get(name)) for name in ("guarantee.epsilon", "guarantee.delta")]
    for name in ("guarantee.largest_posterior", "guarantee.largest_attribute"):
        beliefs = _follow(fields.get(name), "at_most")
        stated += map(str, beliefs.values() if isinstance(beliefs, dict) else ())
    pairs = [("ε and δ", found[:2], stated[:2]), ("beliefs after the release", found[2:], stated[2:])]
    yield from _differences(LABEL, [(name, ", ".join(told), ", ".join(meant)) for name, told, meant in pairs])


_CHECKS: Final = {DEPLOYMENT: _check_deployment, LINEAGE: _check_lineage, LABEL: _check_label}
