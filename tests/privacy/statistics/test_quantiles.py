"""Quantiles from a tree of counts: exact without noise, covered with it, for groups of every size and shape."""

from collections import Counter
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import product
from math import ceil, log
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from contracts.domains.lattice import ValueLattice
from contracts.domains.trees import QuantileChoices, ValueTree
from privacy.accounting.events import (
    CountNoise,
    DiscreteGaussian,
    DiscreteLaplace,
    gaussian_sigma_squared,
    laplace_inverse_scale,
)
from privacy.marginals.count_noise import variance
from privacy.noise.random_bytes import SeededBytes
from privacy.statistics import quantiles
from privacy.statistics.quantile_runs import candidate, quantile_runs
from privacy.statistics.quantiles import estimate_quantiles, rank_bounds, tree_count_error, tree_counts
from tests.privacy.noise.noise_statistics import noise_of

SOURCE = SeededBytes(41)
noise = partial(noise_of, source=SOURCE)
DRAWS = 2000
SHARES = (Decimal("0.1"), Decimal("0.5"), Decimal("0.975"))
FLOOR = float(binom.ppf(1e-11, DRAWS, 0.95)) / DRAWS
"""A coverage of 95 % falls below it with probability 1e-11; all cases together below 1e-8."""
EXACT = DiscreteLaplace(Fraction(10**5), (1,))
"""Noise that is 0 for all practical purposes."""


def tree_of(width: int, steps: int, *, missing: bool = False) -> ValueTree:
    return ValueTree(ValueLattice("income", Decimal(0), Decimal(width), Decimal(1), missing), Decimal(steps))


def event_of(kind: str, epsilon: Fraction, tree: ValueTree) -> CountNoise:
    if kind == "laplace":
        return DiscreteLaplace(laplace_inverse_scale(epsilon, tree.row_moves), tree.row_moves)
    return DiscreteGaussian(gaussian_sigma_squared(epsilon**2 / 2, tree.row_moves), tree.row_moves)


def counted(values: NDArray[np.int64], tree: ValueTree, missing: int = 0) -> NDArray[np.int64]:
    leaf = {place: each for each in range(tree.leaves) for place in range(tree.first(each), tree.last(each) + 1)}
    leaves = Counter(leaf[int(value)] for value in values)
    nodes = [
        sum(leaves[each] for each in range(node * size, min((node + 1) * size, tree.leaves)))
        for size, number in zip(tree.level_leaves, tree.level_nodes, strict=True)
        for node in range(number)
    ]
    return np.array([*nodes, missing][: tree.parts], dtype=np.int64)


def quantile_of(values: NDArray[np.int64], share: Decimal) -> int:
    return int(np.sort(values)[ceil(Fraction(share) * values.size) - 1])


def samples() -> dict[str, NDArray[np.int64]]:
    """Values of 0 to 400 of groups of many sizes and shapes: ties, zeros, both ends, a clip far too wide."""
    random = np.random.default_rng(5)
    heavy = np.where(random.random(3000) < 0.9, 0, random.integers(1, 401, 3000))
    return {
        "one": np.array([217]),
        "two at the ends": np.array([0, 400]),
        "thirty": random.integers(0, 401, 30),
        "ties": np.repeat([40, 45, 50], [200, 700, 100]),
        "zeros": heavy,
        "narrow": random.integers(3, 9, 500),
        "at the upper end": np.repeat([100, 400], [300, 900]),
        "half and half": np.repeat([10, 390], [500, 500]),
        "many": random.binomial(400, 0.4, 20_000),
    }


@pytest.mark.long
@pytest.mark.parametrize(("width", "steps"), [(400, 1), (400, 7), (399, 399), (1, 1), (2000, 7)])
def test_without_noise_the_estimate_is_in_the_leaf_of_the_quantile(width: int, steps: int):
    """And the interval is that leaf, or ends where as many rows lie below as the quantile asks for."""
    tree = tree_of(width, steps)
    for name, values in samples().items():
        clipped = np.minimum(values, width)
        found = estimate_quantiles(counted(clipped, tree), tree, SHARES, event=EXACT, confidence=0.95)
        for share, each in zip(SHARES, found, strict=True):
            true = quantile_of(clipped, share)
            assert each.lower <= true <= each.upper, (name, share)
            assert abs(each.values - true) < max(1, tree.leaf_steps), (name, share)


@pytest.mark.long
@pytest.mark.stat
@pytest.mark.parametrize(("kind", "epsilon"), list(product(("laplace", "gaussian"), (Fraction(1, 10), Fraction(1)))))
@pytest.mark.parametrize("steps", [1, 10])
def test_intervals_cover_quantiles_of_groups_of_every_size(kind: str, epsilon: Fraction, steps: int):
    """n = 2,000 releases of a group, 216 cases; false alarms below 1e-8. Estimates lie within their intervals."""
    tree = tree_of(400, steps)
    event = event_of(kind, epsilon, tree)
    for name, values in samples().items():
        noisy = counted(values, tree) + noise(event, DRAWS * tree.parts).reshape(DRAWS, tree.parts)
        for share, each in zip(
            SHARES, estimate_quantiles(noisy, tree, SHARES, event=event, confidence=0.95), strict=True
        ):
            true = quantile_of(values, share)
            covered = ((each.lower <= true) & (true <= each.upper)).mean()
            assert covered >= FLOOR, (name, share, covered)
            assert ((each.lower <= each.values) & (each.values <= each.upper)).all()
            assert (each.lower >= 0).all()
            assert (each.upper <= 400).all()


@pytest.mark.stat
@pytest.mark.parametrize("name", ["ties", "zeros"])
def test_intervals_of_three_levels_cover_the_median_and_are_narrow(name: str):
    """n = 2,000 releases, false alarms below 1e-10; the clip is five times too wide, and nine in ten are no wider."""
    tree = tree_of(2000, 1)
    assert tree.levels == 3
    event, values = event_of("laplace", Fraction(1), tree), samples()[name]
    noisy = counted(values, tree) + noise(event, DRAWS * tree.parts).reshape(DRAWS, tree.parts)
    (found,) = estimate_quantiles(noisy, tree, SHARES[1:2], event=event, confidence=0.95)
    true = quantile_of(values, SHARES[1])
    assert ((found.lower <= true) & (true <= found.upper)).mean() >= FLOOR
    assert (found.upper - found.lower <= 400).mean() > 0.9


def test_a_walk_goes_on_as_long_as_all_is_refuted():
    """Against a loop over random tests; what lies before the start does not stop it."""
    random = np.random.default_rng(9)
    refuted, start = random.random((500, 12)) < 0.7, random.integers(0, 40, 500)
    places = np.arange(3, 39, 3)
    walked = quantiles._walked(refuted, places, start)
    for row, first, found in zip(refuted, start, walked, strict=True):
        here = first
        for place, each in zip(places, row, strict=True):
            if place > first:
                if not each:
                    break
                here = place
        assert found == here


@pytest.mark.stat
def test_smaller_bounds_cover_too_seldom(monkeypatch: pytest.MonkeyPatch):
    """The wrong case: bounds of 40 % miss a fifth of releases with two leaves, where one test is all there is."""
    tree = tree_of(1, 1)
    event = event_of("laplace", Fraction(1, 10), tree)
    values = np.repeat([0, 1], [499, 501])
    noisy = counted(values, tree) + noise(event, DRAWS * 2).reshape(DRAWS, 2)

    def covered() -> float:
        (found,) = estimate_quantiles(noisy, tree, SHARES[1:2], event=event, confidence=0.95)
        return float((found.upper == 1).mean())

    assert covered() >= FLOOR
    right = rank_bounds(tree, SHARES[1], event, 0.95)
    monkeypatch.setattr(quantiles, "rank_bounds", lambda *given: tuple(0.4 * level for level in right))
    assert covered() < FLOOR


@pytest.mark.long
@pytest.mark.parametrize(("width", "steps"), [(1, 1), (30, 1), (400, 1), (2000, 1), (999, 10)])
@pytest.mark.parametrize("share", [*SHARES, Decimal("0.9")])
def test_ranks_are_true_without_noise_and_have_the_stated_nodes(width: int, steps: int, share: Decimal):
    """Each rank is linear in the nodes: single nodes give its weights, and rows its truth, by another route."""
    tree, p = tree_of(width, steps), float(share)
    weights, _ = quantiles._ranks(np.eye(tree.parts, dtype=np.int64), tree, share)
    numbers = quantiles._form(tree, share).numbers
    kinds = np.array([1 - p, p, 1.0])
    assert np.allclose((weights**2).sum(axis=0), numbers @ kinds**2)
    assert np.allclose(np.abs(weights).sum(axis=0), numbers @ kinds)
    sizes = np.abs(weights)
    assert (np.isclose(sizes[..., None], kinds).any(axis=-1) | (sizes < 1e-12)).all()
    rows = np.random.default_rng(3).integers(0, width + 1, 200)
    ranks, _ = quantiles._ranks(counted(rows, tree)[None], tree, share)
    below = np.array([(rows < tree.first(leaf)).sum() for leaf in range(1, tree.leaves)])
    assert np.allclose(ranks[0], below - p * rows.size)


def test_ranks_have_less_noise_than_those_of_the_fewest_nodes():
    """At p = 0.1 by a fifth of the variance on average over boundaries, by a third among the first; never more."""
    tree, p = tree_of(1000, 1), 0.1
    at = quantiles._boundaries(tree)
    fewest = ((1 - p) ** 2 * (at.split - at.first) + p**2 * (at.last - at.rest)).sum(axis=0)
    ours = quantiles._form(tree, Decimal("0.1")).numbers @ np.array([(1 - p) ** 2, p**2, 1.0])
    assert ours.sum() < 0.82 * fewest.sum()
    assert ours[:200].sum() < 0.7 * fewest[:200].sum()
    assert (ours <= fewest + 1.0).all()


@pytest.mark.stat
@pytest.mark.parametrize("missing", [False, True])
def test_counts_of_a_tree_are_those_of_all_rows(missing: bool):
    """n = 2,000 releases; false alarms below 1e-10. Missing values count; the mean is within 8 standard errors."""
    tree = tree_of(400, 1, missing=missing)
    event = event_of("laplace", Fraction(1, 2), tree)
    values, gone = samples()["thirty"], 12 if missing else 0
    noisy = counted(values, tree, gone) + noise(event, DRAWS * tree.parts).reshape(DRAWS, tree.parts)
    found = tree_counts(noisy, tree, event=event, confidence=0.95)
    rows = values.size + gone
    assert ((found.lower <= rows) & (rows <= found.upper)).mean() >= FLOOR
    deviation = (variance(event) * (tree.level_nodes[0] + missing) / DRAWS) ** 0.5
    assert abs(found.values.mean() - rows) < 8 * deviation
    margin = tree_count_error(tree, event=event, confidence=0.95)
    assert np.abs(found.upper - np.maximum(found.values, 0.0) - margin).max() < 1e-9


def test_cells_are_estimated_each_by_itself_whatever_the_chunk(monkeypatch: pytest.MonkeyPatch):
    tree = tree_of(400, 10, missing=True)
    event = event_of("laplace", Fraction(1), tree)
    exact = np.stack([counted(values, tree, 5) for values in samples().values()])
    noisy = (exact + noise(event, exact.size).reshape(exact.shape)).reshape(3, 3, -1)
    whole = estimate_quantiles(noisy, tree, SHARES, event=event, confidence=0.95)
    monkeypatch.setattr(quantiles, "_CHUNK", 1)
    single = estimate_quantiles(noisy, tree, SHARES, event=event, confidence=0.95)
    alone = estimate_quantiles(noisy[1, 2], tree, SHARES, event=event, confidence=0.95)
    for one, other, last in zip(whole, single, alone, strict=True):
        for name in ("values", "lower", "upper"):
            assert getattr(one, name).shape == (3, 3)
            assert (getattr(one, name) == getattr(other, name)).all()
            assert getattr(one, name)[1, 2] == getattr(last, name)


def test_an_empty_cell_has_the_whole_clip_for_an_interval_nearly_always():
    """n = 1,000 releases; in more than half: a floor that chance alone does not miss (P < 1e-100 at 75 %)."""
    tree = tree_of(400, 1)
    event = event_of("laplace", Fraction(1), tree)
    noisy = noise(event, 1000 * tree.parts).reshape(1000, tree.parts)
    (found,) = estimate_quantiles(noisy, tree, [Decimal("0.5")], event=event, confidence=0.95)
    assert (found.upper - found.lower > 300).mean() > 0.5


def test_values_are_the_doubles_nearest_to_the_lattice():
    """Steps of 0.1 from -0.3: no 0.30000000000000004 is published."""
    lattice = ValueLattice("share", Decimal("-0.3"), Decimal("0.6"), Decimal("0.1"), False)
    tree = ValueTree(lattice, Decimal("0.1"))
    for place, value in enumerate((-0.3, -0.2, -0.1, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)):
        exact = counted(np.full(50, place), tree)
        (found,) = estimate_quantiles(exact, tree, [Decimal("0.5")], event=EXACT, confidence=0.95)
        assert (float(found.values), float(found.lower), float(found.upper)) == (value, value, value)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"values": np.zeros(3, dtype=np.int64)}, "numbers a cell"),
        ({"values": np.zeros(10)}, "numbers a cell"),
        ({"shares": [Decimal(0)]}, "lie in"),
        ({"shares": [Decimal(1)]}, "lie in"),
        ({"confidence": 1.0}, "lie in"),
    ],
)
def test_what_is_no_tree_no_quantile_or_no_confidence_is_refused(changed: dict[str, Any], says: str):
    tree = tree_of(400, 1)
    given: dict[str, Any] = {"values": counted(np.array([3]), tree), "shares": SHARES, "confidence": 0.95, **changed}
    with pytest.raises(ValueError, match=says):
        estimate_quantiles(given["values"], tree, given["shares"], event=EXACT, confidence=given["confidence"])


Rows = NDArray[np.int64]


def lattice(width: int, low: int = 0) -> ValueLattice:
    return ValueLattice("x", Decimal(low), Decimal(low + width), Decimal(1), counts_missing=False)


def choices(width: int, *shares: str, low: int = 0) -> QuantileChoices:
    return QuantileChoices(lattice(width, low), tuple(map(Decimal, shares)))


def distance(rows: Rows, share: Fraction, offset: int, ends: tuple[int | None, int | None]) -> Fraction:
    below, upper, rank = int(rows[:offset].sum()), int(rows[: offset + 1].sum()), share * int(rows.sum())
    found = Fraction(0)
    if offset != ends[0]:
        found = max(found, below - rank)
    if offset != ends[1]:
        found = max(found, rank - upper)
    return found


def weight(own: QuantileChoices, offset: int) -> int:
    return sum(scale for scale in own.scales if (offset + own.origin) % scale == 0)


def logs(own: QuantileChoices, rows: Rows, base: Fraction) -> dict[tuple[int, ...], float]:
    found, width = {}, own.lattice.width
    for output in product(range(width + 1), repeat=own.parts):
        known: dict[int | None, int | None] = {None: None}
        total = 0.0
        for place, below, above in own.order:
            ends, share = (known[below], known[above]), Fraction(own.shares[place])
            low, high = ends[0] or 0, width if ends[1] is None else ends[1]
            if not low <= output[place] <= high:
                break
            rate = base * own.rate_share(place)
            gaps = {each: float(rate * distance(rows, share, each, ends)) for each in range(low, high + 1)}
            terms = [log(weight(own, each)) - gap for each, gap in gaps.items()]
            here = output[place]
            total += log(weight(own, here)) - gaps[here] - float(np.logaddexp.reduce(terms))
            known[place] = here
        else:
            found[output] = total
    return found


@pytest.mark.parametrize("seed", range(8))
def test_runs_have_the_distances_and_weights_of_their_candidates(seed: int):
    """Every candidate is in one run; negative lower ends, and ends that other quantiles have chosen."""
    random = np.random.default_rng(seed)
    own = choices(130, "0.25", low=int(random.integers(-50, 50)))
    rows = random.integers(0, 4, 131) * (random.random(131) < 0.2)
    ends = [(None, None), (0, 40), (17, None), (None, 0), (130, 130)][seed % 5]
    offsets = np.flatnonzero(rows)
    runs = quantile_runs(own, 0, offsets, rows[offsets], ends)
    covered = [each for first, last in zip(runs.first, runs.last, strict=True) for each in range(first, last + 1)]
    assert covered == list(range(ends[0] or 0, (130 if ends[1] is None else ends[1]) + 1))
    for first, last, found, heavy in zip(runs.first, runs.last, runs.distances, runs.weights, strict=True):
        inside = range(first, last + 1)
        assert {distance(rows, Fraction(1, 4), each, ends) for each in inside} == {Fraction(int(found), runs.unit)}
        drawn = [candidate(own, int(first), int(last), number) for number in range(heavy)]
        assert {each: drawn.count(each) for each in inside} == {each: weight(own, each) for each in inside}


@pytest.mark.parametrize(
    ("shares", "factor"),
    [(("0.5",), 1), (("0.1",), 1), (("0.1", "0.5", "0.9"), Fraction(19, 9)), (("0.3", "0.4"), None)],
)
def test_no_row_loses_more_than_the_loss_factor(shares: tuple[str, ...], factor: Fraction | None):
    """All outputs of all neighbours of random small cells, and of two that come near the bound."""
    own = choices(4, *shares)
    assert factor is None or own.loss_factor == factor
    assert 1 <= own.loss_factor <= own.parts
    base, random = 1 / own.loss_factor, np.random.default_rng(5)
    cells = [random.integers(0, size, 5) * (random.random(5) < 0.6) for size in (1, 2, 4, 9, 30, 60)]
    cells += [np.array([0, 0, 30, 0, 0]), np.array([40, 0, 2, 0, 40])]
    worst = 0.0
    for rows in cells:
        without = logs(own, rows, base)
        for place in range(5):
            more = rows.copy()
            more[place] += 1
            canary = logs(own, more, base)
            worst = max(worst, *(abs(canary[each] - without[each]) for each in without))
    assert 0.3 < worst <= 1 + 1e-9


def test_a_rate_without_its_factor_is_found_out():
    """Twice the rate loses more than is claimed, where few candidates lie below the rows and many above."""
    own = choices(60, "0.5")
    rows = np.zeros(61, dtype=np.int64)
    rows[3], more = 6, rows.copy()
    more[3], more[0] = 6, 1
    pairs = [(logs(own, rows, base), logs(own, more, base)) for base in (Fraction(1), Fraction(2))]
    losses = [max(abs(canary[each] - without[each]) for each in without) for without, canary in pairs]
    assert losses[0] <= 1 < losses[1]
