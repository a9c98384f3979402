"""A contract whose releases would name nobody asks for a curator and a contact, until somebody declares them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from contracts.contract.short_form import contract_document
from contracts.drafting.advice.advice import Advice, suggest
from contracts.release.terms import Publisher
from tests.contracts.samples import CONTRACT, write

BOTH = {"curator": "Office of Statistics", "contact": "statistics@example.org"}


def _suggestions(
    folder: Path, text: str = CONTRACT, about: dict[str, Any] | None = None, publisher: Publisher | None = None
) -> tuple[Advice, ...]:
    return suggest(contract_document(write(folder, "people.odcs.yaml", text)), about or {}, publisher)


def test_both_are_asked_for_with_what_to_type(tmp_path: Path) -> None:
    """In the order of the table; each says that records will say so, and both places in which it may stand."""
    found = _suggestions(tmp_path)
    assert [each.rule for each in found] == ["curator", "contact"]
    for each in found:
        assert each.where == f"{tmp_path / 'people.odcs.yaml'}:3"
        assert each.found == "nobody is named"
        assert "undeclared" in each.why
        assert f'{each.rule} = "' in each.remedy
        assert "[publisher] in sudare.toml" in each.remedy
        assert "about: of the spec" in each.remedy


@pytest.mark.parametrize("silent", BOTH)
def test_a_declaration_of_the_spec_or_the_publisher_silences_its_own_suggestion_alone(
    tmp_path: Path, silent: str
) -> None:
    [other] = set(BOTH) - {silent}
    for found in (
        _suggestions(tmp_path, about={silent: BOTH[silent]}),
        _suggestions(tmp_path, publisher=Publisher.model_validate({silent: BOTH[silent]})),
    ):
        assert [each.rule for each in found] == [other]


def test_both_declared_leave_nothing_to_suggest(tmp_path: Path) -> None:
    assert _suggestions(tmp_path, about=BOTH) == ()
    assert _suggestions(tmp_path, publisher=Publisher.model_validate(BOTH)) == ()
    mixed = _suggestions(tmp_path, about={"curator": "A"}, publisher=Publisher(contact="b@example.org"))
    assert mixed == ()


@pytest.mark.parametrize("empty", ["", "<declare>", None])
def test_a_place_that_is_still_open_declares_nothing(tmp_path: Path, empty: str | None) -> None:
    assert len(_suggestions(tmp_path, about={"curator": empty, "contact": empty})) == 2


def test_the_standards_own_places_are_named_since_no_record_reads_them(tmp_path: Path) -> None:
    """The suggestion points to their lines, and stays: the record would still say that nobody is declared."""
    text = f"{CONTRACT}team:\n  - {{username: a.person, role: owner}}\nsupport:\n  - {{channel: desk}}\n"
    lines = text.splitlines()
    curator, contact = _suggestions(tmp_path, text)
    assert curator.where.endswith(f":{lines.index('team:') + 1}")
    assert contact.where.endswith(f":{lines.index('support:') + 1}")
    assert curator.found == "`team:` of the contract, which no record reads"
    assert contact.found == "`support:` of the contract, which no record reads"
