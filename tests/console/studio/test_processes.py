"""Commands in processes of their own, and runs: what the page is told of them, and what it is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from console.errors import as_object
from console.studio.pages import piece
from console.studio.processes import answer_in, findings_in, say
from console.studio.runs import RunRefused, Runs
from contracts.errors import Finding, GateBroken, SpecRefused
from tasks.storage.workspace.settings import Workspace


def test_a_command_answers_with_its_json(tmp_path: Path) -> None:
    """Options stand before a lone name that begins with a hyphen; a refusal is one in words."""
    said = say(["budget", "open", "--population=p", "--workspace=nowhere", "--", "-x"], tmp_path)
    assert not said.done
    [finding, *_] = said.findings
    assert finding["where"]
    assert finding["found"]


def test_what_a_gate_found_in_the_rows_is_not_shown() -> None:
    """A broken gate is an exact answer about the rows: its name is told, and nothing that stands there."""
    finding = Finding("rows.csv:7", "domain", "the value 'secret' in 31 rows", "declared ones", "look: sudare check")
    answer = {"error": as_object(GateBroken([finding]))}
    assert "secret" not in json.dumps(findings_in(answer))
    assert findings_in(answer)[0]["field"] == "domain"
    shown = findings_in({"error": as_object(SpecRefused([finding]))})
    assert shown[0]["found"] == finding.found


def test_a_command_that_died_is_told_without_its_last_words() -> None:
    """They may quote a row; where they stand is told."""
    for out in ("", "[1]", "ValueError: 'Alice'"):
        found = findings_in(answer_in(out, see="see run.err"))
        assert [each["found"] for each in found] == ["it ended without an answer; see run.err"]
    assert findings_in({"release": "a"}) == []


def test_a_run_that_died_shows_nothing_of_what_it_wrote(place_of_studio: tuple[Path, Workspace]) -> None:
    """Only the lines of its steps; a value within its last words is no step."""
    folder, workspace = place_of_studio
    runs = Runs(workspace, folder)
    runs.start(folder / "nothing.yaml", ())
    while (state := runs.state()) is not None and state.running:
        continue
    files = workspace.private / "studio"
    (files / "run.out").write_text("")
    (files / "run.err").write_text("✓ charge 1.5 s\nTraceback\nValueError: ! Alice, positive, for 33 s of 'Bob'\n")
    state = runs.state()
    assert state is not None
    assert state.steps == (("charge", "1.5", "✓"),)
    assert [each["found"] for each in state.findings] == [f"it ended without an answer; see {files / 'run.err'}"]
    page = piece("run", "en", state=state, root="")
    assert "Alice" not in page
    assert str(files / "run.err") in page


def test_one_run_at_a_time(place_of_studio: tuple[Path, Workspace]) -> None:
    """A second start while the first goes on is refused; the lock is the process's, and goes with it."""
    folder, workspace = place_of_studio
    first, second = Runs(workspace, folder), Runs(workspace, folder)
    first.start(folder / "nothing.yaml", ())
    with pytest.raises(RunRefused, match="goes on"):
        second.start(folder / "nothing.yaml", ())
    while (state := second.state()) is not None and state.running:
        continue
    second.start(folder / "nothing.yaml", ())
    while (state := first.state()) is not None and state.running:
        continue


def test_a_workspace_that_cannot_be_written_is_named(place_of_studio: tuple[Path, Workspace]) -> None:
    """A file in the place of the folder stops it as a read-only disk does; nothing was charged."""
    folder, workspace = place_of_studio
    (workspace.private / "studio").write_text("")
    with pytest.raises(RunRefused, match="can be written"):
        Runs(workspace, folder).start(folder / "tables.yaml", ())
    assert Runs(workspace, folder).state() is None
