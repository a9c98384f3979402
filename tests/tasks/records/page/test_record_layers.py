"""The record in three layers, in a real Chromium: one screen, four chapters, and an annex that print leaves out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tasks.records.page.language import languages, page_name
from tests.tasks.records.page.conftest import KINDS

pytestmark = pytest.mark.timeout(900)
SCREEN = {"width": 1280, "height": 900}
PAGES = tuple(map(page_name, languages()))
SHEETS = 2
# What a print shows of the annex, and which chapters it leaves out.
PRINTED = """() => {
  const seen = (each) => each.getClientRects().length > 0;
  return {
    annex: [...document.querySelectorAll('details, .annex')].filter(seen).length,
    chapters: [...document.querySelectorAll('.chapter > h2')].filter(seen).length,
  };
}"""


def opened(browser: Browser, path: Path) -> Page:
    page = browser.new_page(viewport=SCREEN)  # type: ignore[arg-type]
    page.goto(path.as_uri())
    return page


@pytest.mark.parametrize("kind", [*KINDS, "federation"])
def test_one_screen_four_chapters_and_an_annex(browser: Browser, records: dict[str, Path], kind: str) -> None:
    """The first layer ends on the first screen, in each language; on paper the first two are two sheets of A4."""
    for name in PAGES:
        page = opened(browser, records[kind] / name)
        first = page.evaluate("document.querySelector('header').getBoundingClientRect().bottom")
        cells = page.locator("header .glance > div").count()
        chapters = page.locator("main > section.chapter").count()
        folded = page.locator("main details.annex").count()
        page.emulate_media(media="print")
        printed = page.evaluate(PRINTED)
        sheets = len(re.findall(rb"/Type\s*/Page[^s]", page.pdf(prefer_css_page_size=True)))
        page.close()
        assert first <= SCREEN["height"], name
        assert (cells, chapters) == (6, 4), name
        assert folded > 10, name
        assert printed == {"annex": 0, "chapters": 4}, name
        assert sheets <= SHEETS, name


def test_a_page_with_its_annex_would_not_fit(browser: Browser, records: dict[str, Path]) -> None:
    """The wrong case: with all of it open and printed, the sheets are many more."""
    page = opened(browser, records["tables"] / "record.html")
    page.evaluate("document.querySelectorAll('details').forEach((each) => each.open = true)")
    page.add_style_tag(content="@media print { .annex, .last > * { display: block !important } }")
    sheets = len(re.findall(rb"/Type\s*/Page[^s]", page.pdf(prefer_css_page_size=True)))
    page.close()
    assert sheets > SHEETS + 3
