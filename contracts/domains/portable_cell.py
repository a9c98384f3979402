"""A stored value as an Ibis expression: what a kind of domain makes its code of, alike on every engine.

Which stored types this is true of, the engines say. Doubles are compared with doubles, a
NaN is looked for before anything is compared (engines order it differently), and a number is rounded down only
inside ±2^53 (beyond, every double is whole).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import ibis

from contracts.domains.notation import MOMENT, NUMBER, DayNotation, NumberNotation, by_value, moment_of, number_of
from contracts.domains.statements import ValueKind

SPACES: Final = "\x20\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u202f\u205f\u3000"
"""What DuckDB's trim takes off: Unicode's spaces, not tabs or ends of lines."""
_ENDS_OF_LINES: Final = "\n\r\x85\u2028\u2029"


def portable_trim(text: str, letters: str) -> str:
    """Take the letters off both ends; it is written in each engine's words."""
    return text.strip(letters)


_trim: Any = ibis.udf.scalar.builtin(portable_trim)


def portable_lookup(text: str, known: list[str], codes: list[int]) -> int:
    """Return the code at the text's place; written with NULL for other texts."""
    return codes[known.index(text)]


_text_code: Any = ibis.udf.scalar.builtin(portable_lookup)


def trimmed(text: Any) -> Any:
    """Return a text without the spaces around it."""
    return _trim(text, ibis.literal(SPACES))


@dataclass(frozen=True, eq=False)
class PortableCell:
    """One column's value in a row.

    Args:
        cell: the value as it is stored.
        kind: its kind, one of the domain's `value_kinds`.
        cast: returns what DuckDB reads a text as, by the name of a type; None for a text that is no such value.
    """

    cell: Any
    kind: ValueKind
    cast: Callable[[str, str], Any]

    def absent(self) -> Any:
        """Return whether the value is null, or a NaN."""
        if self.kind == "nothing":
            return ibis.literal(True)
        null = self.cell.isnull()
        return null | self.cell.isnan().fill_null(False) if self.kind == "real" else null

    def code_of(self, codes: Mapping[str, int]) -> Any:
        """Return the code of the text that the value is: as it is spelled, trimmed, or by its value; else null."""
        known = by_value(codes).values()
        values = {number: codes[text] for text in known if (number := number_of(text)) is not None}
        moments = {moment: codes[text] for text in known if (moment := moment_of(text)) is not None}
        if self.kind == "nothing":
            return ibis.null("int32")
        if self.kind in ("day", "moment"):
            return _looked_up(self.cell.cast("timestamp"), moments)
        if self.kind != "text":
            return _looked_up(self.double(), values)
        text = trimmed(self.cell)
        spellings = [_text_looked_up(self.cell, codes), _text_looked_up(text, codes)]
        spellings += [_looked_up(_number(text), values)] if values else []
        return ibis.coalesce(*spellings, *([_looked_up(_moment(text), moments)] if moments else []))

    def spells(self, texts: Sequence[str], numbers: Sequence[float] = ()) -> Any:
        """Return whether the value is one of some texts as it is spelled, or one of some numbers."""
        found = ibis.literal(False)
        if self.kind == "text":
            found = trimmed(self.cell).isin(list(texts)) if texts else found
        if numbers and self.kind not in ("day", "moment", "nothing"):
            number = _number(trimmed(self.cell)) if self.kind == "text" else self.double()
            found = found | number.isin(list(numbers))
        return found.fill_null(False)

    def number(self, notation: NumberNotation | None) -> Any:
        """Return the value as a double; of a text what it is in a notation."""
        if self.kind != "text" or notation is None:
            return self.double()
        text = trimmed(self.cell)
        plain = text
        for letter, other in notation.replaced:
            plain = plain.replace(letter, other)
        words = text.lower()
        number = plain.try_cast("float64")
        return ibis.cases((is_all(text, notation.pattern), number), (words == "true", 1.0), (words == "false", 0.0))

    def day(self, notation: DayNotation | None) -> Any:
        """Return the value as a day; of a text, or of the whole number that eight digits are, by the notation."""
        if self.kind == "day":
            return self.cell
        if self.kind == "moment":
            return self.cell.date()
        if notation is None or self.kind in ("nothing", "flag") or (self.kind != "text" and not notation.compact):
            return ibis.null("date")
        text = trimmed(self.cell) if self.kind == "text" else self._eight_digits()
        year, month, day = (text.re_extract(notation.pattern, notation.group(part)) for part in "Ymd")
        spelled = year + "-" + month.lpad(2, "0") + "-" + day.lpad(2, "0")
        return ibis.cases((is_all(text, notation.pattern), spelled.try_cast("date")), else_=ibis.null("date"))

    def _eight_digits(self) -> Any:
        """Return a number's text, which is eight digits and nine noughts of a whole one; null where it has more.

        Doubles of eight digits lie at least 2^-29 apart, so that none but a whole one has nine noughts. The value is
        named once: a day is written of seven pieces of this text, and SQL that repeats much fills an engine's parser.
        """
        return self.double().try_cast("decimal(17, 9)").cast("string")

    def double(self) -> Any:
        """Return a number or a flag as the nearest double; a decimal by its text: a division could round twice."""
        if self.kind == "nothing":
            return self.cell.try_cast("float64")
        if self.kind == "flag":
            return ibis.cases((self.cell, 1.0), (~self.cell, 0.0), else_=ibis.null("float64"))
        if self.kind == "fixed":
            return self.cell.cast("string").try_cast("float64")
        return self.cell.cast("float64")

    def values_of(
        self, texts: Sequence[str], sql_type: str, notation: NumberNotation | DayNotation | None
    ) -> list[Any]:
        """Read texts in a notation, else as DuckDB reads them; what is no value is left out."""
        read = [self.cast(text, sql_type) if notation is None else notation.read(text) for text in texts]
        return [value for value in read if value is not None]


def _moment(text: Any) -> Any:
    """Return the moment that a text is, as `contracts.domains.notation` has it; null for any other text."""
    spelled = text.re_search(MOMENT) & text.right(1).isin([*"0123456789"])
    return ibis.cases((spelled, text.try_cast("timestamp")), else_=ibis.null("timestamp"))


def is_all(text: Any, pattern: str) -> Any:
    """Return whether a text is wholly of a pattern: to Java, $ is also before the end of a line."""
    return text.re_search(pattern) & ~text.right(1).isin([*_ENDS_OF_LINES])


def _number(text: Any) -> Any:
    """Return the number that a text is, as `contracts.domains.notation` has it; null for any other text.

    The last letter is looked at too: to Java, $ is also before the end of a line.
    """
    digits = text.re_search(NUMBER) & text.right(1).isin([*"0123456789."])
    words = text.lower()
    return ibis.cases((digits, text.try_cast("float64")), (words == "true", 1.0), (words == "false", 0.0))


def _text_looked_up(text: Any, codes: Mapping[str, int]) -> Any:
    if not codes:
        return ibis.null("int32")
    return _text_code(text, ibis.array(list(codes)), ibis.array(list(codes.values()))).cast("int32")


def _looked_up(value: Any, codes: Mapping[Any, int]) -> Any:
    branches = [(value == known, ibis.literal(code, "int32")) for known, code in codes.items()]
    return ibis.cases(*branches, else_=ibis.null("int32")) if branches else ibis.null("int32")
