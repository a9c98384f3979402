"""Versions of contracts: MAJOR.MINOR.PATCH, where a breaking change takes a new MAJOR."""

from __future__ import annotations

import re

_VERSION = re.compile(r"(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})")
SemanticVersion = tuple[int, int, int]


def read_version(text: str) -> SemanticVersion | None:
    """Return the three numbers of a version; None for a text of another form.

    Source: Semantic Versioning 2.0.0, without pre-release and build marks. Below 1.0.0 nothing is different.
    """
    found = _VERSION.fullmatch(text)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def admits_breaking(old: str, new: str) -> bool:
    """Say whether going from one version to another announces a breaking change.

    Two versions of the form MAJOR.MINOR.PATCH announce it by a higher MAJOR; where one of them is not, by differing.
    """
    before, after = read_version(old), read_version(new)
    if before is None or after is None:
        return old != new
    return after[0] > before[0]
