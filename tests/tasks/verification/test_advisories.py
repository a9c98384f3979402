"""Advisories: they concern versions by what their records state, and `verify` and `doctor` print those that do."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from console.examination import examine
from tasks.records import software
from tasks.storage.workspace.settings import Workspace
from tasks.verification import advisories as listed
from tasks.verification.advisories import advisories, concerning
from tasks.verify import verify
from tests.worlds.versions import Version

FIRST = "SUDARE-2026-1"


def record_of(**changed: Any) -> dict[str, Any]:
    """What of a record is looked at: of an earlier code, ids in Parquet."""
    given: dict[str, Any] = {"code": "0" * 64, "version": "0.1.0", "format": "parquet", "unit": "id", "kind": "date"}
    given |= changed
    return {
        "declarations": {
            "software": {"packages": {"sudare": given["version"]}, "code": given["code"]},
            "source": None if given["format"] is None else {"format": given["format"]},
        },
        "replay": {
            "contract": {"unit": {"kind": given["unit"]}, "columns": [{"domain": {"kind": given["kind"]}}]},
        },
    }


@pytest.mark.parametrize(
    ("changed", "concerned"),
    [
        ({}, True),
        ({"format": "delta"}, True),
        ({"format": None}, True),
        ({"unit": "row", "kind": "text"}, True),
        ({"unit": "row"}, False),
        ({"format": "csv"}, False),
        ({"version": "0.2.0"}, False),
        ({"code": software.software().code}, False),
    ],
)
def test_an_advisory_concerns_what_an_affected_code_made_of_affected_sources(
    changed: dict[str, Any], concerned: bool
) -> None:
    assert [each.id for each in concerning(record_of(**changed))] == [FIRST] * concerned


def test_each_advisory_says_what_is_wrong_and_what_to_do() -> None:
    assert len({each.id for each in advisories()}) == len(advisories()) > 0
    for each in advisories():
        assert all((each.versions, each.formats, each.found.endswith("."), each.remedy.endswith(".")))


def test_verify_and_doctor_name_the_versions_that_it_concerns(
    versions: dict[str, Version], initialised: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version of people by id, held against the code that made it and against another one; one of rows."""
    shutil.copytree(initialised[0], tmp_path / "w")
    place = Workspace.open(tmp_path / "w")
    for name in ("town", "guild"):
        shutil.copytree(versions[name].folder, place.releases / name / "v1")
    made = json.loads((versions["guild"].folder / "record.json").read_bytes())["declarations"]["software"]
    of_here, here = (made["packages"]["sudare"],), software.software()
    advisory = replace(advisories()[0], versions=of_here, formats=("sqlite",))
    monkeypatch.setattr(listed, "advisories", lambda: (advisory,))
    for code in (made["code"], here.code):
        monkeypatch.setattr(software, "software", lambda code=code: replace(here, code=code))
        for name in ("town", "guild"):
            report = verify(versions[name].folder, public_key=versions[name].key)
            noted = any(note.startswith(f"ADVISORY {FIRST}") for note in report.notes)
            assert noted == (name == "guild" and code == here.code)
        seen = [each for each in examine(place, now=datetime.now(UTC)) if each.matter == "advisory"]
        told = [each.found.partition(":")[0] for each in seen]
        assert told == ([f"{FIRST} concerns guild v1"] if code == here.code else [])
