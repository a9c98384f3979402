"""Parts of a SELECT that are repeated are computed once, and never for a row that a guard keeps from them."""

from __future__ import annotations

import pytest
from sqlglot import exp, parse_one

from sudare_engines.portable_sql import share_parts


def shared(sql: str) -> str:
    tree = parse_one(sql, dialect="postgres")
    assert isinstance(tree, exp.Select)
    share_parts(tree)
    return tree.sql("postgres")


def test_what_is_repeated_is_a_column_below_and_what_that_repeats_is_one_below_it() -> None:
    told = shared("SELECT f(g(a) + 1), f(g(a) + 1) + 2, g(a) FROM s AS t")
    parts = 'SELECT "t".*, F("t"."sudare_value\x1f0" + 1) AS "sudare_part\x1f0"'
    parts += ', "t"."sudare_value\x1f0" AS "sudare_part\x1f1"'
    values = 'SELECT "t".*, G(a) AS "sudare_value\x1f0" FROM s AS t OFFSET 0'
    top = 'SELECT "t"."sudare_part\x1f0", "t"."sudare_part\x1f0" + 2, "t"."sudare_part\x1f1"'
    assert told == f'{top} FROM ({parts} FROM ({values}) AS "t" OFFSET 0) AS "t"'


@pytest.mark.parametrize(
    "guarded",
    [
        "CASE WHEN a > 0 THEN f(a) ELSE 0 END",
        "CASE WHEN a > 0 THEN 0 WHEN f(a) THEN 1 END",
        "CASE WHEN a > 0 THEN 0 ELSE f(a) END",
        "COALESCE(b, f(a))",
        "b AND f(a)",
        "b OR f(a)",
    ],
)
def test_a_part_that_every_place_guards_stays_behind_its_guards(guarded: str) -> None:
    """Behind guards that differ in the end; where it stands once more without a guard, each row has it anyway."""
    assert "F(a) AS" not in shared(f"SELECT ({guarded}) IS NULL, NOT ({guarded}) = b FROM s AS t")
    apart = f"SELECT {guarded}, COALESCE(c, f(a)) FROM s AS t"
    assert shared(apart) == parse_one(apart, dialect="postgres").sql("postgres")
    assert 'F(a) AS "sudare_part\x1f0"' in shared(f"SELECT {guarded}, f(a) FROM s AS t")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT SUM(f(a)), SUM(f(a)) + 1 FROM s AS t",
        "SELECT f(a), f(a), ROW_NUMBER() OVER (ORDER BY a) FROM s AS t",
        "SELECT f(a), f(a) FROM s AS t WHERE a > 0",
        "SELECT f(a), f(a) FROM s AS t CROSS JOIN u",
        "SELECT f(a), f(a) FROM s AS t GROUP BY f(a)",
        "SELECT DISTINCT f(a), f(a) FROM s AS t",
        "SELECT f(1), f(1), a IS NULL, a IS NULL FROM s AS t",
    ],
)
def test_a_select_that_is_no_row_for_a_row_and_parts_that_cost_nothing_stay(sql: str) -> None:
    assert shared(sql) == parse_one(sql, dialect="postgres").sql("postgres")
