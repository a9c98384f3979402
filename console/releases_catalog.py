"""`sudare releases catalog`: one file that describes everything that was published."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from console.options import AsJson, At, ledger_at, workspace_at
from console.render import answer, print_facts
from contracts.canonical import readable_json
from contracts.errors import Finding, Refused
from tasks.release_catalogue import address, catalogue, describe


class CatalogueOption(StrEnum):
    """The forms of a catalogue."""

    croissant = "croissant"
    dcat = "dcat"


class CatalogUnwritable(Refused):
    """The catalogue cannot be written where it was asked for."""


def catalog(
    to: Annotated[Path, typer.Option(metavar="FILE", help="Where to write it (JSON-LD); replaced as a whole.")],
    form: Annotated[
        CatalogueOption, typer.Option("--format", help="Croissant datasets, or DCAT-AP 3.")
    ] = CatalogueOption.croissant,
    base_url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Where the store is served; addresses are relative to FILE without it."),
    ] = None,
    workspace: At = None,
    as_json: AsJson = False,
) -> None:
    """Write a catalogue of all published versions, for dataset search and data portals.

    Withdrawn versions are listed without their files. What does not lie in the
    store as it was published is left out, and named.

    Examples:

        sudare releases catalog --to releases/catalog.json

        sudare releases catalog --to site/catalog.json --base-url https://example.org/releases --format dcat
    """
    around = workspace_at(workspace)
    store, publisher = around.releases, None if around.publisher is None else around.publisher.curator
    with ledger_at(workspace) as ledger:
        versions, left_out = describe(ledger.versions(), store)
    made = catalogue(versions, before=address(store, to, base_url), form=form.value, publisher=publisher)
    _write(to, readable_json(made))
    payload = {"file": str(to), "versions": [each.name for each in versions], "left_out": list(left_out)}
    undeclared = form is CatalogueOption.dcat and publisher is None

    def people(console: Console) -> None:
        console.print(f"{len(versions)} {'version' if len(versions) == 1 else 'versions'} in {to}")
        if left_out:
            print_facts(console, [("left out", ", ".join(left_out) + ": not in the store as published")])
        if undeclared:
            remedy = "DCAT-AP asks for one: declare `curator` under [publisher] in sudare.toml"
            print_facts(console, [("publisher", f"nobody is declared. {remedy}")])

    answer(payload, people, as_json=as_json)


def _write(path: Path, content: bytes) -> None:
    """Replace the file as a whole, so that no reader sees half of it."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    except OSError as error:
        found = error.strerror or type(error).__name__
        finding = Finding(str(path), "--to", found, "a file that can be written", "name another")
        raise CatalogUnwritable([finding]) from None
