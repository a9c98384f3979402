"""Who gets into the studio: one browser on this machine, by an address that is good for one time.

Rules, in the order of the code:

1. The Host header is 127.0.0.1 with the studio's own port. No name that was pointed here gets an answer (DNS
   rebinding). Neither does localhost: it means ::1 as well, where another program can listen on the same port.
2. `/enter?token=...` gives a session for the token, once, and leads below a secret path.
3. The sheet and the script are the same for everybody.
4. All else lies below the secret path and needs the session's cookie: HttpOnly, SameSite=Strict, for that path alone.
   A cookie knows no port. A browser sends it to any server on 127.0.0.1, but only below its path, which no other
   server knows.
5. What changes something comes from a page of the studio (Origin) as JSON, which no form of another page can send.

The address with the token says nothing of the secret path: every user of the machine can see the command line of the
browser that opens it.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from http import HTTPStatus
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sudare_web.studio.pages import path_below, word_page

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
ENTRANCE: Final = "/enter"
START: Final = "/studio"
SHEET: Final = "/studio/static/studio.css"
SCRIPT: Final = "/studio/static/studio.js"
_LARGEST_BODY: Final = 4_000_000
_JSON: Final = "application/json"


class DoorKeys:
    """The token of the address, the session that it is given for, and the path that the session is good below.

    Args:
        port: of the studio; it names the cookie, since browsers keep the cookies of all ports together.
    """

    def __init__(self, port: int) -> None:
        self.token = secrets.token_urlsafe(32)
        self.root = f"/s-{secrets.token_urlsafe(24)}"
        self.cookie = f"sudare_studio_{port}"
        self._session: str | None = None
        self._lock = threading.Lock()

    def enter(self, token: str) -> str | None:
        """Return a new session for the token; None for a wrong one, and for one that was used."""
        with self._lock:
            if self._session is not None or not hmac.compare_digest(token.encode(), self.token.encode()):
                return None
            self._session = secrets.token_urlsafe(32)
            return self._session

    def used(self, token: str) -> bool:
        """Say whether this is the token, and was used."""
        return self._session is not None and hmac.compare_digest(token.encode(), self.token.encode())

    def knows(self, request: Request) -> bool:
        """Say whether a request is for an address below the secret path, with the session's cookie.

        Another server on 127.0.0.1 can set a cookie of the same name. It stands beside ours and locks nobody out.
        """
        root, known = self.root.encode(), self._session
        path = str(request.scope["path"]).encode("utf-8", "surrogatepass")
        below = hmac.compare_digest(path[: len(root)], root) and path[len(root) : len(root) + 1] == b"/"
        pairs = [each.strip().partition("=") for each in request.headers.get("cookie", "").split(";")]
        sessions = [value.encode() for name, _, value in pairs if name == self.cookie]
        return below and known is not None and any(hmac.compare_digest(each, known.encode()) for each in sessions)


class Door:
    """Lets one browser in, and nothing that another page made it send.

    Args:
        app: what answers behind the door.
        keys: token and session.
        port: the port that the studio listens on.
    """

    def __init__(self, app: ASGIApp, *, keys: DoorKeys, port: int) -> None:
        self._app, self._keys = app, keys
        self._host = f"127.0.0.1:{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or say why not."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start" and path_below(scope).startswith((START, ENTRANCE)):
                headers = MutableHeaders(scope=message)
                headers.setdefault("Content-Security-Policy", POLICY)
                headers["Cache-Control"] = "no-store"
            await send(message)

        request = Request(scope, receive)
        hosts = request.headers.getlist("host")
        if hosts != [self._host]:
            answer: ASGIApp = word_page(request, "host", HTTPStatus.MISDIRECTED_REQUEST)
        elif scope["path"] == ENTRANCE:
            answer = self._entering(request)
        elif request.method == "GET" and scope["path"] in (SHEET, SCRIPT):
            answer = self._app
        elif not self._keys.knows(request):
            answer = word_page(request, "closed", HTTPStatus.FORBIDDEN)
        elif request.method not in ("GET", "HEAD") and not self._from_a_page(request):
            answer = word_page(request, "origin", HTTPStatus.FORBIDDEN)
        else:
            scope["root_path"] = self._keys.root
            answer = self._app
        await answer(scope, receive, sending)

    def _entering(self, request: Request) -> ASGIApp:
        """Give a session for the token. A page that leads on, and no redirect: a strict cookie is sent from it."""
        token = request.query_params.get("token", "")
        session = self._keys.enter(token) if request.method == "GET" else None
        if session is None:
            return word_page(request, "used" if self._keys.used(token) else "wrong", HTTPStatus.FORBIDDEN)
        answer = word_page(request, "entered", HTTPStatus.OK, leads_to=self._keys.root + START)
        answer.set_cookie(self._keys.cookie, session, httponly=True, samesite="strict", path=self._keys.root)
        return answer

    def _from_a_page(self, request: Request) -> bool:
        """Say whether a page of the studio sent this."""
        length = request.headers.get("content-length", "")
        small = length.isdigit() and int(length) <= _LARGEST_BODY
        kind = request.headers.get("content-type", "").partition(";")[0].strip()
        return request.headers.getlist("origin") == [f"http://{self._host}"] and kind == _JSON and small
