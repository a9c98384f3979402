"""What the commands that release have in common: the options, a Prefect server, and one release from end to end."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from console.errors import Interrupted
from console.progress import paused, shown
from contracts.errors import GateBroken, SudareError
from flows.prefect_runs.prefect_server import PrefectServer, prefect_server
from tasks.storage.workspace.run_folder import CHARGE_STATES, RunFolder, hold, run_name, sheltered
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
        self.asked = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Stop:
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(each) is not signal.SIG_IGN:
                self._before[each] = signal.signal(each, self._stop)
        return self

    def __exit__(self, *_: object) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)

    def _stop(self, _signal: int, _frame: object) -> NoReturn:
        self.asked = True
        raise KeyboardInterrupt


@dataclass(frozen=True)
class RunOptions:
    """Options of a release on the command line.

    Args:
        spec: the release spec.
        period: which period.
        supersede: whether what is published gets another version if rows or spec have changed.
        keep_snapshot: whether the private snapshot outlives the run.
        early: whether a period is released that is not over.
        due: the date that the run is due on.
        accept_misfits: whether it is accepted beforehand that rows do not fit the contract.
        may_ask: whether a person at the terminal may be options.
    """

    spec: Path
    period: str | None = None
    supersede: bool = False
    keep_snapshot: bool = False
    early: bool = False
    due: str | None = None
    accept_misfits: bool = False
    may_ask: bool = False


@contextmanager
def running(where: Workspace) -> Iterator[tuple[PrefectServer, Stop]]:
    """Have a Prefect server inside the block, show progress, and hear when somebody stops the command."""
    try:
        with Stop() as stop, shown(), prefect_server(where) as prefect:
            yield prefect, stop
    except Exception as error:
        if stop.asked and not isinstance(error, Interrupted):
            raise Interrupted("interrupted before anything was charged") from None
        raise


def make_release(options: RunOptions, where: Workspace, prefect: PrefectServer, stop: Stop) -> Outcome:
    """Read what is asked for, hold the run's folder, and run the flow.

    Raises:
        SudareError: with a note that says how the charge stands.
        Interrupted: somebody stopped the command.
    """
    from flows.capacity import check_capacity
    from flows.request import read_request

    request = read_request(options.spec, where, options.period, options.due)
    check_capacity(request, where)
    name = run_name(request.spec.release, request.spec.run_digest)
    with hold(where.runs, name, keep_snapshot=options.keep_snapshot) as folder:
        try:
            return sheltered(lambda: _flow(request, options, where, prefect, folder), lambda: folder.error_log)
        except (KeyboardInterrupt, SudareError) as error:
            if not stop.asked and isinstance(error, GateBroken) and folder.refusal is not None:
                error = folder.refusal  # what came back through Prefect says less
            if not stop.asked:
                error.add_note(f"charge: {CHARGE_STATES[folder.charge]}")
                raise error from None
            raise Interrupted(f"{request.spec.release} was interrupted: {CHARGE_STATES[folder.charge]}") from None


def _flow(
    request: Request, options: RunOptions, where: Workspace, prefect: PrefectServer, folder: RunFolder
) -> Outcome:
    """Take the data in, show the operator how they fit, and run the flow; a server of our own starts meanwhile.

    Prefect and lineage collectors hear of the run when the operator has let it go on: that a person stopped it
    because of its rows is told to nobody.
    """
    from flows.lineage_events import lineage_of
    from flows.periods.clock import check_due, check_over, today
    from flows.periods.publications import attempt_noted, settled
    from flows.release import release

    day = None if options.early else today()
    check_due(request, day, supersede=options.supersede)
    standing = settled(request, where, folder, supersede=options.supersede)
    if standing is not None:
        return standing
    check_over(request, day)
    with attempt_noted(request, where, folder):
        supersede = _let_in(request, options, where, folder)
        with lineage_of(request, where) as tell:
            if folder.unread is not None and prefect.embedded:
                raise folder.unread
            prefect.wait()
            with prefect.connected():
                period, keep, due = request.spec.block, folder.keep_snapshot, request.spec.due
                outcome = release(
                    str(request.spec.path), str(where.root), keep, period, supersede, early=options.early, due=due
                )
            tell(Path(outcome.folder))
            return outcome


def _let_in(request: Request, options: RunOptions, where: Workspace, folder: RunFolder) -> bool:
    """Take the data in and have the operator accept how they fit; the folder learns why they cannot be taken in.

    Returns:
        Whether what is published may get another version: asked for in the command, or now.
    Raises:
        OperatorDecides: nobody accepted it.
        SecondVersion: it would be a second version, and nobody wants it.
    """
    from console.check import accepted
    from flows.misfit_report import before_charge
    from flows.periods.publications import SecondVersion
    from tasks.validation.misfits_page import page_file

    try:
        table, supersede = _taken_in(request, options, where, folder)
    except SecondVersion:
        raise
    except SudareError as refusal:
        folder.unread = refusal
        return options.supersede
    found = before_charge(folder, request, where, table)
    if found is not None:
        with paused():
            accepted(
                found,
                share=where.asks_above,
                spec=options.spec,
                page=page_file(folder.path),
                accept=options.accept_misfits,
                may_ask=options.may_ask,
            )
    return supersede


def _taken_in(
    request: Request, options: RunOptions, where: Workspace, folder: RunFolder
) -> tuple[PrivateTable, bool]:
    """Take the data in; of a second version that nobody asked for, ask the person at the terminal."""
    from flows.periods.publications import SecondVersion
    from flows.prepare import intake

    try:
        return intake(folder, request, where, supersede=options.supersede), options.supersede
    except SecondVersion as refused:
        if not (options.may_ask and sys.stdin.isatty() and sys.stderr.isatty()):
            raise
        [finding] = refused.findings
        with paused():
            typer.echo(f"{finding.where}: {finding.found}.", err=True)
            if not typer.confirm("Make another version, and charge for it?", default=False, err=True):
                raise
    return intake(folder, request, where, supersede=True), True
