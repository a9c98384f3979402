"""The site's routes. All of them only read.

Each page is a function that returns a `Page`; here it gets an address, and `/api` in front of it answers the same as
JSON. They run in threads, so that no reader waits for another one's file.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Annotated, Final, Literal

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse, RedirectResponse, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from sudare_web.site import accounts, comparison, journal, releases, version
from sudare_web.site.answering import LARGEST, PageRoutes, PlaceInPath, ReleaseInPath
from sudare_web.site.asking import NotThere, Page, Site
from sudare_web.site.guard import Guard
from sudare_web.site.place_sums import add_place_sums
from sudare_web.site.public_address import is_our_host
from tasks.records.page.language import language
from tasks.records.page.style import PALETTE

_STATIC: Final = Path(__file__).parent / "static"
_VERSION: Final = "/releases/{release}/v{number}"

TextQuery = Annotated[str, Query(max_length=200, pattern=r"^[^\x00-\x1f]*$")]
NumberQuery = Annotated[int, Query(ge=0, le=LARGEST)]
StatusQuery = Literal["", "published", "superseded", "withdrawn"]


def make_app(site: Site) -> FastAPI:
    """Return the site as an ASGI application.

    Args:
        site: what it shows.
    """

    @asynccontextmanager
    async def living(_: FastAPI) -> AsyncIterator[None]:
        yield
        site.verifications.close()
        site.forecasts.close()
        site.view.close()

    app = FastAPI(title="Sudare", openapi_url=None, docs_url=None, redoc_url=None, lifespan=living)
    app.add_middleware(Guard, knows=lambda host: is_our_host(site.public, listening=site.listening, host=host))
    answering = PageRoutes(site)
    _add_troubles(app, answering)
    _add_releases(app, site, answering)
    _add_version(app, site, answering)
    add_place_sums(app, site, answering)
    _add_accounts(app, site, answering)
    _add_journal(app, site, answering)
    _add_rest(app, site, answering)
    if site.scrapers is not None:
        from sudare_web.site.metrics_route import add_metrics

        add_metrics(app, site.workspace, site.scrapers)
    for route in app.routes:
        if isinstance(route, APIRoute) and route.methods is not None and "GET" in route.methods:
            route.methods.add("HEAD")  # answered like GET; the server leaves the body out
    return app


def _add_troubles(app: FastAPI, answering: PageRoutes) -> None:
    @app.exception_handler(HTTPException)
    def refused(request: Request, error: HTTPException) -> Response:
        answer = answering.trouble(request, error.status_code)
        answer.headers.update(error.headers or {})
        return answer

    @app.exception_handler(RequestValidationError)
    def malformed(request: Request, error: RequestValidationError) -> Response:
        in_path = any(each["loc"][:1] == ("path",) for each in error.errors())
        return answering.trouble(request, HTTPStatus.NOT_FOUND if in_path else HTTPStatus.BAD_REQUEST)


def _add_releases(app: FastAPI, site: Site, answering: PageRoutes) -> None:
    @app.api_route("/", methods=["GET", "HEAD"])
    @app.get("/api/releases")
    def list_releases(
        request: Request, q: TextQuery = "", status: StatusQuery = "", after: TextQuery = ""
    ) -> Response:
        wanted = status or None
        return answering.page(
            request, lambda _: releases.releases_page(site, containing=q, status=wanted, after=after)
        )

    @app.get("/releases/{release}")
    @app.get("/api/releases/{release}")
    def one_release(request: Request, release: ReleaseInPath, before: NumberQuery | None = None) -> Response:
        return answering.page(request, lambda _: releases.release_page(site, release, before=before))

    @app.get("/releases/{release}/compare")
    @app.get("/api/releases/{release}/compare")
    def compare(request: Request, release: ReleaseInPath, first: NumberQuery, second: NumberQuery) -> Response:
        return answering.page(request, lambda _: comparison.compare_page(site, release, first, second))


def _add_version(app: FastAPI, site: Site, answering: PageRoutes) -> None:
    @app.get(_VERSION)
    @app.get(f"/api{_VERSION}")
    def overview(request: Request, release: ReleaseInPath, number: PlaceInPath) -> Response:
        return answering.page(request, lambda _: version.version_page(site, release, number))

    @app.get(f"{_VERSION}/record")
    def record(request: Request, release: ReleaseInPath, number: PlaceInPath) -> Response:
        return answering.page(request, lambda lang: version.record_page(site, release, number, lang=lang))

    @app.get(f"{_VERSION}/tables")
    @app.get(f"/api{_VERSION}/tables")
    def tables(request: Request, release: ReleaseInPath, number: PlaceInPath, file: TextQuery = "") -> Response:
        return answering.page(request, lambda _: version.tables_page(site, release, number, file=file or None))

    @app.get(f"{_VERSION}/files")
    @app.get(f"/api{_VERSION}/files")
    def files(request: Request, release: ReleaseInPath, number: PlaceInPath, after: TextQuery = "") -> Response:
        return answering.page(request, lambda _: version.files_page(site, release, number, after=after))

    @app.get(f"{_VERSION}/verify")
    @app.get(f"/api{_VERSION}/verify")
    def verify(request: Request, release: ReleaseInPath, number: PlaceInPath) -> Response:
        return answering.page(request, lambda _: version.verify_page(site, release, number))

    @app.api_route(f"{_VERSION}/files/{{name:path}}", methods=["GET", "HEAD"])
    def file(request: Request, release: ReleaseInPath, number: PlaceInPath, name: str) -> Response:
        def opened() -> tuple[int, str, str | None]:
            folder = version.folder_of(site, release, number)
            try:
                return folder.open(name), name, folder.files[name].sha256
            except FileNotFoundError:
                raise NotThere from None

        return answering.file(request, opened)


def _add_accounts(app: FastAPI, site: Site, answering: PageRoutes) -> None:
    @app.get("/accounts")
    @app.get("/api/accounts")
    def list_accounts(request: Request, after: TextQuery = "") -> Response:
        return answering.page(request, lambda _: accounts.accounts_page(site, after=after))

    @app.get("/account")
    @app.get("/api/account")
    def account(request: Request, name: TextQuery, before: NumberQuery | None = None) -> Response:
        def make(lang: str) -> Page:
            return accounts.account_page(site, name, before=before, says=language(lang).text)

        return answering.page(request, make)


def _add_journal(app: FastAPI, site: Site, answering: PageRoutes) -> None:
    @app.get("/journal")
    @app.get("/api/journal")
    def entries(
        request: Request,
        kind: TextQuery = "",
        release: TextQuery = "",
        account: TextQuery = "",
        run: TextQuery = "",
        index: Annotated[str, Query(pattern=r"^[0-9]{0,18}$")] = "",
        before: NumberQuery | None = None,
    ) -> Response:
        if index:
            root = str(request.scope.get("root_path", ""))
            prefix = "/api" if request.url.path.removeprefix(root).startswith("/api/") else ""
            return RedirectResponse(f"{root}{prefix}/journal/{int(index)}", status_code=HTTPStatus.SEE_OTHER)
        wanted: dict[str, str | None] = {"kind": kind, "release": release, "account": account, "run": run}
        return answering.page(request, lambda _: journal.journal_page(site, filters=wanted, before=before))

    @app.get("/journal/{sequence}")
    @app.get("/api/journal/{sequence}")
    def entry(request: Request, sequence: PlaceInPath) -> Response:
        return answering.page(request, lambda _: journal.entry_page(site, sequence))

    @app.get("/checkpoints")
    @app.get("/api/checkpoints")
    def checkpoints(request: Request, before: NumberQuery | None = None) -> Response:
        return answering.page(request, lambda _: journal.checkpoints_page(site, before=before))


def _add_rest(app: FastAPI, site: Site, answering: PageRoutes) -> None:
    @app.get("/health")
    @app.get("/api/health")
    def health(request: Request) -> Response:
        return answering.page(request, lambda _: _health(site))

    @app.get("/static/site.css")
    def sheet() -> Response:
        content = PALETTE.read_bytes() + (_STATIC / "site.css").read_bytes()
        return Response(content, media_type="text/css", headers={"Cache-Control": "max-age=300"})

    @app.get("/robots.txt")
    def robots() -> Response:
        return PlainTextResponse("User-agent: *\nDisallow: /\n")


def _health(site: Site) -> Page:
    store = site.workspace.releases
    readable = store.is_dir() and os.access(store, os.R_OK | os.X_OK)
    told = {"ok": readable, "entries": site.view.size(), "versions": sum(site.view.counts().values())}
    return Page("health", {**told, "store": readable, "software": installed_version("sudare")})
