"""`sudare contract`: work on contracts."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from console.output import AsJson, At, answer, print_facts, print_findings, table, terminal, workspace_at
from console.output import table as drawn_table
from console.plan_warnings import warnings_of_select
from contracts.comparison.changes import compare
from contracts.contract import odcs
from contracts.contract.contract import Contract
from contracts.contract.odcs import load_contract
from contracts.contract.short_form import contract_document
from contracts.drafting.advice.advice import Advice, advise, suggest
from contracts.drafting.sketch import ColumnSketch
from contracts.errors import Finding, Refused, SpecRefused
from contracts.reading.scalars import nearest, word_list
from contracts.reading.yaml_lines import Document, located
from tasks.draft import draft_contract
from tasks.storage.workspace.contract_registry import Registry
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


# --- `sudare contract draft`.


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


# --- `sudare contract register|list|history`.


RegistryFolder = Annotated[
    Path | None,
    typer.Option("--registry", metavar="DIR", help="The registry; without it the workspace's folder `contracts`."),
]


class NotRegistered(Refused):
    """There is no such contract in the registry."""


def register(
    contract_file: Annotated[Path, typer.Argument(metavar="CONTRACT", help="A contract (ODCS 3 YAML).")],
    registry: RegistryFolder = None,
    workspace: At = None,
    as_json: AsJson = False,
) -> None:
    """Register a version of a contract, for good; a breaking change without a new MAJOR is refused.

    Examples:

        sudare contract register adult.odcs.yaml

        sudare contract register adult.odcs.yaml --registry contracts --json
    """
    entry, repeated = _registry(registry, workspace).register(contract_file, now=datetime.now(UTC))
    payload = {**entry.to_json(), "repeated": repeated}

    def people(console: Console) -> None:
        done = "was registered already" if repeated else "is registered"
        console.print(f"{entry.contract} {entry.version} {done}")
        print_facts(console, [("changes", entry.change), ("file", str(entry.file)), ("digest", entry.digest)])

    answer(payload, people, as_json=as_json)


def list_contracts(registry: RegistryFolder = None, workspace: At = None, as_json: AsJson = False) -> None:
    """List the registered contracts with their last version.

    Examples:

        sudare contract list

        sudare contract list --registry contracts --json
    """
    kept = _registry(registry, workspace)
    last = [kept.history(contract)[-1] for contract in kept.contracts()]

    def people(console: Console) -> None:
        if not last:
            console.print("Nothing is registered yet: sudare contract register CONTRACT")
            return
        rows = [(each.contract, each.version, each.at, str(each.file)) for each in last]
        console.print(table(("contract", "version", "registered", "file"), rows))

    answer({"contracts": [each.to_json() for each in last]}, people, as_json=as_json)


def history(
    contract: Annotated[str, typer.Argument(metavar="ID", help="Id of the contract.")],
    registry: RegistryFolder = None,
    workspace: At = None,
    as_json: AsJson = False,
) -> None:
    """Show every registered version of a contract, and what each changed.

    Examples:

        sudare contract history adult

        sudare contract history adult --json
    """
    kept = _registry(registry, workspace)
    entries = kept.history(contract)
    if not entries:
        known = kept.contracts()
        allowed = word_list(known) if known else "a registered contract (there is none)"
        raise NotRegistered([Finding(str(kept.folder), "contract", contract, allowed, nearest(contract, known))])

    def people(console: Console) -> None:
        rows = [
            (each.version, each.at, each.change, ", ".join(str(change["field"]) for change in each.changes) or "-")
            for each in entries
        ]
        console.print(table(("version", "registered", "change", "fields"), rows))

    answer({"contract": contract, "versions": [each.to_json() for each in entries]}, people, as_json=as_json)


def _registry(folder: Path | None, workspace: Path | None) -> Registry:
    """Return the registry that was named, or the workspace's."""
    return Registry(folder if folder is not None else workspace_at(workspace).contracts)


# --- `sudare contract diff`.


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
    answer(payload, lambda console: _print_contract_diff(console, payload, rows, reasons), as_json=as_json)
    if check and not compared.admitted:
        raise typer.Exit(NOT_ANNOUNCED)


def _print_contract_diff(
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
