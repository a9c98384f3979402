"""What a person writes in a contract or a spec, read strictly: numbers from their text, problems with a remedy.

A number never passes through binary floating point on the way in: `1e309` does not become infinity in
silence and `0.1` stays a tenth. Every refusal is a `Problem`; the loaders turn problems into findings
with the file and the line.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, NoReturn

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

FieldPath = tuple[str | int, ...]

LARGEST_NUMBER = 10**15
FINEST_DECIMALS = 15
_WHOLE = re.compile(r"[+-]?[0-9]{1,40}")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
DIRECTION_MARKS = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""Characters that are not seen and turn the order of those that are: a text with them reads otherwise than it is."""
_UNSEEN_MARKS = "\u200b\u2060\ufeff"
"""They take no room; the last one, at the head of a CSV file, is read as its byte order mark."""
_CONTROL = re.compile(rf"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029{_UNSEEN_MARKS}{DIRECTION_MARKS}]")
_UNSEEN = {"\t": "tab", "\n": "line feed", "\r": "carriage return"}


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a written value; `at` is where, below the value that is being read."""

    found: str
    allowed: str
    remedy: str = ""
    at: FieldPath = ()


def refuse(problems: Sequence[Problem]) -> NoReturn:
    """Raise the problems so that pydantic reports them at the field being read, with those of other fields."""
    message = "; ".join(f"found {problem.found}, allowed {problem.allowed}" for problem in problems)
    raise PydanticCustomError("sudare", "{message}", {"message": message, "problems": tuple(problems)})


def show(value: object) -> str:
    """Render a written value for a message: short, on one line."""
    if isinstance(value, dict):
        return "a mapping with the keys " + ", ".join(map(str, value)) if value else "an empty mapping"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}" if value else "an empty list"
    text = "nothing (null)" if value is None else repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 80 else text[:77] + "..."


def nearest(word: str, allowed: Iterable[str]) -> str:
    """Suggest the allowed word that looks most like `word`; empty when none does."""
    hit = closest(word, allowed)
    return f"write {hit!r} instead of {word!r}" if hit else ""


def closest(word: str, allowed: Iterable[str]) -> str:
    """Return the allowed word that looks most like `word`; empty when none does."""
    by_fold = {candidate.casefold(): candidate for candidate in allowed}
    hit = difflib.get_close_matches(word.casefold(), list(by_fold), n=1, cutoff=0.6)
    return by_fold[hit[0]] if hit else ""


def word_list(words: Sequence[str]) -> str:
    """Say which words are allowed, at most a dozen of them."""
    shown = ", ".join(words[:12])
    return f"one of {shown}" + (f" and {len(words) - 12} more" if len(words) > 12 else "")


def parse_decimal(value: object) -> Decimal:
    """Read a finite decimal number from its text (or from an int or Decimal), exactly."""
    allowed = "a finite decimal number, such as 0.5, 12 or 1e-9"
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        refuse([Problem(show(value), allowed)])
    text = str(value).strip()
    if not _DECIMAL.fullmatch(text):
        refuse([Problem(show(value), allowed, _number_remedy(text))])
    return Decimal(text)


def _number_remedy(text: str) -> str:
    """Say what is wrong with a number that is none."""
    if text.lower().lstrip("+-.") in {"inf", "infinity", "nan"}:
        return "infinity and NaN are no amounts: write the number that is meant"
    return "write a dot for the decimals, and no thousands separators or units" if re.search(r"\d", text) else ""


def parse_whole(value: object) -> int:
    """Read a whole number from its digits."""
    if type(value) is int and abs(value) <= LARGEST_NUMBER:
        return value  # lists of bins have hundreds of thousands of them
    if isinstance(value, int) and not isinstance(value, bool):
        text = str(value)
    elif isinstance(value, str):
        text = value.strip()
    else:
        text = ""
    if not _WHOLE.fullmatch(text):
        whole = "write it without decimals and without an exponent"
        remedy = whole if _DECIMAL.fullmatch(text) else _number_remedy(text)
        refuse([Problem(show(value), "a whole number, such as 17", remedy)])
    number = int(text)
    if abs(number) > LARGEST_NUMBER:
        refuse([Problem(show(value), "a whole number between -1e15 and 1e15")])
    return number


def parse_bound(value: object) -> Decimal:
    """Read a bound, edge or width: moderate in size and in decimals, so that a double tells it from others."""
    number = parse_decimal(value)
    if abs(number) > LARGEST_NUMBER:
        refuse([Problem(show(value), "a number between -1e15 and 1e15", "rescale the column in `select:`")])
    plain = plain_decimal(number) if not number or number.adjusted() >= -FINEST_DECIMALS else None
    if plain is None or -int(plain.as_tuple().exponent) > FINEST_DECIMALS:
        refuse([Problem(show(value), f"at most {FINEST_DECIMALS} decimals", "rescale the column in `select:`")])
    return plain


def plain_decimal(number: Decimal) -> Decimal:
    """Return the same finite number without exponent and trailing zeros: 1.50 and 15e-1 become one text."""
    if not number:
        return Decimal(0)
    text = format(number, "f")
    return Decimal(text.rstrip("0").rstrip(".") if "." in text else text)


def plain_text(number: Decimal) -> str:
    """Write a finite number in the one form that records and specs share."""
    return str(plain_decimal(number))


def six_digits(value: float) -> str:
    """Write a computed number in the one form that records have: six digits, no zeros at the end."""
    return f"{value:.6g}"


def spelled(number: Decimal) -> str:
    """Write a number as people do: 1e309, not 1E+309."""
    return str(number).replace("E+", "e").replace("E", "e")


def parse_day(value: object) -> date:
    """Read a calendar day."""
    if type(value) is date:
        return value
    try:
        if isinstance(value, str) and re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", value.strip()):
            return date.fromisoformat(value.strip())
    except ValueError:
        refuse([Problem(show(value), "a day of the calendar, as YYYY-MM-DD")])
    refuse([Problem(show(value), "a day, as YYYY-MM-DD")])


def read_number(text: str) -> Decimal | None:
    """Read a text as a number where that is possible, as liberally as a database would."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def read_day(text: str) -> date | None:
    """Read a text that begins with year, month and day where that is possible, as liberally as a database would."""
    parts = re.match(r"([0-9]{1,4})([-/\\ ])([0-9]{1,2})\2([0-9]{1,2})(?![0-9])", text)
    try:
        return date(int(parts[1]), int(parts[3]), int(parts[4])) if parts else None
    except ValueError:
        return None


def _parse_flag(value: object) -> bool:
    if value is True or value is False:
        return value
    if isinstance(value, str) and value in {"true", "false", "True", "False"}:
        return value in {"true", "True"}
    refuse([Problem(show(value), "true or false")])


def _check_label(text: str) -> str:
    """Refuse a text that could not be told apart once spaces around it are dropped, or not be printed."""
    allowed = "text that is not empty, has no control characters or direction marks, and no space at its ends"
    if not text.strip():
        refuse([Problem(show(text), allowed, "texts that stand for no value belong under `missing:`")])
    unprintable = _CONTROL.search(text)
    if unprintable is not None:
        refuse([Problem(show(text), allowed, f"drop the {_character(unprintable[0])}")])
    if text != text.strip():
        refuse([Problem(show(text), allowed, "drop the space: spaces around a value in the data are ignored")])
    return text


def _character(one: str) -> str:
    """Name a character that is not seen."""
    return _UNSEEN.get(one) or unicodedata.name(one, "").lower() or f"character U+{ord(one):04X}"


def _check_text(value: object) -> object:
    """Refuse a list, a mapping or nothing where a text belongs."""
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        refuse([Problem(show(value), "a text", "put quotes around it" if value is None else "")])
    return str(value)


def _no_control(text: str) -> str:
    """Refuse control characters and direction marks."""
    if is_not_plain(text):
        refuse([Problem(show(text), "text without control characters or direction marks")])
    return text


def is_not_plain(text: str) -> bool:
    """Say whether a text has control characters, or marks that turn the direction in which it is read."""
    return _CONTROL.search(text) is not None


def as_tuple(value: Any) -> Any:
    """Refuse anything but a list where a list belongs."""
    if not isinstance(value, list | tuple):
        refuse([Problem(show(value), "a list")])
    return tuple(value)


def as_items(value: Any, what: str) -> Any:
    """Read a mapping as its pairs, in their order; refuse what is none, naming what belongs there."""
    if isinstance(value, dict):
        return tuple(value.items())
    if not isinstance(value, list | tuple):
        refuse([Problem(show(value), what)])
    return tuple(value)


def as_pair(value: Any) -> Any:
    """Refuse anything but a list of two where bounds belong."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        refuse([Problem(show(value), "a pair [low, high]")])
    return tuple(value)


Whole = Annotated[int, BeforeValidator(parse_whole)]
Bound = Annotated[Decimal, BeforeValidator(parse_bound)]
Amount = Annotated[Decimal, BeforeValidator(parse_decimal), WithJsonSchema({"type": ["number", "string"]})]
Day = Annotated[date, BeforeValidator(parse_day)]
Flag = Annotated[bool, BeforeValidator(_parse_flag)]
Wholes = Annotated[tuple[Whole, Whole], BeforeValidator(as_pair)]
BoundPair = Annotated[tuple[Bound, Bound], BeforeValidator(as_pair)]
Days = Annotated[tuple[Day, Day], BeforeValidator(as_pair)]
Text = Annotated[str, AfterValidator(_no_control), BeforeValidator(_check_text)]
Sql = Annotated[str, BeforeValidator(_check_text)]
Label = Annotated[str, AfterValidator(_check_label), BeforeValidator(_check_text)]
