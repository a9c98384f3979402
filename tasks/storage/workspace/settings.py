"""The workspace: where things lie, and what sudare.toml and the environment set.

Layout of a workspace (the folder that holds `sudare.toml`):
    sudare.toml           what may be set; unknown keys are refused
    releases/             what is published
    contracts/            every registered version of every contract, once one is registered
    .sudare/              private, mode 0700: ledger.sqlite, draws/, keys/, runs/, attempts/, live/, prefect/
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.storage.workspace.environment import exported
from tasks.storage.workspace.keys import create_keys, key_from_hex, read_key, refusal
from tasks.storage.workspace.lineage_target import NOBODY, LineageTarget, lineage_target
from tasks.storage.workspace.settings_file import (
    TEMPLATE,
    Scheduled,
    read_days,
    read_publisher,
    read_schedule,
    read_seconds,
    read_settings,
    read_share,
)

if TYPE_CHECKING:
    from contracts.release.about import Publisher
    from privacy.ledger.journal.signing import SecretKey, Signer
    from privacy.ledger.ledger import Ledger
    from tasks.storage.witnesses import Witnesses
    from tasks.storage.workspace.signing_keys import KeyPlace
    from tasks.storage.workspace.telemetry_target import TelemetryTarget

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
        from tasks.storage.workspace.signing_keys import key_place

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
            from tasks.storage.workspace.signing_keys import open_key

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
        from tasks.storage.workspace.telemetry_target import telemetry_target

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
        from tasks.storage.workspace.signing_keys import opened

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
