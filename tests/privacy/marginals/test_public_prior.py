"""What a public prior lends to a model: its columns as far as they fit, and its dependence as a base."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from privacy.marginals.domain import CellDomain
from privacy.marginals.estimation import estimate
from privacy.marginals.measured import Measured
from privacy.marginals.public_prior import PublicPrior, column_beliefs, dependence_of, prior_of
from tests.privacy.generators.small_table import DOMAIN, CountedTable, table

PRIOR = prior_of("old.parquet", DOMAIN, DOMAIN.columns, table(2000))


def test_a_model_with_a_base_and_nothing_but_columns_has_the_dependence_of_the_prior() -> None:
    """Exact columns of the prior itself: every pair comes out as the prior has it, but for its smoothing."""
    base = dependence_of(PRIOR, DOMAIN, impossible=(), cap=10.0)
    columns = [Measured((name,), PRIOR.counts[(name,)], 1.0) for name in DOMAIN.columns]
    begun = estimate(DOMAIN, columns, total=2000.0, base=base).model
    apart = estimate(DOMAIN, columns, total=2000.0).model
    assert len(PRIOR.pairs) == 6
    for pair in PRIOR.pairs:
        wanted = PRIOR.counts[pair]
        assert np.abs(begun.marginal(pair) - wanted).sum() <= 0.04 * 2000
    assert np.abs(apart.marginal(("job", "pay")) - PRIOR.counts[("job", "pay")]).sum() > 0.5 * 2000


def test_what_is_measured_overrules_the_base() -> None:
    """A pair of independent columns, measured exactly, against a prior in which they determine each other."""
    exact = np.full((5, 4), 100.0)
    base = dependence_of(PRIOR, DOMAIN, impossible=(), cap=10.0)
    found = estimate(DOMAIN, [Measured(("job", "pay"), exact, 1.0)], total=2000.0, base=base)
    assert found.converged
    assert np.abs(found.model.marginal(("job", "pay")) - exact).max() < 2


def test_a_start_from_a_model_with_a_base_changes_nothing_but_the_time() -> None:
    base = dependence_of(PRIOR, DOMAIN, impossible=(), cap=10.0)
    columns = [Measured((name,), PRIOR.counts[(name,)] + 3, 4.0) for name in DOMAIN.columns]
    first = estimate(DOMAIN, columns, total=2000.0, base=base, tolerance=1e-6).model
    pairs = [*columns, Measured(("job", "pay"), PRIOR.counts[("job", "pay")] + 5, 4.0)]
    cold = estimate(DOMAIN, pairs, total=2000.0, base=base, tolerance=1e-6).model
    warm = estimate(DOMAIN, pairs, total=2000.0, base=base, tolerance=1e-6, start=first).model
    for pair in PRIOR.pairs:
        np.testing.assert_allclose(warm.marginal(pair), cold.marginal(pair), atol=0.5)


def test_a_prior_counts_for_a_column_as_far_as_the_noisy_column_says() -> None:
    """Where they agree it weighs ten times as much as the noise; far off it weighs as good as nothing."""
    noisy = PRIOR.counts[("age",)] * 2.0
    near, far = noisy + np.array([7, -7, 7, -7, 7, -7.0]), noisy[::-1] + 600 * np.arange(6)
    for values, low, high in ((near, 9.99, 10.01), (far, 0.0, 0.01)):
        (belief,) = column_beliefs(PRIOR, DOMAIN, [Measured(("age",), values, 100.0)], float(noisy.sum()))
        assert low <= 100.0 / belief.variance <= high
        np.testing.assert_allclose(belief.values, noisy)


def test_pairs_are_kept_by_dependence_up_to_a_size() -> None:
    wide = CellDomain(("a", "b", "c"), (600, 700, 800))
    codes = np.random.default_rng(3).integers(0, 600, (500, 1)) * np.ones((1, 3), dtype=np.int64)
    codes[:, 2] = np.random.default_rng(4).integers(0, 800, 500)
    prior = prior_of("old.parquet", wide, wide.columns, codes)
    assert prior.pairs == (("a", "b"),)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda value: value.update(rows=1999),
        lambda value: value.update(rows=True),
        lambda value: value["counts"][0].update(columns=["pay"]),
        lambda value: value["counts"].append(value["counts"][-1]),
        lambda value: value["counts"].pop(0),
        lambda value: value["counts"][0]["counts"].reverse() or value["counts"][0]["counts"].append(0),
        lambda value: value["counts"][0].update(counts=[-1, 2001, 0, 0, 0]),
        lambda value: value["counts"][0].update(counts=["x"] * 5),
        lambda value: value["counts"][0].update(columns=["job", "job"]),
        lambda value: value["counts"][0].update(columns=["elsewhere"]),
        lambda value: value.pop("counts"),
    ],
)
def test_published_marginals_that_are_of_no_table_are_refused(spoil: Any) -> None:
    value = PRIOR.to_json()
    assert PublicPrior.from_json(value, DOMAIN).to_json() == PRIOR.to_json()
    spoil(value)
    with pytest.raises(ValueError, match="prior"):
        PublicPrior.from_json(value, DOMAIN)


def test_counts_are_those_of_the_rows() -> None:
    counts = CountedTable(table(2000))
    for clique, found in PRIOR.counts.items():
        np.testing.assert_array_equal(found, counts.exact(clique))
