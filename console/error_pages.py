"""What each kind of error means, what it cost, and what to do: sections of `error_pages.md`, by their codes.

A code is the name of the error's class in lower case with hyphens: `budget-exceeded`. docs/errors.md has the
same text. Those of an extension are in its `README.md`, a level deeper.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from typing import Final

from contracts.errors import SudareError
from contracts.plug_ins import OF_EXTENSIONS

_WORDS: Final = re.compile(r"(?<!^)(?=[A-Z])")
_SECTION: Final = re.compile(r"^###? ([a-z-]+)\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)


def code_of(error: type[SudareError]) -> str:
    """Return the code of a kind of error."""
    return _WORDS.sub("-", error.__name__).lower()


@cache
def error_pages() -> dict[str, str]:
    """Return what the manual says of each kind of error, by its code; Markdown."""
    extensions = sorted({name for names in OF_EXTENSIONS.values() for name in names.values() if find_spec(name)})
    places = [files("console") / "error_pages.md", *(files(name) / "README.md" for name in extensions)]
    sections = (section for place in places for section in _SECTION.findall(place.read_text(encoding="utf-8")))
    return {code: body.strip() for code, body in sections}


def spelled_code(written: str) -> str:
    """Return a code as the manual spells it, of one that was copied from JSON too: `BudgetExceeded`."""
    return _WORDS.sub("-", written.strip()).lower()
