"""First accepted: one budget for fits and tests, replayed after a crash; what the noise of a test allows."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from contracts.contract.contract import Adjacency
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace
from privacy.generators.first_accepted import FirstAccepted, NothingAccepted
from privacy.generators.generator import CandidateRefused, CannotGenerate, GeneratorPlan, SynthesisTask
from privacy.generators.independent import Independent
from privacy.generators.mst import MaximumSpanningTree
from privacy.generators.spending import Spending
from privacy.grant.grant import open_grant
from privacy.grant.queries.acceptance import AcceptanceQuery, CriterionKind, most_moved
from privacy.ledger.errors import GrantExceeded, LedgerRefusal
from privacy.marginals.counts import PrivateCounts
from privacy.marginals.measured import Measured
from privacy.marginals.noise_tail import tail
from privacy.marginals.scores import Candidate, DistanceScore
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise
from privacy.marginals.triangulation import model_size
from tests.privacy.generators.small_table import (
    DOMAIN,
    CountedTable,
    Run,
    Stopped,
    asked,
    start,
    stopping_after,
    table,
)
from tests.privacy.ledger.ledgers import Place

PAIRS: dict[str, Any] = {"kind": "mean_marginal", "ways": 2, "at_most": "0.1"}
JOBS: dict[str, Any] = {"kind": "worst_marginal", "marginals": [["job"], ["pay"]], "at_most": "0.1"}
TWO = [{"generator": "independent"}, {"generator": "mst"}]
HARD: dict[str, Any] = {"kind": "mean_marginal", "ways": 2, "at_most": "0.004"}


def begin(place: Place, question: SynthesisTask, *, criteria: Any = (PAIRS, JOBS), candidates: Any = TWO) -> Run:
    return start(place, FirstAccepted(), question, criteria=list(criteria), candidates=list(candidates))


@pytest.mark.parametrize("delta", [Fraction(1, 10**9), Fraction(0)])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_the_first_candidate_that_meets_all_is_the_result(
    sqlite_place: Place, delta: Fraction, adjacency: Adjacency
) -> None:
    """Independent columns miss the bound on pairs by far, a tree of pairs meets it: 20 deviations and more."""
    total = 4000 if adjacency == "replace_one" else None
    question = asked(delta=delta, adjacency=adjacency, public_total=total, epsilon=Fraction(4))
    run = begin(sqlite_place, question)
    fitted = run.fit(CountedTable(table()))
    tests = fitted.of_kind("acceptance")
    assert [(test.candidate, test.criterion, test.met) for test in tests] == [
        *((0, 0, False), (0, 1, True)),
        *((1, 0, True), (1, 1, True)),
    ]
    assert len(fitted.selections) == 3
    assert len(run.drawn()) == len(fitted.draws)
    assert run.spent() <= Spending(question, None).total
    assert run.spent() > Spending(question, None).total * (1 - Fraction(1, 10**5))
    assert fitted.notes[0].startswith("candidate 1, independent, was not accepted: criterion 1")
    assert fitted.notes[1] == "candidate 2, mst, met all criteria and is published"
    assert run.ledger.verify() == []


@pytest.mark.long
@pytest.mark.parametrize(
    "candidate",
    [
        {"generator": "auto", "options": {"rows_about": 4000}},
        {"generator": "latent_factors"},
        {"generator": "fixed", "options": {"cliques": [["job", "pay"]]}},
    ],
)
def test_every_generator_of_marginals_may_be_a_candidate(sqlite_place: Place, candidate: dict[str, Any]) -> None:
    """Those that the refusal of another one names, beside `TWO`, `aim` and `privbayes`."""
    run = begin(sqlite_place, asked(epsilon=Fraction(8)), criteria=[JOBS], candidates=[candidate, *TWO])
    fitted = run.fit(CountedTable(table()))
    assert any(note.endswith("met all criteria and is published") for note in fitted.notes)
    assert run.spent() <= Spending(run.asked, None).total
    other = [{"generator": "gaussian_copula"}]
    with pytest.raises(CandidateRefused, match=rf"learns from rows.* allowed: .*{candidate['generator']}"):
        FirstAccepted().plan(asked(), FirstAccepted.options(criteria=[JOBS], candidates=other))


def test_candidates_after_the_accepted_one_draw_nothing_and_stay_charged(sqlite_place: Place) -> None:
    run = begin(sqlite_place, asked(), criteria=[JOBS])
    fitted = run.fit(CountedTable(table()))
    assert [draw.key.split("-")[1] for draw in fitted.draws] == ["1"] * 5  # type: ignore[attr-defined]
    assert run.spent() < Spending(run.asked, None).total / 2
    assert [event.kind for event in run.plan.events] == ["zero_concentrated"]


def test_no_candidate_no_result_and_the_same_fit_again_draws_nothing(sqlite_place: Place) -> None:
    """The end follows from what was drawn: made again it is word for word the same, and counts nothing."""
    run, counts = begin(sqlite_place, asked(), criteria=[HARD]), CountedTable(table())
    with pytest.raises(NothingAccepted, match="candidate 2, mst, was not accepted: criterion 1") as first:
        run.fit(counts)
    drawn = run.drawn()
    counts.counted.clear()
    with pytest.raises(NothingAccepted) as second:
        run.fit(counts)
    assert (str(second.value), run.drawn(), counts.counted) == (str(first.value), drawn, [])
    assert first.value.exit_code == 7
    assert run.ledger.verify() == []


@pytest.mark.parametrize("calls", [1, 2, 3])
def test_a_crash_gives_no_candidate_a_second_chance(sqlite_place: Place, calls: int) -> None:
    """Whatever was drawn before the crash is replayed: no test is made twice with fresh noise."""
    run, counts = begin(sqlite_place, asked()), CountedTable(table())
    with pytest.raises(Stopped):
        run.fit(counts, stopping_after(calls))
    before = run.drawn()
    whole = run.fit(counts)
    after = run.drawn()
    assert after[: len(before)] == before
    counts.counted.clear()
    again = run.fit(counts)
    assert (run.drawn(), counts.counted, again.notes) == (after, [], whole.notes)
    assert [draw.sha256 for draw in again.draws] == [draw.sha256 for draw in whole.draws]  # type: ignore[attr-defined]


def test_a_test_beyond_the_budget_is_refused(sqlite_place: Place) -> None:
    run, counts = begin(sqlite_place, asked(), criteria=[HARD]), CountedTable(table())
    with pytest.raises(NothingAccepted):
        run.fit(counts)
    query = replace(_query("worst_marginal"), noise=GaussianNoise(Fraction(1, 10**4)))
    with pytest.raises(GrantExceeded):
        open_grant(run.ledger, run.run_key).draw(query, key="once-more")


def test_the_test_of_a_model_is_no_test_of_another(sqlite_place: Place) -> None:
    """A run that resumes and comes to a model one count away is refused; nothing is drawn for that model."""
    run = begin(sqlite_place, asked())
    tested = _query("worst_marginal")
    told = open_grant(run.ledger, run.run_key).draw(tested, key="test")
    assert open_grant(run.ledger, run.run_key).draw(_query("worst_marginal"), key="test") == told
    (only,) = tested.marginals
    moved = only.score.prediction.copy()  # type: ignore[union-attr]
    moved[0] += 1
    other = replace(tested, marginals=(Candidate(only.counts, DistanceScore(moved, Fraction(1), Fraction(0))),))
    with pytest.raises(LedgerRefusal, match="a run that resumes asks for the same draws"):
        open_grant(run.ledger, run.run_key).draw(other, key="test")
    assert len(run.drawn()) == 1


def test_a_candidate_that_plans_more_than_its_share_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each candidate's events are added up before anything is charged."""
    whole = Spending(asked(), None)

    def greedy(_self: Independent, _task: SynthesisTask, _options: Any) -> GeneratorPlan:
        return GeneratorPlan((whole.budget,), (), 1.0, 1.0, {})

    monkeypatch.setattr(Independent, "plan", greedy)
    made = FirstAccepted()
    with pytest.raises(CannotGenerate, match="plans more than its share"):
        made.plan(asked(), made.options(criteria=[JOBS], candidates=TWO))


def _query(of: CriterionKind, cells: tuple[int, ...] = (), *, weight: int = 1, predicted: int = 5) -> AcceptanceQuery:
    (handle,) = CountedTable(table()).marginals([("job",)])
    score = DistanceScore(np.zeros(predicted, np.int64), Fraction(weight), Fraction(0))
    return AcceptanceQuery(of, (Candidate(handle, score),), cells, 0, 0, 0, GaussianNoise(Fraction(1, 10**9)))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (replace(_query("worst_marginal"), marginals=()), "at least one marginal"),
        (_query("worst_cell"), "one a marginal"),
        (_query("worst_cell", (5,)), "inside it"),
        (_query("mean_marginal", (1,)), "takes no cells"),
        (_query("worst_marginal", weight=9), "weight 1"),
        (_query("worst_marginal", predicted=4), "shape"),
    ],
)
def test_a_query_whose_sensitivity_would_be_another_is_refused(
    sqlite_place: Place, wrong: AcceptanceQuery, says: str
) -> None:
    run = begin(sqlite_place, asked())
    with pytest.raises(ValueError, match=says):
        open_grant(run.ledger, run.run_key).draw(wrong, key="wrong")
    assert run.drawn() == []


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("of", ["worst_marginal", "mean_marginal", "worst_cell"])
def test_no_unit_moves_a_distance_further_than_is_derived_and_some_unit_does(
    of: CriterionKind, rows: int, adjacency: Adjacency
) -> None:
    """All units of up to k rows on a table of 2 x 2 cells, against many models; the bound is reached."""
    cells = list(product(range(2), range(2)))
    units: list[tuple[tuple[int, int], ...]] = [()]
    units += [unit for size in range(1, rows + 1) for unit in product(cells, repeat=size)]
    others = [*cells, *cells, (0, 0)]
    cliques: list[tuple[int, ...]] = [(0,), (1,), (0, 1)]
    rng, worst = np.random.default_rng(3), 0
    # A model beyond all counts on one side, at them, and below on the other.
    models = [0, 2, 20, *rng.integers(0, 6, 12)]
    for level in models:
        predictions = [np.full([2] * len(clique), level) for clique in cliques]
        found = [_distance(of, [*others, *unit], cliques, predictions) for unit in units]
        fits = [len(unit) for unit in units]
        for (one, size), (other, also) in product(zip(found, fits, strict=True), repeat=2):
            if adjacency == "replace_one" or (size == 0) != (also == 0):
                worst = max(worst, abs(one - other))
    # Under replace_one rows leave one cell for another: seen against a model that splits the cells.
    if adjacency == "replace_one" and of != "worst_cell":
        split = [np.where(np.indices([2] * len(clique)).sum(0) > 0, 20, 0) for clique in cliques]
        values = [_distance(of, [*others, *unit], cliques, split) for unit in units if len(unit) == rows]
        worst = max(worst, max(values) - min(values))
    assert worst == most_moved(of, len(cliques), adjacency, rows)


def _distance(of: CriterionKind, table_rows: Any, cliques: Any, predictions: Any) -> int:
    """Measure as the query does, through its own code."""
    marginals, exact = [], []
    data = np.array(table_rows)
    for clique, prediction in zip(cliques, predictions, strict=True):
        counts = np.zeros([2] * len(clique), np.int64)
        np.add.at(counts, tuple(data[:, list(clique)].T), 1)
        names = tuple(f"c{place}" for place in clique)
        score = DistanceScore(prediction.astype(np.int64), Fraction(1), Fraction(0))
        marginals.append(Candidate(PrivateCounts.of_nobody(names, counts.shape), score))
        exact.append(counts)
    cells = (0,) * len(cliques) if of == "worst_cell" else ()
    query = AcceptanceQuery(of, tuple(marginals), cells, 0, 0, 0, LaplaceNoise(Fraction(1)))
    return query.measured(tuple(exact))


@pytest.mark.parametrize("delta", [Fraction(1, 10**9), Fraction(0)])
def test_a_model_that_misses_by_a_row_is_accepted_as_seldom_as_is_said(sqlite_place: Place, delta: Fraction) -> None:
    """The margin is the smallest with which the chance keeps below false_accept over the candidates, exactly."""
    fitted = begin(sqlite_place, asked(delta=delta, epsilon=Fraction(4))).fit(CountedTable(table()))
    for test in fitted.of_kind("acceptance")[2:]:
        assert isinstance(test.event, DiscreteGaussian | DiscreteLaplace)
        bound = {0: 2 * Fraction("0.1") * fitted.model.rows * 6, 1: 2 * Fraction("0.1") * fitted.model.rows}
        margin = int(bound[test.criterion]) - test.passes_at
        # A model beyond the bound by one row passes only with noise below -margin.
        assert tail(test.event, margin + 1) <= 0.05 / 2 < tail(test.event, margin)


@pytest.mark.parametrize(
    ("criteria", "rows_about", "says"),
    [
        ([HARD], 100, "below what the noise of the test makes of a perfect model"),
        ([JOBS], 200, "allowed: from"),
        ([JOBS], 3, "allowed: more rows than 3, or less noise: no bound below 1 can be met; do: raise the charge"),
    ],
)
def test_a_bound_below_the_noise_of_its_test_is_refused_by_the_plan(
    criteria: Any, rows_about: int, says: str
) -> None:
    made = FirstAccepted()
    with pytest.raises(CannotGenerate, match=says):
        made.plan(asked(), made.options(criteria=criteria, candidates=TWO, rows_about=rows_about))
    public = asked(adjacency="replace_one", public_total=rows_about)
    with pytest.raises(CannotGenerate, match=says):
        made.plan(public, made.options(criteria=criteria, candidates=TWO))


def test_a_plan_that_knows_no_number_of_rows_says_from_how_many_on_the_criteria_can_be_met() -> None:
    """One row fewer, said as `rows_about`, is refused; as many are not, and then the plan says nothing."""
    made = FirstAccepted()
    plan = made.plan(asked(), made.options(criteria=[PAIRS, JOBS], candidates=TWO))
    (said,) = re.findall(r"with fewer than ([0-9,]+) rows no model meets the criteria", plan.steps[-1].noise)
    least = int(said.replace(",", ""))
    known = made.plan(asked(), made.options(criteria=[PAIRS, JOBS], candidates=TWO, rows_about=least))
    assert "fewer than" not in known.steps[-1].noise
    with pytest.raises(CannotGenerate, match="below what the noise"):
        made.plan(asked(), made.options(criteria=[PAIRS, JOBS], candidates=TWO, rows_about=least - 1))


@pytest.mark.parametrize("number", [1, 2, 5])
def test_the_plan_is_one_budget_whose_parts_add_up(number: int) -> None:
    made = FirstAccepted()
    plan = made.plan(asked(), made.options(criteria=[PAIRS], candidates=[{"generator": "independent"}] * number))
    assert plan.events == (Spending(asked(), None).budget,)
    assert sum(step.share for step in plan.steps) == pytest.approx(1)
    assert plan.steps[-1].share == pytest.approx(0.1, rel=1e-6)
    assert [step.count for step in plan.steps] == [4] * number + [number]


@pytest.mark.parametrize("keep", [True, False])
def test_a_later_candidate_is_fitted_to_what_earlier_ones_measured_unless_it_is_said_otherwise(
    sqlite_place: Place, monkeypatch: pytest.MonkeyPatch, keep: bool
) -> None:
    """What the second candidate is handed are the released values of the first, and nothing else."""
    handed: list[Any] = []
    fit = MaximumSpanningTree.fit

    def looked(made: MaximumSpanningTree, task: SynthesisTask, *rest: Any) -> Any:
        handed.extend(task.known)
        return fit(made, task, *rest)

    monkeypatch.setattr(MaximumSpanningTree, "fit", looked)
    terms = {"criteria": [PAIRS], "candidates": TWO, "keep_measured": keep}
    run = start(sqlite_place, FirstAccepted(), asked(epsilon=Fraction(4)), **terms)
    fitted = run.fit(CountedTable(table()))
    first = [one for one in fitted.measurements if one.key.startswith("candidate-1-")] if keep else []
    assert [one.clique for one in handed] == [one.clique for one in first]
    assert all(np.array_equal(one.values, other.values) for one, other in zip(handed, first, strict=True))
    assert [one.variance for one in handed] == [one.variance for one in first]


def test_a_model_follows_what_is_known_and_leaves_out_what_its_cap_does_not_hold(sqlite_place: Place) -> None:
    """A pair that is known to a hundredth of a row is kept by a fit of single columns, unless the cap forbids it."""
    counts = CountedTable(table())
    pair = ("job", "pay")
    known = (Measured(pair, counts.exact(pair), 1e-4),)
    run = start(sqlite_place, Independent(), asked())
    free = replace(run, asked=replace(run.asked, known=known)).fit(counts)
    assert np.abs(free.model.marginal(pair) - counts.exact(pair)).max() < 3
    small = run.options.model_copy(update={"max_model_megabytes": model_size(DOMAIN, [])})
    capped = replace(run, asked=replace(run.asked, known=known), options=small).fit(counts)
    apart = np.outer(capped.model.marginal(("job",)), capped.model.marginal(("pay",))) / max(1, capped.model.rows)
    assert np.allclose(capped.model.marginal(pair), apart, atol=1e-6 * capped.model.rows)
