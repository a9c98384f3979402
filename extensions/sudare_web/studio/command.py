"""`sudare studio`: a page on this machine to write contract and spec, plan, run and verify."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from console.output import AsJson, At, answer, print_facts
from contracts.errors import Finding, SpecRefused
from sudare_web.serve import HOST, Port, listening_at
from tasks.storage.workspace.keys import WorkspaceRefused
from tasks.storage.workspace.settings import Workspace

STUDIO_PORT: Final = 8351
MadeBy = Annotated[
    Path | None, typer.Argument(metavar="SPEC", help="The spec to open; chosen on the page without it.")
]


def studio(spec: MadeBy = None, port: Port = STUDIO_PORT, workspace: At = None, as_json: AsJson = False) -> None:
    """Open a page on this machine to write contract and spec by choosing, plan, run and verify, until Ctrl-C.

    The page answers this machine alone, and one browser: the address is good for one
    time. It reads no row. What you choose becomes YAML, which you may edit as well.

    Examples:

        sudare studio

        sudare studio examples/adult/tables.yaml --workspace work

        sudare studio --port 0
    """
    folder = (Path.cwd() if spec is None else spec.parent).resolve()
    if spec is not None and not spec.is_file():
        allowed, remedy = "a release spec (YAML)", "leave it out to begin a new one on the page"
        raise SpecRefused([Finding("the command", "SPEC", f"no such file: {spec}", allowed, remedy)])
    where = _workspace(workspace, folder)
    with listening_at(HOST, port) as listening:
        # Starlette, once it is clear that there is a port
        from sudare_web.studio.app import Studio, make_app

        at = listening.getsockname()[1]
        made = Studio(folder, where, named=workspace, port=at, first="" if spec is None else spec.name)
        url = f"http://{HOST}:{at}/enter?token={made.keys.token}"
        payload = {"url": url, "folder": str(folder), "workspace": None if where is None else str(where.root)}
        answer(payload, lambda console: _tell(console, url, folder, where), as_json=as_json)
        sys.stdout.flush()
        from sudare_web.site.server import serve_app

        gc.freeze()  # modules are no garbage: a collection that walks them would hold up an answer by 0.1 s
        serve_app(make_app(made), listening)


def _workspace(named: Path | None, folder: Path) -> Workspace | None:
    """Open the workspace that was named, or the nearest; None where there is none yet."""
    if named is not None:
        return Workspace.open(named)
    for place in (folder, folder / "work"):
        try:
            return Workspace.find(place) if place == folder else Workspace.open(place)
        except WorkspaceRefused:
            continue
    return None


def _tell(console: Console, url: str, folder: Path, where: Workspace | None) -> None:
    console.print("The studio is open for one browser of this machine (Ctrl-C ends it):")
    console.print(url)
    workspace = "none yet: the page makes one" if where is None else str(where.root)
    print_facts(console, [("folder", str(folder)), ("workspace", workspace), ("rows", "the studio reads none")])
