"""Answers: a page as HTML or JSON, a file as it was published, or that there is nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Annotated, Final

from fastapi import Path as InPath
from fastapi import Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from contracts.errors import SudareError
from sudare_web.site.asking import NotThere, Page, Site
from sudare_web.site.guard import SANDBOXED
from sudare_web.site.rendering import render
from tasks.records.page.language import ENGLISH, languages
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
LARGEST: Final = 2**62
ReleaseInPath = Annotated[str, InPath(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
PlaceInPath = Annotated[int, InPath(ge=0, le=LARGEST)]
PageMaker = Callable[[str], Page]
Opened = Callable[[], tuple[int, str, str | None]]


class PageRoutes:
    """Turns pages into answers: HTML for people, JSON under /api.

    Args:
        site: what is shown.
    """

    def __init__(self, site: Site) -> None:
        self._site = site

    def page(self, request: Request, make: PageMaker, *, status: int = 200) -> Response:
        """Answer with a page, in the form that is asked for."""
        return self._sheltered(request, lambda: self.drawn(request, make(_language(request)), status=status))

    def file(self, request: Request, opened: Opened) -> Response:
        """Answer with a file.

        Args:
            request: what is asked for.
            opened: gives a descriptor, the file's name, and its SHA-256; the proof has none.
        """
        return self._sheltered(request, lambda: _file(request, *opened()))

    def trouble(self, request: Request, status: int) -> Response:
        """Answer that a page is not to be had."""
        known = int(status) if status in _TROUBLES else int(HTTPStatus.BAD_REQUEST)
        return self.drawn(request, Page("trouble", {"status": known}), status=int(status))

    def drawn(self, request: Request, page: Page, *, status: int = 200) -> Response:
        """Draw a page."""
        path, root = request.url.path, str(request.scope.get("root_path", ""))
        if path.removeprefix(root).startswith("/api/"):
            return JSONResponse(dict(page.payload), status_code=status)
        query, lang = request.query_params, _language(request)
        html = render(self._site, lang, page, path=path, query=dict(query), root=root)
        answer = Response(html, status_code=status, media_type="text/html")
        if query.get("lang") in languages():
            answer.set_cookie(
                _LANGUAGE_COOKIE,
                lang,
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


def _language(request: Request) -> str:
    """Return the language that a reader asks for, or asked for before."""
    asked = request.query_params.get("lang") or request.cookies.get(_LANGUAGE_COOKIE, "")
    return asked if asked in languages() else ENGLISH


def _file(request: Request, descriptor: int, name: str, digest: str | None) -> Response:
    """Send a file; a page is shown in a sandbox, and what a browser cannot show is downloaded."""
    last = name.rsplit("/", 1)[-1]
    kind = _KINDS.get(last.rsplit(".", 1)[-1])
    headers = {"Content-Length": str(os.fstat(descriptor).st_size)}
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
