"""What the reading of a source refuses, as a record tells it: each is an exact answer about the data."""

from __future__ import annotations

from typing import Final

from contracts.contract.contract import Contract
from contracts.contract.linked_tables import LinkedTables
from contracts.message import joined, message
from contracts.release.address import Address
from contracts.release.source import Source, stored_formats

READABLE: dict[str, str] = {
    "csv": message("the file is CSV in UTF-8, well-formed to its last row"),
    "parquet": message("the Parquet file can be read to its last row"),
    "duckdb": message("the DuckDB table can be read to its last row"),
    "postgresql": message("the PostgreSQL table can be read to its last row and holds text in UTF-8"),
    "sqlite": message("the SQLite table can be read to its last row and holds text in UTF-8 and no binary data"),
}
READABLE_FILES: dict[str, str] = {
    "csv": message("the files are CSV in UTF-8, well-formed to their last rows"),
    "parquet": message("the Parquet files can be read to their last rows"),
}
PARTLY_READ: dict[str, str] = {
    "csv": message("the file is CSV, well-formed to its last row, and in UTF-8 in the columns that are read")
}
PARTLY_READ_FILES: dict[str, str] = {
    "csv": message("the files are CSV, well-formed to their last rows, and in UTF-8 in the columns that are read")
}


TYPED: Final = message("no column is stored as a type of which the contract reads no value")
UNROUNDED: Final = message("no column that the select uses is stored as decimals of more than 38 digits")
ALIKE: Final = message(
    "the files have the same columns, the same fields in records, and a time zone in all timestamps or in none"
)
ONCE: Final = message("no two files of a partition have the same bytes")
OWN: Final = message("the rows are not those that were charged to other people")


def delivered(contract: Contract) -> list[str]:
    """List the gates that every table of a contract is held to, whatever its source."""
    if contract.linked is not None:
        return delivered_tables(contract.linked)
    gates: list[str] = [
        message("the columns are {names}, each once", names=joined(contract.source_columns)),
        message("the source has at least one row"),
        OWN,
    ]
    name, largest = contract.unit.column, contract.unit.numbers_up_to
    if name is None:
        return gates
    if largest is None:
        return [*gates, message("every row has a {name}", name=name)]
    return [*gates, message("every row has a {name}, none of them above {largest}", name=name, largest=largest)]


def exact(contract: Contract) -> list[str]:
    """List the gate of ids and keys whose digits have to be exact, where the form of a source has types."""
    names = contract.exact()
    if contract.linked is not None and contract.unit.numbers_up_to is None:
        names += tuple(key.name for table in contract.linked.tables for key in table.row_keys)
    stored = message(
        "no id or key in {names} is stored as a floating-point number", names=joined(dict.fromkeys(names))
    )
    return [stored] if names else []


def readable_somehow(contract: Contract) -> list[str]:
    """List the gates that the form of a source is, for a source whose form is not told."""
    return [
        message("the source is of its form and can be read to its last row"),
        *(message("{gate}, where its form has types", gate=gate) for gate in (TYPED, *exact(contract))),
        message("{first}, and {second}, where it is a folder", first=ALIKE, second=ONCE),
        message("its select, where it has one, could be evaluated to its end"),
    ]


def linked_gates(formats: tuple[str, ...], contract: Contract) -> list[str]:
    """List the gates that the forms of linked tables are."""
    typed = [TYPED, *exact(contract)] if {"parquet", "duckdb"} & set(formats) else []
    return [*(({**READABLE, **READABLE_FILES})[form] for form in formats), *typed]


def delivered_tables(linked: LinkedTables) -> list[str]:
    """List the gates that the columns of linked tables are; no link is a gate."""
    columns = [
        message("the columns of {table} are {names}, each once", table=table.name, names=joined(table.source_columns))
        for table in linked.tables
    ]
    return [*columns, message("each of the linked tables has at least one row"), OWN]


def readable(source: Source, contract: Contract) -> list[str]:
    """List the gates that the form of a source is.

    What a contract leaves out, or a select does not use, is parsed and not decoded: of a CSV, only the columns that
    are read have to be UTF-8.
    """
    one, many = READABLE, READABLE_FILES
    if contract.left_out or source.select is not None:
        one, many = one | PARTLY_READ, many | PARTLY_READ_FILES
    formats = stored_formats(source.format)
    if formats:
        return linked_gates(formats, contract)
    own = source.path if source.format not in one and isinstance(source.path, Address) else None
    typed = (source.files or source.format) in ("parquet", "duckdb", "postgresql") or (own is not None and own.typed)
    stored = [UNROUNDED if source.select else TYPED, *exact(contract)] if typed else []
    if source.files is not None:
        return [many[source.files], ALIKE, *stored, ONCE]
    if source.format in one:
        return [one[source.format], *stored]
    if own is not None and own.gate is not None:
        return [own.gate, *stored]
    raise LookupError(f"nothing says when {source.format} can be read")
