"""Comparing contracts: what each change is for the account and for everybody else, and what its version must say."""

from pathlib import Path

import pytest

from contracts.comparison.change import Comparison
from contracts.comparison.changes import compare
from tests.contracts.samples import loaded

UNIT = "unit: {kind: row, scope: block}"
BY_ID = (
    (UNIT, "unit: {kind: id, scope: block, column: person, max_rows_per_unit: 3}"),
    ("    properties:\n", "    properties:\n      - {name: person, logicalType: string}\n"),
)
TOTAL = '          adjacency: replace_one\n          invariants: [{kind: total, value: 9, reference: "x"}]\n'
BINS = "bins: {edges: [17, 25, 35, 90]}"
CLERK = "mapping: {office clerk: clerk, Clerk: clerk, nurse: care}"
EXTRA = """\
      - name: town
        logicalType: string
        customProperties:
          - property: domain
            value: {kind: categories, values: [a], nulls: {policy: category}, provenance: {kind: declared}}
"""


def _compared(folder: Path, *pairs: tuple[str, str]) -> Comparison:
    (folder / "a").mkdir(exist_ok=True)
    return compare(loaded(folder / "a"), loaded(folder, *pairs))


CHANGES = [
    ("account", "unit.scope", [(UNIT, "unit: {kind: row, scope: lifetime}")]),
    ("account", "adjacency", [("adjacency: add_remove", "adjacency: replace_one")]),
    ("account", "columns.age.bins", [(BINS, "bins: {edges: [17, 25, 36, 90]}")]),
    ("account", "columns.age.bins", [(BINS, "bins: {edges: [17, 25, 90]}")]),
    ("account", "columns.age.nulls", [("nulls: {policy: category}", "nulls: {policy: map, to: 17}")]),
    ("account", "columns.age.missing", [('missing: ["?", ""]', 'missing: ["?"]')]),
    ("account", "columns.sex.values", [("[F, M]", "[F, M, X]")]),
    ("account", "columns.sex.values", [("[F, M]", "[M, F]")]),
    ("account", "columns.sex.nulls", [("to: F", "to: M")]),
    ("account", "columns.sex.other", [("values: [F, M],", "values: [F, M], other: X,")]),
    ("account", "columns.job.mapping", [(CLERK, "mapping: {office clerk: clerk, Clerk: care, nurse: care}")]),
    (
        "account",
        "columns.job.mapping",
        [(CLERK, "mapping: {office clerk: clerk, Clerk: clerk, nurse: care, aide: care}")],
    ),
    ("account", "columns.moved.granularity", [("granularity: month", "granularity: quarter")]),
    ("account", "columns.moved.bounds", [("2020-12-31", "2020-12-30")]),
    ("breaking", "structural_zeros", [("job: [clerk, other]", "job: [clerk]")]),
    ("breaking", "gates", [('gates: ["nulls:age"]', 'gates: ["nulls:age", "domain:sex"]')]),
    ("breaking", "columns.town", [("    properties:\n", "    properties:\n" + EXTRA)]),
    ("breaking", "id", [("id: people", "id: persons")]),
    (
        "breaking",
        "constraints",
        [
            (
                'gates: ["nulls:age"]',
                'gates: ["nulls:age"]\n          constraints:\n'
                "            - determines: {by: sex, column: job, mapping: {F: care, M: care}}",
            )
        ],
    ),
    ("compatible", "gates", [('gates: ["nulls:age"]', "gates: []")]),
    ("compatible", "description", [("purpose: tests", "purpose: other tests")]),
    ("compatible", "table", [("  - name: people", "  - name: persons")]),
    ("compatible", "columns.job.provenance", [("https://example.org/jobs", "https://example.org/work")]),
    (
        "compatible",
        "columns.age.description",
        [("      - name: age\n", "      - name: age\n        description: Years.\n")],
    ),
]


@pytest.mark.parametrize(("effect", "field", "pairs"), CHANGES)
def test_each_change_has_its_effect(tmp_path: Path, effect: str, field: str, pairs: list[tuple[str, str]]):
    """Looked at from either side; a breaking change says why, and is announced by a new MAJOR alone."""
    compared = _compared(tmp_path, *pairs)
    assert {change.field for change in compared.changes} == {field}
    assert compared.changes[0].effect == effect
    assert bool(compared.changes[0].why) == (effect != "compatible")
    assert (compared.breaking, compared.breaking_for_account) == (effect != "compatible", effect == "account")
    assert not compared.admitted
    for version, admitted in (("2.0.0", True), ("1.1.0", effect == "compatible"), ("0.9.0", effect == "compatible")):
        assert _compared(tmp_path, ("version: 1.0.0", f"version: {version}"), *pairs).admitted == admitted


def test_several_changes_are_told_gravest_first(tmp_path: Path):
    """The unit by id: its kind, its column and its bound; a public total; another kind of domain."""
    by_id = _compared(tmp_path, *BY_ID, ("purpose: tests", "purpose: x"))
    assert [(change.field, change.words) for change in by_id.changes] == [
        ("unit.kind", "row → id"),
        ("unit.column", "none → person"),
        ("unit.max_rows_per_unit", "1 → 3"),
        ("description", "a text → another text"),
    ]
    total = _compared(tmp_path, ("          adjacency: add_remove\n", TOTAL))
    assert {change.field for change in total.changes} == {"adjacency", "invariants.total"}
    retyped = _compared(
        tmp_path,
        ("logicalType: number", "logicalType: string"),
        (
            "kind: decimal\n              bounds: [0, 1.5]\n              bins: {width: 0.4}",
            "kind: categories\n              values: [a]",
        ),
        ("to: 0.8", "to: a"),
    )
    assert {change.field.rpartition(".")[2] for change in retyped.changes} == {"logicalType", "kind", "nulls"}


def test_a_column_that_goes_is_breaking_and_the_order_of_columns_is_not(tmp_path: Path):
    text = "      - name: sex\n        logicalType: string\n        customProperties:\n          - property: domain\n"
    nulls = "nulls: {policy: map, to: F}"
    domain = f"            value: {{kind: categories, values: [F, M], {nulls}, provenance: {{kind: declared}}}}\n"
    gone = _compared(
        tmp_path,
        (text + domain, ""),
        ("            - {sex: [F], job: [clerk, other]}\n", ""),
        ("structural_zeros:\n", "structural_zeros: []\n"),
    )
    assert ("columns.sex", "breaking", "the column sex (categories) is gone") in [
        (change.field, change.effect, change.words) for change in gone.changes
    ]
    moved = _compared(tmp_path, (text + domain, ""), ("    properties:\n", "    properties:\n" + text + domain))
    assert [(change.field, change.effect) for change in moved.changes] == [("columns", "compatible")]
    assert moved.changes[0].words == "age, sex, job, income, moved → sex, age, job, income, moved"


def test_another_way_of_writing_the_same_is_no_change(tmp_path: Path):
    """Bins as pairs, quotes, comments, the order of gates, zeros and labels, the spelling of numbers."""
    same = _compared(
        tmp_path,
        (BINS, "bins: [[17, 24], [25, 34], [35, 90]]   # the same"),
        ("job: [clerk, other]", 'job: ["other", clerk]'),
        ("[0, 1.5]", "[0.0, 15e-1]"),
        ("version: 1.0.0", "version: 1.0.1"),
        ("apiVersion: v3.1.0", "apiVersion: v3.0.2"),
    )
    assert same.changes == ()
    assert same.verdict == "they mean the same"
    assert same.admitted


def test_any_change_takes_a_version_of_its_own(tmp_path: Path):
    """A description that changes under the same version is not announced; under another one it is."""
    assert not _compared(tmp_path, ("purpose: tests", "purpose: x")).admitted
    assert _compared(tmp_path, ("purpose: tests", "purpose: x"), ("version: 1.0.0", "version: 1.0.1")).admitted
