"""`sudare contract`: work on contracts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from console.options import AsJson
from console.plan_warnings import warnings_of_select
from console.render import answer, print_facts, table
from contracts.contract import odcs
from contracts.contract.contract import Contract
from contracts.contract.short_form import contract_document
from contracts.drafting.advice.advice import advise
from contracts.drafting.advice.places import Advice
from contracts.drafting.advice.suggestions import suggest
from contracts.errors import SpecRefused
from contracts.reading.yaml_lines import Document, located
from tasks.storage.workspace.settings import FILE, Workspace

WARNED = 2

ContractFile = Annotated[Path, typer.Argument(metavar="CONTRACT", help="A contract (ODCS 3 YAML).")]


def lint(
    contract_file: ContractFile,
    strict: Annotated[bool, typer.Option("--strict", help="Let warnings count as mistakes: exit 2.")] = False,
    spec: Annotated[
        Path | None, typer.Option("--spec", help="Also look at the `select:` and `formulas:` of this release spec.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a contract: list all that is wrong with it, then what may not be meant; it reads no data.

    A mistake, or a place that nobody has declared yet, exits 2. A warning says
    what it is about, why, and what to do, and exits 0. A suggestion asks for
    what readers of a release will miss: its curator and contact, where neither
    the spec nor sudare.toml declares them. It exits 0, with --strict too.

    Examples:

        sudare contract lint adult.odcs.yaml

        sudare contract lint adult.odcs.yaml --strict --json

        sudare contract lint adult.odcs.yaml --spec tables.yaml
    """
    contract = odcs.load_contract(contract_file)
    document = None if spec is None else located(spec, refusal=SpecRefused)
    formulas = None if document is None else _part(document, "publish").get("formulas")
    written = contract_document(contract_file)
    warnings = advise(contract, written, formulas=formulas)
    listed = [each.to_json() for each in warnings] + ([] if document is None else _of_the_select(document))
    payload = {
        **_facts(contract),
        "warnings": listed,
        "suggestions": [each.to_json() for each in _suggestions(written, document)],
    }
    answer(payload, lambda console: _print(console, payload), as_json=as_json)
    if listed and strict:
        raise typer.Exit(WARNED)


def _suggestions(contract: Document, spec: Document | None) -> tuple[Advice, ...]:
    """Ask for what neither the spec nor the workspace around declares; without a ledger, which takes long to load."""
    here = Path.cwd()
    around = any((folder / FILE).is_file() for folder in (here, *here.parents))
    publisher = Workspace.find(here).publisher if around else None
    return suggest(contract, {} if spec is None else _part(spec, "about"), publisher)


def _part(document: Document, key: str) -> dict[str, Any]:
    """Return a mapping of a spec as it stands there; an empty one where there is none."""
    written = document.text()
    part = written.get(key) if isinstance(written, dict) else None
    return part if isinstance(part, dict) else {}


def _of_the_select(document: Document) -> list[dict[str, Any]]:
    """Warn of the literals in a spec's `select:`, which is published as it stands."""
    select = _part(document, "source").get("select")
    if not isinstance(select, str):
        return []
    at = {"where": document.where(("source", "select")), "field": "source.select"}
    return [{**at, **warned} for warned in warnings_of_select(select)]


def _facts(contract: Contract) -> dict[str, Any]:
    """What a contract declares, as a JSON object."""
    columns = [
        {
            "name": column.name,
            "kind": column.domain.kind,
            "cells": column.size,
            "provenance": column.domain.provenance.kind,
        }
        for column in contract.columns
    ]
    return {
        "contract": contract.id,
        "version": contract.version,
        "digest": contract.digest,
        "unit": contract.unit.column or "row",
        "scope": contract.unit.scope,
        "rows_per_unit": contract.unit.max_rows_per_unit,
        "adjacency": contract.adjacency,
        "gates": list(contract.gates),
        "columns": columns,
    }


def _print(console: Console, summary: dict[str, Any]) -> None:
    over = {"block": "within one time block", "lifetime": "over all time blocks"}[summary["scope"]]
    unit = (
        summary["unit"] if summary["unit"] == "row" else f"{summary['unit']}, at most {summary['rows_per_unit']} rows"
    )
    print_facts(
        console,
        [
            ("contract", f"{summary['contract']} {summary['version']}: it holds"),
            ("unit", f"{unit}, {over}"),
            ("neighbours", summary["adjacency"]),
            ("gates", ", ".join(summary["gates"]) or "none"),
            ("warnings", str(len(summary["warnings"]) or "none")),
            ("suggestions", str(len(summary["suggestions"]) or "none")),
        ],
    )
    console.print()
    rows = [tuple(str(value) for value in column.values()) for column in summary["columns"]]
    console.print(table(("column", "domain", "cells", "provenance"), rows, numbers=("cells",)))
    for each in [*summary["warnings"], *summary["suggestions"]]:
        heading = Text(f"\n{each['where']}: ", style="bold") + Text(
            f"{each['field']} ({each['rule']})", style="yellow"
        )
        console.print(heading)
        console.print(Text(f"    found:   {each['found']}"))
        console.print(Text(f"    why:     {each['why']}"))
        console.print(Text(f"    do:      {each['remedy']}", style="green"))
