"""Private scores on disk: in the workspace's private folder, for their owner alone, and nowhere else.

No caller names a file. The folder is made here, below `.sudare`; a link that leads elsewhere, and a folder that a
release store or a version lies around, are refused.
"""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from contracts.errors import Finding, Refused
from privacy.evaluation.membership import PrivateModelScores
from privacy.evaluation.rows import PrivateScores
from privacy.evaluation.statistic_errors import PrivateStatisticErrors
from privacy.evaluation.table_errors import PrivateTableErrors
from tasks.evaluation.score_files import Evaluated, ScoreFiles
from tasks.evaluation.score_pages import model_page, scores_page, statistics_page, tables_page
from tasks.storage.manifest import published_around
from tasks.storage.workspace.settings import Workspace

FOLDER: Final = "evaluations"


def write_scores(
    scores: PrivateScores | PrivateTableErrors | PrivateStatisticErrors | PrivateModelScores,
    workspace: Workspace,
    *,
    release: str,
    version: int,
    at: datetime,
) -> ScoreFiles:
    """Write private scores into new files that only their owner can read.

    Args:
        scores: what `evaluate` found.
        workspace: takes them below its private folder.
        release, version: what was evaluated; the release's name is checked, for a stranger may have written it.
        at: when, in UTC.
    Returns:
        ScoreFiles: below `.sudare/evaluations`.
    Raises:
        Refused: the folder leads elsewhere, lies in a release store, or cannot be written.
    Privacy: private files, mode 0600, in folders of mode 0700.
    """
    folder = _free_folder(workspace.private / FOLDER, release, version, at)
    _refuse_elsewhere(folder, workspace)
    if isinstance(scores, PrivateScores):
        numbers, page = scores.scores.to_json(), scores_page(scores, release=release, version=version)
    elif isinstance(scores, PrivateModelScores):
        numbers, page = scores.to_json(), model_page(scores, release=release, version=version)
    elif isinstance(scores, PrivateStatisticErrors):
        numbers, page = scores.to_json(), statistics_page(scores, release=release, version=version)
    else:
        numbers, page = scores.to_json(), tables_page(scores, release=release, version=version)
    found = {"release": release, "version": version, **numbers}
    content = {"class": "private", "why": "computed from confidential rows; never publish it", **found}
    files = ScoreFiles.below(folder)
    try:
        for made in (folder.parent, folder):
            made.mkdir(mode=0o700, exist_ok=made == folder.parent)
        _write(files.numbers, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
        _write(files.page, page)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise Refused([Finding(str(folder), "folder", reason, "a new folder that can be written")]) from None
    return files


def _free_folder(folder: Path, release: str, version: int, at: datetime) -> Path:
    """Return the folder of this second, or of the next one that no evaluation of the version has."""
    while (found := folder / Evaluated.of(release, version, at).folder).is_dir() and not found.is_symlink():
        at += timedelta(seconds=1)
    return found


def _refuse_elsewhere(folder: Path, workspace: Workspace) -> None:
    """Refuse a folder that is not where it seems, or that is published."""
    private = (workspace.root.resolve() / workspace.private.name / FOLDER / folder.name).absolute()
    store = workspace.releases.resolve()
    around = [parent for parent in private.parents if parent == store]
    around += [each for each in (published_around(folder),) if each is not None]
    around += [parent for parent in private.parents[:2] if any(parent.glob("*/v*/MANIFEST.json"))]
    if folder.resolve() != private or around:
        found = f"a link to {folder.resolve()}" if folder.resolve() != private else f"inside the store {around[0]}"
        allowed = "a private folder of the workspace: these scores are not released"
        raise Refused([Finding(str(folder), "folder", found, allowed, "move what stands in the way")])


def _write(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
