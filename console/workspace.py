"""What `sudare doctor` looks at: one function for each matter, each of which reads and changes nothing.

No row is read, and nothing of a run's private folder. What is told is of the machine and of what is public in the
workspace.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer
from rich.console import Console
from rich.text import Text

from console.accounts import fitting
from console.main import IMPORTED
from console.output import AsJson, At, UsageRefused, answer, ledger_at, table, workspace_at
from contracts.errors import SudareError
from flows.prefect_runs.server import DATABASE
from flows.request import free_megabytes, memory_megabytes
from flows.retention import Holding, Retention, RetentionPolicy, policy_of
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import AccountState
from tasks.checkpoints import proofs_in, published_checkpoints
from tasks.storage.workspace.keys import read_key
from tasks.storage.workspace.settings import Workspace
from tasks.verification.advisories import Advisory, concerning
from tasks.verification.keys import read_public_key

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


# --- `sudare metrics`.


Labels = Mapping[str, str]
_ESCAPED: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n"}


@dataclass(frozen=True)
class Gauge:
    """One metric with its samples.

    Args:
        name: without the program's own beginning.
        about: one line of help.
        samples: labels and value of each.
    """

    name: str
    about: str
    samples: tuple[tuple[Labels, float], ...]

    def lines(self) -> Iterator[str]:
        """Yield the lines of the text format."""
        name = f"sudare_{self.name}"
        yield f"# HELP {name} {self.about}"
        yield f"# TYPE {name} gauge"
        for labels, value in self.samples:
            written = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
            yield f"{name}{{{written}}} {value:.12g}" if written else f"{name} {value:.12g}"


def metrics(
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="Write them there at once, for a textfile collector.")
    ] = None,
    workspace: At = None,
    as_json: AsJson = False,
) -> None:
    """Print what a monitoring system watches: accounts, charges, versions, checkpoints and the schedule.

    The text is Prometheus's. With --to it replaces a file at once, as node_exporter's textfile collector asks; let
    cron do that every few minutes. It reads no row, and tells nothing that the journal keeps for auditors.

    Examples:

        sudare metrics

        sudare metrics --to /var/lib/node_exporter/textfile/sudare.prom
    """
    with ledger_at(workspace) as ledger:
        gauges = tuple(gauges_of(ledger, workspace_at(workspace), now=datetime.now()))
    text = _text(gauges)
    if to is not None:
        _replace(to, text)
    payload = {each.name: [{**labels, "value": value} for labels, value in each.samples] for each in gauges}
    told = text.rstrip("\n") if to is None else f"{len(gauges)} metrics are in {to}"
    answer({"metrics": payload}, lambda console: console.print(told), as_json=as_json)


def text_of(ledger: Ledger, workspace: Workspace, *, now: datetime) -> str:
    """Return the metrics of a workspace in Prometheus's text format; arguments as for `gauges_of`."""
    return _text(gauges_of(ledger, workspace, now=now))


def _text(gauges: Iterable[Gauge]) -> str:
    return "".join(f"{line}\n" for each in gauges for line in each.lines())


def gauges_of(ledger: Ledger, workspace: Workspace, *, now: datetime) -> Iterator[Gauge]:
    """Yield the metrics of a workspace.

    Args:
        ledger: its ledger.
        workspace: says what is scheduled.
        now: this machine's local time, in which schedules are written.
    Privacy: a fold over public entries of the journal; nothing of a row.
    """
    yield Gauge("written_timestamp_seconds", "When these numbers were made.", (({}, now.timestamp()),))
    accounts = ledger.accounts()
    charges = {each.request.run_key: each for of in accounts for each in ledger.charges(account=of.terms.name)}
    yield from _of_accounts(accounts)
    yield _counted("charges", "Charges by what became of them.", (("status", c.status) for c in charges.values()))
    yield _counted("versions", "Versions by how they stand.", (("status", v.status) for v in ledger.versions()))
    yield from _of_publications(ledger)
    if workspace.schedule:
        yield from _of_schedule(ledger, workspace, now)


def _of_accounts(accounts: Iterable[AccountState]) -> Iterator[Gauge]:
    """What each account has left: as a part of its cap, and as the ε of one more release."""
    states = [(state.terms.name, state) for state in accounts]
    left = [({"account": name}, state.remaining / max(state.cap, 1)) for name, state in states]
    still = [({"account": name}, float(state.status == "open")) for name, state in states]
    fits = [
        ({"account": name, "noise": noise}, float(epsilon or 0))
        for name, state in states
        for noise, epsilon in fitting(state).items()
    ]
    yield Gauge("account_left_ratio", "What an account has left, as a part of its cap.", tuple(left))
    yield Gauge("account_open", "1 where an account may be charged.", tuple(still))
    yield Gauge("account_fits_epsilon", "The largest epsilon of one more release, by its noise.", tuple(fits))


def _of_publications(ledger: Ledger) -> Iterator[Gauge]:
    """When each release, and any of them, was last published: each publication signs a checkpoint of the journal."""
    last: dict[str, float] = {}
    releases = {version.run_key: version.release for version in ledger.versions()}
    for entry in ledger.journal():
        if entry.kind == "version_published":
            release = releases.get(str(entry.body["run_key"]), "")
            last[release] = max(_seconds(entry.at), last.get(release, 0.0))
    newest: tuple[tuple[Labels, float], ...] = (({}, max(last.values())),) if last else ()
    told = tuple(({"release": release}, at) for release, at in sorted(last.items()))
    yield Gauge("checkpoint_timestamp_seconds", "The hour of the newest signed checkpoint.", newest)
    yield Gauge("release_published_timestamp_seconds", "The hour in which a release was last published.", told)


def _of_schedule(ledger: Ledger, workspace: Workspace, now: datetime) -> Iterator[Gauge]:
    """How often each scheduled release still fits, and when it was and will be due."""
    # the plans of what is scheduled: for workspaces with a schedule
    from cronsim import CronSim

    from flows.periods.budget_calendar import forecasts

    found = [
        ({"spec": each.spec, "release": each.release or ""}, each) for each in forecasts(ledger, workspace, now=now)
    ]
    fit = tuple((labels, float(each.runs_left)) for labels, each in found)
    due = tuple((labels, each.following.timestamp()) for labels, each in found)
    past = tuple((labels, next(CronSim(each.cron, now, reverse=True)).timestamp()) for labels, each in found)
    trouble = tuple((labels, float(each.trouble is not None)) for labels, each in found)
    yield Gauge("schedule_runs_left", "How many more runs of a scheduled spec its accounts admit.", fit)
    yield Gauge("schedule_due_timestamp_seconds", "When a scheduled spec runs next.", due)
    yield Gauge("schedule_was_due_timestamp_seconds", "When a scheduled spec should last have run.", past)
    yield Gauge("schedule_trouble", "1 where a scheduled spec would not run at all.", trouble)


def _counted(name: str, about: str, labels: Iterable[tuple[str, str]]) -> Gauge:
    counted = Counter(labels)
    return Gauge(name, about, tuple(({label: text}, float(n)) for (label, text), n in sorted(counted.items())))


def _seconds(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()


def _escaped(text: str) -> str:
    return "".join(_ESCAPED.get(letter, letter) for letter in text)


def _replace(path: Path, text: str) -> None:
    """Write a file that readers see whole or not at all."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.chmod(0o640)
        partial.replace(path)
        return
    except OSError as error:
        found = error.strerror or type(error).__name__
    if not path.parent.is_dir():
        raise UsageRefused(
            "sudare metrics", f"--to {path}: no such folder", "a file in a folder that is there", "make the folder"
        )
    raise SudareError(f"{path}: the metrics cannot be written ({found}); check the permissions and the disk")


# --- `sudare prune`.


def prune(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would go, what stays, and why.")] = False,
    snapshots: Annotated[
        int | None, typer.Option(min=1, max=9999, metavar="DAYS", help="Snapshots of rows go after so many days.")
    ] = None,
    draws: Annotated[
        int | None, typer.Option(min=1, max=9999, metavar="DAYS", help="Noise goes so many days after publication.")
    ] = None,
    store: Annotated[
        list[Path] | None, typer.Option(help="Another folder that versions were published to; may be repeated.")
    ] = None,
    workspace: At = None,
    as_json: AsJson = False,
) -> None:
    """Remove private snapshots and drawn noise that nothing needs any more, by `retention` of sudare.toml.

    Snapshots go that no charge needs. Noise goes whose version is published and
    whole in the release store. Nothing goes of a charge that is reserved or open,
    of a run that goes on, of the records for auditors, or of the ledger. What is
    removed becomes a line of .sudare/retention.log first.

    Examples:

        sudare prune --dry-run

        sudare prune --snapshots 7 --draws 400
    """
    where = workspace_at(workspace)
    policy = _policy(where, snapshots, draws)
    with closing(where.open_ledger()) as ledger:
        retention = Retention(where, ledger, policy, now=datetime.now(UTC), stores=tuple(store or ()))
        if not dry_run:
            retention.finish()
        found = tuple(retention.holdings())
        gone = {each.folder for each in found if each.goes and (dry_run or retention.remove(each))}
    done = "would go" if dry_run else "removed"
    listed = [(done if each.folder in gone else "stays", each) for each in found]
    payload = {"dry_run": dry_run, "holdings": [_stated(done, each) for done, each in listed]}

    def people(console: Console) -> None:
        if not found:
            console.print("nothing private is kept that could go")
            return
        rows = [[done, each.kind, each.folder.name, f"{each.since:%Y-%m-%d}", each.because] for done, each in listed]
        console.print(table(["", "what", "of", "since", "because"], rows))

    answer(payload, people, as_json=as_json)


def _policy(where: Workspace, snapshots: int | None, draws: int | None) -> RetentionPolicy:
    """Return the policy: of the command line, else of sudare.toml.

    Raises:
        UsageRefused: neither says anything.
    """
    policy = policy_of(where)
    policy = replace(policy, snapshots=snapshots or policy.snapshots, draws=draws or policy.draws)
    if policy == RetentionPolicy(None, None):
        allowed = (
            'snapshots = "7 days" or draws = "400 days" under [retention] in sudare.toml, or --snapshots, --draws'
        )
        raise UsageRefused("sudare prune", "no policy: nothing says how long anything is kept", allowed, "set one")
    return policy


def _stated(done: str, holding: Holding) -> dict[str, str]:
    return {
        "outcome": done,
        "kind": holding.kind,
        "folder": str(holding.folder),
        "since": f"{holding.since:%Y-%m-%dT%H:%M:%SZ}",
        "because": holding.because,
    }


# --- `sudare doctor`.


WRONG: Final = 1
_MARKS: Final = {"good": ("✓", "green"), "notable": ("·", "yellow"), "wrong": ("✗", "bold red")}


def doctor(workspace: At = None, as_json: AsJson = False) -> None:
    """Look whether this machine and workspace can release: software, clock, disk, keys, ledger, Prefect, workers.

    It reads no row and changes nothing. Exit 1 where something is wrong, with what to do about it.

    Examples:

        sudare doctor

        sudare doctor --workspace /srv/releases --json
    """
    observations = list(examine(nearest_workspace(workspace), now=datetime.now(UTC)))

    def people(console: Console) -> None:
        width = max(len(seen.matter) for seen in observations)
        for seen in observations:
            mark, style = _MARKS[seen.health]
            console.print(Text(f"{mark} ", style=style) + Text(f"{seen.matter:<{width}}  {seen.found}", "default"))
            if seen.remedy:
                console.print(Text(f"{' ' * (width + 4)}{seen.remedy}", style="green"))

    answer({"observations": [asdict(seen) for seen in observations]}, people, as_json=as_json)
    if any(seen.health == "wrong" for seen in observations):
        raise typer.Exit(WRONG)
