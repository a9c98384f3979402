"""`sudare contract diff`: what changed between two contracts, and for whom it breaks something."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from console.options import AsJson
from console.render import answer, print_facts, table
from contracts.comparison.contract_changes import compare
from contracts.contract.odcs import load_contract

NOT_ANNOUNCED = 2


def diff(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="The older contract.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="The newer contract.")],
    check: Annotated[
        bool, typer.Option("--check", help="Exit 2 if the version does not announce the changes.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare two contracts by what they mean, and say for whom a change breaks something.

    "Breaking for the account" is a change of a domain, the unit, the rows that
    count of one unit, or the adjacency. A breaking change takes a new MAJOR.

    Examples:

        sudare contract diff adult-1.odcs.yaml adult-2.odcs.yaml

        sudare contract diff old.yaml new.yaml --check --json
    """
    compared = compare(load_contract(old), load_contract(new))
    payload = {**compared.to_json(), "verdict": compared.verdict}
    rows = [(change.effect, change.field, change.words) for change in compared.changes]
    reasons = list(dict.fromkeys(change.why for change in compared.changes if change.why))
    answer(payload, lambda console: _print(console, payload, rows, reasons), as_json=as_json)
    if check and not compared.admitted:
        raise typer.Exit(NOT_ANNOUNCED)


def _print(
    console: Console, comparison: dict[str, Any], rows: Sequence[tuple[str, str, str]], reasons: Sequence[str]
) -> None:
    facts = [("versions", f"{comparison['old']} → {comparison['new']}"), ("changes", comparison["verdict"])]
    if comparison["breaking"] and not comparison["announced"]:
        facts.append(("do", "give the new contract a higher MAJOR: a breaking change takes one"))
    elif not comparison["announced"]:
        facts.append(("do", "give the new contract a version of its own"))
    print_facts(console, facts)
    if rows:
        console.print()
        console.print(table(("effect", "field", "change"), rows))
    for reason in reasons:
        console.print(f"- {reason}")
