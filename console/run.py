"""`sudare run`: one release, from the table to the published version."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console

from console.errors import Interrupted
from console.options import AsJson, At, Spec, workspace_at
from console.render import answer, print_facts
from contracts.errors import GateBroken, SudareError
from tasks.run_folder import CHARGE_STATES, RunFolder, hold, run_name, sheltered
from tasks.settings import Workspace

if TYPE_CHECKING:
    from flows.outcome import Outcome
    from flows.prefect_server import PrefectServer
    from flows.request import Request


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


def run(
    spec: Spec,
    period: Annotated[
        str | None, typer.Option(help="Which period, for a spec with `period:`: 2024Q3, 2024-07, 2024.")
    ] = None,
    backfill: Annotated[
        str | None, typer.Option(metavar="A..B", help="Run the periods from A to B that are not published.")
    ] = None,
    supersede: Annotated[
        bool, typer.Option("--supersede", help="Make another version of a published period if its rows have changed.")
    ] = False,
    early: Annotated[bool, typer.Option("--early", help="Release a period that is not over, as it stands.")] = False,
    keep_snapshot: Annotated[
        bool, typer.Option("--keep-snapshot", help="Keep the private snapshot of the table when the run has ended.")
    ] = False,
    workspace: At = None,
    as_json: AsJson = False,
) -> None:
    """Make one release; ends with where it is, what it cost and what is left.

    The same spec on the same rows is the same run. After an interruption it
    resumes and pays nothing twice; when it is published already, it says so.

    Examples:

        sudare run examples/adult/tables.yaml

        sudare run examples/adult/tables.yaml --workspace /srv/releases --json

        sudare run visits.yaml --period 2024Q3

        sudare run visits.yaml --backfill 2024Q1..2025Q4
    """
    where = workspace_at(workspace)
    if backfill is not None:
        from console.backfill import backfill as run_missing

        run_missing(spec, where, backfill, supersede=supersede, keep_snapshot=keep_snapshot, as_json=as_json)
        return
    asked = Asked(spec, period, supersede, keep_snapshot, early)
    with running(where) as (prefect, stop):
        outcome = make_release(asked, where, prefect, stop)
    payload = outcome.to_json()
    answer(payload, lambda console: _print(console, payload), as_json=as_json)


@dataclass(frozen=True)
class Asked:
    """What the command line asks for.

    Args:
        spec: the release spec.
        period: which period.
        supersede: whether a published period gets another version if its rows have changed.
        keep_snapshot: whether the private snapshot outlives the run.
        early: whether a period is released that is not over.
    """

    spec: Path
    period: str | None = None
    supersede: bool = False
    keep_snapshot: bool = False
    early: bool = False


@contextmanager
def running(where: Workspace) -> Iterator[tuple[PrefectServer, Stop]]:
    """Have a Prefect server inside the block, show progress, and hear when somebody stops the command."""
    from console.progress import shown
    from flows.prefect_server import prefect_server

    try:
        with Stop() as stop, shown(), prefect_server(where) as prefect:
            yield prefect, stop
    except Exception as error:
        if stop.asked and not isinstance(error, Interrupted):
            raise Interrupted("interrupted before anything was charged") from None
        raise


def make_release(asked: Asked, where: Workspace, prefect: PrefectServer, stop: Stop) -> Outcome:
    """Read what is asked for, hold the run's folder, and run the flow.

    Raises:
        SudareError: with a note that says how the charge stands.
        Interrupted: somebody stopped the command.
    """
    from flows.request import read_request

    request = read_request(asked.spec, where, asked.period)
    name = run_name(request.spec.release, request.spec.digest)
    with hold(where.runs, name, keep_snapshot=asked.keep_snapshot) as folder:
        try:
            return sheltered(lambda: _flow(request, asked, where, prefect, folder), lambda: folder.error_log)
        except (KeyboardInterrupt, SudareError) as error:
            if not stop.asked and isinstance(error, GateBroken) and folder.refusal is not None:
                error = folder.refusal  # what came back through Prefect says less
            if not stop.asked:
                error.add_note(f"charge: {CHARGE_STATES[folder.charge]}")
                raise error from None
            raise Interrupted(f"{request.spec.release} was interrupted: {CHARGE_STATES[folder.charge]}") from None


def _flow(request: Request, asked: Asked, where: Workspace, prefect: PrefectServer, folder: RunFolder) -> Outcome:
    """Run the flow; while a server of our own starts, take the data in already."""
    from flows.clock import check_over, today
    from flows.intake import intake
    from flows.lineage import lineage_of
    from flows.release import release
    from flows.settled import attempt_noted, settled

    standing = settled(request, where, folder, supersede=asked.supersede)
    if standing is not None:
        return standing
    check_over(request, None if asked.early else today())
    with attempt_noted(request, where, folder), lineage_of(request, where) as tell:
        if prefect.embedded:
            intake(folder, request, where, supersede=asked.supersede)
        prefect.wait()
        with prefect.connected():
            period, keep = request.spec.block, folder.keep_snapshot
            outcome = release(
                str(request.spec.path), str(where.root), keep, period, asked.supersede, early=asked.early
            )
        tell(Path(outcome.folder))
        return outcome


def _print(console: Console, outcome: dict[str, Any]) -> None:
    done = "was published already; nothing was drawn or charged" if outcome["repeated"] else "is published"
    console.print(f"{outcome['release']} v{outcome['version']} {done}")
    print_facts(
        console,
        [
            ("release", outcome["folder"]),
            *([("copy", outcome["copy"])] if outcome["copy"] else []),
            ("record", f"{outcome['folder']}/record.html"),
            ("cost", f"ε = {outcome['epsilon']} at δ = {outcome['delta']}"),
            (
                "account",
                f"{outcome['account']}: ε = {outcome['claim']} of {outcome['epsilon_cap']} spent "
                f"at δ = {outcome['account_delta']}",
            ),
            ("left", "\n".join(_left(each) for each in (outcome, *outcome["also_charged"]))),
            ("check it", f"sudare verify {outcome['folder']} --key {outcome['public_key_file']}"),
        ],
    )


def _left(account: dict[str, Any]) -> str:
    return f"{account['account']}: {account['remaining']} of {account['cap']} {account['loss']}"
