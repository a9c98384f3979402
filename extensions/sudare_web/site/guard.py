"""What every answer carries, so that nothing of a contract or a record can act in a reader's browser.

No script runs anywhere on the site. A record's page is shown as it was published, in a sandbox without an origin.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY: Final = (
    "default-src 'none'; style-src 'self'; img-src 'self' data:; frame-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
SANDBOXED: Final = (
    "sandbox allow-downloads; default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; "
    "base-uri 'none'; frame-ancestors 'self'"
)
_HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cache-Control": "private, no-cache",
    "Vary": "Cookie",
}


_ELSEWHERE: Final = PlainTextResponse(
    "This site is not known under the host that was asked for. Its operator names it: sudare serve --host or "
    "--public-url; a proxy in front of it has to pass the Host header on.\n",
    status_code=421,
)


class Guard:
    """Refuses requests for another host, and adds the headers that an answer does not have yet.

    Args:
        app: what answers.
        knows: says whether a Host header names this site.
    """

    def __init__(self, app: ASGIApp, *, knows: Callable[[str | None], bool]) -> None:
        self._app, self._knows = app, knows

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        hosts = Headers(scope=scope).getlist("host")
        known = len(hosts) == 1 and self._knows(hosts[0])
        await (self._app if known else _ELSEWHERE)(scope, receive, sending)
