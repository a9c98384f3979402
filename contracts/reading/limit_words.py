"""What a number or a list may be, in words: the limits that a field declares, for messages about what broke them."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any, Final, get_args

from pydantic.fields import FieldInfo

_LIMITS: Final = {"ge": "at least {}", "gt": "above {}", "le": "at most {}", "lt": "below {}"}
_OUT_OF_RANGE: Final = {"greater_than", "greater_than_equal", "less_than", "less_than_equal"}
_WHOLE: Final = {"int_type", "int_parsing", "int_from_float", "int_parsing_size"}
_NUMBER: Final = {"float_type", "float_parsing", "finite_number"}
_FLAG: Final = {"bool_type", "bool_parsing"}
_LENGTH: Final = {"too_short": "min_length", "too_long": "max_length"}


def limits_in_words(kind: str, context: Mapping[str, Any], field: FieldInfo | None) -> str | None:
    """Say what a field may hold, as "a whole number from 1 to 4".

    Args:
        kind: pydantic's name of the error.
        context: what pydantic tells about it.
        field: the field, where it is known: then all its limits are told, not only the one that was broken.
    Returns:
        The words; None for an error of another kind.
    """
    if kind in _FLAG:
        return "true or false"
    if kind in _LENGTH:
        number = context[_LENGTH[kind]]
        return f"a list of {'at least' if kind == 'too_short' else 'at most'} {number}"
    if kind in _WHOLE | _NUMBER | _OUT_OF_RANGE:
        whole = kind in _WHOLE or (field is not None and int in (field.annotation, *get_args(field.annotation)))
        limits = _limits(field) or {key: value for key, value in context.items() if key in _LIMITS}
        return f"a {'whole ' if whole else ''}number{_between(limits)}{_or_nothing(field)}"
    return None


def without_key(field: FieldInfo | None) -> str:
    """Say what to do about a key that may be dropped; nothing where it is required, or its default is a list."""
    if field is None or field.is_required() or field.default_factory is not None:
        return ""
    default, both = field.default, "correct it, or drop it"
    if default is None:
        return both
    if isinstance(default, bool):
        return f"{both} for {str(default).lower()}"
    return f"{both} for {default:,.12g}" if isinstance(default, int | float) else ""


def _limits(field: FieldInfo | None) -> dict[str, Any]:
    """Return the limits that a field declares."""
    found: dict[str, Any] = {}
    for each in () if field is None else field.metadata:
        found.update({key: getattr(each, key) for key in _LIMITS if getattr(each, key, None) is not None})
    return found


def _between(limits: Mapping[str, Any]) -> str:
    """Write limits: "from 1 to 4", or one after the other."""
    written = {key: f"{limit:,.12g}" for key, limit in limits.items()}
    if "ge" in written and "le" in written:
        return f" from {written['ge']} to {written['le']}"
    words = " and ".join(text.format(written[key]) for key, text in _LIMITS.items() if key in written)
    return f" {words}" if words else ""


def _or_nothing(field: FieldInfo | None) -> str:
    """Say that the key may be left out, where its default is nothing."""
    return ", or nothing" if field is not None and NoneType in get_args(field.annotation) else ""
