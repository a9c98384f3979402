"""Errors keep their words in another process; a message keeps template and parameters for other languages."""

import json
import pickle
from pathlib import Path

import pytest

from console.main import PublisherMissing
from contracts.errors import ContractRefused, Finding, Refused, StoreUnwritable, SudareError
from contracts.message import (
    AND,
    SENTENCES,
    JoinedTexts,
    Message,
    joined,
    message,
    messages_from_json,
    messages_to_json,
    plural,
)
from tasks.storage.workspace.contract_registry import RegistryRefused

TWO = (
    Finding("people.yaml:3", "unit", "nothing", "a unit", "declare it"),
    Finding("people.yaml", "id", "''", "a name"),
)


@pytest.mark.parametrize("kind", [ContractRefused, RegistryRefused])
def test_a_refusal_is_the_same_in_another_process(kind: type[Refused]):
    refused = kind(TWO)
    back = pickle.loads(pickle.dumps(refused))
    assert type(back) is kind
    assert str(back) == str(refused)
    assert back.findings == TWO


@pytest.mark.parametrize(
    "error", [StoreUnwritable.because(OSError(28, "No space left"), Path("store")), PublisherMissing("no publisher")]
)
def test_an_error_is_the_same_in_another_process(error: SudareError):
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), str(back), vars(back)) == (type(error), str(error), vars(error))


def test_a_message_is_a_text_in_english():
    """It is equal to it, hashes like it, and JSON writes it so."""
    said = message("{number} cells of {table}", number=3, table="age")
    assert said == "3 cells of age"
    assert {said: 1}["3 cells of age"] == 1
    assert json.dumps([said]) == '["3 cells of age"]'
    assert type(str(said)) is str


def test_it_keeps_its_template_and_its_parameters_when_it_is_copied():
    said = message("{inner}, twice", inner=message("once"))
    copy = pickle.loads(pickle.dumps(said))
    assert isinstance(copy, Message)
    assert (copy, copy.template, copy.parameters) == (said, "{inner}, twice", {"inner": "once"})
    assert isinstance(copy.parameters["inner"], Message)


def test_braces_are_slots_only_where_there_are_parameters():
    assert message("write `{usage: ...}`") == "write `{usage: ...}`"
    assert message("write `{{{entry}: ...}}`", entry="usage") == "write `{usage: ...}`"
    assert message("{name}", name="{name}") == "{name}"


@pytest.mark.parametrize(("number", "text"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows")])
def test_a_plural_takes_the_form_of_its_number(number: int, text: str):
    assert plural("{n} row", "{n} rows", number, n=number) == text


def test_joined_texts_keep_their_parts():
    one, other = message("one"), "two"
    assert joined([one, other]) == "one, two"
    assert joined([one, other], AND) == "one and two"
    assert joined([message("It is."), message("It was.")], SENTENCES) == "It is. It was."
    assert joined([one, other]).parameters["parts"] == JoinedTexts(("one", "two"), message(", "))


def test_a_message_is_read_back_from_json_with_its_parameters():
    """Constants stay texts: catalogues know them as they stand."""
    said = plural("{n} row of {parts}", "{n} rows of {parts}", 2, n=2, parts=joined([message("age"), "wage"]))
    written = json.loads(json.dumps(messages_to_json({"said": [said, message("none")]})))
    read = messages_from_json(written)["said"]
    assert read == ["2 rows of age, wage", "none"]
    assert (read[0].template, read[0].number) == (said.template, 2)


@pytest.mark.parametrize(
    "template", ["{n.__class__}", "{n!r}", "{n:>99}", "{n[0]}", "{other}", "{}", "{n}{n}", "{n", "}", 3]
)
def test_a_template_of_a_stranger_that_asks_for_more_than_its_parameters_is_no_message(template: object):
    """Attributes, widths, missing and repeated parameters, lone braces: what is read stays an object."""
    written = {"template": template, "parameters": {"n": "x"}}
    assert messages_from_json(written) == written
    assert not isinstance(messages_from_json(written), Message)


@pytest.mark.parametrize(("parts", "separator"), [("ab", ", "), (["a", "b"], "x" * 99), (["a", "b"], 3)])
def test_texts_that_a_stranger_joins_in_another_way_are_no_list_of_ours(parts: object, separator: object):
    written = {"template": "{n}", "parameters": {"n": {"parts": parts, "separator": separator}}}
    assert messages_from_json(written) == str({"parts": parts, "separator": separator})
