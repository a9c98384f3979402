"""The catalogue of English: no text of a page is missing, none is unused, and it is compiled."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from privacy.ledger.accounts.version_entries import VISIBLE
from privacy.ledger.entries import KINDS, SEALED
from tasks.records.page.language import TEXT
from tests.catalogues import FILES, compiled, texts, told
from tests.source_folders import DELETED

KEYS = {id if isinstance(id, str) else id[0] for _, id in told("en")}


def test_every_text_of_a_page_is_there_and_on_a_page() -> None:
    """But for those of extensions that were deleted."""
    asked, begun, quoted = texts()
    assert {of for of, _ in told("en")} == {TEXT}
    assert asked - KEYS == set()
    assert DELETED or {key for key in KEYS - quoted if not key.startswith(tuple(begun))} == set()


@pytest.mark.parametrize("code", FILES)
def test_what_programs_read_is_what_people_wrote(code: str) -> None:
    """The compiled catalogue is that of the text; `make catalogues` compiles it again."""
    assert FILES[code].with_suffix(".mo").read_bytes() == compiled(code)


@pytest.mark.parametrize(("prefix", "names"), [("kind", set(KINDS) - set(SEALED)), ("status", VISIBLE)])
def test_every_kind_of_entry_that_is_shown_and_every_status_has_a_word(prefix: str, names: Collection[str]) -> None:
    assert {f"{prefix}.{name}" for name in names} - KEYS == set()
