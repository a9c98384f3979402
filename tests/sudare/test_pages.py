"""The page of the manual and the notebooks do what they say: every block and every cell runs for real."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import sudare
from flows.prefect_runs.server import PrefectServer
from tests.sudare.conftest import ADULT, made
from tests.sudare.pages import blocks_of, run_cells, table_cells

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "python.md"
NOTEBOOKS = sorted((ROOT / "examples").rglob("*.ipynb"))
TASKS = ("Count", "Mean", "Sum", "Histogram", "Median", "Synthetic rows")
MOST_LINES = 5


@pytest.fixture
def folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefect_home: Path, served: PrefectServer
) -> Iterator[Path]:
    """A folder with the example, in which Python is; with workspaces as the pages make them."""
    for name in ("adult.odcs.yaml", "adult.parquet"):
        shutil.copy(ADULT / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    places = [made(tmp_path / name, prefect_home) for name in ("work", "work-synthetic")]
    yield tmp_path
    for ws in places:
        ws.close()


def test_every_block_of_the_manual_runs(folder: Path):
    """Six tasks among them, each published and verified."""
    assert any("(1_000, 3)" in each for each in run_cells([text for _, text in blocks_of(PAGE)]))
    ws = sudare.Workspace(folder / "work")
    assert len([release for release in ws.releases if release.name.startswith("task-")]) == len(TASKS)
    for release in ws.releases:
        assert release.verify().key_id


def test_each_of_the_six_tasks_takes_at_most_five_lines():
    tasks = [text for task, text in blocks_of(PAGE) if task]
    assert len(tasks) == len(TASKS)
    assert [len(text.strip().splitlines()) for text in tasks] == [3, 4, 4, 3, 4, 4]
    assert max(len(text.strip().splitlines()) for text in tasks) <= MOST_LINES
    headings = re.findall(r"^### \d\. (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert headings == list(TASKS)


def test_every_public_name_and_attribute_stands_on_the_page():
    """What `sudare` exports, and each public attribute of its classes."""
    page = PAGE.read_text(encoding="utf-8")
    errors = {name for name in sudare.__all__ if isinstance(getattr(sudare, name), type)}
    errors = {name for name in errors if issubclass(getattr(sudare, name), Exception)}
    told = {name for name in sudare.__all__ if name not in ("main", "Finding")}
    assert {name for name in told if not re.search(rf"\b{name}\b", page, re.IGNORECASE)} == set()
    missing = []
    for name in told - errors - {"verify"}:
        public = [each for each in vars(getattr(sudare, name)) if not each.startswith("_")]
        missing += [f"{name}.{each}" for each in public if not re.search(rf"\.{each}\b", page)]
    assert missing == []


def test_there_are_two_notebooks():
    assert [path.name for path in NOTEBOOKS] == ["first_release.ipynb", "synthetic_rows.ipynb"]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_shipped_without_outputs(notebook: Path):
    for cell in table_cells(notebook):
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_its_first_cell_to_its_last(notebook: Path, folder: Path):
    """What it shows has no script and no resource from elsewhere."""
    cells = [cell for cell in table_cells(notebook) if cell["cell_type"] == "code"]
    shown = run_cells(["".join(cell["source"]) for cell in cells])
    assert any("<svg" in each for each in shown)
    assert not any(re.search(r"<script|src=|href=|url\(", each) for each in shown)
    released = [each for name in ("work", "work-synthetic") for each in sudare.Workspace(folder / name).releases]
    assert len(released) == 1
    assert released[0].verify().key_id
