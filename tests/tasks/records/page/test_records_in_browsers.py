"""Records and labels in a real Chromium: no line cuts a word, axe-core finds nothing, and there are three layers."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tasks.records.page.language import languages, page_name
from tests.tasks.records.page.conftest import KINDS
from tests.worlds.accessibility import SERIOUS, findings
from tests.worlds.browsers import DESK, OTHER, PHONE, WAYS, Scheme, found_on, looked_at
from tests.worlds.narrow_pages import NARROW, broken_on


@pytest.fixture(scope="module")
def narrow(browser: Browser) -> Iterator[Page]:
    """A page that the tests bring to each width."""
    context = browser.new_context()
    yield context.new_page()
    context.close()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", [*KINDS, "federation"])
def test_the_record_of_each_kind_of_product_stays_whole(narrow: Page, records: dict[str, Path], kind: str):
    """In each language, with its label."""
    found = []
    for name in (*map(page_name, languages()), "label.html"):
        narrow.goto((records[kind] / name).as_uri())
        for width, height in NARROW:
            narrow.set_viewport_size({"width": width, "height": height})
            found += [(name, width, each) for each in broken_on(narrow)]
    assert found == []


@pytest.mark.timeout(900)
def test_the_measure_finds_what_it_is_for(narrow: Page):
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


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", [*KINDS, "federation"])
def test_the_record_of_each_kind_of_product_has_no_findings(browser: Browser, records: dict[str, Path], kind: str):
    """English, light, on a phone."""
    with looked_at(browser, PHONE, "light") as page:
        assert found_on(page, [(records[kind] / "record.html").as_uri()]) == []


@pytest.mark.timeout(900)
def test_a_dark_record_in_another_language_and_the_labels_have_no_findings(
    browser: Browser, records: dict[str, Path]
):
    """Colours and language are those of all kinds; the long test looks at every kind in every way."""
    labels = [(folder / "label.html").as_uri() for folder in records.values()]
    with looked_at(browser, DESK, "dark") as page:
        assert found_on(page, [(records["statistics"] / page_name(OTHER)).as_uri(), *labels]) == []


@pytest.mark.timeout(900)
@pytest.mark.long
@pytest.mark.parametrize(("size", "scheme", "language"), WAYS)
def test_every_record_and_label_has_no_findings_in_every_pair_of_ways(
    browser: Browser, records: dict[str, Path], size: tuple[int, int], scheme: Scheme, language: str
):
    """Small and large, light and dark, in each language."""
    names = (page_name(language), "label.html")
    pages = [(folder / name).as_uri() for folder in records.values() for name in names]
    with looked_at(browser, size, scheme) as page:
        assert found_on(page, pages) == []


@pytest.mark.timeout(900)
def test_the_check_finds_what_it_is_for(browser: Browser):
    """The wrong case: a picture, a link and a page without a name, pale text, and a role that nobody knows."""
    with looked_at(browser, DESK, "light") as page:
        page.set_content("<main><h1>A</h1><img src='data:,'><a href='/x'></a><p style='color: #ccc'>pale</p></main>")
        found = findings(page)
    serious = {rule for impact, rule, _ in found if impact in SERIOUS}
    assert serious == {"image-alt", "link-name", "color-contrast", "document-title", "html-has-lang"}


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


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", [*KINDS, "federation"])
def test_one_screen_four_chapters_and_an_annex(browser: Browser, records: dict[str, Path], kind: str):
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


@pytest.mark.timeout(900)
def test_a_page_with_its_annex_would_not_fit(browser: Browser, records: dict[str, Path]):
    """The wrong case: with all of it open and printed, the sheets are many more."""
    page = opened(browser, records["tables"] / "record.html")
    page.evaluate("document.querySelectorAll('details').forEach((each) => each.open = true)")
    page.add_style_tag(content="@media print { .annex, .last > * { display: block !important } }")
    sheets = len(re.findall(rb"/Type\s*/Page[^s]", page.pdf(prefer_css_page_size=True)))
    page.close()
    assert sheets > SHEETS + 3
