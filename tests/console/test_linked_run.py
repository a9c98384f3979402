"""`sudare run` of the example of linked tables, through Prefect, to a version that verifies."""

from __future__ import annotations

import shutil
from pathlib import Path

from flows.prefect_runs.server import PrefectServer
from tests.console.conftest import Place, Typed

HOUSEHOLDS = Path(__file__).resolve().parents[2] / "examples" / "households"


def test_both_bases_of_the_example_are_released_and_verify(
    shared: Place, served: PrefectServer, typed: Typed, tmp_path: Path
) -> None:
    """One account pays for both, since the same households are behind them."""
    assert served.embedded
    shutil.copytree(HOUSEHOLDS, tmp_path / "h")
    at = ("--workspace", str(shared.workspace.root))
    people = ("--population", "households", "--block", "2026", "--unit", "household_id", "--adjacency", "add_remove")
    cap = ("--calculus", "pure", "--epsilon", "2", "--delta", "0", "--source", str(tmp_path / "h" / "data"))
    assert typed("budget", "open", "households-2026", *people, *cap, *at).code == 0
    for spec, release in (("size.yaml", "household-size"), ("people.yaml", "people-by-household")):
        said = typed("run", str(tmp_path / "h" / spec), *at)
        assert said.code == 0, said.err
        version = shared.workspace.releases / release / "v1"
        assert typed("verify", str(version), "--key", str(shared.workspace.public_key_file)).code == 0
    assert "households-2026: 100 % of the budget is used" in said.out
    assert len(typed("budget", "show", "households-2026", "--json", *at).json["charges"]) == 2
