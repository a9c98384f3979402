"""`sudare releases`: what was published."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from console.options import AsJson, At, ledger_at, workspace_at
from console.products.product_view import product_view
from console.render import answer, print_facts, table
from contracts.errors import Finding, Refused
from contracts.reading.scalars import nearest
from tasks.public_journal import show_journal
from tasks.records.explanation import RecordExplanation, published_explanation
from tasks.release_freshness import show_latest
from tasks.storage.version_folders import version_folder
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
