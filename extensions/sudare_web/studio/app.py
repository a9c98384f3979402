"""The studio's routes, behind its door; beside them the review site of the workspace, to open a record and verify.

Each answer is a function of what the page sends and of the ledger. The studio keeps no text: an editor that is closed
unsaved is gone, and two tabs meet at the files.
"""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, Final

from fastapi import Body, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from contracts.errors import Finding, Refused, SudareError
from sudare_web.site.asking import Site
from sudare_web.site.guard import Guard
from sudare_web.studio import beginning
from sudare_web.studio.choices import NoChoice, chosen
from sudare_web.studio.door import SCRIPT, SHEET, START, Door, DoorKeys
from sudare_web.studio.files import FileChanged, FileText, SpecFolder
from sudare_web.studio.form import contract_file, form_of
from sudare_web.studio.outlook import Outlook, look
from sudare_web.studio.pages import language_of, page, path_below, piece, root_of
from sudare_web.studio.processes import Said
from sudare_web.studio.runs import Runs
from sudare_web.studio.sent_bodies import EditorText, Looked, Order
from tasks.records.page.style import PALETTE
from tasks.storage.workspace.keys import WorkspaceRefused
from tasks.storage.workspace.run_folder import sheltered
from tasks.storage.workspace.settings import Workspace

_STATIC: Final = Path(__file__).parent / "static"
_SITE_SHEET: Final = Path(__file__).parents[1] / "site" / "static" / "site.css"


class Studio:
    """What the page works with.

    Args:
        folder: of contracts and specs.
        workspace: None where there is none yet.
        named: the workspace's folder, where the command named one.
        port: that the studio listens on.
        first: the spec that the page opens by itself; empty for none.
    """

    def __init__(
        self, folder: Path, workspace: Workspace | None, *, named: Path | None, port: int, first: str = ""
    ) -> None:
        self.folder, self.keys, self.port, self.first = SpecFolder(folder), DoorKeys(port), port, first
        self._named, self._workspace, self._lock = named, workspace, threading.Lock()
        self._runs: Runs | None = None
        self._site: tuple[Site, ASGIApp] | None = None

    @property
    def workspace(self) -> Workspace | None:
        """The workspace, once there is one."""
        if self._workspace is None:
            try:
                self._workspace = Workspace.open(self._named or self.folder.path / beginning.WORKSPACE)
            except WorkspaceRefused:
                return None
        return self._workspace

    @property
    def runs(self) -> Runs | None:
        """Its runs."""
        with self._lock:
            if self._runs is None and self.workspace is not None:
                self._runs = Runs(self.workspace, self.folder.path)
            return self._runs

    def site(self) -> ASGIApp | None:
        """Return the review site of the workspace; None while there is no ledger."""
        with self._lock:
            if self._site is None and self.workspace is not None:
                from sudare_web.serve import make_site
                from sudare_web.site import app

                try:
                    made = make_site(self.workspace, in_studio=True)
                except SudareError:
                    return None
                self._site = made, app.make_app(made)
            return None if self._site is None else self._site[1]

    def close(self) -> None:
        """End what works beside the page; runs go on."""
        if self._site is not None:
            self._site[0].verifications.close()
            self._site[0].forecasts.close()
            self._site[0].view.close()


def make_app(studio: Studio) -> ASGIApp:
    """Return the studio as an ASGI application, behind its door."""

    @asynccontextmanager
    async def living(_: FastAPI) -> AsyncIterator[None]:
        yield
        studio.close()

    app = FastAPI(title="Sudare studio", openapi_url=None, docs_url=None, redoc_url=None, lifespan=living)
    _add_trouble(app)
    _add_sheets(app)
    _add_page(app, studio)
    _add_runs(app, studio)
    _add_beginning(app, studio)

    async def both(scope: Scope, receive: Receive, send: Send) -> None:
        ours = scope["type"] != "http" or path_below(scope).startswith(START)
        site = None if ours else studio.site()
        await (app if site is None else site)(scope, receive, send)

    door = Door(both, keys=studio.keys, port=studio.port)
    return Guard(door, knows=lambda _: True)  # the door looks at the host


def _add_trouble(app: FastAPI) -> None:
    @app.exception_handler(RequestValidationError)
    def malformed(request: Request, error: RequestValidationError) -> Response:
        """Name the fields; what was sent in them may be no text."""
        at = ", ".join(sorted({".".join(map(str, each["loc"])) for each in error.errors()}))
        finding = Finding("the page", at, "what the studio does not take", "what its page sends", "reload the page")
        drawn = piece("findings", language_of(request), findings=[vars(finding)])
        return JSONResponse({"findings": drawn}, status_code=HTTPStatus.BAD_REQUEST)


def _add_sheets(app: FastAPI) -> None:
    @app.get(SHEET)
    def sheet() -> Response:
        parts = (PALETTE, _SITE_SHEET, _STATIC / "studio.css")
        return Response(b"".join(each.read_bytes() for each in parts), media_type="text/css")

    @app.get(SCRIPT)
    def script() -> Response:
        return Response((_STATIC / "studio.js").read_bytes(), media_type="text/javascript")


def _add_page(app: FastAPI, studio: Studio) -> None:
    @app.get(START)
    def start(request: Request, spec: str = "") -> Response:
        return _sheltered(studio, request, lambda: _start(studio, request, spec or studio.first))

    @app.post(f"{START}/look")
    def looked(request: Request, sent: Annotated[Looked, Body()]) -> Response:
        return _sheltered(studio, request, lambda: _looked(studio, request, sent))

    @app.post(f"{START}/save")
    def save(request: Request, sent: Annotated[list[EditorText], Body(max_length=2)]) -> Response:
        def saved() -> Response:
            texts = [FileText(studio.folder.file(each.name), each.text, each.digest) for each in sent]
            return JSONResponse(studio.folder.write(*texts))

        return _sheltered(studio, request, saved)


def _start(studio: Studio, request: Request, name: str) -> Response:
    """The page: the files to choose from, and the one that is open."""
    begun: dict[str, Any] = {
        "specs": studio.folder.specs(),
        "tables": studio.folder.tables(),
        "codebooks": studio.folder.codebooks(),
        "folder": studio.folder.path,
        "workspace": studio.workspace,
        "site": studio.site() is not None,
        "opened": None,
    }
    if not name:
        return page(request, "studio", **begun)
    spec = studio.folder.read(name)
    named = contract_file(spec.text)
    try:
        contract = studio.folder.read(named) if named else None
    except Refused:
        contract = None  # it lies elsewhere: it is read by the plan, and edited where it lies
    opened = {"spec": (name, spec), "contract": None if contract is None else (named, contract)}
    outlook = look(studio.workspace, spec, contract, None)
    pieces = _pieces(studio, request, spec.text, None if contract is None else contract.text, outlook, ())
    return page(request, "studio", **{**begun, "opened": opened, "pieces": pieces, "lines": _marks(outlook)})


def _looked(studio: Studio, request: Request, sent: Looked) -> Response:
    """Make the choice, if there is one, and plan."""
    spec, contract = sent.spec.text, None if sent.contract is None else sent.contract.text
    refused = False
    if sent.choice is not None:
        try:
            spec, declared = chosen(spec, contract or "", sent.choice.name, sent.choice.at, sent.choice.value)
            contract = None if contract is None else declared
        except NoChoice:
            refused = True
    texts = [FileText(studio.folder.file(sent.spec.name), spec)]
    if sent.contract is not None and contract is not None:
        texts.append(FileText(studio.folder.file(sent.contract.name), contract))
    outlook = look(studio.workspace, texts[0], texts[1] if len(texts) > 1 else None, sent.rows)
    told = {
        "spec": spec,
        "contract": contract,
        "pieces": _pieces(studio, request, spec, contract, outlook, sent.open),
        "lines": _marks(outlook),
        "ready": outlook.plan is not None,
        "refused": refused,
    }
    return JSONResponse(told)


def _pieces(
    studio: Studio, request: Request, spec: str, contract: str | None, outlook: Outlook, opened: Sequence[int]
) -> dict[str, str]:
    """Draw what the plan foretells, the form with the parts of tables that are open, and what is wrong."""
    code = language_of(request)
    form = form_of(spec, contract)
    within = outlook.of_tables([each.columns for each in form["spec"]["tables"]] if form["spec"] else [])
    parts = {"outlook": outlook, "form": form, "within": within, "workspace": studio.workspace}
    drawn = {name: piece(name, code, **parts, open_tables=opened) for name in ("form", "outlook", "account", "terms")}
    for name in ("spec", "contract"):
        found = [each for each in outlook.findings if each["file"] == name or (name == "spec" and not each["file"])]
        drawn[f"{name}_findings"] = piece("findings", code, findings=found)
    return drawn


def _marks(outlook: Outlook) -> dict[str, list[int]]:
    """Return the lines of each text that something is said about."""
    return {
        name: sorted({each["line"] for each in outlook.findings if each["file"] == name})
        for name in ("spec", "contract")
    }


def _add_runs(app: FastAPI, studio: Studio) -> None:
    @app.post(f"{START}/run")
    def run(request: Request, sent: Annotated[Order, Body()]) -> Response:
        def started() -> Response:
            options = ("--supersede",) * sent.supersede + ("--accept-misfits",) * sent.accept_misfits
            runs = studio.runs
            if runs is None:
                raise WorkspaceRefused(
                    [Finding("the page", "workspace", "none yet", "a workspace", "make one above")]
                )
            plan = look(studio.workspace, studio.folder.read(sent.spec), None, None).plan
            runs.start(studio.folder.file(sent.spec), options, 0.0 if plan is None else plan["seconds"])
            return _state(studio, request)

        return _sheltered(studio, request, started)

    @app.get(f"{START}/run")
    def state(request: Request) -> Response:
        return _sheltered(studio, request, lambda: _state(studio, request))


def _state(studio: Studio, request: Request) -> Response:
    runs = studio.runs
    state = None if runs is None else runs.state()
    drawn = piece("run", language_of(request), state=state, root=root_of(request), now=time.time())
    return JSONResponse({"running": state is not None and state.running, "piece": drawn})


def _add_beginning(app: FastAPI, studio: Studio) -> None:
    @app.post(f"{START}/workspace")
    def workspace(request: Request) -> Response:
        return _sheltered(studio, request, lambda: _said(request, beginning.make_workspace(studio.folder)))

    @app.post(f"{START}/account")
    def account(request: Request, sent: Annotated[beginning.WantedAccount, Body()]) -> Response:
        def opened() -> Response:
            return _said(request, beginning.open_account(studio.folder, studio.workspace, sent))

        return _sheltered(studio, request, opened)

    @app.post(f"{START}/new")
    def new(request: Request, sent: Annotated[beginning.NewRelease, Body()]) -> Response:
        return _sheltered(studio, request, lambda: _said(request, beginning.new_release(studio.folder, sent)))


def _said(request: Request, said: Said) -> Response:
    """Answer with what a command answered."""
    if said.done:
        return JSONResponse(said.answer)
    drawn = piece("findings", language_of(request), findings=said.findings)
    return JSONResponse({"findings": drawn}, status_code=HTTPStatus.BAD_REQUEST)


def _sheltered(studio: Studio, request: Request, act: Callable[[], Response]) -> Response:
    """Answer; what is refused is said in words, and what goes wrong is written down for the operator."""
    root = studio.folder.path if studio.workspace is None else studio.workspace.private
    try:
        return sheltered(act, lambda: root / "error.private.log")
    except FileChanged as changed:
        drawn = piece("findings", language_of(request), findings=[vars(each) for each in changed.findings])
        theirs = {"text": changed.text, "digest": changed.digest}
        return JSONResponse(
            {"findings": drawn, "theirs": theirs, "place": changed.place}, status_code=HTTPStatus.CONFLICT
        )
    except SudareError as error:
        found = error.findings if isinstance(error, Refused) else (Finding("sudare", "", str(error), ""),)
        drawn = piece("findings", language_of(request), findings=[vars(each) for each in found])
        if request.method == "GET" and path_below(request.scope) == START:
            return page(request, "refused", HTTPStatus.BAD_REQUEST, findings=drawn)
        return JSONResponse({"findings": drawn}, status_code=HTTPStatus.BAD_REQUEST)
