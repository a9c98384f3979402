"""`sudare contract draft`: a contract to fill in, from what there is already."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from console.errors import print_findings
from console.options import AsJson
from console.render import answer, print_facts, terminal
from console.render import table as drawn_table
from contracts.drafting.sketch import ColumnSketch
from contracts.errors import Finding, Refused
from tasks.draft import draft_contract

SHOWN = 10
"""Columns that are echoed, so that they and the contradictions fit one screen."""
_FEW = 4


class WouldOverwrite(Refused):
    """A file is there already, and somebody may have worked on it."""


def draft(
    source: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="A CSV (its first line is read), Parquet or DuckDB file, an ODCS 3 contract, a dbt schema.yml, or a "
            "codebook.",
        ),
    ] = None,
    codebook: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What describes the columns: a list in CSV, or what an extension reads."),
    ] = None,
    form: Annotated[
        str | None, typer.Option(help="The form that the codebook should be in; another one is refused.")
    ] = None,
    public_because: Annotated[
        str | None,
        typer.Option(help="Why the rows of --from are public. Only with it are rows read, and domains proposed."),
    ] = None,
    table: Annotated[str | None, typer.Option(help="Which table or model, where FILE has several.")] = None,
    long: Annotated[
        bool, typer.Option("--long", help="Write the long form (ODCS 3) instead of a line a column.")
    ] = False,
    to: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write it; the terminal without it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Draft a contract; what has to be declared is left open, and nothing is learned from rows.

    Names, types and what a document declares are taken over. Every domain that no
    document declares, and whose privacy is protected, stays a placeholder until a
    person declares it; `sudare contract lint` lists them. What was understood of each
    column is printed once, and so is each contradiction of data and codebook.

    Examples:

        sudare contract draft --from visits.csv --codebook codebook.csv --to visits.yaml

        sudare contract draft --from models/schema.yml --table orders --to orders.odcs.yaml

        sudare contract draft --from data/adult.parquet
    """
    drafted = draft_contract(source, codebook, public_because=public_because, form=form, table=table, long=long)
    if to is not None:
        _write(to, drafted.text)
    elif not as_json:
        sys.stdout.write(drafted.text)
        _print_columns(terminal(errors=True), drafted.columns)
        print_findings(terminal(errors=True), drafted.findings)
        return
    payload = {
        "draft": drafted.text,
        "file": None if to is None else str(to),
        "to_declare": drafted.open_places,
        "delimiter": drafted.delimiter,
        "columns": [
            {"name": each.name, "kind": _kind(each), "declared": _declared(each), "where": each.where}
            for each in drafted.columns
        ],
        "contradictions": [asdict(finding) for finding in drafted.findings],
    }

    def people(console: Console) -> None:
        console.print(f"The draft is in {to}")
        _print_columns(console, drafted.columns)
        todo = f"{payload['to_declare']} places marked <declare>"
        print_facts(console, [("declare", todo), ("next", f"sudare contract lint {to}")])
        print_findings(terminal(errors=True), drafted.findings)

    answer(payload, people, as_json=as_json)


def _print_columns(console: Console, columns: Sequence[ColumnSketch]) -> None:
    """Print what each column was understood as: its kind, what is declared of it, and where."""
    rows = [(each.name, _kind(each), _declared(each), each.where) for each in columns[:SHOWN]]
    console.print(drawn_table(("column", "kind", "declared", "where"), rows))
    if len(columns) > SHOWN:
        console.print(f"and {len(columns) - SHOWN:,} more columns")


def _kind(column: ColumnSketch) -> str:
    if column.labels:
        return "codes with labels"
    return column.logical_type or ("values" if column.values else "open")


def _declared(column: ColumnSketch) -> str:
    """Return the values or the range that a document declares, the first few of many; nothing for an open column."""
    if column.bounds is not None:
        return "..".join(column.bounds)
    values = [f"{each}={column.labels[each]}" if each in column.labels else each for each in column.values]
    more = f" and {len(values) - _FEW:,} more" if len(values) > _FEW else ""
    return "; ".join(values[:_FEW]) + more


def _write(path: Path, text: str) -> None:
    """Write a new file; one that is there is somebody's work."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise WouldOverwrite(
            [Finding(str(path), "--to", "a file already", "a new file", "name another: --to NEW_FILE")]
        ) from None
    except OSError as error:
        found = error.strerror or type(error).__name__
        raise WouldOverwrite(
            [Finding(str(path), "--to", found, "a file that can be written", "name another")]
        ) from None
