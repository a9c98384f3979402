"""A run outside the event loop of a kernel: its result, its errors, and an interruption."""

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from sudare.conducting import outside_loop

INTERRUPTED = """
import asyncio, signal, sys, threading, time
from sudare.conducting import outside_loop

def cell_waits():
    frame, names = sys._current_frames()[threading.main_thread().ident], set()
    while frame:
        names.add(frame.f_code.co_name)
        frame = frame.f_back
    return "wait" in names and "start" not in names  # for the end of the work, and not for its beginning

def work():
    while not cell_waits():
        time.sleep(0.01)
    try:
        print("there", flush=True)
        for _ in range(600):
            time.sleep(0.05)
    finally:
        print("cleaned", flush=True)

async def cell():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # as a kernel does while a cell runs
    try:
        outside_loop(work)
    except KeyboardInterrupt:
        print("interrupted", flush=True)

asyncio.run(cell())
"""


def in_a_loop(action: Callable[[], Any]) -> Any:
    async def cell() -> Any:
        return outside_loop(action)

    return asyncio.run(cell())


def test_a_thread_of_its_own_is_taken_only_where_a_loop_runs():
    here = threading.get_ident()
    assert outside_loop(threading.get_ident) == here
    assert in_a_loop(threading.get_ident) != here


def test_inside_no_loop_runs():
    def loop() -> str:
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        return "none"

    assert in_a_loop(loop) == "none"


def test_an_error_comes_back_as_it_is():
    def fail() -> None:
        raise LookupError("this one")

    with pytest.raises(LookupError, match="this one"):
        in_a_loop(fail)


@pytest.mark.services
def test_a_kernel_that_is_interrupted_stops_the_run_and_waits_for_its_end():
    """SIGINT goes to the thread of the cell; the one that works hears of it."""
    process = subprocess.Popen([sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "there\n"
    process.send_signal(signal.SIGINT)
    told, _ = process.communicate(timeout=60)
    assert told.split() == ["cleaned", "interrupted"]
