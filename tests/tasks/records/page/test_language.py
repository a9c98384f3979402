"""The page in Japanese: sentences of ours with what fills them, and no English but names and people's own words."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from contracts.message import joined, message, plural
from tasks.records.charts.drawing import Drawing
from tasks.records.explanation import RecordExplanation, published_explanation
from tasks.records.page.language import Language, language
from tests.catalogues import catalogue
from tests.worlds.classifiers import anonymized_learning, dp_sgd, learning_first
from tests.worlds.federated_runs import released
from tests.worlds.federations import FEDERATION, GENERATOR, MARGINALS, TABLES
from tests.worlds.hierarchies import nested
from tests.worlds.sparse_tables import small
from tests.worlds.synthetic_rows import aim, gaussians
from tests.worlds.versions import Version, Worlds

DOCS = Path(__file__).resolve().parents[4] / "docs"
OWN_WORDS = (
    "identity.title",
    "source.population",
    "source.select",
    "contract.columns",
    "contract.limitations",
    "contract.usage",
    "accountability.purpose",
    "unprotected.declared_totals",
    "unprotected.exact_total",
    "unprotected.quantities",
    "preprocessing.steps",
    "noise.platform",
    "limits.quality_warnings",
    "audits.games",
    "audits.attacks",
    "notices.notice",
)
"""Fields that quote the contract, the spec, or stored results; what is declared comes on top."""
PROSE = re.compile(r"\b[A-Za-z]{2,}(?: [a-z]{2,}){2,}\b")


@pytest.fixture(scope="module")
def ja() -> Language:
    return language("ja")


@pytest.fixture(scope="module")
def others(worlds: Worlds) -> dict[str, Version]:
    """Rows from marginals, rows from sums, a hierarchy, a sparse table, a model."""
    made = {"aim": aim, "gaussians": gaussians, "nested": nested, "sparse": small, "wards": dp_sgd}
    made |= {"learning_first": learning_first, "anonymized_learning": anonymized_learning}
    return {name: worlds.published(scenario()) for name, scenario in made.items()}


ROWS = message("one {unit} (at most {rows} rows)", unit="worker", rows=3)


@pytest.mark.parametrize(
    ("said", "japanese"),
    [
        (joined([ROWS, message("over all time blocks")]), "worker 1単位（最大3行）、全期間を通して"),
        (
            message("{number} cells, one for each value of {name}", number=12, name="age"),
            "12セル（age の値ごとに1つ）",
        ),
        (
            message("that {gate} (always checked)", gate=message("every row has a {name}", name="worker")),
            "すべての行に worker があること（常に検査）",
        ),
        (message("{low} to {high}", low="10", high="99"), "10 ～ 99"),
        (plural("{number} marginal", "{number} marginals", 2, number=2), "2個の周辺表"),
        (message("none"), "なし"),
        ("none", "なし"),
        ("guild-2020", "guild-2020"),
    ],
)
def test_sentences_are_translated_with_what_fills_them(ja: Language, said: str, japanese: str) -> None:
    assert ja.say(said) == ja.plain(said) == japanese


def test_a_publisher_s_words_are_neither_cut_nor_translated_where_they_hold_words_of_ours(ja: Language) -> None:
    """The example's people are "in the UCI Adult extract", and somebody may call a column `none`."""
    people = "people in X in 1994"
    cap = message(
        "never: the cap of {account} is for good, for all that is ever published of {population} in {block}. Other "
        "days have accounts of their own; an account whose days overlap these inherits what was charged, and is "
        "charged too",
        account="wages",
        population=people,
        block="1994",
    )
    assert f"1994 の{people}について" in ja.plain(cap)
    cells = message("{number} cells: every combination of {names}", number=6, names=joined(["none", "total"]))
    assert "（none、total のすべての組合せ）" in ja.plain(cells)


def test_one_word_has_one_translation(ja: Language) -> None:
    """docs/glossary.md says for each term which word the pages use, and which they do not; both kinds of page."""
    table = (DOCS / "glossary.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line[1:-1].split("|")] for line in table.splitlines() if line[:2] == "| "]
    terms = [(row[0], row[2], [word for word in row[3].split("、") if word]) for row in rows[1:] if row[2]]
    assert len(terms) > 12
    written = [form for entry in catalogue("ja") for form in ([entry.string] if entry.id else [])]
    written = [form for told in written for form in ([told] if isinstance(told, str) else told)]
    for english, used, others in terms:
        assert any(used in text for text in written), english
        for word in others:
            assert not [text for text in written if word in text], (english, word)


def test_what_nobody_translated_is_marked_as_english(ja: Language) -> None:
    """A publisher's words stay as they are, in sentences of ours too; nothing is lost."""
    assert ja.say("wages of the masons") == '<span lang="en">wages of the masons</span>'
    assert ja.say(message("each row by itself")) == "各行を個別に処理"
    said = ja.say(message("the contract: {text}", text="Trades are as reported."))
    assert said == '契約：<span lang="en">Trades are as reported.</span>'
    assert ja.say("石工の賃金") == "石工の賃金"


def test_a_sentence_that_no_catalogue_has_is_in_english(ja: Language) -> None:
    """As a record of later code would have one: its parameters are in the page's language all the same."""
    assert ja.plain(message("no snark is a {kind}", kind=message("none"))) == "no snark is a なし"
    with pytest.raises(LookupError):
        ja.text("no.such.text")


def test_values_are_escaped_in_every_language(ja: Language) -> None:
    """Neither a parameter nor an untranslated value can bring in markup, nor a slot of its own."""
    hostile = "<script>{name}</script>"
    for lang in (ja, language("en")):
        for text in (hostile, message("every row has a {name}", name=hostile), f"some words and {hostile}"):
            assert "<script" not in lang.say(text)
            assert "{name}" in lang.say(text)
        assert "<script" not in lang.text("footer", version=hostile, run=message("{parts}", parts=hostile))
        assert "<script" not in lang.drawn(Drawing('<svg aria-label="{0}">{1}</svg>', (hostile, hostile)))


def test_english_stays_as_the_record_has_it() -> None:
    """In its own language a record is shown letter for letter."""
    text = "at most 3 rows of each worker are kept; <b>"
    assert language("en").say(text) == "at most 3 rows of each worker are kept; &lt;b&gt;"


class Passages(HTMLParser):
    """Collects texts and descriptions, apart from code; those marked as English by themselves."""

    VOID = frozenset({"meta", "br", "link", "img", "input", "hr"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.english: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.texts += [value for name in ("aria-label", "alt", "title") if (value := named.get(name))]
        if tag not in self.VOID:
            marked = tag in ("style", "code") or named.get("lang") == "en"
            self.open.append("skip" if marked and tag != "span" else "en" if marked else "")

    def handle_endtag(self, tag: str) -> None:
        self.open.pop()

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.texts += [value for name, value in attrs if name in ("aria-label", "alt") and value]

    def handle_data(self, data: str) -> None:
        if "skip" not in self.open and data.strip():
            (self.english if "en" in self.open else self.texts).append(data)


def own_words(explanation: RecordExplanation) -> str:
    """Everything in a record that people wrote: the contract, the spec, declarations."""
    paths = (*OWN_WORDS, *sorted(explanation.declared))
    return " ".join(json.dumps(explanation.values.get(path, ""), ensure_ascii=False) for path in paths)


def check_japanese(version: Version) -> None:
    words = own_words(published_explanation(lambda name: (version.folder / name).read_bytes()))
    passages = Passages()
    passages.feed((version.folder / "record.ja.html").read_text(encoding="utf-8"))
    assert passages.open == []
    for text in passages.english:
        assert json.dumps(text.strip(), ensure_ascii=False)[1:-1] in words, text
    for text in passages.texts:
        for found in PROSE.findall(text):
            assert found in words, text


@pytest.mark.parametrize("name", ["town", "guild", "extract", "chosen"])
def test_no_english_is_left_on_the_japanese_page_of_tables(versions: dict[str, Version], name: str) -> None:
    """But names, and the words of the contract, the spec and the publisher, which are marked as English."""
    check_japanese(versions[name])


@pytest.mark.parametrize(
    "name", ["aim", "gaussians", "nested", "sparse", "wards", "learning_first", "anonymized_learning"]
)
def test_no_english_is_left_on_other_japanese_pages(others: dict[str, Version], name: str) -> None:
    check_japanese(others[name])


@pytest.mark.long
@pytest.mark.parametrize("federation", [TABLES, MARGINALS, FEDERATION, GENERATOR])
def test_no_english_is_left_on_japanese_pages_of_federations(federation: str, tmp_path: Path) -> None:
    check_japanese(released(tmp_path, federation).version)


def test_the_test_of_english_can_fail(versions: dict[str, Version], tmp_path: Path) -> None:
    """A sentence that is left in English is found, marked or not."""
    for left in ("<p>Nothing of this was translated.</p>", '<p><span lang="en">Nothing of this was.</span></p>'):
        version = versions["town"].copy(tmp_path / str(len(left)))
        page = version.folder / "record.ja.html"
        page.write_text(page.read_text(encoding="utf-8").replace("</main>", f"{left}</main>"), encoding="utf-8")
        with pytest.raises(AssertionError):
            check_japanese(version)


def test_the_pages_name_each_other(versions: dict[str, Version]) -> None:
    english, japanese = (
        (versions["guild"].folder / name).read_text(encoding="utf-8") for name in ("record.html", "record.ja.html")
    )
    assert '<html lang="en">' in english
    assert '<html lang="ja">' in japanese
    assert 'href="record.ja.html" hreflang="ja"' in english
    assert 'href="record.html" hreflang="en"' in japanese
    assert "差分プライバシー" in japanese
