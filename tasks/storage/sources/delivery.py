"""The reading itself: a source, through its `select:` if it has one, into a table of the snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Final

import duckdb
import pyarrow as pa

from contracts.domains.value_sql import identifier, literal
from contracts.errors import Finding, GateBroken, SpecRefused, SudareError
from contracts.sql.select import (
    STORED,
    TYPED,
    UNSAFE_OPTIMIZERS,
    ValueType,
    guarded_select,
    handed_fields,
    select_tree,
    typed_sql,
)
from tasks.storage.duckdb_session import Explanation, attempt, run, trouble
from tasks.storage.sources.days import SourceDays, check_type, of_days
from tasks.storage.sources.files import DELIVERED
from tasks.storage.sources.typed_rows import Reading, break_gate, check_columns

Advance = Callable[[float], None]
Explanations = Callable[[Reading], Explanation]
IntakeShape = Callable[[Mapping[str, str], str], str]
"""Makes of columns with their types, and of SQL for the rows as delivered, SQL for what is written down."""

_ROWS: Final = "delivered_rows"
"""The rows as delivered, where they have to lie there before their shape is made."""


def explanation(reading: Reading, select: str | None, folder: Path) -> Explanation:
    """Return what turns an error of DuckDB, raised while `reading` goes to `folder`, into one of ours."""

    def explain(error: duckdb.Error) -> SudareError:
        known = reading.explain(error)
        if known is None and select is not None:
            known = _of_the_select(error, reading)
        return known or trouble(error, folder, "writing the snapshot")

    return explain


def _of_the_select(error: duckdb.Error, reading: Reading) -> SudareError | None:
    """Tell what a `select:` refers to and the source lacks; on single rows a guarded select does not fail."""
    if not isinstance(error, duckdb.BinderException | duckdb.CatalogException):
        return None
    found = f"a name or types that do not fit the source ({type(error).__name__})"
    allowed = ", ".join(reading.columns) if reading.named else "columns of the source"
    remedy = "correct the select, or under `types:` what its columns hold"
    return SpecRefused([Finding(reading.where, "source.select", found, allowed, remedy)])


def deliver(
    connection: duckdb.DuckDBPyConnection,
    reading: Reading,
    *,
    select: str | None,
    types: Mapping[str, ValueType],
    expected: Sequence[str],
    explain: Explanation,
    advance: Advance,
    into: str,
    shape: IntakeShape | None = None,
    left_out: Sequence[str] = (),
    days: SourceDays | None = None,
    counted: Sequence[str] = (),
) -> None:
    """Create a table with the rows of the source in their order.

    Rows are shaped in the statement that reads them. Those that a `select:` makes, and those that arrive in batches,
    lie there as they are delivered before: a guarded select holds with some of DuckDB's optimizers switched off.

    A source without any row is refused; a `select:` or days that keep none of its rows are not, since whether they do
    can be a matter of one person.

    Args:
        connection: the open snapshot, still empty.
        reading: the source.
        select: a row-wise SELECT over the relation `source`, checked; None for all of it.
        types: of the columns that the expressions of the select use.
        expected: the columns that must arrive, no other.
        left_out: columns that are not read where no select says what is.
        explain: as for `duckdb_session.attempt`.
        advance: called with the fraction read.
        into: the table to make.
        shape: what is written down of the rows; None for the rows as delivered.
        days: whose rows alone are taken; None for all.
        counted: columns of the source that are read besides, for `shape`: behind a select under names of their own.
    Raises:
        SpecRefused: the select does not fit the source.
        GateBroken: columns, rows or the file are broken, or there is no row.
    """
    if reading.attach:
        attempt(lambda: connection.execute(reading.attach), explain)
    if reading.batches is not None:
        none = pa.schema([(name, pa.string()) for name in reading.columns]).empty_table()
        connection.register(DELIVERED, none)
    guarded = guarded_select(select, types, counted) if select else "FROM source"
    if days is not None:
        guarded = of_days(guarded, days)
    unread = [name for name in left_out if name not in counted]
    columns = _all_but(reading, unread) if select is None else _copies(connection, reading, select, types, explain)
    guarded = f"source AS (SELECT {columns} FROM stored) {guarded}"
    query = _query(reading, guarded)
    if days is not None:
        check_type(connection, reading, query, days, explain)
    if select is not None:
        attempt(lambda: connection.execute(f"SET disabled_optimizers = '{','.join(UNSAFE_OPTIMIZERS)}'"), explain)
        described = attempt(lambda: connection.execute(f"DESCRIBE {query}").fetchall(), explain)
        made = [row[0] for row in described][: len(described) - len(counted)]
        check_columns(reading, made, expected, selected=True)
    at_once = shape is not None and select is None and reading.batches is None
    fill = _fill_from_batches if reading.batches is not None else _fill

    def explain_part(part: Reading) -> Explanation:
        return explain if part is reading else lambda error: part.explain(error) or explain(error)

    def written(rows: str) -> str:
        if shape is None:
            return rows
        described = attempt(lambda: connection.execute(f"DESCRIBE {rows}").fetchall(), explain)
        return shape({row[0]: row[1] for row in described}, rows)

    def statement(part: Reading) -> str:
        rows = _query(part, guarded)
        return written(rows) if at_once else rows

    first = into if at_once or shape is None else _ROWS
    _fill_while_checking(reading, lambda: fill(connection, reading, first, statement, explain_part, advance))
    attempt(lambda: connection.execute("RESET disabled_optimizers"), explain)
    if first != into:
        shaped = f"CREATE TABLE {into} AS {written(f'FROM {_ROWS}')}"
        run(connection, lambda: connection.execute(shaped), explain=explain)
        attempt(lambda: connection.execute(f"DROP TABLE {_ROWS}"), explain)


def _all_but(reading: Reading, left_out: Sequence[str]) -> str:
    """Select every column of a source but those that nobody reads."""
    unread = [identifier(name) for name in reading.columns if name in left_out]
    return f"* EXCLUDE ({', '.join(unread)})" if unread else "*"


def _fill(
    connection: duckdb.DuckDBPyConnection,
    reading: Reading,
    table: str,
    query: Callable[[Reading], str],
    explain: Explanations,
    advance: Advance,
) -> None:
    """Read what DuckDB reads itself, in one statement a part."""
    number = len(reading.parts)
    for place, part in enumerate(reading.parts):
        into = f"INSERT INTO {table}" if place else f"CREATE TABLE {table} AS"
        statement = f"{into} {query(part)}"
        run(
            connection,
            lambda: connection.execute(statement),  # noqa: B023
            explain=explain(part),
            advance=lambda fraction: advance((place + fraction) / number),  # noqa: B023
        )
    if reading.may_be_empty:
        return
    for relation, part in [(table, reading), *((part.relation, part) for part in reading.parts)]:
        some = f"SELECT 1 FROM {relation} LIMIT 1"
        if attempt(lambda: connection.execute(some).fetchone(), explain(part)):  # noqa: B023
            return
    _no_rows(reading)


def _fill_from_batches(
    connection: duckdb.DuckDBPyConnection,
    reading: Reading,
    table: str,
    query: Callable[[Reading], str],
    explain: Explanations,
    advance: Advance,
) -> None:
    """Read what arrives in Arrow batches, each in a statement of its own."""
    rows = query(reading)
    attempt(lambda: connection.execute(f"CREATE TABLE {table} AS {rows}"), explain(reading))
    empty = True
    for batch, fraction in reading.batches() if reading.batches is not None else ():
        connection.register(DELIVERED, batch)
        run(connection, lambda: connection.execute(f"INSERT INTO {table} {rows}"), explain=explain(reading))
        advance(fraction)
        empty = False
    connection.unregister(DELIVERED)
    if empty:
        _no_rows(reading)


def _query(reading: Reading, select: str) -> str:
    """Write the select over the relation `source`, which it defines by the relation `stored`."""
    return f"WITH stored AS (SELECT * FROM {reading.relation}), {select}"


def _copies(
    connection: duckdb.DuckDBPyConnection,
    reading: Reading,
    select: str,
    types: Mapping[str, ValueType],
    explain: Explanation,
) -> str:
    """Write the columns that a select sees: those of the source as they are stored, and typed copies of some.

    A writer may choose a type for the sake of one row, and what a select makes of all others would follow it. A field
    that no stored record has is null: whether a writer stores records at all may be a matter of one row too.
    """
    fields = handed_fields(select_tree(select))
    written = {path: _stored(connection, reading, path, explain) for path in (*types, *fields)}
    copies = [f"{typed_sql(kind, written[path])} AS {identifier(TYPED + path)}" for path, kind in types.items()]
    copies += [f"{written[path]} AS {identifier(STORED + path)}" for path in fields]
    beside = ", ".join(identifier(each) for each in reading.typed.values())
    return ", ".join([f"* EXCLUDE ({beside})" if beside else "*", *copies])


def _stored(connection: duckdb.DuckDBPyConnection, reading: Reading, path: str, explain: Explanation) -> str:
    """Write a column of the source, or a field of a record in one, as it is stored."""
    names = {name.lower(): name for name in reading.columns}
    column, *fields = [path] if path in names else path.split(".")
    if column not in names:
        found = f"{column!r}, which is no column of the source"
        allowed = ", ".join(reading.columns) if reading.named else "columns of the source"
        remedy = "correct the name; what the select computes cannot be used in it again"
        raise SpecRefused([Finding(reading.where, "source.select", found, allowed, remedy)])
    value = f"stored.{identifier(names[column])}"
    if path in reading.typed:
        return f"stored.{identifier(reading.typed[path])}"
    for field in fields:
        value = f"struct_extract({value}, {literal(field)})"
        probe = f"DESCRIBE SELECT {value} FROM {reading.relation} AS stored"
        if not attempt(lambda: _binds(connection, probe), explain):  # noqa: B023
            return "NULL"
    return value


def _binds(connection: duckdb.DuckDBPyConnection, probe: str) -> bool:
    try:
        connection.execute(probe)
    except duckdb.BinderException:
        return False
    return True


def _no_rows(reading: Reading) -> None:
    break_gate(reading.where, "rows", "no rows", "at least one row", "deliver the table again")


def _fill_while_checking(reading: Reading, fill: Callable[[], None]) -> None:
    """Fill, and meanwhile look whether the file is whole; that it is not explains what the filling stumbles over."""
    stop = Event()
    pool = ThreadPoolExecutor(1, "whole-file")
    try:
        verdict = pool.submit(_first_broken, reading, stop)
        refusal: SudareError | None = None
        try:
            fill()
        except SudareError as error:
            refusal = error
        finding = verdict.result()
        if finding is not None:
            refusal = GateBroken([finding])
        if refusal is not None:
            raise refusal
    finally:
        stop.set()
        pool.shutdown()


def _first_broken(reading: Reading, stop: Event) -> Finding | None:
    """Look through the files of a reading, one after the other."""
    found = (part.broken(stop) for part in reading.parts if not stop.is_set())
    return next((finding for finding in found if finding is not None), None)
