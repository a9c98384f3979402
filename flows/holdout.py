"""Evaluation on a holdout that is declared public: no confidential row is read, and what is found may be shown.

No Prefect: no orchestrator hears of it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from contracts.errors import Finding, SpecRefused
from flows.evaluation import file_source, private_snapshot, rows_of
from privacy.evaluation.scores import Scores
from tasks.evaluate import check_target, evaluate
from tasks.evaluation.declared_public import DeclaredPublic, check_reason, refuse_own_rows, write_public_scores
from tasks.evaluation.private_files import ScoreFiles
from tasks.settings import Workspace
from tasks.verification.files import open_version
from tasks.verification.published_record import RECORD, is_of_tables, mark_of_snapshot, published_record


@dataclass(frozen=True)
class HoldoutEvaluation:
    """What was found against public rows, and where it was written."""

    release: str
    version: int
    columns: tuple[str, ...]
    declared: DeclaredPublic
    scores: Scores
    files: ScoreFiles


def evaluate_on_holdout(
    folder: Path, holdout: Path, *, because: str | None, target: str | None, workspace: Workspace, at: datetime
) -> HoldoutEvaluation:
    """Compare a version of synthetic rows with rows that the publisher declares public.

    Args:
        folder: the version's folder; its record's contract encodes the rows. It is not verified.
        holdout: a file with the public rows, as the contract has them.
        because: why they are public; stands in what is written.
        target: the column that classifiers learn to predict; None trains none.
        workspace: keeps the snapshot while it is needed, and takes the scores.
        at: when, in UTC.
    Raises:
        SudareError: there is no reason, the rows are those the version was made of, or something cannot be used.
    Privacy: no confidential row is read. That the holdout is public is the publisher's word, written beside them;
        rows that equal the version's own snapshot are refused, which needs the workspace that made the version.
    """
    reason = check_reason(because)
    source = file_source(holdout, option="--holdout", remedy="name a file: what a release spec names is confidential")
    declared = DeclaredPublic.of(holdout, because=reason)
    path = open_version(folder)
    if is_of_tables(path):
        found, allowed = "a version of tables", "a version of synthetic rows: a table counts its own people alone"
        raise SpecRefused(
            [Finding("the command", "--holdout", found, allowed, "--against compares tables, privately")]
        )
    record, meaning = published_record(path)
    check_target(meaning.names, target)
    made = rows_of(path, record.replay.rows.data, record.release)
    with private_snapshot(source, meaning.contract, workspace) as table:
        refuse_own_rows(table, mark=mark_of_snapshot(path), spec_digest=record.replay.spec_digest)
        found_scores = evaluate(
            table,
            made,
            meaning.contract,
            columns=meaning.names,
            target=target,
            memory_limit=workspace.memory_limit,
        ).scores
    files = write_public_scores(
        found_scores,
        declared,
        workspace,
        release=record.release,
        version=record.version,
        record_sha256=hashlib.sha256((path / RECORD).read_bytes()).hexdigest(),
        at=at,
    )
    return HoldoutEvaluation(record.release, record.version, meaning.names, declared, found_scores, files)
