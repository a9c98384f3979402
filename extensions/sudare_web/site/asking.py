"""What the pages are made from, and what a page is before it is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from console.published_folders import Folders, Kept
from privacy.ledger.view import LedgerView
from sudare_web.site.burn_down import BurnDowns
from sudare_web.site.desk import Desk
from sudare_web.site.public_address import PublicAddress
from sudare_web.site.tables import Preview
from sudare_web.site.tokens import Tokens
from tasks.storage.workspace.settings import Workspace

PAGE: Final = 50


class NotThere(Exception):
    """There is nothing under this address."""


@dataclass(frozen=True)
class Site:
    """All that the pages are made from.

    Args:
        workspace: whose releases are shown.
        view: its ledger, read only.
        folders: its release store.
        public_key: key that its versions are signed with.
        ledger_id: hash of the journal's first entry.
        verifications: checks versions.
        forecasts: works out how long the accounts last.
        public: the address of the proxy in front of it; None where none is told.
        listening: the address or name that it listens on: requests that name another host are refused.
        in_studio: whether it stands beside a studio.
        scrapers: who may read metrics; None where nobody may.
    """

    workspace: Workspace
    view: LedgerView
    folders: Folders
    public_key: str
    ledger_id: str
    verifications: Desk
    forecasts: Desk
    listening: str
    public: PublicAddress | None = None
    in_studio: bool = False
    scrapers: Tokens | None = None
    burn_downs: BurnDowns = field(default_factory=BurnDowns)
    previews: Kept[Preview] = field(default_factory=lambda: Kept(256))
    comparisons: Kept[Any] = field(default_factory=lambda: Kept(64))
    fits: Kept[dict[str, str | None]] = field(default_factory=lambda: Kept(1024))

    @property
    def error_log(self) -> Path:
        """Where an unexpected error is written down, for the operator alone."""
        return self.workspace.private / "error.private.log"


@dataclass(frozen=True)
class Page:
    """A page before it is drawn.

    Args:
        template: its template, without the suffix.
        payload: what it tells; plain values, which the API answers with.
        drawn: pictures, for people only.
        refresh: seconds after which to look again; 0 for never.
    """

    template: str
    payload: Mapping[str, Any]
    drawn: Mapping[str, Any] = field(default_factory=dict)
    refresh: int = 0
