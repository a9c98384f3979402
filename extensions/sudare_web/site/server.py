"""The process that serves the site: uvicorn, which ends quietly and waits for no request without end."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from sudare_web.site.app import make_app
from sudare_web.site.asking import Site

IDLE_SECONDS: Final = 15
REQUEST_SECONDS: Final = 20.0


class PatientProtocol(H11Protocol):
    """HTTP whose request heads have to be whole in time; uvicorn itself waits for the rest of one for ever.

    A connection that sends nothing, or a head in drops, holds a place and a descriptor. It is closed after
    `REQUEST_SECONDS`, however often it sends something meanwhile.
    """

    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Take what came; stop waiting once a request is whole, and begin again with the next one's first byte."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        else:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self._waiting is None and not self.transport.is_closing():
            self._waiting = self.loop.call_later(REQUEST_SECONDS, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None


class QuietServer(uvicorn.Server):
    """Ends quietly: for a server, Ctrl-C is how it is meant to end."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Let SIGINT and SIGTERM end the server, and nothing else happen."""
        before = {each: signal.signal(each, self.handle_exit) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)


def config_for(app: ASGIApp) -> uvicorn.Config:
    """Return how an application is served."""
    return uvicorn.Config(
        app,
        http=PatientProtocol,
        log_level="warning",
        access_log=False,
        proxy_headers=False,  # who asks is told by the connection, and never by a header
        server_header=False,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=IDLE_SECONDS,
    )


def run(site: Site, listening: socket.socket) -> None:
    """Serve until a signal; what is being answered is finished."""
    serve_app(make_app(site), listening)


def serve_app(app: ASGIApp, listening: socket.socket) -> None:
    """Serve an application until a signal; what is being answered is finished."""
    QuietServer(config_for(app)).run(sockets=[listening])
