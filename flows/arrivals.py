"""Which periods have arrived: over, not published, and their files are there and at rest. Reads no row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from contracts.errors import Finding, SpecRefused
from contracts.period import Period
from contracts.spec import load_spec
from flows.standing import MISSING, Standing, standings
from tasks.run_folder import LOST
from tasks.settings import Workspace


def arrived(
    spec: Path, periods: Sequence[Period], workspace: Workspace, *, today: date, quiet: timedelta
) -> list[Period]:
    """Return the periods that can be released now.

    Args:
        spec: a release spec with `period:`, of files.
        periods: which periods.
        workspace: knows what is published, and what was tried when.
        today: periods that end later are not over.
        quiet: for how long nobody must have written to a source.
    Raises:
        SpecRefused: the source is at an address, of which nobody hears when it is written to.
    """
    found = standings(spec, periods, workspace, today=today, foresee=False)
    return [each.period for each in found if each.state in MISSING and _is_ready(spec, each, quiet)]


def _is_ready(spec: Path, standing: Standing, quiet: timedelta) -> bool:
    """Say whether a period's files are there, at rest, and newer than the last attempt; a charged run goes on."""
    if standing.state == "charged" and (standing.attempt is None or standing.attempt.charge != LOST):
        return True
    source = load_spec(spec, str(standing.period)).source.path
    if not isinstance(source, Path):
        found, remedy = "a source at an address", "schedule it: sudare deploy --cron, or --on-event"
        raise SpecRefused([Finding(str(spec), "source.path", found, "files here", remedy)])
    written = max((_time(path.stat().st_mtime) for path in _files(source)), default=None)
    if written is None or datetime.now(UTC) - written < quiet:
        return False
    return standing.attempt is None or written > datetime.fromisoformat(standing.attempt.at)


def _files(source: Path) -> Iterator[Path]:
    """Yield a source's file, or its files and folders; their times tell that one came, went or was written."""
    if not source.is_dir():
        return iter([source] if source.exists() else [])
    inside = [path for path in source.rglob("*") if not path.name.startswith((".", "_"))]
    return iter([source, *inside] if any(path.is_file() for path in inside) else [])


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
