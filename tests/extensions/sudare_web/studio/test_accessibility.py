"""axe-core in a real Chromium finds nothing on any page of the studio."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from tasks.storage.workspace.settings import Workspace
from tests.extensions.sudare_web.studio.conftest import Open, opened
from tests.worlds.accessibility import findings
from tests.worlds.browsers import DESK, LONG, OTHER, PHONE

pytestmark = pytest.mark.timeout(900)
PAGES = (
    "/studio",
    "/studio?spec=tables.yaml",
    "/studio?spec=wrong.yaml",
    "/studio?spec=model.yaml",
    "/studio?spec=statistics.yaml",
    "/studio?spec=synthetic.yaml",
    "/enter?token=used",
)


def found_on(page: Page, made: Open, language: str) -> list[tuple[str, str, str, str]]:
    found = []
    page.goto(made.entrance)
    page.wait_for_url("**/studio")
    for path in PAGES:
        base = made.url if path.startswith("/enter") else made.root
        page.goto(f"{base}{path}{'&' if '?' in path else '?'}lang={language}")
        page.evaluate("document.querySelectorAll('#form details').forEach((each) => (each.open = true))")
        parts = page.locator("#form details[data-table]")
        expect(parts.locator(".pair")).to_have_count(parts.count(), timeout=LONG)
        found += [(path, *finding) for finding in findings(page)]
    return found


@pytest.mark.parametrize(("size", "scheme", "language"), [(PHONE, "light", "en"), (DESK, "dark", OTHER)])
def test_no_page_of_the_studio_has_findings(
    browser: Browser,
    place_of_studio: tuple[Path, Workspace],
    size: tuple[int, int],
    scheme: Literal["light", "dark"],
    language: str,
) -> None:
    """The beginning, each product with all its parts open, a text with mistakes, and an address that was used."""
    folder, workspace = place_of_studio
    (folder / "wrong.yaml").write_text((folder / "tables.yaml").read_text().replace("laplace", "lapace"))
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
    context.set_default_timeout(LONG)
    with opened(folder, workspace) as made:
        assert found_on(context.new_page(), made, language) == []
    context.close()
