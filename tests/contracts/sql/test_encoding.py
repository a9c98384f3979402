"""Encoding and decoding: against a second derivation in Python, on texts and typed columns, and back again."""

import math
from bisect import bisect_right
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import cache
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.contract.contract import Column
from contracts.contract.decoding import Decoder
from contracts.domains.ordered import DateDomain, DecimalDomain, IntegerDomain
from contracts.domains.value_sql import identifier
from contracts.errors import ContractRefused
from contracts.sql.encoding import encode_select
from tasks.records.files.write import arrow_array
from tests.contracts.samples import column, contract_of

LAST = 2**64 - 1
"""The largest random word."""
COLUMNS = {
    "categories": column("categories", "string", values=["a", "b c", "naïve", "日本"]),
    "other": column("categories", "string", values=["x", "y"], other="rest", missing=["?", ""]),
    "mapped null": column("categories", "string", values=["x", "y"], nulls={"policy": "map", "to": "y"}),
    "mapping": column(
        "mapping", "string", mapping={"1": "low", "2": "low", "3": "high"}, other="other", missing=["-"]
    ),
    "whole categories": column("categories", "integer", values=["1", "02", "10"]),
    "flags": column("categories", "boolean", values=["True", "False"]),
    "integer": column("integer", "integer", bounds=[17, 90], bins={"edges": [17, 25, 35, 90]}, missing=["999", "?"]),
    "single": column("integer", "integer", bounds=[5, 5], bins={"width": 1}),
    "many equal": column("integer", "integer", bounds=[-100, 203], bins={"width": 3}),
    "many uneven": column("integer", "integer", bounds=[0, 99], bins={"edges": [*range(0, 80, 2), 99]}),
    "equal but both ends": column(
        "integer", "integer", bounds=[17, 92], bins={"edges": [17, *range(20, 91, 5), 92]}, missing=["999"]
    ),
    "the widest": column("integer", "integer", bounds=[-(10**15), 10**15], bins={"width": 10**14 + 1}),
    "very wide": column("integer", "integer", bounds=[-(10**15), 10**15], bins={"width": 10**12 + 7}),
    "wide uneven": column(
        "integer", "integer", bounds=[0, 10**6], bins={"edges": [*(n * n for n in range(40)), 10**6]}
    ),
    "decimal": column("decimal", "number", bounds=[0, "1.5"], bins={"width": "0.4"}),
    "many decimals": column("decimal", "number", bounds=["-0.3", "7.7"], bins={"width": "0.1"}),
    "cut decimals": column("decimal", "number", bounds=[0, "10.05"], bins={"width": "0.1"}, missing=["-0.7"]),
    "uneven decimals": column(
        "decimal", "number", bounds=[0, "20.1"], bins={"edges": [*(f"{n * n}e-2" for n in range(40)), "20.1"]}
    ),
    "days": column("date", "date", bounds=["2020-01-15", "2020-12-31"], granularity="day"),
    "weeks": column("date", "date", bounds=["2020-01-15", "2021-01-31"], granularity="week"),
    "first weeks": column("date", "date", bounds=["0001-01-01", "0002-01-31"], granularity="week"),
    "months": column(
        "date", "date", bounds=["2019-11-15", "2020-12-31"], granularity="month", missing=["1900-02-28"]
    ),
    "quarters": column("date", "date", bounds=["2019-11-15", "2020-12-31"], granularity="quarter"),
    "years": column("date", "date", bounds=["1900-05-01", "2020-12-31"], granularity="year"),
}


@cache
def database() -> duckdb.DuckDBPyConnection:
    """One database for the whole module: opening one costs more than most examples."""
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    return connection


def encoded(a_column: Column, values: pl.Series) -> list[int]:
    database().register("delivered", pl.DataFrame({a_column.name: values}).to_arrow())
    sql = encode_select(contract_of(a_column), columns_present=[a_column.name], relation="delivered")
    return [row[0] for row in database().execute(sql).fetchall()]


def texts(*values: str | None) -> pl.Series:
    return pl.Series("x", values, dtype=pl.String)


def as_value(text: str) -> Decimal | datetime | None:
    """What a text is once a writer stores its column as numbers, flags or days; None for a text that stays one."""
    if text.lower() in ("true", "false"):
        return Decimal(text.lower() == "true")
    try:
        return Decimal(text) if set(text) <= set("+-.0123456789") else datetime.fromisoformat(text)
    except (ValueError, InvalidOperation):
        return None


def reference(a_column: Column, text: str | None) -> int:
    """The code of a text, derived a second time: in Python, with exact numbers, straight from the rules."""
    domain = a_column.domain
    stripped = None if text is None else text.strip(" ")
    if stripped is None or stripped in domain.missing:
        return a_column.null_code
    if isinstance(domain, IntegerDomain | DecimalDomain):
        number = Decimal(stripped)
        if isinstance(domain, IntegerDomain) and number % 1:
            return a_column.null_code
        clipped = max(Decimal(domain.bounds[0]), min(Decimal(domain.bounds[1]), number))
        starts = [Decimal(low) for low, _ in domain.bins]
        return max(place for place, low in enumerate(starts) if clipped >= low)
    if isinstance(domain, DateDomain):
        day = max(domain.bounds[0], min(domain.bounds[1], date.fromisoformat(stripped)))
        return next(place for place, (low, high) in enumerate(domain.bins) if low <= day <= high)
    if stripped in a_column.labels:
        return a_column.labels.index(stripped)
    meanings = dict(domain.mapping) if domain.kind == "mapping" else {label: label for label in domain.categories}
    known = (*domain.missing, *meanings)
    value = as_value(stripped)
    alike = [text for text in known if text == stripped] or [
        text for text in known if value is not None and as_value(text) == value
    ]
    if alike:
        return a_column.null_code if alike[0] in domain.missing else a_column.labels.index(meanings[alike[0]])
    return a_column.labels.index(domain.other) if domain.other is not None else a_column.null_code


def awkward_texts(a_column: Column) -> st.SearchStrategy[str]:
    """Texts at and around everything that the domain names, and beyond."""
    domain = a_column.domain
    if isinstance(domain, IntegerDomain):
        around = [end + step for pair in domain.bins for end in pair for step in (-1, 0, 1)]
        return st.one_of(st.sampled_from(around), st.integers(-(10**16), 10**16)).map(str)
    if isinstance(domain, DecimalDomain):
        steps = (Decimal(0), Decimal("0.0000001"), Decimal("-0.0000001"))
        near = [str(end + step) for pair in domain.bins for end in pair for step in steps]
        return st.one_of(st.sampled_from(near), st.decimals(-30, 30, places=4).map(str))
    if isinstance(domain, DateDomain):
        low, high = domain.bounds
        span = timedelta(days=400)
        earliest = low - span if low > date(3, 1, 1) else low
        return st.dates(earliest, high + span).map(str)
    words = [
        *domain.categories,
        "?",
        "",
        "x ",
        " y",
        "1",
        "2",
        "3",
        "no such",
        "X",
        "日本 ",
        "'; DROP TABLE codes; --",
    ]
    values = ["TRUE", "false", "01", "+2.0", ".0", "1.", "1e0"]
    anything = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4)
    return st.one_of(st.sampled_from(words), st.sampled_from(values), anything)


KINDS = [name for name in COLUMNS if name not in ("whole categories", "flags")]


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_texts_get_the_code_that_a_second_derivation_gives_them(name: str, data: st.DataObject):
    """At and around every edge, and far outside, the SQL agrees with exact arithmetic in Python."""
    a_column = COLUMNS[name]
    words = data.draw(st.lists(st.one_of(st.none(), awkward_texts(a_column)), min_size=20, max_size=200))
    unprintable = [word for word in words if word is not None and word.strip() != word.strip(" ")]
    kept = [word for word in words if word not in unprintable]
    assert encoded(a_column, texts(*kept)) == [reference(a_column, word) for word in kept]


def decoded(a_column: Column, codes: Sequence[int], words: Sequence[int]) -> pl.Series:
    decoder = Decoder(contract_of(a_column), [a_column.name])
    given_words = np.array(words, dtype=np.uint64)
    [values] = decoder.decode(np.array(codes)[:, None], piece=0, words=lambda stream, count: given_words[:count])
    return pl.Series(a_column.name, arrow_array(values))


@pytest.mark.parametrize("name", list(COLUMNS))
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_encoding_what_was_decoded_gives_the_code_again(name: str, data: st.DataObject):
    """encode(decode(code)) == code for every cell of every kind and any word, typed and as text."""
    a_column = COLUMNS[name]
    size = a_column.size
    drawn = data.draw(st.lists(st.integers(0, LAST), min_size=size, max_size=size)) if size < 60 else []
    own = drawn or np.random.default_rng(size).integers(0, LAST, size, dtype=np.uint64).tolist()
    codes = np.arange(size).repeat(4).tolist()
    values = decoded(a_column, codes, [word for last in own for word in (0, 2**63, LAST, last)])
    assert encoded(a_column, values) == codes
    assert encoded(a_column, values.cast(pl.String)) == codes


def test_decoded_values_lie_in_their_bin_and_have_their_type():
    """Integers are whole, decimals stay below an open end, dates are days of the period, nulls are null."""
    ages = decoded(COLUMNS["integer"], [0, 0, 2, 3], [0, LAST, 2**63, 7])
    assert ages.dtype == pl.Int64
    assert ages.to_list() == [17, 24, 63, None]
    decimals = decoded(COLUMNS["decimal"], [0, 3, 3, 4], [LAST, 0, LAST, 0])
    assert decimals.dtype == pl.Float64
    assert decimals.to_list() == [0.3, 1.2, 1.5, None]
    days = decoded(COLUMNS["months"], [0, 1], [0, LAST])
    assert days.dtype == pl.Date
    assert days.to_list() == [date(2019, 11, 15), date(2019, 12, 31)]
    assert decoded(COLUMNS["mapping"], [0, 1, 2, 3], [0] * 4).to_list() == ["low", "high", "other", None]


def test_draws_inside_a_bin_are_uniform():
    """Equally spaced words fall equally often on each whole number of the bin."""
    ages = decoded(COLUMNS["integer"], [0] * 8000, [(2 * place + 1) * 2**64 // 16000 for place in range(8000)])
    assert ages.value_counts().sort("x")["count"].to_list() == [1000] * 8


@pytest.mark.parametrize("code", [5, -1])
def test_what_is_no_cell_is_not_decoded(code: int):
    """A code outside the domain is an error, not an extrapolation."""
    with pytest.raises(ValueError, match="codes must lie"):
        decoded(COLUMNS["integer"], [code], [0])


AWKWARD_NUMBERS = [
    (" 18 ", 0), ("18.0", 0), ("+18", 0), ("1.8e1", 0), ("18.5", 3), ("16", 0), ("-5", 0), ("91", 2), ("1e300", 2),
    ("1e400", 2), ("-1e400", 0), ("inf", 2), ("-Infinity", 0), ("nan", 3), ("?", 3), ("", 3), ("abc", 3), ("999", 3),
    ("999.0", 3), ("9" * 60, 2), ("24", 0), ("25", 1), ("34", 1), ("35", 2), ("18, 19", 3), ("0x12", 3),
]  # fmt: skip


def test_numbers_as_texts_are_read_by_the_rules():
    """Spaces do not count, 18.0 is 18, 18.5 is no whole number, infinity is clipped, NaN and misfits are null."""
    expected = [code for _, code in AWKWARD_NUMBERS]
    assert encoded(COLUMNS["integer"], texts(*(text for text, _ in AWKWARD_NUMBERS))) == expected


TYPED: list[tuple[str, pl.Series, Sequence[int]]] = [
    ("integer", pl.Series([18, 24, 25, 90, 200, -3, None, 999], dtype=pl.Int32), [0, 0, 1, 2, 2, 0, 3, 3]),
    ("integer", pl.Series([18, 24, 255], dtype=pl.UInt8), [0, 0, 2]),
    ("integer", pl.Series([18.0, 18.5, math.nan, math.inf, -math.inf, 999.0, None]), [0, 3, 3, 2, 0, 3, 3]),
    ("integer", pl.Series([Decimal("25.00"), Decimal("25.50")], dtype=pl.Decimal(10, 2)), [1, 3]),
    ("integer", pl.Series([date(2020, 1, 1)]), [3]),
    ("integer", pl.Series([[1]]), [3]),
    ("decimal", pl.Series([0.4, 0.39999, 1.5, 1.6, -1.0, math.nan, math.inf]), [1, 0, 3, 3, 0, 4, 3]),
    ("decimal", pl.Series([Decimal("0.4"), Decimal("0.8"), Decimal("1.2")], dtype=pl.Decimal(5, 1)), [1, 2, 3]),
    ("months", pl.Series([date(2019, 12, 31), date(2020, 1, 1), date(1, 1, 1), date(9999, 12, 31)]), [1, 2, 0, 13]),
    ("months", pl.Series([date(1900, 2, 28), date(1900, 2, 27)]), [14, 0]),
    ("months", pl.Series([20200101, 5]), [14, 14]),
    ("whole categories", pl.Series([1, 2, 10, 3, None]), [0, 1, 2, 3, 3]),
    ("whole categories", pl.Series([1.0, 10.0, 1.5]), [0, 2, 3]),
    ("whole categories", texts("1", "02", "01", "1.0", "2", "ten"), [0, 1, 0, 0, 1, 3]),
    ("flags", pl.Series([True, False, None]), [0, 1, 2]),
    ("flags", texts("True", "true", " FALSE ", "no"), [0, 0, 1, 2]),
    ("other", pl.Series(["x", "y", "z", None], dtype=pl.Categorical), [0, 1, 2, 3]),
]


@pytest.mark.parametrize(("name", "values", "codes"), TYPED)
def test_typed_columns_get_the_codes_of_their_texts(name: str, values: pl.Series, codes: Sequence[int]):
    """Whatever the type in the source, no value makes the encoding fail, and equal values get equal codes."""
    assert encoded(COLUMNS[name], values.alias("x")) == list(codes)


DATES = [("2020-01-15", 2), ("2020-01-15 23:59:59", 2), (" 2020-01-15 ", 2), ("15.01.2020", 14), ("2020-02-30", 14)]


def test_dates_as_texts_are_read_by_the_rules():
    """A timestamp counts by its day, another order of the parts is unreadable, a day that does not exist too."""
    assert encoded(COLUMNS["months"], texts(*(text for text, _ in DATES))) == [code for _, code in DATES]


HOSTILE = [
    "it's",
    'say "hi"',
    "a;b",
    "'); DROP TABLE delivered; --",
    "back\\slash",
    "100%",
    "naïve ☕",
    "𝔘",
    "$1",
    "{x}",
]


def test_names_and_labels_cannot_break_out_of_the_sql():
    """Quotes, semicolons, backslashes and all of Unicode are data, in names as in labels and missing texts."""
    names = [f"{word}{place}" for place, word in enumerate(HOSTILE)]
    columns = [
        column("categories", "string", name, values=[word for word in HOSTILE if word != skipped], missing=[skipped])
        for name, skipped in zip(names, HOSTILE, strict=True)
    ]
    frame = pl.DataFrame(dict.fromkeys(names, HOSTILE))
    with duckdb.connect() as connection:
        connection.register("delivered", frame.to_arrow())
        sql = encode_select(contract_of(*columns), columns_present=names, relation=identifier("delivered"))
        result = connection.execute(sql).pl()
        assert connection.execute("SELECT count(*) FROM delivered").fetchall() == [(len(HOSTILE),)]
    assert result.columns == names
    for place, a_column in enumerate(columns):
        expected = [code if code < place else code - 1 for code in range(len(HOSTILE))]
        expected[place] = a_column.null_code
        assert result[a_column.name].to_list() == expected


@pytest.mark.parametrize(("size", "kind"), [(1, pl.UInt8), (255, pl.UInt8), (256, pl.UInt16), (70_000, pl.UInt32)])
def test_codes_have_the_smallest_type_that_fits(size: int, kind: Any):
    """255 categories and the null cell fit into a byte; the last code of every width is reached."""
    a_column = column("categories", "string", values=[f"v{n}" for n in range(size)])
    frame = pl.DataFrame({"x": ["v0", f"v{size - 1}", "none"]})
    with duckdb.connect() as connection:
        connection.register("delivered", frame.to_arrow())
        sql = encode_select(contract_of(a_column), columns_present=["x"], relation="delivered")
        result = connection.execute(sql).pl()["x"]
    assert (result.dtype, result.to_list()) == (kind, [0, size - 1, size])


def test_a_category_list_with_missing_texts_keeps_all_its_codes():
    """256 texts that share codes are looked up without running over the width of a byte."""
    values = [f"v{n}" for n in range(250)]
    a_column = column("categories", "string", values=values, missing=[f"m{n}" for n in range(50)])
    assert encoded(a_column, texts(*values, "m0", "m49", None)) == [*range(250), 250, 250, 250]


def test_a_missing_column_is_named():
    """Without the column there is no encoding; the nearest name is suggested."""
    with pytest.raises(ContractRefused, match="write 'Age' instead of 'age'"):
        encode_select(
            contract_of(column("categories", "string", "age", values=["a"])),
            columns_present=["Age"],
            relation="delivered",
        )


def test_bin_edges_are_exact_at_many_decimals():
    """Every edge of 80 bins of width 0.1 begins its own bin, although tenths are no binary fractions."""
    domain = COLUMNS["many decimals"].domain
    assert isinstance(domain, DecimalDomain)
    edges = [str(low) for low, _ in domain.bins]
    assert encoded(COLUMNS["many decimals"], texts(*edges)) == list(range(80))
    below = [math.nextafter(float(edge), -math.inf) for edge in edges[1:]]
    assert encoded(COLUMNS["many decimals"], pl.Series("x", below)) == list(range(79))
    starts = [float(low) for low, _ in domain.bins]
    grid = np.random.default_rng(7).uniform(-1, 9, 3000)
    expected = [min(max(bisect_right(starts, value) - 1, 0), 79) for value in grid]
    assert encoded(COLUMNS["many decimals"], pl.Series("x", grid)) == expected


def test_bins_of_one_width_are_found_by_arithmetic_at_each_edge():
    """Each whole number, and those beside each edge of the widest bins; halves and missing values are no cell."""
    name = "equal but both ends"
    domain = COLUMNS[name].domain
    assert isinstance(domain, IntegerDomain)
    starts = [low for low, _ in domain.bins]
    assert "floor((" in domain.code_sql("v", "r")
    whole = list(range(-3, 120))
    expected = [min(max(bisect_right(starts, value) - 1, 0), len(starts) - 1) for value in whole]
    assert encoded(COLUMNS[name], pl.Series("x", whole)) == expected
    odd = pl.Series("x", [30.5, math.nan, None, 999.0, math.inf, -math.inf])
    assert encoded(COLUMNS[name], odd) == [*([domain.null_code] * 4), len(starts) - 1, 0]
    widest = COLUMNS["the widest"].domain
    assert isinstance(widest, IntegerDomain)
    assert "floor((" in widest.code_sql("v", "r")
    edges = [low for low, _ in widest.bins][1:]
    beside = [edge + step for edge in edges for step in (-1, 0, 1)]
    found = encoded(COLUMNS["the widest"], pl.Series("x", beside))
    assert found == [place + (step >= 0) for place in range(len(edges)) for step in (-1, 0, 1)]


def test_order_is_kept():
    """One row a row, in the order of the relation."""
    codes = encoded(COLUMNS["integer"], pl.Series("x", np.arange(50_000) % 100))
    assert codes == [0 if age % 100 < 25 else 1 if age % 100 < 35 else 2 for age in range(50_000)]
