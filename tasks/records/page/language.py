"""The languages of pages: English, and those that extensions bring (`sudare.languages`), in catalogues of gettext.

A catalogue has the texts of pages by key (context "text"), the names of a record's fields ("field") and of the parts
of values ("part"), and without a context the sentences and codes of ours by their English. What is no message of
ours, such as a publisher's own words, stays as it is and is marked with its language. What a catalogue lacks is shown
in English. `english.json` has the texts of pages by key; sentences are English as they stand in the source.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from gettext import GNUTranslations, NullTranslations
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup, escape

from contracts import plug_ins
from contracts.errors import Finding, SpecRefused
from contracts.message import JoinedTexts, Message
from tasks.records.charts.charts import Drawing

_TEXTS: Final = Path(__file__).parent / "english.json"
GROUP: Final = "sudare.languages"
ENGLISH: Final = "en"
TEXT: Final = "text"
FIELD: Final = "field"
PART: Final = "part"


class _Missing(NullTranslations):
    """Stands behind a catalogue, and says that it lacks an id."""

    def gettext(self, message: str) -> str:
        raise LookupError(message)

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        raise LookupError(msgid1)

    def pgettext(self, context: str, message: str) -> str:
        raise LookupError(message)

    def npgettext(self, context: str, msgid1: str, msgid2: str, n: int) -> str:
        raise LookupError(msgid1)


@dataclass(frozen=True)
class Translation:
    """What an extension registers under a language's code.

    Args:
        name: the language's own name.
        catalogue: its compiled catalogue.
        sheet: the style sheet that comes after those of English pages: fonts, and rules for lines.
    """

    name: str
    catalogue: Path
    sheet: Path


@dataclass(frozen=True)
class Language:
    """One language of pages.

    Args:
        code: BCP 47 tag.
        name: its own name.
        catalogue: its messages; looking up a sentence that is not there raises `LookupError`.
        sheets: its style sheets, besides those of English pages.
    """

    code: str
    name: str
    catalogue: NullTranslations
    sheets: tuple[Path, ...] = ()

    @property
    def own(self) -> bool:
        """Whether this is the language that messages are written in."""
        return self.code == ENGLISH

    def text(self, key: str, /, **slots: Any) -> Markup:
        """Return a text of a page; what fills its slots is escaped unless it is markup."""
        try:
            told = self.catalogue.pgettext(TEXT, key)
        except LookupError:
            told = english_texts()[key][0]
        return Markup(told).format(**self._filled(slots))

    def texts(self, key: str, number: int, /, **slots: Any) -> Markup:
        """Return a text of a page in the form that a number asks for."""
        try:
            told = self.catalogue.npgettext(TEXT, key, key, number)
        except LookupError:
            told = english_texts()[key][number != 1]
        return Markup(told).format(**self._filled(slots))

    def field(self, name: str) -> str:
        """Name a field as words."""
        try:
            return spaced(name) if self.own else self.catalogue.pgettext(FIELD, name)
        except LookupError:
            return spaced(name)

    def part(self, name: str) -> str:
        """Name a part of a value; what the catalogue does not know is a name of its own, such as a column's."""
        try:
            return spaced(name) if self.own else self.catalogue.pgettext(PART, name)
        except LookupError:
            return name

    def say(self, value: object) -> Markup:
        """Write a message, or another text, in this language; what is not in it is marked."""
        return self._written(value, self._quoted)

    def plain(self, value: object) -> str:
        """Write a message, or another text, in this language without marks: for a drawing, or an attribute."""
        return self._written(value, escape).unescape()

    def drawn(self, drawing: Drawing) -> Markup:
        """Write the words of a drawing into it."""
        return Markup(drawing.template).format(*(self.plain(words) for words in drawing.words))

    def _filled(self, slots: dict[str, Any]) -> dict[str, Any]:
        return {name: self.say(value) if isinstance(value, Message) else value for name, value in slots.items()}

    def _looked_up(self, text: str) -> str:
        """Look up a text that is a message as it stands, such as a code or a note that was read from a file."""
        return text if self.own else self.catalogue.gettext(text)

    def _template(self, value: Message) -> str:
        """Return the template of a message in this language, in the form that its number asks for."""
        try:
            if value.many is not None:
                return self.catalogue.ngettext(value.template, value.many, value.number)
            return self.catalogue.gettext(value.template)
        except LookupError:
            return value.template if value.many is None or value.number == 1 else value.many

    def _written(self, value: object, quote: Callable[[str], Markup]) -> Markup:
        """Write a message, or another text; words that are not ours as `quote` writes them."""
        if not isinstance(value, Message):
            try:
                return escape(self._looked_up(str(value)))
            except LookupError:
                return quote(str(value))
        template = escape(self._template(value))
        filled = {name: self._parameter(parameter, quote) for name, parameter in value.parameters.items()}
        return template.format(**filled) if filled else template

    def _parameter(self, parameter: object, quote: Callable[[str], Markup]) -> Markup:
        """Write a parameter; one that is no message is a name, a number, or somebody's words."""
        if isinstance(parameter, JoinedTexts):
            parts = (self._parameter(part, quote) for part in parameter.parts)
            return escape(self._template(parameter.separator)).join(parts)
        return self._written(parameter, quote) if isinstance(parameter, Message) else quote(str(parameter))

    def _quoted(self, text: str) -> Markup:
        """Write words that are not ours; English ones are marked, names and numbers need no mark."""
        words = [word.rstrip(".") for word in text.split()]
        prose = any(
            len(one) > 1 < len(other) and (one + other).isalpha() and other.islower()
            for one, other in pairwise(words)
        )
        if self.own or not text.isascii() or not prose:
            return escape(text)
        return Markup('<span lang="en">{}</span>').format(text)


def spaced(name: str) -> str:
    """Write a field's name as words; the name of a draw, such as table:age_x_sex, stays as it is."""
    return name if ":" in name else name.replace("_", " ")


def languages() -> tuple[str, ...]:
    """Return the codes of the languages that are here, English first.

    Only an extension of this repository adds one: what renders a version counts into the digest of its code.
    """
    known = plug_ins.OF_EXTENSIONS[GROUP]
    return (ENGLISH, *(code for code in sorted(known) if plug_ins.absent_extension(GROUP, code) is None))


def absence(code: str) -> str | None:
    """Say what a language needs that is not installed; None where it is here."""
    extension = plug_ins.absent_extension(GROUP, code)
    return None if extension is None else f"{code} needs the extension {extension}, which is not installed"


def page_name(code: str) -> str:
    """Return the name of a version's page in a language."""
    return "record.html" if code == ENGLISH else f"record.{code}.html"


def other_pages(code: str) -> list[tuple[str, str, str]]:
    """Return code, name and page of each language that is here but this one."""
    return [(other, language(other).name, page_name(other)) for other in languages() if other != code]


@cache
def language(code: str) -> Language:
    """Read a language's catalogue.

    Raises:
        SpecRefused: its extension is not installed.
    """
    if code == ENGLISH:
        return Language(code, "English", _Missing())
    found = plug_ins.find(GROUP, {}, code)
    if found is None:
        raise SpecRefused([Finding("language", code, absence(code) or code, ", ".join(languages()), "install it")])
    translation = found.load(Translation)
    with translation.catalogue.open("rb") as file:
        catalogue = GNUTranslations(file)
    catalogue.add_fallback(_Missing())
    return Language(code, translation.name, catalogue, (translation.sheet,))


@cache
def english_texts() -> dict[str, tuple[str, ...]]:
    """Return the texts of pages in English by their keys: one, or one for the number 1 and one for all others."""
    written = json.loads(_TEXTS.read_text(encoding="utf-8"))
    return {key: (told,) if isinstance(told, str) else tuple(told) for key, told in written.items()}
