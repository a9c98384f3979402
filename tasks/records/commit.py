"""Which git commit the running code is: of the working tree that it runs from, or as the installer noted it."""

from __future__ import annotations

import json
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

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
    """Return the folder that holds the layers."""
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
