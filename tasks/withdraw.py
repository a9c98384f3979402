"""Withdraw: a version is marked as withdrawn in the signed journal; its files and its charge stay (DESIGN law 6)."""

from __future__ import annotations

import logging
from pathlib import Path

from contracts.errors import StoreUnwritable
from privacy.ledger.draw_files import sync_folder
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import VersionEntry

logger = logging.getLogger(__name__)


def withdraw(ledger: Ledger, store: Path, release: str, number: int, *, reason: str) -> VersionEntry:
    """Withdraw a version.

    `latest` is taken away where it points to the version: what readers should use instead is a decision, which the
    next publication makes.

    Args:
        ledger: the ledger.
        store: the release store.
        release: name of the product.
        number: which version.
        reason: why; it is published with the journal.
    Raises:
        LedgerRefusal: no such version, never published, or withdrawn already.
        StoreUnwritable: the journal says withdrawn, but `latest` could not be taken away.
    Privacy: touches published files only; the charge stays.
    """
    if any(each.status == "withdrawn" for each in ledger.versions(release) if each.number == number):
        _take_latest_away(store, release, number)  # a withdrawal that was interrupted here is completed
    withdrawn = ledger.withdraw(release, number, reason=reason)
    _take_latest_away(store, release, number)
    logger.info("withdrew %s v%d", release, number)
    return withdrawn


def _take_latest_away(store: Path, release: str, number: int) -> None:
    link = store / release / "latest"
    try:
        if link.is_symlink() and link.readlink().name == f"v{number}":
            link.unlink()
            sync_folder(link.parent)
    except OSError as error:
        raise StoreUnwritable.because(error, store) from error
