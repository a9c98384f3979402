"""The errors that the record states: computed again from released counts and noisy ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from contracts.errors import Finding
from contracts.reading.scalars import six_digits
from privacy.evaluation.against_noisy import Distance
from privacy.table_plans.plan import table_key
from tasks.records.model.version_statements import Record, RecordTerms, SyntheticRecord
from tasks.records.strict_json import printable, shown

_TOLERANCE: Final = 1e-5
_MISLEADING: Final = "people are told of another error than follows: rely on the recomputed value"


def check_distances(record: RecordTerms, found: Mapping[str, Distance], *, where: str) -> list[Finding]:
    """Check how far published counts are said to lie from noisy ones, up to the digits that are stated.

    Args:
        record: the record.
        found: recomputed from the published files, by the key of the draw.
        where: the record's file name.
    """
    stated, marginals, findings = record.replay.distances, _compared(record), []
    for key in sorted(stated.keys() ^ marginals):
        said, allowed = ("a distance" if key in stated else "nothing"), "a distance for every marginal, and no other"
        findings.append(Finding(where, printable(f"replay.distances, {key}"), said, allowed, _MISLEADING))
    for key in sorted(stated.keys() & found.keys()):
        for name in ("mean_absolute", "rmse"):
            text, value = getattr(stated[key], name), getattr(found[key], name)
            if not math.isclose(float(text), value, rel_tol=_TOLERANCE, abs_tol=1e-9):
                at = printable(f"replay.distances, {key}: {name}")
                findings.append(Finding(where, at, shown(text), f"{six_digits(value)}, recomputed", _MISLEADING))
    return findings


def _compared(record: RecordTerms) -> set[str]:
    """Return the draws that something published is compared with: those of dense tables, and marginals of rows."""
    if isinstance(record, Record):
        return {table_key(table.name) for table in record.replay.tables if table.listed is None}
    if not isinstance(record, SyntheticRecord):
        return set()
    return {draw.key for draw in record.replay.draws if draw.kind == "marginal"}
