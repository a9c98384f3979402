"""The ids of the catalogues of messages, read from the source; `python -m tests.catalogues` brings them up to date.

A sentence is a constant first argument of `message`, `plural`, or one of the constructors that make a message of it.
A text of a page is `t("key")` in a template, or `text("key")` in a module. A code, such as `add_remove`, is a text
that stands in a module as it is.
"""

import ast
import io
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from privacy.games import results
from tests.source_folders import EXTENSIONS, FOLDERS, ROOT

SENTENCES: Final[dict[str, tuple[int, ...]]] = {
    "message": (0,),
    "public": (1,),
    "auditor": (1,),
    "declares": (1,),
    "unsourced": (1, 2),
    "Limit": (1, 2),
    "FieldGroup": (1,),
}
"""Which arguments of a call are sentences."""
FILES: Final = {path.stem: path for name in EXTENSIONS for path in sorted((ROOT / "extensions" / name).glob("*.po"))}
"""The catalogue of each language, as people write it."""
_TEXT: Final = re.compile(r"""\b(?:tn?|texts?|says)\(\s*["']([\w.]+)["'](\s*~)?""")

_QUOTED: Final = re.compile(r"""["']([\w.]+)["']""")

Id = str | tuple[str, str]
Entry = tuple[str, Id]
"""Context, empty for a sentence, and id."""


def sentences() -> dict[Id, str]:
    """Return the ids of sentences, pairs for those with a plural, and the module of each."""
    return {id: str(path.relative_to(ROOT)) for path, nodes in modules() for id in _of_calls(nodes)}


@cache
def modules() -> tuple[tuple[Path, tuple[ast.Call | ast.Constant, ...]], ...]:
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    trees = ((path, ast.walk(ast.parse(path.read_text(encoding="utf-8")))) for path in paths)
    return tuple(
        (path, tuple(node for node in nodes if isinstance(node, ast.Call | ast.Constant))) for path, nodes in trees
    )


def _of_calls(nodes: Iterable[ast.AST]) -> Iterator[Id]:
    for node in nodes:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        texts = [_constant(argument) for argument in node.args]
        if node.func.id == "plural" and texts[0] is not None and texts[1] is not None:
            yield texts[0], texts[1]
        if node.func.id in SENTENCES:
            reasons = [_constant(word.value) for word in node.keywords if word.arg == "absent"]
            found = [text for place, text in enumerate(texts) if place in SENTENCES[node.func.id]]
            yield from (text for text in (*found, *reasons) if text)


def _constant(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def constants() -> set[str]:
    """Return every text that stands in a module as it is: codes, and names of fields and of parts of values."""
    nodes = (node for _, nodes in modules() for node in nodes)
    words = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return words | {word.replace("_", " ") for word in words}


def stored() -> tuple[set[str], set[str]]:
    """Return the names and the sentences in the stored results of games and attacks, which a record quotes."""
    names: set[str] = set()
    said: set[str] = set()
    parts: list[Any] = [results.stored()]
    while parts:
        part = parts.pop()
        if isinstance(part, dict):
            names |= part.keys()
            parts += part.values()
        elif isinstance(part, list):
            parts += part
        elif isinstance(part, str) and " " in part:
            said.add(part)
    return names, said


def texts() -> tuple[set[str], set[str], set[str]]:
    """Return the keys that pages ask for, the beginnings of keys that are put together, and all that is quoted."""
    asked, begun, quoted = set(), set(), set()
    for folder in FOLDERS:
        for path in [*(ROOT / folder).rglob("*.j2"), *(ROOT / folder).rglob("*.py")]:
            source = path.read_text(encoding="utf-8")
            quoted |= set(_QUOTED.findall(source))
            for key, rest in _TEXT.findall(source):
                (begun if rest else asked).add(key)
    return asked, begun, quoted


class Entries(Catalog):
    """A catalogue whose header names the language and nothing of who wrote it when."""

    @property
    def mime_headers(self) -> list[tuple[str, str]]:  # type: ignore[override]
        return [
            ("Language", str(self.locale_identifier)),
            ("Plural-Forms", self.plural_forms),
            ("Content-Type", "text/plain; charset=utf-8\n"),
        ]


def catalogue(code: str) -> Entries:
    """Read a language's catalogue, as translators write it."""
    entries = Entries(code, header_comment="", fuzzy=False)
    with FILES[code].open("rb") as file:
        for entry in read_po(file, locale=code):
            if entry.id:
                entries.add(entry.id, entry.string, context=entry.context)
    return entries


def told(code: str) -> dict[Entry, tuple[str, ...]]:
    return {
        (entry.context or "", entry.id if isinstance(entry.id, str) else tuple(entry.id)): forms(entry.string)
        for entry in catalogue(code)
        if entry.id
    }


def forms(text: str | Iterable[str]) -> tuple[str, ...]:
    return (text,) if isinstance(text, str) else tuple(text)


def compiled(code: str) -> bytes:
    """Compile a language's catalogue into the form that programs read."""
    content = io.BytesIO()
    write_mo(content, catalogue(code))
    return content.getvalue()


def write(entries: Entries, code: str) -> None:
    """Write a catalogue in both forms, sorted, so that changes of two people meet rarely."""
    with FILES[code].open("wb") as file:
        write_po(file, entries, width=0, sort_output=True)
    FILES[code].with_suffix(".mo").write_bytes(compiled(code))


def update() -> None:
    """Take out the sentences that nothing says any more."""
    said, words = sentences(), constants() | stored()[1]
    for code in FILES:
        entries = catalogue(code)
        for entry in list(entries):
            if entry.id and not entry.context and entry.id not in said and entry.id not in words:
                entries.delete(entry.id)
        write(entries, code)


if __name__ == "__main__":
    update()
