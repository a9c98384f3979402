"""How counts by place are compared with real rows; all that is found is private."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from flows.evaluation.evaluate import Evaluation, Real, private_snapshot, refuse_option
from tasks.evaluation.place_scores import evaluate_places
from tasks.evaluation.private_files import write_scores
from tasks.products.spine.published_version import spine_version
from tasks.storage.workspace.settings import Workspace


def evaluate_place_version(
    path: Path, real: Real, *, others: Path | None, target: str | None, workspace: Workspace, at: datetime
) -> Evaluation:
    """Compare counts by place; as `evaluate_version`."""
    version = spine_version(path)
    refuse_option("--others", others, "rows that were not trained on", "none: this version is not of a model")
    counts, allowed = "a target of a version of counts", "a target of a synthetic version: counts have no rows"
    refuse_option("--target", target, counts, allowed)
    contract, limit = version.contract, workspace.memory_limit
    with private_snapshot(real, contract, workspace) as table:
        errors = evaluate_places(table, path, version.plan.draws, version.tree, contract, memory_limit=limit)
    release, number = version.record.release, version.record.version
    files = write_scores(errors, workspace, release=release, version=number, at=at)
    return Evaluation(release, number, version.product.names(contract), errors, files)
