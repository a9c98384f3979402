"""Selects: what combines rows, depends on anything but the row, or is unknown is refused; row-wise SQL passes."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date

import duckdb
import pytest

from contracts.errors import SpecRefused
from contracts.sql.select import check_select, check_unit, guarded_select
from contracts.sql.select_grammar import FUNCTIONS

HOSTILE = [
    ("SELECT a FROM source JOIN other USING (a)", "a join"),
    ("SELECT source.a FROM source, source AS twin", "a join"),
    ("SELECT a FROM source CROSS JOIN range(3)", "a join"),
    ("SELECT a FROM source POSITIONAL JOIN source AS twin", "a join"),
    ("SELECT a FROM source ASOF JOIN source AS twin USING (a)", "a join"),
    ("SELECT s.a FROM source AS s, LATERAL (SELECT s.a) AS t", "a join"),
    ("SELECT a FROM source NATURAL JOIN source AS twin", "a join"),
    ("SELECT a FROM (SELECT a FROM source GROUP BY a)", "a subquery"),
    ("SELECT a FROM source WHERE a = (SELECT max(a) FROM source)", "a subquery"),
    ("SELECT a FROM source WHERE a IN (SELECT a FROM source)", "a subquery"),
    ("SELECT a FROM source WHERE EXISTS (SELECT 1 FROM source)", "a subquery"),
    ("SELECT a = ANY ([1, 2]) AS a FROM source", "a subquery"),
    ("SELECT (SELECT 1) AS a FROM source", "a subquery"),
    ("SELECT ARRAY(SELECT a FROM source) AS a FROM source", "subquery"),
    ("SELECT row_number() OVER () AS a FROM source", "a window"),
    ("SELECT lag(a) OVER (ORDER BY b) AS a FROM source", "a window"),
    ("SELECT sum(a) OVER () AS a FROM source", "a window"),
    ("SELECT DISTINCT a FROM source", "DISTINCT, ORDER BY, LIMIT or OFFSET"),
    ("SELECT DISTINCT ON (a) a, b FROM source", "DISTINCT, ORDER BY, LIMIT or OFFSET"),
    ("SELECT a FROM source LIMIT 3", "LIMIT"),
    ("SELECT a FROM source LIMIT 10%", "LIMIT"),
    ("SELECT a FROM source OFFSET 3", "OFFSET"),
    ("SELECT a FROM source ORDER BY a", "ORDER BY"),
    ("SELECT a FROM source ORDER BY ALL", "ORDER BY"),
    ("SELECT a FROM source USING SAMPLE 3", "a sample"),
    ("SELECT a FROM source TABLESAMPLE 10%", "a sample"),
    ("SELECT a FROM source UNION SELECT a FROM source", "UNION, INTERSECT or EXCEPT"),
    ("SELECT a FROM source UNION ALL BY NAME SELECT a FROM source", "UNION, INTERSECT or EXCEPT"),
    ("SELECT a FROM source EXCEPT SELECT a FROM source", "UNION, INTERSECT or EXCEPT"),
    ("WITH source AS (SELECT 1 AS a) SELECT a FROM source", "WITH"),
    ("WITH RECURSIVE t AS (SELECT 1) SELECT a FROM source", "WITH"),
    ("SELECT a FROM source GROUP BY a", "GROUP BY"),
    ("SELECT a FROM source GROUP BY ALL", "GROUP BY ALL"),
    ("SELECT a FROM source GROUP BY CUBE (a, b)", "GROUP BY"),
    ("SELECT a FROM source HAVING true", "HAVING"),
    ("SELECT a FROM source QUALIFY true", "QUALIFY"),
    ("SELECT count(*) AS a FROM source", "count_star()"),
    ("SELECT count(*) FILTER (WHERE a > 1) AS a FROM source", "FILTER"),
    ("SELECT max(a) AS a FROM source", "the function max()"),
    ("SELECT list(a ORDER BY b) AS a FROM source", "ORDER BY inside a function"),
    ("SELECT upper(DISTINCT a) AS a FROM source", "DISTINCT inside a function"),
    ("SELECT list_sum([1, 2]) AS a FROM source", "the function list_sum()"),
    ("SELECT unnest([1, 2]) AS a FROM source", "the function unnest()"),
    ("SELECT generate_series(1, b) AS a FROM source", "the function generate_series()"),
    ("SELECT a FROM generate_series(1, 5)", "a table function"),
    ("SELECT a FROM read_csv('people.csv')", "a table function"),
    ("SELECT a FROM 'people.csv'", "the relation 'people.csv'"),
    ("SELECT a FROM other", "the relation 'other'"),
    ("SELECT a FROM main.source", "a schema before the table"),
    ("SELECT a FROM db.main.source", "a database before the table"),
    ("SELECT a FROM source AS s(x)", "new column names"),
    ("SELECT a FROM source AT (VERSION => 1)", "AT"),
    ("SELECT 1 AS a", "no FROM"),
    ("SELECT a FROM source AS a", "the row as a whole"),
    ("SELECT CAST(source AS VARCHAR) AS a FROM source", "the row as a whole"),
    ("VALUES (1)", "VALUES"),
    ("FROM source PIVOT (sum(b) FOR a IN ('x'))", "PIVOT"),
    ("PIVOT source ON a USING sum(b)", "no SELECT"),
    ("FROM source UNPIVOT (v FOR n IN (a, b))", "PIVOT"),
    ("DESCRIBE source", "DESCRIBE"),
    ("SUMMARIZE source", "SUMMARIZE"),
    ("SELECT * REPLACE (1 AS a) FROM source", "* REPLACE"),
    ("SELECT * RENAME (a AS z) FROM source", "* RENAME"),
    ("SELECT COLUMNS(*) FROM source", "COLUMNS"),
    ("SELECT COLUMNS('a.*') FROM source", "COLUMNS"),
    ("SELECT * LIKE 'a%' FROM source", "* inside an expression"),
    ("SELECT random() AS a FROM source", "the function random()"),
    ("SELECT uuid() AS a FROM source", "the function uuid()"),
    ("SELECT now() AS a FROM source", "the function now()"),
    ("SELECT age(b) AS a FROM source", "the function age()"),
    ("SELECT current_date AS a FROM source", "current_date"),
    ("SELECT current_timestamp FROM source", "current_timestamp"),
    ("SELECT user FROM source", "write source.user"),
    ("SELECT rowid FROM source", "rowid"),
    ("SELECT a FROM source WHERE source.rowid < 5", "source.rowid"),
    ("SELECT getenv('HOME') AS a FROM source", "the function getenv()"),
    ("SELECT current_setting('threads') AS a FROM source", "the function current_setting()"),
    ("SELECT getvariable('x') AS a FROM source", "the function getvariable()"),
    ("SELECT nextval('s') AS a FROM source", "the function nextval()"),
    ("SELECT read_text('x') AS a FROM source", "the function read_text()"),
    ("SELECT error('x') AS a FROM source", "the function error()"),
    ("SELECT query('x') AS a FROM source", "the function query()"),
    ("SELECT my_macro(a) AS a FROM source", "the function my_macro()"),
    ("SELECT other.upper(a) AS a FROM source", "the function other.upper()"),
    ("SELECT list_transform([1], lambda x: x) AS a FROM source", "a lambda"),
    ("SELECT a COLLATE nocase AS a FROM source", "COLLATE"),
    ("SELECT a::my_type AS a FROM source", "a cast to my_type"),
    ("SELECT a::INTEGER[] AS a FROM source", "a cast to LIST"),
    ("SELECT a::TIMESTAMPTZ AS a FROM source", "TIMESTAMP WITH TIME ZONE"),
    ("SELECT $1 AS a FROM source", "a parameter"),
    ("SELECT #1 AS a FROM source", "a positional reference"),
    ("SELECT GROUPING(a) AS a FROM source", "GROUPING_FUNCTION"),
    ("SELECT upper(a) FROM source", "an expression without a name"),
    ("SELECT a FROM source; SELECT a FROM source", "2 statements"),
    ("SELECT a FROM source; DROP TABLE source", "no SELECT"),
    ("COPY source TO 'x'", "no SELECT"),
    ("INSERT INTO source VALUES (1)", "no SELECT"),
    ("ATTACH 'x.db'", "no SELECT"),
    ("EXPLAIN SELECT a FROM source", "no SELECT"),
    ("SELECT a INTO b FROM source", "cannot be parsed"),
    ("", "0 statements"),
    ("SELEC a", "cannot be parsed"),
    ("SELECT " + "abs(" * 3000 + "a" + ")" * 3000 + " AS a FROM source", "cannot be parsed"),
]


@pytest.mark.parametrize(("sql", "says"), HOSTILE)
def test_what_is_not_row_wise_is_refused_by_name(sql: str, says: str):
    """The finding names the construct; nothing of it can be run."""
    findings = check_select(sql)
    assert any(says in finding.found or says in finding.remedy for finding in findings), [str(f) for f in findings]
    assert all(finding.allowed for finding in findings)
    with pytest.raises(SpecRefused):
        guarded_select(sql)


def test_every_offence_is_reported():
    """Three constructs in one select are three findings."""
    assert len(check_select("SELECT max(a) AS a, random() AS b FROM source LIMIT 3")) == 3


ROW_WISE = [
    ("SELECT * FROM source", [("x ", "1", "2020-01-01"), (None, "zz", "2021-07-09")]),
    ("FROM source SELECT a;", [("x ",), (None,)]),
    ("SELECT * EXCLUDE (a, b) FROM source", [("2020-01-01",), ("2021-07-09",)]),
    ("SELECT s.a AS z, b FROM Source AS s", [("x ", "1"), (None, "zz")]),
    ("SELECT upper(trim(a)) || '''; --' AS a FROM source", [("X'; --",), (None,)]),
    ("SELECT CASE WHEN a IS NULL THEN 'none' ELSE a END AS a FROM source", [("x ",), ("none",)]),
    ("SELECT b::INTEGER * 2 + 1 AS b FROM source", [(3,), (None,)]),
    ("SELECT TRY_CAST(b AS DECIMAL(5, 2)) / 4 AS b FROM source", [(0.25,), (None,)]),
    ("SELECT a FROM source WHERE b IN ('1', '2') AND c BETWEEN '2' AND '3'", [("x ",)]),
    ("SELECT a FROM source WHERE b::INTEGER >= 0", [("x ",)]),
    ("SELECT a FROM source WHERE a LIKE 'x%' OR NOT c NOT LIKE '%9'", [("x ",), (None,)]),
    ("SELECT coalesce(a, b) AS a, nullif(b, '1') AS b FROM source", [("x ", None), ("zz", "zz")]),
    ("SELECT c::DATE AS c, year(c::DATE) AS y FROM source", [(date(2020, 1, 1), 2020), (date(2021, 7, 9), 2021)]),
    (
        "SELECT extract(month FROM c::DATE) AS m, substring(c FROM 1 FOR 4) AS y FROM source",
        [(1, "2020"), (7, "2021")],
    ),
    ("SELECT c::DATE + INTERVAL 1 DAY > DATE '2021-01-01' AS c FROM source", [(False,), (True,)]),
    ("SELECT b IS NOT DISTINCT FROM '1' AS b, true AS t FROM source", [(True, True), (False, True)]),
    ("SELECT if(b = '1', 1.5, -2) AS b FROM source", [(1.5,), (-2,)]),
    ("SELECT 9223372036854775807 * length(b) * 2 AS b FROM source", [(None,), (None,)]),
]


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """Two rows, one of them awkward."""
    with duckdb.connect() as opened:
        opened.execute("CREATE TABLE source (a VARCHAR, b VARCHAR, c VARCHAR)")
        opened.execute("INSERT INTO source VALUES ('x ', '1', '2020-01-01'), (NULL, 'zz', '2021-07-09')")
        yield opened


@pytest.mark.parametrize(("sql", "rows"), ROW_WISE)
def test_row_wise_selects_pass_and_no_row_can_make_them_fail(
    connection: duckdb.DuckDBPyConnection, sql: str, rows: list[tuple[object, ...]]
):
    """The guarded SQL gives what the select says, and null where the expression fails on a row (law 3)."""
    assert check_select(sql) == []
    assert [tuple(row) for row in connection.execute(guarded_select(sql)).fetchall()] == rows


def test_a_macro_of_the_source_cannot_stand_in_for_a_function(connection: duckdb.DuckDBPyConnection):
    """Functions and operators are DuckDB's own, whatever the database calls so."""
    connection.execute("CREATE MACRO upper(x) AS (SELECT max(b) FROM source)")
    connection.execute('CREATE MACRO "||"(x, y) AS (SELECT max(b) FROM source)')
    sql = "SELECT upper(a) || '!' AS a FROM source"
    assert connection.execute(sql).fetchall() != [("X !",), (None,)]
    assert connection.execute(guarded_select(sql)).fetchall() == [("X !",), (None,)]


def test_every_listed_function_is_built_in_scalar_and_steady():
    """None of the listed names is an aggregate, a table function, or volatile; one is a macro of DuckDB's own."""
    query = "SELECT function_name, function_type, stability FROM duckdb_functions() WHERE database_name = 'system'"
    with duckdb.connect() as connection:
        rows = connection.execute(query).fetchall()
    known: dict[str, set[tuple[str, str | None]]] = {}
    for name, kind, stability in rows:
        known.setdefault(name, set()).add((kind, stability))
    macros = {name for name in FUNCTIONS if known.get(name) == {("macro", None)}}
    assert macros == {"nullif"}
    assert {name for name in FUNCTIONS - macros if known.get(name) != {("scalar", "CONSISTENT")}} == set()


PASSES = [
    "SELECT * FROM source",
    "SELECT source.* FROM source",
    "SELECT * EXCLUDE (visit) FROM source AS s WHERE visit > 1",
    "SELECT Person, visit FROM source",
    "SELECT s.person AS PERSON FROM source AS s",
    "SELECT *, visit + 1 AS next FROM source",
]
REDEFINES = [
    ("SELECT person || '-' || visit AS person, visit FROM source", "another value"),
    ("SELECT visit AS person FROM source", "another value"),
    ("SELECT visit AS PERSON FROM source", "another value"),
    ("SELECT upper(person) AS person FROM source", "another value"),
    ("SELECT CAST(person AS VARCHAR) AS person FROM source", "another value"),
    ("SELECT CASE WHEN visit > 1 THEN person END AS person FROM source", "another value"),
    ("SELECT 1 AS person FROM source", "another value"),
    ("SELECT s.whole.person FROM source AS s", "another value"),
    ("SELECT whole.person FROM source", "another value"),
    ("SELECT source.person FROM source AS s", "another value"),
    ("SELECT * EXCLUDE (Person), visit AS person FROM source", "another value"),
    ("SELECT *, visit AS Person FROM source", "2 columns"),
    ("SELECT person, visit AS person FROM source", "2 columns"),
    ("SELECT visit FROM source", "without it"),
    ("SELECT * EXCLUDE (PERSON) FROM source", "without it"),
    ("SELECT person AS somebody FROM source", "without it"),
]


@pytest.mark.parametrize("sql", PASSES)
def test_an_id_that_passes_through_is_the_units(sql: str):
    """By its bare name, with the relation before it, or by a star; whatever the case."""
    assert check_select(sql) == []
    assert check_unit(sql, "person") == []


@pytest.mark.parametrize(("sql", "says"), REDEFINES)
def test_an_id_that_a_select_makes_up_is_refused(sql: str, says: str):
    """One person could otherwise have an id for every row, and the bound on rows a unit would bound nothing."""
    assert check_select(sql) == []
    (finding,) = check_unit(sql, "person")
    assert says in finding.found
    assert "person as it is" in finding.remedy


NAMES_SOMEBODY = [
    "person NOT IN ('12345', '99')",
    "person <> '12345'",
    "person = 12345 AND visit > 1",
    "NOT (visit < 2 OR trim(Person) = '12345')",
    "source.person BETWEEN '12344' AND '12346'",
    "person LIKE '1234%'",
    "starts_with(person, '1234')",
    "CASE WHEN person = '12345' THEN false ELSE true END",
]


@pytest.mark.parametrize("where", NAMES_SOMEBODY)
def test_an_id_that_is_compared_with_a_literal_is_refused_and_not_shown(where: str):
    """The select is published word for word: who opted out would stand there."""
    sql = f"SELECT * FROM source WHERE {where}"
    assert check_select(sql) == []
    (finding,) = check_unit(sql, "person")
    assert finding.found.startswith("a literal beside the privacy unit's id")
    assert "1234" not in str(finding)


def test_rows_without_an_id_and_rows_by_other_columns_may_be_left_out():
    for where in ("person IS NOT NULL AND trim(person) <> ''", "visit > 3 AND town = 'here'", "opted_out IS NULL"):
        assert check_unit(f"SELECT * FROM source WHERE {where}", "person") == []


def test_a_relation_named_like_the_id_is_told_from_it():
    """`SELECT source FROM source` is the whole row where there is no such column: the qualified name is asked for."""
    (finding,) = check_unit("SELECT source FROM source", "source")
    assert "source.source" in finding.remedy
    assert check_unit("SELECT source.source FROM source", "source") == []


def test_threads_that_read_selects_at_once_do_not_mix_them_up():
    """One DuckDB parses for the whole process."""
    selects = [f"SELECT a + {number} AS b FROM source WHERE a > {number}" for number in range(200)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(guarded_select, selects)) == [guarded_select(each) for each in selects]
