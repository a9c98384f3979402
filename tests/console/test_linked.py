"""Linked tables: what the look tells of rows that a link leaves out, and `sudare run` of the example."""

import csv
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from console.main import execute
from flows.prefect_runs.server import PrefectServer
from tasks.storage.workspace.settings import Workspace
from tests.console.conftest import Place, Typed

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "households"
LINK = "person.household_id → household.household_id"


class Town:
    """The shipped households in a workspace with an account; the keys of some people may be written otherwise."""

    def __init__(self, root: Path) -> None:
        self.example = root / "households"
        shutil.copytree(EXAMPLE, self.example)
        self.workspace = Workspace.create(root / "w")
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
def town(tmp_path: Path) -> Town:
    return Town(tmp_path)


def test_the_share_of_a_link_is_one_of_the_rows_delivered(town: Town, typed: Typed):
    """Three people of ten lead nowhere: 30 %, and not three for seven that are kept."""
    number = town.rewrite(lambda i, key: f"lost{i}" if i % 10 < 3 else key)
    said = typed("check", str(town.example / "people.yaml"), at=town.workspace)
    [line] = [each for each in said.out.splitlines() if LINK in each and "→ left out" in each]
    assert number % 10 == 0
    assert "30 % → left out" in line


def _some_without(i: int, key: str) -> str:
    return "" if i % 10 < 3 else key


@pytest.mark.long
def test_people_without_a_household_are_told_and_marked(town: Town, typed: Typed):
    """They are left out, so `check` ends as for keys that nobody has: exit 1, a mark, and what to do."""
    number = town.rewrite(_some_without)
    spec = str(town.example / "people.yaml")
    said = typed("check", spec, at=town.workspace)
    assert said.code == 1
    [line] = [each for each in said.out.splitlines() if LINK in each and "left out" in each and "30 %" in each]
    assert line.startswith("!")
    assert f"! more than 1 % of the rows are left out: {LINK}" in said.out
    assert "give these rows a key" in said.out
    told = typed("check", spec, "--json", at=town.workspace).json
    assert told["fits"] is False
    [link] = [each for each in told["columns"] if each["column"] == LINK]
    assert 0 <= link["null"] - number * 3 // 10 <= 1  # one of the shipped rows has none either
    assert 0.3 <= link["share"] < 0.31
    page = Path(told["page"])
    assert f"More than 1 % of the rows are left out: {LINK}" in page.read_text()


@pytest.mark.long
def test_one_person_without_a_household_asks_nothing(town: Town, typed: Typed):
    """The shipped rows: below the share it is shown and no more, and so are missing incomes that are added up."""
    told = typed("check", str(town.example / "people.yaml"), "--json", at=town.workspace)
    assert (told.code, told.json["fits"]) == (0, True)
    shares = {each["column"]: (each["null"], each["share"]) for each in told.json["columns"]}
    assert shares[LINK][0] > 0
    null, share = shares["person.income → household_income"]
    assert null > 0.01 * 2510 > share


@pytest.mark.usefixtures("served")
def test_a_run_without_a_terminal_stops_where_people_have_no_household(town: Town, typed: Typed):
    """Nothing is charged until the flag accepts it; what it says names neither the link nor the share."""
    town.rewrite(_some_without)
    spec = str(town.example / "people.yaml")
    said = typed("run", spec, at=town.workspace)
    assert (said.code, town.charges()) == (1, 0)
    assert "--accept-misfits" in said.err
    for private in ("person.household_id", "30", "left out"):
        assert private not in said.err.replace(str(town.example.parent), ""), private
    said = typed("run", spec, "--accept-misfits", at=town.workspace)
    assert (said.code, town.charges()) == (0, 1), said.err


HOUSEHOLDS = Path(__file__).resolve().parents[2] / "examples" / "households"


def test_both_bases_of_the_example_are_released_and_verify(
    shared: Place, served: PrefectServer, typed: Typed, tmp_path: Path
):
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
