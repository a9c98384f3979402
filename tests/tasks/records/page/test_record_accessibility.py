"""axe-core in a real Chromium finds nothing on a record or a label."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tasks.records.page.language import page_name
from tests.tasks.records.page.conftest import KINDS
from tests.worlds.accessibility import SERIOUS, findings
from tests.worlds.browsers import DESK, OTHER, PHONE, WAYS, Scheme, found_on, looked_at

pytestmark = pytest.mark.timeout(900)


@pytest.mark.parametrize("kind", [*KINDS, "federation"])
def test_the_record_of_each_kind_of_product_has_no_findings(
    browser: Browser,
    records: dict[str, Path],
    kind: str,
) -> None:
    """English, light, on a phone."""
    with looked_at(browser, PHONE, "light") as page:
        assert found_on(page, [(records[kind] / "record.html").as_uri()]) == []


def test_a_dark_record_in_another_language_and_the_labels_have_no_findings(
    browser: Browser, records: dict[str, Path]
) -> None:
    """Colours and language are those of all kinds; the long test looks at every kind in every way."""
    labels = [(folder / "label.html").as_uri() for folder in records.values()]
    with looked_at(browser, DESK, "dark") as page:
        assert found_on(page, [(records["statistics"] / page_name(OTHER)).as_uri(), *labels]) == []


@pytest.mark.long
@pytest.mark.parametrize(("size", "scheme", "language"), WAYS)
def test_every_record_and_label_has_no_findings_in_every_pair_of_ways(
    browser: Browser,
    records: dict[str, Path],
    size: tuple[int, int],
    scheme: Scheme,
    language: str,
) -> None:
    """Small and large, light and dark, in each language."""
    names = (page_name(language), "label.html")
    pages = [(folder / name).as_uri() for folder in records.values() for name in names]
    with looked_at(browser, size, scheme) as page:
        assert found_on(page, pages) == []


def test_the_check_finds_what_it_is_for(browser: Browser) -> None:
    """The wrong case: a picture, a link and a page without a name, pale text, and a role that nobody knows."""
    with looked_at(browser, DESK, "light") as page:
        page.set_content("<main><h1>A</h1><img src='data:,'><a href='/x'></a><p style='color: #ccc'>pale</p></main>")
        found = findings(page)
    serious = {rule for impact, rule, _ in found if impact in SERIOUS}
    assert serious == {"image-alt", "link-name", "color-contrast", "document-title", "html-has-lang"}
