"""How long an account lasts: whole runs, the first refusal, and whom it concerns."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from privacy.ledger.forecast import Refusal, Remaining, ScheduledRun, first_refusals, runs_left, times
from privacy.ledger.terms import ChargePart

START = datetime(2026, 1, 1)
END = datetime(2036, 1, 1)


def every(days: int, first: int = 1) -> Iterator[datetime]:
    at = START + timedelta(days=first)
    while True:
        yield at
        at += timedelta(days=days)


@given(st.integers(1, 10**9), st.integers(0, 10**12))
def test_runs_left_are_those_that_fit_whole(amount: int, remaining: int):
    """One more would not fit."""
    left = runs_left((ChargePart("a", amount),), {"a": Remaining(remaining)}, failure=0)
    assert left * amount <= remaining < (left + 1) * amount


def test_the_scarcest_account_decides():
    remaining = {"block": Remaining(9), "lifetime": Remaining(7)}
    assert runs_left((ChargePart("block", 1), ChargePart("lifetime", 2)), remaining, failure=0) == 3


def test_the_scarcer_of_two_sums_decides():
    """Losses leave room for nine runs, the delta for selections for two; without a selection it does not matter."""
    part, remaining = (ChargePart("a", 1),), {"a": Remaining(9, 11)}
    assert [runs_left(part, remaining, failure=failure) for failure in (5, 1, 12, 0)] == [2, 9, 0, 9]


def test_the_first_run_that_does_not_fit_is_the_refusal():
    """Ten days apart, three fit: the fourth is refused, and the release runs no more."""
    run = ScheduledRun("weekly", (ChargePart("a", 10),), every(10))
    refused = first_refusals([run], {"a": Remaining(35)}, until=END)
    assert refused == {"a": Refusal(START + timedelta(days=31), "weekly")}


def test_releases_on_one_account_use_it_up_together():
    """Days 1, 2, 3, … of one and 2, 4, … of the other: 3 + 1 are taken when the account is empty on day 3."""
    one, other = (
        ScheduledRun("one", (ChargePart("a", 1),), every(1)),
        ScheduledRun("other", (ChargePart("a", 1),), every(2, 2)),
    )
    refused = first_refusals([one, other], {"a": Remaining(4)}, until=END)
    assert refused["a"] == Refusal(START + timedelta(days=4), "one")


def test_a_refused_release_takes_from_no_account_and_another_goes_on():
    """The parent is empty for the first release; the second, on another account, goes on until its own is."""
    both = ScheduledRun("both", (ChargePart("block", 1), ChargePart("parent", 5)), every(1))
    alone = ScheduledRun("alone", (ChargePart("other", 1),), every(1))
    refused = first_refusals(
        [both, alone], {"block": Remaining(9), "parent": Remaining(9), "other": Remaining(3)}, until=END
    )
    assert refused == {
        "parent": Refusal(START + timedelta(days=2), "both"),
        "other": Refusal(START + timedelta(days=4), "alone"),
    }


def test_a_run_whose_selections_no_longer_fit_is_refused_and_told_as_such():
    """Four more fail within 10 of the delta at most twice; a release without selections goes on until its loss."""
    keys = ScheduledRun("keys", (ChargePart("a", 1),), every(10), failure=4)
    plain = ScheduledRun("plain", (ChargePart("a", 1),), every(10, 2))
    assert first_refusals([keys], {"a": Remaining(100, 10)}, until=END) == {
        "a": Refusal(START + timedelta(days=21), "keys", for_selections=True)
    }
    # days 1 and 11 of both, then keys is refused on day 21 and plain has 6 of 10 left
    again = replace(keys, times=every(10))
    both = first_refusals([again, plain], {"a": Remaining(10, 10)}, until=END)
    assert both == {"a": Refusal(START + timedelta(days=21), "keys", for_selections=True)}


def test_a_refused_selection_takes_no_loss_and_a_refused_loss_is_told_first():
    """The second account is a parent without room: no sum of the first changes. Where both lack, loss is told."""
    parts = (ChargePart("a", 5), ChargePart("b", 5))
    keys, plain = (ScheduledRun("keys", parts, every(10), failure=4), ScheduledRun("plain", parts[:1], every(10, 2)))
    found = first_refusals([keys, plain], {"a": Remaining(10, 4), "b": Remaining(9, 0)}, until=END)
    assert found["b"] == Refusal(START + timedelta(days=1), "keys", for_selections=True)
    assert found["a"] == Refusal(START + timedelta(days=22), "plain")
    both = first_refusals([ScheduledRun("keys", parts[:1], every(10), 4)], {"a": Remaining(1, 1)}, until=END)
    assert both == {"a": Refusal(START + timedelta(days=1), "keys")}


def test_what_lasts_longer_than_asked_is_not_refused():
    run = ScheduledRun("yearly", (ChargePart("a", 1),), every(365))
    assert first_refusals([run], {"a": Remaining(50)}, until=END) == {}


def test_how_often_is_said_in_words():
    assert [times(number) for number in (0, 1, 2, 1200)] == ["0 times", "once", "2 times", "1,200 times"]
