"""The codes of a contract, and what breaks its checks, as Ibis expressions over a table of typed columns.

The same codes as `contracts.sql.encoding` writes for DuckDB, row for row; the tests hold the two against each other.
Which columns this is true of, `contracts.sql.portable.value_kinds` says. Doubles are compared with doubles, a NaN is
looked for before anything is compared (engines order it differently), and a number is rounded down only inside ±2^53
(beyond, every double is whole).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from math import isinf, isnan
from typing import Any, Final

import duckdb
import ibis

from contracts.contract.check_terms import Check
from contracts.contract.contract import (
    CategoryDomain,
    Column,
    Contract,
    DateDomain,
    ImageDomain,
    IntegerDomain,
    MappingDomain,
)
from contracts.domains.notation import FIRST_COMPACT, LAST_COMPACT, NumberNotation
from contracts.domains.spellings import MOMENT, NUMBER, by_value, moment_of, number_of
from contracts.sql.code_sql import known_texts
from contracts.sql.portable.value_kinds import EXACT, ValueKind

SPACES: Final = "\x20\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u202f\u205f\u3000"
"""What DuckDB's trim takes off: Unicode's spaces, not tabs or ends of lines."""
ENDS_OF_LINES: Final = "\n\r\x85\u2028\u2029"
LARGEST: Final = 1.7976931348623157e308
TYPES: Final[dict[ValueKind, str]] = {
    "text": "string",
    "whole": "int64",
    "real": "float64",
    "fixed": "decimal(38, 18)",
    "flag": "boolean",
    "day": "date",
    "moment": "timestamp",
    "nothing": "string",
}
CategoricalDomain = CategoryDomain | MappingDomain


def portable_trim(text: str, letters: str) -> str:
    """Take the letters off both ends; `contracts.sql.portable.compiler` writes it in each engine's words."""
    return text.strip(letters)


_trim: Any = ibis.udf.scalar.builtin(portable_trim)


def table_of(kinds: Mapping[str, ValueKind], name: str) -> Any:
    """Return the unbound table of a name with columns of these kinds; a column without a type is one of texts."""
    return ibis.table({column: TYPES[kind] for column, kind in kinds.items()}, name=name)


def trimmed(text: Any) -> Any:
    """Return a text without the spaces around it."""
    return _trim(text, ibis.literal(SPACES))


def code_expression(column: Column, cell: Any, kind: ValueKind) -> Any:
    """Return the code of a column's value: int32, never null.

    Args:
        column: the column.
        cell: the value as it is stored.
        kind: its kind, one of `allowed_kinds(column)`.
    """
    domain = column.domain
    if isinstance(domain, CategoryDomain | MappingDomain):
        code = _listed_code(domain, _absent(cell, kind), found_code(column, cell, kind))
    elif isinstance(domain, DateDomain):
        day = _day_of(domain, cell, kind)
        code = ibis.cases((_no_day(domain, day), domain.null_code), else_=_period(domain, day))
    elif isinstance(domain, ImageDomain):
        raise ValueError(f"column {column.name} holds pictures, which have no single code")
    else:
        number = _number_of(domain, cell, kind)
        starts = [float(first) for first, _ in domain.bins]
        nothing = _no_number(domain, number) | _no_whole(domain, number)
        code = ibis.cases((nothing, domain.null_code), else_=_bin(starts, 0, len(starts), number))
    return code.cast("int32")


def violation_expression(check: Check, contract: Contract, cell: Any, kind: ValueKind) -> Any:
    """Return a condition that is true where a value breaks a check of its column, and never null.

    Args:
        check: a check of a column.
        contract: the contract that it comes from.
        cell: the value as it is stored.
        kind: its kind.
    """
    if check.column is None:
        raise ValueError(f"check {check.name} is about the table, not about rows")
    if check.column == contract.unit.column:
        return cell.isnull()
    column = contract.column(check.column)
    domain = column.domain
    if isinstance(domain, CategoryDomain | MappingDomain):
        absent, found = _absent(cell, kind), found_code(column, cell, kind)
        missing = _found(cell, kind, dict.fromkeys(domain.missing, 0)).notnull()
        return absent | missing if check.kind == "not_null" else ~absent & found.isnull()
    if isinstance(domain, DateDomain):
        value = _day_of(domain, cell, kind)
        absent, misfit = _no_day(domain, value), value.isnull()
    elif isinstance(domain, ImageDomain):
        raise ValueError(f"column {column.name} holds pictures, which no engine is asked about")
    else:
        value = _number_of(domain, cell, kind)
        absent, misfit = _no_number(domain, value), value.isnull() | _no_whole(domain, value)
    low, high = (bound if isinstance(bound, date) else float(bound) for bound in domain.bounds)
    outside = ~misfit & _outside(value, low, high)
    if domain.notation is not None or isinstance(domain, DateDomain):  # what is there and no value is not absent
        absent = _absent(cell, kind) | _missing_text(domain, cell, kind) | absent & value.notnull()
    return {"not_null": absent, "castable": ~absent & misfit, "between": ~absent & outside}[check.kind]


def found_code(column: Column, cell: Any, kind: ValueKind) -> Any:
    """Return the code of a category, null for an unknown one: as it is spelled, trimmed, or by its value."""
    domain = column.domain
    if not isinstance(domain, CategoryDomain | MappingDomain):
        raise ValueError(f"column {column.name} has no categories")
    return _found(cell, kind, known_texts(domain))


def _found(cell: Any, kind: ValueKind, codes: Mapping[str, int]) -> Any:
    """Return the code of the text that a value is."""
    known = by_value(codes).values()
    values = {number: codes[text] for text in known if (number := number_of(text)) is not None}
    moments = {moment: codes[text] for text in known if (moment := moment_of(text)) is not None}
    if kind == "nothing":
        return ibis.null("int32")
    if kind in ("day", "moment"):
        return _looked_up(cell.cast("timestamp"), moments)
    if kind != "text":
        return _looked_up(_double(cell, kind), values)
    text = trimmed(cell)
    spellings = [_looked_up(cell, codes), _looked_up(text, codes)]
    spellings += [_looked_up(_number(text), values)] if values else []
    return ibis.coalesce(*spellings, *([_looked_up(_moment(text), moments)] if moments else []))


def _moment(text: Any) -> Any:
    """Return the moment that a text is, as `contracts.domains.spellings` has it; null for any other text."""
    spelled = text.re_search(MOMENT) & text.right(1).isin([*"0123456789"])
    return ibis.cases((spelled, text.try_cast("timestamp")), else_=ibis.null("timestamp"))


def _number_of(domain: Any, cell: Any, kind: ValueKind) -> Any:
    """Return a number as a double; of a text what it is in the column's notation."""
    notation: NumberNotation | None = domain.notation
    if kind != "text" or notation is None:
        return _double(cell, kind)
    text = trimmed(cell)
    plain = text
    for letter, other in notation.replaced:
        plain = plain.replace(letter, other)
    words = text.lower()
    return ibis.cases(
        (_is_all(text, notation.pattern), plain.try_cast("float64")), (words == "true", 1.0), (words == "false", 0.0)
    )


def _day_of(domain: DateDomain, cell: Any, kind: ValueKind) -> Any:
    """Return a day; of a text, or of the whole number that eight digits are, what it is in the column's notation."""
    notation = domain.notation
    if kind == "day":
        return cell
    if kind == "moment":
        return cell.date()
    if notation is None or kind == "nothing" or (kind != "text" and not notation.compact):
        return ibis.null("date")
    text = trimmed(cell) if kind == "text" else _digits(_double(cell, kind))
    year, month, day = (text.re_extract(notation.pattern, notation.group(part)) for part in "Ymd")
    spelled = year + "-" + month.lpad(2, "0") + "-" + day.lpad(2, "0")
    return ibis.cases((_is_all(text, notation.pattern), spelled.try_cast("date")), else_=ibis.null("date"))


def _digits(number: Any) -> Any:
    """Return a whole number of eight digits as text; null for another."""
    eight = ((number >= float(FIRST_COMPACT)) & (number <= float(LAST_COMPACT))).fill_null(False)
    whole = ibis.cases((eight, number), else_=0.0).floor().cast("int64")
    there = eight & (whole.cast("float64") == number).fill_null(False)
    return ibis.cases((there, whole.cast("string")), else_=ibis.null("string"))


def _is_all(text: Any, pattern: str) -> Any:
    """Return whether a text is wholly of a pattern: to Java, $ is also before the end of a line."""
    return text.re_search(pattern) & ~text.right(1).isin([*ENDS_OF_LINES])


def _missing_text(domain: Any, cell: Any, kind: ValueKind) -> Any:
    """Return whether a value is one of the missing texts as it is spelled, or as a number where days are numbers."""
    found = ibis.literal(False)
    if kind == "text":
        found = trimmed(cell).isin(list(domain.missing)) if domain.missing else found
    if isinstance(domain, DateDomain) and domain.notation is not None and domain.notation.compact:
        tokens = [value for value in map(number_of, domain.missing) if value is not None]
        if tokens and kind not in ("day", "moment", "nothing"):
            number = _number(trimmed(cell)) if kind == "text" else _double(cell, kind)
            found = found | number.isin(tokens)
    return found.fill_null(False)


def _double(cell: Any, kind: ValueKind) -> Any:
    """Return a number or a flag as the nearest double; a decimal by its text, since a division could round twice."""
    if kind == "nothing":
        return cell.try_cast("float64")
    if kind == "flag":
        return ibis.cases((cell, 1.0), (~cell, 0.0), else_=ibis.null("float64"))
    return cell.cast("string").try_cast("float64") if kind == "fixed" else cell.cast("float64")


def _number(text: Any) -> Any:
    """Return the number that a text is, as `contracts.domains.spellings` has it; null for any other text.

    The last letter is looked at too: to Java, $ is also before the end of a line.
    """
    digits = text.re_search(NUMBER) & text.right(1).isin([*"0123456789."])
    words = text.lower()
    return ibis.cases((digits, text.try_cast("float64")), (words == "true", 1.0), (words == "false", 0.0))


def _looked_up(value: Any, codes: Mapping[Any, int]) -> Any:
    branches = [(value == known, ibis.literal(code, "int32")) for known, code in codes.items()]
    return ibis.cases(*branches, else_=ibis.null("int32")) if branches else ibis.null("int32")


def _listed_code(domain: CategoricalDomain, absent: Any, found: Any) -> Any:
    """Return the code of a category; what is none is `other`, and nothing is a null."""
    if domain.misfit_code == domain.null_code:
        return ibis.coalesce(found, ibis.literal(domain.null_code, "int32"))
    return ibis.cases(
        (found.notnull(), found),
        (absent, ibis.literal(domain.null_code, "int32")),
        else_=ibis.literal(domain.misfit_code, "int32"),
    )


def _absent(cell: Any, kind: ValueKind) -> Any:
    """Return whether a value is null, or a NaN."""
    if kind == "nothing":
        return ibis.literal(True)
    return cell.isnull() | cell.isnan().fill_null(False) if kind == "real" else cell.isnull()


def _no_number(domain: Any, number: Any) -> Any:
    """Return whether a number is null, NaN or one of the missing ones."""
    reasons = number.isnull() | number.isnan().fill_null(False)
    for token in _read_missing(domain, "DOUBLE"):
        if isinf(token):
            reasons |= ((number > LARGEST) if token > 0 else (number < -LARGEST)).fill_null(False)
        elif not isnan(token):
            reasons |= (number == token).fill_null(False)
    return reasons


def _no_whole(domain: Any, number: Any) -> Any:
    """Return whether a number has decimals where whole ones are declared."""
    if not isinstance(domain, IntegerDomain):
        return ibis.literal(False)
    small = ((number < float(EXACT)) & (number > -float(EXACT))).fill_null(False)
    whole = ibis.cases((small, number), else_=0.0).floor().cast("float64")
    return small & (number != whole).fill_null(False)


def _no_day(domain: DateDomain, cell: Any) -> Any:
    """Return whether a day is null or one of the missing ones."""
    reasons = cell.isnull()
    for token in _read_missing(domain, "DATE"):
        reasons |= (cell == _day(token)).fill_null(False)
    return reasons


def _outside(value: Any, low: float | date, high: float | date) -> Any:
    """Return whether a value lies outside its bounds; of a null, that it does not."""
    first, last = (_day(bound) if isinstance(bound, date) else bound for bound in (low, high))
    return ((value < first) | (value > last)).fill_null(False)


def _bin(starts: Sequence[float], first: int, end: int, number: Any) -> Any:
    """Return the bin of a number by halving; below the first and above the last it is clipped to them."""
    if end - first == 1:
        return ibis.literal(first, "int32")
    middle = (first + end) // 2
    below, above = _bin(starts, first, middle, number), _bin(starts, middle, end, number)
    return ibis.cases((number < starts[middle], below), else_=above)


def _period(domain: DateDomain, cell: Any) -> Any:
    """Return the period of a day, counted from the first one; days outside are clipped."""
    first, last = domain.bounds
    clipped = ibis.cases((cell < _day(first), _day(first)), (cell > _day(last), _day(last)), else_=cell)
    if domain.granularity in ("day", "week"):
        days = clipped.epoch_days() - (first - date(1970, 1, 1)).days
        return days if domain.granularity == "day" else (days + first.weekday()) // 7
    if domain.granularity == "year":
        return clipped.year() - first.year
    months = clipped.year() * 12 + clipped.month() - 1
    if domain.granularity == "month":
        return months - (first.year * 12 + first.month - 1)
    return months // 3 - (first.year * 12 + first.month - 1) // 3


def _day(day: date) -> Any:
    return ibis.date(day.year, day.month, day.day)


def _read_missing(domain: Any, kind: str) -> list[Any]:
    """Read the missing texts in the column's notation, else as DuckDB reads them; what is no value is left out."""
    if domain.notation is not None:
        values = [domain.notation.read(token) for token in domain.missing]
        return [value for value in values if value is not None]
    with duckdb.connect() as connection:
        found = [connection.execute(f"SELECT TRY_CAST(? AS {kind})", [token]).fetchone() for token in domain.missing]
    return [row[0] for row in found if row is not None and row[0] is not None]
