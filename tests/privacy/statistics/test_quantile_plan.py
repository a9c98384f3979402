"""Quantiles in a plan: their method, shares, events and expected errors, all from public facts."""

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from contracts.domains.lattice import ValueLattice
from contracts.domains.trees import QuantileChoices, ValueTree
from contracts.release.statistics import Statistic, statistics_product
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise
from privacy.statistics.estimates import Estimates
from privacy.statistics.plan import StatisticsDraw, StatisticsPlan, expected_errors
from privacy.statistics.quantiles import MOST_CHOICES, ChosenQuantiles, quantile_method, rank_bounds, tree_count_error
from tests.worlds.statistics import StatisticsScenario, gaussian, of_tables

BOTH = """[{by: [ward], of: [count, {mean: age}, {quantiles: [0.1, 0.5], of: age, method: tree},
  {quantiles: [0.9], of: bill, method: tree}]}]"""
ALONE = "[{by: [], of: [count, {quantiles: [0.25, 0.5], of: age, method: tree}]}]"


def planned(scenario: StatisticsScenario, folder: Path) -> tuple[StatisticsPlan, tuple[StatisticsDraw, ...]]:
    spec, _, plan, ledger = scenario.prepared_of(folder, StatisticsPlan)
    ledger.close()
    (table,) = statistics_product(spec.product).tables
    return plan, plan.of_table(table.name)


def test_each_column_of_quantiles_has_a_draw_and_a_share_of_its_own(tmp_path: Path):
    """However many quantiles there are; the events are those of a marginal for each level."""
    plan, draws = planned(of_tables(BOTH), tmp_path)
    assert [draw.key for draw in draws] == ["table:ward/age", "table:ward/quantiles/age", "table:ward/quantiles/bill"]
    assert {draw.share for draw in draws} == {Fraction(1, 3)}
    for draw in draws[1:]:
        tree = draw.addends
        assert isinstance(tree, ValueTree)
        assert isinstance(draw.event, DiscreteLaplace)
        assert isinstance(draw.noise, LaplaceNoise)
        assert draw.event.moves == (1,) * tree.levels
        assert draw.noise.epsilon * (1 - Fraction(1, 10**9)) <= draw.event.inverse_scale * tree.levels
        assert draw.event.inverse_scale * tree.levels <= draw.noise.epsilon
        assert draw.shape == (4, tree.parts)
    assert plan.epsilon <= 2 * 10**12


def test_gaussian_noise_pays_for_the_norm_of_a_row(tmp_path: Path):
    """Three rows of a unit are replaced: 2 L nodes move by 3, sigma^2 = 9 * 2 L / (2 rho), and not (2 L)^2."""
    scenario = replace(gaussian(), product=f"{{kind: statistics, mechanism: gaussian, tables: {ALONE}}}")
    _, (draw,) = planned(scenario, tmp_path)
    assert isinstance(draw.addends, ValueTree)
    assert isinstance(draw.event, DiscreteGaussian)
    assert isinstance(draw.noise, GaussianNoise)
    levels = draw.addends.levels
    assert draw.event.moves == (3,) * 2 * levels
    assert float(draw.event.sigma_squared) == pytest.approx(9 * levels / float(draw.noise.rho))


def test_the_expected_error_is_the_largest_of_a_rank(tmp_path: Path):
    """At the last level; counts are those of sums where there are any, and of the tree where there are none."""
    for number, (tables, place) in enumerate(((BOTH, 1), (ALONE, 0))):
        scenario = of_tables(tables)
        spec, _, plan, ledger = scenario.prepared_of(tmp_path / str(number), StatisticsPlan)
        ledger.close()
        (table,) = statistics_product(spec.product).tables
        draws = plan.of_table(table.name)
        tree, event = draws[place].addends, draws[place].event
        assert isinstance(tree, ValueTree)
        errors = {each.statistic: each for each in expected_errors(table, draws)}
        bounds = rank_bounds(tree, table.of[-2 if number == 0 else -1].quantiles[1], event, 0.95)
        assert errors["q50_age"].half_width == float(np.max(bounds[-1]))
        assert errors["q50_age"].ranks
        assert not errors["count"].ranks
        of_tree = tree_count_error(tree, event=event, confidence=0.95)
        assert (errors["count"].half_width == of_tree) == (number == 1)
        assert errors["count"].half_width <= of_tree


TABLE = "[{by: [ward], of: [{quantiles: SHARES, of: age}]}]"
NINE = "[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]"


def plan(tables: str, folder: Path, scenario: StatisticsScenario | None = None, **changed: object) -> StatisticsPlan:
    own = of_tables(tables, **changed) if scenario is None else scenario
    _, _, found, ledger = own.prepared_of(folder, StatisticsPlan)
    ledger.close()
    return found


@pytest.mark.parametrize(("shares", "chosen"), [("[0.5]", 1), ("[0.1, 0.9]", 0), (NINE, 0)])
def test_one_quantile_of_ages_is_chosen_and_more_come_of_a_tree(tmp_path: Path, shares: str, chosen: int):
    """A hundred ages have a small tree."""
    assert len(plan(TABLE.replace("SHARES", shares), tmp_path).choices) == chosen


def test_epsilon_decides_nothing(tmp_path: Path):
    """Both errors fall alike with epsilon; the plan of another epsilon has the same draws."""
    plans = [plan(TABLE.replace("SHARES", "[0.5]"), tmp_path / each, epsilon=each) for each in ("0.01", "5")]
    assert len({tuple(each.key for each in own.choices) for own in plans}) == 1


def test_gaussian_noise_gives_choices_the_range_of_their_rho(tmp_path: Path):
    """Epsilon squared over 8 is at most the share of rho that choices have, and the plan costs no more than asked."""
    tables = TABLE.replace("SHARES", "[0.5]")
    scenario = replace(gaussian(), product=f"{{kind: statistics, mechanism: gaussian, tables: {tables}}}")
    found = plan(tables, tmp_path, scenario)
    (choice,), (tree,) = found.choices, found.draws
    rho = float(choice.event.epsilon) ** 2 / 8
    assert rho == pytest.approx(3 * float(tree.noise.rho), rel=1e-6)  # type: ignore[union-attr]
    assert found.epsilon <= 3 * 10**12


def test_auto_takes_the_tree_where_cells_are_too_many(tmp_path: Path):
    """And a spec that asks for choices gets them."""
    spec, contract, _, ledger = of_tables(TABLE.replace("SHARES", "[0.5]")).prepared_of(tmp_path, StatisticsPlan)
    ledger.close()
    (table,) = statistics_product(spec.product).tables
    (tree,), (statistic,) = table.trees(contract), table.of
    assert isinstance(tree, ValueTree)
    asked = Statistic.model_validate({"quantiles": [0.5], "of": "age", "method": "exponential"})
    found = [quantile_method(each, tree, contract, MOST_CHOICES + 1, "laplace") for each in (statistic, asked)]
    assert found == ["tree", "exponential"]


@pytest.mark.parametrize("written", ["0.25", "0.02"])
def test_the_share_of_the_intervals_is_that_of_the_spec(tmp_path: Path, written: str):
    """Choices have the rest; what is usual is the same plan as nothing."""
    tables = TABLE.replace("of: age}", f"of: age, interval_share: {written}}}").replace("SHARES", "[0.5]")
    found = plan(tables, tmp_path / "own")
    (choice,), (tree,) = found.choices, found.draws
    assert (tree.share, choice.share) == (Fraction(written), 1 - Fraction(written))
    assert float(tree.noise.epsilon) == pytest.approx(float(written) * found.epsilon / 10**12)  # type: ignore[union-attr]
    usual = plan(TABLE.replace("SHARES", "[0.5]"), tmp_path / "usual")
    assert (found.events == usual.events) == (written == "0.25")


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ({"interval_share": 0}, "from 0.01 to 0.9"),
        ({"interval_share": 1}, "from 0.01 to 0.9"),
        ({"interval_share": 0.1234567}, "at most 6 decimals"),
        ({"interval_share": 0.1, "method": "tree"}, "method: exponential, or auto"),
    ],
)
def test_a_share_that_is_none_is_refused(written: dict[str, object], says: str):
    with pytest.raises(ValidationError, match=says):
        Statistic.model_validate({"quantiles": [0.5], "of": "age", **written})
    with pytest.raises(ValidationError, match="quantiles: "):
        Statistic.model_validate({"what": "mean", "column": "age", "interval_share": 0.1})


def test_an_interval_that_misses_its_value_is_drawn_out_to_it():
    """The chosen value stays what it is: a tree with little of the charge may be far off."""
    lattice = ValueLattice("age", Decimal(0), Decimal(100), Decimal(1), counts_missing=False)
    chosen = ChosenQuantiles(np.array([[20], [50], [80]]), QuantileChoices(lattice, (Decimal("0.5"),)))
    tree = Estimates(np.full(3, 55.0), np.full(3, 40.0), np.full(3, 60.0))
    (found,) = chosen.placed([tree], [Decimal("0.5")])
    assert found.values.tolist() == [20, 50, 80]
    assert found.lower.tolist() == [20, 40, 40]
    assert found.upper.tolist() == [60, 60, 80]
