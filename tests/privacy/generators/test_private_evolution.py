"""Private evolution: what is made between draws is public and possible, and what comes of it is like the rows."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from contracts.contract.impossible_cells import Clique
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace
from privacy.generators.generator import CannotGenerate, SynthesisTask
from privacy.generators.private_evolution import (
    ONE,
    Evolution,
    PrivateEvolution,
    PrivateEvolutionOptions,
    _estimated,
    most_voted,
    rates,
)
from privacy.generators.rows import read_model
from privacy.generators.weighted_rows import MOST_ROWS, WeightedRows
from privacy.grant.grant import open_grant
from privacy.grant.queries.votes import VoteMeasurement, VoteQuery
from privacy.learning.candidates import MOST_COLUMNS, Candidates
from privacy.learning.layout import ColumnLayout, PrivateRows, RowLayout
from privacy.ledger.entries import GrantExceeded
from privacy.marginals.blocks import NothingPossible
from privacy.marginals.count_noise import variance
from privacy.marginals.graph import CellDomain
from privacy.marginals.portable import PostProcessingSeed
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise
from tests.privacy.generators.small_table import Run, Stopped, asked, start, stopping_after
from tests.privacy.ledger.ledgers import KEYED_HASH, Place

MIDDLES = (np.arange(16) + 0.5)[:, None] / 16
NULLS = np.zeros((6, 2))
NULLS[:5, 0], NULLS[5, 1] = np.linspace(0, 1, 5), 1
LAYOUT = RowLayout(
    (
        ColumnLayout("width", "number", MIDDLES),
        ColumnLayout("height", "number", MIDDLES),
        ColumnLayout("stay", "number", NULLS),
        ColumnLayout("ward", "category", np.eye(4)),
        ColumnLayout("label", "category", np.eye(3)),
    )
)
DOMAIN = CellDomain(LAYOUT.names, (16, 16, 6, 4, 3))
NOT_HIGHER = np.triu(np.ones((16, 16), dtype=bool), 1)
NO_STAY = np.zeros((6, 4), dtype=bool)
NO_STAY[:5, 3] = True
IMPOSSIBLE = {("width", "height"): NOT_HIGHER, ("stay", "ward"): NO_STAY}
"""No height above the width, and no stay in the last ward."""
NOISES = {True: GaussianNoise(Fraction(1, 10**6)), False: LaplaceNoise(Fraction(1, 10**6))}
EVOLUTION = Evolution(DOMAIN, LAYOUT, IMPOSSIBLE, "label", PostProcessingSeed(11))


def possible(codes: NDArray[Any]) -> bool:
    return not (NOT_HIGHER[codes[:, 0], codes[:, 1]].any() or NO_STAY[codes[:, 2], codes[:, 3]].any())


def table(rows: int = 6000) -> NDArray[np.uint8]:
    """Rows whose label is that of a region of width and height, of very different shares; always the same ones."""
    random = np.random.default_rng(8)
    width = random.integers(4, 16, rows)
    height = (width * random.random(rows)).astype(np.int64)
    label = np.where(width - height > 7, 0, np.where(height > 6, 1, 2))
    ward = np.where(label == 0, 3, random.integers(0, 3, rows))
    stay = np.where(ward == 3, 5, random.integers(0, 5, rows))
    return np.stack([width, height, stay, ward, label], axis=1).astype(np.uint8)


@dataclass
class ReadTable:
    codes: NDArray[np.uint8]
    read: list[int] = field(default_factory=list)

    def rows(self, names: Any = None) -> PrivateRows:
        def opened() -> NDArray[np.uint8]:
            self.read.append(1)
            return self.codes

        return PrivateRows(LAYOUT, KEYED_HASH, "b" * 64, opened)


def question(**changed: Any) -> SynthesisTask:
    impossible: Mapping[Clique, NDArray[np.bool_]] = changed.pop("impossible", IMPOSSIBLE)
    return replace(asked(DOMAIN, impossible=impossible, **changed), layout=LAYOUT)


def begin(place: Place, task: SynthesisTask | None = None, **options: Any) -> Run:
    chosen = {"label": "label", "members": 200, "rounds": 8, **options}
    return start(place, PrivateEvolution(), task or question(), **chosen)  # type: ignore[arg-type]


def test_first_rows_are_possible_and_even_and_the_labels_have_equal_shares():
    """1,500 rows, 500 of each label; each of the 136 possible cells of width and height is expected 11 times."""
    begun = EVOLUTION.begin(1500)
    assert possible(begun)
    assert np.bincount(begun[:, 4]).tolist() == [500, 500, 500]
    counts = np.zeros((16, 16))
    np.add.at(counts, (begun[:, 0], begun[:, 1]), 1)
    assert counts[~NOT_HIGHER].min() > 0
    assert counts.max() < 40
    assert np.array_equal(begun, EVOLUTION.begin(1500))
    assert not np.array_equal(begun, replace(EVOLUTION, seed=PostProcessingSeed(12)).begin(1500))


def test_a_label_that_no_row_can_have_gets_no_candidates_and_where_none_can_be_it_is_said():
    without = np.array([[True, False, False]] * 4)
    begun = replace(EVOLUTION, impossible={**IMPOSSIBLE, ("ward", "label"): without}).begin(300)
    assert set(begun[:, 4].tolist()) == {1, 2}
    nothing = np.ones((4, 3), dtype=bool)
    with pytest.raises(NothingPossible):
        replace(EVOLUTION, impossible={("ward", "label"): nothing}).begin(300)


@pytest.mark.parametrize("rate", [ONE // 100, ONE // 8, ONE // 2])
def test_changes_are_possible_keep_the_label_and_stay_within_their_reach(rate: int):
    """Numbers move by at most rate · cells, rounded, and up as often as down; nulls come and go."""
    begun = np.repeat(EVOLUTION.begin(300), 10, axis=0)
    changed = EVOLUTION.changed(begun, rate, 3)
    assert possible(changed)
    assert np.array_equal(changed[:, 4], begun[:, 4])
    for place in (0, 1):
        assert np.abs(changed[:, place] - begun[:, place]).max() <= (rate * 16 + ONE // 2) // ONE
    known = (changed[:, 2] < 5) & (begun[:, 2] < 5)
    assert np.abs(changed[known, 2] - begun[known, 2]).max() <= (rate * 5 + ONE // 2) // ONE
    assert (changed[:, 3] != begun[:, 3]).mean() < rate / ONE
    assert not np.array_equal(EVOLUTION.changed(begun, rate, 4), changed)


def test_a_move_is_uniform_over_its_reach():
    """20,000 changes of one number: chi-squared of 9 cells below 60, whose false-alarm rate is 5e-10; fixed seed."""
    free = replace(EVOLUTION, impossible={})
    middle = np.tile(np.array([8, 8, 2, 0, 0]), (20_000, 1))
    moves = free.changed(middle, ONE // 4, 0)[:, 0] - 8
    found = np.bincount(moves + 4, minlength=9)
    # From -4 to 4 cells of a uniform number: the outer cells are half as wide.
    expected = 20_000 * np.array([0.5, *[1.0] * 7, 0.5]) / 8
    assert ((found - expected) ** 2 / expected).sum() < 60


def test_rates_fall_from_a_half_with_the_fifth_root_of_time():
    """As in the original: 0.5 - 0.49 (turn / populations)^0.2, to 2^-16."""
    found = rates(13)
    wanted = [0.5 - 0.49 * (turn / 15) ** 0.2 for turn in range(13)]
    assert found == pytest.approx([each * ONE for each in wanted], abs=2 * 0.49 + 0.01 * 65)
    assert list(found) == sorted(found, reverse=True)


def test_rows_are_drawn_by_their_votes():
    """None of those without; evenly where all are without. Binomial counts within eight deviations, fixed seed."""
    rows = np.arange(4, dtype=np.int64)[:, None]
    drawn = EVOLUTION.drawn(rows, np.array([0, 30, -50, 10]), 8000, 1)[:, 0]
    counts = np.bincount(drawn, minlength=4)
    assert counts[[0, 2]].tolist() == [0, 0]
    assert abs(counts[1] - 6000) < 8 * (8000 * 0.75 * 0.25) ** 0.5
    even = np.bincount(EVOLUTION.drawn(rows, np.array([0, -1, -2, 0]), 8000, 1)[:, 0], minlength=4)
    assert np.abs(even - 2000).max() < 8 * (8000 * 0.25 * 0.75) ** 0.5


def test_the_first_of_equals_has_most_votes():
    assert most_voted(np.array([3, 9, 9, -1, 3]), 4).tolist() == [1, 2, 0, 4]


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("delta", [Fraction(1, 10**9), Fraction(0)])
def test_the_draws_are_the_planned_ones_and_use_up_the_budget(sqlite_place: Place, adjacency: Any, delta: Fraction):
    """One a round, all alike; the ledger refuses one more."""
    total = 6000 if adjacency == "replace_one" else None
    run = begin(sqlite_place, question(adjacency=adjacency, delta=delta, public_total=total))
    rows = ReadTable(table())
    fitted = run.fit(rows)  # type: ignore[arg-type]
    kind = DiscreteGaussian if delta else DiscreteLaplace
    assert run.drawn() == list(run.plan.events)
    assert len(run.drawn()) == len(rows.read) == 8
    assert {type(each) for each in run.drawn()} == {kind}
    assert fitted.model.rows == 6000 if total else 5000 < fitted.model.rows < 7000
    assert run.ledger.verify() == []
    more = VoteQuery(rows.rows(), Candidates(LAYOUT.names, EVOLUTION.begin(9), None), NOISES[bool(delta)])
    with pytest.raises(GrantExceeded):
        open_grant(run.ledger, run.run_key).draw(more, key="votes-0009")


def test_a_run_that_dies_goes_on_with_what_it_drew(sqlite_place: Place):
    """Stopped before its fifth round, and run again: the model of a run that was not stopped, with as many draws."""
    run, rows = begin(sqlite_place), ReadTable(table())
    with pytest.raises(Stopped):
        run.fit(rows, stopping_after(4))  # type: ignore[arg-type]
    first = run.fit(rows)  # type: ignore[arg-type]
    read = len(rows.read)
    again = run.fit(rows)  # type: ignore[arg-type]
    assert (read, len(rows.read), len(run.drawn())) == (8, 8, 8)
    assert all(np.array_equal(one, other) for one, other in zip(*map(arrays, (first, again)), strict=True))


def arrays(fitted: Any) -> list[NDArray[np.int64]]:
    return list(fitted.model.to_arrays()[1].values())


def test_labels_and_what_goes_with_them_are_learned(sqlite_place: Place):
    """At epsilon 2 the shares of the labels, which began as thirds, and pairs with the label are near. Over 40 runs
    the largest error of a share was 0.025 on average (standard deviation 0.011), and the L1 distances 0.233 and 0.226
    (0.030 and 0.036), where first rows have 0.74 and 0.93. Bounds are eight deviations away or more."""
    run = begin(sqlite_place, question(epsilon=Fraction(2)), members=300)
    fitted, codes = run.fit(ReadTable(table())), table()  # type: ignore[arg-type]
    assert isinstance(fitted.model, WeightedRows)
    assert possible(fitted.model.codes)
    shares = fitted.model.marginal(("label",)) / fitted.model.rows
    assert np.abs(shares - np.bincount(codes[:, 4]) / len(codes)).max() < 0.12
    for place, name in ((0, "width"), (1, "height")):
        exact = np.zeros((16, 3))
        np.add.at(exact, (codes[:, place], codes[:, 4]), 1 / len(codes))
        found = fitted.model.marginal((name, "label")) / fitted.model.rows
        assert np.abs(found - exact).sum() < 0.55
    assert fitted.notes[0].startswith("the rows are made of ")


def test_where_noise_drowns_all_votes_there_is_a_model_all_the_same(sqlite_place: Place):
    """Of no rows at all: what noise left above 0 in the last round, all of it possible."""
    run = begin(sqlite_place, question(epsilon=Fraction(1, 100)), members=6, rounds=2, children=1)
    fitted = run.fit(ReadTable(table()[:0]))  # type: ignore[arg-type]
    assert fitted.model.rows >= 0
    assert possible(fitted.model.sample(50, seed=1))


@pytest.mark.parametrize("size", [10**12, 10**17, 2**62])
def test_votes_whose_sum_is_beyond_64_bits_still_give_rows_and_a_model(size: int):
    """Of a charge so small that noise of many candidates adds up to more than 64 bits hold."""
    begun = EVOLUTION.begin(300)
    votes = np.where(np.arange(300) < 150, size, 0)
    drawn = EVOLUTION.drawn(np.arange(300, dtype=np.int64)[:, None], votes, 2000, 0)[:, 0]
    assert 0 <= drawn.min() < drawn.max() < 150
    event = DiscreteLaplace(Fraction(1, 10**15), (1,))
    measured = VoteMeasurement("votes-0001", votes, event, 2e30, 1, "a" * 64, "b" * 64, "label")
    model, _ = _estimated(question(), begun, [measured], 300)
    assert (model.rows, len(model.weights)) == (MOST_ROWS, 150)
    assert len(set(model.weights.tolist())) == 1


BAD: list[tuple[dict[str, Any], str]] = [
    ({"label": "size"}, "'size' is not among the columns; allowed: one of width.*; do: name one of these columns"),
    ({"label": "lable"}, "do: write 'label' instead of 'lable'"),
    ({"label": "width"}, "'width' is a number in bins; allowed: a column of listed values"),
    ({"members": 2}, "2 rows for the 3 cells of 'label'; allowed: at least one a cell"),
    ({"members": 50_000}, "are 200000 candidates; allowed: 100000; do: lower members or children"),
    ({"noise": "gaussian", "delta": Fraction(0)}, "gaussian needs a delta above 0"),
    ({"epsilon": Fraction(1, 10**14)}, "the charge is too small"),
]


@pytest.mark.parametrize(("changed", "said"), BAD, ids=[said for _, said in BAD])
def test_what_must_fail_is_refused_by_the_plan(changed: dict[str, Any], said: str):
    task = question(**{name: changed.pop(name) for name in ("delta", "epsilon") if name in changed})
    options = PrivateEvolutionOptions(**{"label": "label", **changed})
    with pytest.raises(CannotGenerate, match=said):
        PrivateEvolution().plan(task, options)


def test_more_columns_than_candidates_may_have_are_refused_before_anything_is_charged():
    names = tuple(f"c{number}" for number in range(MOST_COLUMNS + 1))
    layout = RowLayout(tuple(ColumnLayout(name, "number", MIDDLES) for name in names))
    many = replace(asked(CellDomain(names, (16,) * len(names))), layout=layout)
    with pytest.raises(CannotGenerate, match=r"1,025 columns; allowed: 1,024; do: name fewer columns"):
        PrivateEvolution().plan(many, PrivateEvolutionOptions())


def test_one_column_and_no_possible_row_are_refused():
    one = replace(asked(CellDomain(("ward",), (4,))), layout=LAYOUT.select(["ward"]))
    with pytest.raises(CannotGenerate, match=r"one column alone.*; allowed: at least two columns; do: add columns"):
        PrivateEvolution().plan(one, PrivateEvolutionOptions())
    nothing = question(impossible={("ward", "label"): np.ones((4, 3), dtype=bool)})
    for label in ("label", None):
        with pytest.raises(CannotGenerate, match=r"no row|exclude every row"):
            PrivateEvolution().plan(nothing, PrivateEvolutionOptions(label=label))


@pytest.mark.parametrize(("rounds", "candidates"), [(14, 99 * 4), (3, 99)])
def test_a_plan_says_how_many_rows_have_as_many_votes_as_noise(rounds: int, candidates: int):
    """33 rows of each of three labels, with three copies of each from the sixth round on."""
    options = PrivateEvolutionOptions(label="label", members=100, rounds=rounds)
    made = PrivateEvolution().plan(question(), options)
    deviation = variance(made.events[-1]) ** 0.5
    assert made.notes[0].startswith(f"with {deviation * candidates:,.0f} rows a made-up row of the last round has ")


MODEL = WeightedRows(
    CellDomain(("a", "b"), (3, 2)), 100, np.array([[0, 0], [2, 1], [1, 0], [2, 0]]), np.array([5, 3, 1, 1])
)


@pytest.mark.parametrize("by_total", [False, True])
def test_rounds_whose_noise_is_above_the_declared_rows_are_refused_with_the_most_that_are_not(by_total: bool):
    """1,000 rounds of a few rows passed with a note. The most rounds that are named pass; one more does not."""
    rows = 2000
    task = question(public_total=rows, adjacency="replace_one") if by_total else question()
    declared = {} if by_total else {"rows_about": rows}

    def planned(rounds: int) -> Any:
        return PrivateEvolution().plan(task, PrivateEvolutionOptions(rounds=rounds, **declared))

    with pytest.raises(CannotGenerate, match=r"options.rounds: 1000, .* for about 2,000 rows") as refused:
        planned(1000)
    found = re.search(r"at most (\d+) rounds; do: write rounds: (\d+) or fewer", str(refused.value))
    assert found is not None
    assert found[1] == found[2]
    most = int(found[1])
    assert len(planned(most).events) == most
    with pytest.raises(CannotGenerate, match=f"at most {most} rounds"):
        planned(most + 1)


def test_without_a_declared_number_of_rows_no_rounds_are_refused_and_the_notes_say_so():
    made = PrivateEvolution().plan(question(), PrivateEvolutionOptions(rounds=1000))
    assert len(made.events) == 1000
    assert made.notes[1] == "time is for 100,000 rows, since the spec declares no number of rows"
    with pytest.raises(CannotGenerate, match="which even one round is above; do: raise epsilon, or lower members"):
        PrivateEvolution().plan(question(), PrivateEvolutionOptions(rounds=3, rows_about=2))


def test_each_member_comes_as_often_as_its_weight_says():
    """Within one row, whatever the seed; over seeds the mean is exact. Order and bytes are the seed's alone."""
    seen = []
    for seed in range(40):
        rows = MODEL.sample(7, seed=seed)
        counts = [int((rows == member).all(axis=1).sum()) for member in MODEL.codes]
        assert sum(counts) == len(rows) == 7
        assert all(abs(count - 7 * weight / 10) < 1 for count, weight in zip(counts, MODEL.weights, strict=True))
        seen.append(counts)
    assert rows.dtype == np.int32
    assert len({tuple(each) for each in seen}) > 1
    assert MODEL.sample(1000, seed=1).shape == (1000, 2)
    assert MODEL.sample(0, seed=1).shape == (0, 2)
    assert MODEL.marginal(("a", "b")).tolist() == [[50, 0], [10, 0], [10, 30]]
    assert MODEL.marginal(("b",)).tolist() == [70, 30]
    assert float(MODEL.marginal(())) == 100


def test_rows_meet_a_condition_or_it_is_said_that_none_does():
    assert {tuple(row) for row in MODEL.sample(20, seed=3, where={"a": [2]}).tolist()} == {(2, 1), (2, 0)}
    with pytest.raises(NothingPossible, match="no made-up row"):
        MODEL.sample(20, seed=3, where={"a": [0], "b": [1]})
    with pytest.raises(ValueError, match="codes must be"):
        MODEL.sample(20, seed=3, where={"a": [3]})
    with pytest.raises(ValueError, match="rows must lie"):
        MODEL.sample(-1, seed=3)


def test_published_rows_are_read_back_and_a_strangers_is_checked():
    values, written = MODEL.to_arrays()
    again = read_model("weighted_rows", values, written)
    assert np.array_equal(again.sample(50, seed=2), MODEL.sample(50, seed=2))
    wrong: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({}, {"weights": np.array([5, 3, 1, 0])}),
        ({}, {"weights": np.array([2**62, 2**62, 2**62, 2**62])}),
        ({}, {"weights": np.array([5, 3, 1])}),
        ({}, {"codes": MODEL.codes + 1}),
        ({}, {"codes": -MODEL.codes}),
        ({}, {"codes": MODEL.codes[:, :1]}),
        ({}, {"more": MODEL.weights}),
        ({"rows": -1}, {}),
        ({"rows": True}, {}),
        ({"more": 1}, {}),
        ({"domain": {"columns": ["a", "b"], "shape": [3.0, 2]}}, {}),
        ({"domain": {"columns": ["a", 1], "shape": [3, 2]}}, {}),
        ({"domain": {"columns": ["a"], "shape": [3]}}, {}),
    ]
    for changed, array in wrong:
        with pytest.raises(ValueError, match=r"weighted rows|weights|codes?|rows|columns|shape|sizes|array"):
            read_model("weighted_rows", {**values, **changed}, {**written, **array})
