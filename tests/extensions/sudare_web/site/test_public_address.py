"""The address readers meet the site under."""

from __future__ import annotations

import pytest

from contracts.errors import SpecRefused
from sudare_web.site.public_address import PublicAddress
from tests.console.conftest import Typed
from tests.extensions.sudare_web.site.conftest import Shown

PUBLIC = "https://review.example.org"


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        (PUBLIC, PUBLIC),
        ("https://Review.Example.org:443/", PUBLIC),
        ("https://review.example.org:8443", "https://review.example.org:8443"),
        ("https://[2001:DB8::1]", "https://[2001:db8::1]"),
    ],
)
def test_an_origin_is_written_as_browsers_tell_it(url: str, origin: str) -> None:
    assert PublicAddress.read(url).origin == origin


@pytest.mark.parametrize(
    "url",
    [
        *("", "review.example.org", "http://review.example.org", "https://", "https://a b.example", "https://[::1"),
        *(f"{PUBLIC}/below", f"{PUBLIC}?a=1", f"{PUBLIC}#a", "https://mika@review.example.org", f"{PUBLIC}:x"),
    ],
)
def test_what_no_browser_would_tell_is_refused(url: str) -> None:
    with pytest.raises(SpecRefused, match="--public-url"):
        PublicAddress.read(url)


def test_the_command_refuses_it_and_says_what_is_allowed(shown: Shown, typed: Typed) -> None:
    said = typed("serve", "--public-url", "http://review.example.org", at=shown.workspace)
    said.assert_ended(2, "such as https://review.example.org")
