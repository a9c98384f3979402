"""Commands in processes of their own, and runs: what the page is told of them, and what it is not."""

import json
import os
import re
import time
from pathlib import Path

import pytest

from console.output import as_object
from contracts.contract.odcs import load_contract
from contracts.errors import Finding, GateBroken, SpecRefused
from contracts.release.source import Source
from sudare_web.studio.pages import piece
from sudare_web.studio.processes import answer_in, findings_in, say
from sudare_web.studio.runs import RunRefused, Runs, RunState
from tasks.storage.workspace.settings import Workspace
from tests.tasks.intake import take_in


@pytest.fixture(autouse=True)
def _no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs of a spec that is not there start no Prefect server; they end before they would ask one."""
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")


def ended(runs: Runs) -> RunState | None:
    while (state := runs.state()) is not None and state.running:
        time.sleep(0.02)
    return state


@pytest.mark.services
def test_a_command_answers_with_its_json(tmp_path: Path):
    """Options stand before a lone name that begins with a hyphen; a refusal is one in words."""
    said = say(["budget", "open", "--population=p", "--workspace=nowhere", "--", "-x"], tmp_path)
    assert not said.done
    [finding, *_] = said.findings
    assert finding["where"]
    assert finding["found"]


def test_what_a_gate_found_in_the_rows_is_not_shown():
    """A broken gate is an exact answer about the rows: its name is told, and nothing that stands there."""
    finding = Finding(
        "rows.csv:7", "gate age-range", "the value 'secret' in 31 rows", "12 fields", "look: sudare check"
    )
    [told] = findings_in({"error": as_object(GateBroken([finding]))})
    assert told["field"] == "gate age-range"
    assert not {"secret", "31", "rows.csv", "12"} & set(re.split(r"[^\w.]+", json.dumps(told)))
    assert findings_in({"error": as_object(SpecRefused([finding]))})[0]["found"] == finding.found


@pytest.mark.parametrize(
    ("field", "told"),
    [
        *((each, each) for each in ("encoding", "row", "header", "column 'age'", "column 6", "gate people-known")),
        *(
            (each, "a gate")
            for each in ("Alice", "row of Alice", "column Alice", "'Alice', 34", "column 'age' of 'Bo'")
        ),
    ],
)
def test_a_broken_gate_is_named_by_words_of_contract_and_format_alone(field: str, told: str):
    """Another name could be that of somebody; no gate of ours has one, and a reader's own may."""
    answer = {"error": as_object(GateBroken([Finding("rows.csv:7", field, "x", "y", "correct the data")]))}
    assert [(each["field"], each["allowed"]) for each in findings_in(answer)] == [
        (told, "data for which the gate holds")
    ]


@pytest.mark.parametrize(
    ("rows", "field"),
    [(b"age,sex,Alice\n1,F,x\n", "column 3"), (b"age,sex\n1,\xe9\n", "encoding"), (b"age,sex\n", "rows")],
)
def test_the_gates_that_a_reader_breaks_are_named_so(tmp_path: Path, rows: bytes, field: str):
    """A real source, a real refusal: no name of its columns, no line and no value comes to the page."""
    contract = "id: x\nversion: 1.0.0\nunit: {kind: row, scope: block}\nadjacency: add_remove\n"
    contract += "defaults: {nulls: category, provenance: declared}\ncolumns: {age: 0..99 by 1, sex: [F, M]}\n"
    (tmp_path / "x.yaml").write_text(contract)
    (tmp_path / "people.csv").write_bytes(rows)
    with pytest.raises(GateBroken) as broken:
        take_in(Source(path=tmp_path / "people.csv"), load_contract(tmp_path / "x.yaml"), tmp_path)
    [told] = findings_in({"error": as_object(broken.value)})
    assert told["field"] == field
    assert "Alice" not in json.dumps(told)
    assert "people.csv" not in json.dumps(told)


def test_a_command_that_died_is_told_without_its_last_words():
    """They may quote a row; where they stand is told."""
    for out in ("", "[1]", "ValueError: 'Alice'"):
        found = findings_in(answer_in(out, see="see run.err"))
        assert [each["found"] for each in found] == ["it ended without an answer; see run.err"]
    assert findings_in({"release": "a"}) == []


@pytest.mark.services
def test_a_run_that_died_shows_nothing_of_what_it_wrote(place_of_studio: tuple[Path, Workspace]):
    """Only the lines of its steps; a value within its last words is no step."""
    folder, workspace = place_of_studio
    runs = Runs(workspace, folder)
    runs.start(folder / "nothing.yaml", ())
    ended(runs)
    files = workspace.private / "studio"
    (files / "run.out").write_text("")
    (files / "run.err").write_text("✓ charge 1.5 s\nTraceback\nValueError: ! Alice, positive, for 33 s of 'Bob'\n")
    state = runs.state()
    assert state is not None
    assert state.steps == (("charge", "1.5", "✓"),)
    assert [each["found"] for each in state.findings] == [f"it ended without an answer; see {files / 'run.err'}"]
    page = piece("run", "en", state=state, root="", now=0.0)
    assert "Alice" not in page
    assert str(files / "run.err") in page


@pytest.mark.services
def test_one_run_at_a_time(place_of_studio: tuple[Path, Workspace], monkeypatch: pytest.MonkeyPatch):
    """A second start while the first goes on is refused; the lock is the process's, and goes with it."""
    folder, workspace = place_of_studio
    monkeypatch.delenv("PREFECT_API_URL")  # with a server to start the first run lasts seconds
    first, second = Runs(workspace, folder), Runs(workspace, folder)
    first.start(folder / "nothing.yaml", ())
    with pytest.raises(RunRefused, match="goes on"):
        second.start(folder / "nothing.yaml", ())
    ended(second)
    second.start(folder / "nothing.yaml", ())
    ended(first)


def test_a_workspace_that_cannot_be_written_is_named(place_of_studio: tuple[Path, Workspace]):
    """A file in the place of the folder stops it as a read-only disk does; nothing was charged."""
    folder, workspace = place_of_studio
    (workspace.private / "studio").write_text("")
    with pytest.raises(RunRefused, match="can be written"):
        Runs(workspace, folder).start(folder / "tables.yaml", ())
    assert Runs(workspace, folder).state() is None


@pytest.mark.services
def test_the_time_left_follows_from_the_plan_and_then_from_the_last_run(
    place_of_studio: tuple[Path, Workspace], monkeypatch: pytest.MonkeyPatch
):
    """A first run counts down from its plan, longer on a busy machine; a later one from the last whole run of it.

    One that was refused, or found its version published already, teaches nothing.
    """
    folder, workspace = place_of_studio
    runs, files = Runs(workspace, folder), workspace.private / "studio"

    def answered(answer: dict[str, object], seconds: float) -> None:
        """End the run that was started: with an answer, so many seconds after it began."""
        state = ended(runs)
        assert state is not None
        (files / "run.out").write_text(json.dumps(answer))
        os.utime(files / "run.out", (state.began + seconds,) * 2)

    def expected() -> float:
        runs.start(folder / "nothing.yaml", (), 6.0)
        state = runs.state()
        assert state is not None
        assert state.since(state.began + 2.2) == 2
        assert state.left(state.began + 2) == round(state.expected - 2)
        assert state.left(state.began + state.expected + 1) is None
        return state.expected

    cores = os.cpu_count() or 1
    monkeypatch.setattr(os, "getloadavg", lambda: (0.1, 9.0, 9.0))
    assert expected() == 6.0
    answered({"error": {"kind": "SpecRefused", "message": "no", "findings": []}}, 40)
    monkeypatch.setattr(os, "getloadavg", lambda: (3.0 * cores, 0.0, 0.0))
    assert expected() == 18.0
    answered({"release": "a", "version": 1, "repeated": False}, 31)
    assert expected() == pytest.approx(31, abs=0.1)
    answered({"release": "a", "version": 1, "repeated": True}, 3)
    assert expected() == pytest.approx(31, abs=0.1)
    answered({}, 1)


@pytest.mark.services
def test_a_run_whose_time_nobody_knows_shows_no_time_left(place_of_studio: tuple[Path, Workspace]):
    """A plan that says nothing, and a file of the run that somebody damaged."""
    folder, workspace = place_of_studio
    runs = Runs(workspace, folder)
    runs.start(folder / "nothing.yaml", ())
    state = runs.state()
    assert state is not None
    assert state.left(state.began) is None
    ended(runs)
    (workspace.private / "studio" / "run.json").write_text("[]")
    assert runs.state() is None
    runs.start(folder / "nothing.yaml", ())
    assert ended(runs) is not None
