"""Registry, workloads, splitting, and what a plan says of the error."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from importlib.metadata import EntryPoint, EntryPoints
from itertools import combinations
from math import floor, pi, sqrt
from pathlib import Path
from typing import Any

import pytest

from contracts.release.synthetic import SyntheticProduct
from privacy.accounting.amounts import PICO
from privacy.accounting.calculus import PureCalculus
from privacy.classifiers.three_approaches import LearningFirst
from privacy.generators import calibration as registry
from privacy.generators import calibration as release_plan
from privacy.generators.calibration import plan_synthetic
from privacy.generators.fitting import all_of_order, downward_closure, expected_error, relevance
from privacy.generators.generator import CannotGenerate, GeneratorPlan, Spending, SynthesisTask, split
from privacy.generators.independent import Fixed, Independent
from privacy.marginals.count_noise import mean_absolute, variance
from privacy.marginals.graph import CellDomain
from tests.privacy.generators.small_table import DOMAIN, asked
from tests.tasks.intake import make_contract


def test_an_unknown_generator_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(CannotGenerate, match=r"(?s)'privbays'.*aim, .*fixed.*do you mean 'privbayes'"):
        registry.generator("privbays")
    with pytest.raises(CannotGenerate, match="install its package"):
        registry.generator("zzz")


@pytest.mark.parametrize(
    ("fitters", "others", "kind", "built_in"),
    [
        (registry.GENERATORS, registry.TRAINERS, Independent, "aim"),
        (registry.TRAINERS, registry.GENERATORS, LearningFirst, "dp_sgd"),
    ],
)
def test_installed_packages_add_generators_and_trainers_but_replace_none(
    monkeypatch: pytest.MonkeyPatch,
    fitters: registry.FitterRegistry,
    others: registry.FitterRegistry,
    kind: type,
    built_in: str,
) -> None:
    """Each kind of model has an entry point group of its own."""
    points = EntryPoints(
        EntryPoint(name, value, fitters.group)
        for name, value in {
            "mine": f"{kind.__module__}:{kind.__name__}",
            built_in: "nowhere:Other",
            "broken": "nowhere.to:be",
        }.items()
    )
    monkeypatch.setattr(registry, "registered", lambda group: points.select(group=group))
    assert "mine" in fitters.names
    assert "mine" not in others.names
    assert isinstance(fitters.load("mine"), kind)
    assert fitters.load(built_in).name == built_in
    with pytest.raises(CannotGenerate, match="cannot be loaded"):
        fitters.load("broken")


def test_relevance_is_the_sum_of_overlaps() -> None:
    weights = {**all_of_order(DOMAIN, 2), ("job", "pay", "age"): Fraction(5, 2)}
    closure = downward_closure(DOMAIN, weights)
    assert closure[:4] == (("job",), ("pay",), ("home",), ("age",))
    assert set(closure) == {*[c for k in (1, 2) for c in combinations(DOMAIN.columns, k)], ("job", "pay", "age")}
    for clique, weight in relevance(weights, closure).items():
        assert weight == sum(c * len(set(clique) & set(s)) for s, c in weights.items())


def wide(columns: int) -> CellDomain:
    return CellDomain(
        tuple(f"c{place}" for place in range(columns)), tuple(2 + place % 9 for place in range(columns))
    )


def test_a_workload_that_no_round_could_look_through_is_refused() -> None:
    """Before it is written out: 8 million marginals would take gigabytes."""
    with pytest.raises(CannotGenerate, match=r"8,214,570 marginals; allowed: at most 500,000"):
        all_of_order(wide(120), 4)
    assert len(all_of_order(wide(120), 2)) == 7140


def test_a_split_adds_up_exactly() -> None:
    whole = Fraction(1, 3)
    parts = split(whole, [1, 2, 4])
    assert sum(parts) == whole
    assert [float(part * 21) for part in parts] == pytest.approx([1, 2, 4])


@pytest.mark.parametrize("name", ["aim", "independent", "mst", "privbayes"])
@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 3), Fraction("0.1")])
def test_a_pure_plan_costs_the_account_no_more_than_the_charge(name: str, epsilon: Fraction) -> None:
    """The ledger rounds each draw up: parts that are no whole units would cost more than what was split."""
    made = registry.generator(name)
    plan = made.plan(asked(epsilon=epsilon, delta=Fraction(0)), made.options())
    assert PureCalculus().cost(plan.events) == floor(epsilon * PICO)


class Spendthrift(Independent):
    def plan(self, task: SynthesisTask, options: Any) -> GeneratorPlan:
        return super().plan(replace(task, epsilon=2 * task.epsilon), options)


@pytest.mark.parametrize("delta", ["0", "1e-9"])
def test_a_foreign_plan_above_the_charge_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, delta: str
) -> None:
    contract = make_contract(tmp_path)
    product = SyntheticProduct(kind="synthetic", generator="independent")
    amounts = {"epsilon": Decimal(1), "delta": Decimal(delta)}
    plan_synthetic(product, contract, Independent.options(), **amounts)
    monkeypatch.setattr(release_plan, "generator", lambda name: Spendthrift())
    with pytest.raises(CannotGenerate, match="at most 1, the charge"):
        plan_synthetic(product, contract, Independent.options(), **amounts)


@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1, 10**9)])
def test_the_optimal_split_is_a_minimum(delta: Fraction) -> None:
    """Moving a little from any part to any other makes the sum of size · deviation larger."""
    spending, sizes = (
        Spending(asked(epsilon=Fraction(1, 50), delta=delta), None),
        [Fraction(3), Fraction(40), Fraction(700)],
    )

    def cost(parts: list[Fraction]) -> float:
        return sum(float(n) * mean_absolute(spending.event(p)) for n, p in zip(sizes, parts, strict=True))

    best = list(spending.optimal(sizes))
    assert sum(best) == spending.total
    step = spending.total / 200
    for one, other in ((0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)):
        moved = list(best)
        moved[one] += step
        moved[other] -= step
        assert min(moved) <= 0 or cost(moved) > cost(best)


def test_the_expected_error_of_a_list() -> None:
    """A pair gives its own error, and that of its columns with the noise added up; an order with gaps is left out."""
    event = Spending(asked(), None).event(Fraction(1, 1000))
    pairs = [("job", "pay"), ("home", "age")]
    found = expected_error(DOMAIN, [(pair, event) for pair in pairs])
    deviation = sqrt(variance(event))
    columns = [(5, 4), (4, 5), (3, 6), (6, 3)]
    assert set(found) == {1}
    assert found[1] == pytest.approx(sum(n * sqrt(2 / pi * m) * deviation for n, m in columns) / 4)
    two = DOMAIN.project(("job", "pay"))
    assert expected_error(two, [(("job", "pay"), event)])[2] == pytest.approx(20 * mean_absolute(event))


@pytest.mark.parametrize(
    ("options", "said"),
    [({"cliques": [["job", "wage"]]}, "unknown columns wage"), ({"cliques": [["job", "job"]]}, "distinct columns")],
)
def test_a_list_that_cannot_be_measured_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(CannotGenerate, match=said):
        Fixed().plan(asked(), Fixed.options(**options))


def test_a_plan_names_the_columns_of_which_nothing_is_measured() -> None:
    """They passed in silence, and their values are even."""
    plan = Fixed().plan(asked(), Fixed.options(cliques=[["job", "pay"]]))
    assert plan.notes == (
        "columns in no clique, of which nothing is measured and values are drawn evenly: home, age",
    )
    assert Fixed().plan(asked(), Fixed.options(cliques=[["job", "pay", "home"], ["age"]])).notes == ()


def test_weights_move_the_budget() -> None:
    """Eight times the weight makes a clique's share four times as large under zCDP."""
    plain = Fixed().plan(asked(), Fixed.options(cliques=[["job", "pay"], ["pay", "job"], ["home", "age"]]))
    assert len(plain.events) == 2
    heavy = Fixed().plan(
        asked(), Fixed.options(cliques=[{"columns": ["job"], "weight": 8}, {"columns": ["job", "age"]}])
    )
    equal = Fixed().plan(asked(), Fixed.options(cliques=[["job"], ["job", "age"]]))
    ratio = [variance(plan.events[1]) / variance(plan.events[0]) for plan in (heavy, equal)]  # type: ignore[arg-type]
    assert ratio[0] / ratio[1] == pytest.approx(4, rel=1e-3)
