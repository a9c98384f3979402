"""On a phone no line cuts a word of a record or a label, and neither is wider than its window."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tasks.records.page.language import languages, page_name
from tests.tasks.records.page.conftest import KINDS
from tests.worlds.narrow_pages import NARROW, broken_on

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def narrow(browser: Browser) -> Iterator[Page]:
    """A page that the tests bring to each width."""
    context = browser.new_context()
    yield context.new_page()
    context.close()


@pytest.mark.parametrize("kind", [*KINDS, "federation"])
def test_the_record_of_each_kind_of_product_stays_whole(
    narrow: Page,
    records: dict[str, Path],
    kind: str,
) -> None:
    """In each language, with its label."""
    found = []
    for name in (*map(page_name, languages()), "label.html"):
        narrow.goto((records[kind] / name).as_uri())
        for width, height in NARROW:
            narrow.set_viewport_size({"width": width, "height": height})
            found += [(name, width, each) for each in broken_on(narrow)]
    assert found == []


def test_the_measure_finds_what_it_is_for(narrow: Page) -> None:
    """The wrong cases: a link cut in its cell, a Japanese head on end, a block that is too wide; and none."""
    narrow.set_viewport_size({"width": 360, "height": 780})
    narrow.set_content(
        "<table><tr><td><a style='display: block; width: 1.5em; overflow-wrap: anywhere'>table</a></td>"
        "<th style='width: 1em'>公表物</th><td>ab/cd12.parquet</td></tr></table><div style='width: 500px'>x</div>"
    )
    cut = broken_on(narrow)
    assert cut[:2] == ["table", "公表物"]
    assert [each for each in cut[2:] if not each.endswith(" px wider than the window")] == []
    assert len(cut) == 4
    narrow.set_content("<p>adult-tables of a whole page, whose words have room</p><table><th>公表物</th></table>")
    assert broken_on(narrow) == []
