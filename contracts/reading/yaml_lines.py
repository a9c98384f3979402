"""YAML that remembers where everything stands and keeps every scalar as the text that was written.

PyYAML's own construction turns `1e309` into text or infinity and `017` into 15; here a number stays its
digits until the field that wants a number reads them. Built from PyYAML's events, without recursion, so that
a deeply nested file is a finding and not a crash.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from contracts.errors import Finding, Refused
from contracts.reading.scalars import DIRECTION_MARKS, FieldPath, closest, nearest, show

DEEPEST = 50
MOST_NODES = 2_000_000
_LARGEST_BESIDE = 100_000_000  # bytes of a file that is read as YAML
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_INTEGER = re.compile(r"[+-]?[0-9]{1,4000}")
_FLOAT = re.compile(r"[+-]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][+-]?[0-9]+)?")
_DIRECTION = re.compile(f"[{DIRECTION_MARKS}]")
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UNSAVED: ContextVar[Mapping[Path, str]] = ContextVar("unsaved", default={})  # noqa: B039 - never changed in place


@dataclass
class YamlNode:
    """One value with its line: a scalar's text (None for null), a list of nodes, or named nodes."""

    line: int
    text: str | None = None
    plain: bool = False
    items: list[YamlNode] | None = None
    entries: dict[str, tuple[int, YamlNode]] | None = None
    levels: int = 0  # of lists and mappings, its own among them, aliases expanded

    def children(self) -> list[YamlNode]:
        """The nodes directly below."""
        if self.items is not None:
            return self.items
        return [node for _, node in (self.entries or {}).values()]


@dataclass(frozen=True)
class Document:
    """A YAML file whose top level is a mapping."""

    path: Path
    root: YamlNode

    def text(self) -> dict[str, Any]:
        """The tree with every scalar as its text (None for null)."""
        tree: dict[str, Any] = _convert(self.root, typed=False)
        return tree

    def typed(self) -> dict[str, Any]:
        """The tree with unquoted numbers and booleans as such, for readers that want YAML's own types."""
        tree: dict[str, Any] = _convert(self.root, typed=True)
        return tree

    def written(self, at: FieldPath) -> FieldPath:
        """Return a field's path as its writer knows it, where the tree was written out from a shorter form."""
        return at

    def lookup(self, at: FieldPath) -> int:
        """Return the line (from 1) of a field; steps that the file does not have are skipped."""
        node, line = self.root, self.root.line
        for step in at:
            if node.entries is not None and step in node.entries:
                line, node = node.entries[str(step)]
            elif node.items is not None and isinstance(step, int) and step < len(node.items):
                node = node.items[step]
                line = node.line
        return line

    def where(self, at: FieldPath) -> str:
        """Name a field's place for a finding, "file:line"."""
        return f"{shown(self.path)}:{self.lookup(at)}"


def shown(path: Path) -> str:
    """Write a path as a person would: relative where it lies below the current folder."""
    absolute = path.absolute()
    here = Path.cwd()
    return str(absolute.relative_to(here)) if absolute.is_relative_to(here) else str(path)


@contextmanager
def unsaved(texts: Mapping[Path, str]) -> Iterator[None]:
    """Read these texts in place of their files inside the block: what an editor holds and has not saved.

    Any other file has to be a regular one, so that no pipe or device keeps the editor waiting.

    Args:
        texts: of absolute paths; files need not be there.
    """
    before = _UNSAVED.set({path.resolve(): text for path, text in texts.items()})
    try:
        yield
    finally:
        _UNSAVED.reset(before)


def nearest_file(path: Path) -> str:
    """Say which file beside it is probably meant by a path where none is; else that the path is to be checked."""
    stem = path.name.partition(".")[0]  # a suffix alone makes no two names alike
    try:
        there = sorted(each.name for each in path.absolute().parent.iterdir() if each.is_file())
    except OSError:
        return f"check the path: there is no folder {shown(path.parent)}"
    alike = [each for each in there if closest(stem, [each.partition(".")[0]])]
    return nearest(path.name, alike) or "check the path"


def located(path: Path, *, refusal: type[Refused]) -> Document:
    """Read a YAML file with its lines.

    Raises:
        Refused: (of the given type) a missing, empty, unreadable or malformed file, a duplicated key, a tag,
            or a top level that is no mapping; with all findings.
    """
    content = _read(path, refusal)
    builder = _Builder(path)
    builder.look_for_marks(content)
    try:
        for event in yaml.parse(content, Loader=_LOADER):
            builder.take(event)
            if builder.too_deep:
                break
    except yaml.MarkedYAMLError as error:
        mark: Any = error.problem_mark if error.problem_mark is not None else error.context_mark
        line = 1 if mark is None else mark.line + 1
        found = str(error.problem or error.context).removeprefix("found ")
        builder.add(line, "YAML syntax", found, "well-formed YAML", _syntax_hint(error))
    except yaml.reader.ReaderError as error:
        line = content[: int(error.position)].count("\n") + 1
        builder.add(line, "characters", f"the character number {error.character!r}", "printable text")
    return Document(path, builder.finish(refusal))


def _syntax_hint(error: yaml.MarkedYAMLError) -> str:
    if "tab" in str(error.problem) or "start any token" in str(error.problem):
        return (
            "indent with spaces, never with tabs, and put quotes around a text that begins with @, %, ` or the like"
        )
    return "look at this line and the one before: indentation, a missing colon, bracket or quote"


def _read(path: Path, refusal: type[Refused]) -> str:
    """Read the file as UTF-8 text; an unsaved text stands for its file."""
    texts = _UNSAVED.get()
    if texts and (held := texts.get(path.resolve())) is not None:
        return held
    try:
        return _regular(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        where = f"{shown(path)}:{error.object[: error.start].count(bytes([10])) + 1}"
        found = f"the byte 0x{error.object[error.start]:02x} at offset {error.start}"
        finding = Finding(where, "encoding", found, "UTF-8 text", "save the file as UTF-8")
    except FileNotFoundError:
        finding = Finding(shown(path), "file", "no such file", "a YAML file", nearest_file(path))
    except IsADirectoryError:
        finding = Finding(shown(path), "file", "a folder", "a YAML file", "name the file in it")
    except OSError as error:
        finding = Finding(shown(path), "file", error.strerror or str(error), "a readable YAML file", "check the path")
    raise refusal([finding]) from None


def _regular(path: Path) -> bytes:
    """Read a regular file; a pipe is not waited for, and a device not read."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError
        if not stat.S_ISREG(mode):
            raise OSError(0, "no regular file")
        content = file.read(_LARGEST_BESIDE + 1)
    if len(content) > _LARGEST_BESIDE:
        raise OSError(0, f"more than {_LARGEST_BESIDE:,} bytes")
    return content


@dataclass
class _Builder:
    """Builds the tree from the stream of events and collects findings on the way."""

    path: Path
    findings: list[Finding] = field(default_factory=list)
    root: YamlNode | None = None
    too_deep: bool = False
    _open: list[YamlNode] = field(default_factory=list)
    _keys: list[tuple[str, int] | None] = field(default_factory=list)
    _anchors: dict[str, YamlNode] = field(default_factory=dict)
    _documents: int = 0

    def add(self, line: int, rule: str, found: str, allowed: str, remedy: str = "") -> None:
        """Collect one finding."""
        self.findings.append(Finding(f"{shown(self.path)}:{line}", rule, found, allowed, remedy))

    def look_for_marks(self, text: str, first: int = 1) -> None:
        """Refuse direction marks wherever they stand, in comments too: they make a file read otherwise than it is."""
        for found in _DIRECTION.finditer(text):
            line = first + text.count("\n", 0, found.start())
            mark = f"the direction mark U+{ord(found.group()):04X}"
            self.add(line, "characters", mark, "text that reads as it is", "delete the character; it cannot be seen")

    def take(self, event: yaml.Event) -> None:
        """Take the next event of the stream."""
        line = event.start_mark.line + 1 if event.start_mark is not None else 1
        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents == 2:
                self.add(line, "documents", "a second document (---)", "one document", "split the file")
        elif isinstance(event, yaml.CollectionEndEvent):
            closed = self._open.pop()
            self._keys.pop()
            self._deepen(closed, line)
        elif isinstance(event, yaml.AliasEvent):
            self._place(self._alias(str(event.anchor), line))
        elif isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent):
            self._start(event, line)

    def _start(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent, line: int) -> None:
        """Take a scalar, or open a list or a mapping."""
        if event.tag is not None and event.tag != "!":
            self.add(line, "YAML tag", event.tag, "no tags", "remove the tag: each field knows its own type")
        node = YamlNode(line)
        if isinstance(event, yaml.ScalarEvent):
            node.plain = event.style in (None, "")
            if event.style == '"':
                self._look_for_escapes(event.value, line)
            node.text = None if node.plain and event.value in _NULLS else event.value
        elif isinstance(event, yaml.SequenceStartEvent):
            node.items = []
        else:
            node.entries = {}
        self._place(node)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        if not isinstance(event, yaml.ScalarEvent):
            node.levels = 1
            self._deepen(node, line)
            self._open.append(node)
            self._keys.append(None)

    def _deepen(self, node: YamlNode, line: int) -> None:
        """Count what is placed into its parent's levels; refuse more than is worth reading on, aliases expanded."""
        if len(self._open) + node.levels > DEEPEST:
            self.too_deep = True
            self.add(line, "nesting", f"more than {DEEPEST} levels", f"at most {DEEPEST} levels")
        if self._open:
            self._open[-1].levels = max(self._open[-1].levels, node.levels + 1)

    def _look_for_escapes(self, text: str, line: int) -> None:
        """Refuse direction marks that a quoted text writes as escapes; as characters they are found already."""
        if not any(finding.where.endswith(f":{line}") for finding in self.findings):
            self.look_for_marks(text.replace("\n", " "), line)

    def _alias(self, anchor: str, line: int) -> YamlNode:
        """Return what an alias stands for; unknown ones and ones inside themselves are findings."""
        node = self._anchors.get(anchor)
        if node is None or any(node is parent for parent in self._open):
            self.add(line, "YAML alias", f"*{anchor}", "an alias of something complete above it")
            return YamlNode(line)
        self._deepen(node, line)
        return node

    def _place(self, node: YamlNode) -> None:
        """Put a node where it belongs: the root, the next list item, a key, or the value of the last key."""
        if not self._open:
            if self._documents == 1:
                self.root = node
            return
        parent = self._open[-1]
        if parent.items is not None:
            parent.items.append(node)
            return
        entries = parent.entries if parent.entries is not None else {}
        key = self._keys[-1]
        if key is None:
            self._keys[-1] = (self._key(node, entries), node.line)
        else:
            entries.setdefault(key[0], (key[1], node))
            self._keys[-1] = None

    def _key(self, node: YamlNode, entries: dict[str, tuple[int, YamlNode]]) -> str:
        """Read a key; one that is no text, doubled, or a merge is a finding."""
        name = node.text if node.text is not None else "null"
        if node.items is not None or node.entries is not None:
            self.add(node.line, "key", "a list or mapping as a key", "a text as a key")
        elif name == "<<" and node.plain:
            self.add(node.line, "key", "a merge key (<<)", "plain keys", "write the keys out")
        elif name in entries:
            first = entries[name][0]
            self.add(node.line, f"key {name}", f"{show(name)} again (first on line {first})", "each key once")
        return name

    def finish(self, refusal: type[Refused]) -> YamlNode:
        """Return the root, or refuse the file with everything found."""
        root = self.root
        if not self.findings:
            if root is None or (root.plain and root.text is None):
                self.add(1, "file", "an empty file", "a mapping of keys", "name the file that is meant, or write it")
            elif root.entries is None:
                found = "a list" if root.items is not None else "a single text"
                allowed, remedy = "a mapping (key: value lines)", "name a YAML file: SPEC is the release spec"
                self.add(root.line, "top level", found, allowed, remedy)
            elif sum(1 for _ in _nodes(root)) > MOST_NODES:
                self.add(1, "file", "aliases that expand without end", f"at most {MOST_NODES} values")
        if self.findings or root is None:
            raise refusal(self.findings)
        return root


def _nodes(root: YamlNode) -> Iterator[YamlNode]:
    """Walk the tree with aliases expanded, one node past the limit at most."""
    waiting, seen = [root], 0
    while waiting and seen <= MOST_NODES:
        node = waiting.pop()
        seen += 1
        yield node
        waiting.extend(node.children())


def _convert(node: YamlNode, *, typed: bool) -> Any:
    """Turn nodes into plain data."""
    if node.entries is not None:
        return {key: _convert(value, typed=typed) for key, (_, value) in node.entries.items()}
    if node.items is not None:
        return [_convert(item, typed=typed) for item in node.items]
    return _number(node.text) if typed and node.plain and node.text is not None else node.text


def _number(text: str) -> str | int | float | bool:
    """Read an unquoted scalar as YAML's core schema does; anything else stays text."""
    if text in {"true", "True", "TRUE", "false", "False", "FALSE"}:
        return text.lower() == "true"
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text
