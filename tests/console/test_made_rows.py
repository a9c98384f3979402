"""The last words of `sudare run` say how many made-up rows there are; that there are none is said aloud."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from console.run import _print
from privacy.accounting.amounts import budget_used

README = Path(__file__).resolve().parents[2] / "README.md"

OUTCOME: dict[str, Any] = {
    **{"release": "few", "version": 1, "status": "published", "repeated": False, "copy": None},
    **{"epsilon": "1", "delta": "0", "account": "few", "epsilon_cap": "3", "account_delta": "0"},
    **{"also_charged": (), "can_give": None, "public_key_file": "key.pub", "used": "67 % of the budget is used"},
    **{"charged": "1", "remaining": "1", "cap": "3", "loss": "ε"},
}


def _version(folder: Path, replay: dict[str, Any]) -> Path:
    (folder / "record.json").write_text(json.dumps({"replay": {"product": {}, "draws": [], **replay}}))
    return folder


def _said(folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    _print(Console(width=200), {**OUTCOME, "folder": str(folder)})
    return capsys.readouterr().out


def test_the_number_of_made_up_rows_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As the record states it, with the parents of linked tables."""
    parents = {"table": "household", "number": 950}
    said = _said(_version(tmp_path, {"rows": {"number": 2400, "parents": parents}}), capsys)
    assert "made-up rows  2,400, 950 of household" in said
    assert "!" not in said


def test_no_made_up_row_is_said_aloud(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A header alone is published and charged: the noise is above the table."""
    said = _said(_version(tmp_path, {"rows": {"number": 0, "parents": None}}), capsys)
    assert "made-up rows  0\n" in said
    assert "! No made-up row is published: the noise is above the table." in said
    assert "sudare plan" in said


def test_the_one_loss_is_the_claim_and_the_one_share_what_is_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No second ε stands next to the claim: caps, units and what still fits are for `--exact`."""
    said = _said(tmp_path, capsys)
    assert said.count("ε = ") == 1
    assert "account   few: 67 % of the budget is used\n" in said
    _print(Console(width=200), {**OUTCOME, "folder": str(tmp_path)}, exact=True)
    exact = capsys.readouterr().out
    assert "cap             ε = 3 at δ = 0\n" in exact
    assert "can still give  nothing more of this kind\n" in exact


def test_the_readme_shows_what_a_run_says(capsys: pytest.CaptureFixture[str]) -> None:
    """Line by line, down to the account; ε = 1 under a cap of 3 is 33.4 % of the budget, rounded up."""
    [shown] = re.findall(r"^adult-tables v1 is published\n(?:\w+ .*\n)+", README.read_text("utf-8"), re.MULTILINE)
    told = {"release": "adult-tables", "account": "adult-1994", "used": budget_used(1, 3)}
    _print(Console(width=200), {**OUTCOME, **told, "folder": "build/demo/releases/adult-tables/v1"})
    assert capsys.readouterr().out.startswith(shown)


@pytest.mark.parametrize("replay", [{}, {"rows": None}, {"rows": [1]}])
def test_other_kinds_say_nothing_of_made_up_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], replay: dict[str, Any]
) -> None:
    assert "made-up" not in _said(_version(tmp_path, replay), capsys)


def test_a_version_whose_record_is_gone_says_nothing_of_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "made-up" not in _said(tmp_path, capsys)
