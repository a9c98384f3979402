"""Send an event; whatever goes wrong on the way is a warning, and never stops a release."""

from __future__ import annotations

import http.client
import logging
import os
import urllib.request
from pathlib import Path
from typing import IO, Any

from contracts.canonical import canonical_json
from tasks.storage.workspace.lineage_target import LineageTarget

logger = logging.getLogger(__name__)

TIMEOUT = 5.0
_FAILURES = (OSError, ValueError, http.client.HTTPException)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the bearer token to somebody else."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> None:
        return None


def send(target: LineageTarget, event: dict[str, Any]) -> bool:
    """Deliver an event to everybody who wants it.

    Args:
        target: where events go.
        event: the event.
    Returns:
        bool: whether all got it. What failed is logged by its class, without addresses or texts of others.
    """
    delivered, data = True, canonical_json(event)
    for way, deliver in ((target.file, _append), (target.url, _post)):
        if way is None:
            continue
        try:
            deliver(target, data)
        except _FAILURES as error:
            delivered = False
            logger.warning("lineage: the event %s was not delivered (%s)", event["eventType"], type(error).__name__)
    return delivered


def _append(target: LineageTarget, data: bytes) -> None:
    """Append one line, in one write, so that events of several processes do not mix; a new file is its owner's."""
    path = target.file or Path()
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, data + b"\n")
    finally:
        os.close(descriptor)


def _post(target: LineageTarget, data: bytes) -> None:
    """Post to the server; any answer of the 200s will do."""
    url = target.url or ""
    if not url.startswith(("http://", "https://")):
        raise ValueError("an address of another kind")
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {target.key}"} if target.key else {})
    request = urllib.request.Request(url, data=data, headers=headers, method="POST")
    with urllib.request.build_opener(_NoRedirect).open(request, timeout=TIMEOUT):
        pass
