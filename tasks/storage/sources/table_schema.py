"""A sketch from the schema of a Parquet file or of a table in a DuckDB file: names and types of columns, no more.

Not looked at, though it lies in the same files: rows, the statistics of a Parquet footer (minimum, maximum, nulls,
number of rows), dictionary pages, the metadata of pandas (which counts rows), whether a column may be null, widths
and precisions, and the labels of an ENUM, which is often made from the rows.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from contracts.domains.value_sql import identifier, literal
from contracts.drafting.sketch import ColumnSketch, DraftRefused, TableSketch, chosen, logical_type_of, refuse_draft
from contracts.errors import Finding
from contracts.reading.yaml_lines import nearest_file, shown
from tasks.storage.duckdb_session import attempt

ORIGIN = "origin"


def sketch_of_parquet(path: Path) -> TableSketch:
    """Sketch a table from the schema of a Parquet file.

    Raises:
        DraftRefused: no such file, or not Parquet.
    Privacy: reads names and types from the footer; neither rows nor statistics.
    """
    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError):
        schema = None
    if schema is None:
        refuse_draft(
            shown(path), "--from", "not a Parquet file, or a missing one", "a Parquet file", "check the path"
        )
    return sketch_of_arrow(schema, path.name.split(".")[0], f"the schema of {path.name}")


def sketch_of_arrow(schema: pa.Schema, name: str, origin: str) -> TableSketch:
    """Sketch a table from an Arrow schema.

    Args:
        schema: names and types; metadata are not looked at.
        name: of the table.
        origin: how the head of the draft names where the schema comes from.
    Privacy: reads names and types.
    """
    columns = tuple(_column(field.name, _arrow_type(field.type)) for field in schema)
    return TableSketch(name, columns, origin)


def sketch_of_duckdb(path: Path, table: str | None) -> TableSketch:
    """Sketch a table of a DuckDB file, which is opened read-only.

    Args:
        path: the file.
        table: the table's name; with its schema ("survey.answers") where that is not `main`.
    Raises:
        DraftRefused: the file cannot be opened, has no such table, or has several and none is named.
    Privacy: reads the catalogue; no row.
    """
    if not path.is_file():
        refuse_draft(shown(path), "--from", "no such file", "a DuckDB file", nearest_file(path))
    with duckdb.connect(config={"autoinstall_known_extensions": False}) as session:
        attach = f"ATTACH {literal(str(path))} AS {ORIGIN} (READ_ONLY)"
        attempt(lambda: session.execute(attach), lambda _: _unopened(path))
        listed = "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = ? ORDER BY ALL"
        rows = session.execute(listed, [ORIGIN]).fetchall()
        names = [name if schema == "main" else f"{schema}.{name}" for schema, name in rows]
        place = chosen(names, table, where=shown(path))
        relation = ".".join(identifier(part) for part in (ORIGIN, *rows[place]))
        described = session.execute(f"DESCRIBE {relation}").fetchall()
    columns = tuple(_column(name, _without_labels(stated)) for name, stated, *_ in described)
    return TableSketch(rows[place][1], columns, f"the schema of the table {names[place]} in {path.name}")


def _unopened(path: Path) -> DraftRefused:
    """Say that a file cannot be opened; DuckDB's own words may quote what the file holds."""
    found, allowed = "not a DuckDB file that can be opened", "a DuckDB file that no other process writes to"
    return DraftRefused(
        [Finding(shown(path), "--from", found, allowed, "check the path; end the process that writes")]
    )


def _column(name: str, stated: str) -> ColumnSketch:
    logical = logical_type_of(stated)
    hints = []
    if logical is None:
        kind = stated.partition("(")[0].partition("<")[0]
        hints.append(
            f"Its type is {kind}, which a contract has no domain for: leave it out or convert it by `select:`."
        )
    if stated == "ENUM":
        hints.append("The labels of the ENUM were not taken over: it may have been made from the rows.")
    return ColumnSketch(name, logical, hints=tuple(hints))


def _without_labels(stated: str) -> str:
    """Name a type of DuckDB; of an ENUM without its labels."""
    if not stated.startswith("ENUM"):
        return stated
    return "ENUM[]" if stated.endswith("]") else "ENUM"


def _arrow_type(kind: pa.DataType) -> str:
    """Name an Arrow type; of a dictionary, the type of its values."""
    return str(kind.value_type if pa.types.is_dictionary(kind) else kind)
