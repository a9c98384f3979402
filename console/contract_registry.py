"""`sudare contract register|list|history`: the registry of contracts."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from console.options import AsJson, At, workspace_at
from console.render import answer, print_facts, table
from contracts.errors import Finding, Refused
from contracts.reading.scalars import nearest, word_list
from tasks.storage.workspace.contract_registry import Registry

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
