"""The entrance of the command and of `import sudare`: it looks that our packages are found, and not their namesakes.

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
    found = stranger()
    if found is not None:
        sys.exit(refusal(*found))
    from console.main import main as run

    run()
