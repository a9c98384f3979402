"""The look at linked tables: rows that a link leaves out are told to the operator, and asked about."""

from __future__ import annotations

import csv
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from console.main import execute
from tasks.storage.workspace.settings import Workspace
from tests.console.conftest import Typed

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "households"
LINK = "person.household_id → household.household_id"


class Town:
    """The shipped households in a workspace with an account; the keys of some people may be written otherwise."""

    def __init__(self, root: Path, prefect_home: Path) -> None:
        self.example = root / "households"
        shutil.copytree(EXAMPLE, self.example)
        self.workspace = Workspace.create(root / "w")
        shutil.copytree(prefect_home, self.workspace.prefect_home)
        people = ("--population", "households", "--block", "2026", "--unit", "household_id")
        cap = ("--epsilon", "9", "--delta", "0", "--calculus", "pure", "--adjacency", "add_remove")
        bound = ("--source", str(self.example / "data"), "--workspace", str(self.workspace.root))
        assert execute(["budget", "open", "households-2026", *people, *cap, *bound]) == 0

    @property
    def people(self) -> Path:
        return self.example / "data" / "person.csv"

    def rewrite(self, key: Callable[[int, str], str]) -> int:
        """Write the keys of people in another way, and return how many people there are."""
        with self.people.open() as file:
            header, *rows = csv.reader(file)
        with self.people.open("w", newline="") as file:
            csv.writer(file).writerows([header, *([key(i, row[0]), *row[1:]] for i, row in enumerate(rows))])
        return len(rows)

    def charges(self) -> int:
        with sqlite3.connect(self.workspace.private / "ledger.sqlite") as ledger:
            [(count,)] = ledger.execute("select count(*) from charges").fetchall()
        return int(count)


@pytest.fixture
def town(tmp_path: Path, prefect_home: Path) -> Town:
    return Town(tmp_path, prefect_home)


def test_the_share_of_a_link_is_one_of_the_rows_delivered(town: Town, typed: Typed) -> None:
    """Three people of ten lead nowhere: 30 %, and not three for seven that are kept."""
    number = town.rewrite(lambda i, key: f"lost{i}" if i % 10 < 3 else key)
    said = typed("check", str(town.example / "people.yaml"), at=town.workspace)
    [line] = [each for each in said.out.splitlines() if LINK in each and "left out" in each]
    assert number % 10 == 0
    assert "30 % → left out" in line
