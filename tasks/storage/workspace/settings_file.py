"""The settings file of a workspace, sudare.toml: what may stand in it, and how it is read."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contracts.errors import Finding
from contracts.plug_ins import PlugInAway, RegisteredName, absent_extension, find_all, names
from tasks.storage.workspace.keys import WorkspaceRefused, refusal
from tasks.storage.workspace.lineage_target import LINEAGE_KEYS

if TYPE_CHECKING:
    from contracts.release.about import Publisher

_SIGNER_KEYS = {
    "kind": "where the signing key lies: file, encrypted_file, or a place of an extension",
    "file": "of a key in a file, relative to .sudare/keys",
    "library": "the PKCS#11 library of a token",
    "token": "the label of a token",
    "key": "the label of a key in a token",
    "uri": "of a key that securesystemslib signs with",
    "public": "the public key of such a key, a PEM file",
    "secret_env": "the environment variable that holds the passphrase or PIN",
}
_KEYS = {
    "store.releases": 'a folder, such as "releases"',
    "ledger.url": "a SQLAlchemy URL; empty for .sudare/ledger.sqlite",
    "ledger.timeout": "seconds to wait for one answer of PostgreSQL; 120 where nothing is written",
    "ingest.memory_limit": 'a size that DuckDB understands, such as "1GB"',
    "run.asks_above": 'a share of rows, such as "1 %"; a larger one that does not fit the contract makes a run ask',
    "clock.ahead": 'how far the clock may be ahead of the journal, such as "400 days"; further, and a run asks',
    "run.schedule_stops_above": 'the same share for a scheduled run, which stops; "100 %" lets every run pass',
    "publish.fresh_for": 'how long LATEST.note is good, such as "31 days"; empty to write none',
    "publish.witnesses": "a policy of witnesses, a file; empty to ask none",
    "publish.witness_timeout": "seconds to wait for each witness; 10 where nothing is written",
    "publish.journal": 'a folder for the public journal, such as "public/journal"; empty to publish none',
    "retention.snapshots": 'how long snapshots are kept that no run needs, such as "7 days"; empty: for ever',
    "retention.draws": 'how long drawn noise is kept after its publication, such as "400 days"; empty: for ever',
    "prefect.api_url": "the URL of a running Prefect server's API; empty to start one with each run",
    **LINEAGE_KEYS,
    "telemetry.log": "a file to which events are appended, a line of JSON each; empty for none",
    "telemetry.traces": 'the URL of a collector, such as "http://127.0.0.1:4318/v1/traces"; empty for none',
    **{f"{table}.{key}": what for table in ("signer", "next_signer") for key, what in _SIGNER_KEYS.items()},
}
GROUP = "sudare.settings"
"""Tables that extensions read: each is registered by its name."""
_SCHEDULE = "schedule."
_TABLES = {key.partition(".")[0] for key in (*_KEYS, _SCHEDULE)}
_DAYS = re.compile(r"([1-9][0-9]{0,3}) days?")
_PUBLISHER = "publisher"
_CRON = 'five cron fields (minute hour day month weekday) that occur, such as "0 6 1 * *"'
TEMPLATE = """\
# A Sudare workspace. Paths are relative to this file.

[store]
releases = "releases"    # where `sudare releases` looks

[ledger]
url = ""                 # empty: .sudare/ledger.sqlite

[ingest]
memory_limit = "1GB"     # of DuckDB

[run]
asks_above = "1 %"       # `sudare run` asks when more rows of a column do not fit the contract, or are clipped
schedule_stops_above = "1 %"    # a scheduled run stops then; "100 %": it never does

[clock]
ahead = "400 days"       # a clock further ahead of the journal's last entry makes `sudare run` ask

[publish]
journal = ""             # a folder: the journal for the public, as tiles; empty: none

[retention]              # what `sudare prune` removes; empty: nothing
snapshots = ""           # of confidential rows that no run needs any more, such as "7 days"
draws = ""               # noise of published versions, such as "400 days"

[prefect]
api_url = ""             # of a running Prefect server; empty: each run starts its own

[lineage]                # OpenLineage events of runs: `url` of a server, or a `file`
# file = "lineage.ndjson"

[telemetry]              # of runs, for those who operate: a `log` of events, and the `traces` of steps
# log = "sudare.ndjson"
# traces = "http://127.0.0.1:4318/v1/traces"     # a collector (OTLP over HTTP)

[publisher]              # public declarations, the same in all records; `about:` of a spec wins
# curator = "Office of Statistics"
# contact = "privacy@example.org"

[signer]                 # where the signing key lies; file: .sudare/keys/signing.key
kind = "file"            # or encrypted_file, or a place of an extension: see the manual on keys

[schedule]               # spec = "cron": what `sudare budget show` reckons with
# "specs/adult.yaml" = "0 6 1 * *"
"""


@dataclass(frozen=True)
class SettingsTable:
    """A table of sudare.toml that an extension reads.

    Args:
        keys: what each of its keys is, by table and key.
        check: refuses settings that cannot be followed, from the workspace's root and all settings.
    """

    keys: Mapping[str, str]
    check: Callable[[Path, Mapping[str, str]], object]


@dataclass(frozen=True)
class Scheduled:
    """A release spec and when it runs.

    Args:
        spec: the spec's file as it is written in sudare.toml.
        path: the file, absolute.
        cron: five fields, in the machine's local time.
    """

    spec: str
    path: Path
    cron: str


def read_settings(file: Path) -> tuple[dict[str, str], Any]:
    """Read the settings: those of one word by table and key, and the publisher's declarations as they are written.

    Raises:
        WorkspaceRefused: no TOML, an unknown key, or a value that is no text.
    """
    try:
        written = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise refusal(str(file), "TOML", str(error), "a readable TOML file") from error
    publisher = written.pop(_PUBLISHER, None)
    flat: dict[str, Any] = {}
    for table, keys in written.items():
        flat |= {f"{table}.{key}": value for key, value in keys.items()} if isinstance(keys, dict) else {table: keys}
    tables = [_table_of(file, found) for name in written.keys() - _TABLES for found in find_all(GROUP, name)]
    known = {**_KEYS, **{key: what for read in tables for key, what in read.keys.items()}}
    findings = [_unknown(file, key) for key in flat if key not in known and not key.startswith(_SCHEDULE)]
    findings += [
        Finding(str(file), key, f"a {type(value).__name__}", known.get(key, _CRON), "put it in quotes")
        for key, value in flat.items()
        if not isinstance(value, str) and (key in known or key.startswith(_SCHEDULE))
    ]
    if findings:
        raise WorkspaceRefused(findings)
    for read in tables:
        read.check(file.parent, flat)
    return flat, publisher


def read_share(file: Path, values: Mapping[str, str], key: str) -> Fraction:
    """Read a share of rows in per cent; 1 % where none is written.

    Raises:
        WorkspaceRefused: no share from 0 % to 100 %.
    """
    written = values.get(key) or "1 %"
    found = re.fullmatch(r"(\d{1,3}(?:\.\d{1,6})?) ?%", written.strip())
    share = Fraction(found[1]) / 100 if found else None
    if share is None or share > 1:
        allowed = 'a share of rows from "0 %" to "100 %"'
        raise refusal(str(file), key, repr(written[:60]), allowed, 'write it in per cent, such as "1 %"')
    return share


def read_days(file: Path, values: Mapping[str, str], key: str) -> int | None:
    """Read a number of days; None where none is written.

    Raises:
        WorkspaceRefused: it is written in another form.
    """
    written = values.get(key, "")
    if not written:
        return None
    found = _DAYS.fullmatch(written.strip())
    if found is None:
        allowed, remedy = 'a number of days, such as "31 days"', "correct it, or leave it out"
        raise refusal(str(file), key, repr(written[:60]), allowed, remedy)
    return int(found[1])


def read_seconds(file: Path, values: Mapping[str, str], key: str) -> float | None:
    """Read a number of seconds; None where none is written.

    Raises:
        WorkspaceRefused: it is written in another form.
    """
    written = values.get(key, "").strip()
    if not written:
        return None
    if not written.isdecimal() or not 1 <= int(written) <= 86_400:
        allowed, remedy = "a whole number of seconds from 1 to 86400", "correct it, or leave it out"
        raise refusal(str(file), key, repr(written[:60]), allowed, remedy)
    return float(written)


def read_publisher(file: Path, written: Any) -> Publisher | None:
    """Read what the publisher declares of all its releases.

    Raises:
        WorkspaceRefused: a key or value that `about:` does not have.
    """
    if not written:
        return None
    from pydantic import ValidationError

    from contracts.reading.validation_errors import from_values
    from contracts.release.about import Publisher

    try:
        return Publisher.model_validate(written)
    except ValidationError as error:
        raise WorkspaceRefused(from_values(str(file), (_PUBLISHER,), error, Publisher)) from None


def read_schedule(file: Path, values: Mapping[str, str]) -> tuple[Scheduled, ...]:
    """Read the schedule; specs are relative to the workspace's root.

    Raises:
        WorkspaceRefused: five fields that are no cron, or never occur.
    """
    from cronsim import CronSim, CronSimError

    entries, findings = [], []
    for key, cron in values.items():
        if key.startswith(_SCHEDULE):
            spec = key.removeprefix(_SCHEDULE)
            try:
                next(CronSim(cron, datetime(2026, 1, 1)))
            except (CronSimError, StopIteration):
                findings.append(Finding(str(file), f'schedule."{spec}"', repr(cron[:60]), _CRON, "correct it"))
            entries.append(Scheduled(spec, file.parent / spec, cron))
    if findings:
        raise WorkspaceRefused(findings)
    return tuple(entries)


def _table_of(file: Path, registered: RegisteredName) -> SettingsTable:
    try:
        table: SettingsTable = registered.load(SettingsTable)
    except PlugInAway as error:
        where, found = registered.point.name, f"a table {error.found}"
        raise refusal(str(file), where, found, error.allowed, error.remedy) from None
    return table


def _unknown(file: Path, key: str) -> Finding:
    extension = absent_extension(GROUP, key.partition(".")[0])
    if extension is not None:
        found = f"a key of the extension {extension}, which is not installed"
        return Finding(str(file), key, found, "keys of what is installed", "install it, or delete the key")
    allowed = ", ".join([*_KEYS, *(f"{name}.*" for name in (*names(GROUP), _PUBLISHER))])
    return Finding(str(file), key, "an unknown key", allowed, "correct its spelling or delete it")
