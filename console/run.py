"""`sudare run`: one release, from the table to the published version."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console

from console.errors import Interrupted
from console.options import AsJson, At, Spec, workspace_at
from console.render import answer, print_facts
from contracts.errors import GateBroken, SudareError
from tasks.run_folder import RunFolder, hold, run_name, sheltered
from tasks.settings import Workspace

if TYPE_CHECKING:
    from flows.outcome import Outcome
    from flows.prefect_server import PrefectServer
    from flows.request import Request

_STATES = {
    None: "nothing was charged; running the same command starts again",
    "returned": "nothing is charged; running the same command starts again",
    "reserved": "its charge is reserved and nothing was drawn; running the same command goes on with that charge",
    "opened": "its charge is spent and stays spent; running the same command resumes it and pays nothing more",
    "published": "its charge is spent and the version is entered; running the same command completes it at no cost",
}


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
    """
    from console.progress import shown
    from flows.prefect_server import prefect_server

    where = workspace_at(workspace)
    try:
        with Stop() as stop, shown(), prefect_server(where) as prefect:
            outcome = _release(spec, where, prefect, stop, keep_snapshot=keep_snapshot)
    except Exception as error:
        if stop.asked and not isinstance(error, Interrupted):
            raise Interrupted("interrupted before anything was charged") from None
        raise
    payload = outcome.to_json()
    answer(payload, lambda console: _print(console, payload), as_json=as_json)


def _release(spec: Path, where: Workspace, prefect: PrefectServer, stop: Stop, *, keep_snapshot: bool) -> Outcome:
    """Read what is asked for, hold the run's folder, and run the flow."""
    from flows.request import read_request

    request = read_request(spec, where)
    name = run_name(request.spec.release, request.spec.digest)
    with hold(where.runs, name, keep_snapshot=keep_snapshot) as folder:
        try:
            return sheltered(lambda: _flow(request, where, prefect, folder), lambda: folder.error_log)
        except (KeyboardInterrupt, SudareError) as error:
            if not stop.asked and isinstance(error, GateBroken) and folder.refusal is not None:
                error = folder.refusal  # what came back through Prefect says less
            if not stop.asked:
                error.add_note(f"charge: {_STATES[folder.charge]}")
                raise error from None
            raise Interrupted(f"{request.spec.release} was interrupted: {_STATES[folder.charge]}") from None


def _flow(request: Request, where: Workspace, prefect: PrefectServer, folder: RunFolder) -> Outcome:
    """Run the flow; while a server of our own starts, take the data in already."""
    from flows.intake import intake
    from flows.lineage import lineage_of
    from flows.release import release

    with lineage_of(request, where) as tell:
        if prefect.embedded:
            intake(folder, request, where)
        prefect.wait()
        with prefect.connected():
            outcome = release(str(request.spec.path), str(where.root), folder.keep_snapshot)
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
