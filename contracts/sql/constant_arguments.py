"""Arguments that a select must write out, because a value taken from a row could stop the whole release.

Formats, patterns, groups, digits, units of time, lengths and replacements are literals, and lengths are bounded:
DuckDB refuses most of these when they come from a column, which its TRY does not catch, or makes a text as
long as a row asks for. It matches ILIKE, GLOB, and LIKE with a `_`, by trying every place for each wildcard, so
these have at most two. For the same reason `guarded` cuts a text to `LONGEST_TEXT` characters before a function
that can lengthen it or that tries places, and hands a value to a calendar function as a timestamp, null where it
is none, since DuckDB refuses the week of an interval or the year of a time of day.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from contracts.reading.scalars import Problem, nearest, show, word_list

LONGEST_TEXT = 10_000
LONGEST_LITERAL = 1_000
MOST_WILDCARDS = 2
_Node = dict[str, Any]


@dataclass(frozen=True)
class ArgumentRule:
    """What one argument must be: a literal text, or a literal whole number within bounds."""

    what: str
    bounds: tuple[int, int] | None = None
    words: tuple[str, ...] = ()
    holds: str = ""
    wildcard: str = ""
    one_pass: bool = False

    @property
    def allowed(self) -> str:
        """What the argument may be, in words."""
        if self.bounds is not None:
            return f"a whole number written out, from {self.bounds[0]} to {self.bounds[1]}"
        if self.words:
            return word_list(self.words) + ", written out"
        if self.wildcard:
            return (
                f"a text written out, of at most {LONGEST_LITERAL} characters and {MOST_WILDCARDS} `{self.wildcard}`"
            )
        with_sign = f" with a {self.holds}" if self.holds else ""
        return f"a text written out{with_sign}, of at most {LONGEST_LITERAL} characters"

    def admits(self, node: _Node) -> bool:
        """Say whether an argument is as the rule wants it."""
        if node["class"] != "CONSTANT" or node["value"]["is_null"]:
            return False
        value = node["value"].get("value")
        if self.bounds is not None:
            whole = isinstance(value, int) and not isinstance(value, bool)
            return whole and self.bounds[0] <= value <= self.bounds[1]
        if not isinstance(value, str) or node["value"]["type"]["id"] != "VARCHAR":
            return False
        known = not self.words or value.lower() in self.words
        if self.wildcard and not (self.one_pass and "_" not in value):
            known = value.count(self.wildcard) <= MOST_WILDCARDS
        return known and self.holds in value and len(value) <= LONGEST_LITERAL


_CLOCK_UNITS = ("hour", "minute", "second")
_STEPS = ("year", "quarter", "month", "week", "day", *_CLOCK_UNITS, "decade", "century", "millennium", "isoyear")
_PARTS = (*_STEPS, "dow", "isodow", "doy", "yearweek", "era")
_FORMAT = ArgumentRule("format", holds="%")
_PATTERN = ArgumentRule("pattern")
_OPTIONS = ArgumentRule("options")
_TEXT = ArgumentRule("text to replace")
_REPLACEMENT = ArgumentRule("replacement")
_LENGTH = ArgumentRule("length", bounds=(0, LONGEST_TEXT))
_DIGITS = ArgumentRule("number of digits", bounds=(-LONGEST_TEXT, LONGEST_TEXT))
_STEP = ArgumentRule("unit of time", words=_STEPS)
_PART = ArgumentRule("part of a date", words=_PARTS)

FIXED: dict[str, dict[int, ArgumentRule]] = {
    **{name: {1: _FORMAT} for name in ("strftime", "strptime", "try_strptime")},
    **{name: {1: ArgumentRule("pattern", wildcard="%", one_pass=True)} for name in ("~~", "!~~")},
    **{name: {1: ArgumentRule("pattern", wildcard="%")} for name in ("~~*", "!~~*")},
    "~~~": {1: ArgumentRule("pattern", wildcard="*")},
    **{name: {1: _PATTERN, 2: _OPTIONS} for name in ("regexp_matches", "regexp_full_match")},
    "regexp_extract": {1: _PATTERN, 2: ArgumentRule("group", bounds=(0, 9)), 3: _OPTIONS},
    "regexp_replace": {1: _PATTERN, 2: _REPLACEMENT, 3: _OPTIONS},
    "replace": {1: _TEXT, 2: _REPLACEMENT},
    **{name: {1: _LENGTH} for name in ("lpad", "rpad")},
    **{name: {1: _DIGITS} for name in ("round", "trunc")},
    **{name: {0: _STEP} for name in ("date_trunc", "datetrunc", "date_diff", "datediff")},
    **{name: {0: _PART} for name in ("date_part", "datepart")},
}
"""Function → position of an argument → what it must be."""

_CUT = frozenset({"replace", "regexp_replace", "~~", "!~~", "~~*", "!~~*", "~~~"})
_CALENDAR = frozenset({"week", "weekofyear", "yearweek", "dayofweek", "dayofyear", "isodow", "isoyear"})
_WHOLE: dict[str, tuple[int, ...]] = {
    "make_date": (0, 1, 2),
    **dict.fromkeys(("to_days", "to_weeks", "to_months", "to_years"), (0,)),
    **dict.fromkeys(("left", "right"), (1,)),
    **dict.fromkeys(("substr", "substring"), (1, 2)),
    **dict.fromkeys(("&", "|"), (0, 1)),
}
"""Function → positions of the arguments that are whole numbers; a column of numbers comes as doubles."""
NAMES = {"//": "trunc"}
"""Function → what is called in its place."""
_JOINED = frozenset({"||", "concat", "concat_ws"})
_BY_UNIT = frozenset({"date_part", "datepart", "date_diff", "datediff"})


def problems(name: str, arguments: list[_Node]) -> Iterator[Problem]:
    """List which arguments of a function are not written out as they must be.

    Args:
        name: the function, in lower case.
        arguments: the nodes of its arguments.
    """
    for place, rule in FIXED.get(name, {}).items():
        if place < len(arguments) and not rule.admits(arguments[place]):
            found = f"the {rule.what} of {name}() that is {_shown(arguments[place])}"
            word = arguments[place].get("value", {}).get("value")
            remedy = nearest(word, rule.words) if rule.words and isinstance(word, str) else ""
            yield Problem(
                found, rule.allowed, remedy or "write it as a literal: one row could otherwise stop the run"
            )


def guarded(name: str, arguments: list[_Node]) -> list[_Node]:
    """Return the arguments as they are to be run: cut before they grow, timestamps for the calendar, whole numbers.

    Those of //, which DuckDB reads as / of doubles, are the one quotient to be cut off (`NAMES`).

    Args:
        name: the function, in lower case.
        arguments: the nodes of its arguments; those in `FIXED` are as they must be.
    """
    if name in _WHOLE:
        width = "INTEGER" if name.startswith("to_") else "BIGINT"
        return [_cast(each, width) if at in _WHOLE[name] else each for at, each in enumerate(arguments)]
    if name in _JOINED:
        return [as_text(argument) for argument in arguments]
    if name == "//":
        return [_call("/", [arguments[0], _call("nullif", [arguments[1], _constant(0)])])]
    if name in _CUT:
        return [_cut(arguments[0]), *arguments[1:]]
    if name in _CALENDAR:
        return [_timestamp(argument) for argument in arguments]
    if name in _BY_UNIT and arguments[0]["value"]["value"].lower() not in _CLOCK_UNITS:
        return [arguments[0], *(_timestamp(argument) for argument in arguments[1:])]
    return arguments


def _shown(node: _Node) -> str:
    """Say what stands where a literal belongs."""
    if node["class"] != "CONSTANT":
        return "computed from the row"
    return "null" if node["value"]["is_null"] else show(node["value"].get("value"))


def as_text(node: _Node, *, tried: bool = False) -> _Node:
    """Return the value as a text: a number without decimals as its digits, so that 1 and 1.0 are one text.

    CASE WHEN typeof(x) IN ('DOUBLE', 'FLOAT') AND x is whole THEN the digits ELSE CAST(x AS VARCHAR) END
    """
    if node["class"] == "CONSTANT":
        return _cast(node, "VARCHAR", tried=tried)
    digits, double = _cast(node, "BIGINT"), _cast(node, "DOUBLE")
    kind = {**_node("OPERATOR", "COMPARE_IN"), "children": [_call("typeof", [node]), *map(_constant, _DOUBLES)]}
    whole = {**_node("COMPARISON", "COMPARE_EQUAL"), "left": double, "right": _cast(digits, "DOUBLE")}
    both = {**_node("CONJUNCTION", "CONJUNCTION_AND"), "children": [kind, whole]}
    check = {"when_expr": both, "then_expr": _cast(digits, "VARCHAR")}
    return {**_node("CASE", "CASE_EXPR"), "case_checks": [check], "else_expr": _cast(node, "VARCHAR", tried=tried)}


_DOUBLES = ("DOUBLE", "FLOAT")


def _cut(node: _Node) -> _Node:
    """The first characters of a text."""
    return _call("left", [node, _constant(LONGEST_TEXT)])


def _timestamp(node: _Node) -> _Node:
    """The value as a timestamp, null where it is none."""
    return _cast(node, "TIMESTAMP")


def _node(kind: str, form: str) -> _Node:
    return {"class": kind, "type": form, "alias": "", "query_location": 0}


def _constant(value: int | str) -> _Node:
    kind = {"id": "VARCHAR" if isinstance(value, str) else "INTEGER", "type_info": None}
    return {**_node("CONSTANT", "VALUE_CONSTANT"), "value": {"type": kind, "is_null": False, "value": value}}


def _cast(node: _Node, kind: str, *, tried: bool = True) -> _Node:
    """A cast; one that is tried is null where it fails."""
    of = {"id": kind, "type_info": None}
    return {**_node("CAST", "OPERATOR_CAST"), "child": node, "cast_type": of, "try_cast": tried}


def _call(name: str, arguments: list[_Node]) -> _Node:
    return {
        **_node("FUNCTION", "FUNCTION"),
        "function_name": name,
        "schema": "main",
        "children": arguments,
        "filter": None,
        "order_bys": {"type": "ORDER_MODIFIER", "orders": []},
        "distinct": False,
        "is_operator": False,
        "export_state": False,
        "catalog": "system",
    }
