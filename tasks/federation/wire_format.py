"""What goes over the sockets between Sudare and Flower's processes: a line of JSON, then bytes.

Sockets are Unix sockets in folders that only their owner may enter; nothing that arrives is unpickled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def packed(header: Mapping[str, Any], body: bytes = b"") -> bytes:
    """Lay a message out as bytes."""
    return json.dumps(dict(header)).encode() + b"\n" + body


def unpacked(message: bytes) -> tuple[dict[str, Any], bytes]:
    """Take a message apart.

    Raises:
        ValueError: it is none.
    """
    line, _, body = message.partition(b"\n")
    header = json.loads(line)
    if not isinstance(header, dict):
        raise ValueError("a message begins with a JSON object")
    return header, body
