"""Sums over rows: exact in whole numbers, bounded for every neighbour, and what they say they are."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.contract.contract import Adjacency
from privacy.accounting.amounts import AmountRefused
from privacy.accounting.claim import pld_epsilon
from privacy.accounting.renyi import renyi
from privacy.learning.embedding import Embedding, embedding
from privacy.learning.lattice import into_ball
from privacy.learning.moments import (
    Everyone,
    LabelCodes,
    Moments,
    NearestCentre,
    NormShells,
    Responsibilities,
    sum_event,
)
from privacy.marginals.sensitivity import GaussianNoise
from tests.privacy.learning.learning_rows import (
    LAYOUT,
    NUMBERS,
    TURNED,
    all_statistics,
    embedded,
    random_rows,
    responsibilities,
    whole,
)

NAMES = tuple(all_statistics())
CODES = st.tuples(st.integers(0, 10), st.integers(0, 10), st.integers(0, 11), st.integers(0, 2))
BOTH: tuple[Adjacency, ...] = ("add_remove", "replace_one")


def rows_of(rows: list[tuple[int, ...]]) -> np.ndarray:
    return np.array(rows, dtype=np.uint8).reshape(len(rows), 4)


def squared(change: np.ndarray) -> int:
    return sum(int(part) ** 2 for part in change.reshape(-1))


def parts_of(statistic: Moments, values: np.ndarray) -> list[np.ndarray]:
    ends = np.cumsum([Moments(statistic.embedding, statistic.groups, (part,)).length for part in statistic.parts])
    return np.split(values, ends[:-1])


@pytest.mark.parametrize("turned", [True, False], ids=["projected", "as they are"])
@pytest.mark.parametrize("name", NAMES)
@given(
    rest=st.lists(CODES, max_size=4),
    mine=st.lists(CODES, min_size=1, max_size=3),
    others=st.lists(CODES, min_size=0, max_size=3),
    bits=st.integers(2, 7),
)
@settings(max_examples=40, deadline=None)
def test_no_neighbour_moves_a_sum_further_than_its_moves_say(
    name: str, turned: bool, rest: list[Any], mine: list[Any], others: list[Any], bits: int
):
    """k rows that come or go, and k rows exchanged for up to k others: in whole numbers, anywhere in the table."""
    statistic = all_statistics(bits, turned=turned)[name]
    k = max(len(mine), len(others))
    before = statistic.total(rows_of(rest), LAYOUT)
    with_mine = statistic.total(rows_of([*mine, *rest]), LAYOUT)
    with_others = statistic.total(rows_of([*rest, *others]), LAYOUT)
    assert squared(with_mine - before) <= sum(move**2 for move in statistic.moves("add_remove", k))
    assert squared(with_mine - with_others) <= sum(move**2 for move in statistic.moves("replace_one", k))
    for part, move in zip(parts_of(statistic, with_mine - before), statistic.moves("add_remove", k), strict=True):
        assert squared(part) <= move**2


@pytest.mark.parametrize("adjacency", BOTH)
@pytest.mark.parametrize("name", NAMES)
def test_some_neighbour_moves_a_sum_nearly_so_far(name: str, adjacency: Adjacency):
    """The bound is no larger than it must be: some row, or pair of rows, reaches most of it. Responsibilities do not
    come near their worst case on these rows; all others reach 95 % of it."""
    statistic = all_statistics(8)[name]
    corners = rows_of(
        [*((a, b, c, d) for a in (0, 10) for b in (0, 10) for c in (0, 10) for d in range(3)), (5, 5, 5, 0)]
    )
    each = [statistic.total(corners[[place]], LAYOUT) for place in range(len(corners))]
    changes = each if adjacency == "add_remove" else [one - other for one in each for other in each]
    largest = max(squared(change) for change in changes) / sum(move**2 for move in statistic.moves(adjacency, 1))
    least = {"mixture": 0.6, "diagonal mixture": 0.4, "sums and squares": 0.6}
    assert least.get(name, 0.5 if "diagonal" in name or name == "variances" else 0.9) <= largest <= 1


def test_rows_that_are_not_clipped_move_a_sum_too_far(monkeypatch: pytest.MonkeyPatch):
    """The wrong case: the search for neighbours finds it where vectors leave the ball."""
    monkeypatch.setattr("privacy.learning.embedding.into_ball", lambda vectors, bits: vectors)
    statistic = all_statistics(8)["second moment"]
    corner = statistic.total(rows_of([(0, 10, 10, 0)]), LAYOUT)
    assert squared(corner) > statistic.moves("add_remove", 1)[0] ** 2


def test_moves_follow_from_parts_adjacency_and_rows_of_a_unit():
    """Three parts: 3 m^2 and 6 m^2; one second moment: 1 and 2; sums without counts may turn round: 4."""
    made = all_statistics(6)
    three, one, alone = made["class moments"], made["second moment"], made["sums alone"]
    m = 5 * 64**2
    assert three.moves("add_remove", 1) == (m,) * 3
    assert three.moves("replace_one", 1) == (m,) * 6
    assert three.moves("replace_one", 4) == (4 * m,) * 6
    assert (one.moves("add_remove", 2), one.moves("replace_one", 1)) == ((2 * m,), (m, m))
    assert (alone.moves("add_remove", 1), alone.moves("replace_one", 1)) == ((64,), (128,))
    assert made["sums and squares"].moves("replace_one", 1) == (m, m, 2 * m)
    assert made["mixture"].moves("add_remove", 1) == (16 * m,) * 3
    assert made["counts alone"].moves("replace_one", 1) == (1, 1)


@pytest.mark.parametrize("name", NAMES)
def test_a_total_is_the_sum_over_its_rows_one_by_one(name: str, monkeypatch: pytest.MonkeyPatch):
    """Bit for bit, in any order and any chunks: what a row adds does not depend on the rows beside it."""
    statistic, rows = all_statistics()[name], random_rows(70)
    exact = statistic.total(rows, LAYOUT)
    singly = sum(statistic.total(rows[[place]], LAYOUT) for place in range(len(rows)))
    assert np.array_equal(exact, singly)
    monkeypatch.setattr("privacy.learning.moments._CHUNK_ROWS", 17)
    assert np.array_equal(statistic.total(rows[::-1], LAYOUT), exact)
    assert (exact.dtype, exact.shape) == (np.int64, (statistic.length,))
    assert not statistic.total(rows[:0], LAYOUT).any()


@given(st.integers(1, 40), st.integers(2, 16), st.integers(0, 2**32 - 1), st.integers(0, 20))
@settings(max_examples=200, deadline=None)
def test_vectors_end_in_the_ball_and_stay_where_they_were_inside(width: int, bits: int, seed: int, size: int):
    """In exact arithmetic; those outside are shortened towards the origin by little more than they must be."""
    random = np.random.default_rng(seed)
    vectors = np.rint(random.normal(size=(20, width)) * 2.0**size)
    vectors[0] = 0
    vectors[1] = np.where(np.arange(width) == 0, 2.0**bits, 0)
    balled = into_ball(vectors, bits)
    norms = [squared(row.astype(np.int64)) for row in vectors]
    for row, before, norm in zip(balled.astype(np.int64), vectors, norms, strict=True):
        assert squared(row) <= 4**bits
        if norm <= 4**bits:
            assert np.array_equal(row, before)
        else:
            away = np.linalg.norm(row - before * (2.0**bits / np.sqrt(float(norm))))
            assert away <= np.sqrt(width) + 1e-6


def test_an_embedding_is_the_clipped_projection():
    """Against float64: centred, projected, clipped, up to half a lattice unit an entry and the coarseness of bits."""
    made, rows = embedded(12), random_rows(200)
    expected = (LAYOUT.select(NUMBERS).vectors(rows[:, :3]) - [0.5, 0.5, 0.5, 0]) @ TURNED
    norms = np.linalg.norm(expected, axis=1, keepdims=True)
    assert (norms > 0.5).mean() > 0.2
    assert (norms < 0.5).mean() > 0.2
    expected *= np.minimum(1, 0.5 / np.maximum(norms, 1e-9))
    np.testing.assert_allclose(made.vectors(rows, LAYOUT) * made.unit, expected, atol=2.5 * made.unit)


@pytest.mark.parametrize("kind", ["full", "diagonal"])
def test_blocks_are_the_moments_in_natural_units(kind: Any):
    """Against float64 on the embedded rows."""
    ball = embedded(10)
    statistic, rows = Moments(ball, LabelCodes("label", 3), ("counts", "sums", kind)), random_rows(300)
    blocks = statistic.blocks(statistic.total(rows, LAYOUT))
    vectors = ball.vectors(rows, LAYOUT) * ball.unit
    for label in range(3):
        mine = vectors[rows[:, 3] == label]
        squares = mine.T @ mine if kind == "full" else (mine**2).sum(axis=0)
        np.testing.assert_allclose(blocks.counts[label], len(mine))  # type: ignore[index]
        np.testing.assert_allclose(blocks.sums[label], mine.sum(axis=0), atol=1e-9)  # type: ignore[index]
        np.testing.assert_allclose(blocks.squares[label], squares, atol=1e-9)  # type: ignore[index]


@pytest.mark.parametrize("labels", [False, True], ids=["mixture", "a mixture a label"])
@pytest.mark.parametrize("full", [False, True], ids=["diagonal", "full"])
def test_responsibilities_are_the_posteriors_and_add_up(full: bool, labels: bool):
    """Within a unit of 1 / A of the softmax in float64, and exactly A together."""
    ball, rows = embedded(8), random_rows(150)
    groups = responsibilities(ball, full=full, labels=labels, bits=10)
    assert isinstance(groups, Responsibilities)
    vectors = ball.vectors(rows, LAYOUT)
    weights = groups.weights(rows, LAYOUT, vectors)
    assert (weights.sum(axis=1) == 1024).all()
    assert (weights >= 0).all()
    logs = np.array([0, 0.5, -1]) - 4.5 * ((vectors[:, None, :] / 256 - groups.centres / 65536) ** 2).sum(axis=2)
    if labels:
        logs = np.where(rows[:, [3]] == groups.owners, logs, -np.inf)
    posteriors = np.exp(logs - logs.max(axis=1, keepdims=True))
    posteriors /= posteriors.sum(axis=1, keepdims=True)
    assert np.abs(weights / 1024 - posteriors).max() < 1 / 1024 + 0.005
    assert posteriors.min(axis=0).max() < 0.4 or labels


def test_a_row_belongs_to_the_nearest_centre():
    ball, rows = embedded(8), random_rows(100)
    vectors = ball.vectors(rows, LAYOUT)
    centres = np.random.default_rng(6).integers(-200, 200, (7, ball.dimension))
    weights = NearestCentre(centres).weights(rows, LAYOUT, vectors)
    distances = ((vectors[:, None, :] - centres) ** 2).sum(axis=2)
    assert np.array_equal(np.argmax(weights, axis=1), np.argmin(distances, axis=1))
    assert (weights.sum(axis=1) == 1).all()


def test_a_row_belongs_to_the_shell_of_its_norm():
    """An edge belongs to the shell outside of it; every row is in one shell, whatever its norm is."""
    ball, rows = embedded(8), random_rows(300)
    vectors = ball.vectors(rows, LAYOUT)
    squares = (vectors.astype(np.int64) ** 2).sum(axis=1)
    edges = np.unique(np.concatenate([np.quantile(squares, [0.2, 0.6], method="lower"), [4**8]])).astype(np.int64)
    weights = NormShells(edges).weights(rows, LAYOUT, vectors)
    assert (weights.sum(axis=1) == 1).all()
    assert weights.argmax(axis=1).tolist() == [sum(int(square) >= edge for edge in edges) for square in squares]
    assert (weights.sum(axis=0)[:3] > 0).all()


@pytest.mark.parametrize("adjacency", BOTH)
def test_the_event_costs_rho_for_every_change_of_that_norm(adjacency: Adjacency):
    """rho = |moves|^2 / (2 sigma^2), the divergence at every order is order * rho, rounded against the spender."""
    statistic = all_statistics()["class moments"]
    event = sum_event(statistic, GaussianNoise(Fraction(1, 50)), adjacency=adjacency, rows_per_unit=2)
    assert event.moves == statistic.moves(adjacency, 2)
    rho = Fraction(sum(move * move for move in event.moves)) / (2 * event.sigma_squared)
    assert Fraction(1, 50) * (1 - Fraction(1, 10**9)) <= rho <= Fraction(1, 50)
    assert renyi(event, 17.0) == pytest.approx(17 / 50, rel=1e-6)


def test_the_second_accountant_says_nothing_of_sums_of_vectors():
    """Only the concentrated change would be tabulated, and that it is the worst is proven for divergences alone."""
    for name, statistic in all_statistics(1).items():
        event = sum_event(statistic, GaussianNoise(Fraction(1, 50)), adjacency="add_remove", rows_per_unit=1)
        told = pld_epsilon([event], Fraction(1, 10**5))
        assert (told is None) == (name not in ("counts alone", "norm shells")), name


def test_digests_tell_statistics_apart():
    """Two statistics have one digest only if all their public parameters are equal."""
    made = [statistic for bits in (5, 6) for statistic in all_statistics(bits).values()]
    assert len({statistic.digest for statistic in made}) == len(made)
    assert [statistic.digest for statistic in all_statistics().values()] == [
        statistic.rebuilt().digest for statistic in all_statistics().values()
    ]


def changed(value: Any, **fields: Any) -> Any:
    return replace(value, **fields)


BALL = embedded()
MIXTURE = responsibilities(BALL)
REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    (BALL, {"columns": ["height"]}, "columns must be a tuple"),
    (BALL, {"centre": np.zeros(4)}, "centre must be int64"),
    (BALL, {"centre": whole([-1, 0, 0, 0])}, r"centre must lie in \[0, 1\]"),
    (BALL, {"axes": whole(np.zeros((3, 2)))}, "axes must be int64 of shape 4 x any"),
    (BALL, {"axes": whole(np.full((4, 2), 2**40))}, "axes must have smaller entries"),
    (BALL, {"bound": 0.5}, "bound must be a Fraction"),
    (BALL, {"bound": Fraction(1, 10**5), "bits": 16}, "bound must be larger"),
    (BALL, {"bits": 0}, "bits must be a whole number from 1 to 16"),
    (BALL, {"bits": True}, "bits must be a whole number from 1 to 16"),
    (LabelCodes("label", 3), {"count": 0}, "count must be a whole number"),
    (NearestCentre(whole([[1, 2]])), {"centres": whole([[2**30, 0]])}, "within 2.18 units"),
    (NormShells(whole([1, 2])), {"edges": whole([2, 2])}, "edges must rise"),
    (NormShells(whole([1, 2])), {"edges": whole([0, 2])}, "from 1 to below 2.53"),
    (NormShells(whole([1, 2])), {"edges": whole([1, 2**53])}, "below 2.53, and be fewer"),
    (NormShells(whole([1, 2])), {"edges": whole(range(1, 4097))}, "fewer than 2.12"),
    (MIXTURE, {"bits": 13}, "bits must be a whole number from 1 to 12"),
    (MIXTURE, {"factors": whole(np.full((3, 2), 2**40))}, "factors must have smaller entries"),
    (MIXTURE, {"factors": whole(np.zeros((3, 3)))}, "factors must be int64 of shape 3 x 2"),
    (MIXTURE, {"labels": LabelCodes("label", 3)}, "labels and owners go together"),
    (MIXTURE, {"labels": LabelCodes("label", 3), "owners": whole([0, 0, 1])}, "every cell must have a component"),
    (all_statistics()["mixture"], {"parts": ("sums", "counts")}, "parts must be some of"),
    (all_statistics()["mixture"], {"parts": ("diagonal", "full")}, "parts must be some of"),
    (all_statistics()["mixture"], {"parts": ()}, "parts must be some of"),
    (all_statistics()["mixture"], {"embedding": embedded(16)}, "bits must be fewer"),
]


@pytest.mark.parametrize(("value", "fields", "said"), REFUSED, ids=[said for _, _, said in REFUSED])
def test_what_would_not_be_exact_or_bounded_is_refused(value: Any, fields: dict[str, Any], said: str):
    with pytest.raises(ValueError, match=said):
        changed(value, **fields)


def test_an_embedding_of_other_columns_is_refused():
    with pytest.raises(ValueError, match="no column 'income'"):
        embedding(LAYOUT, bound=Fraction(1), bits=8, columns=("income",))
    with pytest.raises(ValueError, match="have 3 entries, the centre 4"):
        Embedding(("label",), BALL.centre, BALL.axes, BALL.bound, BALL.bits).check(LAYOUT)
    with pytest.raises(ValueError, match="must have 3 cells"):
        LabelCodes("height", 3).check(BALL, LAYOUT)
    with pytest.raises(ValueError, match="groups of 3 dimensions, vectors of 2"):
        NearestCentre(whole([[1, 2, 3]])).check(BALL, LAYOUT)


def test_moves_too_large_for_an_event_are_refused_by_the_plan():
    """Many rows a unit on a fine lattice: said before anything is read."""
    statistic = Moments(embedded(14), Everyone(), ("full",))
    with pytest.raises(AmountRefused, match="moves"):
        sum_event(statistic, GaussianNoise(Fraction(1)), adjacency="add_remove", rows_per_unit=100)


def test_sums_beyond_64_bits_wrap_around_and_refuse_nothing():
    """A million times the same row, of the largest weight on the finest lattice: 2^64 and more, modulo 2^64."""
    statistic = Moments(embedded(16), Everyone(), ("counts", "full"))
    one, many = random_rows(1), np.repeat(random_rows(1), 1_000_000, axis=0)
    exact = [int(each) * 1_000_000 for each in statistic.total(one, LAYOUT)]
    assert max(map(abs, exact)) > 2**53
    assert statistic.total(many, LAYOUT).tolist() == [(each + 2**63) % 2**64 - 2**63 for each in exact]
