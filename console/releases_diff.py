"""`sudare releases diff`: two versions of a release beside each other."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console

from console.comparison import compare_versions
from console.options import AsJson, At, workspace_at
from console.published_folders import Folder, Folders
from console.releases import Name, NoSuchVersion, no_version
from console.render import answer, print_facts, table
from contracts.errors import Finding
from tasks.records.page.language import language
from tasks.storage.version_folders import MANIFEST
from tasks.storage.workspace.settings import Workspace

_STANDING = {"coming": "is just being published", "elsewhere": "is not in this workspace", "changed": "was changed"}
_FEW = 5


def diff(
    release: Name,
    first: Annotated[int, typer.Argument(metavar="FIRST", help="Number of a version.")],
    second: Annotated[int, typer.Argument(metavar="SECOND", help="Number of another one.")],
    workspace: At = None,
    as_json: AsJson = False,
) -> None:
    """Compare two versions of a release: guarantees, contracts, and tables with intervals of their differences.

    Of each table the largest differences are shown. The interval of a version
    holds in at least 95 % of cases, so that of a difference, from end to end,
    holds in at least 90 %.

    Examples:

        sudare releases diff adult-tables 1 2

        sudare releases diff adult-tables 1 2 --json
    """
    place = workspace_at(workspace)
    folders = Folders(place.releases)
    one, other = _folders(place, folders, release, (first, second))
    payload = {"release": release, "first": first, "second": second, **compare_versions(folders, one, other)}
    answer(payload, lambda console: _print(console, payload), as_json=as_json)


def _folders(workspace: Workspace, folders: Folders, release: str, numbers: tuple[int, int]) -> list[Folder]:
    """Return the folders of two versions.

    Raises:
        NoSuchVersion: the ledger knows no such version, or its folder is not as it was published.
    """
    ledger = workspace.open_ledger(create=False)
    try:
        versions = ledger.versions()
    finally:
        ledger.close()
    entries = {entry.number: entry for entry in versions if entry.release == release}
    found = {number: folders.of(entries[number]) for number in numbers if number in entries}
    known = ", ".join(f"v{number}" for number in entries)
    problems = [
        no_version(f"{release} v{number}", known, release, [entry.release for entry in versions])
        for number in dict.fromkeys(numbers)
        if number not in found
    ]
    problems += [
        Finding(
            str(folder.path),
            MANIFEST,
            f"v{number} {_STANDING[folder.standing]}",
            "the folder as it was published",
            f"see what is wrong with it: sudare verify {folder.path}" if folder.standing == "changed" else "",
        )
        for number, folder in found.items()
        if not folder.is_readable
    ]
    if problems:
        raise NoSuchVersion(problems)
    return [found[number] for number in numbers]


def _print(console: Console, payload: dict[str, Any]) -> None:
    names = (f"v{payload['first']}", f"v{payload['second']}")
    text = language("en").text
    guarantee = [each for each in payload["guarantee"] if each["first"] or each["second"]]
    rows = [(text(f"fact.{each['name']}"), each["first"], each["second"]) for each in guarantee]
    console.print(table(("guarantee", *names), rows))
    _print_contract(console, payload, names)
    if payload["tables"]:
        console.print()
        console.print(text("compare.tables_lede"))
    for each in payload["tables"]:
        console.print()
        cells = text("compare.cells", cells=f"{each['cells']:,}", moved=f"{each['moved']:,}")
        statistic = [("statistic", each["statistic"])] if each["statistic"] else []
        print_facts(console, [("table", each["file"]), *statistic, ("cells", cells)])
        columns = (*each["columns"], *names, "difference", "interval")
        console.print(table(columns, [_row(row) for row in each["rows"][:_FEW]]))
    if not payload["tables"]:
        console.print()
        console.print(text("compare.no_tables"))
    if payload["more_tables"]:
        console.print(text("compare.more_tables", count=payload["more_tables"]))


def _print_contract(console: Console, payload: dict[str, Any], names: tuple[str, str]) -> None:
    """Print by what the contracts differ: by meaning where both can be read, else field by field."""
    text = language("en").text
    console.print()
    changes = payload["contract"] if payload["meaning"] is None else payload["meaning"]
    if changes is None:
        console.print(text("compare.no_contract"))
    elif not changes:
        console.print(text("compare.same_contract" if not payload["contract"] else "compare.same_meaning"))
    else:
        rows = [
            (each.get("effect") or "-", each["field"], each["first"] or "-", each["second"] or "-")
            for each in changes
        ]
        console.print(table(("effect", "contract", *names), rows))


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    """Write a cell's two values and the interval of their difference; a suppressed value is a dash."""
    values = ["-" if row[key] is None else f"{row[key]:,}" for key in ("first", "second")]
    change, low, high = ("-" if row[key] is None else f"{row[key]:+,}" for key in ("difference", "low", "high"))
    return (*row["labels"], *values, change, f"{low} to {high}")
