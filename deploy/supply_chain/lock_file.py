"""The lock as data: of each package its version, where it is needed, and the digests of its files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_DIGEST: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class LockedPackage:
    """One package of the lock.

    Args:
        name: normalised, as an index writes it.
        version: the one version that is installed.
        extras: of the package, that are asked for.
        marker: which systems need it; empty where all do.
        digests: SHA-256 of each file of it that an installer may take, hex, in order.
    """

    name: str
    version: str
    extras: tuple[str, ...]
    marker: str
    digests: tuple[str, ...]

    @property
    def reference(self) -> str:
        """The package URL, which is also its name inside a bill of materials."""
        return f"pkg:pypi/{self.name}@{self.version}"


def read_lock(path: Path) -> tuple[LockedPackage, ...]:
    """Read a lock file as `uv pip compile --generate-hashes` writes it, in the order of names.

    Raises:
        ValueError: names the line: no single version, or no digest.
    """
    text = re.sub(r"^#.*\n", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    packages = [_package(line, path.name) for line in lines if line.strip()]
    return tuple(sorted(packages, key=lambda package: package.name))


def _package(line: str, where: str) -> LockedPackage:
    requirement = Requirement(line.partition("--hash")[0])
    pins = [pin.version for pin in requirement.specifier if pin.operator == "=="]
    digests = tuple(sorted(_DIGEST.findall(line)))
    if len(pins) != 1 or len(requirement.specifier) != 1 or not digests:
        raise ValueError(f"{where}, {requirement.name}: one version (==) and a SHA-256 of each file are needed")
    marker = "" if requirement.marker is None else str(requirement.marker)
    name, extras = canonicalize_name(requirement.name), tuple(sorted(requirement.extras))
    return LockedPackage(name, pins[0], extras, marker, digests)
