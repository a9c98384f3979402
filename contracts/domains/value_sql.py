"""DuckDB SQL that reads values, of which each kind of domain makes the SQL of its codes.

How a value is read, whatever its type in the source (text, numbers, dates, booleans):

- Spaces around a text (Unicode's too, not tabs) do not count. Texts are compared byte by byte, upper and lower
  case differ. What is no category as it is spelled is looked up by its value (`contracts.domains.notation`): the
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

from contracts.domains.notation import FIRST_COMPACT, INSTANT, LAST_COMPACT, NUMBER, DayNotation, NumberNotation

FEW_BRANCHES = 8
"""Up to here nested CASEs are the quickest (measured); beyond, arithmetic for whole numbers in bins of one width."""
MOST_BRANCHES = 32
"""Beyond, arithmetic and look-up lists for all others."""
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
"""How a text is read that spells a number as `contracts.domains.notation` has it."""


def code_type(size: int) -> str:
    """Return the smallest unsigned type that holds the codes of so many cells."""
    return "UTINYINT" if size <= 2**8 else "USMALLINT" if size <= 2**16 else "UINTEGER"


def text_sql(raw: str) -> str:
    """Return SQL for a value as text, null where it has none; a number of 4 bytes as the double that it is."""
    double = f"CAST(TRY_CAST({raw} AS DOUBLE) AS VARCHAR)"
    return f"TRY(CASE typeof({raw}) WHEN 'FLOAT' THEN {double} ELSE CAST({raw} AS VARCHAR) END)"


EXACT = 2**53
"""Below, a double is each whole number, and beyond, it stands for several; of 4 bytes from 2^24 on."""
_EXACT_OF_FOUR_BYTES = 2**24
ROUNDED = "^-?[0-9]([.][0-9]+)?[eE][+][0-9]+$"
"""How writers of doubles spell those that are larger than their digits."""
NUMERIC = "^-?[0-9]+([.][0-9]*)?$"
DECIMALS_OF_ZERO = "^(-?(0|[1-9][0-9]*))[.]0*$"
"""A whole number as a writer of doubles or decimals spells it; no leading nought, which belongs to a code."""


def exact_sql(raw: str, largest: int | None = None) -> str:
    """Return SQL for a value as text by its exact digits: the same text whatever type a writer stored it in.

    A whole number has no decimals. A double whose digits are not exact is missing, and so is a text of one (1e+17):
    several ids would be one, and each would lose rows by the others' (DESIGN, law 3). `typeof` is constant over a
    column, so that one branch is left of these.

    Args:
        raw: SQL for the value as delivered.
        largest: numbers beyond it are missing, however they are stored; None for no limit.
    """
    kind, number, text = f"typeof({raw})", f"TRY_CAST({raw} AS DOUBLE)", f"trim({text_sql(raw)})"
    wholes = ", ".join(literal(each) for each in sorted(NUMBERS - {"DOUBLE", "FLOAT", "DECIMAL"}))
    exact = f"abs({number}) < CASE {kind} WHEN 'FLOAT' THEN {_EXACT_OF_FOUR_BYTES} ELSE {EXACT} END"
    real = f"COALESCE(CASE WHEN {number} = trunc({number}) THEN TRY_CAST({number} AS BIGINT)::VARCHAR END, {text})"
    fixed = f"CASE WHEN contains({text}, '.') THEN rtrim(rtrim({text}, '0'), '.') ELSE {text} END"
    spelled = (
        f"CASE WHEN {kind} IN ({wholes}) THEN {text} WHEN {kind} IN ('DOUBLE', 'FLOAT') "
        f"THEN CASE WHEN {exact} THEN {real} END WHEN starts_with({kind}, 'DECIMAL') THEN {fixed} "
        f"WHEN contains({text}, '+') AND regexp_full_match({text}, {literal(ROUNDED)}) THEN NULL ELSE {text} END"
    )
    if largest is None:
        return spelled
    beyond = f"regexp_full_match({spelled}, {literal(NUMERIC)}) AND abs(TRY_CAST({spelled} AS DOUBLE)) > {largest}"
    return f"CASE WHEN {beyond} THEN NULL ELSE {spelled} END"


def id_sql(raw: str, largest: int | None = None) -> str:
    """Return SQL for an id of a unit, or a key of a row, as text: as `exact_sql`, and the text 17.0 is 17 too."""
    text = exact_sql(raw, largest)
    pattern = literal(DECIMALS_OF_ZERO)
    return f"CASE WHEN contains({text}, '.') THEN regexp_replace({text}, {pattern}, '\\1') ELSE {text} END"


_READ = "TRY_CAST({} AS DOUBLE)"
"""How a text is read as a number where nothing else is declared."""


def number_sql(raw: str, read: str = _READ) -> str:
    """Return SQL for a value as a double, null where it is no number; flags are 1 and 0.

    A decimal goes by its text: DuckDB divides it by a power of ten, which can round twice, by its scale. `typeof` is
    constant over a column, so that one branch is left of these.

    Args:
        raw: SQL for the value as delivered.
        read: how a text is read, with {} for the text.
    """
    native = f"typeof({raw}) IN ({', '.join(map(literal, NATIVE))})"
    spelled = _spelled_number(f"trim({text_sql(raw)})", read)
    number = f"TRY_CAST({raw} AS DOUBLE)"
    if read == _READ:  # the cast forgives spaces itself: only what it refuses is trimmed, which takes longer
        spelled = f"CASE WHEN typeof({raw}) = 'VARCHAR' THEN COALESCE({number}, {spelled}) ELSE {spelled} END"
    # Missing values go first: the cast refuses them too, and what it refuses takes three times as long.
    return f"CASE WHEN {raw} IS NULL THEN NULL ELSE CASE WHEN {native} THEN {number} ELSE {spelled} END END"


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


def absent_sql(raw: str) -> str:
    """Return SQL that is true where a value, whatever its type, is null or a NaN."""
    return f"({raw} IS NULL OR typeof({raw}) IN ('DOUBLE', 'FLOAT') AND isnan(TRY_CAST({raw} AS DOUBLE)))"


def enumeration(texts: Iterable[str]) -> str:
    """The type of some texts, whose codes are their places."""
    return "ENUM(" + ", ".join(literal(text) for text in texts) + ")"


def corrected_bin(starts: Sequence[float], guess: str, value: str, kind: str) -> str:
    """Correct a guessed bin, off by one at most through rounding, by comparing with its own edges: exact."""
    edges = "[" + ", ".join(double(start) for start in starts) + "]"
    down = f"CAST({value} < {edges}[{guess} + 1] AS INTEGER)"
    up = f"CAST(COALESCE({value} >= {edges}[{guess} + 2], FALSE) AS INTEGER)"
    return f"CAST({guess} - {down} + {up} AS {kind})"


def branches(starts: Sequence[float], first: int, end: int, value: str, kind: str) -> str:
    """Find the bin by halving: nested CASEs, as deep as the logarithm of the number of bins."""
    if end - first == 1:
        return f"{first}::{kind}"
    middle = (first + end) // 2
    below = branches(starts, first, middle, value, kind)
    above = branches(starts, middle, end, value, kind)
    return f"CASE WHEN {value} < {double(starts[middle])} THEN {below} ELSE {above} END"


def double(number: float) -> str:
    """Write a double so that DuckDB reads the same double."""
    text = repr(number)
    return f"({text})" if "e" in text else f"({text}e0)"
