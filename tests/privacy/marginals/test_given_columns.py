"""Columns drawn given others: exactly the conditional distribution of the model, the same bytes every time."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from privacy.marginals.blocks import NothingPossible
from privacy.marginals.graph import CellDomain
from privacy.marginals.inference import GraphicalModel
from privacy.marginals.model import conditional_columns, conditional_megabytes, draw_given, elimination
from privacy.marginals.portable import PostProcessingSeed

DOMAIN = CellDomain(("age", "work", "pay", "region", "size"), (3, 2, 4, 2, 3))
CLIQUES = (("age", "work"), ("work", "pay"), ("age", "pay"), ("pay", "region"), ("age", "size"))
GIVEN = ("region", "size")


def model(seed: int = 1) -> GraphicalModel:
    chance = np.random.default_rng(seed)
    potentials = tuple(chance.normal(size=DOMAIN.sizes(clique)) for clique in CLIQUES)
    return GraphicalModel(DOMAIN, CLIQUES, potentials, 1000.0)


def joint(made: GraphicalModel) -> np.ndarray:
    logs = np.zeros(DOMAIN.shape)
    for clique, values in made.factors.items():
        shape = [size if name in clique else 1 for name, size in zip(DOMAIN.columns, DOMAIN.shape, strict=True)]
        logs = logs + values.reshape(shape)
    whole = np.exp(logs)
    return np.asarray(whole / whole.sum())


def test_the_steps_multiply_to_the_conditional_distribution() -> None:
    """Cell by cell, against the full table: a factor that was lost, or a parent's that was counted, would show."""
    made = model()
    columns = conditional_columns(made, GIVEN)
    product = np.ones(DOMAIN.shape)
    for step in columns.steps:
        weights = step.weights / step.weights.sum(axis=1, keepdims=True)
        table = weights.reshape((*step.shape, weights.shape[1]))
        names = (*step.known, step.column)
        order = np.argsort([DOMAIN.place(name) for name in names])
        shape = [size if name in names else 1 for name, size in zip(DOMAIN.columns, DOMAIN.shape, strict=True)]
        product = product * table.transpose(order).reshape(shape)
    whole = joint(made)
    expected = whole / whole.sum(axis=(0, 1, 2), keepdims=True)
    assert np.abs(product - expected).max() < 1e-9


def test_rows_follow_the_conditional_whatever_the_given_columns_are() -> None:
    """20,000 rows of each given cell: 0.02 is 5.6 deviations of a share of a half, and the seed is fixed."""
    made, rows = model(2), 60_000
    expected = joint(made)
    for region in range(2):
        known = {"region": np.full(rows, region), "size": np.arange(rows) % 3}
        codes = draw_given(conditional_columns(made, GIVEN), known, rows, seed=PostProcessingSeed(5))
        for size in range(3):
            one = known["size"] == size
            table = expected[:, :, :, region, size]
            for axis, name in enumerate(("age", "work", "pay")):
                others = tuple(place for place in range(3) if place != axis)
                share = np.bincount(codes[name][one], minlength=table.shape[axis]) / one.sum()
                assert np.abs(share - table.sum(axis=others) / table.sum()).max() < 0.02


def test_the_same_bytes() -> None:
    """Golden digest: another order of elimination, or of streams, would be another release."""
    known = {"region": np.arange(500) % 2, "size": np.arange(500) % 3}
    codes = draw_given(conditional_columns(model(3), GIVEN), known, 500, seed=PostProcessingSeed(11))
    stacked = np.stack([codes[name] for name in DOMAIN.columns]).astype("<i8")
    again = draw_given(conditional_columns(model(3), GIVEN), known, 500, seed=PostProcessingSeed(11))
    assert all(np.array_equal(codes[name], again[name]) for name in DOMAIN.columns)
    assert hashlib.sha256(stacked.tobytes()).hexdigest()[:16] == "073d8e54e47f4fad"


def test_a_given_row_without_any_possible_other_is_refused() -> None:
    zeros = np.zeros((4, 2))
    zeros[:, 1] = -np.inf
    made = GraphicalModel(DOMAIN, (("pay", "region"),), (zeros,), 1.0)
    columns = conditional_columns(made, GIVEN)
    known = {"region": np.array([0, 1]), "size": np.array([0, 0])}
    with pytest.raises(NothingPossible):
        draw_given(columns, known, 2, seed=PostProcessingSeed(1))
    assert len(
        draw_given(columns, {"region": np.zeros(1, int), "size": np.zeros(1, int)}, 1, seed=PostProcessingSeed(1))
    )


def test_given_columns_are_never_eliminated() -> None:
    """Of a chain each column depends on one other; the memory is that of these tables."""
    chain = [("age", "work"), ("work", "pay"), ("pay", "region")]
    order = list(elimination(DOMAIN, chain, GIVEN))
    assert {column for column, _ in order} == {"age", "work", "pay"}
    assert all(len(known) <= 1 for _, known in order)
    assert conditional_megabytes(DOMAIN, chain, GIVEN) == 8 * (3 * 2 + 2 * 4 + 4 * 2) / 2**20
