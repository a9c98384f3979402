"""`sudare releases`: what was published."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from console.comparison import compare_versions
from console.output import AsJson, At, answer, ledger_at, print_facts, table, workspace_at
from console.products.product_view import product_view
from console.published_folders import Folder, Folders
from contracts.errors import Finding, Refused
from contracts.reading.scalars import nearest
from tasks.public_journal import show_journal
from tasks.records.page.language import language
from tasks.records.record import RecordExplanation, published_explanation
from tasks.release_freshness import show_latest
from tasks.storage.manifest import MANIFEST, version_folder
from tasks.storage.workspace.settings import Workspace
from tasks.withdraw import withdraw as withdraw_version

Name = Annotated[str, typer.Argument(metavar="RELEASE", help="Name of the release.")]


class NoSuchVersion(Refused):
    """There is no such release or version."""


def no_version(found: str, numbers: str, release: str, releases: Iterable[str]) -> Finding:
    """Say that there is no such version, and what to type instead.

    Args:
        found: what was asked for.
        numbers: of the versions that the release has, such as "v1, v2"; empty for none.
        releases: names of all releases that there are.
    """
    listed = "sudare releases list shows all"
    remedy = f"choose one of {numbers}" if numbers else nearest(release, set(releases)) or listed
    return Finding("the ledger", "version", found, numbers or "a release of this workspace", remedy)


def list_releases(workspace: At = None, as_json: AsJson = False) -> None:
    """List every version of every release, as the ledger knows them.

    Examples:

        sudare releases list

        sudare releases list --json
    """
    place = workspace_at(workspace)
    versions, elsewhere = _versions(place), f"not in {place.releases}"

    def people(console: Console) -> None:
        if not versions:
            console.print("Nothing is published yet: sudare run SPEC")
            return
        rows = [
            (each["release"], f"v{each['version']}", each["status"], each["folder"] or elsewhere) for each in versions
        ]
        console.print(table(("release", "version", "status", "where"), rows))

    answer({"versions": versions}, people, as_json=as_json)


def show(
    release: Name,
    version: Annotated[int | None, typer.Option(help="Which version; the newest without it.")] = None,
    workspace: At = None,
    as_json: AsJson = False,
) -> None:
    """Show one version: its guarantee, its cost and its tables.

    Examples:

        sudare releases show adult-tables

        sudare releases show adult-tables --version 1 --json
    """
    all_versions = _versions(workspace_at(workspace))
    known = [each for each in all_versions if each["release"] == release]
    wanted = known[-1:] if version is None else [each for each in known if each["version"] == version]
    if not wanted:
        numbers = ", ".join(f"v{each['version']}" for each in known)
        found = release if version is None else f"{release} v{version}"
        raise NoSuchVersion([no_version(found, numbers, release, [each["release"] for each in all_versions])])
    [chosen] = wanted
    told = _explanation(chosen["folder"])
    payload = {**chosen, "record": None if told is None else told.record}
    answer(payload, lambda console: _print(console, payload, {} if told is None else told.values), as_json=as_json)


def withdraw(
    release: Name,
    version: Annotated[int, typer.Option(help="Which version.")],
    reason: Annotated[str, typer.Option(help="Why; it is published with the journal.")],
    workspace: At = None,
    as_json: AsJson = False,
) -> None:
    """Withdraw a version: the signed journal says so from now on; its files and its charge stay.

    Examples:

        sudare releases withdraw adult-tables --version 1 --reason "wrong reference year"
    """
    place = workspace_at(workspace)
    with ledger_at(workspace) as ledger:
        withdrawn = withdraw_version(ledger, place.releases, release, version, reason=reason)
        show_journal(place, ledger)
        show_latest(place, ledger, release, place.releases)
    payload = {"release": release, "version": version, "status": withdrawn.status, "reason": reason}

    def people(console: Console) -> None:
        console.print(f"{release} v{version} is withdrawn; what it was charged stays charged.")
        console.print("`latest` points nowhere if it pointed there, until the next version is published.")

    answer(payload, people, as_json=as_json)


def journal(
    to: Annotated[Path | None, typer.Option("--to", help="Another folder than `publish.journal` names.")] = None,
    workspace: At = None,
    as_json: AsJson = False,
) -> None:
    """Write the journal for the public: tiles, checkpoint, and what became of each version.

    Every run and every withdrawal writes it too, where sudare.toml names a folder.

    Examples:

        sudare releases journal --to /srv/www/journal
    """
    place = workspace_at(workspace)
    with ledger_at(workspace) as ledger:
        written = show_journal(place, ledger, to)
    if written is None:
        found, allowed = "no folder", 'a folder, such as journal = "public/journal" under [publish]'
        raise Refused([Finding("sudare.toml", "publish.journal", found, allowed, "or name one: --to DIR")])
    payload = {"journal": str(written.folder), "entries": written.size, "files_written": written.files}
    said = f"The journal for the public has {written.size} entries: {written.folder}"
    answer(payload, lambda console: console.print(said), as_json=as_json)


def _versions(workspace: Workspace) -> list[dict[str, Any]]:
    """Return what the ledger knows of every version, with the folder where that is in the workspace's store."""
    ledger = workspace.open_ledger(create=False)
    try:
        entries = ledger.versions()
    finally:
        ledger.close()
    versions = []
    for entry in entries:
        folder = version_folder(workspace.releases, entry.release, entry.number)
        where = str(folder) if folder.is_dir() else None
        told = {"release": entry.release, "version": entry.number, "status": entry.status}
        versions.append({**told, "run_key": entry.run_key, "manifest": entry.manifest, "folder": where})
    return versions


def _explanation(folder: str | None) -> RecordExplanation | None:
    """Return the published record with its words, or None where the version is not in the workspace's store."""
    return None if folder is None else published_explanation(lambda name: (Path(folder) / name).read_bytes())


def _print(console: Console, version: dict[str, Any], values: dict[str, Any]) -> None:
    console.print(f"{version['release']} v{version['version']} ({version['status']})")
    record = version["record"]
    if record is None:
        console.print("Its folder is not in this workspace's store.")
        return
    replay = record["replay"]
    charge = replay["charge"]
    print_facts(
        console,
        [
            ("where", version["folder"]),
            ("record", f"{version['folder']}/record.html"),
            ("account", charge["account"]),
            ("asked for", f"ε = {charge['epsilon']} at δ = {charge['delta']}"),
            ("neighbours", replay["adjacency"]),
            ("unprotected", _unprotected(values)),
        ],
    )
    console.print()
    product_view(replay["product"]["kind"]).print_version(console, replay)


def _unprotected(values: dict[str, Any]) -> str:
    """Return the quantities that the record lists as published without noise, a line each."""
    quantities = values["unprotected.quantities"]
    return "\n".join(quantities) if isinstance(quantities, list) and quantities else "none"


def refresh(workspace: At = None, as_json: AsJson = False) -> None:
    """Say again, for every release, which version is the newest, and sign it (LATEST.note).

    Readers who ask `sudare verify --fresh` believe a note as long as `fresh_for` under
    `publish` of sudare.toml says. Give this command by a schedule, well before that.

    Examples:

        sudare releases refresh
    """
    place = workspace_at(workspace)
    with ledger_at(workspace) as ledger:
        names = sorted({each.release for each in ledger.versions() if each.status != "allocated"})
        notes = [show_latest(place, ledger, name, place.releases) for name in names]
    written = [str(note) for note in notes if note is not None]
    if names and not written:
        found, allowed = "nothing", 'how long a note is good, such as fresh_for = "31 days" under [publish]'
        raise Refused([Finding("sudare.toml", "publish.fresh_for", found, allowed, "write it, then type this again")])
    said = f"{len(written)} note(s) were signed"
    answer({"notes": written}, lambda console: console.print(said), as_json=as_json)


# --- `sudare releases diff`.


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
    answer(payload, lambda console: _print_release_diff(console, payload), as_json=as_json)


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


def _print_release_diff(console: Console, payload: dict[str, Any]) -> None:
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
