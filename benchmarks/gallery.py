"""The gallery: how long each of its releases takes from typing to verified, in a new workspace.

`make gallery` measures it too, when its workspace is new. Beside the time by the clock stand the processor time and
the load before and after: a busy machine adds to the first alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Final

from benchmarks.results import Row, machine

MOST_SECONDS: Final = 120.0


def timed(name: str, publish: Callable[[], None]) -> Row:
    """Publish and verify a release for the first time; return the seconds that both took."""
    settings, began, before = machine("prefect", "duckdb"), monotonic(), os.times()
    publish()
    seconds, after = monotonic() - began, os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    own = {**settings, "processor": round(used, 1), "load_average_after": round(os.getloadavg()[0], 1)}
    what = f"{name}: published and verified"
    return Row(what, round(seconds, 1), "s", MOST_SECONDS, seconds <= MOST_SECONDS, settings=own)


if __name__ == "__main__":
    from deploy.gallery import publish_all

    with TemporaryDirectory() as folder:
        publish_all(Path(folder) / "gallery")
