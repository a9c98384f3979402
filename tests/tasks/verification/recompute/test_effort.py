"""No numbers of a record keep the auditor's sums busy without end: terms are counted before they are added up."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction
from typing import Any

import pytest

from tasks.verification.recompute import event_forms as effort
from tasks.verification.recompute import loss_inversion
from tasks.verification.recompute.adaptive_budget import check_budget
from tasks.verification.recompute.event_forms import (
    MOST_TERMS,
    NotRecomputable,
    TooMuchWork,
    bounded,
    exact_sum,
    spend,
)
from tasks.verification.recompute.loss import recompute
from tasks.verification.recompute.loss_inversion import delta_at

RENYI = {"kind": "renyi", "order": "607/64"}


def sampled(multiplier: str, chance: str, steps: int) -> dict[str, Any]:
    return {
        "kind": "poisson_sampled_gaussian",
        "noise_multiplier": multiplier,
        "sampling_probability": chance,
        "steps": steps,
    }


def laplace(scale: str, moves: list[int]) -> dict[str, Any]:
    return {"kind": "discrete_laplace", "inverse_scale": scale, "moves": moves}


def terms_of(events: list[dict[str, Any]], epsilon: Fraction | None = None) -> int:
    """Count the terms of a recomputation, and of an inversion where an epsilon is given."""
    left = [10 * MOST_TERMS]
    token = effort._left.set(left)
    try:
        recompute(events, "1e-9", RENYI)
        if epsilon is not None:
            delta_at(events, epsilon)
    finally:
        effort._left.reset(token)
    return 10 * MOST_TERMS - left[0]


def test_a_block_bounds_what_is_spent_inside_it_and_nothing_outside() -> None:
    spend(10 * MOST_TERMS)
    with bounded(5):
        spend(5)
        with bounded(1), pytest.raises(TooMuchWork):
            spend(2)
        with pytest.raises(TooMuchWork):
            spend(1)
    spend(1)


@pytest.mark.parametrize(
    ("events", "epsilon"),
    [
        ([sampled("3/2", "1/100", 3000)], Fraction(2)),
        ([sampled("3/5", "1/100", 300)], Fraction(8)),
        ([sampled("20", "1/100", 100)], Fraction(1, 100)),
        ([sampled("2", "1/2", 10), {"kind": "gaussian", "noise_multiplier": "7"}], Fraction(3)),
        ([laplace("1/20", [1])] * 2000, None),
        ([laplace("1/20", [4000])], None),
        ([{"kind": "exponential_mechanism", "epsilon": "1/20"}], None),
    ],
)
def test_an_honest_record_takes_a_small_part_of_the_bound(
    events: list[dict[str, Any]], epsilon: Fraction | None
) -> None:
    """The trainings of the manual, 2,000 tables of one noise, and the largest move that is added up."""
    assert terms_of(events, epsilon) < MOST_TERMS // 20


@pytest.mark.parametrize(
    "events",
    [
        [laplace(str(Fraction(1, n)), [4096, -4096]) for n in range(1, 1000)],
        [sampled(str(Fraction(1, n)), "1/2", 1) for n in range(1, 11)],
        [sampled("1/10", "1/1000000000000", 10**9)],
        [laplace(f"1/{10**50 + 2 * n + 1}", [1]) for n in range(3000)],
    ],
    ids=["many long sums", "many integrals", "a far peak", "a common denominator of a million digits"],
)
def test_events_that_would_be_added_up_for_hours_are_refused_before(events: list[dict[str, Any]]) -> None:
    """At a thousandth of the bound, so that the test itself is short: the count is the same on every machine."""
    with bounded(MOST_TERMS // 1000), pytest.raises(TooMuchWork):
        recompute(events, "1e-9", RENYI)


def test_a_common_denominator_without_end_is_refused_wherever_rationals_are_added_up() -> None:
    values = [Fraction(1, 10**50 + 2 * n + 1) for n in range(3000)]
    with bounded(10**6), pytest.raises(TooMuchWork):
        exact_sum(values)
    drawn = [laplace(str(value), [1]) for value in values]
    with bounded(10**6), pytest.raises(TooMuchWork):
        check_budget([{"kind": "pure", "epsilon": "1"}], drawn, where="record.json")
    large = [Fraction(10**50 + 2 * n + 1, 3) for n in range(3000)]
    noise = [{"kind": "discrete_gaussian", "sigma_squared": str(value), "moves": [1]} for value in large]
    with bounded(10**6), pytest.raises(TooMuchWork):
        delta_at(noise, Fraction(1))


@pytest.mark.long
def test_an_inversion_that_would_fill_all_memory_is_refused_before_it_allots_any(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Little noise, and a claim far below its loss: the peak lies at millions, or the integrand oscillates."""
    sizes: list[int] = []
    arange = loss_inversion.np.arange

    def counted(*bounds: float) -> Any:
        made = arange(*bounds)
        sizes.append(made.size)
        return made

    monkeypatch.setattr(loss_inversion.np, "arange", counted)
    for chance in ("1/1000000000000", "1/1000", "999/1000"):
        for epsilon in (Fraction(1, 10**12), Fraction(1), Fraction(50), Fraction(10**6)):
            for steps in (1, 1000, 10**9):
                with suppress(NotRecomputable, TooMuchWork), bounded(10**7):
                    delta_at([sampled("1/10", chance, steps)], epsilon)
    assert max(sizes) <= loss_inversion._MOST_POINTS + 1
