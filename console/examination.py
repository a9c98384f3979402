"""What `sudare doctor` looks at: one function for each matter, each of which reads and changes nothing.

No row is read, and nothing of a run's private folder. What is told is of the machine and of what is public in the
workspace.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal

from console.commands import IMPORTED
from contracts.errors import SudareError
from flows.capacity import free_megabytes, memory_megabytes
from flows.prefect_runs.prefect_database import DATABASE
from privacy.ledger.ledger import Ledger
from tasks.checkpoints import proofs_in, published_checkpoints
from tasks.storage.workspace.keys import read_key
from tasks.storage.workspace.settings import Workspace
from tasks.verification.advisories import Advisory, concerning
from tasks.verification.public_keys import read_public_key

Health = Literal["good", "notable", "wrong"]
_LEAST_PYTHON: Final = (3, 11)
_LEAST_FREE: Final = 1024
"""Megabytes: a small release takes a few, its snapshot as many as its source."""
_SKEW: Final = timedelta(hours=1)
"""The journal's hours are rounded down, so an entry is never later than the clock that wrote it."""
_BEGUN: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""No clock that is right says less."""
_LATE: Final = timedelta(minutes=5)
_MOST_LATE: Final = 200
_EXTRAS: Final = (
    ("engines", "ibis", "engine: spark"),
    ("s3", "boto3", "addresses that begin with s3://"),
    ("iceberg", "pyiceberg", "Iceberg tables"),
    ("evaluate", "xgboost", "scores of synthetic rows"),
    ("neural", "torch", "networks"),
)
"""An extra, a package of it, and what it is for."""


@dataclass(frozen=True)
class Observation:
    """What was seen of one matter.

    Args:
        matter: what was looked at.
        health: whether it is good, worth knowing, or wrong.
        found: what was seen, in words.
        remedy: what to do; empty where nothing needs doing.
    """

    matter: str
    health: Health
    found: str
    remedy: str = ""


def examine(workspace: Workspace | None, *, now: datetime) -> Iterator[Observation]:
    """Yield the observations, in the order in which a person would mend what is wrong.

    Args:
        workspace: the one that was named or found; None where there is none.
        now: the time of the machine's clock, with its zone.
    """
    yield _python()
    yield from _packages()
    yield _clock(now)
    if workspace is None:
        remedy = "sudare init DIR makes one; --workspace DIR names one that lies elsewhere"
        yield Observation("workspace", "notable", "none here or above", remedy)
        return
    yield from _folders(workspace)
    yield _keys(workspace)
    yield from _ledger(workspace, now)
    yield from _advisories(workspace)
    yield _prefect(workspace, now)


def _python() -> Observation:
    found = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    if sys.version_info < _LEAST_PYTHON:
        return Observation("python", "wrong", found, "install Python 3.11 or newer")
    if platform.system() != "Linux":
        return Observation(
            "python", "notable", found, "Sudare is tested on Linux; file locks of other systems are not tried"
        )
    return Observation("python", "good", f"{found}, {memory_megabytes() / 1024:.0f} GB of memory")


def _packages() -> Iterator[Observation]:
    """Look for what the pipeline needs, and name the extras that are there."""
    missing = [name for name in IMPORTED if find_spec(name) is None]
    if missing:
        found = f"the checker alone: {', '.join(missing)} not installed"
        yield Observation("packages", "wrong", found, "pip install 'sudare[publish]'")
    else:
        names = ("prefect", "duckdb", "polars", "great-expectations")
        yield Observation("packages", "good", ", ".join(f"{name} {_version(name)}" for name in names))
    there = [extra for extra, package, _ in _EXTRAS if find_spec(package) is not None]
    absent = [f"{extra} ({purpose})" for extra, package, purpose in _EXTRAS if find_spec(package) is None]
    told = ", ".join(there) or "none"
    yield Observation("extras", "good", told + (f"; not installed: {', '.join(absent)}" if absent else ""))


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "of no known version"


def _clock(now: datetime) -> Observation:
    found = now.isoformat(timespec="seconds")
    if now < _BEGUN:
        return Observation("clock", "wrong", found, "set the machine's clock: journal and records carry its time")
    return Observation("clock", "good", found)


def _folders(workspace: Workspace) -> Iterator[Observation]:
    """Look whether folders can be written, are private where they must be, and have room."""
    closed = [each for each in (workspace.releases, workspace.private) if not os.access(each, os.W_OK)]
    if closed:
        remedy = "give the user that runs releases the right to write there"
        yield Observation("workspace", "wrong", f"{closed[0]} cannot be written", remedy)
    else:
        yield Observation("workspace", "good", str(workspace.root))
    mode = workspace.private.stat().st_mode & 0o777
    if mode & 0o077:
        found = f"others may enter {workspace.private} (mode {mode:o})"
        yield Observation("privacy of files", "wrong", found, f"chmod 700 {workspace.private}")
    room = free_megabytes(workspace.private)
    told = f"{room / 1024:,.1f} GB free"
    if room < _LEAST_FREE:
        yield Observation("disk", "wrong", told, "make room: a run keeps a copy of its source until it has ended")
    else:
        yield Observation("disk", "good", told)


def _keys(workspace: Workspace) -> Observation:
    """Look whether the keys are there, belong together, and are nobody else's to read."""
    try:
        public = read_public_key(workspace.public_key_file)
        read_key(workspace.keys / "snapshot.key")
        if not workspace.key_is_at_hand and not workspace.signing_place().has_secret:
            kind = workspace.signing_place().kind
            return Observation(
                "keys", "notable", f"the signing key ({kind}) was not opened", "try it: sudare keys show"
            )
        matches = workspace.signer().public_key == public
    except SudareError as error:
        return Observation("keys", "wrong", str(error), "restore .sudare/keys from a backup")
    if not matches:
        found = "the public key is not that of the signing key"
        return Observation("keys", "wrong", found, "restore .sudare/keys from a backup")
    seen = [each.name for each in workspace.keys.glob("*.key") if each.stat().st_mode & 0o077]
    if seen:
        found = f"others may read {', '.join(sorted(seen))}"
        return Observation(
            "keys", "wrong", found, f"chmod 600 {workspace.keys}/*.key, and think whether they were read"
        )
    return Observation("keys", "good", f"they sign as {public.partition('+')[0]}")


def _ledger(workspace: Workspace, now: datetime) -> Iterator[Observation]:
    """Check the whole journal, against what was published; and look for charges without a release."""
    try:
        ledger = workspace.open_ledger(create=False)
    except SudareError as error:
        stuck = not os.access(workspace.private, os.W_OK)
        remedy = "give write access first" if stuck else "restore it: sudare budget restore --help"
        yield Observation("ledger", "wrong", str(error), remedy)
        return
    try:
        key = read_public_key(workspace.public_key_file)
        checkpoints, findings = published_checkpoints(proofs_in(workspace.releases), public_key=key)
        findings += ledger.verify(checkpoints, public_key=key)
        yield _journal(ledger, findings, now)
    except SudareError as error:
        yield Observation("ledger", "wrong", str(error), "sudare budget history --verify")
    finally:
        ledger.close()


def _advisories(workspace: Workspace) -> Iterator[Observation]:
    """Look which versions an advisory concerns; a record that cannot be read is for `sudare verify`."""
    concerned: dict[Advisory, list[str]] = {}
    for file in sorted(workspace.releases.glob("*/v*/record.json")):
        with suppress(OSError, ValueError, KeyError, TypeError):
            for each in concerning(json.loads(file.read_bytes())):
                concerned.setdefault(each, []).append(" ".join(file.parts[-3:-1]))
    for each, versions in concerned.items():
        yield Observation(
            "advisory", "notable", f"{each.id} concerns {', '.join(versions)}: {each.found}", each.remedy
        )


def _journal(ledger: Ledger, findings: list[Any], now: datetime) -> Observation:
    if findings:
        found = f"{findings[0].where}: {findings[0].found}"
        return Observation("ledger", "wrong", found, "sudare budget history --verify names all of it")
    entries = list(ledger.journal())
    if entries and datetime.fromisoformat(entries[-1].at) > now + _SKEW:
        found = f"its last entry is of {entries[-1].at}, after this machine's clock"
        return Observation(
            "ledger",
            "wrong",
            found,
            "set the clock of the machine that is wrong; if this one is right: sudare budget clock --correct",
        )
    accounts = len(ledger.accounts())
    told = f"{accounts} account{'s' if accounts != 1 else ''}, {len(entries)} entries, all of which hold"
    unchecked = ledger.unchecked_indexes()
    told += f"; indexes were not checked: {unchecked}" if unchecked else ""
    remedy = "" if accounts else "sudare budget open --help"
    return Observation("ledger", "good" if accounts else "notable", told, remedy)


def _prefect(workspace: Workspace, now: datetime) -> Observation:
    """Look whether runs can be kept, and whether scheduled ones wait for a worker."""
    address = workspace.prefect_api_url
    if address is None:
        made = (workspace.prefect_home / DATABASE).exists()
        return Observation(
            "prefect", "good", "a server with each run; " + ("ready" if made else "its database is being made")
        )
    # Prefect takes seconds to import: only where it is asked
    import httpx
    from prefect.exceptions import PrefectException

    try:
        waiting = _late_runs(address, before=now - _LATE)
    except (OSError, httpx.HTTPError, PrefectException) as error:
        remedy = "start it, set PREFECT_API_AUTH_STRING if it asks who you are, or unset PREFECT_API_URL"
        return Observation(
            "prefect", "wrong", f"{address} does not answer as it should ({type(error).__name__})", remedy
        )
    if waiting:
        found = f"{address} answers; {waiting} scheduled runs are late"
        return Observation("prefect", "wrong", found, "start a worker: sudare work --help")
    return Observation("prefect", "good", f"{address} answers; no scheduled run is late")


def _late_runs(address: str, *, before: datetime) -> int:
    """Count the scheduled runs that should have begun and wait for a worker; at most `_MOST_LATE`."""
    from prefect import settings as prefect
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import (
        FlowRunFilter,
        FlowRunFilterExpectedStartTime,
        FlowRunFilterState,
        FlowRunFilterStateType,
    )
    from prefect.client.schemas.objects import StateType

    late = FlowRunFilter(
        state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.SCHEDULED])),
        expected_start_time=FlowRunFilterExpectedStartTime.model_validate({"before_": before}),
    )
    with prefect.temporary_settings({prefect.PREFECT_API_URL: address}), get_client(sync_client=True) as client:
        return len(client.read_flow_runs(flow_run_filter=late, limit=_MOST_LATE))


def nearest_workspace(folder: Path | None) -> Workspace | None:
    """Open the workspace that was named, or the nearest one; None where none is near.

    Raises:
        WorkspaceRefused: the one that was named is none, or its settings cannot be followed.
    """
    if folder is not None:
        return Workspace.open(folder)
    here = Path.cwd()
    if not any((each / "sudare.toml").exists() for each in (here, *here.parents)):
        return None
    return Workspace.find(here)
