"""Slow work beside the readers: nobody waits for it, and none of it can take the site down."""

import os
import threading
import time
from collections.abc import Iterator

import pytest

from sudare_web.site.desk import Answer, Desk
from tests.extensions.sudare_web.site.conftest import answered


def work(told: str) -> str:
    """What the desk's process does in these tests."""
    match told:
        case "sleep":
            time.sleep(60)
        case "fail":
            raise ValueError("with a private value")
        case "die":
            os._exit(3)
    return f"{told}, by {os.getpid()}"


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk(work, seconds=30)
    yield made
    made.close()


@pytest.mark.services
def test_asking_never_waits_and_the_answer_is_kept(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    """What is asked first is answered while its process may not even start: nobody waits for that or for the work."""
    start, may_start = desk._start, threading.Event()
    monkeypatch.setattr(desk, "_start", lambda: start() if may_start.wait(100) else None)
    assert desk.ask("a", "a").state in ("waiting", "running")
    assert desk.ask("a", "a").state in ("waiting", "running")
    may_start.set()
    first = answered(lambda: desk.ask("a", "a"))
    assert first.state == "done"
    assert first.value.startswith("a, by ")
    assert str(os.getpid()) not in first.value
    assert desk.ask("a", "a") == first


@pytest.mark.services
def test_work_that_takes_too_long_is_stopped_and_the_next_is_done():
    desk = Desk(work, seconds=8)
    assert answered(lambda: desk.ask("slow", "sleep")).state == "late"
    assert answered(lambda: desk.ask("quick", "b")).state == "done"
    desk.close()


@pytest.mark.services
def test_work_that_fails_or_dies_says_only_that(desk: Desk):
    failed = answered(lambda: desk.ask("fail", "fail"))
    assert (failed.state, failed.value) == ("failed", None)
    assert answered(lambda: desk.ask("die", "die")).state == "failed"
    assert answered(lambda: desk.ask("after", "c")).state == "done"


@pytest.mark.services
def test_when_too_many_wait_the_next_is_told_so():
    desk = Desk(work, seconds=30, most_waiting=2)
    assert "busy" in [desk.ask(number, "sleep").state for number in range(6)]
    desk.close()
    assert desk.ask("closed", "d") == Answer("busy")


@pytest.mark.services
def test_an_old_answer_is_shown_while_it_is_worked_out_again():
    """Every answer is old at once here: the first stays until the second is there."""
    desk = Desk(work, seconds=30, lasting=0.0)
    first = answered(lambda: desk.ask("a", "a"))
    assert first.state == "done"
    until = time.monotonic() + 60
    while (later := desk.ask("a", "a")) == first:
        assert time.monotonic() < until
    assert (later.state, later.value) == ("done", first.value)
    assert later.at > first.at
    desk.close()
