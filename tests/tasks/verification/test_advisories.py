"""Advisories: they concern versions by what their records state, and `verify` and `doctor` print those that do."""

import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from console.workspace import examine
from tasks.storage.workspace.settings import Workspace
from tasks.verification import advisories as listed
from tasks.verification.advisories import advisories, concerning
from tasks.verify import verify
from tests.worlds.versions import Version

FIRST = "SUDARE-2026-1"


def record_of(**changed: Any) -> dict[str, Any]:
    """What of a record is looked at: of an earlier code, ids in Parquet."""
    given: dict[str, Any] = {"version": "0.1.0", "format": "parquet", "unit": "id", "kind": "date", "mended": False}
    given |= changed
    return {
        "declarations": {
            **({} if given["mended"] else {"gate_failures": 0}),
            "software": {"packages": {"sudare": given["version"]}},
            "source": None if given["format"] is None else {"format": given["format"]},
        },
        "replay": {"contract": {"unit": {"kind": given["unit"]}, "columns": [{"domain": {"kind": given["kind"]}}]}},
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
        ({"mended": True}, False),
    ],
)
def test_an_advisory_concerns_what_affected_code_made_of_affected_sources(changed: dict[str, Any], concerned: bool):
    assert [each.id for each in concerning(record_of(**changed))] == [FIRST] * concerned


def test_each_advisory_says_what_is_wrong_and_what_to_do():
    assert len({each.id for each in advisories()}) == len(advisories()) > 0
    for each in advisories():
        assert all((each.versions, each.formats, each.found.endswith("."), each.remedy.endswith(".")))


def test_verify_and_doctor_name_the_versions_that_it_concerns(
    versions: dict[str, Version], initialised: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A version of people by id, against an advisory that concerns it and one that does not; one of rows."""
    shutil.copytree(initialised[0], tmp_path / "w")
    place = Workspace.open(tmp_path / "w")
    for name in ("town", "guild"):
        shutil.copytree(versions[name].folder, place.releases / name / "v1")
    made = json.loads((versions["guild"].folder / "record.json").read_bytes())["declarations"]["software"]
    advisory = replace(advisories()[0], versions=(made["packages"]["sudare"],), formats=("sqlite",))
    for states in ("gate_failures", "software"):
        monkeypatch.setattr(listed, "advisories", lambda states=states: (replace(advisory, states=states),))
        for name in ("town", "guild"):
            report = verify(versions[name].folder, public_key=versions[name].key)
            noted = any(note.startswith(f"ADVISORY {FIRST}") for note in report.notes)
            assert noted == (name == "guild" and states == "software")
        seen = [each for each in examine(place, now=datetime.now(UTC)) if each.matter == "advisory"]
        told = [each.found.partition(":")[0] for each in seen]
        assert told == ([f"{FIRST} concerns guild v1"] if states == "software" else [])
