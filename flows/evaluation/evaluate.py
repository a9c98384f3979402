"""Evaluation of a version: take in the real rows, and compare as its kind of product does.

No Prefect: no orchestrator hears of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from pydantic import ValidationError

from contracts.contract.contract import Contract
from contracts.domains.lattice import ValueLattice
from contracts.domains.text import KeyColumn
from contracts.errors import Finding, SpecRefused
from contracts.reading.scalars import word_list
from contracts.release.product import SUFFIXES
from contracts.release.product_kinds import product_kinds
from contracts.release.source import Source
from contracts.release.spec import load_spec
from contracts.release.synthetic import modifier_parts, unusable
from privacy.evaluation.membership import PrivateModelScores
from privacy.evaluation.rows import PrivateScores
from privacy.evaluation.statistic_errors import PrivateStatisticErrors
from privacy.evaluation.table_errors import PrivateTableErrors
from privacy.private_table import PrivateTable
from tasks.evaluate import check_target, evaluate
from tasks.evaluation.classifier_scores import evaluate_model, published_classifier
from tasks.evaluation.errors import before_keys, evaluate_statistics, evaluate_tables, evaluated_lattices
from tasks.evaluation.linked_scores import joined_rows, with_linked_errors
from tasks.evaluation.private_files import write_scores
from tasks.evaluation.public_rows import (
    DeclaredPublic,
    PublicScores,
    published_files,
    refuse_confidential,
    refuse_own_rows,
    write_public_scores,
)
from tasks.evaluation.score_files import ScoreFiles
from tasks.ingest import ingest
from tasks.products.version_records import (
    RECORD,
    is_of_tables,
    kind_of,
    mark_of_snapshot,
    published_classifier_record,
    published_record,
    published_statistics_record,
    published_tables_record,
)
from tasks.records.files.synthetic_files import parent_name
from tasks.records.model.version_statements import SyntheticRecord
from tasks.storage.sources.days import SourceDays, days_of
from tasks.storage.workspace.run_folder import hold
from tasks.storage.workspace.settings import Workspace, blocks_of
from tasks.verification.files.folder import open_version
from tasks.verification.fitted_meaning import SyntheticMeaning

_SPEC_SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, repr=False)
class Evaluation:
    """What was found, and where it was written; private."""

    release: str
    version: int
    columns: tuple[str, ...]
    scores: PrivateScores | PrivateTableErrors | PrivateStatisticErrors | PrivateModelScores
    files: ScoreFiles


@dataclass(frozen=True)
class Real:
    """The real rows: a source, and of one period of it the days whose rows alone are taken."""

    source: Source
    days: SourceDays | None = None


class EvaluateProduct(Protocol):
    """Compares a version of one kind with real rows; arguments and refusals as of `evaluate_version`."""

    def __call__(  # noqa: D102
        self, path: Path, real: Real, *, others: Path | None, target: str | None, workspace: Workspace, at: datetime
    ) -> Evaluation: ...


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
    """Compare a version, synthetic, of tables, of statistics or of a model, with confidential rows.

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
    path, real = open_version(folder), real_rows(against, period)
    kind = kind_of(path)
    parts = product_kinds().get("tables" if kind is None else kind)
    if parts is None or parts.evaluation is None:
        compared = [name for name, each in product_kinds().items() if each.evaluation is not None]
        found, remedy = f"a version of kind {kind!r}", "name another version; verify checks this one"
        raise SpecRefused([Finding(str(path), "version", found, word_list(compared), remedy)])
    compare: EvaluateProduct = parts.load("evaluation")
    return compare(path, real, others=others, target=target, workspace=workspace, at=at)


def refuse_option(option: str, value: object, found: str, allowed: str) -> None:
    """Refuse an option that does not fit the kind of product, where it is given."""
    if value is not None:
        raise SpecRefused([Finding("the command", option, found, allowed, "leave it out")])


@contextmanager
def private_snapshot(
    real: Real,
    contract: Contract,
    workspace: Workspace,
    lattices: tuple[ValueLattice | KeyColumn, ...] = (),
    *,
    parents: bool = False,
) -> Iterator[PrivateTable]:
    """Take in the real rows inside the block, with what is added up of them; nothing of them is kept.

    With `parents` the rows of the base's parent table are taken in too.
    """
    name = f"evaluation-of-{contract.digest[:24]}"
    with blocks_of(workspace), hold(workspace.runs, name, keep_snapshot=False) as run:
        yield ingest(
            real.source,
            contract,
            folder=run.path,
            key=workspace.snapshot_key(),
            memory_limit=workspace.memory_limit,
            days=real.days,
            lattices=lattices,
            parents=parents,
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
        found = Finding("the command", option, f"the file {path.name!r}", word_list(tuple(SUFFIXES)), remedy)
        raise SpecRefused([found]) from None


# --- How versions of the built-in kinds of product are compared with real rows; all that is found is private.


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


# --- Evaluation on a holdout that is declared public.


@dataclass(frozen=True)
class HoldoutEvaluation:
    """What was found against public rows, and where it was written."""

    columns: tuple[str, ...]
    found: PublicScores
    files: ScoreFiles


def evaluate_on_holdout(
    folder: Path, holdout: Path, *, because: str | None, target: str | None, workspace: Workspace, at: datetime
) -> HoldoutEvaluation:
    """Compare a version of synthetic rows with rows that the publisher declares public.

    Args:
        folder: the folder of a version that this workspace published; its record's contract encodes the rows.
        holdout: a file with the public rows, as the contract has them.
        because: why they are public; stands in what is written.
        target: the column that classifiers learn to predict; None trains none.
        workspace: has the ledger, keeps the snapshot while it is needed, and takes the scores.
        at: when, in UTC.
    Raises:
        SudareError: there is no reason; the version is not as it was published here; the holdout is a source of the
            ledger or has the rows that the version was made of; or something cannot be used.
    Privacy: no confidential row is read. Beyond what is refused, that the holdout is public is the publisher's word.
    """
    source = file_source(holdout, option="--holdout", remedy="name a file: what a release spec names is confidential")
    declared = DeclaredPublic.of(holdout, because=because)
    path = open_version(folder)
    record, meaning = _synthetic(path)
    check_target(meaning.names, target)
    rows = rows_of(path, record.replay.rows.data, record.release)
    with closing(workspace.open_ledger()) as ledger:
        refuse_confidential(source.name, ledger.sources())
        versions = ledger.versions(record.release)
    names = (RECORD, record.replay.rows.data)
    entry, digests = published_files(path, versions, number=record.version, names=names)
    limit, columns = workspace.memory_limit, meaning.names
    # With the lattices of the version's own snapshot: the same rows must have the same mark.
    lattices = meaning.product.lattices(meaning.contract)
    with private_snapshot(Real(source), meaning.contract, workspace, lattices) as table:
        replay = record.replay
        refuse_own_rows(table, mark=mark_of_snapshot(path), spec_digest=replay.spec_digest, due=replay.due)
        private = evaluate(
            table, rows, meaning.contract, columns=columns, target=target, memory_limit=limit, shares=True
        )
    declared.check_unchanged(holdout)
    found = PublicScores.of(private, declared, entry=entry, digests=digests)
    return HoldoutEvaluation(columns, found, write_public_scores(found, workspace, at=at))


def _synthetic(path: Path) -> tuple[SyntheticRecord, SyntheticMeaning]:
    """Read the record of a synthetic version; a table counts its own people alone."""
    if is_of_tables(path):
        found, allowed = "a version of tables", "a version of synthetic rows: a table counts its own people alone"
        remedy = "--against compares tables, privately"
        raise SpecRefused([Finding("the command", "--holdout", found, allowed, remedy)])
    record, meaning = published_record(path)
    barred = unusable(meaning.product, "holdout", where="the command", field="--holdout")
    if barred:
        raise SpecRefused(barred)
    return record, meaning


# --- How synthetic rows of two linked tables are compared with real ones; all that is found is private.


class LinkedEvaluation:
    """Two tables: the child's rows with their parents' columns, and what more there is."""

    def scores(
        self,
        path: Path,
        record: SyntheticRecord,
        meaning: SyntheticMeaning,
        table: PrivateTable,
        made: Path,
        terms: dict[str, Any],
    ) -> PrivateScores:
        """Compare; as `ModifierEvaluation`."""
        contract, names, limit = meaning.contract, meaning.names, terms["memory_limit"]
        above = record.replay.rows.parents
        parents = rows_of(path, "" if above is None else above.data, parent_name(record.release))
        folder = table.path.parent
        with joined_rows(made, parents, contract, names, folder=folder, memory_limit=limit) as joined:
            scores = evaluate(table, joined.rows, contract, **terms)
            return with_linked_errors(scores, table, joined, parents, contract, names, memory_limit=limit)
