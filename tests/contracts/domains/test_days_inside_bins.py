"""Days on a lattice: the offset of each stored day, by DuckDB and by an expression, against calendar arithmetic."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import ibis
import pytest

from contracts.domains.lattice import MISSING
from contracts.domains.ordered import DateDomain
from contracts.domains.portable_cell import PortableCell
from contracts.domains.trees import BinTree, bin_ends, bin_tree

FIRST, LAST = date(2023, 11, 15), date(2024, 3, 1)
TERMS: dict[str, Any] = {"kind": "date", "bounds": [FIRST, LAST], "provenance": {"kind": "declared"}}
PERIODS = [("week", 16), ("month", 5), ("quarter", 2), ("year", 2)]


def domain(granularity: str = "month", **terms: Any) -> DateDomain:
    return DateDomain.model_validate(TERMS | {"granularity": granularity, "nulls": {"policy": "category"}} | terms)


def tree_of(made: DateDomain) -> BinTree:
    tree = bin_tree("day", made, 1)
    assert tree is not None
    return tree


@pytest.mark.parametrize(("granularity", "periods"), PERIODS)
def test_each_day_has_a_leaf_of_its_own_and_periods_are_whole_leaves(granularity: str, periods: int) -> None:
    made = domain(granularity)
    tree = tree_of(made)
    assert tree.lattice.low == Decimal((FIRST - date(1970, 1, 1)).days)
    assert tree.leaves == (LAST - FIRST).days + 1
    ends = bin_ends(made.axis, tree)
    assert len(ends) == periods + 1
    assert [FIRST + timedelta(days=tree.first(leaf)) for leaf in ends[:-1]] == [first for first, _ in made.bins]


def test_single_days_have_nothing_inside_them() -> None:
    assert bin_tree("day", domain("day"), 1) is None
    joined = bin_tree("day", domain("day"), 1, joins=True)
    assert joined is not None, "single days can be joined"
    assert joined.leaves == (LAST - FIRST).days + 1


@pytest.mark.parametrize("policy", ["category", "map"])
def test_offsets_are_days_from_the_first_one(policy: str) -> None:
    """All days around the bounds, far ones, none, and a declared missing one; both routes, by Python's calendar."""
    nulls = {"policy": "category"} if policy == "category" else {"policy": "map", "to": "2024-01-01"}
    made = domain(nulls=nulls, missing=["1900-01-01"])
    tree = tree_of(made)
    days = [FIRST + timedelta(days=away) for away in range(-3, (LAST - FIRST).days + 4)]
    days += [date.min, date.max]
    absent = MISSING if policy == "category" else 1 + (date(2024, 1, 1) - FIRST).days
    expected = {day: 1 + (min(max(day, FIRST), LAST) - FIRST).days for day in days}
    expected |= {None: absent, date(1900, 1, 1): absent}  # type: ignore[dict-item]
    stored = list(expected)
    con = duckdb.connect()
    con.execute("CREATE TABLE rows (place INTEGER, d DATE)")
    con.executemany("INSERT INTO rows VALUES (?, ?)", list(enumerate(stored)))
    by_duckdb = con.execute(
        f"SELECT {made.offset_sql(tree.lattice, 'v')} FROM (SELECT place, {made.value_sql('d')} AS v FROM rows) "
        "ORDER BY place"
    ).fetchall()
    assert [offset for (offset,) in by_duckdb] == [expected[day] for day in stored]
    table = ibis.table({"place": "int32", "d": "date"}, name="rows")
    beside = made.portable_beside(
        tree.lattice, PortableCell(table.d, "day", lambda text, _: date.fromisoformat(text))
    )
    query = ibis.to_sql(table.select("place", offset=beside).order_by("place"), dialect="duckdb")
    assert [offset for _, offset in con.execute(str(query)).fetchall()] == [expected[day] for day in stored]
