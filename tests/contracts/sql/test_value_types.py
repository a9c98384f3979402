"""Columns behind a `select:`: a type for each that is used, and one value for all types that store it."""

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from contracts.sql.select import (
    VALUE_TYPES,
    ValueType,
    guarded_select,
    select_tree,
    typed_sql,
    types_of,
    used_columns,
)
from tests.contracts.engine import connected
from tests.contracts.samples import column, contract_of

DAY, MOMENT = date(2020, 2, 29), datetime(2020, 2, 29, 9, 30)
SAME: dict[str, list[pa.Array]] = {
    "nobody has a value": [
        pa.nulls(2),
        pa.array([float("nan"), None]),
        *(pa.array([None, None], kind) for kind in (pa.string(), pa.int64(), pa.bool_(), pa.date32())),
        *(pa.array([None, None], kind) for kind in (pa.timestamp("us", "UTC"), pa.list_(pa.int8()))),
    ],
    "whole numbers": [
        *(
            pa.array([0, 1, 17, None], kind)
            for kind in (pa.int8(), pa.int64(), pa.uint16(), pa.float32(), pa.float64())
        ),
        *(pa.array([0, 1, 17, None], pa.decimal128(*size)) for size in ((5, 0), (7, 3), (38, 30))),
        pa.array([0, 1, 17, None]).dictionary_encode(),
        *(pa.array([each.format(n) for n in (0, 1, 17)] + [None]) for each in ("{}", "{}.0", "{}.00", "{}.")),
    ],
    "fractions": [
        pa.array([0.5, -1.25, None]),
        pa.array([Decimal("0.5"), Decimal("-1.25"), None], pa.decimal128(9, 4)),
        pa.array(["0.5", "-1.25", None]),
        pa.array(["0.50", "-1.2500", None]),
    ],
    "many digits": [
        pa.array([2**53 + 1, 2**62 + 1, None]),
        pa.array([float(2**53), float(2**62), None]),
        pa.array([2**53, 2**62, None], pa.decimal128(38, 5)),
    ],
    "flags": [
        pa.array([True, False, None]),
        pa.array(["True", "False", None]),
        pa.array(["true", "FALSE", None]).dictionary_encode(),
    ],
    "days": [
        pa.array([DAY, None]),
        pa.array([DAY, None], pa.date64()),
        *(pa.array([DAY, None]).cast(pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")),
        pa.array([DAY, None]).cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC")),
        pa.array(["2020-02-29", None]),
        pa.array(["2020-02-29 00:00:00", None]),
        pa.array(["2020-02-29T00:00:00.000", None]).dictionary_encode(),
    ],
    "moments": [
        *(pa.array([MOMENT, None], pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")),
        pa.array([MOMENT, None], pa.timestamp("us")).cast(pa.timestamp("us", "UTC")),
        pa.array(["2020-02-29 09:30:00", None]),
        pa.array(["2020-02-29T09:30:00.000000", None]),
    ],
    "lists": [
        pa.array([[1, None], None]),
        pa.array([[1.0, None], None]),
        pa.array([[1, None], None], pa.list_(pa.int16(), 2)),
    ],
}


def read(kind: ValueType, array: pa.Array) -> list[Any]:
    with connected() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("given", pa.table([array], names=["x"]))
        return [row[0] for row in connection.execute(f"SELECT {typed_sql(kind, 'x')} FROM given").fetchall()]


@pytest.mark.parametrize("kind", VALUE_TYPES)
@pytest.mark.parametrize("case", SAME)
def test_a_value_is_the_same_in_every_type_that_stores_it(case: str, kind: ValueType):
    """All types of Arrow that hold the same values, read as each type; a value that is none is null.

    Of an id the exact digits count, which no double has: beside whole numbers it is null (`test_exact_ids`).
    """
    if (case, kind) == ("many digits", "id"):
        assert [read(kind, each)[0] for each in SAME[case]] == [str(2**53 + 1), None, str(2**53)]
        return
    first, *others = SAME[case]
    expected = read(kind, first)
    assert [read(kind, each) for each in others] == [expected] * len(others)
    assert expected[-1] is None


def test_what_each_type_sees():
    assert read("text", pa.array([0.0, 1.5, 20.0, float("nan")])) == ["0", "1.5", "20", None]
    assert read("flag", pa.array(["1.0", "0", "2", "true", "yes"])) == [True, False, None, True, None]
    assert read("text", pa.array(["01", " a ", "1E50", "-0.50", "1.", "2.5.0"])) == [
        "01", " a ", "1E50", "-0.5", "1", "2.5.0"
    ]  # fmt: skip
    assert read("day", pa.array([1, 20200229])) == [None, None]
    assert read("text", pa.array([{"a": 1}])) == [None]


AGE = column("integer", "integer", "age", bounds=[0, 99], bins={"width": 10})
SEX = column("categories", "string", "sex", values=["F", "M"])
SINCE = column("date", "date", "since", bounds=["2020-01-01", "2021-12-31"], granularity="year")
CONTRACT = contract_of(AGE, SEX, SINCE)


def told(select: str, **declared: ValueType) -> tuple[dict[str, ValueType], list[str]]:
    types, problems = types_of(select_tree(select), declared, CONTRACT, date_column=None)
    return types, [f"{each.found}; {each.remedy}" for each in problems]


@pytest.mark.parametrize(
    ("select", "types"),
    [
        ("SELECT * FROM source", {}),
        ("SELECT * FROM source WHERE sex = 'F' AND age > 3", {"sex": "text", "age": "number"}),
        ("SELECT s.Years AS age, sex, since FROM source AS s WHERE YEARS < 9", {"years": "number"}),
        ("SELECT age, sex, since FROM source WHERE year(Since) > 2020", {"since": "day"}),
    ],
)
def test_a_column_that_is_handed_on_has_the_type_of_the_contract(select: str, types: dict[str, ValueType]):
    assert told(select) == (types, [])


def test_a_column_that_is_only_computed_with_is_declared():
    """Its name alone says nothing: a class of incomes is made from incomes, a year from a day."""
    select = "SELECT year(born) AS age, upper(sex) AS sex, since FROM source WHERE \"the town\".code = 'x'"
    _, (problem,) = told(select)
    assert problem == (
        "no type for 'born', 'sex', 'the town.code'; write `types: {born: text, sex: text, 'the town.code': text}` "
        "under `source:`, with what each column holds"
    )
    types, problems = told(select, born="day", SEX="text", **{"the town.code": "text"})
    assert (types["born"], problems) == ("day", [])


def test_a_declared_type_goes_before_the_contract_and_one_of_no_use_is_refused():
    assert told("SELECT * FROM source WHERE hour(since) < 9", since="moment") == ({"since": "moment"}, [])
    assert "'sex', which no expression of the select uses; drop it" in told("SELECT * FROM source", sex="text")[1][0]
    assert "no type for 'age'" in told("SELECT age, age AS sex, since FROM source WHERE age > 3")[1][0]


def test_expressions_read_copies_and_nothing_else_does():
    """A star leaves the copies out; a field of a record is one too; literals are spelled like the texts."""
    select = "SELECT *, a.b, c + 1 AS d FROM source WHERE c = '1.0' AND t IN ('1.50', 'x') AND t || '1.0' <> '2.0'"
    assert used_columns(select_tree(select)) == ("c", "t")
    sql = guarded_select(select, {"c": "number", "t": "text"})
    assert "'1.5'" in sql
    assert sql.count("'1.0'") == 2
    copies = '(VALUES (7, $$1.5$$, NULL)) AS v("\x02c", "\x02t", "\x03a.b")'
    source = f"WITH source AS (SELECT 1 AS c, 'x' AS t, * FROM {copies})"
    kept = guarded_select(select.replace("c = ", "c <> "), {"c": "number", "t": "text"})
    with duckdb.connect() as connection:
        relation = connection.execute(f"{source} {kept}")
        assert [each[0] for each in relation.description] == ["c", "t", "b", "d"]
        assert relation.fetchall() == [(1, "x", None, 8)]
