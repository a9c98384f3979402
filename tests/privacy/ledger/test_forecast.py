"""How long an account lasts: whole runs, the first refusal, and whom it concerns."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from privacy.ledger.forecast import Refusal, ScheduledRun, first_refusals, runs_left, times
from privacy.ledger.terms import ChargePart

START = datetime(2026, 1, 1)
END = datetime(2036, 1, 1)


def every(days: int, first: int = 1) -> Iterator[datetime]:
    at = START + timedelta(days=first)
    while True:
        yield at
        at += timedelta(days=days)


@given(st.integers(1, 10**9), st.integers(0, 10**12))
def test_runs_left_are_those_that_fit_whole(amount: int, remaining: int) -> None:
    """One more would not fit."""
    left = runs_left((ChargePart("a", amount),), {"a": remaining})
    assert left * amount <= remaining < (left + 1) * amount


def test_the_scarcest_account_decides() -> None:
    assert runs_left((ChargePart("block", 1), ChargePart("lifetime", 2)), {"block": 9, "lifetime": 7}) == 3


def test_the_first_run_that_does_not_fit_is_the_refusal() -> None:
    """Ten days apart, three fit: the fourth is refused, and the release runs no more."""
    run = ScheduledRun("weekly", (ChargePart("a", 10),), every(10))
    refused = first_refusals([run], {"a": 35}, until=END)
    assert refused == {"a": Refusal(START + timedelta(days=31), "weekly")}


def test_releases_on_one_account_use_it_up_together() -> None:
    """Days 1, 2, 3, … of one and 2, 4, … of the other: 3 + 1 are taken when the account is empty on day 3."""
    one, other = (
        ScheduledRun("one", (ChargePart("a", 1),), every(1)),
        ScheduledRun("other", (ChargePart("a", 1),), every(2, 2)),
    )
    refused = first_refusals([one, other], {"a": 4}, until=END)
    assert refused["a"] == Refusal(START + timedelta(days=4), "one")


def test_a_refused_release_takes_from_no_account_and_another_goes_on() -> None:
    """The parent is empty for the first release; the second, on another account, goes on until its own is."""
    both = ScheduledRun("both", (ChargePart("block", 1), ChargePart("parent", 5)), every(1))
    alone = ScheduledRun("alone", (ChargePart("other", 1),), every(1))
    refused = first_refusals([both, alone], {"block": 9, "parent": 9, "other": 3}, until=END)
    assert refused == {
        "parent": Refusal(START + timedelta(days=2), "both"),
        "other": Refusal(START + timedelta(days=4), "alone"),
    }


def test_what_lasts_longer_than_asked_is_not_refused() -> None:
    run = ScheduledRun("yearly", (ChargePart("a", 1),), every(365))
    assert first_refusals([run], {"a": 50}, until=END) == {}


def test_how_often_is_said_in_words() -> None:
    assert [times(number) for number in (0, 1, 2, 1200)] == ["0 times", "once", "2 times", "1,200 times"]
