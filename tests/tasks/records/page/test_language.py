"""The page in Japanese: whole catalogues, sentences with slots, and no English but names and people's own words."""

from __future__ import annotations

import json
import re
import stat
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markupsafe import Markup

from console.site import words_ja
from privacy.classifiers.trainer import trainer
from privacy.generators.registry import TRAINERS
from tasks.records.fitted_groups import synthesis_groups as synthesis
from tasks.records.fitted_groups.classifier_groups import KNOWN_BIAS, USES, model_groups
from tasks.records.fitted_groups.synthetic_groups import synthetic_groups
from tasks.records.groups import noise as making
from tasks.records.hazards import data_hazards as hazards_of_data
from tasks.records.hazards import guarantee_hazards as hazards_of_guarantee
from tasks.records.hazards import implementation_hazards as hazards_of_implementation
from tasks.records.hazards import limitations as limits
from tasks.records.hazards import pipeline_hazards as hazards_of_pipeline
from tasks.records.page.language import LANGUAGES, Language, language
from tasks.records.record import GROUPS
from tasks.storage.sources import gate_words as gates
from tests.tasks.verification.forgery import Json, load
from tests.worlds.classifiers import anonymized_learning, dp_sgd, learning_first
from tests.worlds.hierarchies import nested
from tests.worlds.sparse_tables import small
from tests.worlds.synthetic_rows import aim, gaussians
from tests.worlds.versions import Version, Worlds

DOCS = Path(__file__).resolve().parents[4] / "docs"
SLOT = re.compile(r"\{(\w+)[#+!]?\}")
FIELDS = {
    f"{group.name}.{field.name}": (group, field)
    for group in (*GROUPS, *synthetic_groups(GROUPS), *model_groups(GROUPS))
    for field in group.fields
}
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


def test_all_languages_have_the_same_texts_with_the_same_slots() -> None:
    """A text that one language lacks, or that says less, would leave a hole in its page."""
    english = language("en").texts
    for code in LANGUAGES:
        texts = language(code).texts
        assert set(texts) == set(english)
        for key, text in texts.items():
            assert set(SLOT.findall(text)) == set(SLOT.findall(english[key])), key
            assert re.findall(r'href="[^"]*"', text) == re.findall(r'href="[^"]*"', english[key]), key


def test_every_field_has_a_japanese_name_and_meaning(ja: Language) -> None:
    assert set(FIELDS) == set(ja.fields)
    for path, (name, means) in ja.fields.items():
        assert name, path
        assert not means.isascii(), path


def test_every_group_and_every_reason_is_translated(ja: Language) -> None:
    for path, (group, field) in FIELDS.items():
        assert ja.translate(group.title) is not None, group.title
        assert not field.absent or 'lang="en"' not in ja.say(field.absent), path


def written_texts() -> list[str]:
    """Sentences without slots that our modules write into records, whether or not a run of these tests does."""
    layers = (hazards_of_data, hazards_of_guarantee, hazards_of_implementation, hazards_of_pipeline)
    hazards = [hazard for layer in layers for hazard in layer.HAZARDS]
    biases = [*making.BIAS.values(), *making.CONSISTENT_BIAS.values()]
    return [
        *(hazard.hazard for hazard in hazards),
        *(hazard.how for hazard in hazards if isinstance(hazard.how, str)),
        *(hazard.concerns[1] for hazard in hazards if hazard.concerns is not None),
        *(text for limit in limits.LIMITS for text in (limit.title, limit.says)),
        *limits.OUT_OF_SCOPE,
        *making.SAMPLERS.values(),
        *making.ENTROPY.values(),
        *(text for bias, steps in biases for text in (bias, *steps)),
        *making.SPARSE_BIAS.values(),
        *making.CHOICE.values(),
        *synthesis.ROWS_FROM.values(),
        *(text for name, text in synthesis.DECODING.items() if name != "number"),
        *USES,
        KNOWN_BIAS,
        *(each.says for each in map(trainer, TRAINERS.names)),
        *synthesis.USES,
        *synthesis.USES_OF_SUMS,
        *(synthesis.SAMPLING, synthesis.KNOWN_BIAS, synthesis.BIAS_OF_SUMS, synthesis.CONDITIONAL),
    ]


def test_what_our_modules_write_is_translated(ja: Language) -> None:
    """Also what no run of these tests comes to write: hazards that do not concern them, other methods."""
    texts = written_texts()
    assert len(texts) > 120
    assert [text for text in texts if 'lang="en"' in ja.say(text)] == []


def test_sentences_have_the_same_slots_on_both_sides(ja: Language) -> None:
    assert len({source for source, _ in ja.sentences}) == len(ja.sentences)
    for source, to in ja.sentences:
        assert set(SLOT.findall(source)) == set(SLOT.findall(to)), source
        assert not to.isascii() or to == source, source


@pytest.mark.parametrize(
    ("english", "japanese"),
    [
        ("one worker (at most 3 rows), over all time blocks", "worker 1単位（最大3行）、全期間を通して"),
        ("12 cells, one for each value of age", "12セル（age の値ごとに1つ）"),
        ("that every row has a worker (always checked)", "すべての行に worker があること（常に検査）"),
        ("10 to 99", "10 ～ 99"),
        ("none", "なし"),
        ("guild-2020", "guild-2020"),
    ],
)
def test_sentences_are_translated_with_what_fills_them(ja: Language, english: str, japanese: str) -> None:
    assert ja.say(english) == japanese


def test_a_publisher_s_words_are_not_cut_where_they_hold_words_of_a_sentence(ja: Language) -> None:
    """The example's people are "in the UCI Adult extract": the block is what follows the last "in"."""
    people = "people in X in 1994"
    said = ja.plain(
        f"never: the cap of a is for good, for all that is ever published of {people} in 2026-Q4. Other days have "
        "accounts of their own; an account whose days overlap these inherits what was charged, and is charged too"
    )
    assert f"2026-Q4 の{people}について" in said
    bound = "every account of these people whose days it touches is charged, in one transaction: a"
    assert f"{people}, 2026に結び付けられ" in ja.plain(f"the source is bound to {people}, 2026; {bound}")


def test_every_gate_of_every_form_of_source_is_translated(ja: Language) -> None:
    """A clause of ours without a translation takes the whole sentence with it: no half of a sentence is Japanese."""
    once = gates.readable_somehow()
    every = [*gates.READABLE.values(), *gates.READABLE_FILES.values(), gates.TYPED, gates.ALIKE, gates.ONCE, *once]
    assert len(every) > 10
    for gate in every:
        assert 'lang="en"' not in ja.say(f"that {gate} (always checked)"), gate
    mangled = ja.plain("that no snark is a boojum (always checked)")
    assert mangled == "that no snark is a boojum (always checked)"


def test_one_word_has_one_translation(ja: Language) -> None:
    """docs/glossary.md says for each term which word the pages use, and which they do not; both kinds of page."""
    table = (DOCS / "glossary.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line[1:-1].split("|")] for line in table.splitlines() if line[:2] == "| "]
    terms = [(row[0], row[2], [word for word in row[3].split("、") if word]) for row in rows[1:] if row[2]]
    assert len(terms) > 12
    written = [*ja.texts.values(), *ja.keys.values(), *(to for _, to in ja.sentences), *words_ja.TEXTS.values()]
    written += [text for pair in ja.fields.values() for text in pair]
    for english, used, others in terms:
        assert any(used in text for text in written), english
        for word in others:
            assert not [text for text in written if word in text], (english, word)


def test_what_nobody_translated_is_marked_as_english(ja: Language) -> None:
    """A publisher's words stay as they are; sentences around them are translated; nothing is lost."""
    assert ja.say("wages of the masons") == '<span lang="en">wages of the masons</span>'
    mixed = ja.say("each row by itself")
    assert mixed == "各行を個別に処理"
    said = ja.say("the contract: Trades are as reported.")
    assert said == "契約：Trades are as reported."
    assert ja.say("石工の賃金") == "石工の賃金"


def test_values_are_escaped_in_every_language(ja: Language) -> None:
    """Neither a slot nor an untranslated value can bring in markup."""
    hostile = "<script>alert(1)</script>"
    for lang in (ja, language("en")):
        for text in (hostile, f"every row has a {hostile}", f"some words and {hostile}"):
            assert "<script" not in lang.say(text)
        assert "<script" not in lang.text("footer", version=hostile, run="r")
        assert "<script" not in lang.drawn(Markup('<text aria-label="&lt;script&gt;">&lt;script&gt;</text>'))


def test_english_stays_as_the_record_has_it() -> None:
    """In its own language a record is shown section for section."""
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


def own_words(record: Json) -> str:
    """Everything in a record that people wrote: the contract, the spec, declarations."""
    said = []
    for path in (*OWN_WORDS, *record["declared"]):
        section, _, name = path.partition(".")
        field = record["groups"][section]["fields"].get(name)
        said.append("" if field is None else json.dumps(field["value"], ensure_ascii=False))
    return " ".join(said)


def check_japanese(version: Version) -> None:
    record = load(version.folder / "record.json")
    words = own_words(record)
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


def test_the_lineage_leads_from_the_contract_to_every_table(versions: dict[str, Version]) -> None:
    """Draws, tables and files stand in the picture, and the loss; it is described for those who do not see it."""
    page = (versions["guild"].folder / "record.html").read_text(encoding="utf-8")
    [graph] = re.findall(r'<svg class="graph".*?</svg>', page, re.DOTALL)
    files = ("data/pay.parquet", "data/hired.parquet")
    for part in ("workers 2.3.1", "ε ≤ 2.5, δ = 1e-8", "account guild-2020", *files):
        assert part in graph
    assert graph.count('<g class="draw">') == 2
    assert graph.count('<g class="file">') == 2
    assert "aria-label=" in graph


def test_the_auditors_page_has_what_is_withheld_and_only_the_owner_reads_it(versions: dict[str, Version]) -> None:
    private = versions["guild"].folder.parents[2] / "records"
    [path] = private.rglob("record.auditor.html")
    [record] = private.rglob("record.auditor.json")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    page = path.read_text(encoding="utf-8")
    hidden = load(record)["record"]["groups"]["source"]["fields"]["source"]["value"]
    assert f">{hidden}" in page
    assert "For auditors only" in page
    assert 'href="data/' not in page
    assert "withheld" not in re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL).replace("are withheld", "")
