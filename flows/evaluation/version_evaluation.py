"""Evaluation of a version, synthetic or of tables: read its record, take in the real rows, compare, write privately.

No Prefect: no orchestrator hears of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pydantic import ValidationError

from contracts.contract.contract import Contract
from contracts.errors import Finding, SpecRefused
from contracts.reading.scalars import listed
from contracts.release.source import SUFFIXES, Source
from contracts.release.spec import load_spec
from privacy.evaluation.model_scores import PrivateModelScores
from privacy.evaluation.scores import PrivateScores
from privacy.evaluation.table_errors import PrivateTableErrors
from privacy.private_table import PrivateTable
from tasks.evaluate import check_target, evaluate
from tasks.evaluation.classifier_scores import evaluate_model, published_classifier
from tasks.evaluation.private_files import write_scores
from tasks.evaluation.score_files import ScoreFiles
from tasks.evaluation.table_scores import evaluate_tables
from tasks.ingest import ingest
from tasks.products.version_records import (
    is_of_tables,
    kind_of,
    published_model_record,
    published_record,
    published_tables_record,
)
from tasks.storage.sources.days import SourceDays, days_of
from tasks.storage.workspace.run_folder import hold
from tasks.storage.workspace.settings import Workspace, blocks_of
from tasks.verification.files.version_folder import open_version

_SPEC_SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, repr=False)
class Evaluation:
    """What was found, and where it was written; private."""

    release: str
    version: int
    columns: tuple[str, ...]
    scores: PrivateScores | PrivateTableErrors | PrivateModelScores
    files: ScoreFiles


@dataclass(frozen=True)
class Real:
    """The real rows: a source, and of one period of it the days whose rows alone are taken."""

    source: Source
    days: SourceDays | None = None


def evaluate_version(
    folder: Path,
    against: Path,
    *,
    target: str | None,
    workspace: Workspace,
    at: datetime,
    others: Path | None = None,
    period: str | None = None,
) -> Evaluation:
    """Compare a version, synthetic, of tables or of a model, with confidential rows.

    Args:
        folder: the version's folder; its record's contract encodes the rows. It is not verified.
        against: the real rows, a file; or a release spec, whose source is taken.
        target: the column that classifiers learn to predict; None trains none. Of a synthetic version only.
        workspace: keeps the snapshot while it is needed, and the scores.
        at: when, in UTC.
        others: Parquet file of rows that a model was not trained on, to attack it with. Of a model only.
        period: for a spec with `period:`, whose rows (2024-Q3).
    Returns:
        Evaluation: private.
    Raises:
        SudareError: the version, the source or the target cannot be used, or the scores not be written.
    Privacy: nothing is drawn, charged or released; what is found stays in the workspace's private folder.
    """
    path, kind, real = open_version(folder), kind_of(open_version(folder)), real_rows(against, period)
    if others is not None and kind != "model":
        found, allowed = "rows that were not trained on", "none: this version is not of a model"
        raise SpecRefused([Finding("the command", "--others", found, allowed, "leave it out")])
    if kind == "model":
        return _evaluate_model(path, real, others, target=target, workspace=workspace, at=at)
    if is_of_tables(path):
        return _evaluate_tables(path, real, target=target, workspace=workspace, at=at)
    record, meaning = published_record(path)
    check_target(meaning.names, target)
    made = rows_of(path, record.replay.rows.data, record.release)
    with private_snapshot(real, meaning.contract, workspace) as table:
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


def _evaluate_tables(path: Path, real: Real, *, target: str | None, workspace: Workspace, at: datetime) -> Evaluation:
    """Compare a version of tables; arguments as for `evaluate_version`."""
    if target is not None:
        found, allowed = "a target of a version of tables", "a target of a synthetic version: tables have no rows"
        raise SpecRefused([Finding("the command", "--target", found, allowed, "leave it out")])
    record, meaning = published_tables_record(path)
    with private_snapshot(real, meaning.contract, workspace) as table:
        errors = evaluate_tables(table, path, meaning, memory_limit=workspace.memory_limit)
    files = write_scores(errors, workspace, release=record.release, version=record.version, at=at)
    names = tuple(dict.fromkeys(name for spec in meaning.tables for name in spec.columns))
    return Evaluation(record.release, record.version, names, errors, files)


def _evaluate_model(
    path: Path, real: Real, others: Path | None, *, target: str | None, workspace: Workspace, at: datetime
) -> Evaluation:
    """Score a model on confidential rows; arguments as for `evaluate_version`."""
    if target is not None:
        found, allowed = "a target of a version of a model", "none: a model has its label"
        raise SpecRefused([Finding("the command", "--target", found, allowed, "leave it out")])
    record, meaning = published_model_record(path)
    model = published_classifier(path, record, meaning)
    with private_snapshot(real, meaning.contract, workspace) as table:
        scores = evaluate_model(table, model, meaning, others=others, memory_limit=workspace.memory_limit)
    files = write_scores(scores, workspace, release=record.release, version=record.version, at=at)
    return Evaluation(record.release, record.version, meaning.names, scores, files)


@contextmanager
def private_snapshot(real: Real, contract: Contract, workspace: Workspace) -> Iterator[PrivateTable]:
    """Take in the real rows inside the block; nothing of them is kept."""
    name = f"evaluation-of-{contract.digest[:24]}"
    with blocks_of(workspace), hold(workspace.runs, name, keep_snapshot=False) as run:
        yield ingest(
            real.source,
            contract,
            folder=run.path,
            key=workspace.snapshot_key(),
            memory_limit=workspace.memory_limit,
            days=real.days,
        )


def real_rows(against: Path, period: str | None) -> Real:
    """Return the source that a file is, or that a release spec names; of a spec with `period:` that of a period.

    Raises:
        SpecRefused: neither; a database or a `select:` needs the spec, and a period a spec that has some.
    """
    if against.suffix in _SPEC_SUFFIXES:
        spec = load_spec(against, period)
        return Real(spec.source, days_of(spec))
    if period is not None:
        found, allowed = f"a period of the file {against.name!r}", "a period of a release spec with `period:`"
        raise SpecRefused([Finding("the command", "--period", found, allowed, "name the spec, or leave it out")])
    remedy = "name a release spec (.yaml) where the table is in a database, or a select is needed"
    return Real(file_source(against, option="--against", remedy=remedy))


def file_source(path: Path, *, option: str, remedy: str) -> Source:
    """Return a file as a source.

    Raises:
        SpecRefused: it is none of the formats.
    """
    try:
        return Source.model_validate({"path": str(path)}, context={"folder": Path.cwd()})
    except ValidationError:
        found = Finding("the command", option, f"the file {path.name!r}", listed(tuple(SUFFIXES)), remedy)
        raise SpecRefused([found]) from None


def rows_of(path: Path, name: str, release: str) -> Path:
    """Return the file with the made-up rows; a record that names another file is refused."""
    made = path / name
    odd = "/" in release or made.is_symlink() or made.parent.is_symlink()
    if odd or name != f"data/{release}.parquet" or not made.is_file():
        remedy = "sudare verify says what is wrong with this version"
        raise SpecRefused([Finding(str(path), "the rows", "no file of rows", f"data/{release}.parquet", remedy)])
    return made
