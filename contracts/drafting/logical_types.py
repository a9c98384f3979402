"""From the type names of databases and of the data contract standard to the logical types of a contract.

Only the kind of a type counts, not its width or precision: an `INT8` may be one because the rows happened to fit.
"""

from __future__ import annotations

import re

from contracts.contract.column import LogicalType

_FAMILIES: tuple[tuple[LogicalType, str], ...] = (
    ("array", r".*\[\d*\]|(?:array|list|vector)\b.*|repeated\b.*"),
    ("boolean", r"bool(?:ean)?|bit"),
    ("date", r"date(?:32|64)?(?:\[.*\])?|timestamp.*|datetime.*|smalldatetime"),
    (
        "integer",
        r"u?(?:tiny|small|medium|big|huge)?int(?:eger)?(?:\s*\(\d+\))?|u?int(?:2|4|8|16|32|64|128|256)|long|short|byte"
        r"|(?:big|small)?serial|(?:numeric|decimal|number)\s*\(\s*\d+\s*(?:,\s*0\s*)?\)",
    ),
    (
        "number",
        r"(?:decimal|numeric|number|bignumeric)(?:\d+)?(?:\s*\(.*\))?|(?:half)?float\d*|double(?: precision)?|real",
    ),
    (
        "string",
        r"(?:n?(?:var)?char|character(?: varying)?|bpchar)(?:\d|\s*\(.*\))?"
        r"|(?:large_?)?(?:string|utf8|text)(?:_view)?|uuid|enum\b.*|category|string\s*\(.*\)",
    ),
)


def logical_type_of(stated: str | None) -> LogicalType | None:
    """Return the logical type that a type's name stands for; None for names that a contract has no type for.

    Args:
        stated: a type as SQL, Arrow or the data contract standard write it, `VARCHAR(20)`, `int64`, `timestamp`.
    """
    text = (stated or "").strip().casefold()
    return next((logical for logical, pattern in _FAMILIES if re.fullmatch(pattern, text)), None)
