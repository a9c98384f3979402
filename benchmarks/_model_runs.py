"""Train classifiers on rows in memory, through a ledger of their own, and score them.

An account pays, and a trainer reaches the rows through the grant alone. Noise comes from a seed, so that a run can be
repeated; what such a grant gives cannot be published.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks._neural_fit import ArrayRows, opened
from benchmarks._neural_tables import Table
from privacy.classifiers.classifier import ClassifierModel, layers_of
from privacy.classifiers.trainer import ClassificationTask, joint_epsilon, trainer
from privacy.learning.feed_forward import initial_vector, train_plainly
from privacy.learning.layout import ColumnLayout, RowLayout
from privacy.marginals.portable import PostProcessingSeed

DELTA: Final = Fraction(1, 10**5)


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained model.

    Args:
        model: the model.
        joint: epsilon of all its weights together, at the charge's delta.
        seconds: from plan to model.
    """

    model: ClassifierModel
    joint: float
    seconds: float


@dataclass(frozen=True)
class Scores:
    """How well a model tells the label of rows: share that is right, and the mean F-measure of the cells."""

    accuracy: float
    f_measure: float


def cells_layout(layout: RowLayout) -> RowLayout:
    """Return the layout with one entry a cell for numbers too, as released models have it."""
    each = (
        ColumnLayout(column.name, "category", np.eye(column.table.shape[0])) if column.kind == "number" else column
        for column in layout.columns
    )
    return RowLayout(tuple(each))


def asked_of(table: Table, epsilon: Fraction, delta: Fraction) -> ClassificationTask:
    """Return what a trainer is asked for; numbers by their cell."""
    return ClassificationTask(
        table.domain,
        {},
        "add_remove",
        1,
        epsilon,
        delta,
        None,
        table.layout,
        label=table.label,
        vectors=cells_layout(table.layout),
    )


def trained(
    name: str, options: Mapping[str, Any], table: Table, *, epsilon: Fraction | None, delta: Fraction, seed: int
) -> Trained:
    """Plan, charge and train.

    Args:
        epsilon: of the charge; None for as much as the options need.
    """
    begun, made_by = time.perf_counter(), trainer(name)
    read = made_by.options.model_validate(dict(options))
    asked = asked_of(table, Fraction(10**6) if epsilon is None else epsilon, delta)
    plan = made_by.plan(asked, read)
    joint = joint_epsilon(plan.events, delta)
    with TemporaryDirectory() as folder:
        paid = Fraction(ceil(joint)) if epsilon is None else epsilon
        grant = opened(Path(folder), plan.events, seed=seed, epsilon=paid, delta=delta)
        fitted = made_by.fit(
            asked, read, plan, ArrayRows(table), grant, lambda share, what: None, lambda: PostProcessingSeed(seed)
        )
    return Trained(fitted.model, float(joint), time.perf_counter() - begun)


def trained_plainly(table: Table, options: Mapping[str, Any], *, seed: int) -> ClassifierModel:
    """Train without privacy; nothing of it may be published."""
    layout, label = cells_layout(table.layout), table.label
    head = next(each for each in layout.heads if each.column == label)
    vectors = layout.vectors(table.codes()).astype(np.float64)
    kept = np.r_[0 : head.start, head.stop : layout.width]
    widths = (kept.size, *options["hidden"], head.stop - head.start)
    vector = train_plainly(
        initial_vector(widths, seed),
        widths,
        vectors[:, kept],
        vectors[:, head.start : head.stop],
        epochs=options["epochs"],
        batch=options["batch"],
        learning_rate=options["learning_rate"],
        regulariser=0.001,
        seed=seed,
    )
    return ClassifierModel(layout, label, layers_of(vector.astype(np.float32), widths))


def scores(cells: NDArray[np.int64], labels: NDArray[np.int64]) -> Scores:
    """Score predicted cells."""
    each = []
    for cell in np.unique(labels):
        hits = int(((cells == cell) & (labels == cell)).sum())
        each.append(2 * hits / (int((cells == cell).sum()) + int((labels == cell).sum())))
    return Scores(float((cells == labels).mean()), float(np.mean(each)))


def scored(model: ClassifierModel, table: Table) -> Scores:
    """Score a model on rows."""
    return scores(model.cells(table.codes()), table.labels())
