"""Contracts on disk: what loads, and what each mistake gets to read."""

from pathlib import Path

import pytest

from contracts.contract.odcs import load_contract
from contracts.domains.categories import CategoryDomain, MappingDomain
from contracts.domains.ordered import DateDomain, DecimalDomain, IntegerDomain
from contracts.errors import ContractRefused
from tests.contracts.samples import CONTRACT, contract_findings, line_of, loaded, replaced, write

INTEGER = "              bins: {edges: [17, 25, 35, 90]}"
UNIT = "unit: {kind: row, scope: block}"
ADJACENCY = "adjacency: add_remove"


def test_a_contract_loads_into_frozen_columns(tmp_path: Path):
    """Identity, terms and the five kinds of domain arrive as written."""
    contract = loaded(tmp_path)
    assert (contract.id, contract.version, contract.table, contract.apiVersion) == (
        "people",
        "1.0.0",
        "people",
        "v3.1.0",
    )
    assert contract.description == {"purpose": "tests"}
    kinds = [type(column.domain) for column in contract.columns]
    assert kinds == [IntegerDomain, CategoryDomain, MappingDomain, DecimalDomain, DateDomain]
    assert (contract.unit.kind, contract.adjacency, contract.gates) == ("row", "add_remove", ("nulls:age",))
    assert contract.structural_zeros[0].assignment == (("sex", ("F",)), ("job", ("clerk", "other")))
    assert contract.column("job").domain.provenance.reference == "https://example.org/jobs"


def test_the_id_column_has_no_domain_and_is_no_column(tmp_path: Path):
    """With a unit of kind id the id is delivered by the source but is never a column of a table."""
    contract = loaded(
        tmp_path,
        (UNIT, "unit: {kind: id, scope: block, column: person, max_rows_per_unit: 3}"),
        ("    properties:\n", "    properties:\n      - {name: person, logicalType: string}\n"),
    )
    assert contract.source_columns == ("person", "age", "sex", "job", "income", "moved")
    assert [column.name for column in contract.columns] == ["age", "sex", "job", "income", "moved"]
    assert contract.unit.max_rows_per_unit == 3


MISTAKES = [
    ("adjacency: add_remove", "adjacncy: add_remove", "privacy.adjacncy", "write 'adjacency' instead of 'adjacncy'"),
    ("adjacency: add_remove", "adjacency: substitute", "privacy.adjacency", "one of add_remove, replace_one"),
    (UNIT, "unit: {kind: row}", "privacy.unit.scope", "which is required: one of block, lifetime"),
    (UNIT, "unit: {kind: row, scope: }", "privacy.unit.scope", "one of block, lifetime"),
    (UNIT, "unit: {kind: row, scope: [block, lifetime]}", "privacy.unit.scope", "one of block, lifetime"),
    (UNIT, "unit: {kind: row, scope: blok}", "privacy.unit.scope", "write 'block' instead of 'blok'"),
    (UNIT, "unit: {kind: row, scope: block, scoop: block}", "privacy.unit.scoop", "write 'scope' instead of 'scoop'"),
    (
        UNIT,
        "unit: {kind: id, scope: block, column: nobody, max_rows_per_unit: 1}",
        "unit.column",
        "a declared property",
    ),
    (
        UNIT,
        "unit: {kind: id, scope: block, column: age, max_rows_per_unit: 1}",
        "unit.column",
        "a property without `domain`",
    ),
    (UNIT, "unit: {kind: id, scope: block, max_rows_per_unit: 1}", "privacy.unit", "`column` given"),
    (UNIT, "unit: {kind: id, scope: block, column: age}", "privacy.unit", "`max_rows_per_unit` given"),
    (
        UNIT,
        "unit: {kind: id, scope: block, column: age, max_rows_per_unit: 0}",
        "max_rows_per_unit",
        "a whole number from 1",
    ),
    (
        UNIT,
        "unit: {kind: id, scope: block, column: age, max_rows_per_unit: -2}",
        "max_rows_per_unit",
        "a whole number from 1",
    ),
    (
        UNIT,
        "unit: {kind: id, scope: block, column: age, max_rows_per_unit: 1.5}",
        "max_rows_per_unit",
        "a whole number",
    ),
    (UNIT, "unit: {kind: row, scope: block, column: age}", "privacy.unit", "kind: row and its scope alone"),
    ('gates: ["nulls:age"]', 'gates: ["nulls:agee"]', "gates[0]", "write 'nulls:age' instead of 'nulls:agee'"),
    ('gates: ["nulls:age"]', "gates: nulls:age", "privacy.gates", "a list"),
    ("{sex: [F], job", "{sxe: [F], job", "structural_zeros[0].sxe", "write 'sex' instead of 'sxe'"),
    ("{sex: [F], job", "{sex: [Q], job", "structural_zeros[0].sex[0]", "one of F, M"),
    ("{sex: [F], job", "{sex: F, job", "structural_zeros[0].sex", "a list of labels"),
    ("bounds: [17, 90]", "bounds: [17, .inf]", "domain.bounds[1]", "infinity and NaN"),
    ("bounds: [17, 90]", "bounds: [17, 1e309]", "domain.bounds[1]", "without an exponent"),
    ("bounds: [17, 90]", "bounds: [90, 17]", "domain.bounds", "a lower bound below the upper bound"),
    ("bounds: [17, 90]", "bounds: [17]", "domain.bounds", "a pair [low, high]"),
    ("bounds: [0, 1.5]", "bounds: [0, .nan]", "domain.bounds[1]", "infinity and NaN"),
    ("bounds: [0, 1.5]", "bounds: [0, 1e309]", "domain.bounds[1]", "between -1e15 and 1e15"),
    ("bounds: [0, 1.5]", "bounds: [-.inf, 1.5]", "domain.bounds[0]", "infinity and NaN"),
    ("bounds: [0, 1.5]", "bounds: [0, 1e-999999999]", "domain.bounds[1]", "at most 15 decimals"),
    ("bounds: [0, 1.5]", "bounds: [1.5, 1.5]", "domain.bounds", "a lower bound below the upper bound"),
    ("edges: [17, 25, 35, 90]", "edges: [17, 25, 25, 90]", "bins.edges[2]", "edges that increase"),
    ("edges: [17, 25, 35, 90]", "edges: [18, 25, 35, 80]", "bins.edges[0]", "bins from the lower bound, 17"),
    ("edges: [17, 25, 35, 90]", "edges: [17, 25, 35, 80]", "bins.edges[3]", "bins to the upper bound, 90"),
    ("edges: [17, 25, 35, 90]", "edges: [17]", "bins.edges", "at least two edges"),
    ("edges: [17, 25, 35, 90]", "egdes: [17, 90]", "bins.egdes", "write 'edges' instead of 'egdes'"),
    ("{edges: [17, 25, 35, 90]}", "[[17, 30], [30, 90]]", "bins[1]", "a bin that begins at 31"),
    ("{edges: [17, 25, 35, 90]}", "[[17, 30], [33, 90]]", "bins[1]", "leaves a gap after [17, 30]"),
    ("{edges: [17, 25, 35, 90]}", "[[17, 30], [31, 20]]", "bins[1]", "low before high"),
    ("{edges: [17, 25, 35, 90]}", "[[17, 30, 31], [31, 90]]", "bins[0]", "a pair [low, high]"),
    ("{edges: [17, 25, 35, 90]}", "{width: 0}", "bins.width", "a width above zero"),
    ("{edges: [17, 25, 35, 90]}", "5", "domain.bins", "{width: ...} or a list of pairs"),
    ("bins: {width: 0.4}", "bins: {width: 1e-9}", "bins.width", "at most 1048576 bins"),
    ("values: [F, M]", "values: [F, M, F]", "domain.values[2]", "each value once"),
    ("values: [F, M]", "values: []", "domain.values", "at least one category"),
    ("values: [F, M]", "values: [F, ' M']", "domain.values[1]", "no space at its ends"),
    ("values: [F, M]", "values: [F, ~]", "domain.values[1]", "put quotes around it"),
    ("values: [F, M]", 'values: [F, "(null)"]', "domain.values", "any other text"),
    ("values: [F, M]", "valeus: [F, M]", "domain.valeus", "write 'values' instead of 'valeus'"),
    ("values: [F, M]", "values: [F, M], other: F", "domain.other", "a new name"),
    ("values: [F, M]", "values: [F, M], missing: [M]", "domain.missing", "either null or a value"),
    ("{policy: map, to: F}", "{policy: map, to: X}", "domain.nulls.to", "a category of this column"),
    ("{policy: map, to: F}", "{policy: map}", "domain.nulls", "the value that nulls become"),
    ("{policy: map, to: F}", "{policy: drop}", "domain.nulls.policy", "one of category, map"),
    ("{policy: map, to: 0.8}", "{policy: map, to: 2}", "domain.nulls.to", "a value between 0 and 1.5"),
    ("kind: mapping", "kind: mappin", "domain.kind", "write 'mapping' instead of 'mappin'"),
    ("Clerk: clerk", "care: clerk", "domain.mapping.care", "care: care"),
    ('{kind: public, reference: "https://example.org/jobs"}', "{kind: public}", "provenance", "a reference"),
    ('missing: ["?", ""]', 'missing: ["?", "50.0"]', "domain.missing", "inside the bounds"),
    ("granularity: month", "granularity: month\n              missing: [2020/02/29]", "missing", "inside the bounds"),
    ("granularity: month", "granularity: decade", "granularity", "one of day, week, month, quarter, year"),
    ("bounds: [2020-01-15, 2020-12-31]", "bounds: [2020-01-15, 2020-13-31]", "bounds[1]", "a day of the calendar"),
    ("bounds: [2020-01-15, 2020-12-31]", "bounds: [15.1.2020, 2020-12-31]", "bounds[0]", "YYYY-MM-DD"),
    ("logicalType: integer", "logicalType: int", "logicalType", "write 'integer' instead of 'int'"),
    ("logicalType: integer", "logicalType: string", "domain.kind", "kind categories or mapping"),
    ("- name: age", "- nmae: age", "properties[0].nmae", "write 'name' instead of 'nmae'"),
    ("- name: sex", "- name: AGE", "properties[1].name", "more than upper and lower case"),
    ("property: domain", "property: domian", "properties[0].domain", "write 'domain' instead of 'domian'"),
    ("property: privacy", "property: privcy", "schema[0].privacy", "write 'privacy' instead of 'privcy'"),
    ("apiVersion: v3.1.0", "apiVersion: v2.2.0", "apiVersion", "v3.1.0"),
    ("kind: DataContract", "kind: Contract", "kind", "DataContract"),
    ("version: 1.0.0", "version: 1.0", "version", "put quotes around it"),
    ("id: people\n", "", "id", "the key `id`, which is required"),
    ("status: active", "statsu: active", "statsu", "write 'status' instead of 'statsu'"),
]


@pytest.mark.parametrize(("old", "new", "field", "says"), MISTAKES)
def test_a_mistake_names_its_line_its_field_and_what_is_allowed(
    tmp_path: Path, old: str, new: str, field: str, says: str
):
    """Each mistake yields a finding on a line of the file, at its field, that says what is allowed or what to do."""
    text = replaced(CONTRACT, (old, new))
    findings = contract_findings(tmp_path, text)
    hits = [finding for finding in findings if finding.field.endswith(field) and says in str(finding)]
    assert hits, "\n".join(map(str, findings))
    path, _, line = hits[0].where.rpartition(":")
    assert path.endswith("bad.odcs.yaml")
    assert 1 <= int(line) <= text.count("\n")


@pytest.mark.parametrize(
    ("unit", "found", "verb"),
    [
        ("{kind: row}", "nothing", "add"),
        ("{kind: id, column: person, max_rows_per_unit: 3}", "nothing", "add"),
        ("{kind: row, scope: forever}", "'forever'", "write"),
    ],
)
def test_a_unit_says_whether_a_block_or_a_lifetime_is_bounded(tmp_path: Path, unit: str, found: str, verb: str):
    """A missing scope and one that means nothing are refused on the unit's line, with what each word would mean."""
    text = replaced(
        CONTRACT,
        (UNIT, f"unit: {unit}"),
        (
            "    properties:\n",
            "    properties:\n      - {name: person, logicalType: string}\n" if "id" in unit else "    properties:\n",
        ),
    )
    (finding,) = contract_findings(tmp_path, text)
    assert finding.where.endswith(f":{line_of(text, 'unit:')}")
    assert (finding.field, finding.found) == ("schema[0].privacy.unit.scope", found)
    assert "one of block, lifetime" in finding.allowed
    assert finding.remedy.startswith(f"{verb} `scope: block` if each time block's people are bounded by themselves")
    assert "`scope: lifetime` if people appear in several blocks" in finding.remedy


def test_both_scopes_are_read_and_are_two_contracts(tmp_path: Path):
    """The charge depends on the scope, so the digest does."""
    contracts = {
        scope: loaded(tmp_path, (UNIT, f"unit: {{kind: row, scope: {scope}}}")) for scope in ("block", "lifetime")
    }
    assert [contract.unit.scope for contract in contracts.values()] == ["block", "lifetime"]
    assert contracts["block"].digest != contracts["lifetime"].digest


def test_a_finding_stands_on_the_line_of_its_value(tmp_path: Path):
    """The line is that of the value, also deep inside a block."""
    text = replaced(CONTRACT, ("bounds: [17, 90]", "bounds:\n                - 17\n                - .inf"))
    (finding,) = contract_findings(tmp_path, text)
    assert finding.where.endswith(f":{line_of(text, '.inf')}")
    assert finding.field == "schema[0].properties[0].domain.bounds[1]"
    assert finding.found == "'.inf'"


def test_all_findings_come_at_once_in_the_order_of_the_file(tmp_path: Path):
    """A bad header, a bad gate, a bad zero and three bad domains are one refusal with all of them."""
    text = replaced(
        CONTRACT,
        ("kind: DataContract", "kind: Contract"),
        ("[F], job: [clerk", "[F], job: [clrk"),
        ("nulls:age", "nulls:agee"),
        ("bounds: [17, 90]", "bounds: [17, .nan]"),
        ("values: [F, M]", "values: [M, M, F]"),
        ("granularity: month", "granularity: hour"),
    )
    findings = contract_findings(tmp_path, text)
    lines = [int(finding.where.rpartition(":")[2]) for finding in findings]
    assert lines == sorted(lines)
    fields = " ".join(finding.field for finding in findings)
    for field in ("kind", "structural_zeros[0].job[0]", "gates[0]", "bounds[1]", "values[1]", "granularity"):
        assert field in fields


def test_a_refused_privacy_block_does_not_hide_its_other_mistakes(tmp_path: Path):
    """With a bad adjacency the unknown gate is still reported."""
    text = replaced(CONTRACT, (ADJACENCY, "adjacency: both"), ("nulls:age", "nulls:agee"))
    fields = [finding.field for finding in contract_findings(tmp_path, text)]
    assert fields == ["schema[0].privacy.adjacency", "schema[0].privacy.gates[0]"]


PUBLIC_TOTAL = 'adjacency: replace_one\n          invariants: [{kind: total, value: 100, reference: "the yearbook"}]'


def test_a_public_total_needs_replace_one_and_one_row_per_unit(tmp_path: Path):
    """Law 4: an exact total is public only where neighbours have the same size."""
    contract = loaded(tmp_path, (ADJACENCY, PUBLIC_TOTAL))
    assert contract.total is not None
    assert (contract.total.value, contract.total.reference) == (100, "the yearbook")
    wrong = replaced(CONTRACT, (ADJACENCY, PUBLIC_TOTAL.replace("replace_one", "add_remove")))
    (finding,) = contract_findings(tmp_path, wrong)
    assert "add_remove with a public total" in finding.found
    several = replaced(
        CONTRACT,
        (ADJACENCY, PUBLIC_TOTAL),
        (UNIT, "unit: {kind: id, scope: block, column: person, max_rows_per_unit: 2}"),
        ("    properties:\n", "    properties:\n      - {name: person, logicalType: string}\n"),
    )
    (finding,) = contract_findings(tmp_path, several)
    assert finding.field.endswith("unit.max_rows_per_unit")


def test_an_invariant_needs_a_reference(tmp_path: Path):
    """A public total without the place where it is published is refused."""
    text = replaced(CONTRACT, (ADJACENCY, PUBLIC_TOTAL.replace(', reference: "the yearbook"', "")))
    (finding,) = contract_findings(tmp_path, text)
    assert (finding.field, finding.remedy) == ("schema[0].privacy.invariants[0].reference", "add `reference:`")


FILES = [
    (b"", "an empty file"),
    (b"# only a comment\n", "an empty file"),
    (b"- a\n- b\n", "a list"),
    (b"hello\n", "a single text"),
    (b"id: [1\nkind: x\n", "did not find expected"),
    (b"id: 1\n\tkind: x\n", "indent with spaces"),
    (b"id: a\nid: b\n", "'id' again (first on line 1)"),
    (b"id: caf\xe9\n", "the byte 0xe9 at offset 7"),
    (b"id: a\n---\nid: b\n", "a second document"),
    (b"id: !!python/object:os.system {}\n", "no tags"),
    (b"id: &x [*x]\n", "an alias of something complete"),
    (b"id: a\x07\n", "printable text"),
    (b"[" * 100_000, "levels"),
    (b"<<: {id: a}\n", "a merge key"),
    (b"[1, 2]: a\n", "a list or mapping as a key"),
    (b"schema: hello\n", "a list"),
    (b"schema: []\n", "exactly one table"),
    (b"schema: [hello]\n", "a mapping of keys"),
    (b"schema: [{properties: [1]}]\n", "a mapping of keys"),
    (b"customProperties: {privacy: {}}\n", "a list"),
]


@pytest.mark.parametrize(("content", "says"), FILES)
def test_a_file_that_is_no_contract_is_refused_with_a_reason(tmp_path: Path, content: bytes, says: str):
    """Empty, malformed, ambiguous and hostile files get findings, never a traceback."""
    findings = contract_findings(tmp_path, content)
    assert any(says in str(finding) for finding in findings), findings


def test_a_missing_file_and_a_folder_are_findings(tmp_path: Path):
    """What is not there is said with the path that was asked for."""
    for path, says in ((tmp_path / "no.yaml", "no such file"), (tmp_path, "a folder")):
        with pytest.raises(ContractRefused, match=says) as refused:
            load_contract(path)
        assert str(path) in refused.value.findings[0].where
        assert refused.value.exit_code == 2


def test_aliases_that_expand_without_end_are_refused(tmp_path: Path):
    """Nine levels of nine aliases each would be 400 million values."""
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [" + ", ".join([f"*a{n - 1}"] * 9) + "]" for n in range(1, 9)]
    (finding,) = contract_findings(tmp_path, "\n".join(levels))
    assert "expand without end" in finding.found


def test_two_tables_are_refused(tmp_path: Path):
    """One contract describes one table."""
    findings = contract_findings(tmp_path, CONTRACT + "  - name: second\n    properties: []\n")
    assert any(finding.found == "2 tables" for finding in findings)


def test_the_digest_depends_on_meaning_and_not_on_layout(tmp_path: Path):
    """Comments, order of keys, spelling of numbers and the form of the bins change nothing; a bound does."""
    digest = loaded(tmp_path).digest
    same = loaded(
        tmp_path,
        ("id: people\nname: People\n", "name:   'People'  # who\nid: people\n"),
        ("kind: categories, values: [F, M]", "values: ['F', \"M\"], kind: categories"),
        ("{sex: [F], job: [clerk, other]}", "{job: [other, clerk], sex: [F]}"),
        (
            "bounds: [0, 1.5]\n              bins: {width: 0.4}",
            "bins: {width: 4e-1}\n              bounds: [0.0, 1.50]",
        ),
        ("edges: [17, 25, 35, 90]", "edges: [+17, 25, 035, 90]"),
        ('missing: ["?", ""]', 'missing: ["", " ? "]'),
    )
    assert same.digest == digest
    assert (
        loaded(
            tmp_path, (INTEGER, INTEGER.replace("{edges: [17, 25, 35, 90]}", "[[17, 24], [25, 34], [35, 90]]"))
        ).digest
        == digest
    )
    assert loaded(tmp_path, ("[17, 25, 35, 90]", "[17, 25, 36, 90]")).digest != digest
    assert loaded(tmp_path, ("values: [F, M]", "values: [M, F]")).digest != digest


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path):
    """Editors that write one do no harm."""
    path = write(tmp_path, "bom.odcs.yaml", "﻿" + CONTRACT)
    assert load_contract(path).id == "people"


@pytest.mark.parametrize("name", ["row", "Row", "ROW"])
def test_an_id_column_is_not_named_like_the_unit_row(tmp_path: Path, name: str):
    """The ledger could not tell such a unit from the unit row."""
    text = replaced(
        CONTRACT,
        (
            "unit: {kind: row, scope: block}",
            f"unit: {{kind: id, scope: block, column: {name}, max_rows_per_unit: 3}}",
        ),
        ("    properties:\n", f"    properties:\n      - {{name: {name}, logicalType: string}}\n"),
    )
    (finding,) = contract_findings(tmp_path, text)
    assert finding.field.endswith("privacy.unit.column")
    assert "other than row" in finding.allowed
    assert finding.remedy
