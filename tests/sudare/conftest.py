"""A workspace with an account for rows in memory, made once, and the rows of the example."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import sudare

ADULT = Path(__file__).parents[2] / "examples" / "adult"
TABLES = [{"by": ["sex"], "of": ["count", {"mean": "age"}]}]


@dataclass(frozen=True)
class House:
    """A workspace, its account, the contract, rows, and the keys of a spec."""

    ws: sudare.Workspace
    account: sudare.Account
    contract: sudare.Contract
    rows: pl.DataFrame

    def keys(self, release: str, **changes: Any) -> dict[str, Any]:
        charge = {"account": "adults", "epsilon": "0.25", "delta": 0}
        product = {"kind": "statistics", "mechanism": "laplace", "tables": TABLES}
        return {"release": release, "contract": self.contract, "charge": charge, "product": product} | changes

    def charged(self) -> int:
        return len(self.account.to_json()["charges"])


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SUDARE_WORKSPACE", "SUDARE_LEDGER_URL", "PREFECT_API_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory, prefect_home: Path) -> Iterator[House]:
    """One for all tests of a process; each test has releases of its own in it."""
    ws = made(tmp_path_factory.mktemp("house") / "w", prefect_home)
    account = ws.open_account(
        "adults",
        population="adults",
        block=1994,
        unit="row",
        adjacency="add_remove",
        calculus="pure",
        epsilon=8,
        source="adult",
    )
    yield House(
        ws, account, sudare.Contract.load(ADULT / "adult.odcs.yaml"), pl.read_parquet(ADULT / "adult.parquet")
    )
    ws.close()


def made(folder: Path, prefect_home: Path) -> sudare.Workspace:
    """Make a workspace, with a Prefect database that was made before."""
    ws = sudare.Workspace.init(folder)
    shutil.copytree(prefect_home, folder / ".sudare" / "prefect")
    return ws


@pytest.fixture(scope="session")
def released(house: House) -> sudare.Release:
    return house.ws.run(house.keys("by-sex"), source=house.rows)
