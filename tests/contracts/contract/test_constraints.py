"""Constraints and checks of a contract: which there are, which are gates, which rows break them."""

from itertools import product
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pytest

from contracts.contract import impossible_cells
from contracts.contract.contract import Contract, checks
from contracts.contract.impossible_cells import some_row_possible
from contracts.contract.odcs import load_contract
from contracts.contract.terms import Constraint, check_names, order_pairs
from contracts.sql.encoding import encode_select, violation_sql
from tests.contracts.samples import column, contract_findings, contract_of, loaded, write

HEAD = """\
apiVersion: v3.1.0
kind: DataContract
id: stays
name: Stays
version: 1.0.0
status: active
schema:
  - name: stays
    logicalType: object
    physicalType: table
    customProperties:
      - property: privacy
        value:
          unit: {{kind: row, scope: block}}
          adjacency: add_remove
          structural_zeros: [{{city: [Ulm], low: ["0 to 4"]}}]
          constraints: {constraints}
    properties:
"""
DECLARED = "provenance: {kind: declared}"
COLUMNS = {
    "low": (
        "integer",
        f"{{kind: integer, bounds: [0, 9], bins: {{width: 5}}, nulls: {{policy: category}}, {DECLARED}}}",
    ),
    "high": (
        "integer",
        f"{{kind: integer, bounds: [0, 9], bins: {{width: 3}}, nulls: {{policy: map, to: 9}}, {DECLARED}}}",
    ),
    "price": (
        "number",
        f"{{kind: decimal, bounds: [0, 2], bins: {{edges: [0, 0.5, 2]}}, nulls: {{policy: category}}, {DECLARED}}}",
    ),
    "paid": (
        "number",
        f"{{kind: decimal, bounds: [0, 1], bins: {{edges: [0, 0.5, 1]}}, nulls: {{policy: category}}, {DECLARED}}}",
    ),
    "begin": (
        "date",
        "{kind: date, bounds: [2024-01-15, 2024-04-10], granularity: month, nulls: {policy: category}, "
        f"{DECLARED}}}",
    ),
    "end": (
        "date",
        "{kind: date, bounds: [2024-01-01, 2024-06-30], granularity: quarter, nulls: {policy: category}, "
        f"{DECLARED}}}",
    ),
    "zip": (
        "string",
        f'{{kind: categories, values: ["10", "20", "30"], other: x, nulls: {{policy: category}}, {DECLARED}}}',
    ),
    "city": ("string", f"{{kind: categories, values: [Ulm, Bonn], nulls: {{policy: category}}, {DECLARED}}}"),
}
DEPENDENCY = "{determines: {by: zip, column: city, mapping: {'10': Ulm, '20': Bonn, '30': Bonn}}}"


def text(constraints: str) -> str:
    blocks = [
        f"      - name: {name}\n        logicalType: {kind}\n        customProperties:\n"
        f"          - property: domain\n            value: {domain}\n"
        for name, (kind, domain) in COLUMNS.items()
    ]
    return HEAD.format(constraints=constraints) + "".join(blocks)


def contract(folder: Path, constraints: str) -> Contract:
    return load_contract(write(folder, "stays.odcs.yaml", text(constraints)))


def test_an_order_excludes_the_cells_in_which_every_pair_of_values_breaks_it(tmp_path: Path):
    """Against all pairs of whole numbers; a missing value breaks nothing."""
    made = contract(tmp_path, "[{less_or_equal: [low, high]}]")
    mask = made.impossible(("low", "high"))
    low, high = ([range(a, b + 1) for a, b in made.column(name).domain.bins] for name in ("low", "high"))
    for i, j in product(range(2), range(4)):
        assert mask[i, j] == (not any(a <= b for a, b in product(low[i], high[j])))
    assert not mask[2].any()
    assert (made.impossible(("high", "low")) == mask.T).all()
    assert (made.impossible(("high", "city", "low"))[:, 1, :] == mask.T).all()


def test_half_open_bins_and_periods_are_compared_by_their_values(tmp_path: Path):
    """price in [0.5, 2] exceeds every paid below 0.5; a day of April exceeds every day of the first quarter."""
    made = contract(tmp_path, "[{less_or_equal: [price, paid]}, {less_or_equal: [begin, end]}]")
    assert made.impossible(("price", "paid")).tolist() == [
        [False, False, False],
        [True, False, False],
        [False, False, False],
    ]
    assert made.impossible(("begin", "end"))[:4, :2].tolist() == [[False, False]] * 3 + [[True, False]]


def test_a_dependency_excludes_every_other_label(tmp_path: Path):
    """Labels that are not mapped (`other`), and missing values, are free."""
    made = contract(tmp_path, f"[{DEPENDENCY}]")
    assert made.impossible(("zip", "city")).tolist() == [
        [False, True, False],
        [True, False, False],
        [True, False, False],
        [False, False, False],
        [False, False, False],
    ]


def test_orders_follow_from_others():
    """a <= b <= c gives a <= c."""
    chain = [Constraint(less_or_equal=("a", "b")), Constraint(less_or_equal=("b", "c"))]
    assert set(order_pairs(chain)) == {("a", "b"), ("b", "c"), ("a", "c")}


def test_the_cliques_of_zeros_are_those_of_zeros_and_constraints(tmp_path: Path):
    """In the contract's order of columns, and only where all columns count."""
    made = contract(tmp_path, f"[{{less_or_equal: [paid, price]}}, {DEPENDENCY}]")
    assert set(made.zero_cliques()) == {("low", "city"), ("price", "paid"), ("zip", "city")}
    assert made.zero_cliques(["zip", "city", "price"]) == (("zip", "city"),)


def test_constraints_change_the_digest_and_survive_the_record(tmp_path: Path):
    """Their order does not count."""
    plain = contract(tmp_path, "[]")
    one = contract(tmp_path, f"[{{less_or_equal: [low, high]}}, {DEPENDENCY}]")
    other = contract(tmp_path, f"[{DEPENDENCY}, {{less_or_equal: [low, high]}}]")
    assert one.digest == other.digest != plain.digest
    assert Contract.model_validate(one.model_dump(mode="json")) == one


@pytest.mark.parametrize(
    ("constraints", "field", "found"),
    [
        ("[{less_or_equal: [lwo, high]}]", "less_or_equal[0]", "'lwo'"),
        ("[{less_or_equal: [low, low]}]", "less_or_equal", "twice"),
        ("[{less_or_equal: [low, price]}]", "less_or_equal", "kind integer"),
        ("[{less_or_equal: [zip, city]}]", "less_or_equal", "kind categories"),
        ("[{less_or_equal: [low]}]", "less_or_equal", "a list of 1"),
        ("[{less_or_equal: [low, high]}, {less_or_equal: [high, low]}]", "constraints", "below itself"),
        ("[{less_or_equal: [low, high]}, {less_or_equal: [low, high]}]", "constraints[1]", "again"),
        ("[{}]", "constraints[0]", "neither"),
        ("[{determines: {by: zip, column: city}}]", "determines.mapping", "nothing"),
        ("[{determines: {by: zip, column: city, mapping: {'10': Ulm, '20': Bonn}}}]", "mapping", "nothing for '30'"),
        ("[{determines: {by: zip, column: city, mapping: {'10': Ulmm}}}]", "mapping.10", "'Ulmm'"),
        ("[{determines: {by: zip, column: town, mapping: {'10': Ulm}}}]", "determines.column", "'town'"),
        ("[{at_most: [low, high]}]", "at_most", "unknown key"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(tmp_path: Path, constraints: str, field: str, found: str):
    findings = contract_findings(tmp_path, text(constraints))
    assert any(field in finding.field and found in finding.found for finding in findings), findings
    assert all(finding.where.rpartition(":")[2].isdigit() for finding in findings)


def test_bounds_that_leave_no_row_are_refused(tmp_path: Path):
    """begin after every end."""
    late = text("[{less_or_equal: [begin, end]}]").replace("[2024-01-15, 2024-04-10]", "[2025-01-15, 2025-04-10]")
    (finding,) = contract_findings(tmp_path, late)
    assert "no row can satisfy it" in finding.found


def test_whether_a_row_is_left_agrees_with_trying_all_rows(monkeypatch: pytest.MonkeyPatch):
    """Random tables of excluded cells over four columns, near the threshold; both answers occur."""
    rng = np.random.default_rng(5)
    sizes = {"a": 3, "b": 2, "c": 3, "d": 2}
    cliques = (("a", "b"), ("b", "c"), ("c", "d"), ("a", "d"), ("a", "c", "d"))
    answers = []
    for _ in range(200):
        impossible = {clique: rng.random([sizes[n] for n in clique]) < 0.6 for clique in cliques}
        rows = product(*(range(size) for size in sizes.values()))
        left = any(
            not any(
                mask[tuple(dict(zip(sizes, row, strict=True))[n] for n in clique)]
                for clique, mask in impossible.items()
            )
            for row in rows
        )
        assert some_row_possible(sizes, impossible) is left
        answers.append(left)
    assert 20 < sum(answers) < 180
    monkeypatch.setattr(impossible_cells, "MOST_CELLS", 10)
    assert some_row_possible(sizes, {("a", "b", "c", "d"): np.zeros((3, 2, 3, 2), bool)}) is None


def test_a_condition_says_where_values_are_missing_and_where_not(tmp_path: Path):
    """Cell by cell, against the words; where `by` is missing both are left open."""
    made = contract(tmp_path, "[{null_exactly_where: {column: paid, by: low, below: 5}}]")
    low, paid = made.column("low"), made.column("paid")
    mask = made.impossible(("low", "paid"))
    for i, j in product(range(low.size), range(paid.size)):
        child, missing = low.labels[i] == "0 to 4", paid.labels[j] == "(null)"
        assert mask[i, j] == (low.labels[i] != "(null)" and child != missing)
    assert (made.impossible(("paid", "low")) == mask.T).all()
    over = contract(tmp_path, "[{null_exactly_where: {column: paid, by: low, at_least: 5}}]")
    known = [place for place, label in enumerate(low.labels) if label != "(null)"]
    assert (over.impossible(("low", "paid"))[known] == ~mask[known]).all()
    named = contract(tmp_path, "[{null_exactly_where: {column: paid, by: zip, labels: ['10', '20']}}]")
    codes = named.column("zip").labels
    excluded = named.impossible(("zip", "paid"))[:, named.column("paid").labels.index("(null)")]
    assert [code for code, out in zip(codes, excluded, strict=True) if not out] == ["10", "20", *codes[-1:]]
    assert ("zip", "paid") in named.zero_cliques() or ("paid", "zip") in named.zero_cliques()


def test_a_condition_changes_no_contract_that_has_none(tmp_path: Path):
    """Constraints of before are written as before: digests in journals stay true."""
    one = contract(tmp_path, f"[{{less_or_equal: [low, high]}}, {DEPENDENCY}]")
    assert all("null_exactly_where" not in each for each in one.model_dump(mode="json")["constraints"])
    made = contract(tmp_path, "[{null_exactly_where: {column: paid, by: low, below: 5}}]")
    assert Contract.model_validate(made.model_dump(mode="json")) == made


@pytest.mark.parametrize(
    ("condition", "field", "found"),
    [
        ("{column: paid, by: low}", "null_exactly_where", "no condition"),
        ("{column: paid, by: low, below: 5, at_least: 5}", "null_exactly_where", "below and at_least"),
        ("{column: paid, by: low, below: 7}", "null_exactly_where", "7, inside a bin of low"),
        ("{column: paid, by: low, below: 0}", "null_exactly_where", "at its bounds"),
        ("{column: high, by: low, below: 5}", "null_exactly_where.column", "whose missing values have no cell"),
        ("{column: paid, by: zip, below: 5}", "null_exactly_where", "a number for zip"),
        ("{column: paid, by: zip, labels: ['10', '99']}", "null_exactly_where.labels[1]", "'99'"),
        ("{column: paid, by: lwo, below: 5}", "null_exactly_where.by", "'lwo'"),
        ("{column: low, by: low, below: 5}", "null_exactly_where", "twice"),
        ("{column: paid, by: low, under: 5}", "null_exactly_where.under", "unknown key"),
    ],
)
def test_conditions_that_cannot_be_meant_are_refused(tmp_path: Path, condition: str, field: str, found: str):
    findings = contract_findings(tmp_path, text(f"[{{null_exactly_where: {condition}}}]"))
    assert any(field in finding.field and found in finding.found for finding in findings), findings
    assert all(finding.where.rpartition(":")[2].isdigit() for finding in findings)


ID = ("unit: {kind: row, scope: block}", "unit: {kind: id, scope: block, column: person, max_rows_per_unit: 3}")
PERSON = ("    properties:\n", "    properties:\n      - {name: person, logicalType: string}\n")


def test_each_column_has_its_checks_and_only_declared_ones_are_gates(tmp_path: Path):
    """Besides the format's own gates a gate is what the contract names."""
    listed = checks(loaded(tmp_path, ID, PERSON))
    assert [check.name for check in listed if check.gate] == ["columns", "nulls:person", "nulls:age"]
    assert [check.name for check in listed[3:9]] == [
        "nulls:age",
        "type:age",
        "domain:age",
        "nulls:sex",
        "domain:sex",
        "nulls:job",
    ]
    assert listed[0].parameters == {"names": ("person", "age", "sex", "job", "income", "moved")}


def test_parameters_are_plain_data(tmp_path: Path):
    """Bounds are exact texts; lists hold every text that the encoding understands."""
    named = {check.name: check for check in checks(loaded(tmp_path))}
    assert named["domain:age"].parameters == {"low": "17", "high": "90", "to": "integer", "missing": ("", "?")}
    assert named["domain:income"].parameters == {"low": "0", "high": "1.5", "to": "number", "missing": ()}
    assert named["type:moved"].parameters == {"to": "date", "missing": ()}
    values = ("office clerk", "Clerk", "nurse", "clerk", "care", "other")
    assert named["domain:job"].parameters == {"values": values, "missing": ()}
    kinds = {check.kind for check in named.values()}
    assert kinds == {"columns", "rows", "not_null", "castable", "in_set", "between"}


def test_the_names_of_gates_are_the_names_of_checks(tmp_path: Path):
    """Whatever check there is can be declared a gate, and nothing else."""
    contract = loaded(tmp_path, ID, PERSON)
    assert tuple(check.name for check in checks(contract)) == check_names(contract.columns, contract.unit)


AGE = column("integer", "integer", "age", bounds=[17, 90], bins={"width": 10}, missing=["?", "999"])
JOB = column("mapping", "string", "job", mapping={"a": "clerk"}, other="rest", missing=["-"])
DAY = column("date", "date", "day", bounds=["2020-01-01", "2020-12-31"], granularity="month")
ROWS = {
    "age": ["17", " 90.0", "91", "x", "18.5", "?", "999", None, "inf", "nan"],
    "job": ["a", "clerk ", "z", "rest", "", "-", " - ", None, "A", "a"],
    "day": ["2020-01-01", "2021-01-01", "no", None, "2020-12-31", "2020-06-31", "2019-12-31", "2020-02-29", "", "5"],
}
BROKEN = {
    "nulls:age": [5, 6, 7, 9],
    "type:age": [3, 4],
    "domain:age": [2, 8],
    "nulls:job": [5, 6, 7],
    "domain:job": [2, 4, 8],
    "nulls:day": [3],
    "type:day": [2, 5, 8, 9],
    "domain:day": [1, 6],
}


@pytest.mark.parametrize("typed", [False, True])
def test_the_rows_that_break_a_check_are_found_as_the_encoding_reads_them(typed: bool):
    """Texts with spaces, missing tokens, numbers out of bounds, unreadable dates: each counts in one check only."""
    contract = contract_of(AGE, JOB, DAY)
    frame = pl.DataFrame({**ROWS, "row": range(10)})
    if typed:
        frame = frame.with_columns(pl.col("age").str.strip_chars().cast(pl.Float64, strict=False))
    with duckdb.connect() as connection:
        connection.register("delivered", frame.to_arrow())
        found = {
            check.name: [
                row[0]
                for row in connection.execute(
                    f'SELECT "row" FROM delivered WHERE {violation_sql(check, contract)} ORDER BY "row"'
                ).fetchall()
            ]
            for check in checks(contract)
            if check.column is not None
        }
    expected = BROKEN if not typed else {**BROKEN, "nulls:age": [3, 5, 6, 7, 9], "type:age": [4]}
    assert found == expected


def test_a_row_that_breaks_nothing_is_neither_clipped_nor_mapped():
    """Rows that hold all checks of a column decode into themselves: no null, no other, no end of the bounds."""
    contract = contract_of(AGE, JOB, DAY)
    frame = pl.DataFrame(ROWS)
    with duckdb.connect() as connection:
        connection.register("delivered", frame.to_arrow())
        sql = encode_select(contract, columns_present=list(ROWS), relation="delivered")
        codes = connection.execute(sql).pl()
    for name, a_column in (("age", AGE), ("day", DAY)):
        broken = {row for check, rows in BROKEN.items() for row in rows if check in (f"nulls:{name}", f"type:{name}")}
        assert {row for row, code in enumerate(codes[name]) if code == a_column.null_code} == broken
    assert [row for row, code in enumerate(codes["job"]) if code == JOB.domain.misfit_code] == [2, 3, 4, 8]


def test_the_id_column_is_checked_for_nulls(tmp_path: Path):
    """The gate of the unit's id needs no domain; the table's own checks are no row conditions."""
    contract = loaded(tmp_path, ID, PERSON)
    by_name = {check.name: check for check in checks(contract)}
    assert violation_sql(by_name["nulls:person"], contract) == '"person" IS NULL'
    with pytest.raises(ValueError, match="about the table"):
        violation_sql(by_name["rows"], contract)
