"""`sudare run --backfill A..B`: the periods that are missing, one after the other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from console.output import Interrupted, answer, as_object, present, table
from console.running import RunOptions, Stop, make_release, running
from contracts.errors import Finding, Refused, SpecRefused, SudareError
from contracts.periods.period import Period, read_periods
from contracts.release.spec import pattern_of
from flows.periods.clock import today
from flows.periods.publications import standings
from flows.periods.state import may_run
from flows.prefect_runs.server import PrefectServer
from tasks.storage.workspace.settings import Workspace


class BackfillIncomplete(Refused):
    """Some of the periods could not be released; each says why. The exit code is that of the first of them."""

    def __init__(self, errors: list[tuple[Period, SudareError]]) -> None:
        super().__init__([_failure_line(period, error) for period, error in errors])
        self.exit_code = errors[0][1].exit_code
        for period, error in errors:
            for note in getattr(error, "__notes__", ()):
                self.add_note(f"{period}, {note}")


def backfill(options: RunOptions, where: Workspace, written: str, *, as_json: bool) -> None:
    """Run the periods of a range that are over and not published; with `supersede` the published ones as well."""
    wanted = missing(
        options.spec, where, read_periods(written, granularity_of(options.spec)), supersede=options.supersede
    )
    release_periods(options, where, wanted, as_json=as_json)


def release_periods(
    options: RunOptions, where: Workspace, periods: list[Period], *, as_json: bool, carry_on: bool = False
) -> None:
    """Release periods one after the other and tell of each; at the end an error if one of them failed.

    Args:
        options: what is asked for, of every period alike.
        where: the workspace.
        periods: which periods.
        as_json: how to tell.
        carry_on: whether to show errors and return.
    Raises:
        BackfillIncomplete: one of them failed.
    """
    done: list[dict[str, Any]] = []
    errors: list[tuple[Period, SudareError]] = []
    if periods:
        with running(where) as (prefect, stop):
            for period in periods:
                one = replace(options, period=str(period), early=False)
                done.append(_release_period(one, period, where, prefect, stop, errors))
    failed = BackfillIncomplete(errors) if errors else None
    payload = {"periods": done} | ({"error": as_object(failed)} if failed and as_json else {})
    answer(payload, lambda console: _print(console, done), as_json=as_json)
    if failed and carry_on and not as_json:
        present(failed, as_json=False)
    elif failed and as_json and not carry_on:
        raise typer.Exit(failed.exit_code)
    elif failed and not carry_on:
        raise failed


def granularity_of(spec: Path) -> Any:
    """Return the length of a spec's periods; refuse a spec of one release."""
    found = pattern_of(spec)
    if found is None:
        remedy = "add period: quarter (or day, week, month, year) and a source that goes by it: docs/platform.md"
        raise SpecRefused([Finding(str(spec), "period", "a spec of one release", "a spec with `period:`", remedy)])
    return found


def missing(spec: Path, where: Workspace, periods: tuple[Period, ...], *, supersede: bool) -> list[Period]:
    """Return the periods that are over and not published; with `supersede` all that are over."""
    found = standings(spec, periods, where, today=today(), foresee=False)
    return [each.period for each in found if may_run(each.state, supersede=supersede)]


def _release_period(
    options: RunOptions,
    period: Period,
    where: Workspace,
    prefect: PrefectServer,
    stop: Stop,
    errors: list[tuple[Period, SudareError]],
) -> dict[str, Any]:
    """Release one period; an error is kept, and the next period is tried."""
    try:
        return {"period": str(period), "outcome": make_release(options, where, prefect, stop).to_json()}
    except Interrupted:
        raise
    except SudareError as error:
        errors.append((period, error))
        return {"period": str(period), "error": as_object(error)}


def _failure_line(period: Period, error: SudareError) -> Finding:
    first = error.findings[0] if isinstance(error, Refused) else None
    if first is None:
        return Finding(str(period), "run", str(error), "a run that ends well")
    return Finding(f"{period}, {first.where}", first.field, first.found, first.allowed, first.remedy)


def _print(console: Console, done: list[dict[str, Any]]) -> None:
    if not done:
        console.print("Nothing is missing: every period that is over is published.")
        return
    console.print(table(("period", "outcome", "where"), [_row(each) for each in done]))


def _row(row: dict[str, Any]) -> tuple[str, str, str]:
    outcome = row.get("outcome")
    if outcome is None:
        return row["period"], "not published", "-"
    said = "published already" if outcome["repeated"] else "published"
    return row["period"], f"{said} as {outcome['release']} v{outcome['version']}", outcome["folder"]
