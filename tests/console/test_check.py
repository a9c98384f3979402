"""`sudare check` and the look of every run: a wrong contract is told to its operator, and to nobody else."""

import os
import pty
import shutil
import sqlite3
import stat
import subprocess
from collections.abc import Iterator
from fractions import Fraction
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from console.check import print_misfits
from console.main import execute
from contracts.errors import GateBroken
from flows.entrance import make_release
from flows.order import ReleaseOrder
from flows.outcome import Outcome
from flows.prefect_runs.server import PrefectServer, stop_lasting
from flows.prepare import MISFITS_GATE
from flows.release import Unattended, in_prefect
from tasks.records.page.language import languages
from tasks.records.record import published_explanation
from tasks.storage.workspace.settings import Workspace
from tasks.validation.misfits import ColumnMisfits, Misfits, page_file
from tests.conftest import served_by
from tests.console.conftest import COMMAND, Said, Typed

CONTRACT = """\
apiVersion: v3.1.0
kind: DataContract
id: people
name: People
version: 1.0.0
status: active
schema:
  - name: people
    logicalType: object
    physicalType: table
    customProperties:
      - property: privacy
        value: {unit: {kind: row, scope: block}, adjacency: add_remove, invariants: [],
          structural_zeros: [], gates: []}
    properties:
      - name: county
        logicalType: string
        customProperties:
          - property: domain
            value: {kind: categories, values: COUNTIES, nulls: {policy: map, to: South}, provenance: {kind: declared}}
      - name: income
        logicalType: integer
        customProperties:
          - property: domain
            value:
              kind: integer
              bounds: [0, HIGH]
              bins: {width: 10}
              nulls: {policy: category}
              provenance: {kind: declared}
      - name: code
        logicalType: KIND
        customProperties:
          - property: domain
            value: {kind: categories, values: CODES, nulls: {policy: category}, provenance: {kind: declared}}
"""
SPEC = """\
release: NAME
contract: people.odcs.yaml
source: {path: people.csv}
charge: {account: people, epsilon: 0.1, delta: 0}
product: {kind: tables, mechanism: laplace, tables: [[county], [income]], total: noisy}
publish: {to: releases/, formats: [parquet]}
"""
RIGHT = {"COUNTIES": "[North, South, East, West]", "HIGH": "99", "KIND": "string", "CODES": "[K1, K2]"}
ROWS = 1000
"""West has 205 people, 480 earn 50 or more, 3 have no income; every code is K1 or K2."""


@pytest.mark.parametrize(
    "found",
    [
        Misfits(10, (), (), dropped=2),
        Misfits(10, (), (), repeated=(("id", 10, 5),)),
        Misfits(10, (), ("total",)),
        Misfits(10, (), (), clips=(ColumnMisfits("age [0, 9]", 10, 0, 5, 0, "", "", expected=False),)),
    ],
    ids=["rows of a unit", "ids", "a gate", "a clip"],
)
def test_the_headline_does_not_say_that_all_is_well_above_a_mark(found: Misfits):
    with StringIO() as out:
        print_misfits(Console(file=out), found, Fraction(1, 100), Path("page"))
        headline = out.getvalue().splitlines()[1]
    assert headline == "10 rows; 0 of 0 columns fit in full, but see ! below"


class County:
    """A workspace, an account, a register of people, and contracts that are right or wrong about it."""

    def __init__(self, root: Path, prefect_home: Path) -> None:
        self.root = root
        self.workspace = Workspace.create(root / "w")
        shutil.copytree(prefect_home, self.workspace.prefect_home)
        counties = ["North"] * 300 + ["South"] * 295 + ["East"] * 200 + ["West"] * 205
        incomes = ["75"] * 480 + ["25"] * 517 + [""] * 3
        lines = [f"{county},{incomes[i * 7 % ROWS]},K{1 + i % 2}" for i, county in enumerate(counties)]
        (root / "people.csv").write_text("\n".join(["county,income,code", *lines]) + "\n")
        people = ("--population", "people", "--block", "2024", "--unit", "row", "--source", str(root / "people.csv"))
        cap = ("--epsilon", "9", "--calculus", "pure", "--adjacency", "add_remove")
        assert execute(["budget", "open", "people", *people, *cap, "--workspace", str(self.workspace.root)]) == 0

    def spec(self, name: str, **wrong: str) -> Path:
        contract = CONTRACT
        for key, value in {**RIGHT, **wrong}.items():
            contract = contract.replace(key, value)
        (self.root / f"{name}.odcs.yaml").write_text(contract)
        spec = self.root / f"{name}.yaml"
        spec.write_text(SPEC.replace("NAME", name).replace("people.odcs.yaml", f"{name}.odcs.yaml"))
        return spec

    def charges(self) -> int:
        with sqlite3.connect(self.workspace.private / "ledger.sqlite") as ledger:
            [(count,)] = ledger.execute("select count(*) from charges").fetchall()
        return int(count)

    def flow_runs(self) -> int:
        with sqlite3.connect(self.workspace.prefect_home / "prefect.db") as prefect:
            [(count,)] = prefect.execute("select count(*) from flow_run").fetchall()
        return int(count)

    def at_terminal(self, *words: str, answer: str) -> tuple[int, str]:
        """Type a command at a pseudo-terminal, answer its question, and return exit code and what was on screen."""
        ours, theirs = pty.openpty()
        command = [*COMMAND, *words, "--workspace", str(self.workspace.root)]
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
        with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
            os.close(theirs)
            screen = b""
            while True:
                try:
                    part = os.read(ours, 65536)
                except OSError:  # the other end is closed
                    break
                if not part:
                    break
                screen += part
                if answer and b"all the same?" in screen:
                    os.write(ours, answer.encode() + b"\n")
                    answer = ""
        os.close(ours)
        return process.returncode, screen.decode()


@pytest.fixture(scope="module")
def county(tmp_path_factory: pytest.TempPathFactory, prefect_home: Path) -> County:
    return County(tmp_path_factory.mktemp("county"), prefect_home)


@pytest.fixture(scope="module")
def prefect_server(county: County) -> Iterator[PrefectServer]:
    """The server of its workspace, whose files are looked through."""
    with served_by(county.workspace) as started:
        yield started
    stop_lasting(county.workspace)


def _checked(county: County, typed: Typed, spec: Path) -> tuple[Said, dict[str, dict[str, Any]]]:
    said = typed("check", str(spec), "--json", at=county.workspace)
    return said, {each["column"]: each for each in said.json["columns"]}


WRONG: dict[str, tuple[dict[str, str], str, dict[str, Any]]] = {
    "a forgotten category": (
        {"COUNTIES": "[North, South, East]"},
        "county",
        {"unfit": 205, "clipped": 0, "unfit_counted_as": "South", "share": 0.205},
    ),
    "bounds that are too narrow": ({"HIGH": "49"}, "income", {"unfit": 0, "clipped": 480, "null": 3, "share": 0.48}),
    "a text code declared integer": (
        {"KIND": "integer", "CODES": "[1, 2]"},
        "code",
        {"unfit": ROWS, "unfit_counted_as": "(null)", "share": 1.0},
    ),
}


@pytest.mark.parametrize("fault", WRONG)
def test_check_shows_what_a_wrong_contract_does_to_the_rows(county: County, typed: Typed, fault: str):
    """Exact shares and where the rows are counted; exit 1, nothing is charged, no snapshot stays."""
    wrong, column, expected = WRONG[fault]
    spec = county.spec("wrong", **wrong)
    before = county.charges(), _journal(county)
    said, columns = _checked(county, typed, spec)
    assert said.code == 1
    assert columns[column].items() >= expected.items()
    assert all(each["share"] == 0 for name, each in columns.items() if name != column)
    shown = typed("check", str(spec), at=county.workspace)
    assert f"!  {column}" in shown.out
    assert "Private" in shown.out
    assert (county.charges(), _journal(county)) == before
    assert not list(county.workspace.runs.glob("check-*/snapshot*"))


def test_a_right_contract_passes_and_missing_values_alone_ask_nothing(county: County, typed: Typed):
    """Exit 0; three rows without an income are told, and are where the contract puts them."""
    said, columns = _checked(county, typed, county.spec("right"))
    assert said.code == 0
    assert said.json["fits"] is True
    assert (columns["income"]["null"], columns["income"]["share"]) == (3, 0.0)


def test_a_gate_that_breaks_is_told_and_leaves_no_entry(county: County, typed: Typed):
    """`check` answers exit 3; the journal, whose entries are public, hears nothing of a look."""
    spec = county.spec("gated", COUNTIES="[North, South, East]")
    contract = spec.with_name("gated.odcs.yaml")
    contract.write_text(contract.read_text().replace("gates: []", 'gates: ["domain:county"]'))
    before = _journal(county)
    said = typed("check", str(spec), at=county.workspace)
    assert said.code == 3
    assert "domain:county" in said.out
    assert _journal(county) == before


def test_the_pages_are_for_their_owner_alone_in_each_language(county: County, typed: Typed):
    page = Path(typed("check", str(county.spec("wrong", HIGH="49")), "--json", at=county.workspace).json["page"])
    assert page.is_relative_to(county.workspace.private)
    pages = [page_file(page.parent, code) for code in languages()]
    assert {oct(stat.S_IMODE(each.stat().st_mode)) for each in pages} == {"0o600"}
    assert all("48 %" in each.read_text() for each in pages)


@pytest.mark.usefixtures("served")
def test_a_run_without_a_terminal_needs_the_flag_and_tells_nobody(county: County, typed: Typed):
    """It stops before any charge with exit 1; neither its words nor Prefect nor the journal say what was found."""
    spec = county.spec("unattended", COUNTIES="[North, South, East]")
    before = county.charges(), _journal(county), county.flow_runs()
    said = typed("run", str(spec), at=county.workspace)
    said.assert_ended(1, "--accept-misfits", "nothing was charged")
    for private in ("county", "205", "20.5", "South", "!"):
        assert private not in said.err.replace(str(county.root), ""), private
    assert "✓ how the rows fit" not in said.err
    assert (county.charges(), _journal(county), county.flow_runs()) == before


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("variable", ["FORCE_COLOR", "TTY_COMPATIBLE"])
def test_a_log_is_no_terminal_whatever_the_environment_says(
    county: County, typed: Typed, monkeypatch: pytest.MonkeyPatch, variable: str
):
    """Jobs set these variables for coloured logs; shares and marks in them would be exact bits about the rows."""
    monkeypatch.setenv(variable, "1")
    said = typed("run", str(county.spec("coloured", COUNTIES="[North, South, East]")), at=county.workspace)
    assert said.code == 1
    for private in ("county", "20.5", "South", "rows;"):
        assert private not in said.err.replace(str(county.root), ""), private
    assert "private: how the rows fit the contract stands in" in said.err


@pytest.mark.usefixtures("served")
def test_an_accepted_run_publishes_and_its_record_is_that_of_a_run_without_misfits(county: County, typed: Typed):
    """What the record says of the look is the same text whatever it showed, and whether a flag was given."""
    told = []
    for name, wrong, words in (
        ("accepted", {"COUNTIES": "[North, South, East]"}, ("--accept-misfits",)),
        ("fitting", {}, ()),
    ):
        said = typed("run", str(county.spec(name, **wrong)), *words, "--json", at=county.workspace)
        assert said.code == 0, said.err
        folder = Path(said.json["folder"])
        words = published_explanation(lambda name, folder=folder: (folder / name).read_bytes()).values
        facts = words["unprotected.run_time_facts"]
        [line] = [each for each in facts if "the operator let the release go on" in each]
        steps = words["preprocessing.steps"]
        [step] = [each for each in steps if each["step"] == "look before the charge"]
        told.append((line, step))
    assert told[0] == told[1]
    for file in county.workspace.prefect_home.rglob("*"):
        assert not file.is_file() or b"misfits" not in file.read_bytes(), file


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize(("answer", "code"), [("n", 1), ("y", 0)])
def test_at_a_terminal_a_run_shows_the_shares_and_asks(county: County, answer: str, code: int):
    """No means that nothing is charged, and that Prefect never hears of it; yes publishes, under a mark of doubt."""
    spec = county.spec(f"asked-{answer}", HIGH="49")
    before = county.charges(), county.flow_runs()
    ended, screen = county.at_terminal("run", str(spec), answer=answer)
    assert ended == code, screen
    assert "48 %" in screen
    assert "! \x1b" in screen or "!\x1b" in screen
    assert "✓\x1b[0m validate" not in screen
    grown = county.charges() - before[0], county.flow_runs() - before[1]
    assert grown == ((1, 1) if code == 0 else (0, 0))


def test_the_share_is_the_workspaces(county: County, typed: Typed):
    """A quarter of the rows may be astray where sudare.toml says so; what is no share is refused."""
    spec, settings = county.spec("wrong", COUNTIES="[North, South, East]"), county.workspace.root / "sudare.toml"
    written = settings.read_text()
    try:
        settings.write_text(written.replace('asks_above = "1 %"', 'asks_above = "25 %"'))
        assert typed("check", str(spec), at=county.workspace).code == 0
        settings.write_text(written.replace('asks_above = "1 %"', 'asks_above = "a lot"'))
        typed("check", str(spec), at=county.workspace).assert_ended(2, "run.asks_above", '"0 %" to "100 %"')
    finally:
        settings.write_text(written)


def test_a_scheduled_run_stops_where_a_typed_one_asks(county: County, served: PrefectServer):
    """Nobody is asked: above the workspace's share it is a gate, before the charge. 100 % lets every run pass."""
    spec, settings = county.spec("scheduled", COUNTIES="[North, South, East]"), county.workspace.root / "sudare.toml"
    written, order = settings.read_text(), ReleaseOrder(spec)

    def scheduled() -> Outcome:
        workspace = Workspace.open(county.workspace.root)
        with served.connected():
            return in_prefect(order, workspace, lambda: make_release(order, workspace, Unattended(order)))

    before = county.charges()
    with pytest.raises(GateBroken) as stopped:
        scheduled()
    assert [finding.field for finding in stopped.value.findings] == [MISFITS_GATE]
    assert "county" not in str(stopped.value)
    assert county.charges() == before
    try:
        settings.write_text(written.replace('schedule_stops_above = "1 %"', 'schedule_stops_above = "100 %"'))
        outcome = scheduled()
    finally:
        settings.write_text(written)
    assert outcome.version == 1
    record = published_explanation(lambda name: (Path(outcome.folder) / name).read_bytes())
    assert any("a schedule starts the run" in gate for gate in record.values["unprotected.fixed_gates"])
    assert any("a schedule starts the run" in each for each in record.values["unprotected.quantities"])


def _journal(county: County) -> int:
    with sqlite3.connect(county.workspace.private / "ledger.sqlite") as ledger:
        [(count,)] = ledger.execute("select count(*) from journal").fetchall()
    return int(count)
