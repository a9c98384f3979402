"""Advice on drafts: what is proposed, and a curator and a contact that are asked for until they are declared."""

from pathlib import Path
from typing import Any

import pytest

from contracts.contract.odcs import load_contract
from contracts.contract.semantic_version import admits_breaking, read_version
from contracts.contract.short_form import contract_document
from contracts.drafting.advice.advice import Advice, advise, suggest
from contracts.drafting.advice.suspicions import looks_identifying, near_duplicates
from contracts.errors import ContractRefused
from contracts.reading.yaml_lines import located
from contracts.release.terms import Publisher
from tests.contracts.samples import CONTRACT, replaced, write

ADULT = Path(__file__).resolve().parents[4] / "examples" / "adult" / "adult.odcs.yaml"
BINS = "bins: {edges: [17, 25, 35, 60, 90]}"
SILENT = (
    ("bins: {edges: [17, 25, 35, 90]}", BINS),
    ('gates: ["nulls:age"]', "gates: []"),
    ("bins: {width: 0.4}", "bins: {width: 0.5}"),
    ("bounds: [2020-01-15, 2020-12-31]", "bounds: [2020-01-01, 2020-12-31]"),
)


def _advice(folder: Path, *pairs: tuple[str, str]) -> tuple[Advice, ...]:
    path = write(folder, "people.odcs.yaml", replaced(CONTRACT, *SILENT, *pairs))
    return advise(load_contract(path), located(path, refusal=ContractRefused))


def test_labels_like_formulas_are_named_until_a_spec_says_how_they_are_written(tmp_path: Path):
    """`formulas:` of the spec, whatever it says, is the choice that the advice asks for."""
    path = write(tmp_path, "people.odcs.yaml", replaced(CONTRACT, *SILENT, (VALUES, "values: [F, '=1+1']")))
    contract, document = load_contract(path), located(path, refusal=ContractRefused)
    assert [each.rule for each in advise(contract, document)] == ["formula"]
    assert advise(contract, document, formulas="neutralised") == ()
    assert advise(contract, document, formulas="accepted") == ()


def test_the_sample_without_its_oddities_and_the_example_get_no_advice(tmp_path: Path):
    """A rule that always fires says nothing."""
    assert _advice(tmp_path) == ()
    assert advise(load_contract(ADULT), located(ADULT, refusal=ContractRefused)) == ()


VALUES = "values: [F, M]"
RULES = [
    ("large-domain", "domain.bins", [("bounds: [17, 90]", "bounds: [0, 99999]"), (BINS, "bins: {width: 1}")]),
    ("large-domain", "domain.kind", [("granularity: month", "granularity: day"), ("[2020-01-01", "[1980-01-01")]),
    ("one-cell", "domain", [(BINS, "bins: {edges: [17, 90]}"), ("{policy: category}", "{policy: map, to: 17}")]),
    ("one-cell", "domain", [(VALUES, "values: [F]")]),
    ("cut-bin", "domain.bins", [(BINS, "bins: {width: 10}")]),
    ("wide-bin", "domain.bins", [(BINS, "bins: {edges: [17, 25, 35, 90]}")]),
    ("wide-bin", "domain.bins", [("bins: {width: 0.5}", "bins: {edges: [0, 0.1, 1.5]}")]),
    ("cut-bin", "domain.bins", [("bins: {width: 0.5}", "bins: {width: 0.4}")]),
    ("cut-bin", "domain.bounds", [("[2020-01-01", "[2020-01-15")]),
    ("cut-bin", "domain.bounds", [("2020-12-31]", "2020-12-01]")]),
    ("gate", "privacy.gates[0]", [("gates: []", 'gates: ["domain:sex"]')]),
    ("formula", "domain", [(VALUES, "values: [F, '=1+1']")]),
    ("formula", "domain", [(VALUES, "values: [F, '-2+cmd']")]),
    ("version", "version", [("version: 1.0.0", "version: 2024-01")]),
    ("unit-is-row", "privacy.unit", [("name: moved", "name: customer_id")]),
    ("unit-is-row", "privacy.unit", [("name: moved", "name: personId")]),
    (
        "free-text",
        "domain",
        [("name: moved", "name: moved"), ("name: sex", "name: last_name"), ("{sex:", "{last_name:")],
    ),
    ("free-text", "domain.values", [(VALUES, "values: [F, M, ann@example.org]")]),
    ("free-text", "domain.values", [(VALUES, f"values: [F, M, {'long ' * 12}x]")]),
    ("near-duplicates", "domain.values", [(VALUES, "values: [F, M, f]")]),
    ("near-duplicates", "domain.values", [(VALUES, "values: [F, Administration, Adminstration]")]),
    ("near-duplicates", "domain.mapping", [("nurse: care", "nurse: Care, aide: care")]),
    (
        "unchecked",
        "domain.provenance",
        [("https://example.org/jobs", "Taken over from a.yml; check it: nothing of it may be learned")],
    ),
]


@pytest.mark.parametrize(("rule", "field", "pairs"), RULES, ids=lambda value: value if isinstance(value, str) else "")
def test_each_rule_fires_alone_where_its_cause_stands(
    tmp_path: Path, rule: str, field: str, pairs: list[tuple[str, str]]
):
    """One change, one piece of advice, with file, line, field, cause and remedy."""
    (advice,) = _advice(tmp_path, *pairs)
    assert advice.rule == rule
    assert advice.field.endswith(field)
    assert advice.where.startswith(str(tmp_path))
    assert advice.found
    assert advice.why
    assert advice.remedy


def test_advice_on_the_unit(tmp_path: Path):
    """A bound so high that noise drowns the counts, and a second id beside the unit's."""
    found = _advice(
        tmp_path,
        ("unit: {kind: row, scope: block}", "unit: {kind: id, scope: block, column: person, max_rows_per_unit: 500}"),
        ("    properties:\n", "    properties:\n      - {name: person, logicalType: string}\n"),
        ("name: moved", "name: household_id"),
    )
    assert [each.rule for each in found] == ["rows-per-unit", "id-with-domain"]
    assert "500 times" in found[0].why


def test_categories_that_look_like_somebodys_are_counted_and_not_shown(tmp_path: Path):
    """They may have been listed from the rows."""
    for value in ("ann@example.org", "+49 731 5550123", "0bd7c1f4-52a5-4bb7-9e39-7f5c1c9ac0de", "192.168.3.4"):
        found = _advice(tmp_path, (VALUES, f'values: [F, M, "{value}"]'))
        assert not any(value in " ".join(advice.to_json().values()) for advice in found)
        (advice,) = (advice for advice in found if advice.rule == "free-text")
        assert "1 of 3 categories that look like identifiers (the first is number 3)" in advice.found


@pytest.mark.parametrize(
    "value", ["<=50K", "1,000 to 2,499", "2020-01-01", "10115", "A1.2.3", "Never-married", "12 to 17"]
)
def test_plain_categories_do_not_look_like_identifiers(value: str):
    assert looks_identifying([value]) == ""


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("Self-emp", "self emp", True),
        ("Zürich", "Zurich", True),
        ("Administration", "Adminstration", True),
        ("<=50K", ">50K", False),
        ("-1", "1", False),
        ("A+", "A-", False),
        ("1.5", "1-5", False),
        ("North Carolina", "South Carolina", False),
        ("Married-civ-spouse", "Married-AF-spouse", False),
        ("5th-6th", "7th-8th", False),
        ("hyperthyroidism", "hypothyroidism", False),
        ("Institutional Group Quarters", "Non-institutional Group Quarters", False),
        ("Not in the labour force", "Not in the labor force", True),
    ],
)
def test_two_spellings_of_one_category_are_told_from_two_categories(one: str, other: str, alike: bool):
    assert bool(list(near_duplicates([one, other]))) == alike


def test_versions():
    """MAJOR.MINOR.PATCH and no other form; a breaking change takes a higher MAJOR."""
    assert read_version("1.20.3") == (1, 20, 3)
    assert [read_version(text) for text in ("1.0", "v1.0.0", "01.0.0", "1.0.0-rc1", "")] == [None] * 5
    assert admits_breaking("1.9.9", "2.0.0")
    assert not admits_breaking("1.0.0", "1.1.0")
    assert not admits_breaking("2.0.0", "1.0.0")
    assert admits_breaking("2023", "2024")
    assert not admits_breaking("2023", "2023")


ONE_DEFAULT = """\
id: a
version: 1.0.0
unit: {kind: row, scope: block}
adjacency: add_remove
defaults:
  nulls: category
  provenance: {public: "Taken over from b.csv; check it: nothing of it may have been collected from the rows"}
columns:
  a: 0..9 by 1
  b: 0..9 by 1
  c: {range: 0..9 by 1, provenance: declared}
"""


def test_a_default_of_all_columns_is_advised_on_once(tmp_path: Path):
    """It stands in one line, whatever the number of columns that it holds for."""
    file = tmp_path / "c.yaml"
    file.write_text(ONE_DEFAULT)
    found = advise(load_contract(file), contract_document(file))
    assert [(each.rule, each.field) for each in found] == [("unchecked", "defaults.provenance")]


BOTH = {"curator": "Office of Statistics", "contact": "statistics@example.org"}


def _suggestions(
    folder: Path, text: str = CONTRACT, about: dict[str, Any] | None = None, publisher: Publisher | None = None
) -> tuple[Advice, ...]:
    return suggest(contract_document(write(folder, "people.odcs.yaml", text)), about or {}, publisher)


def test_both_are_asked_for_with_what_to_type(tmp_path: Path):
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
def test_a_declaration_of_the_spec_or_the_publisher_silences_its_own_suggestion_alone(tmp_path: Path, silent: str):
    [other] = set(BOTH) - {silent}
    for found in (
        _suggestions(tmp_path, about={silent: BOTH[silent]}),
        _suggestions(tmp_path, publisher=Publisher.model_validate({silent: BOTH[silent]})),
    ):
        assert [each.rule for each in found] == [other]


def test_both_declared_leave_nothing_to_suggest(tmp_path: Path):
    assert _suggestions(tmp_path, about=BOTH) == ()
    assert _suggestions(tmp_path, publisher=Publisher.model_validate(BOTH)) == ()
    mixed = _suggestions(tmp_path, about={"curator": "A"}, publisher=Publisher(contact="b@example.org"))
    assert mixed == ()


@pytest.mark.parametrize("empty", ["", "<declare>", None])
def test_a_place_that_is_still_open_declares_nothing(tmp_path: Path, empty: str | None):
    assert len(_suggestions(tmp_path, about={"curator": empty, "contact": empty})) == 2


def test_the_standards_own_places_are_named_since_no_record_reads_them(tmp_path: Path):
    """The suggestion points to their lines, and stays: the record would still say that nobody is declared."""
    text = f"{CONTRACT}team:\n  - {{username: a.person, role: owner}}\nsupport:\n  - {{channel: desk}}\n"
    lines = text.splitlines()
    curator, contact = _suggestions(tmp_path, text)
    assert curator.where.endswith(f":{lines.index('team:') + 1}")
    assert contact.where.endswith(f":{lines.index('support:') + 1}")
    assert curator.found == "`team:` of the contract, which no record reads"
    assert contact.found == "`support:` of the contract, which no record reads"
