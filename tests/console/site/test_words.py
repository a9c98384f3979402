"""The site's texts: both languages say the same things, and the pages use no others."""

from __future__ import annotations

import re
from pathlib import Path
from string import Formatter

import pytest

import console.site
from console.site import words_en, words_ja
from privacy.ledger.accounts.version_entries import VISIBLE
from privacy.ledger.entries import KINDS

FOLDER = Path(console.site.__file__).parent


def _places(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}


def test_both_languages_have_the_same_texts_with_the_same_places_to_fill() -> None:
    assert list(words_en.TEXTS) == list(words_ja.TEXTS)
    assert [key for key, text in words_en.TEXTS.items() if _places(text) != _places(words_ja.TEXTS[key])] == []


def test_japanese_texts_are_japanese() -> None:
    """A text that is the same in both languages would have been forgotten; names and signs are the exceptions."""
    same = {key for key, text in words_en.TEXTS.items() if text == words_ja.TEXTS[key]}
    assert same == {"fact.epsilon", "fact.delta"}


def test_the_pages_use_the_texts_that_there_are_and_all_of_them() -> None:
    """Every key that a template asks for by name is there, and no text is never asked for."""
    source = "".join(path.read_text() for path in [*FOLDER.glob("templates/*.j2"), *FOLDER.glob("*.py")])
    source = re.sub(r"TEXTS: Final = \{.*?^\}", "", source, flags=re.DOTALL | re.MULTILINE)
    asked = set(re.findall(r'\b(?:t|says)\("([a-z]+\.[a-z_0-9]+)"[,)]', source))
    begun = tuple(re.findall(r'\bt\("([a-z]+\.[a-z_]*)" ~', source))
    assert asked <= set(words_en.TEXTS)
    assert [key for key in words_en.TEXTS if key not in asked and not key.startswith(begun)] == []


@pytest.mark.parametrize(("prefix", "names"), [("kind", KINDS), ("status", VISIBLE)])
def test_every_kind_of_entry_and_every_status_has_a_word(prefix: str, names: tuple[str, ...]) -> None:
    assert [name for name in names if f"{prefix}.{name}" not in words_en.TEXTS] == []
