"""Evaluation on a holdout that is declared public: no confidential row is read, and what is found may be shown.

No Prefect: no orchestrator hears of it.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from contracts.errors import Finding, SpecRefused
from contracts.release.synthetic_modifiers import unusable
from flows.evaluation.product_evaluations import rows_of
from flows.evaluation.version_evaluation import Real, file_source, private_snapshot
from tasks.evaluate import check_target, evaluate
from tasks.evaluation.public_rows import (
    DeclaredPublic,
    PublicScores,
    published_files,
    refuse_confidential,
    refuse_own_rows,
    write_public_scores,
)
from tasks.evaluation.score_files import ScoreFiles
from tasks.products.version_records import RECORD, is_of_tables, mark_of_snapshot, published_record
from tasks.records.model.synthetic_statements import SyntheticRecord
from tasks.storage.workspace.settings import Workspace
from tasks.verification.files.version_folder import open_version
from tasks.verification.fitted_meaning import SyntheticMeaning


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
