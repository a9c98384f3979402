"""The workspace: where things lie, and what sudare.toml and the environment set.

Layout of a workspace (the folder that holds `sudare.toml`):
    sudare.toml           what may be set; unknown keys are refused
    releases/             what is published
    contracts/            every registered version of every contract, once one is registered
    .sudare/              private, mode 0700: ledger.sqlite, draws/, keys/, runs/, attempts/, live/, prefect/
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contracts.errors import Finding
from contracts.plug_ins import PlugInAway, RegisteredName, absent_extension, find_all, names
from tasks.storage.workspace.environment import exported
from tasks.storage.workspace.keys import WorkspaceRefused, create_keys, key_from_hex, read_key, refusal
from tasks.storage.workspace.lineage_target import LINEAGE_KEYS, NOBODY, LineageTarget, lineage_target

if TYPE_CHECKING:
    from contracts.release.terms import Publisher
    from privacy.ledger.journal.signing import SecretKey, Signer
    from privacy.ledger.ledger import Ledger
    from tasks.storage.witnesses import Witnesses
    from tasks.storage.workspace.keys import KeyPlace


# --- The settings file of a workspace, sudare.toml.


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

    from contracts.reading.findings import from_values
    from contracts.release.terms import Publisher

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


FILE = "sudare.toml"
PRIVATE = ".sudare"


@dataclass(frozen=True)
class Workspace:
    """A workspace: its folders and its settings.

    Args:
        root: the folder that holds sudare.toml, absolute.
        releases: the release store.
        ledger_url: SQLAlchemy URL of the ledger.
        memory_limit: what DuckDB may use while it ingests.
        prefect_api_url: a running Prefect server, or None to start one with each run.
        schedule: which specs run when.
        publisher: what the publisher declares of all its releases.
        lineage: where lineage events go.
        asks_above: the share of rows that do not fit the contract above which a run asks.
        schedule_stops_above: the share above which a run stops that nobody watches.
        values: the settings as they are written, by table and key.
        journal: the folder of the journal for the public; None where none is published.
        clock_ahead: how many days the clock may be ahead of the ledger's last entry before a run asks.
        ledger_timeout: how long one answer of a ledger in PostgreSQL is waited for [s].
    """

    root: Path
    releases: Path
    ledger_url: str
    memory_limit: str
    prefect_api_url: str | None
    schedule: tuple[Scheduled, ...] = ()
    publisher: Publisher | None = None
    lineage: LineageTarget = NOBODY
    asks_above: Fraction = Fraction(1, 100)
    schedule_stops_above: Fraction = Fraction(1, 100)
    values: Mapping[str, str] = field(default_factory=dict)
    journal: Path | None = None
    clock_ahead: int = 400
    ledger_timeout: float = 120.0

    @property
    def private(self) -> Path:
        """The folder that nobody but its owner may read."""
        return self.root / PRIVATE

    @property
    def contracts(self) -> Path:
        """The registry of contracts."""
        return self.root / "contracts"

    @property
    def draws(self) -> Path:
        """Where the grant writes noisy values down."""
        return self.private / "draws"

    @property
    def runs(self) -> Path:
        """The runs' private folders."""
        return self.private / "runs"

    @property
    def attempts(self) -> Path:
        """Notes of how the last attempt at each period ended."""
        return self.private / "attempts"

    @property
    def live(self) -> Path:
        """Files that the processes of scheduled runs lock while they live."""
        return self.private / "live"

    @property
    def records(self) -> Path:
        """The complete records of the published versions, for auditors."""
        return self.private / "records"

    @property
    def prefect_home(self) -> Path:
        """Prefect's own folder: its database of runs."""
        return self.private / "prefect"

    @property
    def public_key_file(self) -> Path:
        """The public half of the signing key: NAME+HASH+BASE64 and a newline."""
        return self.keys / "signing.pub"

    @property
    def keys(self) -> Path:
        """The keys: for signing and snapshots, and a publisher's that is pinned."""
        return self.private / "keys"

    def signing_place(self, table: str = "signer") -> KeyPlace:
        """Return where the signing key lies, or (`next_signer`) the one that comes after it.

        Raises:
            WorkspaceRefused: sudare.toml names no such kind of place.
        """
        from tasks.storage.workspace.keys import key_place

        return key_place(self.keys, self.root / FILE, self.values, os.environ, table)

    def signer(self, ask: Callable[[str], str] | None = None) -> Signer:
        """Return the signing key, under the name in its public half: of the environment, else from where it lies.

        SUDARE_SIGNING_KEY holds a seed as 64 hex digits, SUDARE_SIGNING_KEY_FILE names a file of 32 bytes. Else
        sudare.toml says where the key lies.

        Args:
            ask: asks a person for a passphrase or PIN; without it the environment alone is looked at.
        Raises:
            WorkspaceRefused: it is not there, cannot be opened, or is not the one of the public half.
        """
        from privacy.ledger.journal.signing import Signer

        published = self.public_key_file
        stated = published.read_text(encoding="utf-8").strip() if published.is_file() else ""
        key: bytes | SecretKey | None = _seed_from_environment()
        if key is None and self.key_is_at_hand:
            key = read_key(self.key_file)
        elif key is None:
            from tasks.storage.workspace.keys import open_key

            key = open_key(self.signing_place(), ask)
        signer = Signer(key, stated.partition("+")[0] or None)
        if stated != signer.public_key:
            remedy = "name the key that belongs to it under [signer]; to change to another one: sudare keys rotate"
            raise refusal(str(published), "signing key", "the public half of another key", "its own", remedy)
        return signer

    def witnesses(self) -> Witnesses | None:
        """Return who has to cosign checkpoints; None where sudare.toml names no policy.

        Raises:
            TooFewWitnesses: the policy cannot be read, or cannot be met.
        """
        policy = self.values.get("publish.witnesses")
        if not policy:
            return None
        from tasks.storage.witnesses import read_witnesses

        return read_witnesses(self.root / policy, self.values.get("publish.witness_timeout", ""))

    @property
    def key_file(self) -> Path:
        """The file of a key that lies in one."""
        return self.keys / (self.values.get("signer.file") or "signing.key")

    @property
    def key_is_at_hand(self) -> bool:
        """Whether signing needs no passphrase, token or service: the key is a file of its own bytes."""
        return (self.values.get("signer.kind") or "file") == "file"

    @property
    def telemetry(self) -> TelemetryTarget:
        """Who is told of the steps of runs; nobody else than a run asks."""
        pass

        return telemetry_target(self.root, self.values, os.environ)

    def open_ledger(self, *, create: bool = True) -> Ledger:
        """Open the ledger; balances are stated under the signing key where it is at hand, and believed if it did.

        A key that a passphrase or a token keeps is at hand once it was opened in this process. Without `create`, a
        database that holds no ledger is refused.
        """
        from privacy.ledger.ledger import Ledger

        file = self.public_key_file
        public_key = file.read_text(encoding="utf-8").strip() if file.is_file() else None
        signer = self.signer() if public_key is not None and self._may_sign() else None
        url, draws, timeout = self.ledger_url, self.draws, self.ledger_timeout
        return Ledger(url, draws=draws, signer=signer, public_key=public_key, timeout=timeout, create=create)

    def _may_sign(self) -> bool:
        """Say whether the signing key can be had here without asking anybody."""
        if _seed_from_environment() is not None:
            return True
        if self.key_is_at_hand:
            return self.key_file.is_file()
        from tasks.storage.workspace.keys import opened

        return opened(self.signing_place()) is not None

    def snapshot_key(self) -> bytes:
        """Return the 32 secret bytes that snapshots are hashed under."""
        return read_key(self.keys / "snapshot.key")

    @classmethod
    def create(cls, root: Path, *, name: str | None = None) -> Workspace:
        """Make a workspace: folders (0700), keys (0600) and sudare.toml, which is written last.

        Args:
            root: the folder; made when it is missing.
            name: of the signing key and its journal; one is made of the key where it is None.
        Raises:
            WorkspaceRefused: there is a workspace already, and nothing was changed; or the folder cannot be written.
        """
        root = root.absolute()
        if (root / FILE).exists():
            raise refusal(
                str(root / FILE),
                "workspace",
                "a workspace already",
                "a folder without one",
                f"go on with it: --workspace {root}",
            )
        try:
            root.mkdir(parents=True, exist_ok=True)
            for folder in (root / PRIVATE, *(root / PRIVATE / name for name in ("draws", "keys", "runs"))):
                folder.mkdir(mode=0o700, exist_ok=True)
                folder.chmod(0o700)
            (root / "releases").mkdir(exist_ok=True)
            create_keys(root / PRIVATE / "keys", seed=_seed_from_environment(), name=name)
            (root / FILE).write_text(TEMPLATE, encoding="utf-8")
        except OSError as error:
            found = error.strerror or type(error).__name__
            raise refusal(
                str(root), "folder", found, "a folder that can be written", "name one: sudare init DIR"
            ) from error
        return cls.open(root)

    @classmethod
    def open(cls, root: Path) -> Workspace:
        """Open the workspace whose sudare.toml lies in `root`.

        Raises:
            WorkspaceRefused: no workspace there, or its settings cannot be followed.
        """
        root = root.absolute()
        file = root / FILE
        if not file.is_file():
            remedy = _where_it_may_be(root) or "make one: sudare init; or say where it is: --workspace DIR"
            raise refusal(str(root), "workspace", f"no {FILE}", "a workspace", remedy)
        values, publisher = read_settings(file)
        return cls(
            root=root,
            releases=root / (values.get("store.releases") or "releases"),
            ledger_url=_ledger_url(root, os.environ.get("SUDARE_LEDGER_URL") or values.get("ledger.url", "")),
            memory_limit=values.get("ingest.memory_limit") or "1GB",
            prefect_api_url=os.environ.get("PREFECT_API_URL") or values.get("prefect.api_url") or None,
            schedule=read_schedule(file, values),
            publisher=read_publisher(file, publisher),
            lineage=lineage_target(root, values, os.environ),
            asks_above=read_share(file, values, "run.asks_above"),
            schedule_stops_above=read_share(file, values, "run.schedule_stops_above"),
            values=values,
            journal=root / values["publish.journal"] if values.get("publish.journal") else None,
            clock_ahead=read_days(file, values, "clock.ahead") or cls.clock_ahead,
            ledger_timeout=read_seconds(file, values, "ledger.timeout") or cls.ledger_timeout,
        )

    @classmethod
    def find(cls, start: Path) -> Workspace:
        """Open the workspace of SUDARE_WORKSPACE, else the nearest one from `start` upwards.

        Raises:
            WorkspaceRefused: none is found.
        """
        told = os.environ.get("SUDARE_WORKSPACE")
        if told:
            return cls.open(Path(told))
        start = start.absolute()
        return cls.open(next((folder for folder in (start, *start.parents) if (folder / FILE).is_file()), start))


def _where_it_may_be(folder: Path) -> str:
    """Say where the workspace is that was probably meant: below a folder, or beside one that is not there."""
    from contracts.reading.scalars import nearest  # with pydantic, which the help of a command does without

    around = folder if folder.is_dir() else folder.parent
    try:
        found = [each.name for each in sorted(around.iterdir()) if (each / FILE).is_file()]
    except OSError:
        return ""
    if folder.is_dir():
        return f"add --workspace {around / found[0]}" if len(found) == 1 else ""
    return nearest(folder.name, found)


@contextmanager
def blocks_of(workspace: Workspace) -> Iterator[None]:
    """Let named credentials be looked for at the Prefect server that sudare.toml names, inside the block."""
    with exported({"PREFECT_API_URL": workspace.prefect_api_url} if workspace.prefect_api_url else {}):
        yield


def _ledger_url(root: Path, written: str) -> str:
    """Return the ledger's URL; a relative SQLite file is meant from the workspace's root."""
    prefix = "sqlite:///"
    if not written:
        return f"{prefix}{root / PRIVATE / 'ledger.sqlite'}"
    return f"{prefix}{root / written.removeprefix(prefix)}" if written.startswith(prefix) else written


def _seed_from_environment() -> bytes | None:
    """Return the signing key's seed that the environment gives, or None."""
    told, file = os.environ.get("SUDARE_SIGNING_KEY"), os.environ.get("SUDARE_SIGNING_KEY_FILE")
    if told and file:
        found, allowed = "SUDARE_SIGNING_KEY and SUDARE_SIGNING_KEY_FILE", "one of the two"
        raise refusal("the environment", "signing key", found, allowed)
    if told:
        return key_from_hex(told)
    return read_key(Path(file)) if file else None


# --- Who is told of a run's steps.


@dataclass(frozen=True)
class TelemetryTarget:
    """Who is told.

    Args:
        log: the file to which events are appended, or None.
        traces: where traces are posted, or None.
    """

    log: Path | None = None
    traces: str | None = None

    @property
    def is_configured(self) -> bool:
        """Whether there is anybody to tell."""
        return self.log is not None or self.traces is not None


def telemetry_target(root: Path, values: Mapping[str, str], environment: Mapping[str, str]) -> TelemetryTarget:
    """Read who is told.

    Args:
        root: the workspace; a relative file is meant from there.
        values: the settings of sudare.toml by `table.key`.
        environment: the environment variables, which win.
    """
    below = environment.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    traces = environment.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or (below and f"{below.rstrip('/')}/v1/traces")
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        traces, values = None, {**values, "telemetry.traces": ""}
    log = values.get("telemetry.log")
    return TelemetryTarget(root / log if log else None, traces or values.get("telemetry.traces") or None)
