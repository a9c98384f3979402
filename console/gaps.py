"""`sudare releases gaps`: which periods of a release are missing, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from console.backfill import granularity_of
from console.output import AsJson, At, Spec, answer, table, workspace_at
from contracts.periods.period import Period, last_complete, period_of, read_periods
from flows.periods.clock import today
from flows.periods.publications import PeriodStanding, first_published, standings
from flows.periods.state import PeriodState


def gaps(
    spec: Spec,
    periods: Annotated[
        str | None, typer.Option(metavar="A..B", help="Which periods; without it from the first that was published.")
    ] = None,
    private: Annotated[
        bool,
        typer.Option("--private", help="Also say how the last attempts ended: facts about the data, for auditors."),
    ] = False,
    everything: Annotated[bool, typer.Option("--all", help="List the published periods as well.")] = False,
    workspace: At = None,
    as_json: AsJson = False,
) -> None:
    """Say which periods of a release are missing, and why.

    What is shown comes from the ledger and the calendar and may be public.
    Why an attempt ended may tell something about the data; only --private
    shows that.

    Examples:

        sudare releases gaps visits.yaml

        sudare releases gaps visits.yaml --periods 2024Q1..2025Q4 --private
    """
    where = workspace_at(workspace)
    chosen = _chosen(spec, periods, where)
    found = standings(spec, chosen, where, today=today())
    shown = [each for each in found if everything or each.state not in (PeriodState.PUBLISHED, PeriodState.NOT_OVER)]
    payload = {"periods": [_object(each, private=private) for each in shown], "looked_at": len(found)}
    answer(payload, lambda console: _print(console, payload, private=private), as_json=as_json)


def _chosen(spec: Path, written: str | None, where: Any) -> tuple[Period, ...]:
    """Return the periods of a range; without one from the first published to the last that is over."""
    granularity = granularity_of(spec)
    if written is not None:
        return read_periods(written, granularity)
    last = last_complete(today(), granularity)
    begin = first_published(spec, granularity, where)
    if begin is None or begin.block.begins > last.block.begins:
        return (period_of(last.first, granularity),)
    return read_periods(f"{begin}..{last}", granularity)


def _object(standing: PeriodStanding, *, private: bool) -> dict[str, Any]:
    told = {
        "period": str(standing.period),
        "release": standing.release,
        "state": standing.state,
        "version": standing.version,
        "told": standing.description,
    }
    return told | ({"private": standing.private_reason} if private else {})


def _print(console: Console, payload: dict[str, Any], *, private: bool) -> None:
    rows = payload["periods"]
    if not rows:
        console.print(f"Nothing is missing among {payload['looked_at']} periods.")
        return
    headings = ("period", "release", "how it stands", *(("last attempt (private)",) if private else ()))
    console.print(
        table(
            headings,
            [
                (each["period"], each["release"], each["told"], *((each["private"],) if private else ()))
                for each in rows
            ],
        )
    )
