"""A workspace in Python: runs from every kind of table, once each, by the flow and the ledger of the command."""

import asyncio
import os
import pickle
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

import sudare
from console.main import execute
from sudare.delivery import rows_file
from tasks.storage.workspace.settings import Workspace as Place
from tests.sudare.conftest import ADULT, TABLES, House, made

pytestmark = pytest.mark.services


def test_a_release_from_memory_is_one_of_the_ledger_s_and_verifies(house: House, released: sudare.Release):
    """The command lists, shows and verifies what Python has published: there is one pipeline."""
    assert (released.name, released.version, released.repeated) == ("by-sex", 1, False)
    assert execute(["releases", "show", "by-sex", "--workspace", str(house.ws.path)]) == 0
    assert execute(["verify", str(released.folder), "--key", str(house.ws.public_key)]) == 0
    assert execute(["budget", "history", "--verify", "--workspace", str(house.ws.path)]) == 0
    assert len(released.verify().rules) == 10


def test_no_row_stays_behind(house: House, released: sudare.Release):
    """The rows lay in the private folder, and are gone; the folder is the owner's alone."""
    folder = house.ws.path / ".sudare" / "sources"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [path.name for path in folder.iterdir()] == ["adult.lock"]
    assert not list((house.ws.path / ".sudare" / "runs").glob("*/snapshot*"))


def test_the_same_rows_from_any_library_are_the_same_run(house: House, released: sudare.Release):
    """Polars first; then pandas, Arrow and DuckDB find the version, draw nothing and are charged nothing."""
    before = house.charged()
    connection = duckdb.connect()
    arrow = house.rows.to_arrow()
    relation = connection.from_arrow(arrow)
    for rows in (house.rows.to_pandas(), arrow, relation, house.rows):
        again = house.ws.run(house.keys("by-sex"), source=rows)
        assert (again.version, again.repeated) == (1, True)
    assert house.charged() == before


def test_a_run_works_inside_a_running_event_loop(house: House):
    """A kernel runs its cells there."""

    async def cell() -> sudare.Release:
        return house.ws.run(house.keys("in-a-loop"), source=house.rows)

    assert asyncio.run(cell()).version == 1


KERNEL = """
class Shell:
    config = {"IPKernelApp": {}}

def get_ipython():
    return Shell()
"""


def test_duckdb_opens_where_it_takes_the_process_for_a_notebook_without_widgets(tmp_path: Path):
    """It refuses a progress bar there, on which nothing depends. It asks a module IPython, as a kernel has it."""
    (tmp_path / "IPython.py").write_text(KERNEL)
    code = (
        "import IPython, duckdb, sys, pathlib\n"
        "from tasks.storage.duckdb_session import connect\n"
        "try: duckdb.sql('SET enable_progress_bar = true'); print('not taken for one')\n"
        "except duckdb.Error: print('taken for one')\n"
        "with connect(None, memory_limit='1GB', spill=pathlib.Path(sys.argv[1])) as session:\n"
        "    print(session.execute(\"SELECT current_setting('TimeZone')\").fetchall())"
    )
    path = f"{tmp_path}{os.pathsep}{Path(sudare.__file__).parents[1]}"
    command = [sys.executable, "-c", code, str(tmp_path / "spill")]
    said = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert said.stdout == "taken for one\n[('UTC',)]\n", said.stderr


def test_rows_that_changed_under_the_name_are_refused_until_they_are_wanted(house: House):
    """Another version is another charge; the refusal says how to ask for it in Python."""
    house.ws.run(house.keys("changing"), source=house.rows)
    before = house.charged()
    with pytest.raises(sudare.SecondVersion, match=r"supersede=True") as refused:
        house.ws.run(house.keys("changing"), source=house.rows.head(40_000))
    assert "nothing was charged" in refused.value.__notes__[0]
    assert "40" not in str(refused.value)
    assert house.charged() == before
    assert house.ws.run(house.keys("changing"), source=house.rows.head(40_000), supersede=True).version == 2


def test_a_yaml_file_with_a_source_of_its_own_runs_as_by_the_command(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Paths in it count from its folder, wherever Python is."""
    (tmp_path / "data").mkdir()
    for name in ("adult.odcs.yaml", "adult.parquet"):
        (tmp_path / "data" / name).write_bytes((ADULT / name).read_bytes())
    text = (ADULT / "statistics.yaml").read_text().replace("adult-1994", "adults")
    (tmp_path / "data" / "spec.yaml").write_text(text)
    house.account.bind(tmp_path / "data" / "adult.parquet")
    monkeypatch.chdir(tmp_path)
    assert house.ws.plan("data/spec.yaml").fits
    assert house.ws.run(Path("data/spec.yaml")).verify().key_id


TYPING_ERROR = {"kind": "statistics", "mechanism": "laplce", "tables": TABLES}
MISFITS = pl.lit("martian").alias("sex")
REFUSED: dict[str, tuple[Callable[[House], Any], dict[str, Any], str]] = {
    "the account does not exist": (
        lambda house: house.rows,
        {"charge": {"account": "nobody", "epsilon": 1, "delta": 0}},
        r"ws\.open_account",
    ),
    "the account is exhausted": (
        lambda house: house.rows,
        {"charge": {"account": "adults", "epsilon": 90, "delta": 0}},
        r"ask for epsilon",
    ),
    "a column that the contract lacks": (
        lambda house: house.rows.with_columns(pl.lit(7).alias("secret")),
        {},
        r"'secret', which the contract does not have",
    ),
    "a column too few": (lambda house: house.rows.drop("age"), {}, r"column 'age'"),
    "no rows": (lambda house: house.rows.clear(), {}, r"at least one row"),
    "rows that do not fit": (lambda house: house.rows.with_columns(MISFITS), {}, r"accept_misfits=True"),
    "a lazy frame": (lambda house: house.rows.lazy(), {}, r"collect\(\) it"),
    "no source": (lambda house: None, {}, r"run\(spec, source=frame\)"),
    "rows and a source": (lambda house: house.rows, {"source": {"path": "a.parquet"}}, r"one of the two"),
    "a typing error in a value": (lambda house: house.rows, {"product": TYPING_ERROR}, r"write 'laplace'"),
    "a typing error in a key": (lambda house: house.rows, {"relese": "x"}, r"write 'release'"),
}


@pytest.mark.parametrize(("rows", "changes", "said"), list(REFUSED.values()), ids=list(REFUSED))
def test_what_cannot_be_released_is_refused_in_words_and_charges_nothing(
    house: House, rows: Callable[[House], Any], changes: dict[str, Any], said: str
):
    """No file, no line and no option of a command line is named, and no value of a row."""
    before = house.charged()
    with pytest.raises(sudare.Refused, match=said) as refused:
        house.ws.run(house.keys("refused", **changes), source=rows(house))
    told = str(refused.value) + " ".join(getattr(refused.value, "__notes__", ()))
    assert not re.search(r"\.yaml:\d|(?<!\S)--[a-z]|sudare [a-z]+ |martian|specs/", told)
    assert house.charged() == before
    assert not rows_file(Place.open(house.ws.path), "adult").exists()


def test_rows_that_are_bound_to_nobody_are_refused_with_the_call_that_binds_them(house: House):
    with pytest.raises(sudare.LedgerRefusal) as refused:
        house.ws.run(house.keys("unbound"), source=house.rows, name="visits")
    [finding] = refused.value.findings
    assert finding.remedy == "bind it: ws.account('adults').bind('visits')"
    assert finding.found == "source 'visits', bound to nobody"


def test_an_account_whose_source_is_of_other_people_is_not_opened(house: House):
    """Opening and binding are one step of the ledger."""
    with pytest.raises(sudare.LedgerRefusal, match="a source never changes its people"):
        house.ws.open_account(
            "others",
            population="others",
            block=1994,
            unit="row",
            adjacency="add_remove",
            calculus="pure",
            epsilon=1,
            source="adult",
        )
    assert [account.name for account in house.ws.accounts] == ["adults"]


def test_a_copy_is_bound_to_no_other_people(house: House, tmp_path: Path):
    """As by the command, where a source is bound and where an account is opened."""
    origin, copy = tmp_path / "rows.csv", tmp_path / "copy.csv"
    for path in (origin, copy):
        path.write_text("x\n1\n")
    house.account.bind(origin)
    terms: Any = {"unit": "row", "adjacency": "add_remove", "calculus": "pure", "epsilon": 1, "source": copy}
    for refused in (
        lambda: house.ws.bind(copy, population="others", block=1994),
        lambda: house.ws.open_account("others", population="others", block=1994, **terms),
    ):
        with pytest.raises(sudare.LedgerRefusal, match=f"the bytes of {origin}"):
            refused()
    assert [account.name for account in house.ws.accounts] == ["adults"]


@pytest.mark.parametrize("name", ["../adult", "My Table", "a.parquet", "x" * 64])
def test_a_name_that_no_file_could_have_is_refused(name: str, house: House):
    with pytest.raises(sudare.SourceUnreadable, match="lower-case"):
        house.ws.run(house.keys("named"), source=house.rows, name=name)


@pytest.mark.parametrize("place", ["specs", ".sudare/sources"])
def test_a_workspace_that_cannot_be_written_is_refused_before_anything_is_charged(
    place: str, house: House, tmp_path: Path, prefect_home: Path
):
    """A file stands where the folder has to be: the same answer of the disk for every user, root too."""
    ws = made(tmp_path / "w", prefect_home)
    (ws.path / place).write_text("")
    account = ws.open_account(
        "adults", population="a", block=1994, unit="row", adjacency="add_remove", calculus="pure", epsilon=1
    ).bind("adult")
    with pytest.raises(sudare.Refused, match=r"a folder that can be written\n.*nothing was charged"):
        ws.run(house.keys("unwritable"), source=house.rows)
    assert account.to_json()["charges"] == []


def test_a_workspace_is_opened_again_and_never_pickled(house: House, released: sudare.Release, tmp_path: Path):
    again = sudare.Workspace(house.ws.path)
    assert "by-sex" in {each.name for each in again.releases}
    assert again.release("by-sex").version == 1
    assert [account.name for account in again.accounts] == ["adults"]
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(again)
    with pytest.raises(sudare.Refused, match=r"Workspace\.init"):
        sudare.Workspace(tmp_path)
    with pytest.raises(sudare.Refused, match="by-sex v1"):
        again.release("nothing")


def test_a_plan_reads_no_row_and_says_whether_the_account_holds_it(house: House):
    plan = house.ws.plan(house.keys("planned"))
    assert (str(plan.epsilon), plan.fits, plan.warnings) == ("0.25", True, ())
    assert plan["statistics"][0]["table"] == "sex"
    too_much = house.keys("planned", charge={"account": "adults", "epsilon": 11, "delta": 0})
    unfit = house.ws.plan(too_much)
    assert not unfit.fits
    assert any("large-epsilon" in warning for warning in unfit.warnings)
    assert "does not fit" in repr(unfit)
    aimed = house.ws.plan(house.keys("planned"), aims=["sex: ±100"])
    assert aimed["aims"]["aims"][0]["half_width_95"] <= 100
    assert str(aimed.epsilon) == aimed["aims"]["epsilon"] != "0.25"
