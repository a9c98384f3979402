"""What goes over the sockets to Sudare's processes: a line of JSON, then bytes (`tasks.federation.flower`)."""

from __future__ import annotations

import json
from multiprocessing.connection import Client, Connection
from typing import Any


def packed(header: dict[str, Any], body: bytes = b"") -> bytes:
    """Lay a message out as bytes."""
    return json.dumps(header).encode() + b"\n" + body


def unpacked(message: bytes) -> tuple[dict[str, Any], bytes]:
    """Take a message apart."""
    line, _, body = message.partition(b"\n")
    return json.loads(line), body


def connected(address: str) -> Connection:
    """Connect to a socket of Sudare's on this machine."""
    return Client(address, "AF_UNIX")


def ask_site(address: str, message: bytes) -> bytes:
    """Ask a site's Sudare one thing."""
    with connected(address) as line:
        line.send_bytes(message)
        return line.recv_bytes()
