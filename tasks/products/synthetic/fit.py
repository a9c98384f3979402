"""Synthesize: the generator measures through the grant and fits a model; rows come out of the published model."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import ClassVar

from contracts.contract.contract import Contract
from contracts.release.product import MOST_ROWS
from contracts.release.spec import SyntheticProduct
from contracts.release.synthetic import ESTIMATED
from privacy.generators.calibration import FittedPlan, generator, whole_fitter
from privacy.generators.generator import Model, SynthesisTask
from privacy.generators.rows import read_model
from privacy.grant.grant import Grant
from privacy.private_table import PrivateTable
from privacy.snapshots.snapshot_source import SnapshotSource
from tasks.products.fit import seed_of_run
from tasks.products.product_kind import Making, MakingStep
from tasks.records.draws.marginal import write_drawn
from tasks.records.facts import Outputs, RunFacts
from tasks.records.files.synthetic_files import RowsFile, rows_file, write_model, write_rows
from tasks.records.files.tidy_tables import WrittenFile
from tasks.records.modifiers.record_modifier import record_modifiers
from tasks.records.outputs import RowsFrom, Synthesis
from tasks.storage.progress import step

logger = logging.getLogger(__name__)


def synthesize(
    grant: Grant,
    product: SyntheticProduct,
    plan: FittedPlan[SynthesisTask],
    table: PrivateTable,
    contract: Contract,
    folder: Path,
    run_key: str,
) -> Synthesis:
    """Fit the generator's model through the grant, then draw the seed of the rows (or replay both).

    Args:
        grant: the opened grant of the run.
        product: the synthetic product.
        plan: what the generator planned.
        table: the snapshot.
        contract: the contract that encoded it.
        folder: the run's private folder; keeps the seed.
        run_key: the run.
    Returns:
        Synthesis: all that is published of it.
    Raises:
        OutOfTime: the generator's time limit has passed before it had a model; what was drawn stays charged.
        GrantExceeded: the generator asked for more than it planned.
    Privacy: exactly what the grant admits; the rest is post-processing.
    """
    counts, seed = SnapshotSource(table, contract), partial(seed_of_run, folder, run_key)
    made_by = whole_fitter(generator(plan.generator), plan.task)
    with step("synthesize") as bar:
        fitted = made_by.fit(plan.task, plan.options, plan.plan, counts, grant, bar.advance, seed)
    model = read_model(fitted.model.kind, *fitted.model.to_arrays())
    rows, rows_from = rows_of(product, contract, model)
    made = Synthesis(fitted, model, seed(), rows, rows_from)
    for modifier in record_modifiers(product):
        made = modifier.made(made, contract)
    further = sum(len(each.draws) - 1 for each in fitted.trainings)
    logger.info("fitted %s: %d draws", plan.generator, len(fitted.draws) + further)
    return made


def rows_of(product: SyntheticProduct, contract: Contract, model: Model) -> tuple[int, RowsFrom]:
    """Return how many rows are published, of two tables how many parents, and why so many."""
    if product.rows != ESTIMATED:
        return product.rows, "declared"
    return min(model.rows, MOST_ROWS), "estimated" if contract.total is None else "public"


# --- Synthetic rows.


def _synthesized(making: Making, _before: None) -> Outputs:
    product, key = making.spec.synthetic_product, making.run_key
    terms = making.plan, making.table, making.contract, making.folder, key
    return Outputs(synthesis=synthesize(making.grant, product, *terms))


class SyntheticMaking:
    """Synthetic rows."""

    steps: ClassVar[tuple[MakingStep, ...]] = (MakingStep("synthesize", _synthesized),)

    def write_files(self, facts: RunFacts, folder: Path, *, marks: Mapping[str, str]) -> tuple[WrittenFile, ...]:
        """Write rows, model, and what was drawn."""
        _, made = facts.synthetic
        files: tuple[RowsFile, ...] = (rows_file(made, facts),)
        for modifier in record_modifiers(facts.spec.product):
            files = modifier.row_files(files, facts)
        rows = write_rows(files, facts, folder, marks=marks)
        drawn = write_drawn(made.fitted, facts, folder, marks=marks)
        model = write_model(made.model, folder, marks=marks)
        return (*rows, *drawn, *model)
