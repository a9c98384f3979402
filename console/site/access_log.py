"""Who logged in, whose login failed, and what auditors read: a line each in a private file of the workspace.

Wrong tokens are limited for each address, so that nobody can fill the disk, or guess for long. A right token always
passes: behind a proxy all readers share one address, and none of them may lock the others out.
"""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Final

FILE: Final = "site-access.log"
MOST_FAILURES: Final = 10
WINDOW_SECONDS: Final = 60.0
_MOST_ADDRESSES: Final = 1_000


class AccessLog:
    """Writes lines of JSON, and counts failures.

    Args:
        path: the file; made where it is missing, mode 0600.
        clock: seconds that only grow, for the window of failures.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float] = monotonic) -> None:
        self._path, self._clock = path, clock
        self._lock = threading.Lock()
        self._failures: dict[str, deque[float]] = {}

    def write(self, event: str, *, peer: str | None, auditor: str | None = None, path: str | None = None) -> None:
        """Write a line down, before what it tells of happens.

        Args:
            event: "login", "login_failed", "logout" or "read".
            peer: the address that the request came from.
            auditor: who.
            path: what was asked for.
        Raises:
            OSError: it cannot be written; what it tells of must not happen then.
        """
        line = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "event": event, "peer": peer}
        line |= {name: value for name, value in (("auditor", auditor), ("path", path)) if value is not None}
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        with self._lock, os.fdopen(descriptor, "a", encoding="utf-8") as written:
            written.write(json.dumps(line) + "\n")

    def failed(self, peer: str | None) -> bool:
        """Count a failed login and write it down; say whether it is one too many, which is not written any more."""
        now = self._clock()
        with self._lock:
            while len(self._failures) >= _MOST_ADDRESSES and (peer or "") not in self._failures:
                del self._failures[next(iter(self._failures))]
            recent = self._failures.setdefault(peer or "", deque(maxlen=MOST_FAILURES))
            while recent and recent[0] <= now - WINDOW_SECONDS:
                recent.popleft()
            too_many = len(recent) == MOST_FAILURES
            if not too_many:
                recent.append(now)
        if not too_many:
            self.write("login_failed", peer=peer)
        return too_many
