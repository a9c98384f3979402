"""How versions of the built-in kinds of product are compared with real rows; all that is found is private."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from contracts.errors import Finding, SpecRefused
from contracts.release.synthetic_modifiers import modifier_parts
from flows.evaluation.version_evaluation import Evaluation, Real, private_snapshot, refuse_option
from privacy.evaluation.scores import PrivateScores
from privacy.private_table import PrivateTable
from tasks.evaluate import check_target, evaluate
from tasks.evaluation.classifier_scores import evaluate_model, published_classifier
from tasks.evaluation.private_files import write_scores
from tasks.evaluation.statistic_scores import before_keys, evaluate_statistics, evaluated_lattices
from tasks.evaluation.table_scores import evaluate_tables
from tasks.products.version_records import (
    published_classifier_record,
    published_record,
    published_statistics_record,
    published_tables_record,
)
from tasks.records.model.synthetic_statements import SyntheticRecord
from tasks.storage.workspace.settings import Workspace
from tasks.verification.fitted_meaning import SyntheticMeaning


class ModifierEvaluation(Protocol):
    """How rows under a modifier are compared with real ones."""

    def scores(
        self,
        path: Path,
        record: SyntheticRecord,
        meaning: SyntheticMeaning,
        table: PrivateTable,
        made: Path,
        terms: dict[str, Any],
    ) -> PrivateScores:
        """Compare.

        Args:
            path: the version's folder.
            record, meaning: of the version.
            table: the real rows.
            made: the file of the version's rows.
            terms: `columns`, `target` and `memory_limit` of `tasks.evaluate.evaluate`.
        """
        ...


_NOT_OF_A_MODEL = "rows that were not trained on", "none: this version is not of a model"


def evaluate_rows(
    path: Path, real: Real, *, others: Path | None, target: str | None, workspace: Workspace, at: datetime
) -> Evaluation:
    """Compare synthetic rows; as `evaluate_version`."""
    refuse_option("--others", others, *_NOT_OF_A_MODEL)
    record, meaning = published_record(path)
    check_target(meaning.names, target)
    made, limit = rows_of(path, record.replay.rows.data, record.release), workspace.memory_limit
    terms: dict[str, Any] = {"columns": meaning.names, "target": target, "memory_limit": limit}
    own: list[ModifierEvaluation] = [way for _, way in modifier_parts(meaning.product, "evaluation")]
    with private_snapshot(real, meaning.contract, workspace, parents=meaning.product.counts_parents) as table:
        if own:
            scores = own[0].scores(path, record, meaning, table, made, terms)
        else:
            scores = evaluate(table, made, meaning.contract, **terms)
    files = write_scores(scores, workspace, release=record.release, version=record.version, at=at)
    return Evaluation(record.release, record.version, meaning.names, scores, files)


def evaluate_table_version(
    path: Path, real: Real, *, others: Path | None, target: str | None, workspace: Workspace, at: datetime
) -> Evaluation:
    """Compare tables; as `evaluate_version`."""
    refuse_option("--others", others, *_NOT_OF_A_MODEL)
    allowed = "a target of a synthetic version: tables have no rows"
    refuse_option("--target", target, "a target of a version of tables", allowed)
    record, meaning = published_tables_record(path)
    with private_snapshot(real, meaning.contract, workspace) as table:
        errors = evaluate_tables(table, path, meaning, memory_limit=workspace.memory_limit)
    files = write_scores(errors, workspace, release=record.release, version=record.version, at=at)
    names = tuple(dict.fromkeys(name for spec in meaning.tables for name in spec.columns))
    return Evaluation(record.release, record.version, names, errors, files)


def evaluate_statistics_version(
    path: Path, real: Real, *, others: Path | None, target: str | None, workspace: Workspace, at: datetime
) -> Evaluation:
    """Compare statistics; as `evaluate_version`."""
    refuse_option("--others", others, *_NOT_OF_A_MODEL)
    allowed = "a target of a synthetic version: statistics have no rows"
    refuse_option("--target", target, "a target of a version of statistics", allowed)
    record, meaning = published_statistics_record(path)
    before, limit = before_keys(meaning.contract, meaning.product), workspace.memory_limit
    with private_snapshot(real, before, workspace, evaluated_lattices(meaning.product, before)) as table:
        errors = evaluate_statistics(table, path, record, meaning.contract, memory_limit=limit)
    files = write_scores(errors, workspace, release=record.release, version=record.version, at=at)
    return Evaluation(record.release, record.version, meaning.names, errors, files)


def evaluate_classifier(
    path: Path, real: Real, *, others: Path | None, target: str | None, workspace: Workspace, at: datetime
) -> Evaluation:
    """Score a classifier; as `evaluate_version`."""
    refuse_option("--target", target, "a target of a version of a classifier", "none: a model has its label")
    record, meaning = published_classifier_record(path)
    model = published_classifier(path, record, meaning)
    with private_snapshot(real, meaning.contract, workspace) as table:
        scores = evaluate_model(table, model, meaning, others=others, memory_limit=workspace.memory_limit)
    files = write_scores(scores, workspace, release=record.release, version=record.version, at=at)
    return Evaluation(record.release, record.version, meaning.names, scores, files)


def rows_of(path: Path, name: str, stem: str) -> Path:
    """Return a file of made-up rows; a record that names another file is refused."""
    made = path / name
    odd = "/" in stem or made.is_symlink() or made.parent.is_symlink()
    if odd or name != f"data/{stem}.parquet" or not made.is_file():
        remedy = "sudare verify says what is wrong with this version"
        raise SpecRefused([Finding(str(path), "the rows", "no file of rows", f"data/{stem}.parquet", remedy)])
    return made
