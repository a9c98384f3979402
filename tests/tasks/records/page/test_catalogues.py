"""The catalogues of messages: no id lacks a language, none is unused, and translations fill the same slots."""

from __future__ import annotations

import re
from collections.abc import Collection

import pytest

from contracts.release.product_kinds import BUILT_IN
from privacy.ledger.accounts.version_entries import VISIBLE
from privacy.ledger.entries import KINDS, SEALED
from tasks.records.model.record_kinds import ACROSS, record_part
from tasks.records.page.language import CATALOGUES, FIELD, LANGUAGES, PART, TEXT
from tasks.records.record import GROUPS
from tests.catalogues import Id, catalogue, compiled, constants, sentences, stored, texts
from tests.source_folders import DELETED

ENTRIES = {
    code: {(entry.context or "", _id(entry.id)): entry.string for entry in catalogue(code) if entry.id}
    for code in LANGUAGES
    for _id in [lambda id: tuple(id) if isinstance(id, list | tuple) else id]
}
SAME = {"fact.epsilon", "fact.delta", "comma", "semicolon", "stop"}
"""Texts of signs."""


def ids(code: str, context: str) -> set[Id]:
    """The ids of a context that have a translation."""
    return {id for (of, id), told in ENTRIES[code].items() if of == context and all(forms(told))}


def forms(text: str | tuple[str, ...]) -> tuple[str, ...]:
    return (text,) if isinstance(text, str) else text


def slots(text: str) -> set[str]:
    return set(re.findall(r"\{(\w+)\}", text))


@pytest.mark.long
def test_every_sentence_in_the_source_has_a_translation() -> None:
    """A sentence that a catalogue lacks would stand in English on a page of another language."""
    said = sentences()
    assert len(said) > 600
    assert {id: said[id] for id in said.keys() - ids("ja", "")} == {}
    assert stored()[1] - ids("ja", "") == set()


def test_no_entry_is_of_a_sentence_that_nothing_says() -> None:
    """But for those of extensions that were deleted."""
    used = sentences().keys() | constants() | stored()[1]
    assert DELETED or ids("ja", "") - used == set()
    assert {id for of, id in ENTRIES["en"] if of != TEXT} == set()


def test_every_text_of_a_page_is_in_all_languages_and_on_a_page() -> None:
    """But for those of extensions that were deleted."""
    asked, begun, quoted = texts()
    keys = {id if isinstance(id, str) else id[0] for id in ids("en", TEXT)}
    assert ids("en", TEXT) == ids("ja", TEXT)
    assert asked - keys == set()
    assert DELETED or {key for key in keys - quoted if not key.startswith(tuple(begun))} == set()


def test_every_field_has_a_name_in_all_languages_and_no_other_name_is_there() -> None:
    groups = [group for kind in (*BUILT_IN, ACROSS) for group in record_part(kind).groups(GROUPS)]
    assert {field.name for group in groups for field in group.fields} == ids("ja", FIELD)


def test_no_part_of_a_value_is_named_that_no_module_writes() -> None:
    assert ids("ja", PART) - constants() - stored()[0] == set()


@pytest.mark.parametrize("code", LANGUAGES)
def test_a_translation_fills_the_slots_of_its_id_and_links_where_english_does(code: str) -> None:
    for (context, id), told in ENTRIES[code].items():
        if context not in ("", TEXT):
            continue
        source = "".join(forms(ENTRIES["en"][context, id])) if context == TEXT else "".join(forms(id))
        for form in forms(told):
            if context == TEXT or slots(source):
                assert slots(form) == slots(source), id
            assert re.findall(r'href="[^"]*"', form) == re.findall(r'href="[^"]*"', source), id


def test_japanese_is_japanese() -> None:
    """A translation in the letters of its id would have been forgotten, but for names, signs and lone slots."""
    for (context, id), told in ENTRIES["ja"].items():
        source = "".join(forms(ENTRIES["en"][context, id])) if context == TEXT else "".join(forms(id))
        if any(form.isascii() for form in forms(told)) and id not in SAME:
            assert not re.search(r"[a-z]{3,} [a-z]{2,}", re.sub(r"\{\w+\}", "", source)), id


@pytest.mark.parametrize("code", LANGUAGES)
def test_what_programs_read_is_what_translators_wrote(code: str) -> None:
    """The compiled catalogue is that of the text; `make catalogues` compiles it again."""
    assert (CATALOGUES / f"{code}.mo").read_bytes() == compiled(code)


@pytest.mark.parametrize(("prefix", "names"), [("kind", set(KINDS) - set(SEALED)), ("status", VISIBLE)])
def test_every_kind_of_entry_that_is_shown_and_every_status_has_a_word(prefix: str, names: Collection[str]) -> None:
    assert {f"{prefix}.{name}" for name in names} - ids("en", TEXT) == set()
