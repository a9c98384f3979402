"""`sudare deploy`, `sudare work` and `sudare watch`: releases that are made when they are due."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from time import sleep
from typing import Annotated, Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer
from cronsim import CronSim, CronSimError
from rich.console import Console

from console.backfill import granularity_of, missing, release_periods
from console.output import AsJson, At, Spec, UsageRefused, answer, print_facts, terminal, workspace_at
from console.running import RunOptions
from contracts.periods.period import Period, last_complete, read_periods
from flows.periods.arrivals import Arrival, arrived
from flows.periods.clock import today
from flows.prefect_runs.deployment import Deployed, Terms, queue_arrivals, server_of, standing_terms
from flows.prefect_runs.deployment import deploy as make
from flows.prefect_runs.deployment_checks import check_deployable
from flows.prefect_runs.worker import work as take_runs
from tasks.storage.workspace.settings import Workspace, blocks_of

LAST_SECONDS: Final = 30.0
Pool = Annotated[str, typer.Option(help="The work pool.")]


def deploy(
    spec: Spec,
    cron: Annotated[
        str | None, typer.Option(help="When it runs: minute hour day month weekday; none: only on demand.")
    ] = None,
    timezone: Annotated[
        str | None, typer.Option(help="Time zone of the cron, such as Europe/Oslo; UTC else.")
    ] = None,
    on_event: Annotated[
        bool | None,
        typer.Option(
            "--on-event/--no-on-event", help="Also run when an event sudare.partition.arrived names a period."
        ),
    ] = None,
    backfill: Annotated[
        str | None, typer.Option(metavar="A..B", help="Also queue the periods from A to B that are not published.")
    ] = None,
    supersede: Annotated[
        bool | None,
        typer.Option(
            "--supersede/--no-supersede",
            help="Each run may make, and charge for, another version of what is published.",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the deployment; that of the release without it.")] = None,
    pool: Annotated[str | None, typer.Option(help="The work pool; sudare without it.")] = None,
    workspace: At = None,
    as_json: AsJson = False,
) -> None:
    """Make a Prefect deployment of a release, for workers (`sudare work`) to run when it is due.

    A spec with `period:` releases the last period that is over. Runs of one
    account wait for each other. Deploying again changes what it names, keeps
    the rest, and says what changed.
    A spec on a cron says when it is drawn again: `redraw: on_schedule` charges
    and publishes each due date, whatever the rows are. Contract, spec and
    account are looked at first: what could never run is not deployed.

    Examples:

        sudare deploy visits.yaml --cron "0 6 5 1,4,7,10 *"

        sudare deploy visits.yaml --backfill 2024Q1..2025Q4
    """
    where, wanted = workspace_at(workspace), _checked(cron)
    _check_zone(timezone)
    named = Terms(pool, wanted, timezone, on_event, supersede)
    _deployable(spec, where, Terms(timezone=timezone))  # what needs no server is refused without one
    periods = _missing(spec, where, backfill)
    with server_of(where) as url:
        standing = asyncio.run(standing_terms(spec, name=name))
        terms = named.over(standing or Terms())
        told = _deployable(spec, where, terms)
        deployed = asyncio.run(make(spec, where, terms, name=name, periods=periods))
    changes = () if standing is None else terms.changes_from(standing)
    deployed = replace(deployed, changes=changes)
    payload = {**vars(deployed), "id": str(deployed.id), "submitted": list(deployed.submitted), "server": url}
    payload["budget"] = told
    answer(payload, lambda console: _print(console, deployed, url, told), as_json=as_json)


def work(
    pool: Pool = "sudare",
    name: Annotated[str | None, typer.Option(help="Name of the worker.")] = None,
    grace: Annotated[
        float, typer.Option(min=1.0, help="Seconds that a run may take until its process shows itself.")
    ] = 120.0,
    every: Annotated[float, typer.Option(min=1.0, help="Seconds between looks for lost runs.")] = 15.0,
    workspace: At = None,
    as_json: AsJson = False,
) -> None:
    """Run scheduled releases until it is stopped; start several for several releases at once.

    All workers of a pool share the workspace's folder, and a PostgreSQL ledger
    if they are on several machines. Runs whose process was killed are started
    again, and go on without paying twice. It says in a line that a run starts
    and how it ends, and waits for a Prefect server that is away.

    Examples:

        sudare work --name worker-1
    """
    where = workspace_at(workspace)
    with server_of(where) as url:
        payload = {"pool": pool, "server": url, "workspace": str(where.root)}
        told = f"working for pool {pool} of {url}; Ctrl-C ends it"
        answer(payload, lambda _: terminal(errors=True).print(told), as_json=as_json)
        asyncio.run(
            _until_stopped(
                take_runs(
                    pool=pool,
                    name=name,
                    live=where.live,
                    grace=timedelta(seconds=grace),
                    every=every,
                    on_message=_log,
                )
            )
        )


def _log(line: str) -> None:
    """Tell a line of a worker, with the time, on standard error."""
    terminal(errors=True).print(f"{datetime.now():%H:%M:%S} {line}", markup=False, highlight=False, soft_wrap=True)


async def _until_stopped(working: Any) -> None:
    """Work until SIGTERM or SIGINT; if what is left to do takes too long, end in any case: that is always safe."""
    task = asyncio.ensure_future(working)
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, _stop, task)
    try:
        await task
    except asyncio.CancelledError:
        return


def _stop(task: asyncio.Future[Any]) -> None:
    last = threading.Timer(LAST_SECONDS, os._exit, (0,))
    last.daemon = True
    last.start()
    task.cancel()


def watch(
    spec: Spec,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between looks.")] = 60.0,
    quiet: Annotated[float, typer.Option(min=0.0, help="Seconds for which nobody has written to a source.")] = 60.0,
    periods: Annotated[
        str | None, typer.Option(metavar="A..B", help="Which periods; without it the last that is over.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Look once and end.")] = False,
    queue: Annotated[
        bool, typer.Option("--queue", help="Queue runs for workers (sudare work) rather than run them here.")
    ] = False,
    name: Annotated[
        str | None, typer.Option(help="With --queue: name of the deployment, as for sudare deploy.")
    ] = None,
    workspace: At = None,
    as_json: AsJson = False,
) -> None:
    """Release periods as their files arrive: those that are over, not published, and delivered.

    A source of files, here or in an S3-compatible store, counts as delivered when
    nobody has written to it for a while, and since the last attempt somebody has.
    Tables of servers are not watched: schedule them.

    Examples:

        sudare watch visits.yaml --periods 2024Q1..2025Q4

        sudare watch visits.yaml --once

        sudare watch visits.yaml --queue
    """
    where, granularity = workspace_at(workspace), granularity_of(spec)
    told: set[str] = set()
    with server_of(where) if queue else blocks_of(where):
        while True:
            chosen = (last_complete(today(), granularity),) if periods is None else read_periods(periods, granularity)
            found = arrived(spec, chosen, where, today=today(), quiet=timedelta(seconds=quiet))
            ready = [each for each in found if each.key not in told]
            if ready and queue:
                _queue(spec, ready, name, as_json=as_json)
                told |= {each.key for each in ready}
            elif ready:
                _release(spec, ready, where, as_json=as_json, carry_on=not once)
            elif once:
                answer({"periods": []}, lambda console: console.print("Nothing has arrived."), as_json=as_json)
            if once:
                return
            sleep(every)


def _release(spec: Path, ready: Sequence[Arrival], where: Workspace, *, as_json: bool, carry_on: bool) -> None:
    """Run what has arrived here."""
    options = RunOptions(spec, unattended=True)
    release_periods(options, where, [each.period for each in ready], as_json=as_json, carry_on=carry_on)


def _queue(spec: Path, ready: Sequence[Arrival], name: str | None, *, as_json: bool) -> None:
    queued = asyncio.run(queue_arrivals(spec, ready, name=name))
    payload = {"deployment": queued.name, "pool": queued.pool, "submitted": list(queued.submitted)}
    facts = [("deployment", queued.name), ("queued", ", ".join(queued.submitted))]
    answer(payload, lambda console: print_facts(console, facts), as_json=as_json)


def _deployable(spec: Path, where: Workspace, terms: Terms) -> str:
    return check_deployable(
        spec, where, cron=terms.cron or None, timezone=terms.timezone, supersede=bool(terms.supersede)
    )


def _missing(spec: Path, where: Workspace, written: str | None) -> list[Period]:
    if written is None:
        return []
    return missing(spec, where, read_periods(written, granularity_of(spec)), supersede=False)


def _checked(cron: str | None) -> str | None:
    """Refuse a cron that never comes."""
    if cron in (None, "none"):
        return None if cron is None else ""
    try:
        next(CronSim(cron, datetime(2026, 1, 1)))
    except (CronSimError, StopIteration):
        raise UsageRefused(
            "sudare deploy", f"--cron {cron[:60]!r}", "five fields that occur, such as '0 6 1 * *'"
        ) from None
    return cron


def _check_zone(timezone: str | None) -> None:
    try:
        ZoneInfo(timezone or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageRefused(
            "sudare deploy", f"--timezone {str(timezone)[:60]!r}", "a zone such as Europe/Oslo"
        ) from None


def _print(console: Console, deployed: Deployed, url: str, budget: str) -> None:
    facts = [
        ("deployment", deployed.name),
        ("server", url),
        ("pool", deployed.pool),
        ("queue", f"{deployed.queue}: one run at a time"),
        ("runs", deployed.cron or "when it is asked to"),
        ("budget", budget),
        *([("changed", "; ".join(deployed.changes))] if deployed.changes else []),
    ]
    if deployed.submitted:
        facts.append(("queued", ", ".join(deployed.submitted)))
    print_facts(console, [*facts, ("next", f"sudare work --pool {deployed.pool}")])
