"""The budget's calendar: what each scheduled release costs, how often it still fits, and when it is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from cronsim import CronSim

from contracts.errors import SudareError
from flows.request import read_request
from privacy.ledger.forecast import Refusal, Remaining, ScheduledRun, first_refusals, remaining_of, runs_left
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import AccountState, ChargePart
from tasks.products.charge_request import request_for
from tasks.storage.workspace.settings import Scheduled, Workspace

HORIZON: Final = timedelta(days=3653)


@dataclass(frozen=True)
class Forecast:
    """A scheduled release against the accounts as they stand.

    Args:
        spec: the spec's file, as sudare.toml names it.
        cron: when it runs.
        release: name of the product; None where the spec cannot be followed.
        following: when it runs next.
        parts: what each run takes from each account.
        failure: what the selections of keys of each run may fail with [10⁻¹⁸].
        runs_left: how many more runs fit if nothing else is charged.
        trouble: why it would not run at all, in a line; None where nothing is in its way.
    """

    spec: str
    cron: str
    release: str | None
    following: datetime
    parts: tuple[ChargePart, ...]
    failure: int
    runs_left: int
    trouble: str | None


def forecasts(ledger: Ledger, workspace: Workspace, *, now: datetime) -> list[Forecast]:
    """Return a forecast for each entry of the workspace's schedule. Reads no data."""
    remaining = remaining_of(ledger.accounts())
    return [_forecast(ledger, entry, workspace, remaining, now) for entry in workspace.schedule]


def _forecast(
    ledger: Ledger, entry: Scheduled, workspace: Workspace, remaining: dict[str, Remaining], now: datetime
) -> Forecast:
    following = next(CronSim(entry.cron, now))
    release = None
    try:
        request = read_request(entry.path, workspace)
        release = request.spec.release
        priced = ledger.price(request_for(request.spec, request.contract, request.plan))
    except SudareError as error:
        trouble = " ".join(str(error).split())
        return Forecast(entry.spec, entry.cron, release, following, (), 0, 0, trouble)
    parts, failure = priced.parts, priced.failure
    left = runs_left(parts, remaining, failure=failure)
    return Forecast(entry.spec, entry.cron, release, following, parts, failure, left, None)


def refusals(accounts: Sequence[AccountState], forecasts: Sequence[Forecast], *, now: datetime) -> dict[str, Refusal]:
    """Return, by account, the first scheduled run that it refuses within ten years, if all run as scheduled."""
    scheduled = [
        ScheduledRun(each.release or each.spec, each.parts, CronSim(each.cron, now), each.failure)
        for each in forecasts
        if each.parts
    ]
    return first_refusals(scheduled, remaining_of(accounts), until=now + HORIZON)
