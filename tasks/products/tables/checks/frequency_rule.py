"""Does the record tell people what the minimum-frequency rule does? Threshold, probability and bias, again."""

from __future__ import annotations

from collections.abc import Mapping
from math import isclose
from typing import Any, Final

from contracts.errors import Finding
from privacy.accounting.events import CountNoise
from privacy.marginals.suppression import told_rule
from tasks.records.model.version_statements import Record
from tasks.records.strict_json import printable, shown
from tasks.verification.record_identity import Meaning

_TOLERANCE: Final = 1e-4
_MISLEADING: Final = "the record tells people another rule than the one that was followed: rely on the recomputed one"


def check_rule(record: Record, meaning: Meaning, events: Mapping[str, CountNoise], *, where: str) -> list[Finding]:
    """Compare what people are told of each table's minimum-frequency rule with what follows from product and noise.

    Args:
        record: the record.
        meaning: contract and product.
        events: the event of each draw, by the draw's key.
        where: the record's file name.
    """
    group = record.groups.get("product")
    field = group.fields.get("tables") if group is not None else None
    listed = field.value if field is not None and isinstance(field.value, list) else []
    told = {str(entry.get("table")): entry for entry in listed if isinstance(entry, dict)}
    terms, findings = meaning.product.minimum_frequency, []
    for table in meaning.tables:
        event = events.get(f"table:{table.name}")
        if event is None or table.name not in told:  # a table that is not told of is for rule 5
            continue
        stated = told[table.name].get("minimum_frequency")
        expected = "none" if terms is None else told_rule(terms, event)
        at = _difference(stated, expected, "minimum_frequency")
        if at is not None:
            field_name, found, allowed = at
            named = printable(f"groups.product.tables, {table.name}: {field_name}")
            said = f"{shown(allowed)}, computed from the rule and the noise"
            findings.append(Finding(where, named, shown(found), said, _MISLEADING))
    return findings


def _difference(stated: Any, expected: Any, at: str) -> tuple[str, Any, Any] | None:
    """Return the first place in which two values differ, numbers as text up to the digits that are stated."""
    if isinstance(expected, dict) and isinstance(stated, dict) and set(expected) == set(stated):
        parts = ((stated[name], expected[name], f"{at}.{name}") for name in expected)
        return next((found for part in parts if (found := _difference(*part)) is not None), None)
    if isinstance(expected, list) and isinstance(stated, list) and len(expected) == len(stated):
        rows = (
            (mine, theirs, f"{at}[{row}]") for row, (mine, theirs) in enumerate(zip(stated, expected, strict=True))
        )
        return next((found for row in rows if (found := _difference(*row)) is not None), None)
    if isinstance(expected, str) and isinstance(stated, str) and _near(stated, expected):
        return None
    return None if type(stated) is type(expected) and stated == expected else (at, stated, expected)


def _near(stated: str, expected: str) -> bool:
    """Compare two numbers that are written as text."""
    try:
        return isclose(float(stated), float(expected), rel_tol=_TOLERANCE)
    except ValueError:
        return False
