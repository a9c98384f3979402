"""Ends a process of Flower's when the process of Sudare's that started it is gone, however it went."""

from __future__ import annotations

import os
import signal
import sys
import time
from threading import Thread

GRACE_SECONDS = 8.0


def end_with_parent() -> None:
    """Watch standard input, a pipe whose other end only the parent holds: it ends with the parent.

    Then this process is asked to end, and after a while it is killed with all of its process group. What Flower
    starts in groups of their own watches this process.
    """
    pipe = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    Thread(target=_watch, args=(pipe,), name="parent", daemon=True).start()


def _watch(pipe: int) -> None:
    while os.read(pipe, 1):
        pass
    sys.stderr.write("the process that started this one is gone\n")
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os.killpg(0, signal.SIGKILL)
