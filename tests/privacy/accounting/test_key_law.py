"""Laws of a selection of keys and of their counts: optimal by a second computation, private in exact arithmetic.

The second computation builds the whole law of all that leaves of one key, its count or the count of the others, from
discrete Laplace probabilities in 40 digits, and adds up what two tables differ by.
"""

import math
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

import pytest
from mpmath import mp, mpf

from privacy.accounting import key_law as module
from privacy.accounting.amounts import AmountRefused
from privacy.accounting.events import KeySelection, key_selection
from privacy.accounting.key_law import ONE, REST_SHARE, KeyCountLaw, exponential_below, keep_chances, key_count_law
from privacy.statistics.key_counts import key_interval

PAIRS = [
    (Fraction(1), Fraction(1, 10**8)),
    (Fraction(1, 10), Fraction(1, 10**12)),
    (Fraction(1, 1000), Fraction(1, 10**6)),
    (Fraction(5), Fraction(1, 3)),
    (Fraction(99), Fraction(1, 10**30)),
    (Fraction(0), Fraction(1, 7)),
    (Fraction(1, 3), Fraction(123456789, 10**36)),
]
BOUNDS = Context(prec=120)


def above(epsilon: Fraction) -> Fraction:
    """An upper bound of exp(epsilon), by another library."""
    value = BOUNDS.exp(BOUNDS.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator)))
    return Fraction(Context(prec=110, rounding=ROUND_CEILING).next_plus(value))


def optimum(epsilon: Fraction, delta: Fraction, units: int) -> mpf:
    """Compute the largest chance by the paper's closed form, in 60 digits.

    With n1 = 1 + floor(log((exp(e) + 2 d - 1) / ((exp(e) + 1) d)) / e), for n <= n1 it is
        d (exp(n e) - 1) / (exp(e) - 1),
    and after that, with m = n - n1, and at most 1,
        (1 - exp(-m e)) (1 + d / (exp(e) - 1)) + exp(-m e) p(n1).
    """
    with mp.workdps(60):
        e, d = mpf(epsilon.numerator) / epsilon.denominator, mpf(delta.numerator) / delta.denominator
        if not epsilon:
            return min(mpf(1), units * d)
        crossing = 1 + int(mp.floor(mp.log((mp.exp(e) + 2 * d - 1) / ((mp.exp(e) + 1) * d)) / e))

        def rising(n: int) -> mpf:
            return mp.expm1(n * e) / mp.expm1(e) * d

        if units <= crossing:
            return min(mpf(1), rising(units))
        rest = mp.exp(-(units - crossing) * e)
        return min(mpf(1), (1 - rest) * (1 + d / mp.expm1(e)) + rest * rising(crossing))


@pytest.mark.long
@pytest.mark.parametrize(("epsilon", "delta"), PAIRS)
def test_the_chances_are_the_optimum(epsilon: Fraction, delta: Fraction):
    """Of every number of units: never above the paper's closed form, and less than 2^-126 / delta of it below."""
    for units, chance in enumerate(keep_chances(epsilon, delta)):
        with mp.workdps(60):
            exact, ours = optimum(epsilon, delta, units), mpf(chance) / ONE
            assert ours <= exact * (1 + mpf(10) ** -50)
            assert exact - ours <= exact * delta.denominator / delta.numerator * mpf(2) ** -126


@pytest.mark.parametrize(("epsilon", "delta"), PAIRS)
def test_neighbouring_chances_keep_epsilon_and_delta_exactly(epsilon: Fraction, delta: Fraction):
    """Both outcomes, both directions, in rationals: a lower bound of exp(epsilon) would do for the inequalities."""
    growth = Fraction(exponential_below(epsilon), 2**192)
    assert growth <= above(epsilon)
    assert above(epsilon) - growth <= above(epsilon) / 2**170
    chances = [Fraction(chance, ONE) for chance in keep_chances(epsilon, delta)]
    assert (chances[0], chances[-1]) == (0, 1)
    for one, other in zip(chances, [*chances[1:], Fraction(1)], strict=True):
        assert one <= other
        assert other <= growth * one + delta
        assert 1 - one <= growth * (1 - other) + delta


def test_a_chance_that_is_one_unit_larger_is_not_private():
    """The check above can fail: raised by 10^-20 of it, the chance of two units breaks a bound."""
    epsilon, delta = PAIRS[0]
    _, first, second, *_ = (Fraction(chance, ONE) for chance in keep_chances(epsilon, delta))
    assert second * (1 + Fraction(1, 10**20)) > above(epsilon) * first + delta


def test_chances_that_never_reach_one_in_reason_are_refused():
    """So are amounts out of range."""
    with pytest.raises(AmountRefused, match="units"):
        keep_chances(Fraction(0), Fraction(1, 10**9))
    for epsilon, delta in (
        (Fraction(-1), Fraction(1, 2)),
        (Fraction(1), Fraction(0)),
        (Fraction(101), Fraction(1, 2)),
    ):
        with pytest.raises(AmountRefused):
            keep_chances(epsilon, delta)


@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(1, 10**5), Fraction(1, 100), Fraction(1, 2)])
def test_what_is_refused_at_once_would_be_refused_at_the_last_unit(
    epsilon: Fraction, monkeypatch: pytest.MonkeyPatch
):
    """Of 300 units: each power of ten that is refused at once is refused by the chances themselves; some are."""
    monkeypatch.setattr(module, "MOST_UNITS", 300)
    deltas = [Fraction(1, 10**power) for power in range(1, 100)]
    refused_at_once = [delta for delta in deltas if module._far_below_one(float(epsilon), float(delta))]
    assert 0 < len(refused_at_once) < len(deltas)
    monkeypatch.setattr(module, "_far_below_one", lambda epsilon, delta: False)
    for delta in refused_at_once:
        with pytest.raises(AmountRefused, match="300 units"):
            keep_chances.__wrapped__(epsilon, delta)


@pytest.mark.parametrize("groups", [1, 3, 10, 100])
def test_the_planned_split_publishes_more_than_an_even_one(groups: int):
    """At no number of units less; of one unit by about (groups - 1) / (2 groups) times delta, relative."""
    planned = key_selection(Fraction(1), 10**15, groups)
    even = KeySelection(Fraction(1, groups), Fraction(1, 1000 * groups), groups)
    ours, theirs = (keep_chances(event.epsilon, event.delta) for event in (planned, even))
    assert len(ours) <= len(theirs)
    assert all(one >= other for one, other in zip(ours, theirs, strict=False))
    assert math.isclose(ours[1] / theirs[1] - 1, (groups - 1) / (2 * groups) * 1e-3, rel_tol=0.1, abs_tol=1e-15)


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
def test_all_rows_of_a_unit_cost_no_more_than_epsilon_and_delta(epsilon: Fraction, delta: Fraction, rows: int):
    """In whichever number of rows of one key it is; and of all of them no less than 0.9 of delta is used."""
    law = key_count_law(epsilon, delta, rows_per_unit=rows)
    with mp.workdps(40):
        limit = mpf(delta.numerator) / delta.denominator
        assert all(worst(law, epsilon * n / rows, n) <= limit for n in range(1, rows + 1))
        assert worst(law, epsilon, rows) > limit * mpf("0.9")


@pytest.mark.parametrize(("epsilon", "delta", "rows"), PARTS)
def test_wrong_twins_are_found_out(epsilon: Fraction, delta: Fraction, rows: int):
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
def test_keys_are_published_nearly_as_often_as_any_rule_can(epsilon: Fraction):
    """The same up to the crossing; beyond it what the others' share costs: no chance is more than 0.03 lower."""
    best, law = keep_chances(epsilon, Fraction(1, 10**8)), key_count_law(epsilon, Fraction(1, 10**8), rows_per_unit=1)
    own = [0, *law.chances, *[ONE] * len(best)]
    gaps = [(each - own[n]) / ONE for n, each in enumerate(best)]
    assert min(gaps) >= 0
    assert max(gaps) < 0.03
    assert max(gaps[: law.least]) < 1e-9
    assert law.rest_inverse_scale == epsilon * REST_SHARE


@pytest.mark.parametrize(("epsilon", "delta", "rows"), [*PARTS, (Fraction(1), Fraction(1, 10**8), 1)])
def test_intervals_hold_given_that_the_key_is_published(epsilon: Fraction, delta: Fraction, rows: int):
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
@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [
        (Fraction(0), Fraction(1, 10)),
        (Fraction(101), Fraction(1, 10)),
        (Fraction(1), Fraction(1, 10**36)),
        (Fraction(1, 10**7), Fraction(1, 10**8)),
    ],
)
def test_what_no_law_has_is_refused(epsilon: Fraction, delta: Fraction):
    with pytest.raises(AmountRefused):
        key_count_law(epsilon, delta, rows_per_unit=1)


def test_a_count_below_the_threshold_has_no_interval():
    law = key_count_law(Fraction(1), Fraction(1, 10**8), rows_per_unit=1)
    with pytest.raises(ValueError, match="threshold"):
        key_interval(law, law.least - 1)
