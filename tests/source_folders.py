"""The packages of the core and of the extensions, for tests that look through all of the source."""

from pathlib import Path
from typing import Final

from contracts.plug_ins import OF_EXTENSIONS

ROOT: Final = Path(__file__).resolve().parents[1]
CORE: Final = ("sudare", "console", "flows", "tasks", "privacy", "contracts")
EXTENSIONS: Final = tuple(sorted(path.parent.name for path in ROOT.glob("extensions/*/__init__.py")))
DELETED: Final = {name for names in OF_EXTENSIONS.values() for name in names.values()} - {*EXTENSIONS}
FOLDERS: Final = (*CORE, *(f"extensions/{name}" for name in EXTENSIONS))
"""Where the source of each package is, from the root of the repository."""


def folder_of(package: str) -> Path:
    """Return where a package's source is, from the root of the repository."""
    return Path("extensions", package) if package in EXTENSIONS else Path(package)
