"""Joined bins: a rule of released counts alone, within the charge; a model of declared cells with the mean."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks._no_seed import no_seed
from contracts.contract.contract import Contract
from contracts.domains.trees import BinTree, bin_ends, bin_tree
from privacy.accounting.events import Pure, ZeroConcentrated
from privacy.accounting.renyi import rho_for, share
from privacy.generators.bin_weights import MOST_RUNS, JoinedBins, Joins, apart_in, join
from privacy.generators.calibration import generator
from privacy.generators.generator import CannotGenerate, Fitted, InsideTask, SynthesisTask
from privacy.generators.inside_bins import CountedColumn, FilledModel, follow_blocks, followed_blocks, with_inside
from privacy.generators.rows import read_model
from privacy.grant.queries.query import Relation
from privacy.marginals.blocks import NothingPossible
from privacy.marginals.cell_sums import PrivateCellSums
from privacy.marginals.graph import CellDomain
from privacy.marginals.model import PublishedModel
from tests.contracts.contract.test_bin_contents import contract
from tests.privacy.generators.small_table import DELTA, CountedTable, asked, quiet, start
from tests.privacy.ledger.ledgers import KEYED_HASH, Place
from tests.worlds.tables import property_yaml

PAY = property_yaml(
    "pay",
    "integer",
    "{kind: integer, bounds: [0, 1199], bins: {width: 100}, nulls: {policy: category}, provenance: {kind: declared}}",
)
CITY = property_yaml(
    "city",
    "string",
    "{kind: categories, values: [north, south, west], nulls: {policy: map, to: west}, provenance: {kind: declared}}",
)
BINS = 12


class Valued(CountedTable):
    """A table whose first column has values in bins, -1 where missing: all that is asked for is counted exactly."""

    def __init__(self, made: Contract, values: NDArray[np.int64], cities: NDArray[np.int64]) -> None:
        codes = np.where(values < 0, BINS, values // 100)
        super().__init__(np.stack([codes, cities], axis=1), CellDomain.of(made))
        self.values = values[values >= 0]

    def sums(self, clique: object, addends: Sequence[Any]) -> tuple[PrivateCellSums, ...]:
        return tuple(PrivateCellSums((), (), each, KEYED_HASH, "b" * 64, self.numbers) for each in addends)

    def numbers(self, addends: Any) -> NDArray[np.int64]:
        missing = len(self.rows) - self.values.size
        if not isinstance(addends, BinTree):
            above = int(self.values.sum())
            return np.array([above, addends.width * self.values.size - above, addends.width * missing])
        places = np.searchsorted(addends.cuts, self.values, side="right") - 1
        leaves = np.bincount(places, minlength=addends.leaves)
        levels = [np.add.reduceat(leaves, np.arange(0, addends.leaves, size)) for size in addends.level_leaves]
        return np.concatenate([*levels, [missing]]).astype(np.int64)


def tree_of(made: Contract) -> BinTree:
    found = bin_tree("pay", made.column("pay").domain, 1, joins=True)
    assert found is not None
    return found


def task(made: Contract, **terms: Any) -> SynthesisTask:
    inside = InsideTask((tree_of(made),), (made.column("pay").domain.axis,), Fraction(1, 4), joins=True)
    return replace(asked(CellDomain.of(made), **terms), inside=inside, contract=made)


@pytest.fixture
def made(tmp_path: Path) -> Contract:
    return contract(tmp_path, PAY + CITY)


def people(rows: int, seed: int = 3) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pays most of which are low, some missing, and one of three cities that goes with them."""
    rng = np.random.default_rng(seed)
    values = np.minimum(rng.exponential(120, rows), 1199).astype(np.int64)
    cities = np.where(rng.random(rows) < 0.7, values // 400, rng.integers(0, 3, rows))
    return np.where(rng.random(rows) < 0.1, -1, values), np.minimum(cities, 2)


def test_bins_that_stand_stay_and_the_others_are_joined(made: Contract):
    """By hand: 12 bins of 100, of which only the first three and the rest together have 200 rows."""
    tree, ends = tree_of(made), bin_ends(made.column("pay").domain.axis, tree_of(made))
    rows = np.array([900, 300, 250, 120, 60, 30, 0, 0, 20, 0, 0, 5])
    counts = np.zeros(tree.leaves)
    counts[np.array(ends[:-1])] = rows
    terms: dict[str, Any] = {"variance": 1.0, "floor": 200.0}
    assert join(counts, tree, ends, apart=frozenset(), **terms) == (0, 1, 2, 3)
    assert join(counts, tree, ends, apart=frozenset({8}), **terms) == (0, 1, 2, 3, 8), "a bin that is kept apart"
    assert join(-counts, tree, ends, apart=frozenset(), **terms) == (0,)
    loud = {"variance": 40_000.0, "floor": 0.0}
    assert join(counts, tree, ends, apart=frozenset(), **loud) == (0,), "nothing stands out of this noise"


def test_there_are_never_more_than_the_most(tmp_path: Path):
    fine = contract(tmp_path, PAY.replace("{width: 100}", "{width: 6}"))
    tree = tree_of(fine)
    ends = bin_ends(fine.column("pay").domain.axis, tree)
    found = join(np.full(tree.leaves, 50.0), tree, ends, variance=1e-6, floor=10.0, apart=frozenset())
    assert len(found) == MOST_RUNS
    sizes = np.diff([*found, 200])
    assert sizes.max() <= 2 * sizes.min() + 1, "bins of the same counts are joined evenly"


def test_bins_that_can_hold_other_rows_are_kept_apart(made: Contract):
    mask = np.zeros((BINS + 1, 3), dtype=np.bool_)
    mask[:4, 1] = True
    question = replace(task(made), impossible={("pay", "city"): mask})
    assert apart_in(question, "pay", BINS) == frozenset({4})
    assert apart_in(task(made), "pay", BINS) == frozenset()


@pytest.mark.parametrize("name", ["independent", "mst", "aim", "privbayes"])
@pytest.mark.parametrize(("delta", "options"), [(DELTA, {}), (DELTA, {"noise": "laplace"}), (Fraction(0), {})])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_trees_sums_and_generator_share_the_budget_and_no_more(
    made: Contract, name: str, delta: Fraction, options: dict[str, str], adjacency: Any
):
    """All shares add up to the budget of the charge to a part in 10^5; a quarter is measured first, 2 to 3."""
    question, chosen = task(made, delta=delta, adjacency=adjacency), generator(name)
    plan = with_inside(chosen, question).plan(question, chosen.options.model_validate(options))
    whole = rho_for(question.epsilon, delta) if delta else question.epsilon
    budget = ZeroConcentrated(whole) if delta else Pure(whole)
    counted, summed, *rest = [share(budget, event) for event in plan.events]
    total = counted + summed + sum(rest, Fraction(0))
    assert whole * (1 - Fraction(1, 10**5)) < total <= whole
    assert abs((counted + summed) / whole - Fraction(1, 4)) < Fraction(1, 10**5)
    assert abs(counted / summed - Fraction(2, 3)) < Fraction(1, 10**4)
    assert sum(step.share for step in plan.steps) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("name", ["independent", "mst", "aim", "privbayes"])
@pytest.mark.parametrize("delta", [DELTA, Fraction(0)])
def test_a_fit_draws_within_its_charge_and_keeps_the_declared_cells(
    sqlite_place: Place, made: Contract, name: str, delta: Fraction
):
    question, chosen = task(made, epsilon=Fraction(3), delta=delta), generator(name)
    run = start(sqlite_place, whole(chosen, question), question, **_options(chosen))
    fitted = run.fit(Valued(made, *people(20_000)))
    model = fitted.model
    assert isinstance(model, FilledModel)
    assert model.domain == question.domain
    assert 1 < model.joined["pay"].firsts.size < BINS, "of 12 bins some are joined"
    budget = rho_for(question.epsilon, delta) if delta else question.epsilon
    assert run.spent() <= budget
    marginal = model.marginal(("pay", "city"))
    assert marginal.shape == (BINS + 1, 3)
    rows = model.sample(model.rows, seed=5)
    found = np.bincount(rows[:, 0], minlength=BINS + 1)
    assert np.abs(found - model.marginal(("pay",))).max() < 4 + 0.01 * model.rows


def whole(chosen: Any, question: SynthesisTask) -> Any:
    fitter: Any = with_inside(chosen, question)
    fitter.options = chosen.options
    return fitter


def _options(chosen: Any) -> dict[str, Any]:
    return {"rounds": 4} if chosen.name == "aim" else {}


class SameAnswers:
    """Answers each query with what it answered the same key before, whatever the table; notes what was asked. A first
    table is measured with small noise. Whatever is asked for another one must be what was asked before: all that a
    fit may go by is what it was answered."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self._answers: dict[str, NDArray[np.int64]] = {}
        self._relation = Relation("add_remove", 1)

    def holds(self, key: str) -> bool:
        return False

    def draw(self, query: Any, *, key: str, progress: Any = None) -> Any:
        handles = [(each.clique, getattr(each, "coarsening", None)) for each in query.handles]
        self.asked.append((key, [(clique, None if by is None else by.sha256) for clique, by in handles]))
        handle = query.handles[0]
        # Of a marginal over other bins there is no answer of before: the first difference is what is looked for.
        if key not in self._answers or self._answers[key].size != int(np.prod(_shape(handle))):
            exact = handle._read() if isinstance(handle, PrivateCellSums) else handle._count()
            noise = np.random.default_rng(len(self._answers)).normal(0, 5, exact.shape)
            self._answers[key] = exact + np.rint(noise).astype(np.int64)
        event = query.event(self._relation)
        values = self._answers[key]
        return query.result(event, (_Answer(key, len(self._answers), query.handles[0].clique, values),))


def _shape(handle: Any) -> tuple[int, ...]:
    return (handle.addends.parts,) if isinstance(handle, PrivateCellSums) else handle.shape


class _Answer:
    listing = None
    sha256 = "0" * 64

    def __init__(self, key: str, number: int, clique: Any, values: NDArray[np.int64]) -> None:
        self.key, self.number, self.clique, self.values = key, number, clique, values


def asked_of_neighbours(made: Contract) -> list[list[Any]]:
    """Fit a small table and all that have one person more; return what each fit asked for under the same answers."""
    values, cities = people(400)
    grant, question, chosen = SameAnswers(), task(made), generator("independent")
    fitter, found = with_inside(chosen, question), []
    plan = fitter.plan(question, chosen.options())
    added = [(value, city) for value in [-1, *range(0, 1200, 100)] for city in range(3)]
    for extra in [[], *([each] for each in added)]:
        grant.asked = []
        more = Valued(
            made,
            np.append(values, [value for value, _ in extra]).astype(np.int64),
            np.append(cities, [city for _, city in extra]).astype(np.int64),
        )
        fitter.fit(question, chosen.options(), plan, more, grant, quiet, no_seed)
        found.append(grant.asked)
    return found


def test_which_bins_are_joined_follows_from_what_was_answered_alone(made: Contract):
    """All 39 neighbours that have one person more, under the same answers: the same marginals over the same bins."""
    first, *others = asked_of_neighbours(made)
    assert any(by is not None for _, handles in first for _, by in handles), "some bins are joined"
    assert all(other == first for other in others)


@pytest.mark.long
def test_a_twin_that_joins_by_exact_counts_is_found(made: Contract, monkeypatch: pytest.MonkeyPatch):
    """The wrong case: bins joined by the table's own counts. Some neighbour then asks for other marginals."""
    tables: list[Valued] = []
    sums = Valued.sums

    def remembered(self: Valued, clique: object, addends: Sequence[Any]) -> tuple[PrivateCellSums, ...]:
        tables.append(self)
        return sums(self, clique, addends)

    def exactly(counted: Any, *_: object) -> Joins:
        rows = np.bincount(tables[-1].rows[:, 0], minlength=BINS)
        return {"pay": (0, *(code for code in range(1, BINS) if rows[code] % 2))}

    monkeypatch.setattr(Valued, "sums", remembered)
    monkeypatch.setattr("privacy.generators.inside_bins.joins_of", exactly)
    first, *others = asked_of_neighbours(made)
    assert any(other != first for other in others)


def test_the_mean_is_that_of_the_sum_and_bins_keep_their_rows(sqlite_place: Place, made: Contract):
    """At epsilon 50 noise is below a row: the middles of leaves give the exact mean to a part of a leaf."""
    question, chosen = task(made, epsilon=Fraction(50)), generator("independent")
    values, cities = people(6000)
    table = Valued(made, values, cities)
    fitted: Fitted[Any] = start(sqlite_place, whole(chosen, question), question).fit(table)
    contents, ends = fitted.model.contents["pay"], np.append(fitted.model.contents["pay"].cuts[1:], 1200)
    bins = fitted.model.marginal(("pay",))[:BINS]
    own = contents.cuts // 100
    inside = contents.weights / np.bincount(own, contents.weights)[own]
    mean = (bins[own] * inside * (contents.cuts + ends - 1) / 2).sum() / bins.sum()
    assert abs(mean - table.values.mean()) < 0.5
    assert np.abs(bins - np.bincount(table.values // 100, minlength=BINS)).max() < 40


def test_a_model_follows_the_counts_of_blocks_and_keeps_what_goes_with_each_cell():
    """By hand: two blocks of 400 rows go 3 to 1, the missing cell keeps 200. What is not counted keeps its own."""
    cells = small().cells
    model = follow_blocks(cells, "pay", [0, 1, 2], np.array([900.0, 300.0]))
    assert np.allclose(model.marginal(("pay",)), [600, 200, 200], rtol=1e-5)
    pairs, before = model.marginal(("pay", "city")), cells.marginal(("pay", "city"))
    assert np.allclose(pairs / pairs.sum(axis=1)[:, None], before / before.sum(axis=1)[:, None], rtol=1e-5)
    one = follow_blocks(cells, "pay", [0, 1, 2, 3], np.array([-5.0, 10.0, 30.0]))
    assert np.allclose(one.marginal(("pay",)), [400, 150, 450], rtol=1e-5)
    for rows in ([0.0, 0.0], [-3.0, -8.0]):
        assert follow_blocks(cells, "pay", [0, 1, 2], np.array(rows)) is cells


def test_blocks_are_as_many_as_noise_allows(made: Contract):
    """Exact counts of 8,000 pays: noise of deviation 1 leaves all joined bins apart, of 40 halves, of 400 nothing."""
    table, tree = Valued(made, *people(8000)), tree_of(made)
    values, joins = table.numbers(tree), {"pay": tuple(range(6))}
    exact = np.bincount(np.minimum(table.values // 100, 5), minlength=6)

    def blocks(deviation: float) -> tuple[list[int], NDArray[np.float64]]:
        counts = SimpleNamespace(values=values, variance=deviation**2)
        counted = CountedColumn(tree, made.column("pay").domain.axis, cast(Any, counts), None)
        return followed_blocks(counted, joins)

    fine, halves, none = blocks(1.0), blocks(40.0), blocks(400.0)
    assert len(none[0]) == 2 < len(halves[0]) < len(fine[0])
    for found, rows in (fine, halves, none):
        assert (found[0], found[-1]) == (0, 6)
        assert found == sorted(set(found))
        assert np.allclose(rows, np.add.reduceat(exact, found[:-1]), atol=1e-6)


def small() -> FilledModel:
    """Two joined bins and a missing cell, by two cities; five declared bins with parts 1, 3 and 2, 0, 6."""
    domain = CellDomain(("pay", "city"), (3, 2))
    potentials = np.rint(np.log(np.array([[0.3, 0.1], [0.2, 0.2], [0.1, 0.1]])) * 2**20).astype(np.int64)
    cells = PublishedModel(domain, 1000, (("pay", "city"),), (potentials - potentials.max(),))
    bins = JoinedBins(np.array([0, 2]), np.array([1, 3, 2, 0, 6]))
    return FilledModel(cells, {}, {"pay": bins})


def test_rows_of_joined_bins_are_spread_over_the_declared_ones():
    """By hand: the joined bins have 400 rows each and the missing 200; rows are within one of the parts of a bin."""
    model = small()
    assert model.domain == CellDomain(("pay", "city"), (6, 2))
    expected = np.array([100, 300, 100, 0, 300, 200])
    assert np.allclose(model.marginal(("pay",)), expected, rtol=1e-4)
    assert np.allclose(model.marginal(("city", "pay"))[0], [75, 225, 50, 0, 150, 100], rtol=1e-4)
    rows = model.sample(1000, seed=9)
    assert np.abs(np.bincount(rows[:, 0], minlength=6) - expected).max() <= 2
    assert np.array_equal(rows, model.sample(1000, seed=9))


def test_further_rows_under_a_condition_follow_the_conditional_distribution():
    """Bins 1 and 4 are asked for: 300 to 300, and the cities of the first 3 to 1."""
    model = small()
    rows = model.sample(8000, seed=4, where={"pay": [1, 4]})
    assert set(rows[:, 0]) == {1, 4}
    assert abs((rows[:, 0] == 1).mean() - 0.5) < 0.01
    assert abs((rows[rows[:, 0] == 1, 1] == 0).mean() - 0.75) < 0.01
    with pytest.raises(NothingPossible):
        model.sample(10, seed=4, where={"pay": [3]})
    with pytest.raises(ValueError, match="lie between 0 and 5"):
        model.sample(10, seed=4, where={"pay": [6]})


def test_a_model_of_joined_bins_reads_back_and_a_strangers_is_refused():
    values, arrays = small().to_arrays()
    again = read_model("filled", values, arrays)
    assert np.array_equal(again.sample(50, seed=3), small().sample(50, seed=3))
    firsts, weights = "inside-joined-0000-firsts", "inside-joined-0000-bins"
    for change in (
        {firsts: np.array([1, 2])},
        {firsts: np.array([0, 5])},
        {firsts: np.array([2, 0])},
        {firsts: np.array([0, 1, 2, 3])},
        {weights: np.array([0, 0, 2, 0, 6])},
        {weights: np.array([1, -3, 2, 0, 6])},
        {weights: np.array([1, 2**62, 2**62, 2**62, 6])},
    ):
        with pytest.raises(ValueError):  # noqa: PT011 - each says its own
            read_model("filled", values, {**arrays, **change})
    with pytest.raises(ValueError, match="not there"):
        read_model("filled", {**values, "joined": ["town"]}, arrays)


@pytest.mark.parametrize("name", ["p3gm", "latent_factors", "vae", "auto"])
def test_generators_that_cannot_count_joined_bins_are_refused_before_a_charge(made: Contract, name: str):
    question, chosen = task(made), generator(name)
    with pytest.raises(CannotGenerate, match=r"private, which .* cannot take; allowed: a generator of marginals"):
        with_inside(chosen, question).plan(question, chosen.options.model_construct())
