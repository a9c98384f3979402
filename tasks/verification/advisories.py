"""Advisories: what was found wrong with Sudare after it had made versions (`advisories.json`, the newest last)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Advisory:
    """What is wrong in some versions of Sudare, for sources of which formats, and what to do."""

    id: str
    versions: tuple[str, ...]
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

    What this very code made has none of the faults. How the sites of a federation read, their record does not say.
    """
    from tasks.records.software import software  # which reads what is installed

    made, source = record["declarations"]["software"], record["declarations"]["source"]
    contract = record["replay"]["contract"]
    exact = contract["unit"]["kind"] == "id" or "text" in {each["domain"]["kind"] for each in contract["columns"]}
    if not exact or made["code"] == software().code:
        return []
    named = [each for each in advisories() if made["packages"].get("sudare") in each.versions]
    return [each for each in named if source is None or source["format"] in each.formats]
