"""The English texts of pages: none is missing, and none is unused."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from privacy.ledger.accounts.version_entries import VISIBLE
from privacy.ledger.entries import KINDS, SEALED
from tasks.records.page.language import english_texts
from tests.catalogues import texts
from tests.source_folders import DELETED

KEYS = {*english_texts()}


def test_every_text_of_a_page_is_there_and_on_a_page() -> None:
    """But for those of extensions that were deleted."""
    asked, begun, quoted = texts()
    assert asked - KEYS == set()
    assert DELETED or {key for key in KEYS - quoted if not key.startswith(tuple(begun))} == set()


@pytest.mark.parametrize(("prefix", "names"), [("kind", set(KINDS) - set(SEALED)), ("status", VISIBLE)])
def test_every_kind_of_entry_that_is_shown_and_every_status_has_a_word(prefix: str, names: Collection[str]) -> None:
    assert {f"{prefix}.{name}" for name in names} - KEYS == set()
