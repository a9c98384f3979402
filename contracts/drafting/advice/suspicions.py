"""Categories that look as if people had written them: texts, identifiers, two spellings of one thing."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterator, Sequence

LONG = 60
MANY_WORDS = 9
COMPARED = 400
ALIKE = 0.92
_IDENTIFIERS = re.compile(
    r"[^@\s]+@[^@\s]+\.[a-z]{2,}"
    r"|[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"
    r"|\d{1,3}(?:\.\d{1,3}){3}"
    r"|\+?\d(?:[ ()/-]?\d){8,}"
    r"|[a-z]{2}\d{2}[a-z0-9]{11,30}"
    r"|https?://\S+",
    re.IGNORECASE,
)
_NEGATION = re.compile(r"\b(?:non|not|no) ")
_BETWEEN_WORDS = re.compile(r"(?<=[^\W_])[\s_\-./']+(?=[^\W_])")

_ID_NAME = re.compile(
    r"(?i:^(?:id|pid|uid|hhid|uuid|guid|ssn|nin|key|pk)$|[_\- ](?:id|uuid|guid|key|no|nr|number)$)|(?<=[a-z])I[dD]$"
)
_FREE_NAME = re.compile(
    r"(?i)(?:^|[_\- ])(?:comments?|notes?|remarks?|free_?text|message|(?:first|last|family|given|full|sur)_?name|"
    r"e?_?mail|phone|address|street|iban|ip)(?:$|[_\- ])"
)


def names_an_id(name: str) -> bool:
    """Say whether a column's name is that of an id."""
    return _ID_NAME.search(name) is not None


def names_free_text(name: str) -> bool:
    """Say whether a column's name is that of texts which people write: names, addresses, remarks."""
    return _FREE_NAME.search(name) is not None


def looks_identifying(values: Sequence[str]) -> str:
    """Say how many categories look like an identifier or a free text, and which is the first; "" for none.

    They are not quoted: they may be somebody's.
    """
    identifiers = [place for place, value in enumerate(values) if _IDENTIFIERS.fullmatch(value)]
    texts = [place for place, value in enumerate(values) if len(value) > LONG or len(value.split()) >= MANY_WORDS]
    parts = [
        f"{len(places)} of {len(values)} categories that look like {what} (the first is number {places[0] + 1})"
        for places, what in ((identifiers, "identifiers"), (texts, "free texts"))
        if places
    ]
    return "; ".join(parts)


def near_duplicates(values: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield pairs of categories that are probably one: equal but for case, spaces and accents, or for a letter."""
    seen: dict[str, str] = {}
    for value in values:
        folded = _folded(value)
        if folded in seen and any(map(str.isalpha, folded)):
            yield seen[folded], value
        else:
            seen.setdefault(folded, value)
    words = [(folded, value) for folded, value in seen.items() if len(folded) >= 10 and not re.search(r"\d", folded)]
    if len(words) > COMPARED:
        return
    for place, (one, first) in enumerate(words):
        matcher = difflib.SequenceMatcher(b=one, autojunk=False)
        for other, second in words[place + 1 :]:
            if one == _NEGATION.sub("", other) or other == _NEGATION.sub("", one):  # the one denies the other
                continue
            matcher.set_seq1(other)
            if matcher.real_quick_ratio() > ALIKE and matcher.quick_ratio() > ALIKE and matcher.ratio() > ALIKE:
                yield first, second


def _folded(value: str) -> str:
    """Drop case, accents and what separates words."""
    plain = unicodedata.normalize("NFKD", value).casefold()
    return _BETWEEN_WORDS.sub(" ", "".join(char for char in plain if not unicodedata.combining(char))).strip()
