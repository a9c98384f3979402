"""Lattices of values inside bins: offsets by DuckDB, by expressions and by calendar arithmetic; what is refused."""

from datetime import date, timedelta
from decimal import Decimal, localcontext
from fractions import Fraction
from math import floor
from typing import Any

import duckdb
import ibis
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.contract.contract import Column
from contracts.domains.lattice import MISSING, WIDEST, ValueLattice, lattice_problems, offset_of, usual_step
from contracts.domains.ordered import DateDomain, NumberDomain
from contracts.domains.portable_cell import PortableCell
from contracts.domains.trees import BinTree, bin_ends, bin_tree
from contracts.domains.value_sql import identifier
from contracts.sql.encoding import encode_select
from tests.contracts.engine import connected
from tests.contracts.samples import column, contract_of

COLUMNS = {
    "whole": column("integer", "integer", bounds=[-20, 90], bins={"width": 10}, missing=["999", "?"]),
    "mapped whole": column(
        "integer", "integer", bounds=[0, 100], bins={"width": 10}, nulls={"policy": "map", "to": 35}
    ),
    "decimal": column("decimal", "number", bounds=["-0.5", "7.25"], bins={"width": "0.25"}, missing=["-9"]),
    "mapped decimal": column(
        "decimal", "number", bounds=[0, 50], bins={"edges": [0, "12.5", 50]}, nulls={"policy": "map", "to": "12.5"}
    ),
    "comma": column("decimal", "number", bounds=[0, 20], bins={"width": "0.1"}, decimal=",", grouping="."),
}
LATTICES: dict[str, list[tuple[str, str, str]]] = {
    "whole": [("-20", "90", "1"), ("0", "50", "1"), ("-20", "90", "10"), ("0", "3", "0.5")],
    "mapped whole": [("0", "100", "1"), ("0", "100", "10"), ("40", "60", "4")],
    "decimal": [("-0.5", "7.25", "0.25"), ("0", "7", "0.001"), ("-0.5", "0.5", "0.1")],
    "mapped decimal": [("0", "50", "0.5"), ("0", "50", "1"), ("13", "50", "37")],
    "comma": [("0", "20", "0.1"), ("0", "10", "2.5")],
}
CASES = [(name, ends) for name, several in LATTICES.items() for ends in several]


def lattice_of(a_column: Column, low: str, high: str, step: str) -> ValueLattice:
    apart = a_column.domain.nulls.policy == "category"
    return ValueLattice(a_column.name, Decimal(low), Decimal(high), Decimal(step), apart)


def offsets_of(a_column: Column, lattice: ValueLattice, values: pl.Series) -> list[int]:
    with connected() as connection:
        connection.register("delivered", pl.DataFrame({a_column.name: values}).to_arrow())
        contract = contract_of(a_column)
        sql = encode_select(contract, columns_present=[a_column.name], relation="delivered", lattices=[lattice])
        return [row[0] for row in connection.execute(f"SELECT {identifier(lattice.name)} FROM ({sql})").fetchall()]


def reference(a_column: Column, lattice: ValueLattice, value: Fraction | None) -> int:
    """The offset, derived a second time from exact numbers; None is a missing value."""
    domain: Any = a_column.domain
    if value is None:
        if domain.nulls.to is None:
            return MISSING
        value = Fraction(Decimal(domain.nulls.to))
    clipped = max(Fraction(lattice.low), min(Fraction(lattice.high), value))
    return 1 + floor((clipped - Fraction(lattice.low)) / Fraction(lattice.step) + Fraction(1, 2))


def missing(a_column: Column, text: str) -> bool:
    """Whether a text is a missing value of the column: declared so, no number, or not whole where whole ones are."""
    if text in a_column.domain.missing:
        return True
    try:
        number = Decimal(text)
    except ArithmeticError:
        return True
    return number.is_nan() or (a_column.domain.kind == "integer" and number.is_finite() and number % 1 != 0)


TEXTS = (
    "-20",
    "-21",
    "-1e6",
    "0",
    "1",
    "3",
    "50",
    "90",
    "91",
    "1e15",
    "999",
    "?",
    "",
    "abc",
    "0.3",
    "12.5",
    "-9",
    "-0.5",
)


@pytest.mark.parametrize(("name", "ends"), CASES, ids=str)
def test_an_offset_by_sql_is_that_of_exact_numbers(name: str, ends: tuple[str, str, str]):
    """At, between and outside the bounds, at declared missing texts and at what is no number, under both policies."""
    a_column = COLUMNS[name]
    lattice = lattice_of(a_column, *ends)
    inside = [str(lattice.low + lattice.step * place) for place in range(min(lattice.width, 40) + 1)]
    between = [str(lattice.low + lattice.step * Decimal(place) / 8) for place in range(1, 30) if place % 8 != 4]
    usual = [text for text in TEXTS if name != "comma" or "e" not in text]  # a notation has no exponents
    texts = list(dict.fromkeys([*usual, *inside, *between]))
    written = [text.replace(".", ",") for text in texts] if name == "comma" else texts
    expected = [reference(a_column, lattice, None if missing(a_column, t) else Fraction(Decimal(t))) for t in texts]
    assert offsets_of(a_column, lattice, pl.Series(written, dtype=pl.String)) == expected
    assert set(expected) >= {1, lattice.width + 1}
    assert offsets_of(a_column, lattice, pl.Series([None], dtype=pl.String)) == [reference(a_column, lattice, None)]


@pytest.mark.parametrize(("name", "ends"), CASES, ids=str)
def test_a_typed_column_gives_the_same_offsets_with_nan_and_infinity(name: str, ends: tuple[str, str, str]):
    """NaN and null are missing; infinities are outside, hence the ends: as they are for codes."""
    a_column = COLUMNS[name]
    lattice = lattice_of(a_column, *ends)
    numbers = [float(lattice.low), float(lattice.high), float(lattice.low) - 1, float("inf"), float("-inf")]
    nothing = reference(a_column, lattice, None)
    expected = [
        1,
        lattice.width + 1,
        1 if float(lattice.low) == int(lattice.low) or name[-5:] != "whole" else nothing,
    ]
    expected += [lattice.width + 1, 1, nothing, nothing]
    values = pl.Series([*numbers, float("nan"), None], dtype=pl.Float64)
    assert offsets_of(a_column, lattice, values) == expected


@given(
    st.lists(st.floats(-3, 12, allow_nan=False), min_size=1, max_size=30),
    st.sampled_from([("-0.5", "7.25", "0.25"), ("0", "7", "0.001"), ("-0.5", "7.2", "0.7"), ("0", "1", "0.000001")]),
)
@settings(max_examples=40, deadline=None)
def test_a_value_moves_by_half_a_step_at_most(values: list[float], ends: tuple[str, str, str]):
    """Beside what a double rounds; and never out of the lattice."""
    lattice = lattice_of(COLUMNS["decimal"], *ends)
    for value, found in zip(values, offsets_of(COLUMNS["decimal"], lattice, pl.Series(values)), strict=True):
        if value == -9:
            continue
        assert 1 <= found <= lattice.width + 1
        clipped = max(Fraction(lattice.low), min(Fraction(lattice.high), Fraction(value)))
        placed = Fraction(lattice.low) + (found - 1) * Fraction(lattice.step)
        assert abs(placed - clipped) <= Fraction(lattice.step) * (Fraction(1, 2) + Fraction(1, 10**6))


def test_ties_go_up_for_values_and_for_what_missing_ones_are_mapped_to():
    """A missing value counts as the value that the contract names for it, half a step between two or not."""
    a_column = COLUMNS["mapped decimal"]
    lattice = lattice_of(a_column, "0", "50", "1")
    found = offsets_of(a_column, lattice, pl.Series([0.5, 1.5, 12.5, None], dtype=pl.Float64))
    assert found == [2, 3, 14, 14]
    assert [offset_of(lattice, Decimal(text)) for text in ("0.5", "1.5", "12.5", "-3", "99")] == [1, 2, 13, 0, 50]


def test_offsets_fit_their_type_at_its_edges():
    """254 steps take 256 numbers with the missing one, and 65534 take 65536: the widest of one and two bytes."""
    for width, kind in ((254, "UTINYINT"), (255, "USMALLINT"), (65534, "USMALLINT"), (65535, "UINTEGER")):
        a_column = column("integer", "integer", bounds=[0, width], bins={"width": 1000})
        lattice = lattice_of(a_column, "0", str(width), "1")
        assert offsets_of(a_column, lattice, pl.Series([0, width, None])) == [1, width + 1, 0]
        assert isinstance(a_column.domain, NumberDomain)
        assert f"AS {kind})" in a_column.domain.offset_sql(lattice, "v")
    wide = column("integer", "integer", bounds=[0, 10**9], bins={"width": 10**8})
    lattice = lattice_of(wide, "0", str(10**9), "1")
    assert offsets_of(wide, lattice, pl.Series([10**9, 10**12, 123456789])) == [10**9 + 1, 10**9 + 1, 123456790]


def test_only_numbers_are_added_up_and_only_numbers_and_dates_are_counted_on_a_lattice():
    labels = column("categories", "string", values=["a", "b"])
    lattice = ValueLattice("x", Decimal(0), Decimal(1), Decimal(1), True)
    assert (labels.domain.value_bounds, labels.domain.lattice_bounds) == (None, None)
    with pytest.raises(ValueError, match="not added up"):
        offsets_of(labels, lattice, pl.Series(["a"]))
    days = column("date", "date", bounds=["2020-01-15", "2020-12-31"], granularity="day")
    assert days.domain.value_bounds is None
    assert days.domain.lattice_bounds is not None
    low, high = days.domain.lattice_bounds
    delivered = pl.Series([date(2020, 1, 1), date(2020, 1, 15), date(2020, 2, 1), date(2021, 5, 1), None])
    found = offsets_of(days, ValueLattice("x", low, high, Decimal(1), True), delivered)
    assert found == [1, 1, 18, 352, MISSING]


def test_names_differ_where_lattices_do_and_are_no_column_of_a_contract():
    """Each value's name has one spelling; a control character stands in it, which no column's name may have."""
    terms = [
        ("0", "1", "1"),
        ("0", "2", "1"),
        ("-1", "1", "1"),
        ("0", "1", "0.5"),
        ("0", "1", "0.1"),
        ("0.1", "1", "0.1"),
    ]
    lattices = [ValueLattice(name, *map(Decimal, each), True) for name in ("a", "a0", "b") for each in terms]  # type: ignore[misc]
    assert len({each.name for each in lattices}) == len(lattices)
    spelt = ValueLattice("a", Decimal("0.0"), Decimal("1.00"), Decimal("10e-1"), True)
    assert spelt.name == lattices[0].name
    with pytest.raises(ValueError, match="control"):
        column("integer", "integer", name=spelt.name, bounds=[0, 1], bins={"width": 1})


@pytest.mark.parametrize(
    ("low", "high", "decimals", "expected"),
    [
        ("0", "99", 0, "1"),
        ("0", "1.5", 0, "0.1"),
        ("0.25", "1", 0, "0.01"),
        ("0", "50", 1, "0.1"),
        ("0", "1E+3", 0, "1"),
    ],
)
def test_the_usual_step_is_a_unit_of_the_last_decimal(low: str, high: str, decimals: int, expected: str):
    step = usual_step(Decimal(low), Decimal(high), decimals=decimals)
    assert step == Decimal(expected)
    assert lattice_problems(Decimal(low), Decimal(high), step, 1) == []


@pytest.mark.parametrize(
    ("terms", "rows", "found", "allowed", "at"),
    [
        (("1", "1", "1"), 1, "[1, 1]", "below the upper end", "clip"),
        (("2", "1", "1"), 1, "[2, 1]", "below the upper end", "clip"),
        (("0", "1", "0"), 1, "a step of 0", "above 0", "step"),
        (("0", "1", "-0.5"), 1, "a step of -0.5", "above 0", "step"),
        (("-1", "1", "0.3"), 1, "[-1, 1] in steps of 0.3", "whole number of steps", "step"),
        (("0", "1", "2"), 1, "[0, 1] in steps of 2", "whole number of steps", "step"),
        (("0", "1000000001", "1"), 1, "1,000,000,001 steps of 1", "1,000,000,000 steps", "step"),
        (("0", "500000000", "1"), 3, "times 3 rows", "1,000,000,000 steps", "step"),
        (
            ("999999999999999", "1e15", "1e-3"),
            1,
            "steps of 0.001 at values of 1000000000000000",
            "tells apart",
            "step",
        ),
        (("-1e15", "-999999999999999", "0.5"), 1, "at values of 1000000000000000", "tells apart", "step"),
    ],
)
def test_a_lattice_that_is_none_is_refused(terms: tuple[str, str, str], rows: int, found: str, allowed: str, at: str):
    (problem,) = lattice_problems(*map(Decimal, terms), rows)
    assert found in problem.found
    assert allowed in problem.allowed
    assert problem.at == (at,)
    assert problem.remedy


def test_far_from_0_a_value_still_moves_by_half_a_step_at_most():
    """At the finest step that is allowed there: offsets are those of exact numbers."""
    low, high, step = Decimal(10**6), Decimal(10**6 + 1), Decimal("1e-9")
    assert lattice_problems(low, high, step, 1) == []
    assert lattice_problems(low * 100, low * 100 + 1, step, 1) != []
    a_column = column("decimal", "number", bounds=["1000000", "1000001"], bins={"width": 1})
    lattice = ValueLattice("x", low, high, step, counts_missing=True)
    places = [0, 1, 12345, 123_456_789, 999_999_999, 10**9]
    values = pl.Series([float(low + step * place) for place in places])
    assert offsets_of(a_column, lattice, values) == [place + 1 for place in places]


def test_the_widest_lattice_is_allowed_and_the_named_step_is_enough():
    """All rows of a unit together; one step more is refused, and the remedy names a step that is not."""
    assert lattice_problems(Decimal(0), Decimal(WIDEST), Decimal(1), 1) == []
    assert lattice_problems(Decimal(0), Decimal(WIDEST // 4), Decimal(1), 4) == []
    (problem,) = lattice_problems(Decimal(0), Decimal(10), Decimal("1e-12"), 7)
    step = Decimal(problem.remedy.split("`step:` ")[1].split()[0])
    assert lattice_problems(Decimal(0), Decimal(10), step, 7) == []
    assert lattice_problems(Decimal(0), Decimal(10), step / 10, 7) != []


def test_a_width_does_not_depend_on_the_decimal_context():
    """The context belongs to a thread: a plan, a snapshot and a draw of one lattice have one width."""
    lattice = ValueLattice("wage", Decimal(0), Decimal("199.5"), Decimal("0.5"), counts_missing=True)
    with localcontext() as context:
        context.prec = 1
        assert (lattice.width, offset_of(lattice, Decimal("199.4"))) == (399, 399)
        assert lattice_problems(lattice.low, lattice.high, lattice.step, 1) == []
    uneven = ValueLattice("wage", Decimal(0), Decimal(900), Decimal(550), counts_missing=False)
    assert offset_of(uneven, Decimal(900)) <= uneven.width


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
def test_each_day_has_a_leaf_of_its_own_and_periods_are_whole_leaves(granularity: str, periods: int):
    made = domain(granularity)
    tree = tree_of(made)
    assert tree.lattice.low == Decimal((FIRST - date(1970, 1, 1)).days)
    assert tree.leaves == (LAST - FIRST).days + 1
    ends = bin_ends(made.axis, tree)
    assert len(ends) == periods + 1
    assert [FIRST + timedelta(days=tree.first(leaf)) for leaf in ends[:-1]] == [first for first, _ in made.bins]


def test_single_days_have_nothing_inside_them():
    assert bin_tree("day", domain("day"), 1) is None
    joined = bin_tree("day", domain("day"), 1, joins=True)
    assert joined is not None, "single days can be joined"
    assert joined.leaves == (LAST - FIRST).days + 1


@pytest.mark.parametrize("policy", ["category", "map"])
def test_offsets_are_days_from_the_first_one(policy: str):
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
