"""The reading itself: a source, through its `select:` if it has one, into the table `raw` of the snapshot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import duckdb
import pyarrow as pa

from contracts.errors import Finding, GateBroken, SpecRefused, SudareError
from contracts.selection import UNSAFE_OPTIMIZERS, guarded_select
from tasks.duckdb_session import Explanation, attempt, run, trouble
from tasks.source.read_tables import DELIVERED
from tasks.source.reading import Reading, break_gate, check_columns

Advance = Callable[[float], None]


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
    return SpecRefused([Finding(reading.where, "source.select", found, allowed, "correct the select")])


def deliver(
    connection: duckdb.DuckDBPyConnection,
    reading: Reading,
    *,
    select: str | None,
    expected: Sequence[str],
    explain: Explanation,
    advance: Advance,
) -> None:
    """Create `raw` with the rows of the source in their order.

    A source without any row is refused; a `select:` that keeps none is not, since whether it does can be a matter
    of one person.

    Args:
        connection: the open snapshot, still empty.
        reading: the source.
        select: a row-wise SELECT over the relation `source`, checked; None for all of it.
        expected: the columns that must arrive, no other.
        explain: as for `duckdb_session.attempt`.
        advance: called with the fraction read.
    Raises:
        SpecRefused: the select does not fit the source.
        GateBroken: columns, rows or the file are broken, or there is no row.
    """
    if reading.attach:
        attempt(lambda: connection.execute(reading.attach), explain)
    if reading.batches is not None:
        none = pa.schema([(name, pa.string()) for name in reading.columns]).empty_table()
        connection.register(DELIVERED, none)
    query = f"WITH source AS (SELECT * FROM {reading.relation}) {guarded_select(select) if select else 'FROM source'}"
    if select is not None:
        attempt(lambda: connection.execute(f"SET disabled_optimizers = '{','.join(UNSAFE_OPTIMIZERS)}'"), explain)
        described = attempt(lambda: connection.execute(f"DESCRIBE {query}").fetchall(), explain)
        check_columns(reading, [row[0] for row in described], expected, selected=True)
    fill = _fill_from_batches if reading.batches is not None else _fill
    _beside(reading, lambda: fill(connection, reading, query, explain, advance))
    attempt(lambda: connection.execute("RESET disabled_optimizers"), explain)


def _fill(
    connection: duckdb.DuckDBPyConnection, reading: Reading, query: str, explain: Explanation, advance: Advance
) -> None:
    """Read what DuckDB reads itself, in one statement."""
    run(connection, lambda: connection.execute(f"CREATE TABLE raw AS {query}"), explain=explain, advance=advance)
    for relation in ("raw", reading.relation):
        some = f"SELECT 1 FROM {relation} LIMIT 1"
        if attempt(lambda: connection.execute(some).fetchone(), explain):  # noqa: B023
            return
    _no_rows(reading)


def _fill_from_batches(
    connection: duckdb.DuckDBPyConnection, reading: Reading, query: str, explain: Explanation, advance: Advance
) -> None:
    """Read what arrives in Arrow batches, each in a statement of its own."""
    attempt(lambda: connection.execute(f"CREATE TABLE raw AS {query}"), explain)
    empty = True
    for batch, fraction in reading.batches() if reading.batches is not None else ():
        connection.register(DELIVERED, batch)
        run(connection, lambda: connection.execute(f"INSERT INTO raw {query}"), explain=explain)
        advance(fraction)
        empty = False
    connection.unregister(DELIVERED)
    if empty:
        _no_rows(reading)


def _no_rows(reading: Reading) -> None:
    break_gate(reading.where, "rows", "no rows", "at least one row", "deliver the table again")


def _beside(reading: Reading, fill: Callable[[], None]) -> None:
    """Fill, and meanwhile look whether the file is whole; that it is not explains what the filling stumbles over."""
    stop = Event()
    pool = ThreadPoolExecutor(1, "whole-file")
    try:
        verdict = pool.submit(reading.broken, stop)
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
