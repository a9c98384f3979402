"""What auditors see beyond the public rendering: full records, scores against the real rows, and refused runs.

These files lie in the workspace's private folder and are nobody else's to read. Which there are is looked up in
folders that the site knows; no path is ever built from a request.
"""

from __future__ import annotations

import os
import stat
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from console.site.asking import PAGE, NotThere, Page, Site, Viewer
from privacy.ledger.journal.search import EntryFilter, entries
from tasks.evaluation.private_files import FOLDER as EVALUATIONS
from tasks.evaluation.score_files import NUMBERS as NUMBERS_OF_SCORES
from tasks.evaluation.score_files import PAGE as PAGE_OF_SCORES
from tasks.evaluation.score_files import Evaluated
from tasks.storage.workspace.settings import Workspace

_RECORD_FILES: Final = ("record.auditor.html", "record.auditor.json")
_SCORE_FILES: Final = (PAGE_OF_SCORES, NUMBERS_OF_SCORES)
_MOST: Final = 100


def auditor_files(workspace: Workspace, release: str, number: int) -> list[dict[str, str]]:
    """Return the private files about a version: what each is, and the key under which it is served."""
    found = [
        {"what": "record", "key": f"record/{name}", "name": name}
        for name in _RECORD_FILES
        if _plain(_record_folder(workspace, release, number) / name)
    ]
    for folder in _evaluations(workspace):
        read = Evaluated.read(folder.name)
        if read is not None and (read.release, read.version) == (release, number):
            found += [
                {"what": "scores", "key": f"scores/{read.at}/{name}", "name": name}
                for name in _SCORE_FILES
                if _plain(folder / name)
            ]
    return found[:_MOST]


def open_auditor_file(workspace: Workspace, release: str, number: int, key: str) -> tuple[int, str]:
    """Open a private file about a version by its key; return a descriptor and the file's name."""
    listed = {each["key"]: each for each in auditor_files(workspace, release, number)}
    if key not in listed:
        raise NotThere
    what, *middle, name = key.split("/")
    if what == "record":
        path = _record_folder(workspace, release, number) / name
    else:
        path = workspace.private / EVALUATIONS / Evaluated(release, number, middle[0]).folder / name
    try:
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), name
    except OSError:
        raise NotThere from None


def auditor_page(site: Site, viewer: Viewer, *, before: int | None) -> Page:
    """Show refused runs, and which versions have scores or a full record."""
    if viewer.auditor is None:
        raise NotThere
    with site.view.reading() as connection:
        found = entries(connection, EntryFilter(kind="gate_failed"), before=before, limit=PAGE + 1)
    refused = [
        {"sequence": each.sequence, "at": each.at, "release": each.body.get("release")}
        | {"account": each.body.get("account"), "gates": [str(gate) for gate in each.body.get("gates", [])]}
        for each in found[:PAGE]
    ]
    told = {
        "refused": refused,
        "next": found[PAGE - 1].sequence if len(found) > PAGE else None,
        "evaluated": _evaluated(site.workspace),
        "recorded": _recorded(site.workspace),
    }
    return Page("auditor", told)


def _record_folder(workspace: Workspace, release: str, number: int) -> Path:
    return workspace.records / release / f"v{number}"


def _evaluated(workspace: Workspace) -> list[dict[str, Any]]:
    read = [Evaluated.read(folder.name) for folder in _evaluations(workspace)]
    return [asdict(evaluated) for evaluated in read if evaluated is not None][:_MOST]


def _recorded(workspace: Workspace) -> list[dict[str, Any]]:
    found = sorted(workspace.records.glob("*/v*/record.auditor.json"))
    named = [(path.parent.parent.name, path.parent.name[1:]) for path in found]
    return [{"release": release, "version": int(version)} for release, version in named if version.isdecimal()][
        :_MOST
    ]


def _evaluations(workspace: Workspace) -> list[Path]:
    folder = workspace.private / EVALUATIONS
    return sorted(folder.iterdir(), reverse=True) if folder.is_dir() else []


def _plain(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False
