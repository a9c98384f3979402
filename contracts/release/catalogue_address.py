"""The address of Iceberg's SQL catalogue: a database that says which metadata file of a table counts.

iceberg+sqlite:///FOLDER/FILE.db?catalog=NAME                     in a file of this machine
iceberg+postgresql://HOST[:PORT]/DATABASE?catalog=NAME            in PostgreSQL; a socket as for postgresql:///
...&snapshot=ID, ...&at=INSTANT                                   an earlier state of the table
...&store=s3+https://HOST[:PORT]                                  where s3:// of the catalogue is not Amazon's
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import ClassVar, Final
from urllib.parse import parse_qsl, quote, unquote, urlencode

from contracts.reading.scalars import Problem, refuse, show
from contracts.release.address import CONTROL, Address
from contracts.release.lake_address import IcebergAddress, instant_asked, number_asked
from contracts.release.postgres_address import PostgresAddress
from contracts.release.s3_address import S3Address

_OF_POSTGRES: Final = ("host", "port")
_STORE: Final = "s3+https://HOST[:PORT], or s3+http:// to localhost"


@dataclass(frozen=True)
class CatalogueAddress(Address):
    """An SQL catalogue of Iceberg tables.

    Args:
        database: the database's file, links followed, or its server.
        catalog: the name under which the catalogue keeps its tables; one database may hold several.
        number: which snapshot is read; None for the newest, or the one that `at` tells.
        at: the instant whose snapshot is read, or None.
        endpoint: scheme, host and port of the store that `s3://` means in the catalogue; None for Amazon S3.
    """

    kind: ClassVar[str] = "iceberg-catalogue"
    options: ClassVar[frozenset[str]] = frozenset({"catalog", "snapshot", "at", "store", *_OF_POSTGRES})
    at_signs: ClassVar[bool] = False
    has_tables: ClassVar[bool] = True
    package: ClassVar[tuple[str, str] | None] = IcebergAddress.package
    gate: ClassVar[str | None] = IcebergAddress.gate

    database: Path | PostgresAddress
    catalog: str
    number: int | None = None
    at: datetime | None = None
    endpoint: str | None = None

    @classmethod
    def read(cls, scheme: str, rest: str, written: str) -> CatalogueAddress:
        """Read the address of a database and, behind a `?`, the name of the catalogue in it."""
        place, _, options = rest.partition("?")
        asked = dict(parse_qsl(options, keep_blank_values=True))
        if "snapshot" in asked and "at" in asked:
            refuse([Problem("more than one version", "`snapshot=` or `at=`, or neither", "drop one of them")])
        catalog = asked.get("catalog", "")
        if not catalog or CONTROL.search(catalog):
            remedy = "write `?catalog=NAME`, as the programs have it that write the tables"
            refuse([Problem("a catalogue without a name", f"{scheme}://...?catalog=NAME", remedy)])
        database = cls._database(scheme.partition("+")[2], place, asked, written)
        number, at = number_asked("snapshot", asked.get("snapshot")), instant_asked(asked.get("at"))
        return cls(database, catalog, number, at, _endpoint(asked.get("store")))

    @classmethod
    def _database(cls, inner: str, place: str, asked: dict[str, str], written: str) -> Path | PostgresAddress:
        if inner != "sqlite":
            own = urlencode([(key, asked[key]) for key in _OF_POSTGRES if key in asked])
            return PostgresAddress.read(inner, f"{place}?{own}" if own else place, written)
        path = unquote(place)
        if not path.startswith("/") or CONTROL.search(path):
            refuse(
                [Problem("a catalogue without a file", "iceberg+sqlite:///FOLDER/FILE.db", "write the whole path")]
            )
        return Path(path).resolve()

    def __str__(self) -> str:
        """The address, with the version that is meant."""
        asked = {"snapshot": self.number, "at": None if self.at is None else self.at.isoformat()}
        chosen = "".join(f"&{key}={value}" for key, value in asked.items() if value is not None)
        return f"{self._canonical}{chosen}"

    @property
    def _canonical(self) -> str:
        place = f"sqlite://{quote(str(self.database))}" if isinstance(self.database, Path) else str(self.database)
        store = "" if self.endpoint is None else f"&store=s3+{self.endpoint}"
        return f"iceberg+{place}{'&' if '?' in place else '?'}catalog={quote(self.catalog, safe='')}{store}"

    def source_name(self, table: str | None, *, folder: bool) -> str:
        """All snapshots of a table are of the same people."""
        return f"{self._canonical}::{table or ''}"

    def table_format(self, files: str | None) -> str:
        """Return Iceberg's own format."""
        return IcebergAddress.kind

    def misplaced(self, files: str | None) -> Problem | None:
        """Refuse files of a catalogue."""
        if files is None:
            return None
        return Problem("`files` for a catalogue", "`files` for folders", "drop it", ("files",))

    def table_problems(self, table: str) -> list[Problem]:
        """List what is wrong with NAMESPACE.TABLE."""
        namespace, _, name = table.rpartition(".")
        if namespace and name and not CONTROL.search(table):
            return []
        return [Problem(show(table), "NAMESPACE.TABLE", "name one table of the catalogue", ("table",))]


def _endpoint(written: str | None) -> str | None:
    if written is None:
        return None
    scheme, _, rest = written.partition("://")
    if scheme not in ("s3+https", "s3+http") or "/" in rest or not rest:
        refuse([Problem(f"the store {show(written)}", _STORE, "correct `store=`, or drop it for Amazon S3")])
    return S3Address.read(scheme, f"{rest}/bucket", written).endpoint
