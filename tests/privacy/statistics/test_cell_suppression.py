"""Suppressed cells of statistics: thresholds keep to their probability, and nothing of a suppressed cell is left."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from contracts.domains.addends import Addends, LoneSum, WeightedCount, moments_of
from contracts.domains.lattice import ValueLattice
from contracts.domains.trees import ValueTree
from contracts.release.tables.tables import MinimumFrequency
from privacy.accounting.events import CountNoise, DiscreteGaussian, DiscreteLaplace
from privacy.marginals.suppression import threshold_for
from privacy.statistics.cell_suppression import (
    cell_threshold,
    counts_rows,
    draw_threshold,
    rule_of_table,
    suppressed_cells,
)

AGE = ValueLattice("age", Decimal(20), Decimal(90), Decimal(7), False)
PAY = ValueLattice("pay", Decimal(0), Decimal(4), Decimal(1), False)
WEIGHT = ValueLattice("w", Decimal(0), Decimal(9), Decimal(1), False)
RULE = MinimumFrequency.model_validate({"k": 12, "t": "auto", "at_most": "0.05"})
N = 40_000
ADDENDS: dict[str, Addends] = {"sums": AGE, "moments": moments_of(AGE, 1)}
TABLE: dict[str, Addends] = {
    "sums": AGE,
    "moments": moments_of(PAY, 1),
    "more sums": PAY,
    "shares": ValueLattice("share", Decimal(0), Decimal(1), Decimal(1), False),
}
"""What the four draws of one table add up."""


def event_of(addends: Addends, family: str, times: Fraction = Fraction(1)) -> CountNoise:
    move = max(addends.row_moves)
    if family == "laplace":
        return DiscreteLaplace(Fraction(1, 2 * move) / times, (move,))
    return DiscreteGaussian((2 * move * times) ** 2, (move,))


def numbers_of(addends: Addends, rows: int) -> NDArray[np.int64]:
    cell = np.zeros(addends.parts, dtype=np.int64)
    cell[0] = rows * addends.whole  # type: ignore[union-attr]
    return cell


def noise_of(noise: CountNoise, parts: int, random: np.random.Generator) -> NDArray[np.int64]:
    shape = N, parts
    if isinstance(noise, DiscreteLaplace):
        chance = 1 - np.exp(-float(noise.inverse_scale))
        return random.geometric(chance, shape) - random.geometric(chance, shape)
    return np.rint(random.normal(0, float(noise.sigma_squared) ** 0.5, shape)).astype(np.int64)


def published_share(addends: Addends, event: CountNoise, noise: CountNoise, rows: int) -> float:
    drawn = noise_of(noise, addends.parts, np.random.default_rng(11))
    threshold = cell_threshold(RULE, addends, event)
    return float(1 - threshold.suppressed(numbers_of(addends, rows) + drawn).mean())


@pytest.mark.stat
@pytest.mark.parametrize("family", ["laplace", "gaussian"])
@pytest.mark.parametrize("what", ADDENDS)
def test_a_cell_below_k_is_published_no_more_often_than_stated(what: str, family: str):
    """With k - 1 rows, at most at 0.05 of 40,000 releases, plus 0.02: by Hoeffding a false alarm in 1e-13. It is not
    far below either, since t is whole. With noise half as large again, which the threshold does not know, it is found
    out."""
    addends = ADDENDS[what]
    event = event_of(addends, family)
    share = published_share(addends, event, event, RULE.k - 1)
    assert 0.01 <= share <= 0.07
    assert published_share(addends, event, event_of(addends, family, Fraction(3, 2)), RULE.k - 1) > 0.07


def shared(rule: MinimumFrequency) -> MinimumFrequency:
    return rule.shared_by(len(TABLE))


def events(family: str) -> list[tuple[Addends, CountNoise]]:
    return [(addends, event_of(addends, family)) for addends in TABLE.values()]


def published_by_any(rule: MinimumFrequency, family: str, rows: int) -> float:
    """Return the share of releases in which any of the table's draws publishes numbers of a cell of so many rows."""
    random, published = np.random.default_rng(3), np.zeros(N, dtype=np.bool_)
    for addends, event in events(family):
        drawn = numbers_of(addends, rows) + noise_of(event, addends.parts, random)
        published |= ~cell_threshold(rule, addends, event).suppressed(drawn)
    return float(published.mean())


def told_of_table(rule: MinimumFrequency, family: str) -> dict[str, Any]:
    return rule_of_table(rule, [(key, addends, event_of(addends, family)) for key, addends in TABLE.items()])


@pytest.mark.stat
@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_all_draws_of_a_table_together_keep_to_the_probability(family: str):
    """With k - 1 rows, any of four draws publishes a cell at most at 0.05 of 40,000 releases, plus 0.02. By Hoeffding
    a false alarm in 1e-13. If each draw had 0.05 for itself it would be found out."""
    assert 0.01 <= published_by_any(shared(RULE), family, RULE.k - 1) <= 0.07
    assert published_by_any(RULE, family, RULE.k - 1) > 0.09


@pytest.mark.stat
@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_what_is_stated_of_a_table_bounds_what_happens_in_any_of_its_draws(family: str):
    """Of the t that auto finds and of written ones; 40,000 releases and 0.02: by Hoeffding a false alarm in 1e-13.
    Where the sum of the chances is small, it is also within 0.1 of what happens."""
    for t in ("auto", 0, 4, 9):
        rule = RULE if t == "auto" else MinimumFrequency.model_validate({"k": 12, "t": t})
        told = told_of_table(rule, family)
        stated, happened = float(told["published_although_below_k"]), published_by_any(shared(rule), family, 11)
        assert happened - 0.02 <= stated <= 1
        assert stated <= happened + 0.1 or stated > 0.4
        assert [each["draw"] for each in told["draws"]] == [*TABLE]
        for each, (addends, event) in zip(told["draws"], events(family), strict=True):
            assert each["threshold"] == told["k"] + each["t"]
            assert each["threshold"] == cell_threshold(shared(rule), addends, event).value
    assert float(told_of_table(RULE, family)["published_although_below_k"]) <= 0.05


@pytest.mark.stat
@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_a_cell_of_many_rows_is_mostly_published(family: str):
    """By all four draws in 97.5 % of 40,000 releases, less 0.02: a false alarm in 1e-13; with k rows in far fewer."""
    rows, random = told_of_table(RULE, family)["mostly_published_from"], np.random.default_rng(8)
    passed, few = np.ones(N, dtype=np.bool_), np.ones(N, dtype=np.bool_)
    for addends, event in events(family):
        threshold, noise = cell_threshold(shared(RULE), addends, event), noise_of(event, addends.parts, random)
        passed &= ~threshold.suppressed(numbers_of(addends, rows) + noise)
        few &= ~threshold.suppressed(numbers_of(addends, RULE.k) + noise)
    assert passed.mean() >= 0.955
    assert few.mean() < 0.5


@pytest.mark.parametrize("what", ADDENDS)
def test_all_numbers_of_a_suppressed_cell_are_zeros_and_read_as_suppressed(what: str):
    addends = ADDENDS[what]
    threshold = cell_threshold(RULE, addends, event_of(addends, "laplace"))
    values = np.stack([numbers_of(addends, rows) for rows in (0, threshold.value - 1, threshold.value, 500)])
    gone = threshold.suppressed(values)
    assert gone.tolist() == [True, True, False, False]
    censored = threshold.censored(values)
    assert not censored[:2].any()
    np.testing.assert_array_equal(censored[2:], values[2:])
    np.testing.assert_array_equal(threshold.suppressed(censored), gone)
    np.testing.assert_array_equal(threshold.hidden(censored.reshape(-1)), np.repeat(gone, addends.parts))


def test_a_cell_is_suppressed_where_one_draw_of_the_table_is():
    event = event_of(AGE, "laplace")
    few, many = numbers_of(AGE, 0), numbers_of(AGE, 500)
    drawn = [(np.stack([few, many, many]), AGE, event), (np.stack([many, few, many]), AGE, event)]
    assert suppressed_cells(RULE, drawn).tolist() == [True, True, False]
    counts = DiscreteLaplace(Fraction(1, 2), (1,))
    assert suppressed_cells(RULE, [(np.array([0, 500]), None, counts)]).tolist() == [True, False]
    assert draw_threshold(RULE, None, counts) == threshold_for(RULE, counts)


def test_what_counts_no_rows_or_some_of_a_cell_has_no_threshold():
    """Nodes of a tree, and rows that are counted apart because they have no value, may be few in a large cell."""
    weighed = ValueLattice("age", Decimal(20), Decimal(90), Decimal(7), False, WEIGHT)
    apart = ValueLattice("age", Decimal(20), Decimal(90), Decimal(7), True)
    uncounted: list[Addends] = [LoneSum(AGE), WeightedCount(WEIGHT), weighed, ValueTree(weighed, Decimal(14))]
    uncounted += [ValueTree(AGE, Decimal(14)), apart, moments_of(apart, 1)]
    for addends in uncounted:
        assert not counts_rows(addends)
        with pytest.raises(ValueError, match="does not count the rows of a cell"):
            cell_threshold(RULE, addends, event_of(addends, "laplace"))
    assert counts_rows(None)
