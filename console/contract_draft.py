"""`sudare contract draft`: a contract to fill in, from what there is already."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from console.options import AsJson
from console.render import answer, print_facts
from contracts.errors import Finding, Refused
from tasks.draft import draft as draft_of
from tasks.draft import open_places


class WouldOverwrite(Refused):
    """A file is there already, and somebody may have worked on it."""


def draft(
    source: Annotated[
        Path,
        typer.Option(
            "--from", metavar="FILE", help="An ODCS 3 contract, a dbt schema.yml, a Parquet or a DuckDB file."
        ),
    ],
    table: Annotated[str | None, typer.Option(help="Which table or model, where FILE has several.")] = None,
    to: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write it; the terminal without it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Draft a contract; what has to be declared is left open, and nothing is learned from rows.

    Names, types and what a document declares are taken over. Every domain, and
    whose privacy is protected, stays a placeholder until a person declares it;
    `sudare contract lint` lists them.

    Examples:

        sudare contract draft --from models/schema.yml --table orders --to orders.odcs.yaml

        sudare contract draft --from data/adult.parquet
    """
    text = draft_of(source, table=table)
    if to is not None:
        _write(to, text)
    elif not as_json:
        sys.stdout.write(text)
        return
    payload = {"draft": text, "file": None if to is None else str(to), "to_declare": open_places(text)}

    def people(console: Console) -> None:
        console.print(f"The draft is in {to}")
        todo = f"{payload['to_declare']} places marked <declare>"
        print_facts(console, [("declare", todo), ("next", f"sudare contract lint {to}")])

    answer(payload, people, as_json=as_json)


def _write(path: Path, text: str) -> None:
    """Write a new file; one that is there is somebody's work."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise WouldOverwrite([Finding(str(path), "--to", "a file already", "a new file", "name another")]) from None
    except OSError as error:
        found = error.strerror or type(error).__name__
        raise WouldOverwrite(
            [Finding(str(path), "--to", found, "a file that can be written", "name another")]
        ) from None
