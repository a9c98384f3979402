"""The gallery of the manual: its page is made from the list, the list from shipped examples, each with a picture."""

from __future__ import annotations

import struct

import pytest

from contracts.release.spec import load_spec
from deploy.gallery import ACCOUNTS, EXHIBITS, PAGE, PICTURES, ROOT, Exhibit, page

MOST_BYTES = 150_000
"""Of one picture, so that the manual stays small."""


def test_the_page_is_made_from_the_list() -> None:
    """Six releases of every kind of product; ε and δ on the page are those of the specs."""
    assert PAGE.read_text(encoding="utf-8") == page()
    assert len(EXHIBITS) == 6
    kinds = {load_spec(ROOT / each.spec).product.kind for each in EXHIBITS}
    assert kinds == {"tables", "statistics", "synthetic", "classifier"}


@pytest.mark.parametrize("exhibit", EXHIBITS, ids=lambda each: each.name)
def test_an_exhibit_is_a_shipped_example_that_its_account_is_opened_for(exhibit: Exhibit) -> None:
    """Its spec and contract load, and its rows are the account's source, as far as the calculus takes its noise."""
    spec = load_spec(ROOT / exhibit.spec)
    assert f"| [{exhibit.name}](#{exhibit.name}) | {exhibit.what} | {exhibit.people} |" in page()
    [account] = [each for each in ACCOUNTS if each.name == spec.charge.account]
    assert spec.source.path == ROOT / account.source
    assert spec.source.path.exists()
    assert spec.contract.is_file()
    assert spec.charge.delta <= (0 if account.calculus == "pure" else 10**12)


def test_the_folder_has_a_picture_of_each_and_no_more() -> None:
    """As large as the command takes them, and not too heavy."""
    assert sorted(PICTURES.iterdir()) == sorted(each.picture for each in EXHIBITS)
    for exhibit in EXHIBITS:
        content = exhibit.picture.read_bytes()
        assert struct.unpack(">II", content[16:24]) == (800, 640)
        assert len(content) < MOST_BYTES
