"""Draft: the text of a contract from what there is already. Everything that has to be declared stays open."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from contracts.drafting.codebooks.codebook import read_codebook, registered_suffixes
from contracts.drafting.codebooks.entries import Codebook
from contracts.drafting.documents import describes_dbt, sketch_of_contract, sketch_of_csv, sketch_of_dbt
from contracts.drafting.draft import draft_text, short_text
from contracts.drafting.matching import matched, sketch_of_codebook
from contracts.drafting.sketch import ColumnSketch, DraftRefused, TableSketch, refuse_draft
from contracts.errors import Finding
from contracts.reading.placeholders import PLACEHOLDER
from contracts.reading.scalars import is_not_plain
from contracts.reading.yaml_lines import located, shown
from contracts.release.product import format_of_name

if TYPE_CHECKING:
    import pyarrow as pa

_ALLOWED: Final = (
    "a CSV (.csv), Parquet (.parquet) or DuckDB file (.duckdb), a data contract or a dbt properties file (.yaml, "
    ".yml), or a codebook (.json, .xml, .sav, .dta)"
)


@dataclass(frozen=True)
class Draft:
    """A drafted contract.

    Args:
        text: YAML; refused by `load_contract` until a person has declared what it leaves open.
        columns: what the documents say of each column.
        findings: what the documents contradict each other in, and columns that one of them lacks.
        delimiter: between the fields of a CSV file, which a spec has to name where it is no comma; None for others.
    """

    text: str
    columns: tuple[ColumnSketch, ...]
    findings: tuple[Finding, ...] = ()
    delimiter: str | None = None

    @property
    def open_places(self) -> int:
        """The number of placeholders, that of the opening comment not counted."""
        return open_places(self.text)


def draft_contract(
    source: Path | pa.Schema | pa.Table | None,
    codebook: Path | None = None,
    *,
    public_because: str | None = None,
    form: str | None = None,
    table: str | None = None,
    long: bool = False,
) -> Draft:
    """Write the draft of a contract for a table.

    Args:
        source: a CSV, Parquet or DuckDB file, a codebook, an ODCS or a dbt file; or an Arrow schema or table. None
            for a codebook alone.
        codebook: a document about the columns.
        public_because: why the rows of `source` are public. Only with it are rows read, and values, bounds and bins
            proposed from them.
        form: the form that the codebook should be in.
        table: which table, where the source has several; of an Arrow schema the table's name.
        long: the long form (Open Data Contract Standard 3), which ODCS and dbt files always become.
    Returns:
        Draft: the text, and what contradicts what.
    Raises:
        DraftRefused: no draft can be made of it.
    Privacy: reads names, types and declarations. Without `public_because` no row and no statistics of rows.
    """
    book = None if codebook is None else read_codebook(codebook, form)
    sketch = _sketch(source, book, table)
    if book is not None and source is not None:
        sketch = matched(sketch, book)
    if public_because is not None:
        sketch = _from_rows(sketch, source, public_because)
    document = isinstance(source, Path) and source.suffix.lower() in (".yaml", ".yml")
    text = draft_text(sketch) if long or document else short_text(sketch)
    return Draft(text, sketch.columns, sketch.findings, sketch.delimiter)


def open_places(text: str) -> int:
    """Return how many placeholders a draft has, its opening comment not counted."""
    return sum(line.count(PLACEHOLDER) for line in text.splitlines() if not line.startswith("#"))


def _sketch(source: Any, book: Codebook | None, table: str | None) -> TableSketch:
    """Sketch the table from the source; from the codebook where there is no source."""
    if source is None and book is not None:
        return sketch_of_codebook(book, table or book.file.split(".")[0])
    if source is None:
        refuse_draft("sudare contract draft", "--from", "neither a file nor a codebook", _ALLOWED, "add --from FILE")
    if isinstance(source, Path):
        names = () if book is None else tuple(entry.name for entry in book.entries)
        return _sketch_of_file(source, table, names)
    from tasks.storage.sources.table_schema import sketch_of_arrow

    return sketch_of_arrow(getattr(source, "schema", source), table or "table", "an Arrow schema")


def _sketch_of_file(path: Path, table: str | None, known: tuple[str, ...]) -> TableSketch:
    suffix = path.suffix.lower()
    if suffix in (".yaml", ".yml"):
        document = located(path, refusal=DraftRefused)
        return sketch_of_dbt(document, table) if describes_dbt(document) else sketch_of_contract(document, table)
    form = format_of_name(path.name)
    if form == "csv":
        return sketch_of_csv(path, known)
    if form == "parquet":
        from tasks.storage.sources.table_schema import sketch_of_parquet

        return sketch_of_parquet(path)
    if form == "duckdb":
        from tasks.storage.sources.table_schema import sketch_of_duckdb

        return sketch_of_duckdb(path, table)
    if suffix in registered_suffixes():
        return sketch_of_codebook(read_codebook(path), path.name.split(".")[0])
    refuse_draft(shown(path), "--from", f"the suffix of {path.name!r}", _ALLOWED, f"save it as CSV: {path.stem}.csv")


def _from_rows(sketch: TableSketch, source: Any, reason: str) -> TableSketch:
    """Propose domains from rows that a person says are public."""
    from tasks.storage.sources.public_sample import public_rows, sketch_of_sample

    words = " ".join(reason.split())
    if len(words.split()) < 3 or is_not_plain(words):
        remedy = 'write a sentence, such as --public-because "rows of the 2019 public use file, https://..."'
        allowed = "why anybody may see these rows: it is published as the provenance of every domain"
        refuse_draft("--public-because", "reason", repr(reason), allowed, remedy)
    if isinstance(source, Path) and format_of_name(source.name) in ("csv", "parquet"):
        return sketch_of_sample(sketch, public_rows(source, sketch), reason=words, file=source.name)
    if hasattr(source, "num_rows"):
        return sketch_of_sample(sketch, source, reason=words, file="an Arrow table")
    found = "no rows" if not isinstance(source, Path) else f"the suffix of {source.name!r}"
    refuse_draft("--public-because", "source", found, "a CSV or Parquet file, or an Arrow table", "name the rows")
