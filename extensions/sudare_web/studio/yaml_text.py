"""A YAML text with one place changed: what a form chooses is written there, and all else stays as a person wrote it.

The change is cut into the text at the marks of the parser. The result is read again and has to hold exactly the
wanted tree. Where it does not (anchors, odd layouts), the whole text is written anew, without its comments.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any, Final

import yaml

from contracts.reading.yaml_lines import DEEPEST, MOST_NODES

YamlTree = str | list["YamlTree"] | dict[str, "YamlTree"] | None
YamlStep = str | int
_FAST: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Ten times as fast; where it counts otherwise than Python does, the other one is taken."""
_LONGEST_LINE: Final = 100
_PLAIN: Final = re.compile(r"[A-Za-z0-9<./_][A-Za-z0-9<>./_ -]*|-[0-9.]+(?:\.\.[0-9. a-z]+)?")
_WORDS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})


class NoPlace(LookupError):
    """The text has no such place to change."""


def tree_of(text: str) -> YamlTree:
    """Return what a text holds, each scalar as it is written.

    Raises:
        yaml.YAMLError: it is no YAML, or deeper or larger than a contract may be, its aliases expanded.
    """
    root = _composed(text)
    return {} if root is None else _tree(root)


def with_value(text: str, at: tuple[YamlStep, ...], value: YamlTree) -> str:
    """Return the text with a value at a place; mappings on the way are made.

    Args:
        text: YAML whose top is a mapping.
        at: keys and places in lists; the place behind the last one appends.
        value: of texts, lists and mappings.
    Raises:
        NoPlace: a step leads through a scalar, or past the end of a list.
        yaml.YAMLError: the text is no YAML.
    """
    wanted = tree_of(text)
    at, value = _through_missing(wanted, at, value)
    _put(wanted, at, value)
    root = _composed(text)
    return _checked(None if root is None else _cut_in(text, root, at, value), wanted)


def without(text: str, at: tuple[YamlStep, ...]) -> str:
    """Return the text without what stands at a place; what is not there stays away.

    Raises:
        yaml.YAMLError: the text is no YAML.
    """
    wanted = tree_of(text)
    holder = _at(wanted, at[:-1])
    if not _has(holder, at[-1]):
        return text
    del holder[at[-1]]
    if not holder and len(at) > 1:
        return with_value(text, at[:-1], holder)
    return _checked(_cut_out(text, _composed(text), at), wanted)


@lru_cache(maxsize=8)
def _composed(text: str) -> Any:
    """Return the nodes of a text with their marks, which nobody changes: an answer asks for them several times."""
    _check_bounds(text)
    return yaml.compose(text, Loader=_FAST if text.isascii() else yaml.SafeLoader)


def flow(value: YamlTree) -> str:
    """Write a tree on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_scalar(key)}: {flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(flow(inner) for inner in value) + "]"
    return "null" if value is None else _scalar(value)


def _scalar(text: str) -> str:
    plain = _PLAIN.fullmatch(text) is not None and not text.endswith(" ") and text.casefold() not in _WORDS
    return text if plain else json.dumps(text, ensure_ascii=False)


def _tree(node: Any) -> Any:
    if isinstance(node, yaml.MappingNode):
        return {str(key.value): _tree(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_tree(item) for item in node.value]
    return None if not node.style and node.value in _NULLS else str(node.value)


def _check_bounds(text: str) -> None:
    """Refuse what the reader of contracts refuses, before anything is built that could be without end."""
    known: dict[str, tuple[int, int]] = {}  # values and levels of what an alias can stand for
    around: list[tuple[str | None, int, int]] = [(None, 0, 0)]
    for event in yaml.parse(text, Loader=_FAST):
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in known:
                raise yaml.YAMLError(f"the alias *{event.anchor} of nothing that is complete above it")
            values, levels = known[event.anchor]
        elif isinstance(event, yaml.ScalarEvent):
            values, levels = 1, 0
            _know(known, event.anchor, values, levels)
        elif isinstance(event, yaml.CollectionStartEvent):
            around.append((event.anchor, 1, 0))
            values, levels = 0, 0
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, values, levels = around.pop()
            levels += 1
            _know(known, anchor, values, levels)
        else:
            continue
        anchor, inside, deep = around[-1]
        around[-1] = (anchor, inside + values, max(deep, levels))
        if len(around) - 1 + levels > DEEPEST or inside + values > MOST_NODES:
            raise yaml.YAMLError(f"more than {DEEPEST} levels or {MOST_NODES:,} values, aliases expanded")


def _know(known: dict[str, tuple[int, int]], anchor: str | None, values: int, levels: int) -> None:
    if anchor is not None:
        known[anchor] = (values, levels)


def _has(holder: Any, step: YamlStep) -> bool:
    if isinstance(holder, dict):
        return step in holder
    return isinstance(holder, list) and isinstance(step, int) and 0 <= step < len(holder)


def _at(tree: Any, at: tuple[YamlStep, ...]) -> Any:
    for step in at:
        if not _has(tree, step):
            return None
        tree = tree[step]
    return tree


def _through_missing(tree: Any, at: tuple[YamlStep, ...], value: YamlTree) -> tuple[tuple[YamlStep, ...], YamlTree]:
    """Shorten a path to its first missing step, with the mappings that are missing around the value."""
    for length in range(len(at) - 1):
        holder = _at(tree, at[: length + 1])
        if holder is None:
            for step in reversed(at[length + 1 :]):
                value = [value] if isinstance(step, int) else {step: value}
            return at[: length + 1], value
    return at, value


def _put(tree: Any, at: tuple[YamlStep, ...], value: YamlTree) -> None:
    holder, step = _at(tree, at[:-1]), at[-1]
    if isinstance(holder, list) and step == len(holder):
        holder.append(value)
    elif isinstance(holder, dict) or _has(holder, step):
        holder[step] = value
    else:
        raise NoPlace(".".join(map(str, at)))


def _cut_in(text: str, node: Any, at: tuple[YamlStep, ...], value: YamlTree) -> str | None:
    """Write a value over the one at a place, or behind the last of its neighbours."""
    holder = _node(node, at[:-1])
    pair = _child(holder, at[-1])
    if pair is None:
        return _append(text, holder, at[-1], value)
    key, old = pair
    if key is None:
        return text[: old.start_mark.index] + flow(value) + text[_end(text, old) :]
    colon = text.index(":", key.end_mark.index) + 1
    return f"{text[:colon]} {flow(value)}{text[max(colon, _end(text, old)) :]}"


def _append(text: str, holder: Any, step: YamlStep, value: YamlTree) -> str:
    written = flow(value)
    entry = written if isinstance(holder, yaml.SequenceNode) else f"{_scalar(str(step))}: {written}"
    children = _children(holder)
    if holder.flow_style:
        end = _end(text, children[-1]) if children else holder.start_mark.index + 1
        return text[:end] + (", " if children else "") + entry + text[end:]
    end = text.find("\n", _end(text, children[-1]))
    end = len(text) if end < 0 else end
    indent = " " * holder.start_mark.column
    if isinstance(holder, yaml.SequenceNode):
        return f"{text[:end]}\n{indent}- {entry}{text[end:]}"
    return f"{text[:end]}\n{indent}{_folded(entry, step, value, indent)}{text[end:]}"


def _folded(entry: str, step: YamlStep, value: YamlTree, indent: str) -> str:
    """Write a list that is too long for one line with an item a line."""
    if not isinstance(value, list) or len(indent) + len(entry) <= _LONGEST_LINE:
        return entry
    items = "".join(f"\n{indent}  - {flow(each)}" for each in value)
    return f"{_scalar(str(step))}:{items}"


def _cut_out(text: str, root: Any, at: tuple[YamlStep, ...]) -> str | None:
    """Take an entry out: in one line with its comma, in many with its lines."""
    holder = _node(root, at[:-1])
    pair = _child(holder, at[-1])
    if pair is None:
        return None
    own = pair[0] if pair[0] is not None else pair[1]
    start, end = own.start_mark.index, _end(text, pair[1])
    starts = [each.start_mark.index for each in _starts(holder)]
    ends = [_end(text, each) for each in _children(holder)]
    place = starts.index(start)
    if holder.flow_style:
        first, last = (ends[place - 1], end) if place else (start, starts[1])
        return text[:first] + text[last:]
    begin = text.rfind("\n", 0, start) + 1
    lead = text[begin:start]
    if lead.strip() not in ("", "-") or (lead.strip() == "-" and isinstance(holder, yaml.MappingNode)):
        return None
    stop = text.find("\n", end)
    return text[:begin] + ("" if stop < 0 else text[stop + 1 :])


def _node(node: Any, at: tuple[YamlStep, ...]) -> Any:
    for step in at:
        pair = _child(node, step)
        if pair is None:
            raise NoPlace(".".join(map(str, at)))
        node = pair[1]
    return node


def _child(node: Any, step: YamlStep) -> tuple[Any, Any] | None:
    """Return the key node (None in a list) and the value node of a step."""
    if isinstance(node, yaml.MappingNode):
        return next(((key, value) for key, value in node.value if key.value == step), None)
    inside = isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value)
    return (None, node.value[step]) if inside else None


def _children(node: Any) -> list[Any]:
    return [value for _, value in node.value] if isinstance(node, yaml.MappingNode) else list(node.value)


def _starts(node: Any) -> list[Any]:
    return [key for key, _ in node.value] if isinstance(node, yaml.MappingNode) else list(node.value)


def _end(text: str, node: Any) -> int:
    """Return where a value ends; the parser's mark of a block lies behind the comments that follow it."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        return _end(text, _children(node)[-1])
    return (
        len(text[: node.end_mark.index].rstrip())
        if node.end_mark.index > node.start_mark.index
        else int(node.end_mark.index)
    )


def _checked(text: str | None, wanted: YamlTree) -> str:
    """Return the text if it holds the wanted tree; else write that tree as a whole."""
    try:
        if text is not None and tree_of(text) == wanted:
            return text
    except yaml.YAMLError:
        pass
    lines = [_block(key, value) for key, value in wanted.items()] if isinstance(wanted, dict) else [flow(wanted)]
    return "\n".join(lines) + "\n"


def _block(key: str, value: YamlTree) -> str:
    """Write an entry of the top: its own entries on a line each."""
    if isinstance(value, dict) and value:
        return "\n".join(
            [f"{_scalar(key)}:", *(f"  {_scalar(each)}: {flow(inner)}" for each, inner in value.items())]
        )
    return f"{_scalar(key)}: {flow(value)}"
