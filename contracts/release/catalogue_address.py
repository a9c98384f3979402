"""The addresses of catalogues of Iceberg tables, and that of the SQL catalogue: a database.

iceberg+sqlite:///FOLDER/FILE.db?catalog=NAME                     in a file of this machine
iceberg+postgresql://HOST[:PORT]/DATABASE?catalog=NAME            in PostgreSQL; a socket as for postgresql:///
...&snapshot=ID, ...&at=INSTANT                                   an earlier state of the table
...&store=s3+https://HOST[:PORT]                                  where s3:// of the catalogue is not Amazon's
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import parse_qsl, quote, unquote, urlencode

from contracts.reading.scalars import Problem, refuse, show
from contracts.release.address import CONTROL, Address
from contracts.release.lake_address import IcebergAddress, instant_asked, number_asked
from contracts.release.postgres_address import PostgresAddress
from contracts.release.s3_address import store_endpoint

OF_A_TABLE: Final = frozenset({"snapshot", "at", "store"})
"""Which state of a table is meant, and which store `s3://` is in its catalogue."""
_OF_POSTGRES: Final = ("host", "port")
_STORE: Final = "s3+https://HOST[:PORT], or s3+http:// to localhost"


@dataclass(frozen=True)
class TableCatalogue(Address):
    """A catalogue of Iceberg tables: of each it names the metadata file that counts.

    Args:
        number: which snapshot is read; None for the newest, or the one that `at` tells.
        at: the instant whose snapshot is read, or None.
        endpoint: scheme, host and port of the store that `s3://` means in the catalogue; None for Amazon S3.
    """

    at_signs: ClassVar[bool] = False
    has_tables: ClassVar[bool] = True
    package: ClassVar[tuple[str, str] | None] = IcebergAddress.package
    gate: ClassVar[str | None] = IcebergAddress.gate

    number: int | None = field(default=None, kw_only=True)
    at: datetime | None = field(default=None, kw_only=True)
    endpoint: str | None = field(default=None, kw_only=True)

    @property
    @abstractmethod
    def canonical(self) -> str:
        """The address without the version that is meant."""

    def __str__(self) -> str:
        """The address, with the version that is meant."""
        start = f"{self.canonical}{'&' if '?' in self.canonical else '?'}"
        if self.number is not None:
            return f"{start}snapshot={self.number}"
        return self.canonical if self.at is None else f"{start}at={self.at.isoformat()}"

    def source_name(self, table: str | None, *, folder: bool) -> str:
        """All snapshots of a table are of the same people."""
        return f"{self.canonical}::{table or ''}"

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


@dataclass(frozen=True)
class CatalogueAddress(TableCatalogue):
    """An SQL catalogue of Iceberg tables.

    Args:
        database: the database's file, links followed, or its server.
        catalog: the name under which the catalogue keeps its tables; one database may hold several.
    """

    kind: ClassVar[str] = "iceberg-catalogue"
    options: ClassVar[frozenset[str]] = frozenset({"catalog", *OF_A_TABLE, *_OF_POSTGRES})

    database: Path | PostgresAddress
    catalog: str

    @classmethod
    def read(cls, scheme: str, rest: str, written: str) -> CatalogueAddress:
        """Read the address of a database and, behind a `?`, the name of the catalogue in it."""
        place, _, options = rest.partition("?")
        asked = dict(parse_qsl(options, keep_blank_values=True))
        catalog = asked.get("catalog", "")
        if not catalog or CONTROL.search(catalog):
            remedy = "write `?catalog=NAME`, as the programs have it that write the tables"
            refuse([Problem("a catalogue without a name", f"{scheme}://...?catalog=NAME", remedy)])
        database = cls._database(scheme.partition("+")[2], place, asked, written)
        return cls(database, catalog, **state_asked(asked))

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

    @property
    def canonical(self) -> str:
        """The address without the version that is meant."""
        place = f"sqlite://{quote(str(self.database))}" if isinstance(self.database, Path) else str(self.database)
        store = "" if self.endpoint is None else f"&store=s3+{self.endpoint}"
        return f"iceberg+{place}{'&' if '?' in place else '?'}catalog={quote(self.catalog, safe='')}{store}"


def state_asked(asked: Mapping[str, str]) -> dict[str, Any]:
    """Read which state of a table is meant, and in which store it is: the options `OF_A_TABLE`."""
    if "snapshot" in asked and "at" in asked:
        refuse([Problem("more than one version", "`snapshot=` or `at=`, or neither", "drop one of them")])
    number, at = number_asked("snapshot", asked.get("snapshot")), instant_asked(asked.get("at"))
    return {"number": number, "at": at, "endpoint": _endpoint(asked.get("store"))}


def _endpoint(written: str | None) -> str | None:
    if written is None:
        return None
    scheme, _, rest = written.replace(" ", "+").partition("://")  # a plus behind a `?` is read as a space
    if scheme not in ("s3+https", "s3+http") or "/" in rest or not rest:
        refuse([Problem(f"the store {show(written)}", _STORE, "correct `store=`, or drop it for Amazon S3")])
    return store_endpoint("s3", scheme.removeprefix("s3+"), rest, written)
