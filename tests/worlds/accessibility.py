"""What axe-core finds on a page in a browser: the rules of accessibility that a machine can decide."""

from functools import cache
from importlib.resources import files
from typing import Any

from playwright.sync_api import Page

SERIOUS = ("serious", "critical")
"""The impacts that keep somebody from reading a page; a lighter finding is one all the same."""
_OPEN = "document.querySelectorAll('details').forEach(each => { each.open = true })"
_CONTRAST = "{resultTypes: ['violations'], runOnly: ['color-contrast']}"
_OTHERS = "{resultTypes: ['violations'], rules: {'color-contrast': {enabled: false}}}"


def findings(page: Page) -> list[tuple[str, str, str]]:
    """Run axe-core on a page: contrast as it stands, and all other rules with everything unfolded."""
    page.evaluate(_axe())
    broken = _broken(page, _CONTRAST)
    page.evaluate(_OPEN)
    return [
        (rule["impact"], rule["id"], rule["nodes"][0]["html"][:200]) for rule in (*broken, *_broken(page, _OTHERS))
    ]


def _broken(page: Page, options: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = page.evaluate(f"axe.run(document, {options}).then(found => found.violations)")
    return found


@cache
def _axe() -> str:
    """Read the script that the package carries; a test's browser runs it whatever the page's own policy says."""
    return (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
