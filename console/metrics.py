"""`sudare metrics`: what a monitoring system watches of a workspace, in Prometheus's text format.

What accounts have left, how charges and versions stand, how old the newest checkpoint is, and what the schedule still
has room for. All of it is in open entries of the journal or in the workspace's settings, its times to the hour. Not
told is what is sealed for auditors, such as failed gates; so there is no length of the journal, which counts them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from console.accounts import fitting
from console.errors import UsageRefused
from console.options import AsJson, At, ledger_at, workspace_at
from console.render import answer
from contracts.errors import SudareError
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import AccountState
from tasks.storage.workspace.settings import Workspace

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
