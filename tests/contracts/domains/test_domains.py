"""Domains: forms of bins, labels of cells, calendar periods; pictures; texts that nobody declared."""

import re
from datetime import date, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from contracts.contract import labels as spreadsheet
from contracts.contract.column import Column
from contracts.contract.contract import Contract, checks
from contracts.contract.terms import PrivacyTerms, check_names, contradictions
from contracts.domains.calendar_periods import Granularity, count_periods, period_index, period_label, periods
from contracts.domains.image import ImageDomain
from contracts.domains.kinds import Domain
from contracts.domains.ordered import DateDomain, DecimalDomain, IntegerDomain
from contracts.domains.text import NO_KEY, SPLIT, KeyColumn, TextDomain
from tests.contracts.samples import column, contract_of

GRANULARITIES: list[Granularity] = ["day", "week", "month", "quarter", "year"]
DAYS = st.dates(date(1, 1, 1), date(9999, 12, 31))


def integer_bins(bounds: list[int], bins: object) -> tuple[tuple[int, int], ...]:
    domain = column("integer", "integer", bounds=bounds, bins=bins).domain
    assert isinstance(domain, IntegerDomain)
    return domain.bins


def decimal_bins(bounds: list[str], bins: object) -> tuple[tuple[Decimal, Decimal], ...]:
    domain = column("decimal", "number", bounds=bounds, bins=bins).domain
    assert isinstance(domain, DecimalDomain)
    return domain.bins


def test_the_three_forms_of_bins_mean_the_same():
    """Edges, a width and pairs become the same pairs."""
    pairs = ((0, 9), (10, 19), (20, 25))
    assert integer_bins([0, 25], {"edges": [0, 10, 20, 25]}) == pairs
    assert integer_bins([0, 25], {"width": 10}) == pairs
    assert integer_bins([0, 25], [[0, 9], [10, 19], [20, 25]]) == pairs
    intervals = ((Decimal("0"), Decimal("0.1")), (Decimal("0.1"), Decimal("0.2")), (Decimal("0.2"), Decimal("0.25")))
    assert decimal_bins(["0", "0.25"], {"edges": ["0", "0.10", "2e-1", ".25"]}) == intervals
    assert decimal_bins(["0", "0.25"], {"width": "0.1"}) == intervals
    assert decimal_bins(["0", "0.25"], [["0", "0.1"], ["0.1", "0.2"], ["0.2", "0.25"]]) == intervals


@settings(max_examples=50, deadline=None)
@given(low=st.integers(-1000, 1000), span=st.integers(0, 500), width=st.integers(1, 600))
def test_bins_of_a_width_cover_the_bounds_once(low: int, span: int, width: int):
    """Every whole number of the bounds lies in exactly one bin, and no bin is wider than asked for."""
    bins = integer_bins([low, low + span], {"width": width})
    assert [value for first, last in bins for value in range(first, last + 1)] == list(range(low, low + span + 1))
    assert all(last - first + 1 <= width for first, last in bins)


@settings(max_examples=50, deadline=None)
@given(low=st.integers(-1000, 1000), span=st.integers(1, 500), width=st.integers(1, 600), places=st.integers(0, 9))
def test_decimal_bins_of_a_width_are_exact(low: int, span: int, width: int, places: int):
    """Edges are exact multiples; where the width divides the span there is no sliver at the end."""
    unit = Decimal(1).scaleb(-places)
    bins = decimal_bins([str(low * unit), str((low + span) * unit)], {"width": str(width * unit)})
    assert [first for first, _ in bins] == [(low + place * width) * unit for place in range(-(-span // width))]
    assert bins[-1][1] == (low + span) * unit


def test_labels_of_bins_read_like_a_table_head():
    """Single numbers stand alone; half-open intervals show which end belongs to them."""
    ages = column("integer", "integer", bounds=[-1, 9], bins=[[-1, -1], [0, 4], [5, 9]])
    assert ages.labels == ("-1", "0 to 4", "5 to 9", "(null)")
    shares = column("decimal", "number", bounds=[0, 1], bins={"width": "0.50"}, nulls={"policy": "map", "to": "1"})
    assert (shares.labels, shares.null_code) == (("[0, 0.5)", "[0.5, 1]"), 1)


def test_bins_that_a_double_cannot_tell_apart_are_refused():
    """Near 10^15 a width of 10^-6 is below the spacing of doubles."""
    with pytest.raises(ValidationError, match="differ in double precision"):
        decimal_bins(["999999999999999", "999999999999999.001"], {"width": "0.000001"})


def test_periods_that_are_too_many_are_refused():
    """Ten thousand years of days are more cells than a column may have."""
    with pytest.raises(ValidationError, match="found 3652059 periods, allowed at most 1048575"):
        column("date", "date", bounds=["0001-01-01", "9999-12-31"], granularity="day")


@settings(max_examples=60, deadline=None)
@given(first=DAYS, span=st.integers(0, 2000), granularity=st.sampled_from(GRANULARITIES))
def test_periods_tile_the_range_and_change_where_their_label_does(first: date, span: int, granularity: Granularity):
    """Each day lies in one period; two neighbouring days share it exactly when they share its label."""
    last = min(date.max, first + timedelta(days=min(span, (date.max - first).days)))
    tiles = periods(first, last, granularity)
    assert len(tiles) == count_periods(first, last, granularity)
    assert (tiles[0][0], tiles[-1][1]) == (first, last)
    for (_, before), (after, _) in pairwise(tiles):
        assert after - before == timedelta(days=1)
        assert period_label(after, granularity) != period_label(before, granularity)
        assert period_index(after, granularity) == period_index(before, granularity) + 1
    for start, end in tiles:
        assert start <= end
        assert period_label(start, granularity) == period_label(end, granularity)


def test_labels_of_periods_are_those_of_iso_8601():
    """The week of a day at the turn of the year belongs to the ISO year."""
    day = date(2021, 1, 3)
    labels = [period_label(day, granularity) for granularity in GRANULARITIES]
    assert labels == ["2021-01-03", "2020-W53", "2021-01", "2021-Q1", "2021"]
    domain = column("date", "date", bounds=["2020-11-15", "2021-02-03"], granularity="quarter").domain
    assert isinstance(domain, DateDomain)
    assert domain.labels == ("2020-Q4", "2021-Q1", "(null)")


DECLARED: dict[str, Any] = {
    "kind": "image",
    "height": 3,
    "width": "2",
    "levels": 4,
    "nulls": {"policy": "map", "to": "1"},
    "provenance": {"kind": "declared"},
}
TERMS: dict[str, Any] = {"unit": {"kind": "row", "scope": "block"}, "adjacency": "add_remove"}


def picture(**changed: Any) -> Column:
    return Column.model_validate({"name": "scan", "logical_type": "array", "domain": {**DECLARED, **changed}})


def label() -> Column:
    domain = {"kind": "categories", "values": ["a", "b"], "nulls": {"policy": "map", "to": "a"}}
    provenance = {"provenance": {"kind": "declared"}}
    return Column.model_validate({"name": "label", "logical_type": "string", "domain": {**domain, **provenance}})


def test_a_picture_has_a_code_a_place_and_a_label_a_level():
    scan = picture()
    assert isinstance(scan.domain, ImageDomain)
    assert (scan.length, scan.size, scan.labels, scan.null_code) == (6, 4, ("0", "1", "2", "3"), 1)
    assert not scan.ordered
    assert label().length == 1


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"height": 0}, "from 1 to"),
        ({"levels": 1}, "from 2 to 256"),
        ({"levels": 257}, "from 2 to 256"),
        ({"height": 1, "width": 1}, "2 to 16384"),
        ({"height": 1000, "width": 1000}, "2 to 16384"),
        ({"height": 2.5}, "whole number"),
        ({"nulls": {"policy": "category"}}, "policy: map"),
        ({"nulls": {"policy": "map", "to": "4"}}, "a level from 0 to 3"),
        ({"nulls": {"policy": "map", "to": "dark"}}, "a level from 0 to 3"),
        ({"missing": ["?"]}, "no texts"),
        ({"bins": 3}, "Extra inputs"),
    ],
)
def test_what_a_picture_cannot_be_is_refused(changed: dict[str, Any], says: str):
    with pytest.raises(ValidationError, match=says):
        TypeAdapter(Domain).validate_python({**DECLARED, **changed})


@pytest.mark.parametrize("logical_type", ["integer", "number", "string", "date", "boolean"])
def test_a_picture_is_an_array_and_an_array_a_picture(logical_type: str):
    with pytest.raises(ValidationError, match="kind image on logicalType"):
        Column.model_validate({"name": "scan", "logical_type": logical_type, "domain": DECLARED})
    with pytest.raises(ValidationError, match="on logicalType array"):
        Column.model_validate({**label().model_dump(), "logical_type": "array"})


def test_zeros_and_constraints_are_not_about_pictures():
    """A picture has no cells that could be impossible, and no order."""
    for terms in (
        {"structural_zeros": [{"scan": ["3"], "label": ["a"]}]},
        {"constraints": [{"less_or_equal": ["label", "scan"]}]},
        {"constraints": [{"determines": {"by": "label", "column": "scan", "mapping": {"a": "1", "b": "2"}}}]},
    ):
        read = PrivacyTerms.model_validate({**TERMS, **terms})
        problems = contradictions(read, [picture(), label()], ["scan", "label"])
        assert any("a column of pictures" in problem.found for problem in problems), terms


def test_the_checks_of_a_picture_have_the_names_that_gates_may_use():
    fields = {"apiVersion": "v3.1.0", "id": "i", "version": "1", "name": "n", "table": "t"}
    contract = Contract.model_validate({**fields, **TERMS, "columns": (picture(), label())})
    named = {check.name: check for check in checks(contract)}
    assert set(named) == set(check_names(contract.columns, contract.unit))
    assert named["type:scan"].parameters["places"] == 6
    assert (named["domain:scan"].parameters["low"], named["domain:scan"].parameters["high"]) == ("0", "3")
    assert contract.pictures() == ("scan",)
    assert contract.pictures(["label"]) == ()


TEXT_TERMS = {"nulls": {"policy": "category"}, "provenance": {"kind": "declared"}}


def domain(**changed: object) -> TextDomain:
    return TextDomain.model_validate({"kind": "text", "max_bytes": 10, "missing": ["none"], **TEXT_TERMS, **changed})


def read(made: TextDomain, text: str | None) -> tuple[int, str]:
    value = made.value_sql("x")
    query = f"SELECT {made.code_sql('v', 'x')}, {made.offset_sql(KeyColumn('x'), 'v')} FROM "
    found = duckdb.execute(f"{query} (SELECT x, {value} AS v FROM (SELECT ?::VARCHAR AS x))", [text]).fetchone()
    assert found is not None
    return found[0], found[1]


@pytest.mark.parametrize("text", ["baker", "=1+1", "-", "ä" * 5, "a b", "'; DROP TABLE codes", "𝔘𝔫"])
def test_a_text_of_few_bytes_may_be_a_key(text: str):
    """As it is, a formula too; without the spaces around it."""
    fits = len(text.encode()) <= 10
    assert read(domain(), f"  {text} ") == (0, text if fits else NO_KEY)


@pytest.mark.parametrize(
    "text", ["x" * 11, "x" * 10_000, "ä" * 6, "a\x00b", "a\nb", "a\u202eb", "a\u200bb", "(others)", "a;=1"]
)
def test_other_texts_are_never_keys(text: str):
    """They count among all others: too long, control characters, marks of direction, a label, a formula."""
    assert read(domain(), text) == (0, NO_KEY)


@pytest.mark.parametrize("text", [None, "", "  ", "none", "(null)"])
def test_missing_texts_have_a_cell_of_their_own(text: str | None):
    assert read(domain(), text) == (1, NO_KEY)


def test_selected_keys_have_cells_and_the_contract_is_written_the_same():
    """Before all others, then missing ones; a copy: the declared domain keeps its two cells."""
    contract = contract_of(column("text", "string", max_bytes=9, **TEXT_TERMS))
    selected = contract.with_keys({"x": ("a", "b")})
    assert selected.column("x").labels == ("a", "b", "(others)", "(null)")
    assert (selected.column("x").null_code, selected.shape(("x",))) == (3, (4,))
    assert contract.column("x").labels == ("(others)", "(null)")
    assert selected.digest == contract.digest
    assert selected.model_dump() == contract.model_dump()
    assert (contract.texts(), contract.texts(["y"])) == (("x",), ())
    assert contract.with_keys({}) is contract


@pytest.mark.parametrize(
    "changed", [{"max_bytes": 0}, {"max_bytes": 1001}, {"nulls": {"policy": "map", "to": "a"}}, {"more": 1}]
)
def test_terms_that_texts_cannot_have_are_refused(changed: dict[str, object]):
    with pytest.raises(ValidationError):
        domain(**changed)


def test_a_formula_after_a_semicolon_is_what_spreadsheets_have_it():
    """The domain's pattern finds what `spreadsheet` finds, in both of its forms."""
    for sign in (*spreadsheet._FIRST, "a", " "):
        for space in ("", " ", "  "):
            text = f"x;{space}{sign}1"
            assert bool(re.search(SPLIT, text)) is bool(spreadsheet._SPLIT.search(text))


def test_a_column_of_texts_in_csv_asks_for_a_word_on_formulas():
    columns = [column("text", "string", max_bytes=9, **TEXT_TERMS)]
    found = spreadsheet.formula_problem(columns, None)
    assert found is not None
    assert "formulas: neutralised" in found.remedy
    assert spreadsheet.formula_problem(columns, "neutralised") is None


@pytest.mark.parametrize("kind", ["BIGINT", "DOUBLE", "FLOAT", "DECIMAL(12,2)", "HUGEINT", "VARCHAR"])
def test_a_number_is_the_same_text_in_whatever_type_it_is_stored(kind: str):
    """One missing value makes a writer store whole numbers as doubles: no key may change by it."""
    made = domain(missing=["99"])
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE t AS SELECT CAST(x AS {kind}) AS x FROM (VALUES (1234), (99), (NULL)) v(x)")
        found = connection.execute(f"SELECT {made.value_sql('x')} FROM t").fetchall()
    assert [text for (text,) in found] == ["1234", None, None]


@pytest.mark.long
def test_what_is_a_space_or_a_formula_is_the_same_in_sql_and_in_python():
    """Every sign that Unicode has between a `;` and a formula."""
    signs = [chr(code) for code in range(1, 0x3100)]
    with duckdb.connect() as connection:
        texts = [f"a;{sign}=1" for sign in signs]
        connection.execute("CREATE TABLE t (x VARCHAR)")
        connection.executemany("INSERT INTO t VALUES (?)", [[text] for text in texts])
        found = connection.execute(f"SELECT x FROM t WHERE {domain().offset_sql(None, 'x')} = ''").fetchall()
    unfit = {text for (text,) in found}
    assert {text for text in texts if SPLIT.search(text)} <= unfit
    fit = [text for text in texts if text not in unfit]
    assert fit
    assert not any(SPLIT.search(text) for text in fit)
