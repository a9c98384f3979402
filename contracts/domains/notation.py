"""How texts write numbers and days, where the contract declares it: `decimal`, `grouping`, `format`, `time_zone`.

A declared notation is strict, so that every engine reads it alike: a text is wholly of the notation, or it is no
value. It concerns texts alone: what is stored as a number, a day or a moment is what it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Final

from contracts.domains.time_zones import TIME_ZONES
from contracts.reading.scalars import Problem, nearest, refuse, show

DECIMAL_MARKS: Final = (",", ".")
GROUPING_MARKS: Final[Mapping[str, str]] = {
    ".": ".",
    ",": ",",
    " ": " \u00a0\u2009\u202f",
    "'": "'\u2019",
}
"""The letters that each declared mark stands for: a space that does not break is a space, a typographic ' is one."""
TIME_OF_DAY: Final = "([ T][0-9][0-9]?:[0-9][0-9](:[0-9][0-9]([.,][0-9]+)?)?( ?[AaPp][Mm])?)?"
"""What may stand behind a day: the day alone counts, as of every moment."""
COMPACT: Final = "%Y%m%d"
"""The one format without marks between its parts. It is a whole number too, so it may be stored as one."""
FORMATS: Final = (
    *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y-%m-%d", "%Y.%m.%d", "%Y/%m/%d"),
    *("%Y%m%d", "%d. %m. %Y", "%Y年%m月%d日"),
)
"""Formats in which texts often write days."""
FIRST_COMPACT, LAST_COMPACT = 10000101, 99991231
INSTANT: Final = (
    "[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}[ T][0-9]{1,2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?"
    " ?([Zz]|UTC|[+-][0-9]{2}(:?[0-9]{2})?)"
)
"""A text that is a moment of a known offset from UTC."""
BETWEEN: Final = " .,/-_'"
"""What may stand between the parts of a day, beside letters."""
_PARTS: Final[Mapping[str, str]] = {"Y": "([1-9][0-9][0-9][0-9])", "m": "([0-9][0-9]?)", "d": "([0-9][0-9]?)"}
_REFUSED: Final[Mapping[str, str]] = {
    **dict.fromkeys("yg", "a year of two digits, which is of two centuries"),
    **dict.fromkeys("bBhaAcxX", "a name, which depends on a language"),
    **dict.fromkeys("HIMSfpTR", "a time of day: what stands behind the day is read over without it"),
    **dict.fromkeys("zZ", "an offset: of moments that have one, `time_zone` says which day they are of"),
}


@dataclass(frozen=True)
class NumberNotation:
    """How texts write numbers: an optional sign, digits, and decimals behind the mark; digits on both of its sides.

    Args:
        decimal: the mark before the decimals.
        grouping: the mark between groups of three digits, which may all be left out; None where there is none.
    """

    decimal: str
    grouping: str | None

    @cached_property
    def pattern(self) -> str:
        """A regular expression that every engine reads alike; no exponents, infinities, currencies."""
        digits = "[0-9]+"
        if self.grouping is not None:
            digits = f"([0-9]+|[0-9][0-9]?[0-9]?([{self._groupings}][0-9][0-9][0-9])+)"
        return f"^[+-]?{digits}([{self.decimal}][0-9]+)?$"

    @property
    def replaced(self) -> tuple[tuple[str, str], ...]:
        """Which letters are replaced by which, in order, so that the number is spelled with a point."""
        return (*((letter, "") for letter in self._groupings), (self.decimal, "."))

    @property
    def _groupings(self) -> str:
        return "" if self.grouping is None else GROUPING_MARKS[self.grouping]

    def read(self, text: str) -> float | None:
        """Return the number that a text is, as a double; None for a text that is none."""
        text = text.strip(" ")
        if not re.fullmatch(self.pattern, text):
            return None
        for letter, other in self.replaced:
            text = text.replace(letter, other)
        return float(text)


def number_notation(decimal: str | None, grouping: str | None) -> NumberNotation | None:
    """Return the notation that a contract declares, None where it declares none; refuse what would be ambiguous."""
    problems = []
    if decimal not in (None, *DECIMAL_MARKS):
        problems.append(Problem(show(decimal), '"," or "."', "write the mark before the decimals", ("decimal",)))
    if grouping not in (None, *GROUPING_MARKS):
        allowed = """one of ".", ",", " " and "'\""""
        problems.append(Problem(show(grouping), allowed, "leave it out if digits stand together", ("grouping",)))
    if not problems and grouping == (decimal or "."):
        remedy = f'write decimal: "{"," if grouping == "." else "."}", or another mark'
        found = f"{grouping!r} between groups of digits and before the decimals"
        problems.append(Problem(found, "two marks that differ", remedy, ("grouping",)))
    if problems:
        refuse(problems)
    return None if decimal is None and grouping is None else NumberNotation(decimal or ".", grouping)


@dataclass(frozen=True)
class DayNotation:
    """How texts write days: %d, %m and %Y, each once, with the same letters between them in every text.

    Days and months have one digit or two, years four (1000 to 9999). A time of day may follow.

    Args:
        written: the format as declared.
    """

    written: str

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The parts in their order: Y, m, d."""
        return tuple(re.findall("%(.)", self.written))

    @property
    def compact(self) -> bool:
        """Whether it is the format of eight digits."""
        return self.written == COMPACT

    @cached_property
    def pattern(self) -> str:
        """A regular expression that every engine reads alike, one group for each part in order.

        Eight digits may be followed by noughts behind a point: where one is missing, writers make 20241231.0 of all.
        """
        if self.compact:
            return "^([1-9][0-9][0-9][0-9])([0-9][0-9])([0-9][0-9])([.]0*)?$"
        spelled = re.sub(
            "%(.)|(.)", lambda found: _PARTS[found[1]] if found[1] else _verbatim(found[2]), self.written
        )
        return f"^{spelled}{TIME_OF_DAY}$"

    def group(self, part: str) -> int:
        """Return the number of the group of a part."""
        return self.parts.index(part) + 1

    def read(self, text: str) -> date | None:
        """Return the day that a text is; None for a text that is none."""
        found = re.fullmatch(self.pattern, text.strip(" "))
        try:
            return date(*(int(found[self.group(part)]) for part in "Ymd")) if found else None
        except ValueError:
            return None


def _verbatim(letter: str) -> str:
    """Write a letter that stands for itself so that no engine takes it for an operator."""
    return letter if letter.isalpha() else f"[{letter}]"


def check_format(written: str) -> str:
    """Refuse a format in which a text could be two days, or that is not read."""
    problem = _format_problem(written)
    if problem is not None:
        refuse([problem])
    return written


def format_of_java(pattern: str) -> str | None:
    """Return the format that a pattern of Java's DateTimeFormatter is (dd.MM.yyyy); None for what is none of ours."""
    if "%" in pattern:
        return None
    form = re.sub("d{1,2}", "%d", re.sub("M{1,2}", "%m", re.sub("yyyy|uuuu", "%Y", pattern)))
    return form if sorted(re.findall("%(.)", form)) == sorted("Ymd") and _format_problem(form) is None else None


def _format_problem(written: str) -> Problem | None:
    allowed = "%d, %m and %Y, each once, with marks or letters between them; or %Y%m%d"
    example = 'write for instance "%d.%m.%Y", "%m/%d/%Y" or "%Y%m%d"'
    for found in re.finditer("%(.?)", written):
        if found[1] not in _PARTS or not found[1]:
            why = _REFUSED.get(found[1], "which is not read")
            return Problem(f"{found[0]} in {show(written)}: {why}", allowed, example)
    other = format_of_java(written)
    if other is not None:
        return Problem(f"{show(written)}, a pattern of Java", allowed, f'write "{other}"')
    parts, between = re.findall("%(.)", written), re.split("%.", written)
    if sorted(parts) != sorted("Ymd"):
        lacking = [f"%{part}" for part in "dmY" if part not in parts]
        found_words = (
            f"{show(written)} without {' and '.join(lacking)}" if lacking else f"{show(written)}, a part twice"
        )
        return Problem(found_words, allowed, example)
    if written == COMPACT:
        return None
    if not all(between[1:-1]):
        return Problem(f"{show(written)}, whose parts touch", allowed, example)
    if not all(letter.isalpha() or letter in BETWEEN for letter in "".join(between)):
        return Problem(f"{show(written)}, with other marks than {BETWEEN!r}", allowed, example)
    if written != written.strip():
        return Problem(f"{show(written)}, with a space at its end", allowed, "spaces around a text do not count")
    return None


def check_zone(written: str) -> str:
    """Refuse what is no time zone of the IANA database."""
    if written not in TIME_ZONES:
        allowed = "UTC or a zone of the IANA database, such as Europe/Berlin or Asia/Tokyo"
        remedy = nearest(written, TIME_ZONES) or "an abbreviation (CET) or an offset (+01:00) is none"
        refuse([Problem(show(written), allowed, remedy)])
    return written
