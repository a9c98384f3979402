"""A contract in Python: drafted from the head of a table, loaded from its file, shown with its columns."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from contracts.errors import Finding, Refused
from sudare import html
from sudare.words import call

if TYPE_CHECKING:
    from contracts.contract.contract import Contract as ReadContract
    from tasks.draft import Draft


class Contract:
    """What the columns of a table may hold, and whose privacy is protected how.

    A draft has places that only a person can declare: it is saved, filled in, and loaded again. What is loaded was
    checked.
    """

    def __init__(
        self,
        text: str,
        path: Path | None = None,
        read: ReadContract | None = None,
        contradictions: tuple[Finding, ...] = (),
    ) -> None:
        self._text, self._path, self._read, self._contradictions = text, path, read, contradictions

    @classmethod
    def draft(
        cls,
        source: Any,
        codebook: str | Path | None = None,
        *,
        table: str | None = None,
        public_because: str | None = None,
    ) -> Contract:
        """Begin a contract from what there is: a file, or the names and types of the columns of a table in memory.

        Args:
            source: a CSV, Parquet, DuckDB, SPSS or Stata file, an ODCS contract or a dbt `schema.yml`; or a table in
                memory, of Polars, pandas, Arrow or DuckDB.
            codebook: a file that says what the columns may hold.
            table: which table, where a file has several; of a table in memory its name in the contract.
            public_because: why the rows are public. Only with it are rows read, and domains proposed from them.
        Returns:
            Contract: a draft; `save` it, and replace every `<declare>`.
        Raises:
            DraftRefused: no draft can be made of it.
        Privacy: reads names, types and declarations. Without `public_because` no row and no statistics of rows.
        """

        def drafted() -> Contract:
            made = _drafted(source, codebook, table, public_because)
            return cls(made.text, contradictions=made.findings)

        return call(drafted)

    @classmethod
    def load(cls, path: str | Path) -> Contract:
        """Read and check a contract's file.

        Raises:
            ContractRefused: with every finding; each names line and field, what was found, and what is allowed.
        """

        def loaded() -> Contract:
            from contracts.contract.odcs import load_contract

            file = Path(path).absolute()
            read = load_contract(file)
            return cls(file.read_text(encoding="utf-8"), file, read)

        return call(loaded)

    @property
    def text(self) -> str:
        """The contract as its file holds it, YAML."""
        return self._text

    @property
    def path(self) -> Path | None:
        """Its file; None of a draft that was not saved."""
        return self._path

    @property
    def open_places(self) -> int:
        """How many places a person still has to declare."""
        from tasks.draft import open_places

        return open_places(self._text)

    @property
    def contradictions(self) -> tuple[str, ...]:
        """What the documents of a draft contradict each other in, and columns that one of them lacks."""
        return tuple(str(each) for each in self._contradictions)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns with a domain; none of a draft."""
        return () if self._read is None else tuple(column.name for column in self._read.columns)

    @property
    def table(self) -> str | None:
        """The name of its table; None of a draft."""
        return None if self._read is None else self._read.table

    def save(self, path: str | Path) -> Contract:
        """Write it into a new file, and return it with that file.

        Raises:
            Refused: there is a file already, or it cannot be written.
        """
        file = Path(path).absolute()

        def write() -> Contract:
            try:
                with file.open("x", encoding="utf-8") as opened:
                    opened.write(self._text)
            except OSError as error:
                found, allowed = error.strerror or type(error).__name__, "a new file that can be written"
                raise Refused([Finding(str(file), "path", found, allowed, "name another")]) from None
            return Contract(self._text, file, self._read)

        return call(write)

    def __repr__(self) -> str:
        """Name its columns, or what is open."""
        if self._read is None:
            apart = f", {len(self._contradictions)} contradictions" if self._contradictions else ""
            return f"<draft of a contract, {self.open_places} places to declare{apart}>"
        return f"<contract {self._read.id} {self._read.version}: {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        if self._read is None:
            return html.facts(
                repr(self)[1:-1], [("next", "save(path), replace every <declare>, Contract.load(path)")]
            )
        unit = self._read.unit
        protected = (
            "a row" if unit.column is None else f"all rows of one {unit.column}, at most {unit.max_rows_per_unit}"
        )
        facts = html.facts(
            f"{self._read.name} ({self._read.id} {self._read.version})",
            [("protected", protected), ("neighbours", self._read.adjacency)],
        )
        rows = [(column.name, column.domain.kind, f"{column.size:,}") for column in self._read.columns]
        return facts + html.table(("column", "domain", "cells"), rows, numbers=("cells",))


def _drafted(source: Any, codebook: str | Path | None, table: str | None, public_because: str | None) -> Draft:
    """Draft a contract by the same code as `sudare contract draft`."""
    from tasks.draft import draft_contract

    book = None if codebook is None else Path(codebook)
    if isinstance(source, str | Path):
        return draft_contract(Path(source), book, public_because=public_because, table=table)
    import pyarrow.parquet as pq

    from sudare.rows import schema_of, write_rows

    with TemporaryDirectory(prefix="sudare-draft-") as folder:
        file = Path(folder) / f"{table or 'table'}.parquet"
        if public_because is None:
            pq.write_table(schema_of(source).empty_table(), file)
        else:
            write_rows(source, file)
        return draft_contract(file, book, public_because=public_because)
