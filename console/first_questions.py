"""The questions about a table: which file, who is protected, which columns, and which tables of them.

Privacy: what is asked is answered out of a header, a codebook and plans. No row is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from console.errors import require_regular
from console.first_release import (
    ALL,
    DECLARED,
    EACH,
    ROW,
    FirstRelease,
    chosen_columns,
    chosen_tables,
    column_of,
    contract_text,
    domain_lines,
    known_lines,
    spec_text,
)
from console.interview import Interview, Misunderstood
from contracts.contract.odcs import load_contract
from contracts.drafting.advice.suspicions import names_an_id, names_free_text
from contracts.drafting.sketch import ColumnSketch, TableSketch
from contracts.drafting.yaml_words import slug
from contracts.release.file_names import SUFFIXES, format_of_name
from flows.request import Request, read_request
from tasks.draft import sketch_table

SHOWN: Final = 20
MANY: Final = 40
"""So many columns without a codebook are not asked for one by one unless a person names them."""
_DOMAIN_HELP: Final = (
    "From the form that was filled in, the code book, the law: never from the rows. It is published.",
    "  0..99 by 5                       whole numbers in bins of five",
    "  0..99 at 18, 40, 65              whole numbers in bins 0 to 17, 18 to 39, 40 to 64, 65 to 99",
    "  number 0..24 by 0.5              numbers with decimals",
    "  2024-01-01..2024-12-31 by month  days",
    "  north; south                     values",
    "  1=male; 2=female                 codes with the labels that are published",
)


class TableQuestions:
    """The questions from the file to the tables.

    Args:
        interview: asks.
        here: the folder that contract and spec will lie in, and that paths count from.
    """

    def __init__(self, interview: Interview, here: Path) -> None:
        self._ask, self._say = interview.ask, interview.say
        self._here = here

    def first(self, source: Path | None, codebook: Path | None, table: str | None) -> FirstRelease:
        """Ask what the arguments leave open; what is returned has no people and no price yet."""
        sketch, path, inner = self._file(source, codebook, table)
        first = FirstRelease(
            self._release_name(sketch),
            sketch.name,
            path,
            inner,
            None if sketch.delimiter == "," else sketch.delimiter,
        )
        first = self._unit(first, [column.name for column in sketch.columns])
        return self._tables(self._columns(first, sketch), [column.name for column in sketch.columns])

    def _file(
        self, source: Path | None, codebook: Path | None, table: str | None
    ) -> tuple[TableSketch, str, str | None]:
        """Ask for the file and a codebook; its header says which columns there are."""

        def sketched(path: str) -> TableSketch:
            if format_of_name(path) not in ("csv", "parquet", "duckdb"):
                allowed = [suffix for suffix, form in SUFFIXES.items() if form != "sqlite"]
                raise Misunderstood(f"no file of a known form: {path!r}; name one that ends in {', '.join(allowed)}")
            require_regular(Path(path), "sudare new")
            return sketch_table(Path(path), table=table)

        if source is None:
            here = [each.name for each in sorted(self._here.iterdir()) if format_of_name(each.name) is not None]
            only = here[0] if len(here) == 1 else None
            more: tuple[str, ...] = ("A CSV, Parquet or DuckDB file. Only the names of its columns are read.",)
            path, sketch = self._ask(
                "Which file holds the rows?", lambda typed: (typed, sketched(typed)), default=only, more=more
            )
        else:
            path, sketch = str(source), sketch_table(source, table=table)
        if codebook is not None:
            sketch = sketch_table(Path(path), codebook, table=table)
        self._say(f"{path} has {len(sketch.columns):,} columns: {_listed(sketch.columns)}. No row was read.")
        self._say(*(f"  ! {each.field}: {each.found}. {each.remedy}" for each in sketch.findings[:4]))
        return sketch, path, sketch.name if format_of_name(path) == "duckdb" else None

    def _release_name(self, sketch: TableSketch) -> str:
        """Ask for a name whose files are not there yet."""

        def free(name: str) -> str:
            if slug(name) != name:
                raise Misunderstood(f"lower-case letters, digits and hyphens: {slug(name)}")
            named = FirstRelease(name, "", "")
            for file in (named.contract_file, named.spec_file):
                if (self._here / file).exists():
                    raise Misunderstood(f"{file} is there already, and is never overwritten: choose another name")
            return name

        name = slug(sketch.name)
        more: tuple[str, ...] = ("Contract, spec and the published folder are named after it.",)
        return self._ask("What is the release called?", free, default=name, more=more)

    def _unit(self, first: FirstRelease, names: Sequence[str]) -> FirstRelease:
        """Ask who is protected: a row, or all rows of one person."""

        def unit(answer: str) -> str | None:
            return None if answer == ROW and ROW not in names else column_of(answer, names)

        more: tuple[str, ...] = (
            "What is protected is one person with all their rows.",
            f"Type {ROW} if nobody has two rows, else the column with the number or name of the person.",
        )
        column = self._ask(f"Who is one row about? {ROW}, or the column that tells whose row it is", unit, more=more)
        if column is None:
            return first
        more = ("A person with more rows has this many of them counted. More rows need more noise.",)
        return replace(
            first,
            unit=column,
            rows_per_unit=self._ask("How many rows of one person count, at most?", _whole, more=more),
        )

    def _columns(self, first: FirstRelease, sketch: TableSketch) -> FirstRelease:
        """Ask which columns are counted, what each may hold, and where that comes from."""
        known = {column.name: column for column in sketch.columns if column.name != first.unit}
        places = [column.name for column in sketch.columns]
        usual = [name for name, column in known.items() if not _looks_personal(column)]
        default = ALL if len(usual) <= MANY or all(known_lines(known[name]) for name in usual) else None
        more: tuple[str, ...] = (
            f"Names or numbers, with commas; {ALL} takes {', '.join(usual[:8])}{' and so on' * (len(usual) > 8)}.",
            "The others are left out: they are never read. Leave out names, addresses, texts that people write.",
        )
        chosen = self._ask(
            "Which columns are counted?",
            lambda typed: chosen_columns(typed, list(known), usual, places),
            default=default,
            more=more,
        )
        columns = {name: self._domain(first, known[name]) for name in chosen}
        left_out = tuple(name for name in known if name not in columns)
        more = ("Type the public document they are taken from, with its date. It is published with the contract.",)
        provenance = self._ask(
            "Where do these values and ranges come from? A public document, or your own declaration",
            str,
            default=DECLARED,
            more=more,
        )
        return replace(first, columns=columns, left_out=left_out, provenance=provenance)

    def _domain(self, first: FirstRelease, column: ColumnSketch) -> tuple[str, ...]:
        """Take over what a codebook declares of a column; ask for the rest, and let the reader of contracts judge."""
        lines = known_lines(column)
        if lines is not None:
            self._say(f"  {' '.join(lines[0].split())}" + (" ..." if len(lines) > 1 else ""))
            return lines
        bounds = "" if column.bounds is None else f" The codebook says {column.bounds[0]}..{column.bounds[1]}."

        def domain(answer: str) -> tuple[str, ...]:
            lines = domain_lines(column.name, answer, column.description)
            with TemporaryDirectory() as folder:
                file = Path(folder) / "contract.yaml"
                probe = replace(first, release="probe", columns={column.name: lines}, provenance=DECLARED)
                file.write_text(contract_text(probe), encoding="utf-8")
                load_contract(file)
            return lines

        return self._ask(f"What may {column.name!r} hold?{bounds}", domain, more=_DOMAIN_HELP)

    def _tables(self, first: FirstRelease, places: Sequence[str]) -> FirstRelease:
        """Ask for the tables, and have them planned."""
        names = list(first.columns)

        def tables(answer: str) -> FirstRelease:
            asked = replace(first, tables=chosen_tables(answer, names, places), account="none", epsilon="1")
            planned(asked, self._here)
            return asked

        more: tuple[str, ...] = (
            f"{EACH}: a table for each column. Or columns joined by x, tables with commas: age x sex, ward.",
            "All tables share the release's ε: fewer and smaller tables are more precise.",
        )
        return self._ask("Which tables?", tables, default=EACH, more=more)


def planned(first: FirstRelease, here: Path) -> Request:
    """Have a release planned as `sudare plan` does, in files of a moment; no row is read.

    Raises:
        SpecRefused, ContractRefused: it cannot be planned.
    """
    with TemporaryDirectory() as folder:
        (Path(folder) / first.contract_file).write_text(contract_text(first), encoding="utf-8")
        spec = Path(folder) / first.spec_file
        spec.write_text(spec_text(first, folder=here), encoding="utf-8")
        return read_request(spec)


def _looks_personal(column: ColumnSketch) -> bool:
    """Say whether an undeclared column looks like ids, or texts that people write."""
    if column.values or column.bounds is not None:
        return False
    return names_an_id(column.name) or names_free_text(column.name) or column.name.casefold() == "name"


def _listed(columns: Sequence[ColumnSketch]) -> str:
    shown = ", ".join(f"{place} {column.name}" for place, column in enumerate(columns[:SHOWN], start=1))
    return shown + (f" and {len(columns) - SHOWN:,} more" if len(columns) > SHOWN else "")


def _whole(typed: str) -> int:
    if not (typed.isascii() and typed.isdigit() and int(typed[:9]) > 0 and len(typed) < 9):
        raise Misunderstood("a whole number from 1")
    return int(typed)
