"""What the plan foretells: as `sudare plan`, of texts that no file holds, and without a look at the source."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from console.plan import plan_object
from contracts.reading.yaml_lines import unsaved
from flows.request import read_request
from sudare_web.studio.files import FileText
from sudare_web.studio.outlook import look
from tasks.storage.workspace.settings import Workspace

READERS = ("tasks.ingest", "tasks.storage.snapshot", "sudare_engines", "tasks.storage.duckdb_session", "duckdb")
WATCHED = """
import json, sys
opened = []
def watch(event, arguments):
    if event in ("open", "os.listdir", "os.scandir", "subprocess.Popen", "os.fork", "os.posix_spawn"):
        opened.append([event, str(arguments[0])])
sys.addaudithook(watch)
from pathlib import Path
from sudare_web.studio.files import SpecFolder
from sudare_web.studio.outlook import look
from tasks.storage.workspace.settings import Workspace
folder = SpecFolder(Path(sys.argv[1]))
found = look(Workspace.open(Path(sys.argv[2])), folder.read("tables.yaml"), folder.read("adult.odcs.yaml"), None)
print(json.dumps({"lines": len(found.lines), "opened": opened, "modules": sorted(sys.modules)}))
"""


def texts(folder: Path, *changes: tuple[str, str]) -> tuple[FileText, FileText]:
    spec = (folder / "tables.yaml").read_text()
    for old, new in changes:
        assert old in spec
        spec = spec.replace(old, new)
    return FileText(folder / "tables.yaml", spec), FileText(
        folder / "adult.odcs.yaml", (folder / "adult.odcs.yaml").read_text()
    )


@pytest.mark.services
def test_no_source_is_opened_and_no_reader_loaded(place_of_studio: tuple[Path, Workspace]):
    """The source is a FIFO that nobody writes to: whoever opens it waits for ever.

    A process of its own lists every file that it opens, every process that it starts, and every module that it loads.
    """
    folder, workspace = place_of_studio
    (folder / "adult.parquet").unlink()
    os.mkfifo(folder / "adult.parquet")
    command = [sys.executable, "-c", WATCHED, str(folder), str(workspace.root)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=250, check=True)
    told = json.loads(ended.stdout)
    assert told["lines"] == 3
    assert any(what.endswith("tables.yaml") for _, what in told["opened"])
    assert [
        each
        for each in told["opened"]
        if "adult.parquet" in each[1] or each[0] not in ("open", "os.listdir", "os.scandir")
    ] == []
    assert [name for name in told["modules"] if name.startswith(READERS)] == []
    assert [name for name in told["modules"] if name.startswith("tasks.storage.sources.")] in (
        [],
        ["tasks.storage.sources.gate_words"],
    )


def test_what_is_shown_is_what_the_plan_says(place_of_studio: tuple[Path, Workspace]):
    folder, workspace = place_of_studio
    outlook = look(workspace, *texts(folder), 48842)
    plan = plan_object(read_request(folder / "tables.yaml", workspace), workspace, 48842)
    assert outlook.plan == plan
    assert [(each["columns"], each["within"]) for each in outlook.lines] == [
        (draw["columns"], [("", f"{draw['interval_95']:,}", 0)]) for draw in plan["draws"]
    ]
    assert outlook.bar is not None
    assert outlook.bar.fits
    assert outlook.bar.spent + outlook.bar.cost + outlook.bar.left == pytest.approx(1)
    assert [each["name"] for each in outlook.accounts] == ["adult-1994"]


def test_a_text_that_was_not_saved_is_planned_as_it_stands(place_of_studio: tuple[Path, Workspace]):
    """The file is as it was, and beside the block it is read again."""
    folder, workspace = place_of_studio
    before = (folder / "tables.yaml").read_text()
    outlook = look(workspace, *texts(folder, ("epsilon: 1.0", "epsilon: 0.5")), None)
    assert outlook.plan is not None
    assert outlook.plan["epsilon"] == "0.5"
    assert (folder / "tables.yaml").read_text() == before
    with unsaved({folder / "other.yaml": "x: 1"}):
        assert str(read_request(folder / "tables.yaml", workspace).spec.charge.epsilon) == "1"


def test_what_is_wrong_stands_beside_its_line(place_of_studio: tuple[Path, Workspace]):
    """In both texts at once."""
    folder, workspace = place_of_studio
    spec, contract = texts(folder, ("mechanism: laplace", "mechanism: lapace"))
    broken = FileText(contract.path, contract.text.replace("adjacency: add_remove", "adjacency: somehow", 1))
    outlook = look(workspace, spec, broken, None)
    assert outlook.plan is None
    found = {(each["file"], spec_or(each, spec, broken)) for each in outlook.findings}
    assert ("spec", "  mechanism: lapace") in found
    assert any(file == "contract" and "somehow" in line for file, line in found)


def spec_or(finding: dict[str, object], spec: FileText, contract: FileText) -> str:
    text = {"spec": spec, "contract": contract}[str(finding["file"])].text
    return text.splitlines()[int(str(finding["line"])) - 1]


def test_a_release_that_does_not_fit_says_what_would(place_of_studio: tuple[Path, Workspace]):
    folder, workspace = place_of_studio
    outlook = look(workspace, *texts(folder, ("epsilon: 1.0", "epsilon: 50")), None)
    assert outlook.bar is not None
    assert not outlook.bar.fits
    assert outlook.bar.left < 0
    assert outlook.bar.largest_epsilon is not None
    assert any(each["rule"] == "large-epsilon" for each in (outlook.plan or {})["warnings"])


def test_without_a_workspace_the_plan_is_there_and_no_bar(place_of_studio: tuple[Path, Workspace]):
    folder, _ = place_of_studio
    outlook = look(None, *texts(folder), None)
    assert (len(outlook.lines), outlook.bar, outlook.accounts) == (3, None, [])
