"""The site's routes. All of them only read.

Each page is a function that returns a `Page`; here it gets an address, and `/api` in front of it answers the same as
JSON. They run in threads, so that no reader waits for another one's file.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from datetime import datetime
from http import HTTPStatus
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse, RedirectResponse, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from console.comparison import compare_versions
from console.published_folders import Folder
from console.workspace import text_of
from contracts.errors import SudareError
from privacy.accounting.amounts import atto_to_text, percent_text, pico_to_text
from privacy.ledger.terms import AccountState
from privacy.ledger.view import ChargeLine
from sudare_web.site import accounts, journal, releases, version
from sudare_web.site.answering import LARGEST, PageRoutes, PlaceInPath, ReleaseInPath
from sudare_web.site.asking import NotThere, Page, Site
from sudare_web.site.guard import Guard
from sudare_web.site.place_sums import add_place_sums
from sudare_web.site.public_address import is_our_host
from sudare_web.site.releases import version_object
from sudare_web.site.tokens import Tokens
from sudare_web.site.version import folder_of
from tasks.records.charts import charts
from tasks.records.page.language import language
from tasks.records.page.style import PALETTE
from tasks.storage.workspace.settings import Workspace

# --- Two versions of a release beside each other, and what they lose together in each account that paid for both.


def compare_page(site: Site, release: str, first: int, second: int) -> Page:
    """Compare two versions of a release."""
    one, other = (folder_of(site, release, number) for number in (first, second))
    if not (one.is_readable and other.is_readable):
        raise NotThere
    key = (one.entry.manifest, other.entry.manifest)
    found = site.comparisons.get(key)
    if found is None:
        found = compare_versions(site.folders, one, other)
        site.comparisons.keep(key, found)
    told = {"release": release, "first": version_object(one.entry), "second": version_object(other.entry)}
    together = joint_losses(site, one, other)
    bars = [
        charts.budget_bar([*zip(("before", "charged", "left"), each.pop("parts"), strict=True)]) for each in together
    ]
    return Page("compare", {**told, **found, "together": together}, drawn={"together": bars})


def joint_losses(site: Site, one: Folder, other: Folder) -> list[dict[str, Any]]:
    """Return what two versions took of each account that both were charged to, and what that is as ε together.

    Args:
        site: whose ledger has the charges.
        one, other: the versions; a version held against itself is charged once.
    Returns:
        Accounts by name; none where the two are about other people or days.
    Privacy: of public charges alone. Their sum in an account's calculus bounds what both versions tell together, for
        adaptive choices too; `claim` converts it to ε (docs/derivations.md, section 7).
    """
    taken = [site.view.charged(folder.entry.run_key) for folder in (one, other)]
    found = []
    for name in sorted({*taken[0]} & {*taken[1]}):
        state = site.view.account(name)
        if state is not None:
            same = one.entry.run_key == other.entry.run_key
            found.append(_joint(state, taken[0][name], None if same else taken[1][name]))
    return found


def _joint(state: AccountState, first: ChargeLine, second: ChargeLine | None) -> dict[str, Any]:
    terms, lines = state.terms, [first, *([] if second is None else [second])]
    together = sum(line.amount for line in lines)
    epsilon, delta = terms.calculus.claim(together, terms.delta), terms.delta
    sums = sum(line.epsilon for line in lines), sum(line.delta for line in lines)
    if sums[1] <= terms.delta and sums[0] < epsilon:
        epsilon, delta = sums
    taken = [first.amount, 0 if second is None else second.amount, max(0, state.cap - together)]
    return {
        "account": terms.name,
        "people": terms.population,
        "block": terms.block,
        "epsilon": pico_to_text(epsilon),
        "delta": atto_to_text(delta),
        "first": percent_text(taken[0], state.cap, up=True),
        "second": percent_text(taken[1], state.cap, up=True),
        "together": percent_text(together, state.cap, up=True),
        "parts": [amount / state.cap for amount in taken],
    }


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
        pass

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
        return answering.page(request, lambda _: compare_page(site, release, first, second))


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


# --- `/metrics`.


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
