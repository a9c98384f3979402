"""Evaluate: how close a version's made-up rows come to the rows that they imitate. For the auditor alone.

What is found are numbers about confidential rows that nobody paid for (DESIGN law 5). So they travel as
`PrivateScores`, and `tasks.evaluation.private_files` alone writes them, into the workspace's private folder.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from contracts.contract.contract import Contract
from contracts.domains.value_sql import identifier
from contracts.errors import Finding, Refused
from contracts.reading.scalars import nearest, word_list
from privacy.evaluation.cells import EncodedRows
from privacy.evaluation.rows import BOOTSTRAP, INDEPENDENT, PrivateScores, compare, majority
from privacy.private_table import PrivateTable
from tasks.evaluation.linked_scores import encoded_rows, fetched_rows, refuse_pictures
from tasks.evaluation.scores import (
    LEARNERS,
    MAKERS,
    PACKAGES,
    accuracies,
    check_installed,
    learned_from_real,
    propensities,
    yardstick_of,
)
from tasks.storage.duckdb_session import connect
from tasks.storage.progress import Bar, step

if TYPE_CHECKING:
    pass

logger = logging.getLogger(__name__)

DEGREES = (1, 2, 3)
MOST_FOR_THE_MACHINE = 5_000
"""Rows of which the support vector machine learns, and on which it is tested; of 50,000 it took minutes."""
SECONDS = {
    "decision tree": 0.5,
    "support vector machine": 6.0,
    "xgboost": 10.0,
    "propensity": 4.0,
    BOOTSTRAP: 5.0,
    INDEPENDENT: 5.0,
}
"""What the stages of 50,000 rows and 15 columns take, for the share that is done."""
LAST_SECONDS = 1.0
_LEARN = "train a classifier of your own on the version's pictures, and test it on real ones"


def evaluate(
    table: PrivateTable,
    synthetic: Path,
    contract: Contract,
    *,
    columns: Sequence[str],
    target: str | None,
    memory_limit: str,
    shares: bool = False,
) -> PrivateScores:
    """Compare made-up rows with the snapshot that they imitate.

    Args:
        table: the snapshot.
        synthetic: Parquet file with the made-up rows, as a version holds it.
        contract: the contract that encoded the snapshot, and encodes the made-up rows.
        columns: what is compared, columns of the contract that the made-up rows have.
        target: column that classifiers learn to predict from the made-up rows and are tested on in the snapshot;
            None trains none.
        memory_limit: DuckDB's limit, such as "1GB" [text].
        shares: compare shares of the rows rather than counts: the rows are not those that were imitated.
    Returns:
        α-way errors for α = 1, 2, 3, errors of mutual information and association, propensities, and accuracies;
        private.
    Raises:
        Refused: the snapshot is of another contract, a column is missing or holds pictures, or a table has no rows.
        EvaluationExtraMissing: a target is named and the extra is not installed.
    Privacy: nothing is drawn or charged, and the result must not be shown to anybody who may not see the rows.
    """
    check_target(columns, target)
    refuse_pictures(contract, columns, "the evaluation", _LEARN)
    if table.contract_digest != contract.digest:
        allowed = "the contract that encoded the snapshot"
        found = "another contract than the snapshot's"
        raise Refused([Finding(f"contract {contract.id}", "digest", found, allowed)])
    with step("evaluate") as bar:
        names = tuple(columns)
        spill = table.path.parent / "spill"
        chosen = ", ".join(map(identifier, names))
        with connect(table.path, memory_limit=memory_limit, spill=spill, read_only=True) as connection:
            real = fetched_rows(connection, f"SELECT {chosen} FROM codes", contract, names, table.path)
        imitation = encoded_rows(synthetic, contract, names, spill, memory_limit)
        found_scores = _scored(real, imitation, target, shares=shares, stage=_stages(bar, target is not None))
    logger.info("evaluated made-up rows of %d columns against a snapshot", len(names))
    return found_scores


def check_target(columns: Sequence[str], target: str | None) -> None:
    """Refuse a target that cannot be learned.

    Raises:
        Refused: it is none of the columns, or the only one.
        EvaluationExtraMissing: the extra is not installed.
    """
    if target is None:
        return
    check_installed(*PACKAGES)
    if target in columns and len(columns) > 1:
        return
    known = target in columns
    found = f"the column {target!r}" + (", the only one" if known else "")
    allowed = "a column beside others to learn it from" if known else word_list(tuple(columns))
    raise Refused([Finding("the evaluation", "target", found, allowed, "" if known else nearest(target, columns))])


def _scored(
    real: EncodedRows, imitation: EncodedRows, target: str | None, *, shares: bool, stage: Callable[[str], None]
) -> PrivateScores:
    """Score the made-up rows, and beside them the yardsticks."""
    reached, best = {}, {}
    if target is not None:
        reached = accuracies(imitation, real, target=target, most=MOST_FOR_THE_MACHINE, after=stage)
        best = learned_from_real(real, target=target, most=MOST_FOR_THE_MACHINE, after=stage)
    told_apart = propensities(real, imitation)
    stage("propensity")
    beside = {}
    for name in MAKERS:
        beside[name] = yardstick_of(name, real, degrees=DEGREES, shares=shares)
        stage(name)
    return compare(
        real,
        imitation,
        degrees=DEGREES,
        shares=shares,
        accuracies=reached,
        propensity=told_apart,
        yardsticks=beside,
        learned_from_real=best,
        majority=None if target is None else majority(real, target),
    )


def _stages(bar: Bar, learns: bool) -> Callable[[str], None]:
    """Return what moves the bar at the end of each stage, by what the stages take on 50,000 rows."""
    twice = {name: 2 * SECONDS.get(name, 1.0) for name in LEARNERS} if learns else {}
    whole = sum(twice.values()) + sum(SECONDS[name] for name in ("propensity", *MAKERS)) + LAST_SECONDS
    done = 0.0

    def ended(name: str) -> None:
        nonlocal done
        done += SECONDS.get(name, 1.0)
        bar.advance(done / whole, f"{name} done")

    return ended
