"""The pages of one version: what it guarantees, its record, its tables, its files, and whether it verifies now."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from console.comparison import facts_of, short_text, value_of
from console.published_folders import Folder
from privacy.ledger.journal.signing import key_id
from privacy.ledger.view import published_at
from sudare_web.site.asking import NotThere, Page, Site
from sudare_web.site.desk import Answer
from sudare_web.site.releases import version_object
from sudare_web.site.tables import preview
from tasks.records.page.first_screen import guessed, right_guesses, share
from tasks.records.page.language import ENGLISH, page_name
from tasks.records.sentences import ANY_COLUMN
from tasks.records.values import Values
from tasks.storage.workspace.settings import Workspace

FILES_PAGE: Final = 200
_MOST_TABLES: Final = 200
_MOST_TEXT: Final = 2_000
_AGAIN: Final = 2


def version_page(site: Site, release: str, number: int) -> Page:
    """Show a version at a glance."""
    folder = folder_of(site, release, number)
    told = head_of(site, folder)
    record, values = site.folders.record(folder), site.folders.values(folder)
    replay = (record or {}).get("replay") or {}
    product = replay.get("product") or {}
    told |= {
        "facts": facts_of(values),
        "people": people_of(values),
        "purpose": short_text(value_of(values, "accountability.purpose")),
        "limitations": short_text(value_of(values, "contract.limitations")),
        "unprotected": _texts(value_of(values, "unprotected.quantities")),
        "kind": product.get("kind"),
        "tables": _tables(replay, values, folder),
        "parquet": [name for name in folder.files if name.endswith(".parquet")][:_MOST_TABLES],
        "files": len(folder.files),
        "verification": _verification(verified(site, folder)) if folder.is_readable else None,
    }
    told["journal"] = _published(site, folder)
    told |= {"key_id": key_id(site.public_key), "cap_share": _cap_share(values)}
    return Page("version", told)


def record_page(site: Site, release: str, number: int, *, lang: str) -> Page:
    """Frame the record's own page, in the reader's language where it has one."""
    folder = folder_of(site, release, number)
    chosen = next((name for name in (page_name(lang), page_name(ENGLISH)) if name in folder.files), None)
    if chosen is None:
        raise NotThere
    return Page("record", {**head_of(site, folder), "page": chosen})


def tables_page(site: Site, release: str, number: int, *, file: str | None) -> Page:
    """Show the first rows of one of a version's Parquet files."""
    folder = folder_of(site, release, number)
    names = [name for name in folder.files if name.endswith(".parquet")]
    chosen = file if file is not None else next(iter(names), None)
    if chosen is None or chosen not in names:
        raise NotThere
    digest = folder.files[chosen].sha256
    seen = site.previews.get(digest)
    if seen is None:
        seen = preview(folder, chosen)
        if seen is not None:
            site.previews.keep(digest, seen)
    shown = (
        [chosen, *(name for name in names if name != chosen)][:_MOST_TABLES] if len(names) > _MOST_TABLES else names
    )
    told = {"file": chosen, "names": sorted(shown), "more_names": len(names) - len(shown)}
    return Page("tables", {**head_of(site, folder), **told, "preview": None if seen is None else vars(seen)})


def files_page(site: Site, release: str, number: int, *, after: str) -> Page:
    """List a version's files with size and SHA-256."""
    folder = folder_of(site, release, number)
    names = sorted(name for name in folder.files if name > after)
    listed = [vars(folder.files[name]) for name in names[:FILES_PAGE]]
    told: dict[str, Any] = {"files": listed, "next": names[FILES_PAGE - 1] if len(names) > FILES_PAGE else None}
    told |= {"count": len(folder.files), "key_id": key_id(site.public_key), "public_key": site.public_key}
    return Page("files", {**head_of(site, folder), **told})


def verify_page(site: Site, release: str, number: int) -> Page:
    """Show what `sudare verify` says of a version now; the page looks again while it is being checked."""
    folder = folder_of(site, release, number)
    if not folder.is_readable:
        raise NotThere
    answer = verified(site, folder)
    told = {**head_of(site, folder), "verification": _verification(answer), "key_id": key_id(site.public_key)}
    return Page("verify", told, refresh=_AGAIN if answer.state in ("running", "waiting", "busy") else 0)


def folder_of(site: Site, release: str, number: int) -> Folder:
    """Return a version's folder; a version that is just being published is not there yet."""
    entry = site.view.version(release, number)
    if entry is None:
        raise NotThere
    folder = site.folders.of(entry)
    if folder.standing == "coming":
        raise NotThere
    return folder


def verified(site: Site, folder: Folder) -> Answer:
    """Return what is known of a version's verification; asks for it where nothing is."""
    key = (folder.entry.manifest, folder.fingerprint())
    return site.verifications.ask(key, (str(folder.path), site.public_key))


def verify_version(folder_and_key: tuple[str, str]) -> dict[str, Any]:
    """Verify a version folder against a key, in the process beside the site."""
    from tasks.verify import verify

    folder, public_key = folder_and_key
    return verify(Path(folder), public_key=public_key).to_json()


def people_of(values: Values) -> dict[str, Any] | None:
    """Return the sentence about 100 people: what is guessed, and how often that is right; None where it says none.

    Args:
        values: of a record, which may be of another program, or forged.
    """
    try:
        told, column = guessed(values), value_of(values, "guarantee.largest_attribute")["column"]
        right, of_column = right_guesses(values)
    except (KeyError, TypeError, ArithmeticError, ValueError):
        return None
    return {
        "guessed": told,
        "right": right,
        "of_column": of_column,
        "column": None if column == ANY_COLUMN else short_text(column),
    }


def _cap_share(values: Values) -> str | None:
    """Return what the version took of its account, as a share of the cap."""
    try:
        return share(str(value_of(values, "ledger.charged")), str(value_of(values, "ledger.cap")), up=True)
    except ArithmeticError:  # a record whose amounts are no numbers
        return None


def forecast(root: str) -> dict[str, Any]:
    """Work out what the workspace's schedule means for its accounts, in the process beside the site."""
    from contextlib import closing
    from datetime import datetime

    from console.accounts import calendar_object
    from flows.periods.budget_calendar import forecasts, refusals

    workspace, now = Workspace.open(Path(root)), datetime.now()
    with closing(workspace.open_ledger()) as ledger:
        made, accounts = forecasts(ledger, workspace, now=now), ledger.accounts()
        calendar = {"forecasts": made, "refusals": refusals(accounts, made, now=now)}
        return {state.terms.name: calendar_object(calendar, state) for state in accounts}


def head_of(site: Site, folder: Folder) -> dict[str, Any]:
    """Return what every page of a version begins with."""
    values, entry = site.folders.values(folder), folder.entry
    return {
        **version_object(entry),
        "standing": folder.standing,
        "title": short_text(value_of(values, "identity.title")) or entry.release,
        "newest": _newest(site, entry.release),
        "record": "record.html" in folder.files,
        "has_tables": any(name.endswith(".parquet") for name in folder.files),
    }


def _newest(site: Site, release: str) -> int | None:
    """Return the newest version of a release that is there to be read."""
    for entry in site.view.versions(release, limit=2):
        if site.folders.of(entry).standing != "coming":
            return entry.number
    return None


def _published(site: Site, folder: Folder) -> dict[str, Any] | None:
    """Return the journal's entry by which the version was published, and why it was withdrawn, if it was."""
    from privacy.ledger.store.search import EntryFilter, entries

    run_key = folder.entry.run_key
    with site.view.reading() as connection:
        found = published_at(connection, [run_key]).get(run_key)
        asked = EntryFilter(kind="version_withdrawn", run=run_key)
        withdrawn = entries(connection, asked, before=None, limit=1) if folder.entry.status == "withdrawn" else ()
    if found is None:
        return None
    told: dict[str, Any] = {"sequence": found[0], "at": found[1], "withdrawn": None}
    if withdrawn:
        [entry] = withdrawn
        told["withdrawn"] = {"sequence": entry.sequence, "at": entry.at, "reason": str(entry.body.get("reason", ""))}
    return told


def _measured(table: dict[str, Any], draws: dict[str, Any]) -> list[Any]:
    """Return the files of the noisy numbers that a table comes of."""
    named = [draws.get(key) for key in table.get("draws") or ()]
    return [table["measurements"]] if "measurements" in table else named


def _tables(replay: dict[str, Any], values: Values, folder: Folder) -> list[dict[str, Any]]:
    """Return the tables of a version of tables or statistics, with the files that hold them."""
    listed = replay.get("tables")
    tables = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    stated = value_of(values, "product.tables")
    told = [each for each in stated if "statistics" in each] if isinstance(stated, list) else []
    methods = {each["table"]: ", ".join(each["statistics"]) for each in told}
    draws = {
        str(each.get("key")): each.get("measurements") for each in replay.get("draws") or () if isinstance(each, dict)
    }
    return [
        {
            "name": str(each.get("name", "")),
            "columns": [str(column) for column in each.get("columns") or ()],
            "method": str(each.get("method") or methods.get(str(each.get("name", "")), "")),
            "data": each.get("data") if each.get("data") in folder.files else None,
            "measurements": [name for name in _measured(each, draws) if name in folder.files],
        }
        for each in tables[:_MOST_TABLES]
    ]


def _verification(answer: Answer) -> dict[str, Any]:
    """Return a verification as JSON values."""
    report = answer.value if isinstance(answer.value, dict) else {}
    return {
        "state": answer.state,
        "at": answer.at,
        "ok": report.get("ok"),
        "checks": report.get("checks", []),
        "cannot_tell": report.get("cannot_tell", []),
    }


def _texts(value: Any) -> list[str]:
    return [str(each)[:_MOST_TEXT] for each in value[:12]] if isinstance(value, list) else []
