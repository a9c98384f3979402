"""From pydantic's errors to findings: the file and line, the field as written, what is allowed, what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from contracts.errors import Finding
from contracts.reading.scalars import FieldPath, Problem, nearest, show, word_list
from contracts.reading.yaml_lines import Document

# --- What a number or a list may be, in words.


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


Namer = Callable[[FieldPath], str]


def dotted(at: FieldPath) -> str:
    """Write a field path as a person reads it: schema[0].properties[2].name."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in at)
    return text.lstrip(".") or "the file"


def from_problem(document: Document, at: FieldPath, problem: Problem, name: Namer = dotted) -> Finding:
    """Locate one problem in its file; `at` is the field that was being read."""
    full = (*at, *problem.at)
    return Finding(document.where(full), name(full), problem.found, problem.allowed, problem.remedy)


def from_validation(
    document: Document, at: FieldPath, error: ValidationError, model: Any, name: Namer = dotted
) -> list[Finding]:
    """Turn each of pydantic's errors into a finding.

    Args:
        document: the file that was read.
        at: the path of the value that was validated.
        error: what pydantic found.
        model: the model or union that the value was validated as; it says which keys are allowed where.
        name: writes a path for the message.
    """
    found = []
    items = error.errors()
    for item in items:
        if item["type"] == "too_short" and _something_inside(item["loc"], items):
            continue  # an entry that is misread is missing in what is counted, and is told of by itself
        steps, block = _walked(model, item["loc"])
        path = _existing(document, (*at, *steps), keep_last=item["type"] == "missing")
        for problem in _problems(item, block):
            found.append(from_problem(document, path, problem, name))
    return found


def from_values(where: str, at: FieldPath, error: ValidationError, model: Any) -> list[Finding]:
    """Turn pydantic's errors about values without lines (TOML) into findings; arguments as for `from_validation`."""
    found = []
    for item in error.errors():
        steps, block = _walked(model, item["loc"])
        for problem in _problems(item, block):
            field = dotted((*at, *steps, *problem.at))
            found.append(Finding(where, field, problem.found, problem.allowed, problem.remedy))
    return found


def _something_inside(loc: FieldPath, items: Iterable[Mapping[str, Any]]) -> bool:
    """Say whether another error lies below a path."""
    return any(len(other["loc"]) > len(loc) and other["loc"][: len(loc)] == loc for other in items)


def _existing(document: Document, path: FieldPath, *, keep_last: bool) -> FieldPath:
    """Drop the steps that the file does not have; a missing key, last of its path, stays.

    Where the model has pairs and the file a mapping, a pair's number becomes its key; which half of the pair it was
    about, the number behind it, is dropped.
    """
    node = document.root
    kept: list[str | int] = []
    half = False
    for place, step in enumerate(path):
        if half and isinstance(step, int):
            half = False
            continue
        half = False
        if node.entries is not None and isinstance(step, int) and step < len(node.entries):
            step, half = tuple(node.entries)[step], True
        if node.entries is not None and step in node.entries:
            node = node.entries[str(step)][1]
        elif node.items is not None and isinstance(step, int) and step < len(node.items):
            node = node.items[step]
        elif not keep_last or place < len(path) - 1:
            continue
        kept.append(step)
    return tuple(kept)


def _walked(model: Any, loc: FieldPath) -> tuple[FieldPath, Any]:
    """Follow pydantic's path through the models: its steps without the tags of union members, and the last block.

    The block is the model in which the path's last step is a key; for a path of tags only, the model so reached.
    """
    at, steps, block = _bare(model), [], _bare(model)
    for step in loc:
        block = at
        if get_origin(at) in (Union, UnionType):
            members = [_bare(part) for part in get_args(at)]
            models = [part for part in members if isinstance(part, type) and issubclass(part, BaseModel)]
            tagged = [part for part in models if step in _tags(part)]
            block = at = tagged[0] if tagged else models[0] if len(models) == 1 else None
            if tagged:
                continue
        keys = _keys(at) if isinstance(at, type) and issubclass(at, BaseModel) else {}
        inner = [part for part in get_args(at) if part is not Ellipsis] if isinstance(step, int) else []
        at = _bare(keys[str(step)].annotation) if step in keys else _bare(inner[0]) if inner else None
        steps.append(step)
    return tuple(steps), block


def _bare(annotation: Any) -> Any:
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return annotation


def _tags(model: type[BaseModel]) -> tuple[object, ...]:
    """The values of `kind`, or the tag, that stand for this member of a union."""
    tag = getattr(model, "union_tag", None)
    return get_args(model.model_fields["kind"].annotation) if "kind" in model.model_fields else (tag,) if tag else ()


def _keys(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """The fields of a model under the names that a file uses."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _problems(item: Mapping[str, Any], block: Any) -> Iterable[Problem]:
    """Explain one of pydantic's errors."""
    kind, context, value, loc = item["type"], item.get("ctx", {}), item.get("input"), item["loc"]
    if kind == "sudare":
        return tuple(context["problems"])
    last = str(loc[-1]) if loc else ""
    if kind == "missing":
        return [_missing(last, block)]
    if kind == "extra_forbidden":
        return [unknown_key(last, tuple(_keys(block)) if block is not None else ())]
    if kind == "literal_error":
        words = [word.strip(" '") for word in str(context["expected"]).replace(" or ", ",").split(",")]
        choice = _choice(last, block)
        remedy = (nearest(value, words) if isinstance(value, str) else "") or f"write {choice or 'one of these'}"
        return [Problem(show(value), "one of " + ", ".join(words), remedy)]
    if kind == "union_tag_invalid":
        shown, words = str(context["tag"]), [word.strip(" '") for word in context["expected_tags"].split(",")]
        remedy = nearest(shown, words) or "name one of these"
        return [Problem(f"kind {shown!r}", "one of " + ", ".join(words), remedy, ("kind",))]
    if kind == "union_tag_not_found":
        return [Problem("no `kind`", "a `kind:` that says what this is", "add `kind:`")]
    if kind in ("model_type", "model_attributes_type"):
        return [_no_mapping(value, last, block)]
    field = _keys(block)[last] if _has(block, last) else None
    limits = limits_in_words(kind, context, field)
    if limits is not None:
        return [Problem(show(value), limits, without_key(field))]
    if kind in ("tuple_type", "list_type"):
        scalar = isinstance(value, str | int | float) and not isinstance(value, bool)
        return [Problem(show(value), "a list", f"write [{value}]" if scalar and len(str(value)) <= _LONGEST else "")]
    allowed, remedy = _SHAPES.get(kind, (str(item["msg"]).removeprefix("Value error, "), ""))
    return [Problem(show(value), allowed, remedy)]


def _missing(key: str, block: Any) -> Problem:
    """Say that a key is missing, and what it may hold where that is one of a few words."""
    annotation = _keys(block)[key].annotation if _has(block, key) else None
    words = f": {word_list(get_args(annotation))}" if get_origin(annotation) is Literal else ""
    remedy = f"add {_choice(key, block) or f'`{key}:`'}"
    return Problem("nothing", f"the key `{key}`, which is required{words}", remedy)


def _no_mapping(value: object, key: str, block: Any) -> Problem:
    """Say which keys a mapping would have, and which of them takes the word that stands in its place."""
    annotation = _keys(block)[key].annotation if _has(block, key) else None
    members = [_bare(part) for part in get_args(annotation) or (annotation,)]
    keys = next((_keys(part) for part in members if isinstance(part, type) and issubclass(part, BaseModel)), {})
    words = {
        word: name for name, field in keys.items() for word in get_args(field.annotation) if isinstance(word, str)
    }
    required = [name for name, field in keys.items() if field.is_required()] or list(keys)
    close = [word for word in words if isinstance(value, str) and nearest(value, [word])]
    allowed = "a mapping of keys" + (f": {', '.join(keys)}" if keys else "")
    remedy = (
        f"write {{{words[close[0]]}: {close[0]}}}"
        if close
        else f"write its keys: {{{', '.join(f'{k}: ...' for k in required)}}}"
    )
    return Problem(show(value), allowed, remedy if keys else "")


def _choice(key: str, block: Any) -> str | None:
    """Say which of its words a key should hold when, where its field is described so."""
    return _keys(block)[key].description if _has(block, key) else None


def _has(block: Any, key: str) -> bool:
    """Say whether a block is a model with that key, and not a union of models."""
    return isinstance(block, type) and issubclass(block, BaseModel) and key in _keys(block)


_LONGEST = 40
_SHAPES = {"dict_type": ("a mapping of keys", ""), "string_type": ("a text", "put quotes around it")}


_ELSEWHERE: Final = {
    "survey_weight": (
        "write it into a table of `kind: statistics`, beside `of:`; weighted counts are `of: [count]`, and `refine:` "
        "refines them"
    )
}
"""Keys that stand in another place, and what to do."""
_NOT_OF_STATISTICS: Final = {
    "bins": (
        "statistics are by the contract's own cells: make its bins coarser, or publish counts by these bins as "
        "`kind: tables`"
    )
}
"""Keys that a table of statistics, which is the one with `of:`, does not have."""


def unknown_key(key: str, keys: Iterable[str]) -> Problem:
    """Say that a key is unknown, which ones are known, and which one was probably meant."""
    words = tuple(keys)
    elsewhere = _NOT_OF_STATISTICS.get(key) if "of" in words else _ELSEWHERE.get(key)
    remedy = elsewhere or nearest(key, words) or "remove it"
    return Problem(f"the unknown key {key!r}", word_list(words), remedy)
