"""Waits for what another process does in its own time; only a failure waits them out."""

import time
from collections.abc import Callable


def wait_until(holds: Callable[[], object], *, seconds: float = 120) -> bool:
    """Wait until something holds, and say whether it did within so many seconds."""
    until = time.monotonic() + seconds
    while not (held := bool(holds())) and time.monotonic() < until:
        time.sleep(0.1)
    return held
