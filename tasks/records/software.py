"""What computed a release: versions of the libraries, and a digest of our own source files."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import zlib
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, distributions, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from contracts.plug_ins import OF_EXTENSIONS
from privacy.games import results
from tasks.storage.workspace.environment import container_digest

# --- Which git commit the running code is.


_SECONDS = 10


def code_commit(folder: Path | None = None) -> tuple[str | None, bool | None]:
    """Return the commit (hex) of the running code, and whether its files differ from it.

    Args:
        folder: where the layers lie; the installed ones without it.
    Returns:
        tuple: both None where the code is neither in a git working tree of its own nor was installed from git.
    """
    folder = _folder() if folder is None else folder
    if folder is not None and (folder / ".git").exists():
        commit = _git(folder, "rev-parse", "HEAD")
        changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
        if commit is not None:
            return commit, None if changes is None else bool(changes)
    return _noted(), None


def _folder() -> Path | None:
    spec = find_spec("contracts")
    places = [] if spec is None else spec.submodule_search_locations or []
    return next((Path(place).parent for place in places), None)


def _git(folder: Path, *arguments: str) -> str | None:
    """Ask git about a folder; None where it is not there or does not answer."""
    program = shutil.which("git")
    if program is None:
        return None
    try:
        answer = subprocess.run(
            [program, "-C", str(folder), "--no-optional-locks", *arguments],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()


def _noted() -> str | None:
    """Return the commit that the installer noted (PEP 610), where it installed from git."""
    try:
        text = distribution("sudare").read_text("direct_url.json")
        noted = json.loads(text) if text else {}
    except (PackageNotFoundError, ValueError):
        return None
    commit = noted.get("vcs_info", {}).get("commit_id") if isinstance(noted, dict) else None
    return commit if isinstance(commit, str) else None


LAYERS = ("console", "flows", "tasks", "privacy", "contracts")
_PUBLISH = re.compile(r"extra == ['\"]publish['\"]")
_SOURCE_SUFFIXES = {".py", ".j2", ".css", ".json", ".mo"}


@dataclass(frozen=True)
class Software:
    """What computed the release.

    Args:
        packages: version by package name, `sudare` first.
        python: version of Python.
        platform: operating system and machine type; no host name.
        code: digest of the installed source files of Sudare.
        commit: git commit that it was installed from; None where that is not known.
        dirty: whether files differ from that commit; None where that is not known.
        installed: all installed distributions, "name==version", sorted.
        container: digest of the container image, where it was told.
        hardware: what can be told of the machine, for auditors; no host name.
        audits: results of empirical audits that are stored with the code.
        audited_code: digest of the sources that such audits attack.
    """

    packages: dict[str, str]
    python: str
    platform: str
    code: str
    commit: str | None = None
    dirty: bool | None = None
    installed: tuple[str, ...] = ()
    container: str | None = None
    hardware: str | None = None
    audits: dict[str, Any] | None = None
    audited_code: str = ""

    @property
    def installed_sha256(self) -> str:
        """SHA-256 (hex) of the list of installed distributions, a line each."""
        return hashlib.sha256("".join(f"{line}\n" for line in self.installed).encode()).hexdigest()


@cache
def software() -> Software:
    """Describe the software of this process.

    Returns:
        Software: `sudare` first, then the libraries that it declares, by name, and zlib; no host name, no path.
    """
    commit, dirty = code_commit()
    names = ["sudare", *sorted(_declared("sudare"))]
    packages = {name: found for name in names if (found := _version(name)) is not None}
    packages["zlib"] = zlib.ZLIB_RUNTIME_VERSION  # it packs the pages' pictures, and comes with Python or the system
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
    """Return our source files as they are installed, those of extensions too, by their path from the package on."""
    found = {}
    extensions = {name for names in OF_EXTENSIONS.values() for name in names.values()}
    for package in (*LAYERS, *sorted(extensions)):
        spec = find_spec(package)
        for folder in [] if spec is None else spec.submodule_search_locations or []:
            for path in Path(folder).rglob("*"):
                if path.suffix in _SOURCE_SUFFIXES and path.is_file():
                    found[f"{package}/{path.relative_to(folder).as_posix()}"] = path
    return found


def _declared(package: str) -> set[str]:
    """Return the names of the libraries that a package needs to publish; other extras do not count."""
    try:
        lines = requires(package) or []
    except PackageNotFoundError:
        return set()
    return {
        re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0]
        for line in lines
        if "extra ==" not in line or _PUBLISH.search(line)
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
