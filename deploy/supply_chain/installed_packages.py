"""What the installed packages say of themselves: their licences, and which other packages they need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deploy.supply_chain.lock_file import LockedPackage

_LONGEST: Final = 80
"""Characters of a licence's name: some packages put the whole text into the field."""


def installed(packages: Iterable[LockedPackage]) -> dict[str, Distribution]:
    """Return the packages that are installed here in the very version of the lock, by name."""
    found = {}
    for package in packages:
        try:
            here = distribution(package.name)
        except PackageNotFoundError:
            continue
        if here.version == package.version:
            found[package.name] = here
    return found


def licences(package: Distribution) -> list[dict[str, Any]]:
    """Return a package's licences as CycloneDX writes them: one SPDX expression, or names."""
    expression = package.metadata.get("License-Expression")
    if expression:
        return [{"expression": expression}]
    classifiers = package.metadata.get_all("Classifier") or []
    names = [each.rpartition(" :: ")[2] for each in classifiers if each.startswith("License :: ")]
    field = (package.metadata.get("License") or "").strip()
    if not names and field and len(field) <= _LONGEST and "\n" not in field:
        names = [field]
    return [{"license": {"name": name}} for name in dict.fromkeys(names)]


def needs(
    here: Mapping[str, Distribution], roots: Iterable[Requirement], locked: Mapping[str, LockedPackage]
) -> dict[str, frozenset[str]]:
    """Return which packages of the lock each installed one needs on this system, with the extras that are asked for.

    Args:
        here: the installed packages.
        roots: what the project itself needs.
        locked: the lock by name.
    """
    edges: dict[str, set[str]] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [(canonicalize_name(root.name), extra) for root in roots for extra in ("", *sorted(root.extras))]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in seen or name not in here:
            continue
        seen.add((name, extra))
        for needed in _required(here[name], extra):
            other = canonicalize_name(needed.name)
            if other in locked:
                edges.setdefault(name, set()).add(other)
                waiting.extend((other, each) for each in ("", *sorted(needed.extras)))
    return {name: frozenset(edges.get(name, ())) for name, _ in seen}


def _required(package: Distribution, extra: str) -> Iterator[Requirement]:
    for line in package.requires or ():
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            yield requirement
