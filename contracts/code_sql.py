"""DuckDB SQL that reads one column's values and gives their codes.

How a value is read, whatever its type in the source (text, numbers, dates, booleans):

- Spaces around a text (Unicode's too, not tabs) do not count. Texts are compared byte by byte, upper and lower
  case differ. On logicalType integer "01" and "1.0" are read as the category "1", on boolean "True" as "true".
- A number is read as a double; numbers are compared as doubles, so 0.1 in the data is 0.1 in the contract.
  Infinity is clipped like any large number; NaN is null. In an integer domain 39.0 is 39 and 39.5 is unreadable.
- A date is read as DuckDB reads it, YYYY-MM-DD; of a timestamp the day counts.
- A picture is a list of numbers. One of another length than the declared, or none, is a picture of the level of
  nulls; so is, place by place, what is no whole number. Levels outside are clipped.
- A text under `missing` is null, and so is what cannot be read. A text that is no category is `other` where that is
  declared, and null where it is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from contracts.contract import (
    CategoryDomain,
    Column,
    DateDomain,
    DecimalDomain,
    ImageDomain,
    IntegerDomain,
    MappingDomain,
)

BinnedDomain = IntegerDomain | DecimalDomain
MOST_BRANCHES = 32
"""Up to here nested CASEs are the quickest (measured); beyond, arithmetic and look-up lists."""
LONGEST_LOOKUP = 2**16


def identifier(name: str) -> str:
    """Quote a column or table name."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Quote a text."""
    return "'" + text.replace("'", "''") + "'"


def code_type(size: int) -> str:
    """Return the smallest unsigned type that holds the codes of so many cells."""
    return "UTINYINT" if size <= 2**8 else "USMALLINT" if size <= 2**16 else "UINTEGER"


def value_sql(column: Column, raw: str) -> str:
    """Return SQL for a column's value as it is read; NULL where it cannot be.

    Args:
        column: the column.
        raw: SQL for the value as delivered (a quoted name).
    Returns:
        Of type ENUM of the known texts (categories, mapping), DOUBLE (numbers), DATE, or DOUBLE[] (pictures).
    """
    domain = column.domain
    if isinstance(domain, DateDomain):
        return f"TRY_CAST({raw} AS DATE)"
    if isinstance(domain, ImageDomain):
        return f"TRY_CAST({raw} AS DOUBLE[])"
    if isinstance(domain, IntegerDomain | DecimalDomain):
        return f"TRY_CAST({raw} AS DOUBLE)"
    words = "ENUM(" + ", ".join(literal(text) for text in known_texts(domain)) + ")"
    text = f"TRY(CAST({raw} AS VARCHAR))"
    spellings = [text, f"trim({text})", *_canonical(column, text)]
    return "COALESCE(" + ", ".join(f"TRY_CAST({spelling} AS {words})" for spelling in spellings) + ")"


def code_sql(column: Column, value: str, raw: str) -> str:
    """Return SQL for a column's code, of the type `code_type(column.size)`.

    Args:
        column: the column.
        value: SQL for what `value_sql` read (a name).
        raw: SQL for the value as delivered (a name).
    """
    domain = column.domain
    kind = code_type(column.size)
    if isinstance(domain, ImageDomain):
        return _picture_code(domain, value, kind)
    if isinstance(domain, CategoryDomain | MappingDomain):
        return _listed_code(domain, value, raw, kind)
    code = _date_code(domain, value, kind) if isinstance(domain, DateDomain) else _bin_code(domain, value, kind)
    return f"CASE WHEN {null_sql(column, value)} THEN {domain.null_code}::{kind} ELSE {code} END"


def _picture_code(domain: ImageDomain, value: str, kind: str) -> str:
    """Codes of a picture, an array of fixed length: each level clipped, misfits at the level of nulls."""
    level = f"{domain.null_code}::{kind}"
    clipped = f"CAST(greatest(0, least({domain.levels - 1}, x)) AS {kind})"
    each = f"list_transform({value}, lambda x: CASE WHEN {misfit_level('x')} THEN {level} ELSE {clipped} END)"
    fits = f"COALESCE(len({value}) = {domain.places}, FALSE)"
    codes = f"CASE WHEN {fits} THEN {each} ELSE list_resize([]::{kind}[], {domain.places}, {level}) END"
    return f"CAST({codes} AS {kind}[{domain.places}])"


def misfit_level(level: str) -> str:
    """Return SQL that is true where a place of a picture, read as a number, is no whole number."""
    return f"({level} IS NULL OR isnan({level}) OR {level} <> floor({level}))"


def null_sql(column: Column, value: str) -> str:
    """Return SQL that is true where a number or date, as read, counts as null (NULL and NaN, misfits, `missing`)."""
    domain = column.domain
    reasons = [f"{value} IS NULL"]
    if isinstance(domain, IntegerDomain | DecimalDomain):
        reasons.append(f"isnan({value})")
    if isinstance(domain, IntegerDomain):
        reasons.append(f"{value} <> floor({value})")
    if domain.missing:
        kind = "DATE" if isinstance(domain, DateDomain) else "DOUBLE"
        tokens = ", ".join(f"TRY_CAST({literal(token)} AS {kind})" for token in domain.missing)
        reasons.append(f"COALESCE({value} IN ({tokens}), FALSE)")
    return "(" + " OR ".join(reasons) + ")"


def known_texts(domain: CategoryDomain | MappingDomain) -> dict[str, int]:
    """Map every text that a listed domain knows to its code: categories, other, raw values, missing texts."""
    codes = {label: code for code, label in enumerate(domain.categories)}
    if domain.other is not None:
        codes[domain.other] = len(domain.categories)
    if isinstance(domain, MappingDomain):
        codes.update({raw: codes[category] for raw, category in domain.mapping})
    return codes | dict.fromkeys(domain.missing, domain.null_code)


def _canonical(column: Column, text: str) -> list[str]:
    """Further spellings under which a text is looked up, by its logical type."""
    domain = column.domain
    if column.logical_type == "integer":
        number = f"TRY_CAST({text} AS DOUBLE)"
        whole = f"TRY_CAST({number} AS BIGINT)"
        return [f"CASE WHEN {number} = floor({number}) THEN CAST({whole} AS VARCHAR) END"]
    if column.logical_type == "boolean" and isinstance(domain, CategoryDomain | MappingDomain):
        spellings = {known.lower(): known for known in known_texts(domain) if known.lower() in ("true", "false")}
        cases = " ".join(f"WHEN {literal(lower)} THEN {literal(known)}" for lower, known in spellings.items())
        return [f"CASE lower(trim({text})) {cases} END"] if cases else []
    return []


def _listed_code(domain: CategoryDomain | MappingDomain, value: str, raw: str, kind: str) -> str:
    """Code of a category: the ENUM's own code, or a look-up where several texts share a code."""
    codes = list(known_texts(domain).values())
    if codes == list(range(len(codes))):
        code = f"CAST(enum_code({value}) AS {kind})"
    else:
        code = f"([{', '.join(map(str, codes))}]::{kind}[])[CAST(enum_code({value}) AS INTEGER) + 1]"
    if domain.misfit_code == domain.null_code:
        return f"COALESCE({code}, {domain.null_code}::{kind})"
    return (
        f"CASE WHEN {value} IS NOT NULL THEN {code} WHEN {raw} IS NULL THEN {domain.null_code}::{kind} "
        f"ELSE {domain.misfit_code}::{kind} END"
    )


def _bin_code(domain: BinnedDomain, value: str, kind: str) -> str:
    """Code of a number that is not null: few bins by nested CASEs, many by arithmetic or a list."""
    low, high = float(domain.bounds[0]), float(domain.bounds[1])
    starts = [float(first) for first, _ in domain.bins]
    clipped = f"greatest({_double(low)}, least({_double(high)}, {value}))"
    if len(starts) <= MOST_BRANCHES:
        return _branches(starts, 0, len(starts), value, kind)
    if _equal_widths(domain):
        guess = f"floor(({clipped} - {_double(low)}) / {_double(float(domain.bins[1][0] - domain.bins[0][0]))})"
        if isinstance(domain, IntegerDomain):
            return f"CAST({guess} AS {kind})"
        return _corrected(starts, f"CAST(least({len(starts) - 1}, {guess}) AS INTEGER)", clipped, kind)
    if isinstance(domain, IntegerDomain) and high - low < LONGEST_LOOKUP:
        codes = ", ".join(str(code) for code, (a, b) in enumerate(domain.bins) for _ in range(a, b + 1))
        return f"([{codes}]::{kind}[])[CAST({clipped} - {_double(low)} AS INTEGER) + 1]"
    return _branches(starts, 0, len(starts), value, kind)


def _equal_widths(domain: BinnedDomain) -> bool:
    """Whether all bins but a shorter last one are equally wide."""
    starts = [first for first, _ in domain.bins]
    width = starts[1] - starts[0]
    end = domain.bins[-1][1] + (1 if isinstance(domain, IntegerDomain) else 0)
    return all(b - a == width for a, b in pairwise(starts)) and end - starts[-1] <= width


def _corrected(starts: Sequence[float], guess: str, value: str, kind: str) -> str:
    """Correct a guessed bin, off by one at most through rounding, by comparing with its own edges: exact."""
    edges = "[" + ", ".join(_double(start) for start in starts) + "]"
    down = f"CAST({value} < {edges}[{guess} + 1] AS INTEGER)"
    up = f"CAST(COALESCE({value} >= {edges}[{guess} + 2], FALSE) AS INTEGER)"
    return f"CAST({guess} - {down} + {up} AS {kind})"


def _branches(starts: Sequence[float], first: int, end: int, value: str, kind: str) -> str:
    """Find the bin by halving: nested CASEs, as deep as the logarithm of the number of bins."""
    if end - first == 1:
        return f"{first}::{kind}"
    middle = (first + end) // 2
    below = _branches(starts, first, middle, value, kind)
    above = _branches(starts, middle, end, value, kind)
    return f"CASE WHEN {value} < {_double(starts[middle])} THEN {below} ELSE {above} END"


def _double(number: float) -> str:
    """Write a double so that DuckDB reads the same double."""
    text = repr(number)
    return f"({text})" if "e" in text else f"({text}e0)"


def _date_code(domain: DateDomain, value: str, kind: str) -> str:
    """Code of a day that is not null, by calendar arithmetic from the first period."""
    first, last = domain.bounds
    clipped = f"greatest(DATE '{first}', least(DATE '{last}', {value}))"
    if domain.granularity == "day":
        return f"CAST({clipped} - DATE '{first}' AS {kind})"
    if domain.granularity == "week":
        return f"CAST(({clipped} - DATE '{first}' + {first.weekday()}) // 7 AS {kind})"
    return f"CAST(date_diff('{domain.granularity}', DATE '{first}', {clipped}) AS {kind})"
