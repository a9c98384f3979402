"""The last words of `sudare run` say how many made-up rows there are; that there are none is said aloud."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from console.run import _print, made_rows

OUTCOME: dict[str, Any] = {
    **{"release": "few", "version": 1, "status": "published", "repeated": False, "copy": None},
    **{"epsilon": "1", "delta": "0", "account": "few", "epsilon_cap": "3", "account_delta": "0"},
    **{"also_charged": (), "can_give": None, "public_key_file": "key.pub"},
}


def _version(folder: Path, replay: dict[str, Any]) -> Path:
    (folder / "record.json").write_text(json.dumps({"replay": replay}))
    return folder


def _said(folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    _print(Console(width=200), {**OUTCOME, "folder": str(folder)})
    return capsys.readouterr().out


def test_the_number_of_made_up_rows_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As the record states it, with the parents of linked tables."""
    parents = {"table": "household", "number": 950}
    said = _said(_version(tmp_path, {"rows": {"number": 2400, "parents": parents}}), capsys)
    assert "made-up rows    2,400, 950 of household" in said
    assert "!" not in said


def test_no_made_up_row_is_said_aloud(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A header alone is published and charged: the noise is above the table."""
    said = _said(_version(tmp_path, {"rows": {"number": 0, "parents": None}}), capsys)
    assert "made-up rows    0\n" in said
    assert "! No made-up row is published: the noise is above the table." in said
    assert "sudare plan" in said


@pytest.mark.parametrize("replay", [{}, {"rows": None}, {"rows": [1]}])
def test_other_kinds_say_nothing_of_made_up_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], replay: dict[str, Any]
) -> None:
    assert "made-up" not in _said(_version(tmp_path, replay), capsys)


def test_a_version_whose_record_is_gone_says_nothing_of_rows(tmp_path: Path) -> None:
    assert made_rows(tmp_path) == {}
