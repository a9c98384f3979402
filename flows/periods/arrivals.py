"""Which periods have arrived: over, not published, and their files are there and at rest. Reads no row."""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from contracts.errors import Finding, SpecRefused
from contracts.periods.period import Period
from contracts.release.source import Source
from contracts.release.spec import load_spec
from flows.periods.publications import PeriodStanding, standings
from flows.periods.state import PeriodState, may_run
from tasks.storage.sources.source import source_kind
from tasks.storage.workspace.run_folder import LOST
from tasks.storage.workspace.settings import Workspace


@dataclass(frozen=True)
class Arrival:
    """A period that can be released now.

    Args:
        period: which.
        key: another one whenever its files are written, or an attempt at it ends: what is queued under it is queued
            once. It tells nobody when that was.
    """

    period: Period
    key: str


def arrived(
    spec: Path, periods: Sequence[Period], workspace: Workspace, *, today: date, quiet: timedelta
) -> list[Arrival]:
    """Return the periods that can be released now.

    Args:
        spec: a release spec with `period:`, of files, here or in an S3-compatible store.
        periods: which periods.
        workspace: knows what is published, and what was tried when.
        today: periods that end later are not over.
        quiet: for how long nobody must have written to a source.
    Raises:
        SpecRefused: the source is a table of a server, of which nobody hears when it is written to.
        StoreRefuses, StoreAway: the store does not let us in, or does not answer.
    """
    found = standings(spec, periods, workspace, today=today, foresee=False)
    ready = ((each, _ready(spec, each, quiet)) for each in found if may_run(each.state))
    secret = workspace.snapshot_key()
    return [Arrival(each.period, _key(each, written, secret)) for each, written in ready if written is not None]


def _ready(spec: Path, standing: PeriodStanding, quiet: timedelta) -> datetime | None:
    """Say since when a period's files are at rest; None where they are not there, or no newer than the last attempt.

    A charged run goes on, whatever became of its files: since when it was tried.
    """
    attempt = standing.attempt
    if standing.state is PeriodState.CHARGED and (attempt is None or attempt.charge != LOST):
        return datetime.min.replace(tzinfo=UTC)
    written = _written(spec, load_spec(spec, str(standing.period)).source)
    if written is None or datetime.now(UTC) - written < quiet:
        return None
    return written if attempt is None or written > datetime.fromisoformat(attempt.at) else None


def _key(standing: PeriodStanding, written: datetime, secret: bytes) -> str:
    """Return the key of an arrival, a keyed digest: Prefect keeps it, and when rows were written is private."""
    tried = "never" if standing.attempt is None else standing.attempt.at
    told = f"arrival of {standing.release}: written {written.isoformat()}, tried {tried}"
    return f"{standing.release}: {hmac.new(secret, told.encode(), 'sha256').hexdigest()}"


def _written(spec: Path, source: Source) -> datetime | None:
    """Return when a source was last written; None where it is not there."""
    if isinstance(source.path, Path):
        return max((_time(path.stat().st_mtime) for path in _files(source.path)), default=None)
    last_written = source_kind(source.path).last_written
    if last_written is not None:
        return last_written(source, source.path)
    found, remedy = "a table of a server", "schedule it: sudare deploy --cron, or --on-event"
    raise SpecRefused([Finding(str(spec), "source.path", found, "files, here or in a store", remedy)])


def _files(source: Path) -> Iterator[Path]:
    """Yield a source's file, or its files and folders; their times tell that one came, went or was written."""
    if not source.is_dir():
        return iter([source] if source.exists() else [])
    inside = [path for path in source.rglob("*") if not path.name.startswith((".", "_"))]
    return iter([source, *inside] if any(path.is_file() for path in inside) else [])


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
