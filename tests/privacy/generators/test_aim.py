"""AIM: the paper's formulas, its variants, and what its rounds may depend on."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import pi, sqrt

import numpy as np
import pytest
from pydantic import ValidationError

from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace, ExponentialMechanism, Pure, ZeroConcentrated
from privacy.generators.aim import Aim, AimOptions
from privacy.generators.generator import CannotGenerate, no_seed
from privacy.generators.schedule import SigmaSchedule
from privacy.generators.spending import Spending
from privacy.grant.grant import open_grant
from privacy.grant.queries.choice import ChoiceQuery
from privacy.marginals.domain import CellDomain
from privacy.marginals.triangulation import model_size
from tests.privacy.generators.small_table import DOMAIN, CountedTable, asked, error, start, table
from tests.privacy.ledger.ledgers import Place

RHO = Fraction(1, 50)
BUDGET = ZeroConcentrated(RHO)


def sigma(share: Fraction) -> float:
    """σ of a measurement that takes a share ρ = 1/(2σ²)."""
    return sqrt(1 / (2 * float(share)))


def epsilon(share: Fraction) -> float:
    """ε of a choice that takes a share ρ = ε²/8."""
    return sqrt(8 * float(share))


def test_the_schedule_is_the_papers() -> None:
    """Algorithm 2, lines 1 and 2, and algorithm 4, in the paper's own symbols."""
    rounds, alpha, rho = 144, 0.9, float(RHO)
    first = SigmaSchedule.first(BUDGET, RHO, rounds, Fraction(9, 10))
    assert sigma(first.measurement) == pytest.approx(sqrt(rounds / (2 * alpha * rho)))
    assert epsilon(first.choice) == pytest.approx(sqrt(8 * (1 - alpha) * rho / rounds))
    second = first.annealed(improved=False)
    assert sigma(second.measurement) == pytest.approx(sigma(first.measurement) / 2)
    assert epsilon(second.choice) == pytest.approx(2 * epsilon(first.choice))
    assert first.annealed(improved=True) == first
    left = 2 * (first.measurement + first.choice)
    assert first.within(left + Fraction(1, 10**15)) == first
    last = first.within(left)
    assert last.last
    assert sigma(last.measurement) == pytest.approx(sqrt(1 / (2 * alpha * float(left))))
    assert epsilon(last.choice) == pytest.approx(sqrt(8 * (1 - alpha) * float(left)))
    assert last.measurement + last.choice == left


def test_a_pure_schedule_doubles_where_the_noise_is_to_be_halved() -> None:
    spending = Spending(asked(delta=Fraction(0)), None)
    first = SigmaSchedule.first(Pure(Fraction(1)), Fraction(1), 64, Fraction(9, 10))
    events = [spending.event(each.measurement) for each in (first, first.annealed(improved=False))]
    assert [type(event) for event in events] == [DiscreteLaplace, DiscreteLaplace]
    one, two = (float(event.inverse_scale) for event in events if isinstance(event, DiscreteLaplace))
    assert two == pytest.approx(2 * one)


def test_the_first_draws_have_the_papers_noise(sqlite_place: Place) -> None:
    """One-way marginals at σ₀ and a choice at ε₀, T = 16 d."""
    run = start(sqlite_place, Aim(), asked())
    fitted = run.fit(CountedTable(table(500)))
    rho, rounds = float(Spending(asked(), None).total), 16 * 4
    assert [one.clique for one in fitted.measurements[:4]] == [(name,) for name in DOMAIN.columns]
    first = fitted.measurements[0].event
    assert isinstance(first, DiscreteGaussian)
    assert sqrt(float(first.sigma_squared)) == pytest.approx(sqrt(rounds / (1.8 * rho)))
    assert float(fitted.selections[0].event.epsilon) == pytest.approx(sqrt(0.8 * rho / rounds))


def test_the_score_is_the_papers(sqlite_place: Place) -> None:
    """w_r = 6 |r| for all pairs of four columns (each column is in three); the bias is √(2/π) σ n_r."""
    seen = []

    class Watching(CountedTable):
        """The table; nothing of it is seen here."""

    run = start(sqlite_place, Aim(), asked(), rounds=8)
    grant = open_grant(run.ledger, run.run_key)
    real = grant.draw

    def draw(query, **named):  # type: ignore[no-untyped-def]
        if isinstance(query, ChoiceQuery):
            seen.append({each.clique: each.score for each in query.candidates})
        return real(query, **named)

    grant.draw = draw  # type: ignore[method-assign]
    fitted = run.generator.fit(
        run.asked, run.options, run.plan, Watching(table(500)), grant, lambda *_: None, no_seed
    )
    deviation = sqrt(fitted.measurements[0].variance)
    assert set(seen[0]) == {c for size in (1, 2) for c in combinations(DOMAIN.columns, size)}
    for clique, score in seen[0].items():
        assert score.weight == 3 * len(clique)
        assert float(score.bias) == pytest.approx(sqrt(2 / pi) * deviation * DOMAIN.cells(clique), rel=1e-3)
        assert score.sensitivity("replace_one", 1) == 2 * score.sensitivity("add_remove", 1) == 2 * score.weight


def test_a_measurement_follows_each_choice_and_is_of_what_was_chosen(sqlite_place: Place) -> None:
    run = start(sqlite_place, Aim(), asked(), rounds=16)
    fitted = run.fit(CountedTable(table(500)))
    assert [one.clique for one in fitted.measurements[4:]] == [one.clique for one in fitted.selections]
    kinds = [type(event) for event in run.drawn()[4:]]
    assert kinds == [ExponentialMechanism, DiscreteGaussian] * (len(kinds) // 2)


@pytest.mark.parametrize(
    ("options", "noise"),
    [
        ({"init": False}, DiscreteGaussian),
        ({"noise": "laplace"}, DiscreteLaplace),
        ({"degree": 3}, DiscreteGaussian),
        ({"degree": 9}, None),
        ({"workload": [["job", "pay"], {"columns": ["home", "pay", "age"], "weight": "2.5"}]}, DiscreteGaussian),
        ({"workload": [["job", "pay"], ["home", "age"]], "downward_closure": False}, DiscreteGaussian),
    ],
)
def test_variants(sqlite_place: Place, options: dict[str, object], noise: type | None) -> None:
    """Each learns the columns of its workload, uses up its budget, and draws its kind of noise."""
    if noise is None:
        with pytest.raises(ValidationError):
            AimOptions.model_validate(options)
        return
    run, counts = start(sqlite_place, Aim(), asked(), rounds=32, **options), CountedTable(table())
    fitted = run.fit(counts)
    whole = Spending(asked(), None).total
    assert whole * (1 - Fraction(1, 10**9)) < run.spent() <= whole
    assert {type(one.event) for one in fitted.measurements} == {noise}
    assert error(counts, fitted, order=1) < 0.1
    if options.get("init") is False:
        assert len(fitted.measurements) == len(fitted.selections)
    if options.get("downward_closure") is False:
        assert {one.clique for one in fitted.selections} <= {("job", "pay"), ("home", "age")}


def test_the_model_grows_no_faster_than_the_budget_is_spent(sqlite_place: Place) -> None:
    """The filter on candidates: after each round the model is within the cap's share of what has been spent."""
    cap = 8 * 5 * 4 * 3 * 2 / 2**20  # two thirds of the cells of the largest triple
    run = start(sqlite_place, Aim(), asked(epsilon=Fraction(20)), max_model_megabytes=cap, rounds=16, degree=2)
    fitted = run.fit(CountedTable(table()))
    cliques = [one.clique for one in fitted.measurements]
    assert model_size(DOMAIN, cliques) <= cap
    assert any(len(clique) == 2 for clique in cliques)


def test_a_workload_that_names_no_column_of_the_table_is_refused() -> None:
    for workload in ([["job", "salary"]], [["job", "job"]]):
        with pytest.raises(CannotGenerate, match="workload"):
            Aim().plan(asked(), AimOptions.model_validate({"workload": workload}))
    with pytest.raises(ValidationError, match="not both"):
        AimOptions.model_validate({"degree": 2, "workload": [["job"]]})


def test_a_clique_that_alone_is_above_the_cap_is_refused() -> None:
    wide = CellDomain(("a", "b", "c"), (400, 400, 400))
    with pytest.raises(CannotGenerate, match=r"clique a×b×c.*max_model_megabytes"):
        Aim().plan(asked(wide), AimOptions(degree=3))


def test_laplace_noise_on_a_zcdp_budget_costs_half_the_square_of_its_epsilon() -> None:
    spending = Spending(asked(), "laplace")
    event = spending.event(Fraction(1, 200))
    assert isinstance(event, DiscreteLaplace)
    assert float(event.inverse_scale) == pytest.approx(0.1)
    spending.take(event)
    assert spending.spent <= Fraction(1, 200)


def test_more_budget_means_less_error(sqlite_place: Place) -> None:
    """Mean two-way error at ε = 0.1 and ε = 10: the noise is some eighty times smaller."""
    counts = CountedTable(table())
    run = start(sqlite_place, Aim(), asked(epsilon=Fraction(10)), rounds=32)
    fine = error(counts, run.fit(counts))
    assert fine < 0.03
    assert np.isfinite(fine)
