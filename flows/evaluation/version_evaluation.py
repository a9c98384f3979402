"""Evaluation of a version: take in the real rows, and compare as its kind of product does.

No Prefect: no orchestrator hears of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from pydantic import ValidationError

from contracts.contract.contract import Contract
from contracts.domains.text import KeyColumn
from contracts.domains.value_lattices import ValueLattice
from contracts.errors import Finding, SpecRefused
from contracts.reading.scalars import word_list
from contracts.release.file_names import SUFFIXES
from contracts.release.product_kinds import product_kinds
from contracts.release.source import Source
from contracts.release.spec import load_spec
from privacy.evaluation.model_scores import PrivateModelScores
from privacy.evaluation.scores import PrivateScores
from privacy.evaluation.statistic_errors import PrivateStatisticErrors
from privacy.evaluation.table_errors import PrivateTableErrors
from privacy.private_table import PrivateTable
from tasks.evaluation.score_files import ScoreFiles
from tasks.ingest import ingest
from tasks.products.version_records import kind_of
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
