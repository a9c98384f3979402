"""How counts by place and adaptive tables are compared with real rows; all that is found is private."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Final

from contracts.contract.contract import Contract
from contracts.release.adaptive.detail_levels import detail_cells
from flows.evaluation.version_evaluation import Evaluation, Real, private_snapshot, refuse_option
from privacy.evaluation.table_errors import PrivateTableErrors
from privacy.private_table import PrivateTable
from tasks.evaluation.place_scores import evaluate_details, evaluate_places
from tasks.evaluation.private_files import write_scores
from tasks.products.adaptive.adaptive_checks import read_adaptive
from tasks.products.spine.published_version import spine_version
from tasks.products.version_records import RECORD, understood
from tasks.records.adaptive.adaptive_statement import AdaptiveRecord
from tasks.storage.workspace.settings import Workspace

_NOT_OF_A_MODEL: Final = "rows that were not trained on", "none: this version is not of a model"
_NO_ROWS: Final = "a target of a version of counts", "a target of a synthetic version: counts have no rows"


def evaluate_place_version(
    path: Path, real: Real, *, others: Path | None, target: str | None, workspace: Workspace, at: datetime
) -> Evaluation:
    """Compare counts by place; as `evaluate_version`."""
    version = spine_version(path)
    names, limit = version.product.names(version.contract), workspace.memory_limit

    def compare(table: PrivateTable) -> PrivateTableErrors:
        return evaluate_places(table, path, version.plan.draws, version.tree, version.contract, memory_limit=limit)

    _refuse(others, target)
    named = version.record.release, version.record.version
    return _evaluated(real, version.contract, names, named, compare, workspace, at)


def evaluate_adaptive_version(
    path: Path, real: Real, *, others: Path | None, target: str | None, workspace: Workspace, at: datetime
) -> Evaluation:
    """Compare adaptive tables; as `evaluate_version`."""
    record, meaning = understood(
        path,
        AdaptiveRecord,
        lambda found: read_adaptive(found.replay, where=RECORD),
        found="no record of adaptive tables that can be read",
        remedy="sudare verify says what is wrong with this version",
    )
    tables, limit = [detail_cells(each, meaning.contract) for each in meaning.product.tables], workspace.memory_limit

    def compare(table: PrivateTable) -> PrivateTableErrors:
        return evaluate_details(table, path, tables, meaning.contract, memory_limit=limit)

    _refuse(others, target)
    return _evaluated(real, meaning.contract, meaning.names, (record.release, record.version), compare, workspace, at)


def _refuse(others: Path | None, target: str | None) -> None:
    refuse_option("--others", others, *_NOT_OF_A_MODEL)
    refuse_option("--target", target, *_NO_ROWS)


def _evaluated(
    real: Real,
    contract: Contract,
    names: tuple[str, ...],
    version: tuple[str, int],
    compare: Callable[[PrivateTable], PrivateTableErrors],
    workspace: Workspace,
    at: datetime,
) -> Evaluation:
    """Take in the real rows, compare, and write what was found to the private folder."""
    with private_snapshot(real, contract, workspace) as table:
        errors = compare(table)
    release, number = version
    files = write_scores(errors, workspace, release=release, version=number, at=at)
    return Evaluation(release, number, names, errors, files)
