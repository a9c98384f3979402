"""The sparse path has the law of the dense one: noise on every cell of the domain, and what is at or above tau kept.

The table that is judged repeats a block of five cells: three empty ones, one that is listed with a count of 0, and
a populated one. Its blocks are then independent, and each of its statistics has a known law:
* in each place of the block, the noisy value, or "below tau" (chi-square, 5 decisions);
* which cells of a block are kept together, 32 patterns (chi-square);
* where in the domain the kept empty cells are (Kolmogorov-Smirnov).
`judge` returns the smallest of the seven p-values and is compared with 1e-9: false-alarm rate 7e-9 a call. Fifteen
calls must pass, so that the module's rate is about 1.1e-7; the wrong cases must not.
"""

import copy
import pickle
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chi2, kstest

from privacy.noise import sparse_laplace as module
from privacy.noise.binary_expansion import Bracket
from privacy.noise.discrete_laplace import discrete_laplace, geometric
from privacy.noise.limits import NoiseRefused
from privacy.noise.random_bytes import SecureBytes, SeededBytes
from privacy.noise.sparse_laplace import MOST_CELLS, CellsAndValues, SparseLaplace, successes
from tests.privacy.noise.noise_statistics import FALSE_ALARM, laplace_cdf

BLOCKS = 200_000
BLOCK = 5
CELLS = BLOCKS * BLOCK
NOISE = [(Fraction(1, 10), 1), (Fraction(1, 10), 25), (Fraction(1), 3), (Fraction(3), 1), (Fraction(1, 1000), 3000)]
Path = Callable[[Fraction, int, int], CellsAndValues]


def block(t: Fraction, tau: int) -> NDArray[np.int64]:
    """Counts of a block; the populated cell lies within about two scales of tau and one of 0 at least."""
    return np.array([0, 0, 0, 0, max(1, int(1 / t), tau - int(1 / t))])


def populated(t: Fraction, tau: int) -> CellsAndValues:
    places = np.array([1, 4])
    codes = (BLOCK * np.arange(BLOCKS)[:, None] + places).ravel()
    return codes, np.tile(block(t, tau)[places], BLOCKS)


def table(t: Fraction, tau: int, *, seed: int, at: int | None = None) -> SparseLaplace:
    codes, counts = populated(t, tau)
    source = SeededBytes(seed)
    return SparseLaplace(codes, counts, cells=CELLS, inverse_scale=t, threshold=at or tau, source=source)


def dense(t: Fraction, tau: int, seed: int) -> CellsAndValues:
    noisy = discrete_laplace(CELLS, inverse_scale=t, source=SeededBytes(seed)) + np.tile(block(t, tau), BLOCKS)
    kept = np.flatnonzero(noisy >= tau)
    return kept, noisy[kept]


def at_once(t: Fraction, tau: int, seed: int) -> CellsAndValues:
    return table(t, tau, seed=seed).drawn()


def steps(t: Fraction, tau: int) -> tuple[int, int]:
    return tau + 1 + int(2 / t), tau + max(1, int(1 / t))


def in_three_steps(t: Fraction, tau: int, seed: int) -> CellsAndValues:
    top, middle = steps(t, tau)
    drawn = table(t, tau, seed=seed, at=top)
    drawn.lower(middle)
    return drawn.lower(tau)


def judge(drawn: CellsAndValues, t: Fraction, tau: int) -> float:
    """The smallest p-value of the seven statistics; 0 where a code comes twice or lies outside."""
    codes, values = drawn
    if np.any(np.diff(codes) <= 0) or codes[0] < 0 or codes[-1] >= CELLS or values.min() < tau:
        return 0.0
    counts, cdf = block(t, tau), laplace_cdf(float(t))
    kept_share = 1 - cdf((tau - 1 - counts).astype(np.float64))
    p_values = [kstest(codes[counts[codes % BLOCK] == 0] / CELLS, "uniform").pvalue]
    for place in range(BLOCK):
        here = values[codes % BLOCK == place]
        edges = np.unique(np.concatenate([tau + np.arange(4), tau + (np.arange(12) / float(t)).astype(np.int64)]))
        above = 1 - cdf((edges - 1 - counts[place]).astype(np.float64))
        observed = np.bincount(np.searchsorted(edges, here, side="right") - 1, minlength=edges.size)
        expected = np.diff(np.append(-above, 0.0))
        p_values.append(pearson(np.append(BLOCKS - here.size, observed), np.append(1 - above[0], expected)))
    hit = np.zeros(CELLS, np.int64)
    hit[codes] = 1
    patterns = np.bincount(hit.reshape(-1, BLOCK) @ (1 << np.arange(BLOCK)), minlength=1 << BLOCK)
    bits = np.arange(1 << BLOCK)[:, None] >> np.arange(BLOCK) & 1
    p_values.append(pearson(patterns, np.prod(np.where(bits, kept_share, 1 - kept_share), axis=1)))
    return float(min(p_values))


def pearson(observed: NDArray[np.int64], share: NDArray[np.float64]) -> float:
    """Chi-square, with those of which fewer than 50 are expected in one."""
    expected = share * observed.sum()
    few = expected < 50
    if few.any():
        observed, expected = (np.append(part[~few], part[few].sum()) for part in (observed, expected))
    judged = expected > 0.5
    return float(chi2.sf(((observed - expected)[judged] ** 2 / expected[judged]).sum(), judged.sum() - 1))


@pytest.mark.stat
@pytest.mark.parametrize(("t", "tau"), NOISE)
@pytest.mark.parametrize("path", [dense, at_once, in_three_steps])
def test_every_path_has_the_law_of_noise_on_every_cell(path: Path, t: Fraction, tau: int):
    """`judge`: 200,000 blocks of 5 cells, false-alarm rate 7e-9 each (5 scales, 3 paths)."""
    assert judge(path(t, tau, 1), t, tau) > FALSE_ALARM


@pytest.mark.stat
@pytest.mark.parametrize(("t", "tau"), NOISE)
@pytest.mark.parametrize("factor", ["0.9", "1.1"])
def test_a_probability_that_is_ten_per_cent_off_is_caught(
    monkeypatch: pytest.MonkeyPatch, t: Fraction, tau: int, factor: str
):
    """The wrong case: empty cells are kept with 0.9 or 1.1 times the probability."""
    right = module.layer_probability

    def wrong(inverse_scale: Fraction, threshold: int, above: int | None) -> Bracket:
        bounds = right(inverse_scale, threshold, above)
        return lambda digits: tuple(bound * Decimal(factor) for bound in bounds(digits))

    monkeypatch.setattr(module, "layer_probability", wrong)
    assert judge(at_once(t, tau, 2), t, tau) < FALSE_ALARM


@pytest.mark.stat
@pytest.mark.parametrize(("t", "tau"), NOISE)
def test_hits_that_go_together_are_caught(monkeypatch: pytest.MonkeyPatch, t: Fraction, tau: int):
    """The wrong case: half as many trials, each deciding for two neighbours; each cell alone is right."""
    right = successes

    def paired(trials: int, **rest: object) -> NDArray[np.int64]:
        ranks = right(trials // 2, **rest)  # type: ignore[arg-type]
        return np.stack([2 * ranks, 2 * ranks + 1], axis=1).ravel()

    monkeypatch.setattr(module, "successes", paired)
    assert judge(at_once(t, tau, 3), t, tau) < FALSE_ALARM


@pytest.mark.stat
@pytest.mark.parametrize(("t", "tau"), NOISE)
def test_places_that_are_not_uniform_are_caught(monkeypatch: pytest.MonkeyPatch, t: Fraction, tau: int):
    """The wrong case: every tenth hit of the upper half moves into the lower half."""
    right = successes

    def uneven(trials: int, **rest: object) -> NDArray[np.int64]:
        ranks = right(trials, **rest)  # type: ignore[arg-type]
        moved = (ranks >= trials // 2) & (np.arange(ranks.size) % 10 == 0)
        return np.unique(np.where(moved, ranks - trials // 2, ranks))

    monkeypatch.setattr(module, "successes", uneven)
    assert judge(at_once(t, tau, 4), t, tau) < FALSE_ALARM


@pytest.mark.stat
@pytest.mark.parametrize(("t", "tau"), NOISE)
def test_populated_cells_that_are_left_out_are_caught(t: Fraction, tau: int):
    """The wrong case: one populated cell in ten is taken for an empty one, or gets no draw at all."""
    codes, counts = populated(t, tau)
    left = np.ones(codes.size, np.bool_)
    left[1::20] = False
    given: dict[str, Any] = {"cells": CELLS, "inverse_scale": t, "threshold": tau, "source": SeededBytes(5)}
    assert judge(SparseLaplace(codes[left], counts[left], **given).drawn(), t, tau) < FALSE_ALARM
    drawn = at_once(t, tau, 5)
    kept = ~np.isin(drawn[0], codes[1::20])
    assert judge((drawn[0][kept], drawn[1][kept]), t, tau) < FALSE_ALARM


@pytest.mark.stat
@pytest.mark.parametrize(("t", "tau"), NOISE)
def test_codes_that_do_not_skip_the_populated_ones_are_caught(monkeypatch: pytest.MonkeyPatch, t: Fraction, tau: int):
    """The wrong case: ranks among the empty cells taken for codes."""
    monkeypatch.setattr(module, "_skip", lambda ranks, known: ranks)
    assert judge(at_once(t, tau, 6), t, tau) < FALSE_ALARM


@pytest.mark.stat
@pytest.mark.parametrize(("t", "tau"), NOISE)
def test_lowering_as_if_nothing_were_known_is_caught(monkeypatch: pytest.MonkeyPatch, t: Fraction, tau: int):
    """The wrong cases: the layer with P(X >= s) in place of P(X >= s | X < tau); values that are not cut off."""
    right = module.layer_probability
    with monkeypatch.context() as patched:
        patched.setattr(module, "layer_probability", lambda scale, threshold, above: right(scale, threshold, None))
        assert judge(in_three_steps(t, tau, 7), t, tau) < FALSE_ALARM
    whole = geometric
    with monkeypatch.context() as patched:
        patched.setattr(module, "geometric", lambda size, below=None, **rest: whole(size, **rest))
        assert judge(in_three_steps(t, tau, 7), t, tau) < FALSE_ALARM


def test_lowering_changes_nothing_that_was_seen():
    first = table(*NOISE[1], seed=9, at=60)
    seen = tuple(array.copy() for array in first.drawn())
    for lower in (60, 59, 40, 25, 1):
        codes, values = first.lower(lower)
        assert first.threshold == lower
        assert values.min() == lower
        before = values >= 60
        assert np.array_equal(codes[before], seen[0])
        assert np.array_equal(values[before], seen[1])


@settings(max_examples=200, deadline=None, derandomize=True)
@given(known=st.sets(st.integers(0, 40)), cells=st.integers(41, 60), chosen=st.sets(st.integers(0, 60)))
def test_a_rank_is_turned_into_the_code_of_that_free_cell(known: set[int], cells: int, chosen: set[int]):
    """Against a list of the free cells, whichever of the two lists is longer."""
    free = np.array([code for code in range(cells) if code not in known], np.int64)
    ranks = np.array(sorted(rank for rank in chosen if rank < free.size), np.int64)
    assert np.array_equal(module._skip(ranks.copy(), np.array(sorted(known), np.int64)), free[ranks])


@settings(max_examples=100, deadline=None, derandomize=True)
@given(codes=st.sets(st.integers(0, 50)), left=st.integers(0, 50))
def test_merging_keeps_every_cell_with_its_value(codes: set[int], left: int):
    whole = np.array(sorted(codes), np.int64)
    mine = whole % 7 < left % 8
    merged = module._merge((whole[mine], whole[mine] * 3), (whole[~mine], whole[~mine] * 3))
    assert np.array_equal(merged[0], whole)
    assert np.array_equal(merged[1], whole * 3)


def draw(
    codes: list[int], counts: list[int], *, cells: int = 10, t: Fraction = Fraction(1), tau: int = 1
) -> CellsAndValues:
    given: dict[str, Any] = {"cells": cells, "inverse_scale": t, "threshold": tau, "source": SecureBytes()}
    return SparseLaplace(np.array(codes, np.int64), np.array(counts, np.int64), **given).drawn()


def test_the_ends_of_every_range_are_drawn():
    """Without noise to speak of (t = 2^20): what is populated and reaches tau, exactly; anywhere in the domain."""
    t, last = Fraction(2**20), MOST_CELLS - 1
    codes, values = draw([0, 5, last], [3, 1, 2**62 - 1], cells=MOST_CELLS, t=t, tau=2)
    assert codes.tolist() == [0, last]
    assert values.tolist() == [3, 2**62 - 1]
    assert draw([], [], cells=1, t=t)[0].size == 0
    assert draw([0], [7], cells=1, t=t)[1].tolist() == [7]
    assert draw([0], [7], cells=1, t=t, tau=2**62 - 1)[0].size == 0
    assert draw([], [], cells=MOST_CELLS, t=Fraction(1, 2**50), tau=2**62 - 1)[0].size == 0
    codes, values = draw([], [], cells=MOST_CELLS, tau=34)
    assert 10_000 < codes.size < 17_000  # 9.22e18 e^-34 / (1 + 1/e) = 11,560 and 5,000 more than that never
    assert codes.dtype == values.dtype == np.int64


def test_a_domain_without_an_empty_cell_is_the_dense_path():
    codes, values = draw(list(range(1000)), [100] * 1000, cells=1000)
    assert codes.size == 1000
    assert abs(values.mean() - 100) < 1


def test_the_table_shows_nothing_and_is_not_copied():
    """Only the public parameters are shown; what lies below the threshold does not leave the process."""
    drawn = SparseLaplace(
        np.array([3]), np.array([77]), cells=10**12, inverse_scale=Fraction(1), threshold=500, source=SecureBytes()
    )
    assert repr(drawn) == "SparseLaplace(cells=1000000000000, threshold=500)"
    assert not hasattr(drawn, "__dict__")
    for copying in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="private"):
            copying(drawn)
    codes, values = drawn.drawn()
    assert codes.size == 0
    assert not codes.flags.writeable
    assert not values.flags.writeable


@pytest.mark.parametrize(
    ("codes", "counts", "given", "argument"),
    [
        ([2, 1], [1, 1], {}, "codes"),
        ([1, 1], [1, 1], {}, "codes"),
        ([-1, 1], [1, 1], {}, "codes"),
        ([1, 10], [1, 1], {}, "codes"),
        ([1, 2], [1], {}, "counts"),
        ([1, 2], [1, -1], {}, "counts"),
        ([1, 2], [1, 2**62], {}, "counts"),
        ([1], [1], {"tau": 0}, "threshold"),
        ([1], [1], {"tau": -3}, "threshold"),
        ([1], [1], {"tau": 2**62}, "threshold"),
        ([1], [1], {"tau": 1.5}, "threshold"),
        ([1], [1], {"cells": 0}, "cells"),
        ([1], [1], {"cells": 2**63}, "cells"),
        ([1], [1], {"t": Fraction(0)}, "inverse_scale"),
        ([1], [1], {"t": 0.5}, "inverse_scale"),
    ],
)
def test_bad_input_is_refused_by_name(codes: list[int], counts: list[int], given: dict[str, object], argument: str):
    with pytest.raises(NoiseRefused) as refused:
        draw(codes, counts, **given)  # type: ignore[arg-type]
    assert refused.value.argument == argument
    assert isinstance(refused.value, ValueError)


def test_arrays_of_another_kind_are_refused():
    given: dict[str, Any] = {"cells": 10, "inverse_scale": Fraction(1), "threshold": 1, "source": SecureBytes()}
    for codes in (np.array([1.0]), np.array([1], np.int32), np.array([[1]])):
        with pytest.raises(NoiseRefused, match="codes"):
            SparseLaplace(codes, np.array([1]), **given)


def test_lowering_out_of_its_range_is_refused():
    drawn = table(*NOISE[1], seed=11)
    with pytest.raises(NoiseRefused, match="at most 25, the present one"):
        drawn.lower(26)
    with pytest.raises(NoiseRefused, match="threshold"):
        drawn.lower(0)
