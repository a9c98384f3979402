"""DuckDB SQL that reads one column's values and gives their codes.

How a value is read, whatever its type in the source (text, numbers, dates, booleans):

- Spaces around a text (Unicode's too, not tabs) do not count. Texts are compared byte by byte, upper and lower
  case differ. What is no category as it is spelled is looked up by its value (`contracts.domains.spellings`): the
  number 1.0 and the text "01" are the category "1", true is "True" or else "1", a midnight is its day.
- A number is read as a double; numbers are compared as doubles, so 0.1 in the data is 0.1 in the contract.
  Infinity is clipped like any large number; NaN is null. In an integer domain 39.0 is 39 and 39.5 is unreadable.
- The code is a function of the value alone: a whole number, a double and a decimal of any scale that are equal get
  one code, and so does a text that spells them.
- A date is read as DuckDB reads it, YYYY-MM-DD; of a timestamp the day counts, of an instant (a moment of a time
  zone, or a text with its offset from UTC) the day in the declared zone, which is UTC where none is.
- Texts of a column with a notation of its own (`contracts.domains.notation`) are of that notation or no value.
- A picture is a list of numbers. One of another length than the declared, or none, is a picture of the level of
  nulls; so is, place by place, what is no whole number. Levels outside are clipped.
- A text under `missing` is null, and so is what cannot be read. A text that is no category is `other` where that is
  declared, and null where it is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from contracts.contract.contract import (
    CategoryDomain,
    Column,
    DateDomain,
    DecimalDomain,
    ImageDomain,
    IntegerDomain,
    MappingDomain,
)
from contracts.domains.notation import FIRST_COMPACT, INSTANT, LAST_COMPACT, DayNotation, NumberNotation
from contracts.domains.spellings import MOMENT, NUMBER, by_value, moment_of

BinnedDomain = IntegerDomain | DecimalDomain
MOST_BRANCHES = 32
"""Up to here nested CASEs are the quickest (measured); beyond, arithmetic and look-up lists."""
LONGEST_LOOKUP = 2**16
NATIVE = (
    *("DOUBLE", "FLOAT", "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT"),
    *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"),
)
"""Types that DuckDB makes the nearest double of."""
NUMBERS = frozenset({*NATIVE, "HUGEINT", "UHUGEINT", "DECIMAL"} - {"BOOLEAN"})
"""Types of numbers, without their lengths."""


def identifier(name: str) -> str:
    """Quote a column or table name."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Quote a text."""
    return "'" + text.replace("'", "''") + "'"


STRICTLY = f"CASE WHEN regexp_full_match({{0}}, {literal(NUMBER)}) THEN TRY_CAST({{0}} AS DOUBLE) END"
"""How a text is read that spells a number as `contracts.domains.spellings` has it."""


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
        return day_sql(raw, domain.notation, domain.time_zone)
    if isinstance(domain, ImageDomain):
        return f"TRY_CAST({raw} AS DOUBLE[])"
    if isinstance(domain, IntegerDomain | DecimalDomain):
        return written_number_sql(raw, domain.notation)
    words = _enumeration(known_texts(domain))
    text = text_sql(raw)
    spellings = [text, f"trim({text})", *_of_the_value(domain, raw)]
    return "COALESCE(" + ", ".join(f"TRY_CAST({spelling} AS {words})" for spelling in spellings) + ")"


def text_sql(raw: str) -> str:
    """Return SQL for a value as text, null where it has none; a number of 4 bytes as the double that it is."""
    double = f"CAST(TRY_CAST({raw} AS DOUBLE) AS VARCHAR)"
    return f"TRY(CASE typeof({raw}) WHEN 'FLOAT' THEN {double} ELSE CAST({raw} AS VARCHAR) END)"


def number_sql(raw: str, read: str = "TRY_CAST({} AS DOUBLE)") -> str:
    """Return SQL for a value as a double, null where it is no number; flags are 1 and 0.

    A decimal goes by its text: DuckDB divides it by a power of ten, which can round twice, by its scale. `typeof` is
    constant over a column, so that one branch is left of these.

    Args:
        raw: SQL for the value as delivered.
        read: how a text is read, with {} for the text.
    """
    native = f"typeof({raw}) IN ({', '.join(map(literal, NATIVE))})"
    text = f"trim({text_sql(raw)})"
    return f"CASE WHEN {native} THEN TRY_CAST({raw} AS DOUBLE) ELSE {_spelled_number(text, read)} END"


def _spelled_number(text: str, read: str) -> str:
    return f"COALESCE({read.format(text)}, CASE lower({text}) WHEN 'true' THEN 1e0 WHEN 'false' THEN 0e0 END)"


def written_number_sql(raw: str, notation: NumberNotation | None) -> str:
    """Return SQL for a value as a double, its texts by a notation: what is no text is the number that it is."""
    if notation is None:
        return number_sql(raw)
    plain = "{0}"
    for letter, other in notation.replaced:
        plain = f"replace({plain}, {literal(letter)}, {literal(other)})"
    matches = f"regexp_full_match({{0}}, {literal(notation.pattern)})"
    spelled = _spelled_number(f"trim({text_sql(raw)})", f"CASE WHEN {matches} THEN TRY_CAST({plain} AS DOUBLE) END")
    return f"CASE WHEN {_is_text(raw)} THEN {spelled} ELSE {number_sql(raw)} END"


def day_sql(raw: str, notation: DayNotation | None = None, zone: str | None = None) -> str:
    """Return SQL for a value as a DATE, null where it is none.

    Args:
        raw: SQL for the value as delivered (a quoted name).
        notation: how texts write days; None for YYYY-MM-DD.
        zone: the time zone whose day counts of an instant; None for UTC. The zone of the process is never asked.
    """
    text = moment = f"trim({text_sql(raw)})"
    for found, written in _INSTANT_SPELLED:
        moment = f"regexp_replace({moment}, '{found}', '{written}')"
    if notation is None:
        instant = f"length({text}) > 10 AND regexp_full_match({text}, {literal(INSTANT)})"
        there = f"TRY_CAST({moment_sql(moment, zone)} AS DATE)"
        read = f"CASE WHEN {instant} THEN {there} ELSE TRY_CAST({raw} AS DATE) END"
    else:
        order, pattern = "-".join(f"\\{notation.group(part)}" for part in "Ymd"), literal(notation.pattern)
        day = f"TRY_CAST(regexp_replace({text}, {pattern}, '{order}') AS DATE)"
        read = f"CASE WHEN regexp_full_match({text}, {pattern}) THEN {day} END"
    other = f"TRY_CAST({raw} AS DATE)"
    if notation is not None and notation.compact:
        number = number_sql(raw)
        digits = f"{number} BETWEEN {FIRST_COMPACT} AND {LAST_COMPACT} AND {number} = floor({number})"
        spelled = f"try_strptime(CAST(CAST({number} AS BIGINT) AS VARCHAR), '{notation.written}')"
        day = f"CASE WHEN {digits} THEN TRY_CAST({spelled} AS DATE) END"
        other = f"CASE WHEN {_is_number(raw)} THEN {day} ELSE {other} END"
    stored = f"WHEN typeof({raw}) = 'TIMESTAMP WITH TIME ZONE' THEN TRY_CAST({moment_sql(raw, zone)} AS DATE)"
    return f"CASE WHEN {_is_text(raw)} THEN {read} {stored} ELSE {other} END"


def moment_sql(raw: str, zone: str | None = None) -> str:
    """Return SQL for the local moment of an instant, cut 285,000 years from 1970: beyond, DuckDB fails on some."""
    low, high = (f"make_timestamptz({sign}9000000000000000000)" for sign in "-+")
    cut = f"CASE WHEN {{0}} < {low} THEN {low} WHEN {{0}} > {high} THEN {high} ELSE {{0}} END"
    return f"timezone({literal(zone or 'UTC')}, {cut.format(f'TRY_CAST({raw} AS TIMESTAMPTZ)')})"


_INSTANT_SPELLED = (
    ("([ T][0-9]{1,2}:[0-9]{2}) ?(Z|z|UTC|[+-])", r"\1:00\2"),
    (" ?(Z|z|UTC)$", "+00"),
    (" ?([+-][0-9]{2}):?([0-9]{2})$", r"\1:\2"),
    (" ([+-][0-9]{2})$", r"\1"),
)
"""How the spellings of an instant become the one that DuckDB reads: seconds, and +HH or +HH:MM right behind them."""


def _is_text(raw: str) -> str:
    return f"(typeof({raw}) = 'VARCHAR' OR starts_with(typeof({raw}), 'ENUM'))"


def _is_number(raw: str) -> str:
    names = ", ".join(map(literal, sorted(NUMBERS - {"DECIMAL"})))
    return f"(typeof({raw}) IN ({names}) OR starts_with(typeof({raw}), 'DECIMAL'))"


def token_sql(domain: IntegerDomain | DecimalDomain | DateDomain, token: str) -> str:
    """Return SQL for the value that a missing text is in the column's notation, NULL for one that is none."""
    if isinstance(domain, DateDomain):
        day = None if domain.notation is None else domain.notation.read(token)
        return f"TRY_CAST({literal(token if domain.notation is None else str(day))} AS DATE)"
    number = None if domain.notation is None else domain.notation.read(token)
    return f"TRY_CAST({literal(token if domain.notation is None else repr(number))} AS DOUBLE)"


def absent_sql(raw: str) -> str:
    """Return SQL that is true where a value, whatever its type, is null or a NaN."""
    return f"({raw} IS NULL OR typeof({raw}) IN ('DOUBLE', 'FLOAT') AND isnan(TRY_CAST({raw} AS DOUBLE)))"


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
    if domain.missing and isinstance(domain, IntegerDomain | DecimalDomain | DateDomain):
        tokens = ", ".join(token_sql(domain, token) for token in domain.missing)
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


def _of_the_value(domain: CategoryDomain | MappingDomain, raw: str) -> list[str]:
    """Write SQL for the known text that is the same number, flag or moment; none where no known text is one."""
    texts = by_value(known_texts(domain))
    if not texts:
        return []
    keys = [f"CAST({number_sql(raw, STRICTLY)} + 0e0 AS VARCHAR)"]
    if any(moment_of(text) is not None for text in texts.values()):
        typed = f"typeof({raw}) = 'DATE' OR starts_with(typeof({raw}), 'TIMESTAMP')"
        text = f"trim({text_sql(raw)})"
        spelled = f"CASE WHEN regexp_full_match({text}, {literal(MOMENT)}) THEN TRY_CAST({text} AS TIMESTAMP) END"
        moment = f"CASE WHEN {typed} THEN TRY_CAST({raw} AS TIMESTAMP) ELSE {spelled} END"
        keys.append(f"TRY(CAST({moment} AS VARCHAR))")
    place = f"enum_code(TRY_CAST(COALESCE({', '.join(keys)}) AS {_enumeration(texts)}))"
    known = ", ".join(literal(text) for text in texts.values())
    return [f"([{known}])[CAST({place} AS INTEGER) + 1]"]


def _enumeration(texts: Iterable[str]) -> str:
    """The type of some texts, whose codes are their places."""
    return "ENUM(" + ", ".join(literal(text) for text in texts) + ")"


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
        f"CASE WHEN {value} IS NOT NULL THEN {code} WHEN {absent_sql(raw)} THEN {domain.null_code}::{kind} "
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
