"""Shares of a charge over draws of statistics: the closed form against a minimiser, and against foretold errors."""

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from contracts.contract.contract import Contract
from contracts.release.statistics import StatisticsProduct
from privacy.marginals.count_noise import variance
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise, moved_noise
from privacy.statistics.plan import ExpectedError, StatisticsDraw, StatisticsPlan, expected_errors, plan_statistics
from privacy.statistics.shares import draw_shares, squared_error
from tests.contracts.samples import column, contract_of

UNIT = {"kind": "id", "scope": "block", "column": "person", "max_rows_per_unit": 3}
CONTRACT = contract_of(
    column("categories", "string", "sex", values=["f", "m"], nulls={"policy": "map", "to": "f"}),
    column("integer", "integer", "age", bounds=[0, 90], bins={"width": 10}),
    column("decimal", "number", "pay", bounds=["-5", "20"], bins={"width": 5}, nulls={"policy": "map", "to": 0}),
    column("integer", "integer", "hours", bounds=[0, 50], bins={"width": 10}, nulls={"policy": "map", "to": 0}),
    unit=UNIT,
    adjacency="replace_one",
)
TABLES: list[dict[str, Any]] = [
    {"by": ["sex"], "of": ["count", {"mean": "age"}, {"sum": "pay"}], "weight": 3},
    {"by": ["sex", "age"], "of": ["count"]},
    {"by": ["age"], "of": [{"sum": "pay", "clip": [2, 20]}]},
    {"by": [], "of": [{"variance": "pay"}, {"sd": "pay"}, {"mean": "pay"}], "weight": "0.5"},
    {"by": ["age"], "name": "ratios", "of": [{"ratio": {"sum": "age"}, "over": {"sum": "hours"}}]},
    {"by": ["age"], "name": "apart", "of": ["units", {"distinct": "pay"}, "count"]},
    {"by": ["sex"], "name": "medians", "of": [{"quantiles": [0.5, 0.1], "of": "age", "resolution": 10}, "count"]},
]
IN_ROWS: Mapping[str, float] = {
    "mean_age": 90,
    "sum_pay": 20,
    "variance_pay": 25**2,
    "sd_pay": 25,
    "mean_pay": 25,
    # the sums over their far ends, which lie twice as far as the middles that the ratio is foretold for
    "ratio_age_over_hours": 2 * 45 / 25,
}


def product_of(mechanism: str, split: str = "optimal", tables: list[dict[str, Any]] = TABLES) -> StatisticsProduct:
    written = {"kind": "statistics", "mechanism": mechanism, "tables": tables, "split": split}
    return StatisticsProduct.model_validate(written)


def planned(product: StatisticsProduct, contract: Contract = CONTRACT, delta: str = "1e-9") -> StatisticsPlan:
    return plan_statistics(product, contract, epsilon=Decimal("0.01"), delta=Decimal(delta))


def with_share(draw: StatisticsDraw, share: float) -> StatisticsDraw:
    times = Fraction(share) / draw.share
    kinds = LaplaceNoise, GaussianNoise
    noise = (
        kinds[0](draw.noise.epsilon * times) if isinstance(draw.noise, kinds[0]) else kinds[1](draw.noise.rho * times)
    )
    event = moved_noise(noise, draw.event.moves)
    return replace(draw, noise=noise, event=event, variance=variance(event))


def in_rows(error: ExpectedError) -> float:
    """A half width, counted in rows; of means those of one size."""
    return error.half_width * (error.rows or 1) / IN_ROWS.get(error.statistic.removesuffix("_clipped"), 1)


def foretold(product: StatisticsProduct, draws: list[StatisticsDraw]) -> float:
    """The sum of the squared half widths of all statistics in all cells, each times its table's weight."""
    found = 0.0
    for table in product.tables:
        own = [draw for draw in draws if draw.table == table.name]
        errors = [each for each in expected_errors(table, own) if each.rows in (None, 100)]
        found += float(table.weight) * prod(CONTRACT.shape(table.by)) * sum(in_rows(each) ** 2 for each in errors)
    return found


def by_hand(noise: str) -> dict[str, float]:
    """Of all tables but the last: weight, cells, and squared weights of the numbers, each times a row's variance. A
    unit moves a row's steps 3 times, twice. Ages may be missing: they have three numbers a cell, and ten bins with
    the missing one beside them."""
    row = 6**2 if noise == "laplace" else 2 * 3**2
    ends = (20**2 + 5**2) / 20**2
    squares = {
        "table:sex/age": 3 * 2 * (3 / 4 + 1 / 2),
        "table:sex/pay": 3 * 2 * (2 / 4 + ends),
        "table:sex_x_age": 2 * 11 * 1,
        "table:age/pay": 11 * 1,
        "table:all/pay": 0.5 * (1 / 6 + 1 / 2 + 1 / 2),
        "table:ratios/age": 11 * 1,
        "table:ratios/hours": 11 * 1,
        # a unit is one unit in each of six cells, and up to three different values in each of two
        "table:apart/units": 11 * (1 if noise == "laplace" else 6 / row),
        "table:apart/distinct/pay": 11 * 1,
        "table:apart": 11 * 1,
    }
    return {key: row * each for key, each in squares.items()}


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_no_minimiser_finds_shares_of_less_error(mechanism: str):
    """A general minimiser over the simplex of errors written out by hand; none is better by more than 1e-6."""
    product = product_of(mechanism, tables=TABLES[:-1])
    factors, power = by_hand(mechanism), 2 if mechanism == "laplace" else 1
    shares = draw_shares(product, CONTRACT)
    assert sum(shares.values()) == 1
    closed = np.array([float(shares[key]) for key in factors])

    def loss(given: np.ndarray) -> float:
        return float(np.sum(np.array([*factors.values()]) / given**power))

    def of_logs(logs: np.ndarray) -> float:
        exponent = np.exp(logs - logs.max())
        return float(np.log(loss(exponent / exponent.sum())))

    for start in np.random.default_rng(1).normal(size=(3, closed.size)):
        found = minimize(of_logs, start, method="BFGS", options={"gtol": 1e-10}).x
        least = np.exp(found - found.max())
        least /= least.sum()
        assert np.allclose(least, closed, rtol=1e-4)
        assert loss(closed) <= loss(least) * (1 + 1e-6)
    assert squared_error(product, CONTRACT) == pytest.approx(loss(closed), rel=1e-9)
    by_weight = product_of(mechanism, "by_weight", TABLES[:-1])
    alike = draw_shares(by_weight, CONTRACT)
    worse = loss(np.array([float(alike[key]) for key in factors]))
    assert worse > 1.2 * loss(closed)
    assert squared_error(by_weight, CONTRACT) == pytest.approx(worse, rel=1e-9)


def test_no_shares_near_by_have_shorter_intervals():
    """The half widths that a plan foretells, squared, at 40 other splits; by weight it is 30 % more at once. With
    Gaussian noise a half width is in proportion to the deviation, whatever the statistic."""
    product = product_of("gaussian")
    draws = list(planned(product).draws)
    least = foretold(product, draws)
    random = np.random.default_rng(2)
    for size in (0.01, 0.3):
        for _ in range(20):
            moved = np.array([float(draw.share) for draw in draws]) * np.exp(size * random.normal(size=len(draws)))
            others = [with_share(draw, share) for draw, share in zip(draws, moved / moved.sum(), strict=True)]
            assert foretold(product, others) >= least * (1 - 1e-6)
    alike = product_of("gaussian", "by_weight")
    assert foretold(alike, list(planned(alike).draws)) > 1.29 * least


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_what_a_draw_gives_away_counts_in_its_share(mechanism: str):
    """A histogram of magnitudes, and chosen quantiles: the tree that is left bears the stated error."""
    tables: list[dict[str, Any]] = [
        {"by": ["sex"], "of": [{"sum": "pay", "clip": {"private": True, "share": "0.5"}}]},
        {"by": ["sex"], "name": "same", "of": [{"sum": "pay"}, {"mean": "hours"}]},
        {"by": [], "of": [{"quantiles": [0.5], "of": "hours", "method": "exponential"}]},
        {"by": [], "name": "tree", "of": [{"quantiles": [0.5], "of": "hours", "method": "tree"}]},
    ]
    product = product_of(mechanism, tables=tables)
    shares = {key: float(share) for key, share in draw_shares(product, CONTRACT).items()}
    factor = 2 ** (2 / 3) if mechanism == "laplace" else 2**0.5
    found = shares["table:all/quantiles/hours"] / shares["table:tree/quantiles/hours"]
    assert found == pytest.approx(factor**2)
    clipped = (20**2 + 5**2) / 20**2
    lone = shares["table:sex/pay"] / shares["table:same/pay"]
    # the second sum stands alone in its form: one number of both signs, which may move the same way twice
    moved = 1 if mechanism == "laplace" else 6**2 / (2 * 3**2)
    power = 1 / 3 if mechanism == "laplace" else 1 / 2
    assert lone == pytest.approx(factor * (clipped / moved) ** power)
    plan = planned(product, delta="1e-9" if mechanism == "gaussian" else "0")
    parts = [*plan.clips, *plan.draws, *plan.choices]
    assert sum(each.share for each in parts) == 1
    [choice] = plan.choices
    assert float(choice.share) == pytest.approx(0.75 * shares["table:all/quantiles/hours"])
    [clip] = plan.clips
    assert float(clip.share) == pytest.approx(0.5 * shares["table:sex/pay"])


def test_a_selection_of_keys_keeps_what_it_has_by_weight():
    """What it errs by is no squared error; the rest is shared as if it were all."""
    contract = contract_of(*CONTRACT.columns, column("text", "string", "job", max_bytes=20))
    tables: list[dict[str, Any]] = [
        {"by": ["job"], "keys": "private", "of": ["count", {"mean": "hours"}]},
        {"by": [], "of": ["count"]},
    ]
    shares = draw_shares(product_of("laplace", tables=tables), contract)
    assert shares["table:job/keys"] == Fraction(1, 4)
    assert sum(shares.values()) == 1
    assert shares["table:job/hours"] > shares["table:all"]
    plan = planned(product_of("laplace", tables=tables), contract, "1e-6")
    assert [(each.key, each.share) for each in plan.selections] == [("table:job/keys", Fraction(1, 4))]


def test_a_product_without_a_split_is_written_as_before():
    """What was published before there was one has the same digests."""
    assert "split" not in product_of("laplace", "by_weight").model_dump(mode="json")
    assert product_of("laplace").model_dump(mode="json")["split"] == "optimal"
