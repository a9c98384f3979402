"""Pages in Japanese: sentences of ours with what fills them, and only what nobody translated in English."""

import re
from pathlib import Path

import pytest

from contracts.message import joined, message, plural
from contracts.release.product_kinds import BUILT_IN
from sudare_japanese.japanese import JAPANESE
from tasks.records.model.record_kinds import ACROSS, record_part
from tasks.records.page.language import FIELD, PART, TEXT, Language, english_texts, language
from tasks.records.record import GROUPS
from tasks.verification.outcomes import FILES_NOT_COMPARED, CheckerTerms
from tests.catalogues import FILES, compiled, constants, sentences, stored, told
from tests.console.conftest import said as typed
from tests.source_folders import DELETED, ROOT
from tests.tasks.verification.forgery import forge
from tests.test_docs import anchor
from tests.worlds.tables import first
from tests.worlds.versions import Version, Worlds, broken, publish_version

TOLD = told("ja")


@pytest.fixture
def version(worlds: Worlds, tmp_path: Path) -> Version:
    return worlds.published(first(), here=True).copy(tmp_path / "v")


@pytest.fixture(scope="module")
def ja() -> Language:
    return language("ja")


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
def test_sentences_are_translated_with_what_fills_them(ja: Language, said: str, japanese: str):
    assert ja.say(said) == ja.plain(said) == japanese


def test_a_publisher_s_words_are_neither_cut_nor_translated_where_they_hold_words_of_ours(ja: Language):
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


def glossary() -> list[list[str]]:
    page = (ROOT / "extensions/sudare_japanese/README.md").read_text(encoding="utf-8")
    lines = [line for line in page.splitlines() if line[:2] == "| "]
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in lines[1:]]


def test_the_glossary_has_each_word_once_in_order_with_one_sentence():
    rows = glossary()
    words = [row[0].strip("`").lower() for row in rows]
    assert len(words) > 100
    assert words == sorted(set(words), key=lambda word: re.sub("[^a-z]", " ", anchor(word)))
    assert [row[0] for row in rows if not row[1].endswith(".") or re.search(r"[.!?] [A-Z]", row[1])] == []


def test_one_word_has_one_translation():
    """The glossary says for each term which word the pages use, and which they do not; both kinds of page."""
    terms = [(row[0], row[2], [word for word in row[3].split("、") if word]) for row in glossary() if row[2]]
    assert len(terms) > 12
    written = [form for forms in TOLD.values() for form in forms]
    for english, used, others in terms:
        assert any(used in text for text in written), english
        for word in others:
            assert not [text for text in written if word in text], (english, word)


@pytest.mark.long
def test_no_entry_is_of_what_nothing_says():
    """But for those of extensions that were deleted. What has no entry is shown in English."""
    groups = [group for kind in (*BUILT_IN, ACROSS) for group in record_part(kind).groups(GROUPS)]
    ids = {of: {id for other, id in TOLD if other == of} for of in ("", TEXT, FIELD, PART)}
    assert DELETED or ids[""] - (sentences().keys() | constants() | stored()[1]) == set()
    assert {id if isinstance(id, str) else id[0] for id in ids[TEXT]} - english_texts().keys() == set()
    assert ids[FIELD] - {field.name for group in groups for field in group.fields} == set()
    assert ids[PART] - constants() - stored()[0] == set()


def test_a_translation_fills_the_slots_of_its_id_and_links_where_english_does():
    for (context, id), forms in TOLD.items():
        of_id = (id,) if isinstance(id, str) else id
        source = "".join(english_texts()[of_id[0]] if context == TEXT else of_id)
        for form in forms:
            if context == TEXT or (context == "" and slots(source)):
                assert slots(form) == slots(source), id
            assert re.findall(r'href="[^"]*"', form) == re.findall(r'href="[^"]*"', source), id


def test_what_programs_read_is_what_people_wrote():
    """`make catalogues` compiles the catalogue again."""
    assert FILES["ja"].with_suffix(".mo").read_bytes() == compiled("ja")


def slots(text: str) -> set[str]:
    return set(re.findall(r"\{(\w+)\}", text))


def test_what_nobody_translated_is_marked_as_english(ja: Language):
    """A publisher's words stay as they are, in sentences of ours too; nothing is lost."""
    assert ja.say("wages of the masons") == '<span lang="en">wages of the masons</span>'
    assert ja.say(message("each row by itself")) == "各行を個別に処理"
    said = ja.say(message("the contract: {text}", text="Trades are as reported."))
    assert said == '契約：<span lang="en">Trades are as reported.</span>'
    assert ja.say("石工の賃金") == "石工の賃金"


def test_a_sentence_that_no_catalogue_has_is_in_english(ja: Language):
    """As a record of later code would have one: its parameters are in the page's language all the same."""
    assert ja.plain(message("no snark is a {kind}", kind=message("none"))) == "no snark is a なし"


def test_the_pages_name_each_other(version: Version):
    english, japanese, label = (
        (version.folder / name).read_text(encoding="utf-8")
        for name in ("record.html", "record.ja.html", "label.html")
    )
    assert '<html lang="en">' in english
    assert '<html lang="ja">' in japanese
    assert 'href="record.ja.html" hreflang="ja"' in english
    assert 'href="record.ja.html" hreflang="ja"' in label
    assert 'href="record.html" hreflang="en"' in japanese
    assert "差分プライバシー" in japanese
    assert JAPANESE.sheet.read_text(encoding="utf-8") in japanese


def without_extensions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contracts.plug_ins.registered", lambda group: ())


@pytest.mark.long
def test_without_the_extension_its_page_is_named_as_not_compared_and_strict_fails(
    version: Version, monkeypatch: pytest.MonkeyPatch
):
    """Never a silent pass; and a script in it is found all the same."""
    assert version.verify(terms=CheckerTerms(strict=True)).ok
    without_extensions(monkeypatch)
    report = version.verify()
    note = f"{FILES_NOT_COMPARED}: record.ja.html: ja needs the extension sudare_japanese, which is not installed"
    assert note in report.notes
    strict = version.verify(terms=CheckerTerms(strict=True))
    assert not strict.ok
    assert [note in check.skipped for check in strict.checks if check.skipped] == [True]
    page = version.folder / "record.ja.html"
    page.write_text(page.read_text(encoding="utf-8").replace("</main>", "<script></script></main>"), encoding="utf-8")
    forge(version)
    report = version.verify()
    assert broken(report) == {10}
    assert "record.ja.html" in {finding.where for finding in report.findings}


def test_a_page_that_is_gone_is_said_where_other_code_made_the_version(version: Version):
    """Whoever published may not have had the language; where this code did, it is a finding."""
    (version.folder / "record.ja.html").unlink()
    forge(version)
    assert broken(version.verify()) == {10}
    forge(version, record=lambda record: record["declarations"]["software"].update(code="f" * 64))
    assert f"{FILES_NOT_COMPARED}: record.ja.html: the version has none" in version.verify().notes
    assert not version.verify(terms=CheckerTerms(strict=True)).ok


def test_without_the_extension_a_version_has_pages_in_english_and_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Its pages link no other; one's own page in Japanese is refused with the extension's name."""
    without_extensions(monkeypatch)
    made = publish_version(first(), tmp_path / "made", here=True)
    assert [name for name in made.files if name.endswith(".html")] == ["label.html", "record.html"]
    assert not any(".ja.html" in (made.folder / name).read_text() for name in ("label.html", "record.html"))
    made.assert_verifies(terms=CheckerTerms(strict=True))
    (tmp_path / "key.pub").write_text(made.key + "\n")
    own = tmp_path / "own.ja.html"
    said = typed("verify", str(made.folder), "--key", str(tmp_path / "key.pub"), "--page", str(own))
    assert (said.code, "ja needs the extension sudare_japanese, which is not installed" in said.err) == (2, True)
    assert not own.exists()
