"""AIM: the paper's formulas, its variants, and what its rounds may depend on."""

from fractions import Fraction
from itertools import combinations
from math import sqrt

import numpy as np
import pytest
from pydantic import ValidationError

from benchmarks._no_seed import no_seed
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace, ExponentialMechanism
from privacy.generators import aim as aim_rounds
from privacy.generators.aim import Aim, AimOptions
from privacy.generators.generator import CannotGenerate, Spending
from privacy.grant.grant import open_grant
from privacy.grant.queries.choice import ChoiceQuery
from privacy.marginals.graph import CellDomain, model_size
from tests.privacy.generators.small_table import DOMAIN, CountedTable, asked, error, start, table
from tests.privacy.ledger.ledgers import Place


def test_three_twentieths_measure_the_columns_and_the_rounds_share_their_part_evenly_at_first(sqlite_place: Place):
    """Columns by cells^(2/3); x = (1 - 3/20 - 1/4) ρ / rounds, of which a tenth chooses: ε = √(8 · share)."""
    run = start(sqlite_place, Aim(), asked(), rounds=16)
    fitted = run.fit(CountedTable(table(4000)))
    spending = Spending(asked(), None)
    shares = [1 / (2 * one.variance) for one in fitted.measurements[:4]]
    assert [one.clique for one in fitted.measurements[:4]] == [(name,) for name in DOMAIN.columns]
    assert sum(shares) == pytest.approx(0.15 * float(spending.total))
    wanted = [size ** (2 / 3) for size in DOMAIN.shape]
    assert shares == pytest.approx([0.15 * float(spending.total) * each / sum(wanted) for each in wanted])
    first = 0.6 * float(spending.total) / 16
    assert float(fitted.selections[0].event.epsilon) == pytest.approx(sqrt(8 * first / 10), rel=1e-6)


def test_a_score_is_the_distance_less_what_noise_can_make_of_it(sqlite_place: Place):
    """w_r = 3 |r| for all pairs of four columns; the bias is the sum of min(noise, p), at most the rows."""
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
    run.generator.fit(run.asked, run.options, run.plan, Watching(table(4000)), grant, lambda *_: None, no_seed)
    assert set(seen[0]) == {c for size in (1, 2) for c in combinations(DOMAIN.columns, size)}
    for clique, score in seen[0].items():
        assert score.weight == 3 * len(clique)
        assert 0 < float(score.bias) <= score.prediction.sum() + 0.5 * score.prediction.size
        assert score.sensitivity("replace_one", 1) == 2 * score.sensitivity("add_remove", 1) == 2 * score.weight


def test_a_measurement_follows_each_choice_and_is_of_what_was_chosen(sqlite_place: Place):
    run = start(sqlite_place, Aim(), asked(), rounds=16)
    fitted = run.fit(CountedTable(table(4000)))
    rounds = len(fitted.selections)
    assert rounds > 2
    assert [one.clique for one in fitted.measurements[4 : 4 + rounds]] == [one.clique for one in fitted.selections]
    kinds = [type(event) for event in run.drawn()[4:]]
    last = len(kinds) - 2 * rounds
    assert kinds == [ExponentialMechanism, DiscreteGaussian] * rounds + [DiscreteGaussian] * last


def test_of_many_candidates_several_are_chosen_by_one_model(sqlite_place: Place, monkeypatch: pytest.MonkeyPatch):
    """Three choices a model: of three in a row no columns are joined twice; the charge is spent, the cap holds."""
    monkeypatch.setattr(aim_rounds, "_CANDIDATES_A_MODEL", 4)
    run, counts = (
        start(sqlite_place, Aim(), asked(), rounds=6, max_model_megabytes=8 * 200 / 2**20),
        CountedTable(table()),
    )
    fitted = run.fit(counts)
    first = [one.clique for one in fitted.selections[:3]]
    pairs = [set(clique) for clique in first if len(clique) == 2]
    assert len(first) == 3 == len(set(first))
    assert len(pairs) < 3 or len(set.union(*pairs)) == 4
    assert model_size(DOMAIN, [one.clique for one in fitted.measurements]) <= run.options.max_model_megabytes
    assert run.spent() > Spending(run.asked, None).total * (1 - Fraction(1, 10**9))


def test_all_that_is_left_measures_again_what_was_measured(sqlite_place: Place):
    run = start(sqlite_place, Aim(), asked(), rounds=16)
    fitted = run.fit(CountedTable(table(4000)))
    before = 4 + len(fitted.selections)
    again = [one.clique for one in fitted.measurements[before:]]
    assert len(again) == len(set(again)) > 0
    assert set(again) <= {one.clique for one in fitted.measurements[:before]}


def test_where_pairs_cannot_be_told_from_noise_none_is_chosen(sqlite_place: Place):
    """200 rows at ε = 0.02: the noise of a choice is above half of the rows at any share. All goes to columns."""
    run = start(sqlite_place, Aim(), asked(epsilon=Fraction(1, 50)))
    fitted = run.fit(CountedTable(table(200)))
    assert fitted.selections == ()
    assert {len(one.clique) for one in fitted.measurements} == {1}
    assert "no marginal was chosen" in fitted.notes[0]
    assert run.spent() > Spending(run.asked, None).total * (1 - Fraction(1, 10**9))


@pytest.mark.parametrize(
    ("options", "noise"),
    [
        ({"init": False}, DiscreteGaussian),
        ({"noise": "laplace"}, DiscreteLaplace),
        ({"degree": 3}, DiscreteGaussian),
        ({"degree": 9}, None),
        ({"workload": [["job", "pay"], {"columns": ["home", "pay", "age"], "weight": "2.5"}]}, DiscreteGaussian),
    ],
)
def test_variants(sqlite_place: Place, options: dict[str, object], noise: type | None):
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
        assert fitted.measurements[0].clique == fitted.selections[0].clique


@pytest.mark.parametrize(("degree", "learned"), [(4, False), (5, True)])
def test_a_parity_is_learned_by_the_degree_that_covers_it_and_by_no_lower_one(
    sqlite_place: Place, degree: int, learned: bool
):
    """Of five columns, the last the parity of four others, any four are independent: an error of 1 without all five.
    Over 40 runs the error was 0.9992 to 1.0000 with four, and 0.012 to 0.032 with all five, deviation 0.004."""
    domain = CellDomain(("a", "b", "c", "d", "odd"), (2,) * 5)
    signs = np.random.default_rng(5).integers(0, 2, (8000, 4))
    counts = CountedTable(np.column_stack([signs, signs.sum(axis=1) % 2]), domain)
    fitted = start(sqlite_place, Aim(), asked(domain), degree=degree).fit(counts)
    assert (error(counts, fitted, order=5) < 0.5) is learned
    assert error(counts, fitted, order=4) < 0.5


def test_the_model_grows_no_faster_than_the_budget_is_spent(sqlite_place: Place):
    """The filter on candidates: after each round the model is within the cap's share of what has been spent."""
    cap = 8 * 5 * 4 * 3 * 2 / 2**20  # two thirds of the cells of the largest triple
    run = start(sqlite_place, Aim(), asked(epsilon=Fraction(20)), max_model_megabytes=cap, rounds=16, degree=2)
    fitted = run.fit(CountedTable(table()))
    cliques = [one.clique for one in fitted.measurements]
    assert model_size(DOMAIN, cliques) <= cap
    assert any(len(clique) == 2 for clique in cliques)


def test_a_workload_that_names_no_column_of_the_table_is_refused():
    for workload in ([["job", "salary"]], [["job", "job"]]):
        with pytest.raises(CannotGenerate, match="workload"):
            Aim().plan(asked(), AimOptions.model_validate({"workload": workload}))
    with pytest.raises(ValidationError, match="not both"):
        AimOptions.model_validate({"degree": 2, "workload": [["job"]]})


def test_a_clique_that_alone_is_above_the_cap_is_refused():
    wide = CellDomain(("a", "b", "c"), (400, 400, 400))
    with pytest.raises(CannotGenerate, match=r"clique a×b×c.*max_model_megabytes"):
        Aim().plan(asked(wide), AimOptions(degree=3))


def test_laplace_noise_on_a_zcdp_budget_costs_half_the_square_of_its_epsilon():
    spending = Spending(asked(), "laplace")
    event = spending.event(Fraction(1, 200))
    assert isinstance(event, DiscreteLaplace)
    assert float(event.inverse_scale) == pytest.approx(0.1)
    spending.take(event)
    assert spending.spent <= Fraction(1, 200)


def test_more_budget_means_less_error(sqlite_place: Place):
    """Mean two-way error at ε = 0.1 and ε = 10: the noise is some eighty times smaller."""
    counts = CountedTable(table())
    run = start(sqlite_place, Aim(), asked(epsilon=Fraction(10)), rounds=32)
    fine = error(counts, run.fit(counts))
    assert fine < 0.03
    assert np.isfinite(fine)


def test_a_plan_says_how_many_rounds_a_time_limit_leaves():
    """Half of the time that is planned leaves about half of the rounds; what is enough is not spoken of."""
    whole = Aim().plan(asked(), AimOptions(rounds=40))
    half = Aim().plan(asked(), AimOptions(rounds=40, time_limit=whole.seconds / 2))
    enough = Aim().plan(asked(), AimOptions(rounds=40, time_limit=2 * whole.seconds))
    told = [each.steps[1].noise.partition("; the time limit leaves about ")[2] for each in (whole, half, enough)]
    assert (told[0], told[2]) == ("", "")
    assert 10 <= int(told[1].split()[0]) <= 20
    assert "of 40 rounds" in told[1]
