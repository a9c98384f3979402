"""The pages of releases: which there are, and which versions one has."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

from console.comparison import value_of
from privacy.accounting.amounts import ATTO, atto_to_text
from privacy.ledger.accounts.version_entries import VISIBLE
from privacy.ledger.terms import VersionEntry
from privacy.ledger.view import published_at
from sudare_web.site.asking import PAGE, NotThere, Page, Site

_LONGEST: Final = 300


def releases_page(site: Site, *, containing: str, status: str | None, after: str) -> Page:
    """List releases by name; a release's card shows its newest version that is there to be read."""
    found = site.view.releases(containing=containing, status=status, after=after, limit=PAGE + 1)
    lines = found[:PAGE]
    newest = [_seen(site, line.newest) for line in lines]
    shown = [(line, version) for line, version in zip(lines, newest, strict=True) if version is not None]
    times = _times(site, [version for _, version in shown])
    told = {
        "releases": [
            {
                "release": line.release,
                "versions": line.versions if version == line.newest else line.versions - 1,
                "newest": {**version_object(version), "at": times.get(version.run_key)},
                **_card(site, version),
            }
            for line, version in shown
        ],
        "filter": {"containing": containing, "status": status},
        "statuses": list(VISIBLE),
        "counts": site.view.counts(),
        "next": lines[-1].release if len(found) > PAGE else None,
    }
    return Page("releases", told)


def release_page(site: Site, release: str, *, before: int | None) -> Page:
    """List the versions of a release, the newest first."""
    found = site.view.versions(release, before=before, limit=PAGE + 1)
    folders = [site.folders.of(entry) for entry in found[:PAGE]]
    here = [folder for folder in folders if folder.standing != "coming"]
    if not here:
        raise NotThere
    times = _times(site, [folder.entry for folder in here])
    versions = []
    for folder in here:
        at = times.get(folder.entry.run_key)
        versions.append({**version_object(folder.entry), "at": at, "standing": folder.standing})
    newest = next((folder for folder in here if folder.is_readable), None)
    title = None if newest is None else value_of(site.folders.values(newest), "identity.title")
    told = {
        "release": release,
        "title": title,
        "versions": versions,
        "next": found[PAGE - 1].number if len(found) > PAGE else None,
        "first_page": before is None,
    }
    return Page("release", told)


def version_object(entry: VersionEntry) -> dict[str, Any]:
    """Return what the ledger says of a version, as JSON values."""
    return {
        "release": entry.release,
        "version": entry.number,
        "status": entry.status,
        "run": entry.run_key,
        "manifest": entry.manifest,
    }


def _card(site: Site, version: VersionEntry) -> dict[str, Any]:
    """Return what a release's card says of a version: title, people and ε.

    It is read from the record as it stands, since to explain fifty records would take seconds.
    """
    folder = site.folders.of(version)
    record = site.folders.record(folder) if folder.is_readable else None
    replay = record.get("replay") if record is not None else None
    parts = {
        name: replay.get(name) if isinstance(replay, dict) else None for name in ("contract", "charge", "product")
    }
    contract, charge, product = (part if isinstance(part, dict) else {} for part in parts.values())
    account = site.view.account(str(charge.get("account", "")))
    return {
        "title": str(contract.get("name") or version.release)[:_LONGEST],
        "kind": str(product.get("kind") or "")[:_LONGEST],
        "epsilon": str(charge.get("epsilon") or "")[:_LONGEST],
        "delta": _delta(charge.get("delta")),
        "people": None if account is None else account.terms.population,
        "block": None if account is None else account.terms.block,
    }


def _delta(written: Any) -> str:
    """Write a delta as everywhere, "1e-6"; what is no number in a record stays as it is."""
    text = str(written or "")[:_LONGEST]
    try:
        delta = Decimal(text or "nan")
    except ArithmeticError:
        return text
    return atto_to_text(int(delta * ATTO)) if delta.is_finite() and 0 <= delta < 1 else text


def _seen(site: Site, newest: VersionEntry) -> VersionEntry | None:
    """Return the newest version that is there to be read; one that is just being published is not yet."""
    if site.folders.of(newest).standing != "coming":
        return newest
    before = site.view.versions(newest.release, before=newest.number, limit=1)
    return before[0] if before else None


def _times(site: Site, versions: list[VersionEntry]) -> dict[str, str]:
    """Return when each of some versions was published, by run."""
    with site.view.reading() as connection:
        found = published_at(connection, [entry.run_key for entry in versions])
    return {run_key: at for run_key, (_, at) in found.items()}
