"""axe-core in a real Chromium finds nothing on any page of the site."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from tests.extensions.sudare_web.site.conftest import Served
from tests.extensions.sudare_web.site.test_pages import PAGES
from tests.worlds.browsers import DESK, OTHER, PHONE, WAYS, Scheme, found_on, looked_at

pytestmark = pytest.mark.timeout(900)


@pytest.mark.parametrize(
    ("first", "size", "scheme", "language"), [(0, PHONE, "light", "en"), (1, DESK, "dark", OTHER)]
)
def test_no_page_of_the_site_has_findings(
    browser: Browser,
    served: Served,
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
    browser: Browser,
    served: Served,
    size: tuple[int, int],
    scheme: Scheme,
    language: str,
) -> None:
    """Small and large, light and dark, in both languages."""
    with looked_at(browser, size, scheme) as page:
        assert found_on(page, addresses(served, language)) == []


def addresses(served: Served, language: str) -> list[str]:
    return [f"{served.url}{path}{'&' if '?' in path else '?'}lang={language}" for path in PAGES]
