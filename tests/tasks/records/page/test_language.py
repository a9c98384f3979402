"""A page's language: English is built in, whole and without waste; the others are extensions."""

from collections.abc import Collection

import pytest

from contracts.errors import SpecRefused
from contracts.message import message
from privacy.ledger.accounts.version_entries import VISIBLE
from privacy.ledger.entries import KINDS, SEALED
from tasks.records.charts.charts import Drawing
from tasks.records.page.language import Language, english_texts, language, languages
from tests.catalogues import texts
from tests.source_folders import DELETED


def test_values_are_escaped_in_every_language():
    """Neither a parameter nor an untranslated value can bring in markup, nor a slot of its own."""
    hostile = "<script>{name}</script>"
    for lang in map(language, languages()):
        for text in (hostile, message("every row has a {name}", name=hostile), f"some words and {hostile}"):
            assert "<script" not in lang.say(text)
            assert "{name}" in lang.say(text)
        assert "<script" not in lang.text("footer", version=hostile, run=message("{parts}", parts=hostile))
        assert "<script" not in lang.drawn(Drawing('<svg aria-label="{0}">{1}</svg>', (hostile, hostile)))


def test_english_stays_as_the_record_has_it():
    """In its own language a record is shown letter for letter."""
    text = "at most 3 rows of each worker are kept; <b>"
    assert language("en").say(text) == "at most 3 rows of each worker are kept; &lt;b&gt;"


def test_a_language_that_is_not_installed_is_refused_with_what_it_needs(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("contracts.plug_ins.registered", lambda group: ())
    assert languages() == ("en",)
    with pytest.raises(SpecRefused, match="ja needs the extension sudare_japanese, which is not installed"):
        language.__wrapped__("ja")


def test_what_a_language_lacks_is_in_english():
    """A text of a page, a field, a part of a value, a sentence; somebody's own words are marked."""
    lacking = Language("xx", "Nothing", language("en").catalogue)
    assert lacking.text("stop") == language("en").text("stop")
    assert (lacking.field("known_bias"), lacking.part("ward")) == ("known bias", "ward")
    assert lacking.say("wages of the masons") == '<span lang="en">wages of the masons</span>'
    assert lacking.say(message("no snark is a {kind}", kind=message("none"))) == "no snark is a none"


KEYS = {*english_texts()}


def test_every_text_of_a_page_is_there_and_on_a_page():
    """But for those of extensions that were deleted."""
    asked, begun, quoted = texts()
    assert asked - KEYS == set()
    assert DELETED or {key for key in KEYS - quoted if not key.startswith(tuple(begun))} == set()


@pytest.mark.parametrize(("prefix", "names"), [("kind", set(KINDS) - set(SEALED)), ("status", VISIBLE)])
def test_every_kind_of_entry_that_is_shown_and_every_status_has_a_word(prefix: str, names: Collection[str]):
    assert {f"{prefix}.{name}" for name in names} - KEYS == set()
