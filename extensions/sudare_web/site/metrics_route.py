"""`/metrics`: what `sudare metrics` prints, for scrapers with a token; without a file of tokens it is not there.

A monitor that looks often sees when a charge is opened and its version published, and so how long a run takes. So it
is for those who operate the workspace, and never for everybody.
"""

from __future__ import annotations

import threading
import time
from contextlib import closing
from datetime import datetime
from http import HTTPStatus
from typing import Final

from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse, Response

from console.metrics import text_of
from contracts.errors import SudareError
from sudare_web.site.tokens import Tokens
from tasks.storage.workspace.settings import Workspace

KEPT_SECONDS: Final = 15.0
_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_SCHEME: Final = "bearer"


class Scrape:
    """The newest numbers, made once for scrapers that ask at the same time.

    Args:
        workspace: whose numbers they are.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._lock = threading.Lock()
        self._made: tuple[float, str] | None = None

    def text(self) -> str:
        """Return the numbers, at most `KEPT_SECONDS` old."""
        with self._lock:
            if self._made is None or time.monotonic() - self._made[0] > KEPT_SECONDS:
                with closing(self._workspace.open_ledger()) as ledger:
                    made = text_of(ledger, Workspace.open(self._workspace.root), now=datetime.now())
                self._made = time.monotonic(), made
            return self._made[1]


def add_metrics(app: FastAPI, workspace: Workspace, scrapers: Tokens) -> None:
    """Add the address.

    Args:
        app: the site.
        workspace: whose numbers are told.
        scrapers: the tokens of those who may ask.
    """
    scrape = Scrape(workspace)

    @app.get("/metrics")
    def metrics(request: Request) -> Response:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != _SCHEME or not scrapers.holds(token):
            challenge = {"WWW-Authenticate": "Bearer"}
            return PlainTextResponse("a token is needed\n", HTTPStatus.UNAUTHORIZED, challenge)
        try:
            return Response(scrape.text(), media_type=_TYPE)
        except SudareError:  # the ledger does not answer, or contradicts itself: `sudare doctor` says which
            return PlainTextResponse("the ledger cannot be read\n", HTTPStatus.SERVICE_UNAVAILABLE)
