"""`sudare serve`: the review site."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from console.output import AsJson, At, answer, print_facts, workspace_at
from console.published_folders import Folders
from contracts.errors import Finding, Refused
from privacy.ledger.view import LedgerView
from sudare_web.site.asking import Site
from sudare_web.site.desk import Desk
from sudare_web.site.public_address import PublicAddress
from sudare_web.site.tokens import Tokens
from sudare_web.site.version import forecast, verify_version
from tasks.storage.workspace.settings import Workspace
from tasks.verification.keys import read_public_key

HOST = "127.0.0.1"
PORT = 8350
VERIFY_SECONDS = 300.0
FORECAST_SECONDS = 120.0

Host = Annotated[str, typer.Option("--host", help="The address to listen on.")]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0 for one that is free.")]
PublicUrl = Annotated[
    str | None,
    typer.Option("--public-url", metavar="URL", help="The https address of the proxy in front of the site."),
]
MetricsTokens = Annotated[
    Path | None,
    typer.Option("--metrics-tokens", metavar="FILE", help="Serve /metrics to holders of these tokens (mode 0600)."),
]


class PortTaken(Refused):
    """The address cannot be listened on."""

    exit_code = 1


def serve(
    host: Host = HOST,
    port: Port = PORT,
    public_url: PublicUrl = None,
    metrics_tokens: MetricsTokens = None,
    workspace: At = None,
    as_json: AsJson = False,
) -> None:
    """Serve the review site: releases, records, accounts and the journal, read only, until Ctrl-C.

    It shows what is released and public, and nothing private. Who may read
    it at all, a reverse proxy in front of it can say.

    Examples:

        sudare serve

        sudare serve --port 8351

        sudare serve --public-url https://review.example.org

        sudare serve --metrics-tokens scrapers.txt
    """
    public = _public(public_url)
    where = workspace_at(workspace)
    scrapers = None if metrics_tokens is None else Tokens(metrics_tokens)
    site = make_site(where, public, listening=host, scrapers=scrapers)
    with listening_at(host, port) as listening:
        url = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"
        payload = {"url": url, "workspace": str(where.root)}
        payload |= {} if public is None else {"public_url": public.origin}
        answer(payload, lambda console: _tell(console, url, where, host), as_json=as_json)
        # Starlette, once the address is on the terminal
        from sudare_web.site.server import run

        run(site, listening)


def make_site(
    workspace: Workspace,
    public: PublicAddress | None = None,
    *,
    listening: str = HOST,
    in_studio: bool = False,
    scrapers: Tokens | None = None,
) -> Site:
    """Put together what the site shows.

    Args:
        workspace: its ledger and store are only read.
        public: the address of the proxy in front of it, where it is told.
        listening: the address or name that it listens on.
        scrapers: who may read metrics; None for nobody.
        in_studio: whether it stands beside a studio, which its navigation leads back to.
    Raises:
        LedgerUnavailable: there is no ledger, or it does not answer.
    """
    key = read_public_key(workspace.public_key_file)
    threading.Thread(target=_warm, daemon=True).start()
    view = LedgerView(workspace.ledger_url)
    return Site(
        workspace=workspace,
        view=view,
        folders=Folders(workspace.releases),
        public_key=key,
        ledger_id=view.first_hash(),
        verifications=Desk(verify_version, seconds=VERIFY_SECONDS),
        forecasts=Desk(forecast, seconds=FORECAST_SECONDS),
        public=public,
        listening=listening,
        in_studio=in_studio,
        scrapers=scrapers,
    )


def _warm() -> None:
    """Load what reads tables, which takes seconds, before the first reader asks for one."""
    import_module("pyarrow.parquet")


def _public(url: str | None) -> PublicAddress | None:
    """Read under which address readers meet the site, where that is said."""
    if url is None:
        return None

    return PublicAddress.read(url)


@contextmanager
def listening_at(host: str, port: int) -> Iterator[socket.socket]:
    """Listen inside the block, or say why not, before anything is served.

    Raises:
        PortTaken: the address is none of this machine, or its port is taken.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=256)
    except OSError as error:
        found, remedy = error.strerror or str(error), "stop what listens there, or choose another: --port PORT"
        allowed = "an address of this machine and a port that is free"
        raise PortTaken(
            [Finding("the command", "--host, --port", f"{host}:{port}: {found}", allowed, remedy)]
        ) from None
    with listening:
        # asyncio does it for sockets that it has made itself. Without it each page waits 40 ms to be acknowledged.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield listening


def _tell(console: Console, url: str, where: Workspace, host: str) -> None:
    console.print(f"The review site is at {url} (read only; Ctrl-C ends it)")
    facts = [("workspace", str(where.root))]
    if host not in ("127.0.0.1", "::1", "localhost"):
        facts.append(("beware", "plain HTTP: put a proxy with TLS in front of it, and name it: --public-url"))
    print_facts(console, facts)
