"""Advisories: what was found wrong with Sudare after it had made versions (`advisories.json`, the newest last)."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Advisory:
    """What is wrong in some versions of Sudare, for sources of which formats, and what to do.

    Records of code that has the fault state `states` among their declarations; those of mended code do not.
    """

    id: str
    versions: tuple[str, ...]
    states: str
    formats: tuple[str, ...]
    found: str
    remedy: str


@cache
def advisories() -> tuple[Advisory, ...]:
    """Return all that ship with this version."""
    listed = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    return tuple(
        Advisory(**{**each, "versions": tuple(each["versions"]), "formats": tuple(each["formats"])})
        for each in listed
    )


def concerning(record: Any) -> list[Advisory]:
    """Return those that concern a version, by its record as JSON: who made it, of what, and that ids or texts count.

    How the sites of a federation read, their record does not say.
    """
    with suppress(KeyError, TypeError, AttributeError):  # it may be no record at all
        declared = record["declarations"]
        made, source = declared["software"], declared["source"]
        contract = record["replay"]["contract"]
        exact = contract["unit"]["kind"] == "id" or "text" in {each["domain"]["kind"] for each in contract["columns"]}
        if not exact:
            return []
        version = made["packages"].get("sudare")
        named = [each for each in advisories() if version in each.versions and each.states in declared]
        return [each for each in named if source is None or source["format"] in each.formats]
    return []
