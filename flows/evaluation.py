"""Evaluation of a synthetic version: read its record, take in the real rows, compare, write what is private.

No Prefect: no orchestrator hears of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pydantic import ValidationError

from contracts.errors import Finding, SpecRefused
from contracts.source import SUFFIXES, Source
from contracts.spec import load_spec
from contracts.written import listed
from privacy.evaluation.scores import PrivateScores
from tasks.evaluate import check_target, evaluate
from tasks.evaluation.private_files import ScoreFiles, write_scores
from tasks.ingest import ingest
from tasks.run_folder import hold
from tasks.settings import Workspace
from tasks.verification.files import open_version
from tasks.verification.published_record import published_record

_SPEC_SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, repr=False)
class Evaluation:
    """What was found, and where it was written; private."""

    release: str
    version: int
    columns: tuple[str, ...]
    scores: PrivateScores
    files: ScoreFiles


def evaluate_version(
    folder: Path, against: Path, *, target: str | None, workspace: Workspace, at: datetime
) -> Evaluation:
    """Compare a synthetic version with confidential rows.

    Args:
        folder: the version's folder; its record's contract encodes both tables. It is not verified.
        against: the real rows, a file; or a release spec, whose source is taken.
        target: the column that classifiers learn to predict; None trains none.
        workspace: keeps the snapshot while it is needed, and the scores.
        at: when, in UTC.
    Returns:
        Evaluation: private.
    Raises:
        SudareError: the version, the source or the target cannot be used, or the scores not be written.
    Privacy: nothing is drawn, charged or released; what is found stays in the workspace's private folder.
    """
    path = open_version(folder)
    record, meaning = published_record(path)
    check_target(meaning.names, target)
    source = source_of(against)
    made = _rows_of(path, record.replay.rows.data, record.release)
    with hold(workspace.runs, f"evaluation-of-{meaning.contract.digest[:24]}", keep_snapshot=False) as run:
        table = ingest(
            source,
            meaning.contract,
            folder=run.path,
            key=workspace.snapshot_key(),
            memory_limit=workspace.memory_limit,
        )
        scores = evaluate(
            table,
            made,
            meaning.contract,
            columns=meaning.names,
            target=target,
            memory_limit=workspace.memory_limit,
        )
    files = write_scores(scores, workspace, release=record.release, version=record.version, at=at)
    return Evaluation(record.release, record.version, meaning.names, scores, files)


def source_of(against: Path) -> Source:
    """Return the source that a file is, or that a release spec names.

    Raises:
        SpecRefused: neither; a database or a `select:` needs the spec.
    """
    if against.suffix in _SPEC_SUFFIXES:
        return load_spec(against).source
    try:
        return Source.model_validate({"path": str(against)}, context={"folder": Path.cwd()})
    except ValidationError:
        found, allowed = f"the file {against.name!r}", f"{listed(tuple(SUFFIXES))}, or a release spec (.yaml)"
        remedy = "name a release spec where the table is in a database, or a select is needed"
        raise SpecRefused([Finding("the command", "--against", found, allowed, remedy)]) from None


def _rows_of(path: Path, name: str, release: str) -> Path:
    """Return the file with the made-up rows; a record that names another file is refused."""
    made = path / name
    odd = "/" in release or made.is_symlink() or made.parent.is_symlink()
    if odd or name != f"data/{release}.parquet" or not made.is_file():
        remedy = "sudare verify says what is wrong with this version"
        raise SpecRefused([Finding(str(path), "the rows", "no file of rows", f"data/{release}.parquet", remedy)])
    return made
