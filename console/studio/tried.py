"""A public stand-in: `sudare plan --surrogate` on a file that somebody names with a reason, as pictures.

The command makes releases of the stand-in in a process of its own. It refuses a file that the ledger has bound to
people, and rows that a release was charged for under the same contract. What comes back is about
rows that were declared public.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any

from markupsafe import Markup
from pydantic import Field

from console.studio.files import FileRefused, SpecFolder
from console.studio.outlook_lines import number_text
from console.studio.processes import Said, say
from console.studio.sent_bodies import SentBody
from contracts.errors import Finding
from tasks.records.charts.charts import count_bar
from tasks.storage.workspace.settings import Workspace


class WantedStandIn(SentBody):
    """A file whose rows somebody declares public, and why they are."""

    spec: str = Field(max_length=200)
    file: str = Field(max_length=200)
    because: str = Field(max_length=1_000)


@dataclass(frozen=True)
class TriedCell:
    """A cell of the stand-in.

    Args:
        name: its labels.
        rows: of the stand-in in it, as a text.
        released: what a release published of it, as a text.
        bar: both as a picture, with the interval of the plan.
    """

    name: str
    rows: str
    released: str
    bar: Markup


@dataclass(frozen=True)
class TriedTable:
    """A table of the stand-in.

    Args:
        name: its columns.
        reach: half width of the plan's interval, as a text.
        cells: what is drawn of it.
        errors: by class of size: the class, how many cells it has, and how far they are off, as texts.
    """

    name: str
    reach: str
    cells: tuple[TriedCell, ...]
    errors: tuple[tuple[str, int, str], ...]


def try_stand_in(folder: SpecFolder, workspace: Workspace | None, wanted: WantedStandIn) -> Said:
    """Make releases of a stand-in: `sudare plan SPEC --surrogate FILE --public-because REASON`.

    Args:
        folder: of spec and stand-in.
        workspace: whose ledger says what is confidential.
        wanted: the file and the reason.
    Raises:
        FileRefused: there is no workspace, or no such file in the folder.
    """
    if workspace is None:
        raise FileRefused([Finding("the page", "workspace", "none yet", "a workspace", "make one first")])
    if wanted.file not in folder.tables():
        allowed, remedy = f"a table in {folder.path} whose rows are public", "put it there"
        raise FileRefused([Finding("the page", "stand-in", repr(wanted.file), allowed, remedy)])
    words = ["plan", str(folder.file(wanted.spec)), f"--surrogate={wanted.file}"]
    said = say([*words, f"--public-because={wanted.because}", f"--workspace={workspace.root}"], folder.path)
    return Said("surrogate" in said.answer, said.answer)  # a plan that fits no account tells it all the same


def tried_tables(plan: dict[str, Any]) -> Iterator[TriedTable]:
    """Draw what `sudare plan --surrogate --json` told.

    Args:
        plan: its answer.
    """
    told = plan["surrogate"]
    for draw in plan["draws"]:
        name = draw["key"].removeprefix("table:")
        errors = [each for each in told["errors"] if each["table"] == name]
        if errors:
            reach = ceil(draw["interval_95"])
            cells = [each for each in told["cells"] if each["table"] == name]
            shown = " × ".join(draw["columns"]) or name
            yield TriedTable(shown, number_text(reach), tuple(_cells(cells, reach)), tuple(map(_error, errors)))


def _cells(cells: list[dict[str, Any]], reach: int) -> Iterator[TriedCell]:
    most = max((each["rows"] for each in cells), default=0)
    for each in cells:
        rows, released = each["rows"], each["released"]
        bar = count_bar(rows, (released - reach, released, released + reach), (0.0, most + reach))
        yield TriedCell(" × ".join(each["labels"]), number_text(rows), number_text(released), bar)


def _error(error: dict[str, Any]) -> tuple[str, int, str]:
    return error["class"], error["cells"], number_text(error["rmse"])
