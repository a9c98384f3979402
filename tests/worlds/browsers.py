"""A real Chromium, and pages in it of a size, colours and a language.

Where CI is set a missing Chromium fails the tests; elsewhere they are skipped.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from deploy.gallery import BROWSERS
from tasks.records.page.language import languages
from tests.worlds.accessibility import findings

CHROMIUM = next((path for name in BROWSERS if (path := shutil.which(name))), None)
PHONE, DESK = (390, 844), (1200, 900)
LONG = 120_000
"""How long a page may take beside other tests [milliseconds]; only a failure waits it out."""
Scheme = Literal["light", "dark"]
OTHER = languages()[-1]
"""A language beside English, where one is installed."""
WAYS: tuple[tuple[tuple[int, int], Scheme, str], ...] = (
    (PHONE, "light", "en"),
    (DESK, "dark", "en"),
    (PHONE, "dark", OTHER),
    (DESK, "light", OTHER),
)
"""Every pair of a size, of colours and of a language: a finding that needs all three of one kind would be missed."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine: apt-get install chromium-headless-shell")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=LONG)
        yield started
        started.close()


@contextmanager
def looked_at(browser: Browser, size: tuple[int, int], scheme: Scheme) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
    context.set_default_timeout(LONG)
    yield context.new_page()
    context.close()


def found_on(page: Page, addresses: list[str]) -> list[tuple[str, str, str, str]]:
    found = []
    for address in addresses:
        page.goto(address)
        found += [(address, *finding) for finding in findings(page)]
    return found
