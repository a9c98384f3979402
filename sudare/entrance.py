"""The entrance of the command and of `import sudare`: is this a system for it, and are our packages those that load?

`contracts`, `privacy`, `tasks`, `flows` and `console` are common names. A folder of that name that comes earlier on
the path (PYTHONPATH, the current folder, another distribution) would be imported in place of ours, and end in a
traceback.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

PACKAGES: Final = ("contracts", "privacy", "tasks", "flows", "console")
HOME: Final = Path(__file__).resolve().parents[1]
_WINDOWS: Final = (
    "sudare: Windows is not supported. Locks of files (flock), the link `latest` and syncs of folders are those of "
    "Unix. Use Linux, WSL 2, or the image of deploy/Dockerfile."
)
_UNTRIED: Final = (
    "sudare: it was tried on Linux alone. On macOS fsync does not reach the disk, so a power cut may lose a charge: "
    "publish on Linux."
)


def unsupported(platform: str) -> str | None:
    """Return in one line why Sudare does not run on a system (`sys.platform`); None where it does."""
    return _WINDOWS if platform in ("win32", "cygwin") else None


def untried(platform: str) -> str | None:
    """Return in one line what to know of a system on which Sudare runs and was never tried; None on Linux."""
    return None if platform.startswith("linux") else _UNTRIED


def stranger() -> tuple[str, str] | None:
    """Return name and place of a package that comes before ours; None where all are ours. Imports none of them."""
    for name in PACKAGES:
        found = find_spec(name)
        places = [] if found is None else list(found.submodule_search_locations or [found.origin or ""])
        first = places[0] if places else "nowhere"
        if Path(first).resolve() != HOME / name:
            return name, first
    return None


def refusal(name: str, place: str) -> str:
    """Say in one line whose package is in the way, and what to do."""
    return (
        f"sudare: {place} is another package named {name!r} and comes before ours, {HOME / name}. Take its folder "
        "out of PYTHONPATH, run from another folder, or install Sudare into an environment of its own."
    )


def main() -> None:
    """Run the command line of this process."""
    reason, note = unsupported(sys.platform), untried(sys.platform)
    if reason is not None:
        sys.exit(reason)
    if note is not None:
        sys.stderr.write(f"{note}\n")
    found = stranger()
    if found is not None:
        sys.exit(refusal(*found))
    from console.main import main as run

    run()
