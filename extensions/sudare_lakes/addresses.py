"""The addresses of objects of S3-compatible stores, of tables that keep their own log, and of their catalogues.

s3://BUCKET/KEY                                 objects of Amazon S3
s3+https://HOST[:PORT]/BUCKET/KEY               of another store that speaks S3; s3+http on this machine only

delta:///FOLDER, iceberg:///FOLDER              the newest version of a table, in a folder of this machine
delta+s3://BUCKET/KEY, iceberg+s3://BUCKET/KEY  the same below a prefix of a store, by any address of one
delta:///FOLDER?version=12                      that version of a Delta table
iceberg:///FOLDER?snapshot=3055729675574597004  that snapshot of an Iceberg table
...?at=2026-01-31T00:00:00Z                     the last one that was there at that instant
iceberg:///FOLDER/metadata/NAME.metadata.json   as that metadata file has it, where a catalogue says which one counts

iceberg+sqlite:///FOLDER/FILE.db?catalog=NAME              an SQL catalogue in a file of this machine
iceberg+postgresql://HOST[:PORT]/DATABASE?catalog=NAME     one in PostgreSQL; a socket as for postgresql:///
iceberg+glue://REGION/ACCOUNT                              AWS Glue's Data Catalog of an account (its 12 digits)
iceberg+glue+https://HOST[:PORT]/REGION/ACCOUNT            another service; iceberg+glue+http on this machine
...&snapshot=ID, ...&at=INSTANT                            an earlier state of the catalogue's table
...&store=s3+https://HOST[:PORT]                           where s3:// of the catalogue is not Amazon's

Glue's account is named, since credentials would decide it otherwise, and one address would be two tables.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Final, Self
from urllib.parse import parse_qsl, quote, unquote, urlencode

from contracts.message import message
from contracts.reading.scalars import Problem, refuse, show
from contracts.release.address import CONTROL, Address, PostgresAddress, bracketed, host_and_port, shown
from contracts.release.product import DATABASES, format_of_name

_PORTS: Final = {"https": 443, "http": 80}
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_AMAZON: Final = re.compile(r"(.*\.)?(amazonaws\.com(\.cn)?|api\.aws)")


@dataclass(frozen=True)
class S3Address(Address):
    """An object of an S3-compatible store, or what lies below a prefix of keys.

    Args:
        endpoint: scheme, host and port of the store; None for Amazon S3.
        bucket: the bucket.
        key: the key of one object, or a prefix without a slash at its end; exact, letter by letter.
    """

    kind: ClassVar[str] = "s3"
    package: ClassVar[tuple[str, str] | None] = ("boto3", "s3")

    endpoint: str | None
    bucket: str
    key: str

    def __str__(self) -> str:
        """The canonical name."""
        start = "s3://" if self.endpoint is None else f"s3+{self.endpoint}/"
        return f"{start}{self.bucket}/{self.key}"

    @classmethod
    def read(cls, scheme: str, rest: str, written: str) -> S3Address:
        """Read the address of an object, or of a prefix of keys."""
        endpoint = None
        if inner := scheme.partition("+")[2]:
            authority, _, rest = rest.partition("/")
            endpoint = store_endpoint("s3", inner, authority, written)
        bucket, _, key = rest.partition("/")
        if not _BUCKET.fullmatch(bucket):
            allowed = "a bucket of 3 to 63 lower-case letters, digits, dots and hyphens"
            refuse([Problem(f"another bucket in {shown(written)}", allowed, "write s3://BUCKET/KEY")])
        key = key.rstrip("/")
        if CONTROL.search(key) or key.startswith("/"):
            refuse([Problem("a key with control characters or a slash in front", "a key as the store lists it")])
        return cls(endpoint, bucket, key)

    def table_format(self, files: str | None) -> str | None:
        """Return the format of the objects, by the suffix of the key where the spec does not say."""
        return files or format_of_name(self.key)

    def source_name(self, table: str | None, *, folder: bool) -> str:
        """A prefix of keys keeps the slash that tells it from an object of that name."""
        return f"{self}/" if folder else str(self)

    def misplaced(self, files: str | None) -> Problem | None:
        """Refuse a whole bucket, and files of databases."""
        if not self.key:
            return Problem("a whole bucket", "a key, or a prefix of keys, in it", "write s3://BUCKET/KEY", ("path",))
        form = self.table_format(files)
        remedy = "copy the file here, or store the table as Parquet"
        found = f"a {form} file at an address"
        return Problem(found, "Parquet and CSV at an address", remedy, ("path",)) if form in DATABASES else None


def store_endpoint(kind: str, scheme: str, authority: str, written: str) -> str:
    """Read HOST[:PORT] of a service that is not Amazon's; return scheme, host and port in their one spelling.

    Args:
        kind: what an address of Amazon's own service begins with, such as `s3`.
        scheme: `https`, or `http` for this machine.
        authority: what stands before the first slash.
        written: the whole address.
    """
    host, port = host_and_port(authority, _PORTS[scheme], written)
    if scheme == "http" and host != "localhost":
        remedy = f"write {kind}+https://: rows and keys would travel in clear text"
        allowed = f"{kind}+https://, or {kind}+http:// to localhost"
        refuse([Problem(f"{kind}+http:// to another machine", allowed, remedy)])
    if _AMAZON.fullmatch(host):
        remedy = "write s3://BUCKET/KEY; the region comes from the environment"
        found = "an endpoint of Amazon S3, a second name of each table there"
        if kind != "s3":
            found, remedy = "an endpoint of Amazon's, a second name of each table there", f"write {kind}://"
        refuse([Problem(found, f"{kind}://", remedy)])
    ending = "" if port == _PORTS[scheme] else f":{port}"
    return f"{scheme}://{bracketed(host)}{ending}"


METADATA: Final = ".metadata.json"
METADATA_FOLDER: Final = "metadata"


@dataclass(frozen=True)
class LakeAddress(Address):
    """A table with a log of its own.

    Args:
        folder: the table's folder, links followed; in a store, the path of bucket and key.
        number: which version is read; None for the newest, or the one that `at` tells.
        at: the instant whose version is read, or None.
        metadata: the metadata file that is read, below the folder, or None for the newest.
        store: the bucket and the prefix of keys of a table in a store; None for a folder of this machine.
    """

    typed: ClassVar[bool] = True
    number_key: ClassVar[str]
    """How a version is called behind the `?`."""
    folder: Path
    number: int | None = None
    at: datetime | None = None
    metadata: str | None = None
    store: S3Address | None = None

    @classmethod
    def read(cls, scheme: str, rest: str, written: str) -> Self:
        """Read the address of a table and, behind a `?`, which of its versions is meant."""
        place, _, options = rest.partition("?")
        store = S3Address.read(inner, place, written) if (inner := scheme.partition("+")[2]) else None
        folder, metadata = cls.split(cls._local(place) if store is None else Path("/", store.bucket, store.key))
        if store is not None:
            store = replace(store, key="/".join(folder.parts[2:]))
            if not store.key:
                refuse([Problem("a whole bucket", f"{scheme}://BUCKET/KEY", "name the folder of the table")])
        asked = parse_qsl(options, keep_blank_values=True)
        if len(asked) > 1:
            allowed = f"`?{cls.number_key}=` or `?at=`, or neither"
            refuse([Problem("more than one version", allowed, "drop one of them")])
        chosen = dict(asked)
        number, at = number_asked(cls.number_key, chosen.get(cls.number_key)), instant_asked(chosen.get("at"))
        return cls(folder, number, at, metadata, store)

    @classmethod
    def _local(cls, place: str) -> Path:
        place = unquote(place)
        if not place.startswith("/") or CONTROL.search(place):
            found, allowed = f"a {cls.kind} table without a folder", f"{cls.kind}:///FOLDER"
            refuse([Problem(found, allowed, "write the whole path")])
        return Path(place).resolve()

    @classmethod
    def split(cls, path: Path) -> tuple[Path, str | None]:
        """Return the table's folder of a path and, below it, the metadata file that the path is, or None."""
        return path, None

    def __str__(self) -> str:
        """The address, with the version that is meant."""
        place = self._table if self.metadata is None else f"{self._table}/{self.metadata}"
        if self.number is not None:
            return f"{place}?{self.number_key}={self.number}"
        return place if self.at is None else f"{place}?at={self.at.isoformat()}"

    @property
    def _table(self) -> str:
        return f"{self.kind}://{self.folder}" if self.store is None else f"{self.kind}+{self.store}"

    @property
    def takes_credentials(self) -> bool:  # type: ignore[override]
        """A store asks for them, a folder of this machine for none."""
        return self.store is not None

    def source_name(self, table: str | None, *, folder: bool) -> str:
        """All versions of a table are of the same people."""
        return self._table

    def table_format(self, files: str | None) -> str | None:
        """Return the kind's own format."""
        return self.kind

    def misplaced(self, files: str | None) -> Problem | None:
        """Refuse what says a second time what the files are."""
        if files is None:
            return None
        return Problem(f"`files` for a {self.kind} table", "`files` for folders", "drop it", ("files",))


@dataclass(frozen=True)
class DeltaAddress(LakeAddress):
    """A Delta table: the folder that holds `_delta_log`."""

    kind: ClassVar[str] = "delta"
    number_key: ClassVar[str] = "version"
    options: ClassVar[frozenset[str]] = frozenset({"version", "at"})
    gate: ClassVar[str | None] = message(
        "the Delta table's version has at least one file and no deletion vectors, and its files are there, can be "
        "read to their last rows, have the same columns and the same fields in records, and no two files of a "
        "partition have the same bytes"
    )


@dataclass(frozen=True)
class IcebergAddress(LakeAddress):
    """An Iceberg table: the folder that holds `metadata`, or one file there whose name ends with `.metadata.json`."""

    kind: ClassVar[str] = "iceberg"
    number_key: ClassVar[str] = "snapshot"
    options: ClassVar[frozenset[str]] = frozenset({"snapshot", "at"})
    package: ClassVar[tuple[str, str] | None] = ("pyiceberg", "iceberg")
    gate: ClassVar[str | None] = message(
        "the Iceberg table's snapshot has at least one file and no row-level deletes, and its files are there, can "
        "be read to their last rows, have the same columns and the same fields in records, and no two files have the "
        "same bytes"
    )

    @classmethod
    def split(cls, path: Path) -> tuple[Path, str | None]:
        """Return the table's folder of a path and, below it, the metadata file that the path is, or None."""
        if not path.name.endswith(METADATA):
            return path, None
        if path.parent.name != METADATA_FOLDER:
            allowed = f"{cls.kind}:///FOLDER/metadata/NAME{METADATA}"
            refuse([Problem("a metadata file outside a folder `metadata`", allowed, "write the whole path")])
        return path.parent.parent, f"{METADATA_FOLDER}/{path.name}"


def number_asked(key: str, written: str | None) -> int | None:
    """Read the number of a version behind a `?`, under its key."""
    if written is None:
        return None
    if not written.isdecimal() or not written.isascii() or len(written) > 19:
        allowed = "a whole number from 0"
        refuse([Problem(f"the {key} {show(written)}", allowed, f"correct `?{key}=`")])
    return int(written)


def instant_asked(written: str | None) -> datetime | None:
    """Read the instant behind `?at=`."""
    if written is None:
        return None
    try:
        read = datetime.fromisoformat(written)
    except ValueError:
        read = None
    if read is None or read.tzinfo is None:
        allowed = "an instant with its offset from UTC, such as 2026-01-31T00:00:00Z"
        refuse([Problem(f"the instant {show(written)}", allowed, "correct `?at=`")])
    return read.astimezone(UTC)


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
    typed: ClassVar[bool] = True
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


_PLACE: Final = re.compile(r"([a-z]{2}(?:-[a-z]+)+-[0-9]+)/([0-9]{12})/?")


@dataclass(frozen=True)
class GlueAddress(TableCatalogue):
    """Glue's Data Catalog of one account in one region.

    Args:
        region: where it is, as Amazon calls it.
        account: whose it is, 12 digits.
        service: scheme, host and port of a service that is not Amazon's; None for Amazon's.
    """

    kind: ClassVar[str] = "iceberg-glue"
    options: ClassVar[frozenset[str]] = OF_A_TABLE

    region: str
    account: str
    service: str | None = None

    @classmethod
    def read(cls, scheme: str, rest: str, written: str) -> GlueAddress:
        """Read the address of a catalogue and, behind a `?`, which state of its table is meant."""
        place, _, options = rest.partition("?")
        inner, service = scheme.removeprefix("iceberg+glue").removeprefix("+"), None
        if inner:
            authority, _, place = place.partition("/")
            service = store_endpoint("iceberg+glue", inner, authority, written)
        found = _PLACE.fullmatch(place)
        if found is None:
            remedy = "write the region and the account whose catalogue it is"
            refuse(
                [Problem(shown(written), f"{scheme}://.../REGION/ACCOUNT, such as eu-west-1/123456789012", remedy)]
            )
        return cls(found[1], found[2], service, **state_asked(dict(parse_qsl(options, keep_blank_values=True))))

    @property
    def canonical(self) -> str:
        """The address without the version that is meant."""
        start = "iceberg+glue://" if self.service is None else f"iceberg+glue+{self.service}/"
        store = "" if self.endpoint is None else f"?store=s3+{self.endpoint}"
        return f"{start}{self.region}/{self.account}{store}"

    def table_problems(self, table: str) -> list[Problem]:
        """List what is wrong with DATABASE.TABLE: a database of Glue has no other in it, nor capital letters."""
        if table.count(".") > 1:
            return [Problem("a name of three parts", "DATABASE.TABLE", "name one table of the catalogue", ("table",))]
        if table != table.lower():
            # Glue folds names: in other letters a table would have a second name, and could be bound twice.
            remedy = "write it as the catalogue keeps it"
            return [Problem("capital letters", "a name in lower case, as all of Glue's", remedy, ("table",))]
        return super().table_problems(table)
