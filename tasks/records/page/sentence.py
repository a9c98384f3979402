"""A sentence of ours with slots: whether a text is that sentence, found in time linear in the text for each slot.

A regular expression with several lazy slots tries exponents of the text's length before it gives up, and texts of a
record are a stranger's. So positions are found from the right: where the last slot may end, then where the one before
it may end, and so on. Read from the left, each slot then takes the least (or the most) that leaves the rest a match.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Final

NUMBER: Final = re.compile(r"[-−±+\d.,×%<>e/ ]+")
"""What a slot {n#} takes: a number, however it is written."""
SLOT: Final = re.compile(r"\{(\w+)([#+!]?)\}")
"""A slot {n} takes as little as it can, {n#} a number, {n+} as much as it can (a publisher's words may hold the very
words that follow), and {n!} a clause of ours: where that has no translation, the whole sentence has none."""


@dataclass(frozen=True)
class TranslatedSentence:
    """A sentence that the record may hold, and its translation.

    Args:
        texts: what stands before, between and after the slots; one more than there are slots.
        slots: name and sign of each slot.
        to: the translation, with the same slots.
    """

    texts: tuple[str, ...]
    slots: tuple[tuple[str, str], ...]
    to: str

    @property
    def clauses(self) -> frozenset[str]:
        """The slots that are clauses of ours."""
        return frozenset(name for name, sign in self.slots if sign == "!")

    def match(self, text: str) -> dict[str, str] | None:
        """Return what fills the slots; None where the text is not this sentence."""
        if not text.startswith(self.texts[0]) or not text.endswith(self.texts[-1]):
            return None
        ends = [[len(text) - len(self.texts[-1])]]
        for place in range(len(self.slots) - 1, 0, -1):  # where the slot before each inner text may end
            ends.append(list(self._ends(text, place, ends[-1])))
        found, start = {}, len(self.texts[0])
        for place, (name, sign) in enumerate(self.slots):
            end = _end(text, start, sign, ends[-1 - place])
            if end is None:
                return None
            found[name], start = text[start:end], end + len(self.texts[place + 1])
        return found

    def _ends(self, text: str, place: int, following: list[int]) -> Iterator[int]:
        """Yield where the slot before an inner text may end, so that all that follows is a match."""
        inner, sign = self.texts[place], self.slots[place][1]
        at = text.find(inner, len(self.texts[0]) + 1)
        while at >= 0:
            if _end(text, at + len(inner), sign, following) is not None:
                yield at
            at = text.find(inner, at + 1)


def _end(text: str, start: int, sign: str, ends: list[int]) -> int | None:
    """Choose where a slot ends that begins at a place, among the places where it may end."""
    place = bisect_right(ends, start)
    if place == len(ends):
        return None
    if sign == "#":
        return ends[place] if NUMBER.fullmatch(text, start, ends[place]) else None
    return ends[-1 if sign == "+" else place]


def sentence(source: str, to: str) -> TranslatedSentence:
    """Read a sentence with slots."""
    parts = SLOT.split(source)
    return TranslatedSentence(tuple(parts[::3]), tuple(zip(parts[1::3], parts[2::3], strict=True)), to)


LONGEST: Final = 4000
"""Longer texts are a publisher's own: no sentence of ours is as long."""
MOST_PIECES: Final = 60
_ENDS: Final = re.compile(r"(?<=[.;:]) (?=\S)")


@dataclass(frozen=True)
class WrittenSentences:
    """Sentences that are read from a record, as texts.

    Args:
        sentences: English sentences with slots, and their translations.
        spend: takes note of work, in terms, before it is done; it may raise, and so bound it.
    """

    sentences: tuple[tuple[str, str], ...]
    spend: Callable[[int], None]

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

    def plain(self, text: str) -> str:
        """Translate a text as far as its sentences are ours."""
        return "".join(part for part, _ in self.parts(text))

    def parts(self, text: str) -> list[tuple[str, bool]]:
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
                return [(first, True), *self.parts(" ".join(pieces[cut:]))]
        return [(f"{pieces[0]} ", False), *self.parts(" ".join(pieces[1:]))]

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


@cache
def written_sentences(code: str, spend: Callable[[int], None]) -> WrittenSentences:
    """Read the sentences of a language."""
    pairs = json.loads(Path(__file__).with_name(f"sentences.{code}.json").read_text(encoding="utf-8"))
    return WrittenSentences(tuple((source, to) for source, to in pairs), spend)
