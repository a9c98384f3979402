"""The copy of a published version to another store: after it is whole here, and as often as it takes.

The journal knows a version when it is whole in the workspace's store. A copy changes nothing of that: it is made from
the published files alone, it is visible whole or not at all, and making it again goes on where it stopped.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from contracts.reading.scalars import word_list
from contracts.release.address import read_address
from privacy.ledger.entries import LedgerRefusal, refusal
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import VersionEntry
from tasks.storage.manifest import version_folder
from tasks.storage.progress import step
from tasks.storage.sinks.sink_kinds import sink_kind
from tasks.storage.sinks.version_copy import WholeVersion, whole_version

logger = logging.getLogger(__name__)


def copy_version(version: WholeVersion, to: str, credentials: str | None, *, newest: bool) -> str:
    """Copy a version to an address.

    Args:
        version: the version.
        to: `s3://BUCKET/PREFIX`, `postgresql://HOST/DATABASE`, or another kind of address.
        credentials: their name, or None for those that the environment gives any program.
        newest: whether `latest` there may point to it.
    Returns:
        str: where it is.
    Raises:
        SpecRefused: nothing writes to addresses of this kind.
        StoreRefuses: the store says no, or the place is taken by something else.
        StoreAway: the store does not answer; nothing half-written is visible.
    """
    address = read_address(to)
    with step("copy") as bar:
        where = sink_kind(address).copy(version, address, credentials, newest=newest, advance=bar.advance)
    logger.info("copied %s v%d", version.release, version.number)
    return where


def copy_published(
    ledger: Ledger, store: Path, release: str, number: int | None, to: str, credentials: str | None
) -> tuple[VersionEntry, str]:
    """Copy a version that the journal says is published to an address.

    Args:
        ledger: knows what was published, withdrawn and superseded.
        store: the release store that holds it.
        release: name of the product.
        number: which version; the newest that is not withdrawn without it.
        to: the address.
        credentials: their name, or None.
    Returns:
        The version, and where its copy is.
    Raises:
        LedgerRefusal: no such version was published, or it was withdrawn.
        VersionBroken: it is not whole here.
        SpecRefused, StoreRefuses, StoreAway: see `copy_version`.
    Privacy: released files only; nothing is drawn or charged.
    """
    entered = [entry for entry in ledger.versions(release) if entry.status != "allocated"]
    known = [entry for entry in entered if entry.status != "withdrawn"]
    wanted = known[-1:] if number is None else [entry for entry in known if entry.number == number]
    if not wanted:
        raise _not_published(release, number, entered)
    [entry] = wanted
    folder = version_folder(store, entry.release, entry.number)
    version = whole_version(folder, entry.release, entry.number, entry.manifest)
    return entry, copy_version(version, to, credentials, newest=entry.status == "published")


def _not_published(release: str, number: int | None, entered: Sequence[VersionEntry]) -> LedgerRefusal:
    """Refuse a version that was withdrawn, or never entered."""
    named = release if number is None else f"{release} v{number}"
    if not entered:
        remedy = "see which releases there are: sudare releases list"
        return refusal("the ledger", "version", f"{named}, which was never published", "a published version", remedy)
    withdrawn = any(entry.status == "withdrawn" and number in (None, entry.number) for entry in entered)
    found = f"{named}, which was {'withdrawn' if withdrawn else 'never published'}"
    numbers = [f"v{entry.number}" for entry in entered if entry.status != "withdrawn"]
    if numbers:
        remedy = f"see which versions there are: sudare releases list; then: sudare publish {release} --version N"
        return refusal("the ledger", "version", found, word_list(numbers), remedy)
    remedy = "other rows or another spec make a new version, which is charged: sudare run SPEC --supersede"
    return refusal("the ledger", "version", found, "a version that was not withdrawn (there is none)", remedy)
