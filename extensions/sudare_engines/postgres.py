"""A session of PostgreSQL that counts a table where it is, in temporary tables of its own.

The role needs SELECT on the table and TEMP on the database. The session first makes its temporary tables and the
functions of its casts, and sends the keys by COPY, whose data no log and no page of activity shows. Then one
REPEATABLE READ, READ ONLY transaction looks at the table and fills the stage: it could write to no other table. The
stage is never analysed, since statistics of columns are rows of the catalog.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeVar

from contracts.contract.contract import Contract
from contracts.domains.statements import ValueKind
from contracts.domains.value_sql import identifier
from contracts.errors import Finding
from contracts.release.address import PostgresAddress
from contracts.release.source import Source
from sudare_engines.engine import UNCHARGED
from sudare_engines.portable_sql import Dialect
from sudare_engines.staging import FILE, KEYS, ROW, SOURCE, STAGE
from sudare_engines.warehouse import Warehouse
from tasks.storage.source_engine import EngineFailed, EngineNotTrusted
from tasks.storage.sources.postgres.catalog import CatalogTable, query_server
from tasks.storage.sources.postgres.column_types import PostgresColumn
from tasks.storage.sources.postgres.connection import SESSION, begin, connected, looked_at
from tasks.storage.sources.typed_rows import refuse

if TYPE_CHECKING:
    import psycopg

ResultT = TypeVar("ResultT")

OLDEST: Final = 110000
"""The first PostgreSQL that has SHA-256."""
MOST_COLUMNS: Final = 1600
"""What a table of PostgreSQL may have."""
_PATIENCE: Final = {
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
"""A server that is gone without a word is given up after about a minute."""
_SAID: Final = """
    SELECT pg_catalog.pg_backend_pid(), pg_catalog.current_setting('server_version_num')::int,
        pg_catalog.current_setting('server_encoding'),
        (SELECT version FROM pg_catalog.pg_stat_ssl WHERE pid = pg_catalog.pg_backend_pid() AND ssl)
"""
_SECURE: Final = ("TLSv1.2", "TLSv1.3")
_WISHES: Final = """
    SELECT pg_catalog.set_config(name, wish, false)
    FROM (VALUES ('standard_conforming_strings', 'on'), ('transform_null_equals', 'off'), ('jit', 'off'),
        ('idle_session_timeout', '0'), ('transaction_timeout', '0'), ('client_connection_check_interval', '10s'),
        ('default_transaction_read_only', 'off')
    ) AS wishes(name, wish) JOIN pg_catalog.pg_settings USING (name)
"""
"""Settings that not every version has, and that it may write at all, where its role's are read only by default. A
server whose client is gone stops counting."""
_CASTS: Final = (
    (
        "sudare_double(text) RETURNS float8 LANGUAGE plpgsql",
        "BEGIN RETURN $1::float8; EXCEPTION WHEN numeric_value_out_of_range THEN RETURN CASE WHEN $1 ~ '^[+-]?0*[.]' "
        "THEN '0' WHEN $1 LIKE '-%' THEN '-Infinity' ELSE 'Infinity' END::float8; "
        "WHEN data_exception THEN RETURN NULL; END",
    ),
    ("sudare_double(int8) RETURNS float8 LANGUAGE sql", "SELECT $1::float8"),
    ("sudare_double(float8) RETURNS float8 LANGUAGE sql", "SELECT $1"),
    (
        "sudare_day(text) RETURNS date LANGUAGE plpgsql",
        "BEGIN RETURN $1::date; EXCEPTION WHEN data_exception THEN RETURN NULL; END",
    ),
    (
        "sudare_moment(text) RETURNS timestamp LANGUAGE plpgsql",
        "BEGIN RETURN CASE WHEN $1 NOT LIKE '%:60%' THEN $1::timestamp END; "
        "EXCEPTION WHEN data_exception THEN RETURN NULL; END",
    ),
    (
        "sudare_moment(date) RETURNS timestamp LANGUAGE sql",
        "SELECT CASE WHEN $1 > DATE '294276-12-31' THEN 'infinity'::timestamp ELSE $1::timestamp END",
    ),
    (
        "sudare_fixed(float8) RETURNS numeric LANGUAGE plpgsql",
        "BEGIN RETURN $1::text::numeric(17, 9); EXCEPTION WHEN data_exception THEN RETURN NULL; END",
    ),
)
"""Casts that cannot fail, as DuckDB's TRY_CAST makes them; `sudare_engines.portable_sql` calls them."""
_FIXED: Final = re.compile(r"numeric\((\d+),(\d+)\)")
_MOST_DIGITS: Final = 38
_WHOLE: Final = ("smallint", "integer", "bigint", "oid")
_KINDS: Final[dict[str, ValueKind]] = {
    **dict.fromkeys(_WHOLE, "whole"),
    **dict.fromkeys(("real", "double precision", "numeric", "money"), "real"),
    "boolean": "flag",
    "date": "day",
    "timestamp without time zone": "moment",
    "timestamp with time zone": "moment",
    "fixed": "fixed",
    "text": "text",
}
_RIGHTS: Final = "a right that the role lacks: SELECT on the table, or USAGE on a type of it"
_CAUSES: Final = (
    ("53100", "a disk of the server is full", "Free some space where its database and temporary files lie"),
    ("53400", "a limit of the server is reached, such as temp_file_limit", "Let it be raised for this role"),
    ("53", "the server has too little memory or too many connections", "Look at its limits"),
    ("57014", "the server cancelled the statement", "Ask who cancelled it, or what limits its time"),
    ("57", "the server ended the session", "Look at the server"),
    ("25006", "the server takes no writes, as a standby does, not even of temporary tables", "Name the primary"),
    ("25P", "the server ended the session, which waited too long", "Look at its limits of time"),
    ("42501", _RIGHTS, "Grant it to the role"),
    ("42P01", "a temporary table of the session is gone", "Name the server itself, and no pooler"),
    ("08", "the connection ended", "Look at server and network"),
)
"""What is told of an error, by how its SQLSTATE begins: fixed words, since the server's own may quote a row."""


class PostgresSession(Warehouse):
    """A connection of its own, for as long as a run lasts.

    Args:
        source: a table of PostgreSQL.
    Raises:
        SourceUnreadable: the server cannot be reached, does not let us in, is too old or of another encoding, or
            a pooler stands before it.
        EngineNotTrusted: it is on another machine, and the session does not say that it is encrypted.
    """

    name: ClassVar[str] = "PostgreSQL"
    dialect: ClassVar[Dialect] = "postgres"
    remedy: ClassVar[str] = "Look at the server, and run again"

    def __init__(self, source: Source) -> None:
        if not isinstance(source.path, PostgresAddress):
            raise ValueError("a table of PostgreSQL has an address")
        self._source, self._relation, self._local = source, "", source.path.is_local
        self._connection = connected(
            source.path, source.credentials, source.name, modes=("verify-full",), settings=_PATIENCE
        )
        try:
            self._connection.prepare_threshold = None
            self._connection.autocommit = True
            self._see_who_it_is()
        except BaseException:
            self.close()
            raise

    def _see_who_it_is(self) -> None:
        """Hold what the running session says of itself against what it must be."""
        where, connection = self._source.name, self._connection
        for setting in (*SESSION, _WISHES):
            query_server(where, partial(connection.execute, setting.encode()))
        [(process, version, encoding, tls)] = query_server(
            where, lambda: connection.execute(_SAID.encode()).fetchall()
        )
        if process != connection.info.backend_pid:
            remedy = "write the server's own address: a pooler may change the session, and its temporary tables"
            refuse(where, "source.path", "a pooler before the server", "the server itself", remedy)
        if version < OLDEST or encoding != "UTF8":
            found = f"a database in {encoding} of version {version // 10_000}"
            refuse(where, "source.path", found, "UTF8, in PostgreSQL 11 or later", "leave `engine:` out")
        if not self._local and (tls not in _SECURE or not connection.pgconn.ssl_in_use):
            found = f"a session with {tls or 'no TLS'} at the server"
            remedy = "let server and client speak TLS to each other, with nothing between that ends it"
            raise EngineNotTrusted([Finding(where, "pg_stat_ssl", found, "TLS 1.2 or later", remedy)])

    @staticmethod
    def kind_of(written: str) -> ValueKind | None:
        """Return the kind of a type as `open` tells it, or None."""
        return _KINDS.get(written)

    @staticmethod
    def hash_sql(columns: Sequence[str], relation: str) -> str:
        """Write the keyed sums in PostgreSQL's SQL; OFFSET keeps the hash from being computed for each part."""
        row = f"ROW({', '.join(columns)})::text"
        inner = f"sha256(textsend(hash_inner || {row}))"
        digest = f"('x' || encode(sha256(textsend(hash_outer) || {inner}), 'hex'))::bit(256)"
        sums = ", ".join(f"sum(substring(h FROM {1 + 32 * part} FOR 32)::bigint)" for part in range(8))
        return f"SELECT count(*), {sums} FROM (SELECT {digest} AS h FROM {relation} OFFSET 0) AS hashed"

    def make_tables(self, columns: Mapping[str, Literal["whole", "text"]], keys: Mapping[str, str]) -> None:
        """Make stage and keys as temporary tables, and the functions of casts in the session's own schema."""
        if len(columns) > MOST_COLUMNS:
            found = f"{len(columns)} columns of codes and checks, for all columns of the contract"
            remedy = "let the contract leave columns out (`left_out:`), or count in DuckDB: leave `engine:` out"
            refuse(self._source.name, "source.engine", found, f"at most {MOST_COLUMNS} for PostgreSQL", remedy)
        types = {"whole": "int4", "text": 'text COLLATE pg_catalog."C"'}
        listed = ", ".join(f"{name} {types[kind]}" for name, kind in columns.items())
        self._run("start", f"CREATE TEMP TABLE {STAGE} ({listed})")
        self._run("start", f"CREATE TEMP TABLE {KEYS} ({', '.join(f'{name} text' for name in keys)})")
        for head, body in _CASTS:
            # One in SQL that is not strict is written into the statement. Else it would run for each row by itself,
            # which `auto_explain` may log, with the value.
            strict = "" if head.endswith(" sql") else " STRICT"
            self._run("start", f"CREATE FUNCTION pg_temp.{head} IMMUTABLE{strict} AS $cast${body}$cast$")
        self._attempt("start", lambda: self._send(tuple(keys.values())))

    @contextmanager
    def one_state(self) -> Iterator[None]:
        """See one state of the database inside the block, and write to nothing but temporary tables."""
        self._connection.autocommit = False
        query_server(self._source.name, lambda: begin(self._connection))
        yield
        self._attempt("stage", self._connection.commit)
        self._connection.autocommit = True

    def open(self, contract: Contract) -> dict[str, str]:
        """Look at the table, and say how its values are read."""
        table, _ = looked_at(self._connection, self._source, contract)
        columns = {column.name: column for column in table.columns if column.name in contract.source_columns}
        order = {} if contract.unit.column is None else _order(table)
        values = {**{name: _value(column) for name, column in columns.items()}, **order}
        listed = ", ".join(f"{value} AS {identifier(name)}" for name, value in values.items())
        place = f"{identifier(table.schema)}.{identifier(table.name)}"
        # OFFSET lets each value be read once, however often a code names it.
        self._relation = f"SELECT {listed or 'NULL'} FROM {place} AS t OFFSET 0"
        return {name: _type_name(column) for name, column in columns.items()}

    def source_rows(self) -> int:
        """Count the rows of the table, of the state that is seen."""
        return int(self.query(f"SELECT count(*) FROM {SOURCE}")[0][0])

    def stage(self, sql: str) -> int:
        """Fill the stage; return how many rows the server says that it wrote."""
        return int(self._run("stage", f"INSERT INTO {STAGE} {self._over_source(sql)}").rowcount)

    def drop_keys(self) -> None:
        """Drop the keys."""
        self._run("stage", f"DROP TABLE {KEYS}")

    def query(self, sql: str) -> list[list[Any]]:
        """Return the rows of a SELECT, which are counts."""
        statement = self._over_source(sql) if SOURCE in sql else sql
        rows = self._attempt("query", lambda: self._connection.execute(statement.encode()).fetchall())
        return [[_whole(value) for value in row] for row in rows]

    def close(self) -> None:
        """End the session, and with it all that is temporary."""
        self._connection.close()

    def _over_source(self, sql: str) -> str:
        return f"WITH {SOURCE} AS ({self._relation}) ({sql})"

    def _send(self, values: tuple[str, ...]) -> None:
        with self._connection.cursor() as cursor, cursor.copy(f"COPY {KEYS} FROM STDIN".encode()) as copy:
            copy.write_row(values)

    def _run(self, what: str, sql: str) -> psycopg.Cursor[Any]:
        return self._attempt(what, lambda: self._connection.execute(sql.encode()))

    def _attempt(self, what: str, ask: Callable[[], ResultT]) -> ResultT:
        """Ask the server; its messages may quote rows and go no further."""
        import psycopg

        try:
            return ask()
        except psycopg.Error as error:
            state = error.sqlstate or "08000"
        cause, remedy = next(
            ((words, to_do) for begins, words, to_do in _CAUSES if state.startswith(begins)),
            (f"an error of the server (SQLSTATE {state})", self.remedy.removesuffix(", and run again")),
        )
        if cause == _RIGHTS and what == "start":
            cause = "a right that the role lacks: TEMP on the database"
        raise EngineFailed(f"{self.name}, {what}: {cause}; {UNCHARGED}. {remedy}, and run again")


def _type_name(column: PostgresColumn) -> str:
    """Name a column's type: its base type, `fixed` for decimals of a declared size, `text` for all read as text."""
    if column.category == "A":
        return "list"
    fixed = _FIXED.fullmatch(column.written)
    if fixed and int(fixed[2]) <= int(fixed[1]) <= _MOST_DIGITS:
        return "fixed"
    return column.base if column.base in _KINDS and column.kind != "e" else "text"


def _value(column: PostgresColumn) -> str:
    """Write how a value is read: of the type of its kind, and as a snapshot in DuckDB has it."""
    value, name = f"t.{identifier(column.name)}", _type_name(column)
    if name == "real":
        return f"({value})::pg_catalog.text::pg_catalog.float8"
    if name in ("numeric", "money"):
        return f"pg_temp.sudare_double(({value})::pg_catalog.numeric::pg_catalog.text)"
    if name == "fixed":
        return f"nullif(({value})::pg_catalog.numeric, 'NaN')"
    if name == "timestamp with time zone":
        return f"(({value})::pg_catalog.timestamptz AT TIME ZONE 'UTC')"
    if name in ("text", "list"):
        return f'({column.text}) COLLATE pg_catalog."C"'
    if name in _WHOLE:
        return f"({value})::pg_catalog.int8"
    types = {"double precision": "float8", "boolean": "bool", "date": "date"}
    return f"({value})::pg_catalog.{types.get(name, 'timestamp')}"


def _order(table: CatalogTable) -> dict[str, str]:
    """Write what tells the order of rows, as COPY has it: the primary key, else where they lie."""
    if table.key:
        key = [f"t.{identifier(name)}" for name in table.key]
        [kind, *_] = [column.base for column in table.columns if column.name == table.key[0]]
        whole = len(key) == 1 and kind in ("smallint", "integer", "bigint")
        number = f"({key[0]})::pg_catalog.int8" if whole else f"row_number() OVER (ORDER BY {', '.join(key)})"
        return {FILE: "0::pg_catalog.int8", ROW: number}
    if table.parts:
        remedy = "give it a primary key, or count in DuckDB: leave `engine:` out"
        found, allowed = "a table in parts without a primary key", "a primary key, which tells the order of its rows"
        refuse(table.where, "source.table", found, allowed, remedy)
    place = "t.ctid::pg_catalog.text::pg_catalog.point"
    return {FILE: f"(({place})[0])::pg_catalog.int8", ROW: f"(({place})[1])::pg_catalog.int8"}


def _whole(value: Any) -> Any:
    """Return a sum, which PostgreSQL makes a numeric, as the whole number that it is; anything else as it came."""
    return int(value) if isinstance(value, Decimal) and value.as_tuple().exponent == 0 else value
