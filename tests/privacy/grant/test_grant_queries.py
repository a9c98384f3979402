"""What holds of every query of noisy numbers: its event is derived, its noise exact, it is replayed and bounded."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from contracts.contract.contract import Adjacency
from contracts.contract.odcs import load_contract
from contracts.domains.lattice import ValueLattice
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace, PrivacyEvent, ZeroConcentrated
from privacy.generators.calibration import generator
from privacy.grant.grant import open_grant
from privacy.grant.queries.cell_sums import CellSumQuery
from privacy.grant.queries.choice import ChoiceQuery
from privacy.grant.queries.marginal import MarginalQuery
from privacy.grant.queries.place_counts import PlaceCountQuery
from privacy.grant.queries.query import Relation
from privacy.grant.queries.residuals import ResidualQuery
from privacy.grant.queries.sums import SumQuery
from privacy.grant.queries.votes import VoteQuery
from privacy.learning.candidates import Candidates, vote_event
from privacy.learning.embedding import Embedding
from privacy.learning.layout import ColumnLayout, RowLayout
from privacy.learning.moments import Everyone, Moments, sum_event
from privacy.ledger.entries import GrantExceeded, LedgerRefusal
from privacy.marginals.cell_sums import PrivateCellSums, cell_sum_event
from privacy.marginals.counts import ParentRows, PrivateCounts
from privacy.marginals.residual_basis import residual_moves, residual_of
from privacy.marginals.scores import Candidate, DistanceScore, MutualInformationScore
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise, marginal_moves
from tests.privacy.generators.small_table import CountedTable, asked, start, table
from tests.privacy.learning.learning_rows import LAYOUT, all_statistics, embedded, private, random_rows, whole
from tests.privacy.ledger.ledgers import KEYED_HASH, Place, opened_grant
from tests.privacy.noise.noise_statistics import dkw_rejects, gaussian_cdf, laplace_cdf

NOISE, CHEAPER = GaussianNoise(Fraction(1, 100)), GaussianNoise(Fraction(1, 200))
QUARTER, HALF = LaplaceNoise(Fraction(1, 4)), LaplaceNoise(Fraction(1, 2))
WAGE = ValueLattice("wage", Decimal(0), Decimal(50), Decimal("0.5"), counts_missing=True)
PAIR = np.arange(6, dtype=np.int64).reshape(2, 3) * 10**8
MARGINALS = {(): PAIR.sum(), ("sex",): PAIR.sum(axis=1), ("age",): PAIR.sum(axis=0), ("sex", "age"): PAIR}
MULTIPLIERS = (9, 5, 4, 2)
COUNTS = np.arange(24, dtype=np.int64).reshape(4, 2, 3) * 1000
ROWS = random_rows(200)
STATISTICS = all_statistics()
CLASSES = STATISTICS["class moments"]
CANDIDATES = Candidates(LAYOUT.names, random_rows(30, 9).astype(np.int64), "label")
EXACT = np.arange(18, dtype=np.int64).reshape(2, 3, 3) * 100


def counts(clique: tuple[str, ...], exact: Any) -> PrivateCounts:
    return PrivateCounts(clique, np.shape(exact), KEYED_HASH, "b" * 64, lambda: np.asarray(exact))


def sums(exact: NDArray[np.int64], addends: Any = WAGE, clique: tuple[str, ...] = ("sex", "job")) -> PrivateCellSums:
    columns = clique[: exact.ndim - 1]
    return PrivateCellSums(columns, exact.shape[:-1], addends, KEYED_HASH, "b" * 64, lambda _: exact)


def places(*groups: int) -> PlaceCountQuery:
    handle = counts(("block", "sex", "job"), COUNTS)
    return PlaceCountQuery(handle, "region", 2, np.array(groups), ("sex",), NOISE)


def changed_handles(query: Any, changed: Callable[[Any], dict[str, Any]]) -> Any:
    name = next(each.name for each in fields(query) if each.name in ("counts", "rows", "sums"))
    held = getattr(query, name)
    made = tuple(replace(each, **changed(each)) for each in query.handles)
    return replace(query, **{name: made if isinstance(held, tuple) else made[0]})


def unread(query: Any) -> Any:
    """The same query, of which nothing may be read."""

    def failing(handle: Any) -> dict[str, Any]:
        (name,) = [each.name for each in fields(handle) if callable(getattr(handle, each.name))]
        return {name: lambda *_: pytest.fail("something was read")}

    return changed_handles(query, failing)


@dataclass(frozen=True)
class Kind:
    """A query, what it measures, how one unit moves it, and queries that are others.

    Args:
        event: by another route; None where only the moves are known by one.
        told: what the measurement says of the query.
    """

    query: Any
    exact: NDArray[Any]
    moves: Callable[[Any, Adjacency, int], tuple[int, ...]]
    others: tuple[Any, ...]
    event: Callable[..., PrivacyEvent] | None = None
    told: dict[str, Any] = field(default_factory=dict)


def of_marginal(_: Any, adjacency: Adjacency, rows: int) -> tuple[int, ...]:
    return marginal_moves(adjacency, rows)


def residual_kind() -> Kind:
    query = ResidualQuery(tuple(counts(*each) for each in MARGINALS.items()), MULTIPLIERS, NOISE)
    parts = [m * residual_of(np.asarray(x)).reshape(-1) for x, m in zip(MARGINALS.values(), MULTIPLIERS, strict=True)]
    # 3-4-5: other multipliers with the same sum of squares per cell would have the same event.
    others = (replace(query, multipliers=(9, 5, 4, 3)),)
    return Kind(query, np.concatenate(parts), lambda drawn, *terms: residual_moves(drawn.residuals, *terms), others)


def sum_kind(name: str) -> Kind:
    made, statistic = SumQuery(private(ROWS), STATISTICS[name], NOISE), STATISTICS[name]
    halved = RowLayout((replace(LAYOUT.columns[0], table=LAYOUT.columns[0].table / 2), *LAYOUT.columns[1:]))
    others = (
        replace(made, statistic=replace(CLASSES, embedding=embedded(bound=Fraction(1, 3)))),
        replace(made, rows=private(ROWS, halved)),
        replace(made, noise=CHEAPER),
    )
    event = lambda **terms: sum_event(statistic, NOISE, **terms)  # noqa: E731
    return Kind(made, statistic.total(ROWS, LAYOUT), lambda _, *terms: statistic.moves(*terms), others, event)


def vote_kind(noise: LaplaceNoise | GaussianNoise) -> Kind:
    made, moved = VoteQuery(private(ROWS), CANDIDATES, noise), CANDIDATES.codes.copy()
    moved[-1, 0] = (moved[-1, 0] + 1) % 11
    candidates = replace(CANDIDATES, codes=moved), replace(CANDIDATES, label=None)
    others = (*(replace(made, candidates=each) for each in candidates), replace(made, noise=CHEAPER))
    told = {"candidates": CANDIDATES.digest, "label": "label"}
    event = lambda **terms: vote_event(noise, **terms)  # noqa: E731
    return Kind(made, CANDIDATES.votes(ROWS, LAYOUT), of_marginal, others, event, told)


def cell_sum_kind(noise: LaplaceNoise | GaussianNoise) -> Kind:
    made = CellSumQuery(sums(EXACT), noise)
    lattices = (
        replace(WAGE, high=Decimal(60)),
        replace(WAGE, high=Decimal(40)),
        replace(WAGE, step=Decimal(1)),
        replace(WAGE, low=Decimal(50), high=Decimal(100)),
        replace(WAGE, column="rent"),
        replace(WAGE, counts_missing=False),
    )
    handles = (*(sums(EXACT, each) for each in lattices), sums(EXACT, clique=("sex", "town")))
    others = (*(replace(made, sums=each) for each in handles), replace(made, noise=CHEAPER))
    moves = lambda _, adjacency, rows: (100 * rows,) * (1 if adjacency == "add_remove" else 2)  # noqa: E731
    told = {"clique": ("sex", "job"), "addends": WAGE}
    return Kind(made, EXACT, moves, others, lambda **terms: cell_sum_event(noise, WAGE, **terms), told)


BY_PLACE = np.stack([COUNTS[1].sum(axis=1), COUNTS[[0, 2, 3]].sum(axis=(0, 2))])
KINDS = {
    "residuals": residual_kind(),
    "places": Kind(places(1, 0, 1, 1), BY_PLACE, of_marginal, (places(0, 0, 1, 1),)),
    **{name: sum_kind(name) for name in ("class moments", "sums and squares", "sums alone")},
    "votes": vote_kind(NOISE),
    "votes, Laplace": vote_kind(QUARTER),
    "cell sums": cell_sum_kind(NOISE),
    "cell sums, Laplace": cell_sum_kind(HALF),
}
every_kind = pytest.mark.parametrize("name", KINDS)
every_row_kind = pytest.mark.parametrize("name", [name for name in KINDS if "Laplace" not in name])


@every_kind
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("rows", [1, 3])
def test_values_are_exact_ones_with_the_noise_of_the_derived_event(
    sqlite_place: Place, name: str, adjacency: Adjacency, rows: int
):
    """Not told by the caller; the journal has one event; a resumed run gets the same numbers and reads nothing.
    Beyond 12 deviations lies less than 2 exp(-72) of Gaussian noise, beyond 28 exp(-39) of Laplace noise."""
    kind = KINDS[name]
    ledger, grant = opened_grant(sqlite_place, adjacency=adjacency, rows_per_unit=rows)
    drawn = grant.draw(kind.query, key="a")
    event, moves = drawn.event, kind.moves(drawn, adjacency, rows)
    assert event.moves == moves
    if kind.event is not None:
        assert event == kind.event(adjacency=adjacency, rows_per_unit=rows)
    if isinstance(kind.query.noise, GaussianNoise):
        assert isinstance(event, DiscreteGaussian)
        assert event.sigma_squared >= sum(move**2 for move in moves) / (2 * kind.query.noise.rho)
        deviation, most = float(event.sigma_squared) ** 0.5, 12
    else:
        assert isinstance(event, DiscreteLaplace)
        assert 0 <= kind.query.noise.epsilon / sum(moves) - event.inverse_scale <= Fraction(1, 10**15)  # rounded down
        deviation, most = 2**0.5 / float(event.inverse_scale), 28
    assert drawn.variance**0.5 == pytest.approx(deviation, rel=0.02)
    assert drawn.values.shape == kind.exact.shape
    assert 0 < np.abs(drawn.values - kind.exact).max() < most * deviation
    entered = [entry.body for entry in ledger.journal() if entry.kind == "noise_drawn"]
    assert [(body["event"], body["sha256"]) for body in entered] == [(event.to_json(), drawn.sha256)]
    again = open_grant(ledger, "run-1").draw(unread(kind.query), key="a")
    assert np.array_equal(again.values, drawn.values)
    for told in (drawn, again):
        assert (told.event, told.sha256, told.number) == (event, drawn.sha256, 0)
        assert {each: getattr(told, each) for each in kind.told} == kind.told


OTHERS = [(name, place) for name, kind in KINDS.items() for place in range(len(kind.others)) if "Laplace" not in name]


@pytest.mark.parametrize(("name", "place"), OTHERS)
def test_a_run_that_resumes_may_not_ask_for_something_else(sqlite_place: Place, name: str, place: int):
    """Whatever of it differs, also where the event would be the same; nothing is read or drawn."""
    kind = KINDS[name]
    ledger, grant = opened_grant(sqlite_place)
    grant.draw(kind.query, key="a")
    entries = len(ledger.journal())
    with pytest.raises(LedgerRefusal, match="a run that resumes asks for the same draws"):
        open_grant(ledger, "run-1").draw(unread(kind.others[place]), key="a")
    assert [entry.kind for entry in ledger.journal()[entries:]].count("noise_drawn") == 0


@every_row_kind
def test_a_budget_holds_so_many_draws_and_no_more(sqlite_place: Place, name: str):
    """Ten draws of rho = 1/100 fit into 1/10, the eleventh does not and reads nothing."""
    ledger, grant = opened_grant(sqlite_place, (ZeroConcentrated(Fraction(1, 10)),))
    for turn in range(10):
        grant.draw(KINDS[name].query, key=f"{turn}")
    with pytest.raises(GrantExceeded, match="budget"):
        grant.draw(unread(KINDS[name].query), key="10")
    assert [entry.kind for entry in ledger.journal()].count("noise_drawn") == 10


@every_kind
def test_what_was_planned_is_drawn_once(sqlite_place: Place, name: str):
    query = KINDS[name].query
    event = query.event(Relation("add_remove", 1))
    _, grant = opened_grant(sqlite_place, (event,))
    other = replace(query, noise=GaussianNoise(Fraction(1, 10**6)))
    with pytest.raises(GrantExceeded, match="not planned"):
        grant.draw(unread(other), key="a")
    assert grant.draw(query, key="a").event == event
    with pytest.raises(GrantExceeded, match="not planned"):
        grant.draw(unread(query), key="again")


@every_row_kind
@pytest.mark.parametrize("changed", [{"keyed_hash": "d" * 64}, {"contract_digest": "d" * 64}], ids=str)
def test_another_snapshot_or_contract_is_refused(sqlite_place: Place, name: str, changed: dict[str, str]):
    _, grant = opened_grant(sqlite_place)
    with pytest.raises(LedgerRefusal, match="of another snapshot or contract"):
        grant.draw(unread(changed_handles(KINDS[name].query, lambda _: changed)), key="a")


MANY = Candidates(LAYOUT.names, random_rows(200_000, 3).astype(np.int64), None)
WIDE = RowLayout((ColumnLayout("many", "category", np.eye(631)), *LAYOUT.columns))
ZEROS = np.zeros((1, 5), dtype=np.uint16)
BALL = Embedding(("many",), whole([0] * 631), None, Fraction(1), 5)
FULL = Moments(BALL, Everyone(), ("counts", "sums", "full"))
RHO_HALF = GaussianNoise(Fraction(1, 2))
SCALES: dict[str, tuple[Any, Any, int, float | None]] = {
    "residuals": (ResidualQuery((counts(("area",), np.zeros(20_000, int)),), (3,), RHO_HALF), 0, 20_000, None),
    "sums": (SumQuery(private(ZEROS, WIDE), FULL, NOISE), FULL.total(ZEROS, WIDE), 200_028, 5 * 32**2 * 150**0.5),
    "votes": (
        VoteQuery(private(ROWS[:1]), MANY, GaussianNoise(Fraction(1, 20_000))),
        *(MANY.votes(ROWS[:1], LAYOUT), 200_000, 100),
    ),
    "cell sums": (CellSumQuery(sums(np.zeros((66_667, 3), int)), HALF), 0, 200_001, 200 * 2**0.5),
}


@pytest.mark.stat
@pytest.mark.parametrize("name", SCALES)
def test_the_noise_has_the_derived_scale_and_no_other(sqlite_place: Place, name: str):
    """n = 20,000 numbers of residuals, of which 30 % off is found; n = 200,000 and more of the others,
    of which +-10 % is. False-alarm rate 1e-9 (DKW); at the larger n the threshold is 0.0073, and 10 % of the scale
    moves the distribution function by 0.023 (Laplace 0.017), so that missing it has probability below 1e-16."""
    query, exact, n, deviation = SCALES[name]
    _, grant = opened_grant(sqlite_place)
    drawn = grant.draw(query, key="a")
    noise, found = (drawn.values - exact).reshape(-1), drawn.variance**0.5
    assert noise.size == n
    assert deviation is None or found == pytest.approx(deviation, rel=1e-4)
    cdf = (lambda scale: laplace_cdf(2**0.5 / scale)) if name == "cell sums" else gaussian_cdf
    assert not dkw_rejects(noise, cdf(found))
    for wrong in (1.3,) if n == 20_000 else (1.1, 0.9):
        assert dkw_rejects(noise, cdf(wrong * found))


OF_BASE = Relation("add_remove", 8)
EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "households" / "households.odcs.yaml"


def handle(parents: ParentRows | None) -> PrivateCounts:
    return replace(PrivateCounts.of_nobody(("region",), (4,)), parents=parents)


def test_a_marginal_of_parents_moves_by_their_rows_of_a_unit():
    """Eight people, one household: noise of an eighth; under replace_one in two cells."""
    noise = LaplaceNoise(Fraction(1, 2))
    for relation, rows in ((OF_BASE, (1,)), (Relation("replace_one", 8), (1, 1))):
        assert MarginalQuery(handle(ParentRows("household", 1)), noise).event(relation).moves == rows
    assert MarginalQuery(handle(ParentRows("household", 3)), noise).event(OF_BASE).moves == (3,)
    assert MarginalQuery(handle(None), noise).event(OF_BASE).moves == (8,)


def test_the_handle_says_what_a_resumed_run_must_ask_for_again():
    """Or the noise of parents could be replayed as that of children."""
    query = MarginalQuery(handle(ParentRows("household", 1)), LaplaceNoise(Fraction(1)))
    assert query.identity(OF_BASE, 0) == {"parents": ["household", 1]}
    assert MarginalQuery(handle(None), query.noise).identity(OF_BASE, 0) == {}
    score = DistanceScore(np.zeros(4, dtype=np.int64), Fraction(1), Fraction(0))
    digests = {
        str(ChoiceQuery((Candidate(handle(parents), score),), Fraction(1)).identity(OF_BASE, 0))
        for parents in (None, ParentRows("household", 1), ParentRows("household", 2))
    }
    assert len(digests) == 3


def test_a_choice_is_as_sensitive_as_its_most_sensitive_candidate():
    """One household moves a distance of households by 1, and one of people by 8."""
    score = DistanceScore(np.zeros(4, dtype=np.int64), Fraction(1), Fraction(0))
    above, below = (Candidate(handle(parents), score) for parents in (ParentRows("household", 1), None))
    assert ChoiceQuery((above,), Fraction(1)).sensitivity(OF_BASE) == 1
    assert ChoiceQuery((above, below), Fraction(1)).sensitivity(OF_BASE) == 8


def test_mutual_information_of_parents_is_refused():
    """No number of parents is public, even where that of the base is."""
    candidate = Candidate(handle(ParentRows("household", 1)), MutualInformationScore(100))
    with pytest.raises(ValueError, match="mutual information needs"):
        ChoiceQuery((candidate,), Fraction(1)).check(Relation("replace_one", 1, 100))


def test_other_draws_refuse_counts_of_parents(sqlite_place: Place):
    """Their sensitivity is that of the base, which may be the smaller one."""
    counts = CountedTable(table())
    run = start(sqlite_place, generator("independent"), asked())
    (own,) = counts.marginals([("job",)])
    query = ResidualQuery((replace(own, parents=ParentRows("household", 1)),), (1,), GaussianNoise(Fraction(1, 100)))
    with pytest.raises(ValueError, match="counts the rows of the base"):
        open_grant(run.ledger, run.run_key).draw(query, key="one")
    assert not run.drawn()
    assert not counts.counted


def test_the_bound_is_derived_from_the_links():
    """And a base of no parent has none."""
    contract = load_contract(EXAMPLE)
    assert ParentRows.of(contract.over("person")) == ParentRows("household", 1)
    with pytest.raises(ValueError, match="no row of household belongs"):
        ParentRows.of(contract.over("household"))
    with pytest.raises(ValueError, match="at least 1"):
        ParentRows("household", 0)
