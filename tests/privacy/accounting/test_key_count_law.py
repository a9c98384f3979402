"""Counts of keys above a threshold: private by a second computation, as good as the optimum, and intervals that hold.

The second computation builds the whole law of all that leaves of one key, its count or the count of the others, from
discrete Laplace probabilities in 40 digits, and adds up what two tables differ by.
"""

from __future__ import annotations

from fractions import Fraction

import pytest
from mpmath import mp, mpf

from privacy.accounting.amounts import AmountRefused
from privacy.accounting.key_law import ONE, REST_SHARE, KeyCountLaw, keep_chances, key_count_law
from privacy.statistics.key_counts import key_interval

Outputs = dict[tuple[str, int], mpf]
REACH = 60
PARTS = [(Fraction(1), Fraction(1, 100), 1), (Fraction(2), Fraction(1, 50), 3), (Fraction(3), Fraction(1, 1000), 2)]


def outputs(law: KeyCountLaw, rows: int, others: int, *, threshold: bool = True) -> Outputs:
    """The law of one key's count where it is published, and else of the noisy count of the others."""
    parts = [mpf(after - before) / ONE for before, after in zip([0, *law.chances], law.chances, strict=False)]
    found: Outputs = {}
    hidden = mpf(0)
    for index, part in enumerate(parts, 1):
        if index <= rows or (rows and not threshold):
            found["count", rows - index] = part
        else:
            hidden += part
    scale = mpf(law.rest_inverse_scale.numerator) / law.rest_inverse_scale.denominator
    ratio = mp.exp(-scale)
    whole = (1 - ratio) / (1 + ratio)
    for noise in range(-REACH - rows, REACH + rows + 1):
        found["others", others + rows + noise] = hidden * whole * ratio ** abs(noise)
    return found


def excess(one: Outputs, other: Outputs, epsilon: Fraction) -> mpf:
    """Return the sum over all outputs of P - exp(epsilon) Q, where it is above 0; cut ends are left out of it."""
    growth = mp.exp(mpf(epsilon.numerator) / epsilon.denominator)
    common = {each for each in one if each[0] == "count"} | (one.keys() & other.keys())
    return sum((max(mpf(0), one[each] - growth * other.get(each, mpf(0))) for each in common), mpf(0))


def worst(law: KeyCountLaw, epsilon: Fraction, moved: int, *, threshold: bool = True) -> mpf:
    """Return the largest excess where a unit's rows come or go, whatever number of rows the key has without them."""
    sizes = range(len(law.chances) + 3)
    found = mpf(0)
    for rows in sizes:
        pair = [outputs(law, n, 0, threshold=threshold) for n in (rows, rows + moved)]
        found = max(found, excess(pair[0], pair[1], epsilon), excess(pair[1], pair[0], epsilon))
    return found


@pytest.mark.parametrize(("epsilon", "delta", "rows"), PARTS)
def test_all_rows_of_a_unit_cost_no_more_than_epsilon_and_delta(
    epsilon: Fraction, delta: Fraction, rows: int
) -> None:
    """In whichever number of rows of one key it is; and of all of them no less than 0.9 of delta is used."""
    law = key_count_law(epsilon, delta, rows_per_unit=rows)
    with mp.workdps(40):
        limit = mpf(delta.numerator) / delta.denominator
        assert all(worst(law, epsilon * n / rows, n) <= limit for n in range(1, rows + 1))
        assert worst(law, epsilon, rows) > limit * mpf("0.9")


@pytest.mark.parametrize(("epsilon", "delta", "rows"), PARTS)
def test_wrong_twins_are_found_out(epsilon: Fraction, delta: Fraction, rows: int) -> None:
    """No threshold; a threshold one row lower; the others' count without its share; a delta split evenly by rows."""
    law, growth = key_count_law(epsilon, delta, rows_per_unit=rows), epsilon / rows
    limit = mpf(delta.numerator) / delta.denominator
    with mp.workdps(40):
        assert worst(law, epsilon, rows, threshold=False) > limit
        shifted = KeyCountLaw(tuple(law.chances[1:]), law.least, law.row_epsilon)
        assert worst(shifted, epsilon, rows) > limit
        steeper = KeyCountLaw(keep_chances(growth, Fraction(law.chances[0], ONE))[1:], law.least, law.row_epsilon)
        assert worst(steeper, epsilon, rows) > limit
        if rows > 1:
            even = key_count_law(growth, delta / rows, rows_per_unit=1)
            assert worst(even, epsilon, rows) > limit


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 10), Fraction(4)])
def test_keys_are_published_nearly_as_often_as_any_rule_can(epsilon: Fraction) -> None:
    """The same up to the crossing; beyond it what the others' share costs: no chance is more than 0.03 lower."""
    best, law = keep_chances(epsilon, Fraction(1, 10**8)), key_count_law(epsilon, Fraction(1, 10**8), rows_per_unit=1)
    own = [0, *law.chances, *[ONE] * len(best)]
    gaps = [(each - own[n]) / ONE for n, each in enumerate(best)]
    assert min(gaps) >= 0
    assert max(gaps) < 0.03
    assert max(gaps[: law.least]) < 1e-9
    assert law.rest_inverse_scale == epsilon * REST_SHARE


@pytest.mark.parametrize(("epsilon", "delta", "rows"), [*PARTS, (Fraction(1), Fraction(1, 10**8), 1)])
def test_intervals_hold_given_that_the_key_is_published(epsilon: Fraction, delta: Fraction, rows: int) -> None:
    """For every number of rows, in exact arithmetic; without the condition they would not, at the threshold."""
    law = key_count_law(epsilon, delta, rows_per_unit=rows)
    chances, plain = [0, *law.chances], []
    for n in range(1, 3 * len(law.chances)):
        held = unaware = 0
        _, low, high = key_interval(law, n + 10**4)
        for index in range(1, min(n, len(law.chances)) + 1):
            part, count = chances[index] - chances[index - 1], n - index + law.least
            value, lower, upper = key_interval(law, count)
            assert 1 <= lower <= value <= upper
            held += part * (lower <= n <= upper)
            unaware += part * (count + low - n - 10**4 <= n <= count + high - n - 10**4)
        shown = chances[min(n, len(law.chances))]
        assert 20 * held >= 19 * shown
        plain.append(unaware / shown)
    assert min(plain) < 0.01


@pytest.mark.long
@pytest.mark.long
@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [
        (Fraction(0), Fraction(1, 10)),
        (Fraction(101), Fraction(1, 10)),
        (Fraction(1), Fraction(1, 10**36)),
        (Fraction(1, 10**7), Fraction(1, 10**8)),
    ],
)
def test_what_no_law_has_is_refused(epsilon: Fraction, delta: Fraction) -> None:
    with pytest.raises(AmountRefused):
        key_count_law(epsilon, delta, rows_per_unit=1)


def test_a_count_below_the_threshold_has_no_interval() -> None:
    law = key_count_law(Fraction(1), Fraction(1, 10**8), rows_per_unit=1)
    with pytest.raises(ValueError, match="threshold"):
        key_interval(law, law.least - 1)
