"""axe-core in a real Chromium finds nothing on any page of the site, the record or the label."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page

from tests.console.site.conftest import Served
from tests.console.site.test_browser import DESK, LONG, PHONE, browser, served  # noqa: F401  (fixtures)
from tests.console.site.test_pages import PAGES
from tests.worlds.accessibility import SERIOUS, findings
from tests.worlds.classifiers import dp_sgd
from tests.worlds.federated_runs import released
from tests.worlds.federations import TABLES
from tests.worlds.hierarchies import nested
from tests.worlds.once import once
from tests.worlds.pictures import PictureScenario
from tests.worlds.sparse_tables import small
from tests.worlds.statistics import gaussian
from tests.worlds.synthetic_rows import aim
from tests.worlds.tables import second
from tests.worlds.versions import AnyScenario, Worlds

pytestmark = pytest.mark.timeout(900)
KINDS: dict[str, Callable[[], AnyScenario]] = {
    "tables": second,
    "levels": nested,
    "sparse": small,
    "synthetic": aim,
    "pictures": PictureScenario,
    "statistics": gaussian,
    "classifier": dp_sgd,
}


Scheme = Literal["light", "dark"]
WAYS: tuple[tuple[tuple[int, int], Scheme, str], ...] = (
    (PHONE, "light", "en"),
    (DESK, "dark", "en"),
    (PHONE, "dark", "ja"),
    (DESK, "light", "ja"),
)
"""Every pair of a size, of colours and of a language: a finding that needs all three of one kind would be missed."""


@contextmanager
def looked_at(browser: Browser, size: tuple[int, int], scheme: Scheme) -> Iterator[Page]:  # noqa: F811
    """A page of a size, light or dark."""
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
    context.set_default_timeout(LONG)
    yield context.new_page()
    context.close()


def found_on(page: Page, addresses: list[str]) -> list[tuple[str, str, str, str]]:
    """Every finding, with its page."""
    found = []
    for address in addresses:
        page.goto(address)
        found += [(address, *finding) for finding in findings(page)]
    return found


@pytest.fixture(scope="module")
def records(worlds: Worlds, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A version of each kind of product, and one of a federation."""
    federated = once(tmp_path_factory, "federated-tables", lambda folder: released(folder, TABLES))
    [page] = federated.glob("c/models/*/v1/record.html")
    return {kind: worlds.published(make(), here=True).folder for kind, make in KINDS.items()} | {
        "federation": page.parent
    }


@pytest.mark.parametrize("kind", [*KINDS, "federation"])
def test_the_record_of_each_kind_of_product_has_no_findings(
    browser: Browser,  # noqa: F811
    records: dict[str, Path],
    kind: str,
) -> None:
    """English, light, on a phone."""
    with looked_at(browser, PHONE, "light") as page:
        assert found_on(page, [(records[kind] / "record.html").as_uri()]) == []


def test_a_dark_japanese_record_and_the_labels_have_no_findings(browser: Browser, records: dict[str, Path]) -> None:  # noqa: F811
    """Colours and language are those of all kinds; the long test looks at every kind in every way."""
    labels = [(folder / "label.html").as_uri() for folder in records.values()]
    with looked_at(browser, DESK, "dark") as page:
        assert found_on(page, [(records["statistics"] / "record.ja.html").as_uri(), *labels]) == []


@pytest.mark.parametrize(
    ("first", "size", "scheme", "language"), [(0, PHONE, "light", "en"), (1, DESK, "dark", "ja")]
)
def test_no_page_of_the_site_has_findings(
    browser: Browser,  # noqa: F811
    served: Served,  # noqa: F811
    first: int,
    size: tuple[int, int],
    scheme: Scheme,
    language: str,
) -> None:
    """Every other page each; without the record in its frame, whose own page is looked at above."""
    with looked_at(browser, size, scheme) as page:
        assert found_on(page, addresses(served, language)[first::2]) == []


@pytest.mark.long
@pytest.mark.parametrize(("size", "scheme", "language"), WAYS)
def test_every_page_has_no_findings_in_every_pair_of_ways(
    browser: Browser,  # noqa: F811
    served: Served,  # noqa: F811
    records: dict[str, Path],
    size: tuple[int, int],
    scheme: Scheme,
    language: str,
) -> None:
    """Records, labels and the site, small and large, light and dark, in both languages."""
    names = ("record.html" if language == "en" else f"record.{language}.html", "label.html")
    pages = [(folder / name).as_uri() for folder in records.values() for name in names]
    with looked_at(browser, size, scheme) as page:
        assert found_on(page, [*pages, *addresses(served, language)]) == []


def addresses(served: Served, language: str) -> list[str]:  # noqa: F811
    return [f"{served.url}{path}{'&' if '?' in path else '?'}lang={language}" for path in PAGES]


def test_the_check_finds_what_it_is_for(browser: Browser) -> None:  # noqa: F811
    """The wrong case: a picture, a link and a page without a name, pale text, and a role that nobody knows."""
    with looked_at(browser, DESK, "light") as page:
        page.set_content("<main><h1>A</h1><img src='data:,'><a href='/x'></a><p style='color: #ccc'>pale</p></main>")
        found = findings(page)
    serious = {rule for impact, rule, _ in found if impact in SERIOUS}
    assert serious == {"image-alt", "link-name", "color-contrast", "document-title", "html-has-lang"}
