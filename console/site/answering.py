"""Answers: a page as HTML or JSON, a file as it was published, or that there is nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Final

from fastapi import Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from console.site.asking import NotThere, Page, Site, Viewer
from console.site.auditors import COOKIE
from console.site.guard import SANDBOXED
from console.site.rendering import LANGUAGES, render
from contracts.errors import SudareError
from tasks.storage.workspace.run_folder import UnexpectedError, sheltered

_LANGUAGE_COOKIE: Final = "sudare_lang"
_TROUBLES: Final = frozenset({400, 404, 405, 500, 503})
"""What the site has words for."""
_YEAR_SECONDS: Final = 365 * 24 * 3600
_PIECE: Final = 1 << 18
_KINDS: Final = {
    "html": "text/html; charset=utf-8",
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "yaml": "text/plain; charset=utf-8",
}
PageMaker = Callable[[Viewer], Page]
Opened = Callable[[Viewer], tuple[int, str, str | None]]


class PageRoutes:
    """Turns pages into answers: HTML for people, JSON under /api.

    Args:
        site: what is shown.
    """

    def __init__(self, site: Site) -> None:
        self._site = site

    def viewer(self, request: Request) -> Viewer:
        """Say who asks."""
        asked = request.query_params.get("lang") or request.cookies.get(_LANGUAGE_COOKIE, "")
        auditors, who = self._site.auditors, None
        if auditors is not None:
            peer = peer_of(request)
            told = [] if auditors.proxy is None else request.headers.getlist(auditors.proxy.header)
            header = told[0] if len(told) == 1 else None  # of two, one may be the reader's own
            who = auditors.who(request.cookies.get(COOKIE), peer=peer, header=header)
        return Viewer("ja" if asked == "ja" else "en", who)

    def page(self, request: Request, make: PageMaker, *, status: int = 200) -> Response:
        """Answer with a page, in the form that is asked for."""
        viewer = self.viewer(request)
        return self._sheltered(request, lambda: self.drawn(request, viewer, make(viewer), status=status))

    def file(self, request: Request, opened: Opened) -> Response:
        """Answer with a file.

        Args:
            request: what is asked for.
            opened: gives a descriptor, the file's name, and its SHA-256 where it is a published one.
        """
        viewer = self.viewer(request)
        return self._sheltered(request, lambda: _file(request, *opened(viewer), private=viewer.auditor is not None))

    def trouble(self, request: Request, status: int) -> Response:
        """Answer that a page is not to be had."""
        known = int(status) if status in _TROUBLES else int(HTTPStatus.BAD_REQUEST)
        return self.drawn(request, self.viewer(request), Page("trouble", {"status": known}), status=int(status))

    def drawn(self, request: Request, viewer: Viewer, page: Page, *, status: int = 200) -> Response:
        """Draw a page."""
        path, root = request.url.path, str(request.scope.get("root_path", ""))
        private = {} if viewer.auditor is None else {"Cache-Control": "no-store"}
        if path.removeprefix(root).startswith("/api/"):
            return JSONResponse(dict(page.payload), status_code=status, headers=private)
        query = request.query_params
        html = render(self._site, viewer, page, path=path, query=dict(query), root=root)
        answer = Response(html, status_code=status, media_type="text/html", headers=private)
        if query.get("lang") in LANGUAGES:
            answer.set_cookie(
                _LANGUAGE_COOKIE,
                viewer.language,
                max_age=_YEAR_SECONDS,
                httponly=True,
                samesite="lax",
                secure=request.url.scheme == "https" or self._site.public is not None,
            )
        return answer

    def _sheltered(self, request: Request, act: Callable[[], Response]) -> Response:
        """Answer; what goes wrong is written down for the operator alone, and the reader is told that it did."""

        def answer_or_none() -> Response | None:
            try:
                return act()
            except NotThere:
                return None

        try:
            answer = sheltered(answer_or_none, lambda: self._site.error_log)
        except UnexpectedError:
            return self.trouble(request, HTTPStatus.INTERNAL_SERVER_ERROR)
        except SudareError:
            return self.trouble(request, HTTPStatus.SERVICE_UNAVAILABLE)
        return self.trouble(request, HTTPStatus.NOT_FOUND) if answer is None else answer


def peer_of(request: Request) -> str | None:
    """Return the address that a request comes from."""
    return None if request.client is None else request.client.host


def _file(request: Request, descriptor: int, name: str, digest: str | None, *, private: bool) -> Response:
    """Send a file; a page is shown in a sandbox, and what a browser cannot show is downloaded."""
    last = name.rsplit("/", 1)[-1]
    kind = _KINDS.get(last.rsplit(".", 1)[-1])
    headers = {"Content-Length": str(os.fstat(descriptor).st_size)}
    headers["Cache-Control"] = "no-store" if private else "private, no-cache"
    if kind is not None and kind.startswith("text/html"):
        headers |= {"Content-Security-Policy": SANDBOXED, "X-Frame-Options": "SAMEORIGIN"}
    if kind is None:
        headers["Content-Disposition"] = f'attachment; filename="{_safe(last)}"'
    if digest is not None:
        headers["ETag"] = f'"{digest}"'
        if request.headers.get("if-none-match") == f'"{digest}"':
            os.close(descriptor)
            headers.pop("Content-Length")
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    if request.method == "HEAD":
        os.close(descriptor)
        return Response(headers=headers, media_type=kind or "application/octet-stream")
    return StreamingResponse(_pieces(descriptor), headers=headers, media_type=kind or "application/octet-stream")


def _safe(name: str) -> str:
    """Return a name that every system can save a file under."""
    return "".join(letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "_" for letter in name)


def _pieces(descriptor: int) -> Iterator[bytes]:
    with os.fdopen(descriptor, "rb") as file:
        while piece := file.read(_PIECE):
            yield piece
