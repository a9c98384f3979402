"""The manual as a site: it builds without a warning, asks nobody for anything, and its search works from a file."""

import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from tests.worlds.browsers import CHROMIUM

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; a dead link, or a page that the menu leaves out, fails the build."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", ROOT / "mkdocs.yml"]
    subprocess.run([*command, "--site-dir", folder], check=True)
    return folder


@pytest.mark.long
def test_the_search_works_from_a_file_and_nothing_is_fetched_from_elsewhere(site: Path):
    """A reader opens index.html without a network, types a word, and gets pages; the browser complains of nothing."""
    requests: list[str] = []
    complaints: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.goto((site / "index.html").as_uri())
        page.click("[data-md-component=search-query]")
        page.keyboard.type("quadtree")
        page.wait_for_selector(".md-search-result__item")
        pages = page.locator(".md-search-result__link").evaluate_all("links => links.map(link => link.href)")
        browser.close()
    assert any("/tables.html" in link for link in pages)
    assert complaints == []
    assert [request for request in requests if not request.startswith("file:")] == []
