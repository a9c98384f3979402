"""Notations of numbers and days: one code for one value, however it is stored, and no text stops a run."""

import re
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from contracts.comparison.changes import compare
from contracts.contract.column import Column
from contracts.contract.contract import Contract
from contracts.contract.odcs import load_contract
from contracts.domains.notation import TIME_ZONES, NumberNotation
from tests.contracts.engine import in_numbers
from tests.contracts.samples import CONTRACT, column, contract_findings, contract_of
from tests.contracts.sql.test_storage_types import DAYS, NUMBERS, read, stored

NOTATIONS = {
    "comma": {"decimal": ","},
    "german": {"decimal": ",", "grouping": "."},
    "spaced": {"decimal": ",", "grouping": " "},
    "swiss": {"decimal": ".", "grouping": "'"},
    "english": {"grouping": ","},
}
NUMBER_DOMAINS: dict[str, dict[str, Any]] = {
    "integer": {"kind": "integer", "logical_type": "integer", "bounds": [0, 2000], "bins": {"width": 400}},
    "decimal": {"kind": "decimal", "logical_type": "number", "bounds": [-2, 2], "bins": {"width": 1}},
}
MISREAD = (
    *(
        ",",
        ".",
        "",
        " ",
        "1,",
        ",5",
        "1,5,2",
        "1.5.2",
        "−1,5",
        "+-1",
        "- 1",
        "NaN",
        "inf",
        "1e5",
        "1,5e3",
        "0x1",
        "1_0",
    ),
    *(
        "１,５",
        "１",
        "1 5",
        "1\t",
        "1\n",
        "\n1",
        "1,5\r",
        "1.2345",
        "12.34,5",
        ".123",
        "1..234",
        "€ 1,5",
        "1,5 %",
        "(1)",
    ),
    *("9" * 400, "," * 400, "31.02.2024", "1.1.24", "00.00.0000", "1.1.0000", "1.13.2024", "31/12", "2024-13-01"),
    *(
        "31.12.2024\n",
        "31.12.20244",
        "３１.12.2024",
        "2024123",
        "202412311",
        "20240231",
        "20241231.5",
        "31.12.2024 x",
    ),
    *("'", "''); DROP TABLE x; --", "\\1", "{0}", "{}", "%d.%m.%Y", "\u202e1", "\x00", "true", "99"),
)
"""Texts that are of no notation, or of another one."""
FORMATS = ("%d.%m.%Y", "%m/%d/%Y", "%d. %m. %Y", "%Y年%m月%d日", "%Y%m%d", "%Y-%m-%d")


def numbers_column(kind: str, notation: dict[str, str], **more: Any) -> Column:
    keys = {**NUMBER_DOMAINS[kind], **notation, **more}
    return column(keys.pop("kind"), keys.pop("logical_type"), **keys)


def days_column(form: str | None, **more: Any) -> Column:
    keys = {"bounds": ["2020-01-01", "2024-12-31"], "granularity": "day", **more}
    return column("date", "date", **keys, **({} if form is None else {"format": form}))


def spelled(value: Fraction | None, notation: dict[str, str], *, grouped: bool) -> str | None:
    """Write a number as the notation does, by another way than the code's own."""
    if value is None:
        return None
    mark, group = notation.get("decimal", "."), notation.get("grouping", "") if grouped else ""
    text = format(Decimal(value.numerator) / Decimal(value.denominator), ",.2f")
    return text.translate({ord(","): group, ord("."): mark})


VALUES = st.one_of(st.none(), st.integers(-800, 9000).map(lambda n: Fraction(n, 4)), st.just(Fraction(-99)))


@pytest.mark.long
@pytest.mark.parametrize("kind", NUMBER_DOMAINS)
@pytest.mark.parametrize("name", NOTATIONS)
@settings(max_examples=3, deadline=None)
@given(values=st.lists(VALUES, min_size=1, max_size=12), grouped=st.booleans())
def test_a_number_has_one_code_as_text_of_the_notation_and_as_any_type(
    name: str, kind: str, values: list[Fraction | None], grouped: bool
):
    """Codes and broken checks."""
    notation = NOTATIONS[name]
    a_column = numbers_column(kind, notation, missing=[spelled(Fraction(-99), notation, grouped=False)])
    texts = pa.array([spelled(value, notation, grouped=grouped) for value in values], pa.string())
    expected = read(a_column, texts)
    for each in ("int16", "int64", "float", "double", "flag", "decimal(7,3)", "decimal(38,2)"):
        array = stored(values, NUMBERS[each][0])
        if array is not None:
            assert read(a_column, array) == expected, each


@pytest.mark.parametrize("form", FORMATS)
def test_a_day_has_one_code_as_text_of_the_format_and_as_any_type(form: str):
    missing = date(1900, 1, 1)
    a_column = days_column(form, missing=[missing.strftime(form)])
    days = [date(2020, 2, 29), date(2021, 1, 1), date(1999, 3, 4), date(2030, 12, 31), missing, None]
    expected = read(a_column, pa.array([None if day is None else day.strftime(form) for day in days]))
    assert expected[0][0] == 59
    assert expected[-1] == (a_column.null_code, *in_numbers((1, 0, 0)))
    midnights = [None if day is None else datetime(day.year, day.month, day.day) for day in days]
    for each, type_ in DAYS.items():
        assert read(a_column, pa.array(days if each == "date" else midnights, type_)) == expected, each
    if form == "%Y%m%d":
        whole = [None if day is None else int(day.strftime(form)) for day in days]
        for type_ in (pa.int64(), pa.float64(), pa.decimal128(12, 2)):
            array = pa.array([None if each is None else Decimal(each) for each in whole]).cast(type_)
            assert read(a_column, array) == expected
        assert read(a_column, pa.array([None if each is None else f"{each}.0" for each in whole])) == expected


def test_a_day_of_one_digit_and_a_time_of_day_are_read():
    texts = pa.array(["1.2.2021", " 01.02.2021 ", "1.2.2021 14:30", "01.02.2021 14:30:59,5", "1.2.2021 2:30 PM"])
    assert {code for code, *_ in read(days_column("%d.%m.%Y"), texts)} == {397}


@pytest.mark.parametrize(
    "a_column",
    [
        *(numbers_column("decimal", notation) for notation in NOTATIONS.values()),
        *(days_column(form, granularity="year", missing=["99", "x"]) for form in FORMATS),
    ],
)
def test_a_hostile_text_stops_nothing(a_column: Column):
    assert len(read(a_column, pa.array(MISREAD))) == len(MISREAD)


def test_what_is_not_of_the_notation_is_missing_and_a_misfit():
    """The brief list: 1.5 under a decimal comma is another notation, so nobody takes 1.500 for 1500 or for 1.5."""
    a_column = numbers_column("decimal", {"decimal": ","})
    texts = [",", "1,", ",5", "1,5,2", "−1,5", "NaN", "1e5", "１,５", "1 5", "1.5", "1.500"]
    assert read(a_column, pa.array(texts)) == [(a_column.null_code, *in_numbers((0, 1, 0)))] * len(texts)
    dated = days_column("%d.%m.%Y")
    texts = ["31.02.2024", "1.1.24", "2024-12-31", "12/31/2024", "１.１.2024", "1. 1. 2024"]
    assert read(dated, pa.array(texts)) == [(dated.null_code, *in_numbers((0, 1, 0)))] * len(texts)


def test_without_a_notation_nothing_changes():
    """A decimal comma is a misfit, and the wrong case for the tests above: without `decimal:` 1,5 is no 1.5."""
    a_column = numbers_column("decimal", {})
    assert read(a_column, pa.array(["1,5", "1.5"])) == [
        (a_column.null_code, *in_numbers((0, 1, 0))),
        (3, *in_numbers((0, 0, 0))),
    ]


def test_python_reads_missing_texts_as_the_statements_do():
    for name, written in NOTATIONS.items():
        notation = NumberNotation(written.get("decimal", "."), written.get("grouping"))
        a_column = numbers_column("decimal", written)
        for text, (code, *_) in zip(MISREAD, read(a_column, pa.array(MISREAD)), strict=True):
            assert (notation.read(text) is None) == (code == a_column.null_code) or text == "true", (name, text)


# --- instants -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("zone", "day"), [(None, 364), ("UTC", 364), ("Europe/Berlin", 365), ("Asia/Tokyo", 365)])
def test_an_instant_is_of_the_day_of_the_declared_zone(zone: str | None, day: int):
    """Stored or spelled with its offset, by the row and the zone alone; moments without a zone stay as they are."""
    a_column = days_column(None, bounds=["2023-01-01", "2024-12-31"], **({} if zone is None else {"time_zone": zone}))
    instant = pa.array([datetime(2023, 12, 31, 23, 30)], pa.timestamp("us", "UTC"))
    assert read(a_column, instant)[0][0] == day
    assert read(a_column, instant.cast(pa.timestamp("us", "America/New_York")))[0][0] == day
    for text in (
        "2023-12-31T23:30:00Z",
        "2023-12-31 23:30+00",
        "2024-01-01 01:30:00.5 +0200",
        "2023-12-31 23:30 UTC",
    ):
        assert read(a_column, pa.array([text]))[0][0] == day, text
    assert read(a_column, pa.array([datetime(2023, 12, 31, 23, 30)]))[0][0] == 364
    assert read(a_column, pa.array(["2023-12-31 23:30:00"]))[0][0] == 364


def test_the_zone_of_the_process_decides_nothing(monkeypatch: pytest.MonkeyPatch):
    import time

    a_column = days_column(None, bounds=["2023-01-01", "2024-12-31"])
    instant = pa.array([datetime(2023, 12, 31, 23, 30)], pa.timestamp("us", "UTC"))
    for zone in ("Asia/Tokyo", "America/New_York"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        assert read(a_column, instant)[0][0] == 364
    monkeypatch.undo()
    time.tzset()


def test_summer_time_and_its_end_are_the_zones_own():
    a_column = days_column(None, bounds=["2023-01-01", "2024-12-31"], time_zone="Europe/Berlin")
    texts = ["2023-07-01T21:59:59Z", "2023-07-01T22:00:00Z", "2023-12-01T22:59:59Z", "2023-12-01T23:00:00Z"]
    assert [code for code, *_ in read(a_column, pa.array(texts))] == [181, 182, 334, 335]


def test_the_time_zones_are_those_of_cities_that_duckdb_has_too():
    """The list of a contract is DuckDB's own, without the names that changed their meaning once."""
    with duckdb.connect() as connection:
        names = [str(row[0]) for row in connection.execute("SELECT name FROM pg_timezone_names()").fetchall()]
    cities = {name for name in names if "/" in name and not name.startswith("SystemV/")}
    assert {"UTC", *cities} == TIME_ZONES
    assert not {"CET", "EST", "localtime", "+01:00"} & TIME_ZONES


# --- contracts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"decimal": ";"}, 'found \';\', allowed "," or "."'),
        ({"decimal": ",", "grouping": ","}, "',' between groups of digits and before the decimals"),
        ({"grouping": "."}, "'.' between groups of digits and before the decimals"),
        ({"grouping": "x"}, "found 'x', allowed one of"),
        ({"decimal": ",", "missing": ["99.9"]}, "'99.9', a value in another notation"),
        ({"decimal": ",", "missing": ["1,5"]}, "'1,5' lies inside the bounds"),
    ],
)
def test_an_ambiguous_notation_of_numbers_is_refused(keys: dict[str, Any], says: str):
    with pytest.raises(ValidationError, match=re.escape(says)):
        numbers_column("decimal", keys)


@pytest.mark.parametrize(
    ("form", "says"),
    [
        ("%d.%m.%y", "%y in '%d.%m.%y': a year of two digits"),
        ("%d. %B %Y", "%B in '%d. %B %Y': a name, which depends on a language"),
        ("%d.%m.%Y %H:%M", "%H in"),
        ("%j %Y", "%j in '%j %Y': which is not read"),
        ("%d%m%Y", "whose parts touch"),
        ("%m/%Y", "without %d"),
        ("%d.%d.%Y", "without %m"),
        ("%d.%m.%Y %d", "a part twice"),
        ("%d|%m|%Y", "other marks than"),
        ("%d.%m.%Y ", "a space at its end"),
        ("%d.%m.%", "% in"),
        ("dd.MM.yyyy", "a pattern of Java"),
        ("", "without %d and %m and %Y"),
    ],
)
def test_a_format_that_is_ambiguous_or_not_read_is_refused(form: str, says: str):
    with pytest.raises(ValidationError, match=re.escape(says)):
        days_column(form)


def test_a_missing_day_in_another_notation_is_refused():
    with pytest.raises(ValidationError, match="'1900-01-01', a value in another notation"):
        days_column("%d.%m.%Y", missing=["1900-01-01"])


def test_a_zone_that_is_none_is_refused_with_the_nearest():
    with pytest.raises(ValidationError) as error:
        days_column(None, time_zone="Europe/Berlim")
    [problem] = error.value.errors()[0]["ctx"]["problems"]
    assert problem.remedy == "write 'Europe/Berlin' instead of 'Europe/Berlim'"


def test_a_notation_changes_the_digest_and_comes_back_from_the_record():
    plain = contract_of(numbers_column("decimal", {}))
    for a_column in (
        numbers_column("decimal", {"decimal": ",", "grouping": "."}),
        days_column("%d.%m.%Y"),
        days_column(None, time_zone="Asia/Tokyo"),
    ):
        contract = contract_of(a_column)
        again = Contract.model_validate(contract.model_dump(mode="json"))
        assert again == contract
        assert again.digest == contract.digest != plain.digest


def test_a_notation_stands_in_the_domain_block_of_a_file(tmp_path: Path):
    path, kind = tmp_path / "c.odcs.yaml", "kind: integer\n"
    path.write_text(CONTRACT.replace(kind, f"{kind}              grouping: ' '\n"), encoding="utf-8")
    assert load_contract(path).column("age").domain.grouping == " "
    [finding] = contract_findings(tmp_path, CONTRACT.replace(kind, f"{kind}              groupings: ' '\n"))
    assert "grouping" in finding.remedy


def test_another_notation_is_breaking_for_the_account():
    for old, new, field in (
        (numbers_column("decimal", {}), numbers_column("decimal", {"decimal": ","}), "columns.x.decimal"),
        (
            numbers_column("decimal", {"decimal": ","}),
            numbers_column("decimal", {"decimal": ",", "grouping": "."}),
            "columns.x.grouping",
        ),
        (days_column("%d/%m/%Y"), days_column("%m/%d/%Y"), "columns.x.format"),
        (days_column(None), days_column(None, time_zone="Asia/Tokyo"), "columns.x.time_zone"),
    ):
        [change] = compare(contract_of(old), contract_of(new)).changes
        assert (change.field, change.effect) == (field, "account")
