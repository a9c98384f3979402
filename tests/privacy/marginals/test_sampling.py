"""Sampled rows follow the model, replay byte for byte, and never break a structural zero."""

import hashlib
import os
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.stats import chi2

from privacy.marginals import model as sampling
from privacy.marginals.blocks import NothingPossible
from privacy.marginals.graph import CellDomain
from privacy.marginals.inference import GraphicalModel
from privacy.marginals.model import sample
from privacy.marginals.portable import PostProcessingSeed, logarithm, scaled_exponential
from tests.privacy.marginals.random_models import joint, models, random_model, summed

SEED = PostProcessingSeed(20_240_229)
CHAIN = CellDomain(("a", "b", "c", "d"), (3, 4, 5, 6))


def counted(domain: CellDomain, rows: np.ndarray, clique: tuple[str, ...]) -> np.ndarray:
    shape = domain.sizes(clique)
    codes = tuple(rows[:, domain.place(name)].astype(np.intp) for name in clique)
    return np.bincount(np.ravel_multi_index(codes, shape), minlength=int(np.prod(shape))).reshape(shape)


def test_the_same_potentials_and_seed_give_the_same_bytes():
    """A digest that any machine must reproduce; another seed gives others."""
    generator = [np.arange(12.0).reshape(3, 4) % 5 / 8, np.arange(20.0).reshape(4, 5) % 7 / 4]
    model = GraphicalModel(CHAIN, (("a", "b"), ("b", "c")), tuple(generator), 1000.0)
    rows = sample(model, 1000, seed=SEED)
    assert rows.dtype == np.uint8
    assert (
        hashlib.sha256(rows.tobytes()).hexdigest()
        == "0bb2f22d997163d3bd964140867d82bb936697c844d968e707d6fcda12d34ebf"
    )
    assert (sample(model, 1000, seed=PostProcessingSeed(1)) != rows).any()


@settings(max_examples=60, deadline=None)
@given(models())
def test_every_row_is_possible(model: GraphicalModel):
    """No sampled combination has probability zero, and one-way counts are within the rounding of each step."""
    table = joint(model)
    rows = sample(model, 200, seed=SEED)
    drawn = counted(model.domain, rows, model.domain.columns)
    assert drawn.sum() == 200
    assert (drawn[table == 0] == 0).all()


@pytest.mark.stat
def test_pairs_survive_sampling_also_across_nodes():
    """Chi-square of all pairs and triples of a chain: n = 200,000, false alarms below 1e-9 each. Systematic rounding
    varies less than independent draws, so the bound is one-sided. The wrong case, codes laid out in the order of the
    rows instead of shuffled within groups, fails it by far."""
    model = random_model(CHAIN, (("a", "b"), ("b", "c"), ("c", "d")), 5, scale=0.7)
    rows = sample(model, 200_000, seed=SEED)
    unshuffled = rows[np.lexsort(rows.T[[0]])].copy()
    unshuffled[:, 3] = np.sort(rows[:, 3])
    for clique in [*combinations(CHAIN.columns, 2), *combinations(CHAIN.columns, 3)]:
        expected = summed(joint(model), CHAIN, clique) * 200_000 / model.total
        statistic = ((counted(CHAIN, rows, clique) - expected) ** 2 / expected).sum()
        assert statistic < chi2.isf(1e-9, expected.size - 1)
    expected = summed(joint(model), CHAIN, ("a", "d")) * 200_000 / model.total
    wrong = ((counted(CHAIN, unshuffled, ("a", "d")) - expected) ** 2 / expected).sum()
    assert wrong > chi2.isf(1e-9, expected.size - 1)


@pytest.mark.long
@pytest.mark.stat
def test_a_single_row_follows_the_model():
    """n = 6,000 seeds, one row each: chi-square of the joint table, false alarm 1e-9. The codes of the first column
    the other way round are found."""
    domain = CellDomain(("a", "b"), (2, 3))
    model = random_model(domain, (("a", "b"),), 8)
    rows = np.concatenate([sample(model, 1, seed=PostProcessingSeed(number)) for number in range(6_000)])
    expected, drawn = joint(model) * 6_000 / model.total, counted(domain, rows, ("a", "b"))
    right, wrong = (((each - expected) ** 2 / expected).sum() for each in (drawn, drawn[::-1]))
    assert right < chi2.isf(1e-9, 5) < wrong


def test_counts_are_within_one_of_the_expectation_in_the_first_column():
    """Rounding, not drawing: the first column's counts are the expectations rounded up or down."""
    model = random_model(CHAIN, (("a", "b"), ("b", "c"), ("c", "d")), 5)
    rows = sample(model, 12_345, seed=SEED)
    first = model.tree.nodes[0].residual[0]
    expected = summed(joint(model), CHAIN, (first,)) * 12_345 / model.total
    assert (np.abs(counted(CHAIN, rows, (first,)) - expected) < 1).all()


def test_evidence_holds_and_conditions_the_rest():
    """One column fixed, another restricted to two codes; the third follows the conditional table."""
    model = random_model(CHAIN, (("a", "b"), ("b", "c"), ("c", "d")), 9)
    rows = sample(model, 50_000, seed=SEED, where={"d": 2, "a": [0, 2]})
    assert set(rows[:, 3]) == {2}
    assert set(rows[:, 0]) == {0, 2}
    table = summed(joint(model), CHAIN, ("b", "a", "d"))[:, [0, 2], 2].sum(axis=1)
    np.testing.assert_allclose(counted(CHAIN, rows, ("b",)) / 50_000, table / table.sum(), atol=0.01)


def test_impossible_evidence_and_bad_arguments_are_refused():
    """Named, before anything is drawn."""
    values = np.array([[0.0, -np.inf], [0.0, 0.0]])
    model = GraphicalModel(CellDomain(("a", "b"), (2, 2)), (("a", "b"),), (values,), 3.0)
    with pytest.raises(NothingPossible):
        sample(model, 5, seed=SEED, where={"a": 0, "b": 1})
    with pytest.raises(ValueError, match="codes 0 to 1"):
        sample(model, 5, seed=SEED, where={"a": 2})
    with pytest.raises(ValueError, match="no column"):
        sample(model, 5, seed=SEED, where={"c": 0})
    with pytest.raises(ValueError, match="rows"):
        sample(model, -1, seed=SEED)
    with pytest.raises(ValueError, match="seed"):
        PostProcessingSeed(-1)
    assert sample(model, 0, seed=SEED).shape == (0, 2)


def test_portable_functions_are_accurate():
    """Against the library's, over their whole ranges."""
    logs = -np.linspace(0, 30, 100_001)
    np.testing.assert_allclose(scaled_exponential(logs, 50), np.exp(logs) * 2.0**50, rtol=1e-14, atol=1.0)
    assert scaled_exponential(np.array([-np.inf, -1e300, 0.0]), 40).tolist() == [0, 0, 2**40]
    values = np.unique(np.geomspace(1, 2**62, 100_000).astype(np.int64))
    np.testing.assert_allclose(logarithm(values), np.log(values.astype(float)), rtol=1e-15, atol=1e-16)
    assert np.isneginf(logarithm(np.array([0])))[0]


@pytest.mark.services
def test_the_bytes_do_not_depend_on_the_processor():
    """The same digest with all of numpy's vectorised kernels switched off, as on the oldest processor it runs on."""
    features = [*np._core._multiarray_umath.__cpu_dispatch__]  # type: ignore[attr-defined]
    lacking = [name for name in features if np._core._multiarray_umath.__cpu_features__.get(name)]  # type: ignore[attr-defined]
    program = (
        "import hashlib\n"
        "from tests.privacy.marginals.random_models import random_model\n"
        "from tests.privacy.marginals.test_sampling import CHAIN, SEED, sample\n"
        "model = random_model(CHAIN, (('a', 'b', 'c'), ('c', 'd')), 6, 3.0)\n"
        "print(hashlib.sha256(sample(model, 20_000, seed=SEED).tobytes()).hexdigest())\n"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "NPY_DISABLE_CPU_FEATURES": " ".join(disabled)},
            cwd=Path(__file__).parents[3],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for disabled in ([], lacking)
    }
    assert len(digests) == 1


def test_more_rows_than_a_batch_are_drawn_batch_by_batch(monkeypatch: pytest.MonkeyPatch):
    """Each batch has streams of its own, and the first one is what a smaller request gets."""
    model = random_model(CHAIN, (("a", "b"), ("b", "c")), 5)
    monkeypatch.setattr(sampling, "BATCH", 100)
    rows = sample(model, 250, seed=SEED)
    np.testing.assert_array_equal(rows[:100], sample(model, 100, seed=SEED))
    assert (rows[100:200] != rows[:100]).any()
    assert rows.shape == (250, 4)
