"""A source of linked tables: each is looked at like a source of its own, and all become one table of the base.

The tables are read into a DuckDB file of the run's private folder and joined there (`linked_rows`), inside the memory
limit of the workspace. What comes out is read like any other table, and the file goes with what else was fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

import duckdb

from contracts.contract.contract import Contract
from contracts.contract.linked_tables import LinkedTable, LinkedTables
from contracts.contract.terms import Unit
from contracts.domains.value_sql import identifier
from contracts.errors import SudareError
from contracts.reading.scalars import Label
from contracts.release.linked_source import table_sources
from contracts.release.product import DATABASES, format_of_name
from contracts.release.source import Source
from contracts.sql.encoding import UNIT
from privacy.snapshots.snapshot import PARENTS
from tasks.storage.duckdb_session import Explanation, attempt, connect, run, trouble
from tasks.storage.snapshot.linked_rows import FLAT, FLAT_PARENTS, INNER, LOSSES, OUTER, delivered_name, flatten
from tasks.storage.snapshot.snapshot import INTAKE, bound_contributions, choice_keys, encoded
from tasks.storage.sources.delivery import Advance, deliver, explanation
from tasks.storage.sources.files import ORIGIN, read_duckdb, refuse_floats
from tasks.storage.sources.open_source import open_source
from tasks.storage.sources.source import Origin
from tasks.storage.sources.typed_rows import Reading, refuse
from tasks.storage.workspace.run_folder import FETCHED, SPILL

JOINED = "linked.duckdb"


class TableContract(Contract):
    """What one of the linked tables must deliver: its keys beside its columns."""

    keys: tuple[Label, ...]

    @property
    def source_columns(self) -> tuple[str, ...]:
        """The keys, then the columns with a domain."""
        return self.keys + tuple(column.name for column in self.columns)


def open_linked(
    source: Source, contract: Contract, *, key: bytes, memory_limit: str, parent: str | None = None
) -> AbstractContextManager[Origin]:
    """Look at the tables of a source: are they there, and have they the columns of the contract.

    Args:
        source: of linked tables.
        contract: over the base that the source names.
        key: the workspace's snapshot key; the rows that are kept are chosen under it.
        memory_limit: DuckDB's limit [text].
        parent: a table above the base whose own rows are needed too; None for those of the base alone.
    Returns:
        The origin, as a context.
    Raises:
        SourceUnreadable: a table is not where or what the spec says, or lies outside its folder.
        GateBroken: a table is empty, or its columns have no proper names.
    """
    if contract.linked is None or not isinstance(source.path, Path):
        raise ValueError("linked tables are files, and have a contract of linked tables")
    linked, parts = contract.linked, table_sources(source)
    if format_of_name(source.path.name) not in DATABASES:
        _check_places(source.path, parts)
    origins = {table.name: _opened(parts[table.name], _contract_of(contract, table)) for table in linked.tables}

    def marks() -> object:
        return [origin.marks() for origin in origins.values()]

    tables = source.path, contract, linked, origins
    reading = partial(_joined, *tables, key=key, memory_limit=memory_limit, parent=parent)
    return nullcontext(Origin([each.first for each in origins.values()], marks, reading, fetches=True))


def _opened(source: Source, contract: Contract) -> Origin:
    with open_source(source, contract) as origin:  # a file, which is not held open
        return origin


def _contract_of(contract: Contract, table: LinkedTable) -> TableContract:
    """Return the contract of one table alone, by which its file is looked at."""
    kept = {name: getattr(contract, name) for name in ("apiVersion", "id", "version", "name", "adjacency")}
    unit = Unit(kind="row", scope=contract.unit.scope)
    keys = tuple(each.name for each in table.row_keys)
    return TableContract.model_construct(**kept, table=table.name, columns=table.delivered, unit=unit, keys=keys)


def _check_places(folder: Path, parts: dict[str, Source]) -> None:
    """Refuse files outside the folder, by whose name the ledger knows them, and one file under two names."""
    home, seen = folder.resolve(), dict[Path, str]()
    for name, part in parts.items():
        real = Path(str(part.path)).resolve()
        if not real.is_relative_to(home):
            found, allowed = "a link that leads out of the folder", "a file in the folder"
            refuse(part.path, f"source.tables.{name}", found, allowed, "put the file itself there")
        if real in seen:
            refuse(part.path, f"source.tables.{name}", f"the file of {seen[real]} again", "one file a table")
        seen[real] = name


def _joined(
    where: Path,
    contract: Contract,
    linked: LinkedTables,
    origins: dict[str, Origin],
    folder: Path,
    advance: Advance,
    *,
    key: bytes,
    memory_limit: str,
    parent: str | None,
) -> Reading:
    """Read the tables, join them, and return the reading of what came out."""
    place = folder / FETCHED
    place.mkdir(mode=0o700, exist_ok=True)
    joined = place / JOINED
    joined.unlink(missing_ok=True)
    with connect(joined, memory_limit=memory_limit, spill=folder / SPILL) as connection:
        joined.chmod(0o600)
        for number, (name, origin) in enumerate(origins.items()):
            keys = () if linked.terms.unit.numbers_up_to else [key.name for key in linked.table(name).row_keys]
            share = partial(_share, advance, number / (len(origins) + 1), 1 / (len(origins) + 1))
            _deliver(connection, origin, delivered_name(linked, name), keys, folder, share)
        explain: Explanation = partial(_trouble, folder)
        for variable, value in zip((OUTER, INNER), choice_keys(key), strict=True):
            attempt(partial(connection.execute, f"SET VARIABLE {variable} = '{value}'"), explain)

        def execute(statement: str) -> None:
            run(connection, lambda: connection.execute(statement), explain=explain)

        flatten(linked, contract.table, connection, execute, parent=parent)
        attempt(lambda: connection.execute("CHECKPOINT"), explain)
    return replace(read_duckdb(joined, table=FLAT), may_be_empty=True, stored={}).told_as(joined, str(where))


def keep_losses(connection: duckdb.DuckDBPyConnection, contract: Contract, explain: Explanation) -> None:
    """Keep in the snapshot how many rows each link left out, for the operator's look."""
    if contract.linked is not None:
        attempt(lambda: connection.execute(f"CREATE TABLE {LOSSES} AS FROM {ORIGIN}.main.{LOSSES}"), explain)


def _share(advance: Advance, start: float, length: float, fraction: float) -> None:
    advance(start + length * fraction)


def _trouble(folder: Path, error: duckdb.Error) -> SudareError:
    return trouble(error, folder, "joining the linked tables")


def _deliver(
    connection: duckdb.DuckDBPyConnection,
    origin: Origin,
    name: str,
    keys: Collection[str],
    folder: Path,
    advance: Callable[[float], None],
) -> None:
    """Put one table down under its name, as it is delivered."""
    reading = origin.reading(folder, lambda fraction: None)
    refuse_floats(reading.where, [(key, "the unit of the linked tables") for key in keys if key in reading.floats])
    explain = explanation(reading, None, folder)
    deliver(
        connection,
        reading,
        select=None,
        types={},
        expected=reading.columns,
        explain=explain,
        advance=advance,
        into=name,
    )
    if reading.attach:
        attempt(lambda: connection.execute(f"DETACH {ORIGIN}"), explain)


# --- The rows of a base's parent table, encoded beside those of the base in one snapshot.


def keep_parents(
    connection: duckdb.DuckDBPyConnection,
    contract: Contract,
    parent: str | None,
    *,
    key: bytes,
    where: str,
    explain: Explanation,
) -> None:
    """Encode the rows of the parent table into `parents.codes`; nothing where no release needs them.

    Args:
        connection: the open snapshot, with the joined tables attached.
        contract: over the base.
        parent: the table above it; None where its rows are not needed.
        key: the workspace's snapshot key.
        where: the source, for messages.
        explain: as for `duckdb_session.attempt`.
    Privacy: a unit has at most the rows that the contract over the parent table declares.
    """
    if parent is None:
        return
    above, table = contract.over(parent), f"{PARENTS}.{INTAKE}"
    shape = encoded(above, (), columns=above.source_columns, query=f"SELECT * FROM {ORIGIN}.main.{FLAT_PARENTS}")

    def execute(statement: str) -> None:
        run(connection, lambda: connection.execute(statement), explain=explain)

    execute(f"CREATE SCHEMA {PARENTS}")
    execute(f"CREATE TABLE {table} AS {shape}")
    bound_contributions(
        connection,
        table=table,
        unit=UNIT,
        named=str(above.unit.column),
        max_rows_per_unit=above.unit.max_rows_per_unit,
        key=key,
        where=where,
        explain=explain,
    )
    names = ", ".join(identifier(column.name) for column in above.columns)
    execute(f"CREATE TABLE {PARENTS}.codes AS SELECT {names} FROM {table}")
    execute(f"DROP TABLE {table}")
