"""What the commands that release have in common: the options, a Prefect server, and one release from end to end."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import FrameType
from typing import TYPE_CHECKING, Any

import typer

from console.output import Interrupted, paused, shown
from contracts.errors import GateBroken, Refused, SudareError
from flows.order import OperatorDecision, ReleaseOrder
from flows.prefect_runs.server import PrefectServer, prefect_server
from tasks.storage.workspace.run_folder import CHARGE_STATES, RunFolder
from tasks.storage.workspace.settings import Workspace

# What makes a release is imported inside the functions: it takes seconds and loads while the Prefect server starts,
# and a run that is published already needs little of it.
if TYPE_CHECKING:
    from flows.outcome import Outcome
    from flows.request import Request
    from privacy.private_table import PrivateTable


class Stop:
    """Ctrl-C, SIGTERM and a closed terminal inside a block: all raise `KeyboardInterrupt`, and are remembered.

    A library may turn the exception into one of its own; `asked` tells the two apart.
    """

    def __init__(self) -> None:
        self.asked, self._patience = False, 100
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Stop:
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(each) is not signal.SIG_IGN:
                self._before[each] = signal.signal(each, self._stop)
        return self

    def __exit__(self, *_: object) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        while self._patience and frame is not None:
            if frame.f_code.co_filename == logging.__file__:
                # An exception here could leave a lock of logging taken for good, for which all threads would wait.
                # A second of patience: what is logged may go to a pipe that nobody reads.
                self._patience -= 1
                threading.Timer(0.01, os.kill, (os.getpid(), number)).start()
                return
            frame = frame.f_back
        raise KeyboardInterrupt


@dataclass(frozen=True)
class RunOptions(ReleaseOrder):
    """Options of a release on the command line.

    Args:
        accept_misfits: whether it is accepted beforehand that rows do not fit the contract.
        may_ask: whether a person at the terminal may be asked.
        unattended: whether nobody is there, so that rows which do not fit stop it as they stop a scheduled run.
    """

    accept_misfits: bool = False
    may_ask: bool = False
    unattended: bool = False


@contextmanager
def running(where: Workspace) -> Iterator[tuple[PrefectServer, Stop]]:
    """Have a Prefect server inside the block, show progress, and hear when somebody stops the command.

    The signing key is opened first: a passphrase is asked for before anything begins.
    """
    from console.keys import opened_signer  # here: help needs no signer

    opened_signer(where)
    try:
        with Stop() as stop, shown(), prefect_server(where) as prefect:
            yield prefect, stop
    except Exception as error:
        if stop.asked and not isinstance(error, Interrupted):
            raise Interrupted("interrupted before anything was charged") from None
        raise


@dataclass(frozen=True)
class Operator:
    """Conducts a run for a person at a terminal, who is shown how the rows fit before anybody else hears of it.

    Args:
        options: what is wanted.
        where: the workspace.
        prefect: the server, which may still be starting.
        stop: says whether the command was stopped.
    """

    options: RunOptions
    where: Workspace
    prefect: PrefectServer
    stop: Stop

    def decide(self, run: RunFolder, request: Request) -> OperatorDecision:
        """Take the data in and have the operator accept how they fit.

        Raises:
            OperatorDecides: nobody accepted it.
            SecondVersion: it would be a second version, and nobody wants it.
        """
        from console.check import accepted
        from flows.periods.publications import SecondVersion
        from flows.prepare import before_charge
        from tasks.validation.misfits import page_file

        options = self.options
        try:
            table, supersede = _taken_in(request, options, self.where, run)
        except SecondVersion:
            raise
        except SudareError as refusal:
            return OperatorDecision(options.supersede, refusal=refusal)
        if options.unattended:
            return OperatorDecision(supersede, table, unattended=True)
        found = before_charge(run, request, self.where, table)
        if found is not None:
            with paused():
                accepted(
                    found,
                    share=self.where.asks_above,
                    spec=options.spec,
                    page=page_file(run.path),
                    accept=options.accept_misfits,
                    may_ask=options.may_ask,
                )
        return OperatorDecision(supersede, table, page_written=found is not None)

    def carry_out(self, decision: OperatorDecision, steps: Callable[[], Outcome]) -> Outcome:
        """Carry the steps out as a flow run of their own, on a server that answers by now.

        Why a source was refused is shown by a server that people look at; for one of our own no run is made of it.
        """
        from flows.release import in_prefect

        if decision.refusal is not None and self.prefect.embedded:
            raise decision.refusal
        self.prefect.wait()
        with self.prefect.connected():
            return in_prefect(replace(self.options, supersede=decision.supersede), self.where, steps)

    def explained(self, error: BaseException, run: RunFolder, request: Request) -> BaseException:
        """Return an error with a note that says how the charge stands, in the words for the operator."""
        if self.stop.asked:
            return Interrupted(f"{request.spec.release} was interrupted: {CHARGE_STATES[run.charge]}")
        if isinstance(error, GateBroken) and run.refusal is not None:
            error = run.refusal  # what came back through Prefect says less
        error.add_note(f"charge: {CHARGE_STATES[run.charge]}")
        return error


def make_release(options: RunOptions, where: Workspace, prefect: PrefectServer, stop: Stop) -> Outcome:
    """Make one release for a person at a terminal.

    Raises:
        SudareError: with a note that says how the charge stands.
        VersionWithdrawn: its version was withdrawn: what the command is to end with is not there.
        Interrupted: somebody stopped the command.
    """
    from flows import entrance
    from flows.periods.clock import ClockAhead
    from flows.periods.publications import withdrawal

    try:
        outcome = entrance.make_release(options, where, Operator(options, where, prefect, stop))
    except ClockAhead as refused:
        if not _agreed(options, refused, "Is this clock right?"):
            raise
        options = replace(options, accept_clock=True)
        outcome = entrance.make_release(options, where, Operator(options, where, prefect, stop))
    if outcome.status == "withdrawn":
        raise withdrawal(outcome.release, outcome.version)
    return outcome


def _taken_in(
    request: Request, options: RunOptions, where: Workspace, folder: RunFolder
) -> tuple[PrivateTable, bool]:
    """Take the data in; of a second version that nobody asked for, ask the person at the terminal."""
    from flows.periods.publications import SecondVersion
    from flows.prepare import intake

    try:
        return intake(folder, request, where, supersede=options.supersede), options.supersede
    except SecondVersion as refused:
        if not _agreed(options, refused, "Make another version, and charge for it?"):
            raise
    return intake(folder, request, where, supersede=True), True


def _agreed(options: RunOptions, refused: Refused, question: str) -> bool:
    """Ask the person at the terminal, if there is one, whether to go on with what was refused."""
    if not (options.may_ask and sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    [finding] = refused.findings
    with paused():
        typer.echo(f"{finding.where}: {finding.found}.", err=True)
        return typer.confirm(question, default=False, err=True)
