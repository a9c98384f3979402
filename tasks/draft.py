"""Draft: the text of a contract from what there is already. Everything that has to be declared stays open."""

from __future__ import annotations

from pathlib import Path

from contracts.drafting.dbt_document import describes_dbt, sketch_of_dbt
from contracts.drafting.draft_text import draft_text
from contracts.drafting.odcs_document import sketch_of_contract
from contracts.drafting.sketch import DraftRefused, TableSketch, refuse_draft
from contracts.reading.placeholders import PLACEHOLDER
from contracts.reading.yaml_lines import located, shown
from contracts.release.file_names import format_of_name

_ALLOWED = (
    "a data contract or a dbt properties file (.yaml, .yml), a Parquet file (.parquet) or a DuckDB file (.duckdb)"
)


def draft(path: Path, *, table: str | None = None) -> str:
    """Write the draft of a contract for a table.

    Args:
        path: an ODCS 3 file, a dbt properties file, a Parquet file or a DuckDB file.
        table: which table, where the file describes several.
    Returns:
        str: the draft, YAML.
    Raises:
        DraftRefused: no draft can be made of the file.
    Privacy: reads names, types and declarations; no row and no statistics of rows.
    """
    return draft_text(_sketch(path, table))


def open_places(text: str) -> int:
    """Return how many placeholders a draft has, its opening comment not counted."""
    return sum(line.count(PLACEHOLDER) for line in text.splitlines() if not line.startswith("#"))


def _sketch(path: Path, table: str | None) -> TableSketch:
    if path.name.lower().endswith((".yaml", ".yml")):
        document = located(path, refusal=DraftRefused)
        return sketch_of_dbt(document, table) if describes_dbt(document) else sketch_of_contract(document, table)
    form = format_of_name(path.name)
    if form == "parquet":
        from tasks.storage.sources.table_schema import sketch_of_parquet

        return sketch_of_parquet(path)
    if form == "duckdb":
        from tasks.storage.sources.table_schema import sketch_of_duckdb

        return sketch_of_duckdb(path, table)
    remedy = "load a CSV into DuckDB with the types that you declare, and name that file" if form == "csv" else ""
    refuse_draft(shown(path), "--from", f"the suffix of {path.name!r}", _ALLOWED, remedy)
