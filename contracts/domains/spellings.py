"""Which spellings are one value: 1, 1.0 and "01"; true and 1; a day and its midnight.

How a writer stores a value can depend on another person's row: one missing value turns a column of whole numbers into
doubles, and "1" into "1.0"; one value with an hour gives every day an hour. So a category is looked up as it is
spelled first, and then by its value, and two categories may not be one value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from contracts.reading.scalars import FieldPath, Problem

NUMBER: Final = "^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)$"
"""A text that is a number: no exponent, so that codes such as 1E50 stay texts. Every engine reads this pattern."""
MOMENT: Final = "^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?)?$"
"""A text that is a day or a moment."""
_FLAGS: Final = {"true": 1.0, "false": 0.0}


def number_of(text: str) -> float | None:
    """Return the number that a text is, as a double; true is 1 and false is 0; None for any other text."""
    if re.fullmatch(NUMBER, text):
        number = float(text)
        return number + 0.0 if abs(number) < float("inf") else None
    return _FLAGS.get(text.lower())


def moment_of(text: str) -> datetime | None:
    """Return the moment that a text is; a day is its midnight; None for any other text."""
    if not re.fullmatch(MOMENT, text):
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def value_key(text: str) -> str | None:
    """Return what all spellings of a text's value share, as DuckDB writes it; None for a text that is only itself."""
    number = number_of(text)
    if number is not None:
        return repr(number)
    moment = moment_of(text)
    return None if moment is None else re.sub(r"(\.[0-9]*?)0+$", r"\1", str(moment))


def by_value(texts: Iterable[str]) -> dict[str, str]:
    """Map the key of each value to the first text that spells it."""
    found: dict[str, str] = {}
    for text in texts:
        key = value_key(text)
        if key is not None:
            found.setdefault(key, text)
    return found


def one_value_problems(meanings: Mapping[str, object], at: FieldPath) -> list[Problem]:
    """Name the texts that spell one value and mean different things.

    Args:
        meanings: what each text means.
        at: the key under which they stand.
    """
    first: dict[str, str] = {}
    problems = []
    for text, meaning in meanings.items():
        key = value_key(text)
        other = None if key is None else first.setdefault(key, text)
        if other is not None and meanings[other] != meaning:
            found = (
                f"{text!r} beside {other!r}, which are one value once a writer stores the column as numbers or days"
            )
            remedy = "let both mean the same (kind: mapping), or spell one with a letter where the table is made"
            problems.append(Problem(found, "texts that differ as values", remedy, at))
    return problems
