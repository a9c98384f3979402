"""Classifiers: a trainer plans and draws, and weights, inputs, card and what was drawn are written."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import ClassVar

from contracts.contract.contract import Contract
from privacy.classifiers.trainer import ClassificationTask, trainer
from privacy.generators.calibration import FittedPlan
from privacy.grant.grant import Grant
from privacy.private_table import PrivateTable
from privacy.snapshots.snapshot_source import SnapshotSource
from tasks.products.fit import seed_of_run
from tasks.products.product_kind import Making, MakingStep
from tasks.records.draws.marginal import write_drawn
from tasks.records.facts import Outputs, RunFacts
from tasks.records.files.classifier_files import write_network
from tasks.records.files.tidy_tables import WrittenFile
from tasks.records.outputs import TrainedClassifier
from tasks.storage.progress import step

# --- Train.


logger = logging.getLogger(__name__)


def train_classifier(
    grant: Grant,
    plan: FittedPlan[ClassificationTask],
    table: PrivateTable,
    contract: Contract,
    folder: Path,
    run_key: str,
) -> TrainedClassifier:
    """Train a classifier through the grant.

    Args:
        grant: the opened grant of the run.
        plan: what the trainer planned.
        table: the snapshot.
        contract: the contract that encoded it.
        folder: the run's private folder; keeps the seed, where there is one.
        run_key: the run.
    Returns:
        TrainedClassifier: all that is published of it.
    Raises:
        OutOfTime: the trainer's time limit has passed before it had a model; what was drawn stays charged.
        GrantExceeded: the trainer asked for more than it planned.
    Privacy: exactly what the grant admits; the rest is post-processing.
    """
    counts, seed = SnapshotSource(table, contract), partial(seed_of_run, folder, run_key)
    made_by = trainer(plan.generator)
    with step("train") as bar:
        fitted = made_by.fit(plan.task, plan.options, plan.plan, counts, grant, bar.advance, seed)
    logger.info("trained by %s: %d parameters", plan.generator, fitted.model.parameters)
    return TrainedClassifier(fitted)


def _trained(making: Making, _before: None) -> Outputs:
    terms = making.plan, making.table, making.contract, making.folder, making.run_key
    return Outputs(classifier=train_classifier(making.grant, *terms))


class ClassifierMaking:
    """Classifiers."""

    steps: ClassVar[tuple[MakingStep, ...]] = (MakingStep("train", _trained),)

    def write_files(self, facts: RunFacts, folder: Path, *, marks: Mapping[str, str]) -> tuple[WrittenFile, ...]:
        """Write weights, inputs, card, and what was drawn."""
        drawn = write_drawn(facts.trained[1].fitted, facts, folder, marks=marks)
        return (*write_network(facts, folder), *drawn)
