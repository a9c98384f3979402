"""What the reading of a source refuses, as a record tells it: each is an exact answer about the data."""

from __future__ import annotations

from contracts.source import Format, Source

_READABLE: dict[Format, str] = {
    "csv": "the file is CSV in UTF-8, well-formed to its last row",
    "parquet": "the Parquet file can be read to its last row",
    "duckdb": "the DuckDB table can be read to its last row",
    "sqlite": "the SQLite table can be read to its last row and holds text in UTF-8 and no binary data",
    "postgresql": "the PostgreSQL table can be read to its last row and holds text in UTF-8",
}
_READABLE_FILES: dict[str, str] = {
    "csv": "the files are CSV in UTF-8, well-formed to their last rows",
    "parquet": "the Parquet files can be read to their last rows",
}


def readable(source: Source) -> list[str]:
    """List the gates that the form of a source is."""
    typed = source.select is None and (source.files or source.format) in ("parquet", "duckdb", "postgresql")
    stored = ["no column is stored as a type of which the contract reads no value"] if typed else []
    if source.files is None:
        return [_READABLE[source.format], *stored]
    alike = "the files have the same columns, with values of one kind each"
    return [_READABLE_FILES[source.files], alike, *stored, "no two files of a partition have the same bytes"]
