"""`sudare contract`: work on contracts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from console.options import AsJson
from console.render import answer, print_facts, table

app = typer.Typer(help="Contracts: what the columns may hold and what is protected.", no_args_is_help=True)

File = Annotated[Path, typer.Argument(metavar="CONTRACT", help="A contract (ODCS 3 YAML).")]


@app.callback()
def group() -> None:
    """Contracts: what the columns may hold and what is protected."""


@app.command()
def lint(contract_file: File, as_json: AsJson = False) -> None:
    """Check a contract and list all that is wrong with it; it needs no workspace and reads no data.

    Examples:

        sudare contract lint adult.odcs.yaml
    """
    from contracts.odcs import load_contract

    contract = load_contract(contract_file)
    columns = [
        {
            "name": column.name,
            "kind": column.domain.kind,
            "cells": column.size,
            "provenance": column.domain.provenance.kind,
        }
        for column in contract.columns
    ]
    payload = {
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

    over = {"block": "within one time block", "lifetime": "over all time blocks"}[contract.unit.scope]

    def people(console: Console) -> None:
        unit = (
            payload["unit"]
            if contract.unit.column is None
            else f"{payload['unit']}, at most {payload['rows_per_unit']} rows"
        )
        print_facts(
            console,
            [
                ("contract", f"{contract.id} {contract.version}: it holds"),
                ("unit", f"{unit}, {over}"),
                ("neighbours", contract.adjacency),
                ("gates", ", ".join(contract.gates) or "none"),
            ],
        )
        console.print()
        rows = [tuple(str(value) for value in column.values()) for column in columns]
        console.print(table(("column", "domain", "cells", "provenance"), rows, numbers=("cells",)))

    answer(payload, people, as_json=as_json)
