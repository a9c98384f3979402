"""A run that is called for in Python: the entrance of the `sudare run` command, conducted for the calling code.

It works inside a notebook, whose kernel runs an event loop: there the run has a thread of its own, since Prefect's
synchronous calls would otherwise wait for the loop that waits for them.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable
from threading import Event, Thread
from typing import TypeVar

from console.check import OperatorDecides
from console.output import shown
from console.running import Operator, RunOptions, Stop
from contracts.errors import SudareError
from flows import entrance
from flows.order import OperatorDecision
from flows.outcome import Outcome
from flows.periods.publications import SecondVersion, withdrawal
from flows.prefect_runs.server import lasting_server
from flows.prepare import before_charge, intake
from flows.request import Request
from tasks.storage.workspace.run_folder import RunFolder
from tasks.storage.workspace.settings import Workspace as Place
from tasks.validation.misfits import page_file

ResultT = TypeVar("ResultT")
_LOOK_SECONDS = 0.2


class Caller(Operator):
    """Conducts a run for code that calls: nobody is asked, and how the rows fit goes to the private page alone."""

    def decide(self, run: RunFolder, request: Request) -> OperatorDecision:
        """Take the data in; where more rows do not fit than the workspace accepts, the caller must have accepted it.

        Raises:
            OperatorDecides: the caller has not.
            SecondVersion: it would be a second version, and the caller wants none.
        """
        options = self.options
        try:
            table = intake(run, request, self.where, supersede=options.supersede)
        except SecondVersion:
            raise
        except SudareError as refusal:
            return OperatorDecision(options.supersede, refusal=refusal)
        found = before_charge(run, request, self.where, table)
        asks = found is not None and not found.broken_gates and found.asks(self.where.asks_above)
        if asks and not options.accept_misfits:
            raise OperatorDecides(options.spec, page_file(run.path))
        return OperatorDecision(options.supersede, table, page_written=found is not None)


def released(options: RunOptions, place: Place, *, progress: bool) -> Outcome:
    """Make one release, or resume it, or say that it is published.

    Args:
        options: what is wanted.
        place: the workspace.
        progress: whether a terminal shows the steps.
    Raises:
        SudareError: as `sudare run`, with a note that says how the charge stands.
    """

    def steps() -> Outcome:
        with lasting_server(place) as prefect:
            return entrance.make_release(options, place, Caller(options, place, prefect, Stop()))

    def watched() -> Outcome:
        if not progress:
            return steps()
        with shown():
            return steps()

    outcome = outside_loop(watched)
    if outcome.status == "withdrawn":
        raise withdrawal(outcome.release, outcome.version)
    return outcome


def outside_loop(action: Callable[[], ResultT]) -> ResultT:
    """Do something outside any event loop: here, or in a thread of its own where a loop runs.

    Raises:
        KeyboardInterrupt: the caller was interrupted; the thread is interrupted too, and has ended.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return action()
    results: list[ResultT] = []
    errors: list[BaseException] = []
    ended = Event()

    def body() -> None:
        try:
            results.append(action())
        except BaseException as error:  # noqa: BLE001 - raised again by the caller's thread
            errors.append(error)
        finally:
            ended.set()

    thread = Thread(target=body, name="sudare")
    thread.start()
    while not ended.is_set():
        try:
            ended.wait(_LOOK_SECONDS)  # a `join` that is interrupted takes the thread for ended (Python 3.11)
        except KeyboardInterrupt:
            _interrupt(thread)
    if errors:
        raise errors[0]
    return results[0]


def _interrupt(thread: Thread) -> None:
    """Raise KeyboardInterrupt in a thread; it ends like a command that was stopped."""
    if thread.ident is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(KeyboardInterrupt))
