"""How close made-up rows come: α-way errors, mutual information, and the type that keeps the scores in."""

import math
import pickle
from itertools import combinations, product

import numpy as np
import pytest

from privacy.evaluation.cells import EncodedRows
from privacy.evaluation.rows import (
    MOST_CLIQUES,
    PrivateScores,
    _cliques,
    alpha_way_error,
    bootstrap,
    compare,
    counts_error,
    independent,
    majority,
    mutual_information,
    mutual_information_error,
    workload_error,
    yardstick,
)

SHAPE = (3, 2, 5, 4)
COLUMNS = ("a", "b", "c", "d")


def rows(number: int, seed: int, shape: tuple[int, ...] = SHAPE) -> EncodedRows:
    random = np.random.default_rng(seed)
    codes = np.stack([random.integers(0, size, number) for size in shape], axis=1)
    return EncodedRows(COLUMNS[: len(shape)], shape, codes)


def by_hand(real: EncodedRows, made: EncodedRows, clique: tuple[int, ...]) -> float:
    distance = 0
    for cell in product(*(range(real.shape[place]) for place in clique)):
        ours, theirs = ((table.codes[:, clique] == cell).all(axis=1).sum() for table in (real, made))
        distance += abs(int(ours) - int(theirs))
    return distance / len(real.codes)


@pytest.mark.parametrize("alpha", [1, 2, 3, 4])
@pytest.mark.parametrize("size", [40, 25, 400])
def test_the_error_is_the_mean_distance_of_raw_counts_over_the_real_rows(alpha: int, size: int):
    """Also for another number of rows, and for marginals with more cells than rows."""
    real, made = rows(40, 1), rows(size, 2)
    found = alpha_way_error(real, made, alpha=alpha)
    expected = [by_hand(real, made, clique) for clique in combinations(range(4), alpha)]
    assert found.cliques == tuple(combinations(range(4), alpha))
    assert found.distances == pytest.approx(expected, abs=1e-15)
    assert found.mean == pytest.approx(np.mean(expected))


def test_the_same_rows_in_another_order_have_no_error_and_disjoint_ones_have_two():
    real = rows(50, 3)
    assert alpha_way_error(real, EncodedRows(COLUMNS, SHAPE, real.codes[::-1]), alpha=4).mean == 0
    left, right = (EncodedRows(("a",), (2,), np.full((7, 1), code)) for code in (0, 1))
    assert alpha_way_error(left, right, alpha=1).mean == 2


def test_a_wide_marginal_of_few_rows_is_not_laid_out():
    """2^60 cells: only the populated ones are compared."""
    codes = np.array([[0, 5, 1], [1, 5, 2**20 - 1]])
    real, made = (EncodedRows(COLUMNS[:3], (2**20,) * 3, some) for some in (codes, codes[:1]))
    assert workload_error(real, made, [(0, 1, 2)]).distances == (0.5,)
    with pytest.raises(ValueError, match="cannot be numbered"):
        EncodedRows(COLUMNS, (2**20,) * 4, np.zeros((1, 4), int)).numbers(range(4))


def test_the_error_of_marginals_out_of_a_model():
    real = [np.array([3, 1]), np.array([[2, 0], [1, 1]])]
    assert counts_error(real, [np.array([2.0, 2.0]), np.array([[2.0, 0.5], [1.0, 0.5]])]) == (2 / 4 + 1 / 4) / 2


def test_mutual_information_of_independent_and_of_equal_columns():
    """Zero, and the entropy: log 2 for a fair coin; three columns, of which the last says the first."""
    codes = np.array([[a, b, a] for a in (0, 1) for b in (0, 1, 2)] * 5)
    found = mutual_information(EncodedRows(("a", "b", "c"), (2, 3, 2), codes))
    np.testing.assert_allclose(found[0], [math.log(2), 0, math.log(2)], atol=1e-12)
    np.testing.assert_allclose(found[1, 1], math.log(3), atol=1e-12)
    np.testing.assert_array_equal(found, found.T)


def test_mutual_information_by_its_definition():
    table = rows(300, 5)
    found = mutual_information(table)
    for left, right in combinations(range(4), 2):
        joint = np.zeros((SHAPE[left], SHAPE[right]))
        np.add.at(joint, (table.codes[:, left], table.codes[:, right]), 1 / 300)
        apart = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
        expected = float((joint[joint > 0] * np.log(joint[joint > 0] / apart[joint > 0])).sum())
        assert found[left, right] == pytest.approx(expected, abs=1e-12)


def test_the_mutual_information_error_is_the_mean_over_pairs():
    codes = np.array([[a, a, b] for a in (0, 1) for b in (0, 1)] * 9)
    shuffled = np.array([[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0, 1)])
    real, made = (EncodedRows(("a", "b", "c"), (2, 2, 2), some) for some in (codes, shuffled))
    assert mutual_information_error(real, made) == pytest.approx(math.log(2) / 3)
    assert mutual_information_error(real, real) == 0


def test_tables_that_cannot_be_compared_are_refused():
    real = rows(5, 1)
    with pytest.raises(ValueError, match="same columns"):
        alpha_way_error(real, rows(5, 1, SHAPE[:3]), alpha=1)
    with pytest.raises(ValueError, match="at least one real row"):
        alpha_way_error(rows(0, 1), real, alpha=1)
    with pytest.raises(ValueError, match="between 1 and 4"):
        alpha_way_error(real, real, alpha=5)
    with pytest.raises(ValueError, match="inside their columns' cells"):
        EncodedRows(("a",), (2,), np.array([[2]]))
    with pytest.raises(ValueError, match="at least two columns"):
        mutual_information_error(rows(5, 1, (3,)), rows(5, 2, (3,)))


def test_private_scores_show_nothing_and_refuse_pickling():
    """Neither a log line nor a result store gets a number."""
    scores = compare(rows(50, 1), rows(50, 2), accuracies={"decision tree": 0.8125})
    assert type(scores) is PrivateScores
    assert repr(scores) == str(scores) == "PrivateScores(for the auditor alone)"
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(scores)
    assert repr(rows(50, 1)) == "Rows(a×b×c×d)"


def test_scores_as_json_name_every_marginal_and_pair():
    found = compare(rows(50, 1), rows(60, 2), accuracies={"xgboost": 0.5}).scores
    scores = found.to_json()
    assert scores["columns"] == list(COLUMNS)
    assert [len(scores["alpha_way_error"][alpha]["by_marginal"]) for alpha in "123"] == [4, 6, 4]
    assert scores["alpha_way_error"]["2"]["by_marginal"][1]["columns"] == ["a", "c"]
    assert scores["accuracy"] == {"xgboost": 0.5}
    pairs = scores["mutual_information_error_by_pair"]
    assert [pair["columns"] for pair in pairs][:2] == [["a", "b"], ["a", "c"]]
    assert scores["mutual_information_error"] == pytest.approx(
        mutual_information_error(rows(50, 1), rows(60, 2)), rel=1e-12
    )
    narrow = compare(rows(5, 1, (3,)), rows(5, 2, (3,))).scores
    assert list(narrow.errors) == [1]
    assert narrow.mutual_information_error is None


def test_orders_of_too_many_marginals_are_left_out():
    """50 columns have 19,600 marginals of three, 51 have 20,825."""
    names = tuple(f"c{place}" for place in range(51))
    wide = EncodedRows(names, (2,) * 51, np.ones((2, 51), dtype=np.int64))
    assert list(compare(wide, wide, degrees=(1, 3)).scores.errors) == [1]


def linked(number: int, seed: int) -> EncodedRows:
    found = rows(number, seed, (3, 3, 5, 4))
    found.codes[:, 1] = found.codes[:, 0]
    return found


def test_a_bootstrap_lies_near_the_rows_and_independent_columns_do_not():
    """Every row of a bootstrap is a real one; shuffled columns keep single counts and lose what joins them."""
    real, random = linked(2000, 1), np.random.default_rng(0)
    drawn, shuffled = bootstrap(real, random), independent(real, random)
    assert {tuple(row) for row in drawn.codes} <= {tuple(row) for row in real.codes}
    near = yardstick(real, drawn, degrees=(1, 2, 5), random=random)
    far = yardstick(real, shuffled, degrees=(1, 2, 5), random=random)
    assert far.errors[1] == 0
    assert set(near.errors) == {1, 2}
    assert near.errors[2] < 0.1 < far.errors[2]
    assert near.mutual_information is not None
    assert far.mutual_information is not None
    assert far.mutual_information > 20 * near.mutual_information
    assert near.association is not None
    assert far.association is not None
    assert far.association > 5 * near.association


def test_the_bootstraps_error_is_that_of_sampling():
    """A second derivation: the mean distance of a binomial count is about sqrt(2 n p (1 - p) / pi). n = 80 bootstraps
    of 2,000 rows, 16 counts each: the mean has a relative deviation of about 2.1 %, so that 10 % is missed in 3 of a
    million seeds; the seed is fixed. A bootstrap of half the rows is found out."""
    real = rows(2000, 3, (8, 8))
    counts = [np.bincount(real.codes[:, place], minlength=8) for place in range(2)]
    expected = np.mean([np.sqrt(2 * c * (1 - c / 2000) / np.pi).sum() / 2000 for c in counts])
    random = np.random.default_rng(5)
    errors = [yardstick(real, bootstrap(real, random), degrees=(1,), random=random).errors[1] for _ in range(80)]
    assert np.mean(errors) == pytest.approx(expected, rel=0.1)
    few = EncodedRows(real.columns, real.shape, real.codes[:1000])
    wrong = [
        yardstick(real, bootstrap(few, random), degrees=(1,), random=random, shares=True).errors[1] for _ in range(80)
    ]
    assert np.mean(wrong) != pytest.approx(expected, rel=0.1)


def test_the_majority_class_and_very_many_marginals():
    """The most frequent cell's share; of 1,225 pairs a yardstick takes 300."""
    assert majority(EncodedRows(("a",), (3,), np.array([[2], [2], [0], [2]])), "a") == 0.75
    wide = EncodedRows(tuple(f"c{place}" for place in range(50)), (2,) * 50, np.zeros((5, 50), dtype=np.int64))
    assert len(_cliques(50, 2, np.random.default_rng(0))) == MOST_CLIQUES
    assert yardstick(wide, wide, degrees=(2,), random=np.random.default_rng(0)).errors == {2: 0}
