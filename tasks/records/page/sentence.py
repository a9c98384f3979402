"""A sentence of ours with slots: whether a text is that sentence, found in time linear in the text for each slot.

A regular expression with several lazy slots tries exponents of the text's length before it gives up, and texts of a
record are a stranger's. So positions are found from the right: where the last slot may end, then where the one before
it may end, and so on. Read from the left, each slot then takes the least (or the most) that leaves the rest a match.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
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
