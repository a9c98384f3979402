"""What computed a release: versions of the libraries, and a digest of our own source files."""

from __future__ import annotations

import hashlib
import os
import platform
import re
from functools import cache
from importlib.metadata import PackageNotFoundError, distributions, requires, version
from importlib.util import find_spec
from pathlib import Path

from privacy.games import results
from tasks.records.commit import code_commit
from tasks.records.facts import Software
from tasks.storage.workspace.settings import container_digest

LAYERS = ("console", "flows", "tasks", "privacy", "contracts")
_SOURCE_SUFFIXES = {".py", ".j2", ".css", ".json"}


@cache
def software() -> Software:
    """Describe the software of this process.

    Returns:
        Software: `sudare` first, then the libraries that it declares, by name; no host name, no path.
    """
    commit, dirty = code_commit()
    names = ["sudare", *sorted(_declared("sudare"))]
    packages = {name: found for name in names if (found := _version(name)) is not None}
    return Software(
        packages=packages,
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.machine()}",
        code=source_digest(source_files()),
        commit=commit,
        dirty=dirty,
        installed=tuple(sorted({f"{each.name}=={each.version}" for each in distributions()}, key=str.casefold)),
        container=container_digest(),
        hardware=f"{platform.platform()}, {os.cpu_count()} processors",
        audits=results.stored(),
        audited_code=results.code_digest(),
    )


def source_digest(files: dict[str, Path]) -> str:
    """Return the SHA-256 (hex) over names and contents of files, in the order of their names.

    Args:
        files: path of each file by the name under which it counts.
    """
    total = hashlib.sha256()
    for name in sorted(files):
        content = hashlib.sha256(files[name].read_bytes()).hexdigest()
        total.update(f"{content}  {name}\n".encode())
    return total.hexdigest()


def source_files() -> dict[str, Path]:
    """Return our source files as they are installed, by their path below the layers."""
    found = {}
    for layer in LAYERS:
        spec = find_spec(layer)
        for folder in [] if spec is None else spec.submodule_search_locations or []:
            for path in Path(folder).rglob("*"):
                if path.suffix in _SOURCE_SUFFIXES and path.is_file():
                    found[f"{layer}/{path.relative_to(folder).as_posix()}"] = path
    return found


def _declared(package: str) -> set[str]:
    """Return the names of the libraries that a package needs, without its extras."""
    try:
        lines = requires(package) or []
    except PackageNotFoundError:
        return set()
    return {re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0] for line in lines if "extra ==" not in line}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
