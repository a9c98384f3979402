"""The languages of the record's page: texts of the page by key, names of fields, sentences of the record's values.

The record itself is written once, in English. For another language a catalogue has the page's own texts under the
same keys, a name and a meaning for every field, and the sentences that our code writes into records, with slots for
what differs ("{n} cells"). A value that no sentence fits, such as a publisher's own words, stays as it is and is
marked with its language.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final, Literal

from markupsafe import Markup, escape

from tasks.records.page.sentence import SLOT, TranslatedSentence, sentence

FOLDER: Final = Path(__file__).parent
Code = Literal["en", "ja"]
LANGUAGES: Final[tuple[Code, ...]] = ("en", "ja")
LONGEST: Final = 4000
"""Longer texts are a publisher's own: no sentence of ours is as long."""
MOST_PIECES: Final = 60
_WORDS: Final = re.compile(r"[A-Za-z]{2,} [a-z]{2,}")
_ENDS: Final = re.compile(r"(?<=[.;:]) (?=\S)")
_IN_DRAWING: Final = re.compile(r'(?<=aria-label=")[^"]*(?=")|(?<=>)[^<>]+(?=</text>)')


def unbounded(terms: int) -> None:
    """Take note of no work."""


@dataclass(frozen=True)
class Language:
    """One language of the page.

    Args:
        code: BCP 47 tag.
        texts: texts of the page by key; may hold HTML, and slots in braces.
        fields: name and meaning of each field, by "identity.title"; of the record's own language none.
        keys: names of the parts of values.
        sentences: English sentences with slots, and their translations.
        spend: takes note of work, in terms, before it is done; it may raise, and so bound it.
    """

    code: Code
    texts: Mapping[str, str]
    fields: Mapping[str, tuple[str, str]]
    keys: Mapping[str, str]
    sentences: tuple[tuple[str, str], ...]
    spend: Callable[[int], None] = unbounded

    @property
    def own(self) -> bool:
        """Whether this is the language that records are written in."""
        return self.code == "en"

    @cached_property
    def _exact(self) -> dict[str, str]:
        return {source: to for source, to in self.sentences if not SLOT.search(source)}

    @cached_property
    def _patterns(self) -> tuple[TranslatedSentence, ...]:
        """The sentences with slots, those that say most first."""
        slotted = [pair for pair in self.sentences if SLOT.search(pair[0])]
        return tuple(sentence(*pair) for pair in sorted(slotted, key=lambda pair: -len(SLOT.sub("", pair[0]))))

    @cached_property
    def _by_letter(self) -> dict[str, tuple[TranslatedSentence, ...]]:
        """The sentences that a text may be, by its first letter; under no letter those that begin with a slot."""
        letters = {form.texts[0][:1] for form in self._patterns} | {""}
        return {
            letter: tuple(form for form in self._patterns if form.texts[0][:1] in ("", letter)) for letter in letters
        }

    def text(self, key: str, /, **slots: Any) -> Markup:
        """Return a text of the page; what fills its slots is escaped unless it is markup."""
        return Markup(self.texts[key]).format(**slots)

    def name(self, section: str, name: str) -> str:
        """Name a field as words; the name of a draw, such as table:age_x_sex, stays as it is."""
        known = self.fields.get(f"{section}.{name}")
        return spaced(name) if known is None else known[0]

    def means(self, section: str, name: str, means: str) -> Markup:
        """Say what a field means."""
        known = self.fields.get(f"{section}.{name}")
        return self.say(means) if known is None else escape(known[1])

    def key(self, name: str) -> str:
        """Name a part of a value; what the catalogue does not know is a name of its own, such as a column's."""
        return self.keys.get(name, spaced(name) if self.own else name)

    def say(self, value: object) -> Markup:
        """Write a text of the record in this language; what cannot be translated is marked as English."""
        text = str(value)
        if self.own:
            return escape(text)
        parts = (_marked(part, translated) for part, translated in self._parts(text))
        return Markup("").join(parts)

    def plain(self, value: object) -> str:
        """Write a text of the record in this language, without marks: for a drawing's description."""
        text = str(value)
        return text if self.own else "".join(part for part, _ in self._parts(text))

    def drawn(self, drawing: Markup) -> Markup:
        """Write a drawing's description and the texts in it in this language."""
        if self.own:
            return drawing
        return Markup(_IN_DRAWING.sub(lambda found: str(escape(self.plain(_read(found.group())))), str(drawing)))

    def _parts(self, text: str) -> list[tuple[str, bool]]:
        """Translate a text, whole or sentence by sentence: parts, and whether each was translated."""
        if len(text) > LONGEST:
            return [(text, False)]
        whole = self.translate(text)
        if whole is not None:
            return [(whole, True)]
        pieces = _ENDS.split(text)
        if not 1 < len(pieces) <= MOST_PIECES:
            return [(text, False)]
        for cut in range(len(pieces) - 1, 0, -1):
            first = self.translate(" ".join(pieces[:cut]))
            if first is not None:
                return [(first, True), *self._parts(" ".join(pieces[cut:]))]
        return [(f"{pieces[0]} ", False), *self._parts(" ".join(pieces[1:]))]

    def translate(self, text: str) -> str | None:
        """Translate one sentence; None where none of the catalogue fits."""
        if text in self._exact:
            return self._exact[text]
        likely = self._by_letter.get(text[:1], self._by_letter[""])
        self.spend(len(likely))
        for form in likely:
            if not text.startswith(form.texts[0]):
                continue
            self.spend(len(text) * len(form.texts))
            filled = form.match(text)
            if filled is None or any(self.translate(filled[name]) is None for name in form.clauses):
                continue
            return form.to.format(**{name: self.plain(value) for name, value in filled.items()})
        return None


def _marked(text: str, translated: bool) -> Markup:
    """Mark English prose as such; names, numbers and other scripts need no mark."""
    if translated or not text.isascii() or not _WORDS.search(text):
        return escape(text)
    return Markup('<span lang="en">{}</span>').format(text)


def _read(text: str) -> str:
    """Undo the escaping of a text in a drawing."""
    return Markup(text).unescape()


def spaced(name: str) -> str:
    """Write a field's name as words; the name of a draw, such as table:age_x_sex, stays as it is."""
    return name if ":" in name else name.replace("_", " ")


@cache
def language(code: Code) -> Language:
    """Read a language's catalogue."""
    texts = _read_json(f"texts.{code}.json")
    if code == "en":
        return Language(code, texts, {}, {}, ())
    fields = {path: (name, means) for path, (name, means) in _read_json(f"fields.{code}.json").items()}
    sentences = tuple((source, to) for source, to in _read_json(f"sentences.{code}.json"))
    return Language(code, texts, fields, _read_json(f"keys.{code}.json"), sentences)


def _read_json(name: str) -> Any:
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))
