"""The routes of auditors. Where nobody may be one, they are not there at all."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Annotated, Final
from urllib.parse import parse_qs

from fastapi import FastAPI, Query, Request
from fastapi import Path as InPath
from fastapi.responses import RedirectResponse, Response
from starlette.concurrency import run_in_threadpool

from console.site import version
from console.site.answering import PageRoutes, peer_of
from console.site.asking import NotThere, Page, Site, Viewer
from console.site.auditor_pages import auditor_page, open_auditor_file
from console.site.auditors import COOKIE, LASTING_SECONDS, Auditors
from console.site.public_address import PublicAddress, is_our_origin, must_be_secure

_LONGEST_FORM: Final = 4096
_FORM_SECONDS: Final = 10.0
_LARGEST: Final = 2**62
ReleaseInPath = Annotated[str, InPath(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
PlaceInPath = Annotated[int, InPath(ge=0, le=_LARGEST)]


def add_auditors(app: FastAPI, site: Site, auditors: Auditors, answering: PageRoutes) -> None:
    """Add the pages that only auditors see, and, where there are tokens, the login.

    Args:
        app: gets the routes.
        site: what is shown.
        auditors: who may see it.
        answering: how pages are answered.
    """

    @app.get("/auditor")
    @app.get("/api/auditor")
    def overview(request: Request, before: Annotated[int | None, Query(ge=0, le=_LARGEST)] = None) -> Response:
        return answering.page(request, lambda viewer: auditor_page(site, viewer, before=before))

    @app.get("/releases/{release}/v{number}/auditor")
    def of_version(request: Request, release: ReleaseInPath, number: PlaceInPath) -> Response:
        return answering.page(request, lambda viewer: version.auditor_version_page(site, viewer, release, number))

    @app.get("/releases/{release}/v{number}/auditor/{key:path}")
    def private_file(request: Request, release: ReleaseInPath, number: PlaceInPath, key: str) -> Response:
        def opened(viewer: Viewer) -> tuple[int, str, str | None]:
            if viewer.auditor is None:
                raise NotThere
            version.folder_of(site, release, number)
            opened = open_auditor_file(site.workspace, release, number, key)
            _note(site, request, "read", auditor=viewer.auditor)
            return (*opened, None)

        return answering.file(request, opened)

    if auditors.by_token:
        _add_login(app, site, auditors, answering)


def _note(site: Site, request: Request, event: str, *, auditor: str | None = None) -> None:
    """Write down what an auditor does."""
    path = request.url.path if event == "read" else None
    site.access_log.write(event, peer=peer_of(request), auditor=auditor, path=path)


def _add_login(app: FastAPI, site: Site, auditors: Auditors, answering: PageRoutes) -> None:
    public = site.public

    def secure(request: Request) -> bool:
        return must_be_secure(public, scheme=request.url.scheme, host=request.headers.get("host"))

    def form(request: Request, *, refused: bool, status: HTTPStatus) -> Response:
        answer = answering.page(request, lambda _: Page("login", {"refused": refused}), status=status)
        answer.headers["Referrer-Policy"] = "same-origin"  # without it browsers do not tell where the form comes from
        return answer

    @app.get("/login")
    def login(request: Request) -> Response:
        return form(request, refused=False, status=HTTPStatus.OK)

    @app.post("/login")
    async def log_in(request: Request) -> Response:
        token = await _token(request, public)
        if token is None:
            return answering.trouble(request, HTTPStatus.BAD_REQUEST)
        return await run_in_threadpool(enter, request, token)

    def enter(request: Request, token: str) -> Response:
        secret = auditors.log_in(token)
        if secret is None:
            too_many = site.access_log.failed(peer_of(request))
            status = HTTPStatus.TOO_MANY_REQUESTS if too_many else HTTPStatus.FORBIDDEN
            return form(request, refused=True, status=status)
        _note(site, request, "login", auditor=auditors.who(secret, peer=None, header=None))
        return _entered(secret, secure=secure(request))

    @app.post("/logout")
    def log_out(request: Request) -> Response:  # the cookie is sent from this site's own pages only
        if not _from_here(request, public, unnamed=True):
            return answering.trouble(request, HTTPStatus.BAD_REQUEST)
        secret = request.cookies.get(COOKIE, "")
        who = auditors.who(secret, peer=None, header=None)
        auditors.log_out(secret)
        if who is not None:
            _note(site, request, "logout", auditor=who)
        answer = RedirectResponse("/", status_code=HTTPStatus.SEE_OTHER)
        answer.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict", secure=secure(request))
        return answer


def _entered(secret: str, *, secure: bool) -> Response:
    """Lead in, with the session's cookie."""
    answer = RedirectResponse("/auditor", status_code=HTTPStatus.SEE_OTHER)
    answer.set_cookie(
        COOKIE, secret, max_age=LASTING_SECONDS, httponly=True, samesite="strict", secure=secure, path="/"
    )
    return answer


async def _token(request: Request, public: PublicAddress | None) -> str | None:
    """Read the token out of the form; None where it is no such form, or not this site's."""
    if not _from_here(request, public):
        return None
    body = b""
    try:
        async with asyncio.timeout(_FORM_SECONDS):
            async for piece in request.stream():
                body += piece
                if len(body) > _LONGEST_FORM:
                    return None
    except TimeoutError:
        return None
    try:
        told = parse_qs(body.decode("utf-8"), max_num_fields=4).get("token", [])
    except ValueError:
        return None
    return told[0] if len(told) == 1 and told[0].isascii() else None


def _from_here(request: Request, public: PublicAddress | None, *, unnamed: bool = False) -> bool:
    """Say whether a form was sent from this site's own page, as browsers tell; programs tell nothing and pass.

    Both headers have to agree: a proxy may drop or rewrite one of them. Pages that send no referrer have the origin
    "null", which passes where a form does no harm (`unnamed`).
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if unnamed and origin == "null":
        origin = None
    if origin is not None and not is_our_origin(public, origin=origin, host=request.headers.get("host")):
        return False
    return site in (None, "same-origin", "none")
