"""What an attacker sees of a shadow release, by kind of product; made by the steps that make the release itself."""

from __future__ import annotations

import secrets
from typing import Final

import numpy as np

from contracts.contract.contract import Contract
from contracts.release.spec import ReleaseSpec
from privacy.classifiers.trainer import ClassificationTask, trainer
from privacy.evaluation.seen_releases import SeenModel, SeenRows, SeenTable, SeenTables
from privacy.generators.calibration import FittedPlan, generator, whole_fitter
from privacy.generators.generator import FitProgress, SynthesisTask
from privacy.grant.grant import Grant
from privacy.marginals.portable import PostProcessingSeed
from privacy.private_table import PrivateTable
from privacy.snapshots.snapshot import SnapshotCounts
from privacy.snapshots.snapshot_source import SnapshotSource
from privacy.table_plans.plan import TablesPlan
from tasks.products.synthetic.fit import rows_of
from tasks.products.tables.table_measurement import measure_counts
from tasks.products.tables.table_refinement import refine
from tasks.records.outputs import DenseTable

MOST_SAMPLED: Final = 4_096
"""Synthetic rows that an attacker looks at, where the spec writes more."""


def seen_tables(
    spec: ReleaseSpec, contract: Contract, plan: TablesPlan, grant: Grant, part: PrivateTable, advance: FitProgress
) -> SeenTables:
    """Measure and refine; of sparse tables, and of those with bins of their own, nothing is looked at."""
    names = tuple(column.name for column in contract.columns)
    measured = measure_counts(grant, plan, SnapshotCounts(part, contract))
    return SeenTables(
        tuple(
            SeenTable(
                tuple(names.index(name) for name in table.columns),
                np.nan_to_num(np.asarray(table.refined.values, np.float64)),
                table.measurement.variance,
            )
            for table in refine(spec.tables_product, plan, contract, measured)
            if isinstance(table, DenseTable) and table.refined.values.shape == contract.shape(table.columns)
        )
    )


def seen_rows(
    spec: ReleaseSpec,
    contract: Contract,
    plan: FittedPlan[SynthesisTask],
    grant: Grant,
    part: PrivateTable,
    advance: FitProgress,
) -> SeenRows:
    """Fit, and sample some rows."""
    counts, seed = SnapshotSource(part, contract), _seed()
    made_by = whole_fitter(generator(plan.generator), plan.task, draws_only=True)
    model = made_by.fit(plan.task, plan.options, plan.plan, counts, grant, advance, lambda: seed).model
    rows, _ = rows_of(spec.synthetic_product, contract, model)
    return SeenRows(model.sample(max(1, min(rows, MOST_SAMPLED)), seed=seed.value))


def seen_classifier(
    spec: ReleaseSpec,
    contract: Contract,
    plan: FittedPlan[ClassificationTask],
    grant: Grant,
    part: PrivateTable,
    advance: FitProgress,
) -> SeenModel:
    """Train."""
    counts, seed, product = SnapshotSource(part, contract), _seed(), spec.classifier_product
    made = trainer(plan.generator).fit(plan.task, plan.options, plan.plan, counts, grant, advance, lambda: seed)
    return SeenModel(made.model, product.names(contract).index(product.label))


def _seed() -> PostProcessingSeed:
    return PostProcessingSeed(secrets.randbits(128))
