"""The languages of pages: one catalogue of messages a language, in the form of GNU gettext.

A catalogue has the texts of pages by key (context "text"), the names of a record's fields ("field") and of the parts
of values ("part"), and without a context the sentences and codes of ours by their English. What is no message of
ours, such as a publisher's own words, stays as it is and is marked with its language. Translators write `ja.po`;
`make catalogues` compiles it into `ja.mo`, which the standard library reads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from gettext import GNUTranslations, NullTranslations
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal

from markupsafe import Markup, escape

from contracts.message import JoinedTexts, Message
from tasks.records.charts.drawing import Drawing

CATALOGUES: Final = Path(__file__).parent / "catalogues"
Code = Literal["en", "ja"]
LANGUAGES: Final[tuple[Code, ...]] = ("en", "ja")
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
class Language:
    """One language of pages.

    Args:
        code: BCP 47 tag.
        catalogue: its messages; looking up what is not there raises `LookupError`.
    """

    code: Code
    catalogue: NullTranslations

    @property
    def own(self) -> bool:
        """Whether this is the language that messages are written in."""
        return self.code == "en"

    def text(self, key: str, /, **slots: Any) -> Markup:
        """Return a text of a page; what fills its slots is escaped unless it is markup."""
        return Markup(self.catalogue.pgettext(TEXT, key)).format(**self._filled(slots))

    def texts(self, key: str, number: int, /, **slots: Any) -> Markup:
        """Return a text of a page in the form that a number asks for."""
        return Markup(self.catalogue.npgettext(TEXT, key, key, number)).format(**self._filled(slots))

    def field(self, name: str) -> str:
        """Name a field as words."""
        return spaced(name) if self.own else self.catalogue.pgettext(FIELD, name)

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


@cache
def language(code: Code) -> Language:
    """Read a language's catalogue."""
    with (CATALOGUES / f"{code}.mo").open("rb") as file:
        catalogue = GNUTranslations(file)
    catalogue.add_fallback(_Missing())
    return Language(code, catalogue)
