"""Every listed function over hostile values: no row stops a guarded select; what could is not admitted."""

from collections.abc import Iterator, Sequence
from itertools import islice, product

import duckdb
import pytest

from contracts.errors import SpecRefused
from contracts.sql.constant_arguments import FIXED, LONGEST_TEXT, ArgumentRule
from contracts.sql.select import UNSAFE_OPTIMIZERS, check_select, guarded_select
from contracts.sql.select_grammar import FUNCTIONS

TEXTS = """
    NULL, '', 'a', '%', '_%a_%', '(', '[a', chr(92), chr(92) || '9', 'é' || chr(8238) || chr(0),
    '9999999999999999999',
    '-5', 'infinity', 'year', 'g', '2020-01-01', '%Y-%m-%d', repeat('aé', 5000), '290309-12-22 (BC)'
"""
DAYS = "NULL, 'infinity', '-infinity', '5877642-06-25 (BC)', '5881580-07-10', '2020-02-29', '0001-01-01 (BC)'"
MOMENTS = """
    NULL, 'infinity'::TIMESTAMP, '-infinity'::TIMESTAMP, make_timestamp(-9223372022400000000),
    make_timestamp(9223372036854775806),
    TIMESTAMP '2020-02-29 23:59:59.999999', make_timestamp(-9223372022400000000 + 1)
"""
SPANS = """
    NULL, to_months(2147483647), to_months(-2147483648), to_days(2147483647), to_days(1),
    to_microseconds(9223372036854775807), to_microseconds(-9223372036854775808)
"""


def _integers(bits: int) -> str:
    return f"NULL, 0, 1, -1, 7, 100, {-(2 ** (bits - 1))}, {2 ** (bits - 1) - 1}"


COLUMNS = {
    "VARCHAR": ("v", TEXTS),
    "TINYINT": ("i8", _integers(8)),
    "INTEGER": ("i32", _integers(32)),
    "BIGINT": ("i64", _integers(64)),
    "HUGEINT": ("i128", _integers(128)),
    "UBIGINT": ("u64", f"NULL, 0, 1, {2**64 - 1}"),
    "DOUBLE": ("d", "NULL, 0, 'nan', 'inf', '-inf', 1e308, -1e308, 5e-324, -0.0, 1.5"),
    "DECIMAL": ("m", "NULL, 0, 999999999999999.999, -999999999999999.999, 0.001"),
    "DATE": ("dt", DAYS),
    "TIMESTAMP": ("ts", MOMENTS),
    "TIME": ("t", "NULL, '00:00:00', '24:00:00', '23:59:59.999999'"),
    "BOOLEAN": ("bo", "NULL, true, false"),
    "INTERVAL": ("iv", SPANS),
    "BLOB": ("bl", "NULL, '', '\\xFF', 'abc'"),
}
TOGETHER = 8
"""Calls in one select: each select is parsed in a DuckDB of its own, which is what takes time."""
PLAIN = {name: column for name, (column, _) in COLUMNS.items()}
ANY = ("v", "i64", "d", "m", "dt", "ts", "t", "iv", "bl")
LITERALS = {
    "format": ("'%Y-%m-%d'", "'%j %f %Z %a'"),
    "pattern": ("'(a)|%_[0-9]'",),
    "options": ("'i'",),
    "group": ("0", "1"),
    "text to replace": ("'a'", "''"),
    "replacement": (r"'\1'", r"'\9'", "'" + "x" * 1000 + "'"),
    "length": ("0", "10000"),
    "number of digits": ("-10000", "-1", "0", "2", "40", "10000"),
}


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """A table with one column a type, every pair of neighbouring hostile values in some row, and little memory."""
    with duckdb.connect(config={"memory_limit": "512MB", "threads": 1}) as opened:
        opened.execute(f"SET disabled_optimizers = '{','.join(UNSAFE_OPTIMIZERS)}'")
        fields = ", ".join(
            f"{column} {name.replace('DECIMAL', 'DECIMAL(18, 3)')}" for name, (column, _) in COLUMNS.items()
        )
        opened.execute(f"CREATE TABLE source ({fields})")
        for place, (name, (column, listed)) in enumerate(COLUMNS.items()):
            kind = name.replace("DECIMAL", "DECIMAL(18, 3)")
            opened.execute(f"CREATE TABLE of_{column} AS SELECT [{listed}]::{kind}[] AS v, {place} AS place")
        picks = ", ".join(
            f"(SELECT v FROM of_{column})[1 + (r * {2 * place + 1} + r // 23) % (SELECT len(v) FROM of_{column})]"
            for place, (column, _) in enumerate(COLUMNS.values())
        )
        opened.execute(f"INSERT INTO source SELECT {picks} FROM range(300) AS t(r)")
        yield opened


def _literals(rule: ArgumentRule) -> tuple[str, ...]:
    return tuple(f"'{word}'" for word in rule.words) or LITERALS[rule.what]


def _signatures(name: str) -> set[tuple[str, ...]]:
    """Arguments for every overload of a function: columns of its types, literals where they must be."""
    query = (
        "SELECT parameter_types, varargs FROM duckdb_functions() WHERE function_name = ? AND database_name = 'system'"
    )
    with duckdb.connect() as fresh:
        overloads = fresh.execute(query, [name]).fetchall()
    found: set[tuple[str, ...]] = set()
    for types, rest in overloads:
        full = [*types, rest, rest] if rest else types
        choices = [
            _literals(FIXED[name][place])
            if place in FIXED.get(name, {})
            else (PLAIN[kind],)
            if kind in PLAIN
            else ANY
            if kind in ("ANY", "T") or kind is None
            else ()
            for place, kind in enumerate(full)
        ]
        found.update(islice(product(*choices), 40))
    return found


def _call(name: str, arguments: tuple[str, ...]) -> str:
    if name == "position":
        return f"position({arguments[0]} IN {arguments[1]})"
    if name.isidentifier():
        return f"{name}({', '.join(arguments)})"
    return f" {name} ".join(arguments) if len(arguments) > 1 else f"{name} {arguments[0]}"


def _ran(connection: duckdb.DuckDBPyConnection, calls: Sequence[str]) -> int:
    """Run calls as the columns of one guarded select; one by one where the types of some do not fit. How many ran."""
    sql = f"SELECT {', '.join(f'{call} AS x{place}' for place, call in enumerate(calls))} FROM source"
    guarded = guarded_select(sql)  # which refuses what check_select finds something in
    try:
        connection.execute(f"CREATE OR REPLACE TEMP TABLE result AS {guarded}")
    except duckdb.BinderException:
        return sum(_ran(connection, [call]) for call in calls) if len(calls) > 1 else 0
    except duckdb.Error as error:
        pytest.fail(f"{sql[:500]}: {error}")
    return len(calls)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_no_hostile_row_stops_a_listed_function(connection: duckdb.DuckDBPyConnection, name: str):
    """Whatever the columns hold, each overload gives a value or null; only types may not fit."""
    calls = [_call(name, arguments) for arguments in sorted(_signatures(name))]
    ran = sum(_ran(connection, calls[start : start + TOGETHER]) for start in range(0, len(calls), TOGETHER))
    assert ran or name == "nullif"


FROM_THE_ROW = [
    "strftime(dt, v)",
    "strftime(v, '2020-01-01')",
    "strptime(v, v)",
    "try_strptime(v, v)",
    "regexp_matches(v, v)",
    "regexp_matches(v, 'a', v)",
    "regexp_full_match(v, v)",
    "regexp_extract(v, 'a', i32)",
    "regexp_extract(v, 'a', 10)",
    "regexp_replace(v, 'a', v)",
    "v LIKE v",
    "v NOT ILIKE v",
    "v GLOB v",
    "v ILIKE '%a%b%'",
    "v LIKE '%a%_%'",
    "v GLOB '*a*b*'",
    "v SIMILAR TO v",
    "round(m, i32)",
    "round(m, i32 + 0)",
    "trunc(m, i32)",
    "lpad(v, i32, 'x')",
    "rpad(v, 10001, 'x')",
    "rpad(v, -1, 'x')",
    "lpad(v, NULL, 'x')",
    "replace(v, v, 'x')",
    "replace(v, 'x', v)",
    f"replace(v, 'x', '{'x' * 1001}')",
    "date_part(v, t)",
    "date_diff(v, dt, dt)",
    "date_trunc('fortnight', dt)",
]


@pytest.mark.parametrize("expression", FROM_THE_ROW)
def test_what_could_stop_a_release_is_a_literal(expression: str):
    """Formats, patterns, groups, digits, lengths and replacements do not come from the row and are bounded."""
    for sql in (f"SELECT {expression} AS x FROM source", f"SELECT v FROM source WHERE ({expression}) IS NULL"):
        (finding,) = check_select(sql)
        assert "written out" in finding.allowed
        with pytest.raises(SpecRefused):
            guarded_select(sql)


def test_a_misspelt_unit_is_put_right():
    """The nearest unit is named."""
    (finding,) = check_select("SELECT date_trunc('mnth', dt) AS x FROM source")
    assert finding.remedy == "write 'month' instead of 'mnth'"


def test_a_text_does_not_grow_without_bound(connection: duckdb.DuckDBPyConnection):
    """Nested replacements of a very long text stay bounded, since each works on the first characters only."""
    sql = "SELECT length(replace(replace(replace(v, 'a', 'aaaaaa'), 'a', 'aaaaaa'), 'a', 'bb')) AS n FROM source"
    longest = connection.execute(f"SELECT max(n) FROM ({guarded_select(sql)})").fetchone()
    assert longest is not None
    assert LONGEST_TEXT < longest[0] <= 2 * LONGEST_TEXT


REPEATED = [
    "v::INTEGER * v::INTEGER",
    "CASE WHEN v::INTEGER > 0 THEN v::INTEGER END",
    "date_trunc('month', dt)",
    "date_diff('day', dt::TIMESTAMP, dt::TIMESTAMP)",
    "dt::TIMESTAMP = dt::TIMESTAMP",
]


@pytest.mark.parametrize("expression", REPEATED)
def test_no_part_of_an_expression_is_evaluated_outside_its_guard(expression: str):
    """A part that stands twice, and the column's least and greatest value, are where optimizers would look ahead."""
    sql = guarded_select(f"SELECT {expression} AS x, v::INTEGER + 1 AS y, v::INTEGER + 2 AS z FROM source")
    with duckdb.connect() as opened:
        opened.execute(f"SET disabled_optimizers = '{','.join(UNSAFE_OPTIMIZERS)}'")
        opened.execute("CREATE TABLE source (v VARCHAR, dt DATE)")
        opened.execute("INSERT INTO source VALUES ('x', '5877642-06-25 (BC)'), ('1', '2020-01-01')")
        first, second = opened.execute(sql).fetchall()
    assert first[1:] == (None, None)
    assert second[1:] == (2, 3)
    assert second[0] is not None
