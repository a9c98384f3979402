"""Columns and awkward rows for tests of the portable encoding: typed as Parquet holds them."""

import datetime
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from contracts.contract.column import Column
from contracts.contract.contract import Contract
from contracts.domains.addends import number_lattice
from contracts.domains.categories import CategoryDomain, MappingDomain
from contracts.domains.lattice import ValueLattice, lattice_problems
from contracts.domains.notation import moment_of
from contracts.domains.ordered import DateDomain
from contracts.domains.statements import ValueKind
from tests.contracts.domains.test_notation import MISREAD
from tests.contracts.samples import column as column_of
from tests.contracts.samples import contract_of
from tests.contracts.sql.test_encoding import COLUMNS as ENCODED

WEEK = datetime.timedelta(days=7)
HOSTILE = ["it's", 'say "no"', "a\\b", "\\n", "${x}", "ü/日本", "%s {0}", "-- no"]
"""Texts that somebody could take for a number or a day."""
COLUMNS = {name: column for name, column in ENCODED.items() if name != "very wide"}
COLUMNS["hostile"] = Column.model_validate(
    {
        "name": "x",
        "logical_type": "string",
        "domain": {
            "kind": "categories",
            "values": HOSTILE,
            "nulls": {"policy": "category"},
            "provenance": {"kind": "declared"},
        },
    }
)
COLUMNS["missing numbers"] = Column.model_validate(
    {
        "name": "x",
        "logical_type": "number",
        "domain": {
            "kind": "decimal",
            "bounds": ["0.1", "0.7"],
            "bins": {"width": "0.1"},
            "missing": ["inf", "nan", "-1e3", "?"],
            "nulls": {"policy": "map", "to": "0.3"},
            "provenance": {"kind": "declared"},
        },
    }
)
NOTATED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "decimal comma": ("decimal", "number", {"decimal": ",", "bounds": ["0.5", "2.5"], "bins": {"width": 1}}),
    "grouped": ("integer", "integer", {"decimal": ",", "grouping": ".", "bounds": [0, 2000], "bins": {"width": 400}}),
    "spaced": ("decimal", "number", {"decimal": ".", "grouping": " ", "bounds": [0, 2000], "bins": {"width": 400}}),
    "german days": ("date", "date", {"format": "%d.%m.%Y"}),
    "compact days": ("date", "date", {"format": "%Y%m%d", "missing": ["99999999", "0"]}),
}
for _name, (_kind, _type, _keys) in NOTATED.items():
    _days = {"bounds": ["2020-01-01", "2024-12-31"], "granularity": "month"} if _kind == "date" else {}
    COLUMNS[_name] = column_of(_kind, _type, **{"missing": ["-9", "x"], **_days, **_keys})
CASES = [(name, kind) for name, column in COLUMNS.items() for kind in column.domain.value_kinds]
ARROW = {
    "text": pa.string(),
    "whole": pa.int64(),
    "real": pa.float64(),
    "fixed": pa.decimal128(15, 3),
    "flag": pa.bool_(),
    "day": pa.date32(),
    "moment": pa.timestamp("us"),
    "nothing": pa.null(),
}


def values_of(column: Column, kind: ValueKind) -> list[Any]:
    """Values at, around and far from everything that a domain names; the first ones are null."""
    domain = column.domain
    if kind == "nothing":
        return [None, None]
    if kind == "moment":
        days = [day for day in values_of(column, "day") if day is None or day.year < 9999]
        clocks = (datetime.time(), datetime.time(0, 0, 0, 1), datetime.time(23, 59, 59, 999999))
        return [None, *(datetime.datetime.combine(day, clock) for day in days if day for clock in clocks)]
    notation = getattr(domain, "notation", None)
    if notation is not None and kind == "text":
        days = [day.strftime(domain.format) for pair in domain.bins for day in pair] if domain.kind == "date" else []
        numbers = ["0,5", "1,5", "2.5", "1.000", "1 000", "1\xa0000.5", "1.234,5", "-1", "+2", "1000", "2e3", "TRUE"]
        return [
            None,
            *MISREAD,
            *numbers,
            *days[:60],
            *(f" {each} " for each in [*numbers, *days[:3]]),
            *domain.missing,
        ]
    if notation is not None and domain.kind == "date" and kind != "day":
        whole = [None, 0, 1, 20201231, 20240229, 20230229, 99999999, 10000101, 10000100, -20201231, 2**31]
        if kind == "flag":
            return [None, True, False]
        if kind == "fixed":
            return [*(each if each is None else Decimal(each) for each in whole), Decimal("20201231.5")]
        beside = [math.nextafter(float(day), end) for day in (10000101, 20201231, 99991231) for end in (0, math.inf)]
        odd = [math.nan, math.inf, -math.inf, 1e300, -0.0, 1e-300, 20201231.5]
        return [*map(_float, whole), *odd, *beside] if kind == "real" else whole
    if isinstance(domain, CategoryDomain | MappingDomain):
        known = [*domain.categories, *domain.missing, *(dict(getattr(domain, "mapping", ())))]
        if kind == "text":
            spelled = [
                f"{a}{word}{b}"
                for word in known
                for a in ("", " ", "\u2003\xa0", "0", "+", "-")
                for b in ("", " ", "\n", "\t", ".", ".0", ".00 ", ".0\n", ".5", "d", "e0", "_0")
            ]
            return [None, "", " ", "?", "no such", *spelled, *(word.upper() for word in known), "TRUE ", " fAlse"]
        if kind == "flag":
            return [None, True, False]
        if kind == "day":
            found = [moment.date() for word in known if (moment := moment_of(word))]
            return [None, *found, *(day + datetime.timedelta(days=1) for day in found), datetime.date(1582, 10, 4)]
        whole = [None, 0, 1, 2, 3, 10, 999, -1, 2**53 + 1, 2**62]
        if kind == "fixed":
            return [None, *(Decimal(each) + part for each in (0, 1, 2, 10, -1) for part in (0, Decimal("0.5")))]
        return [*map(_float, whole), math.nan, math.inf, -0.0, 1.5] if kind == "real" else whole
    if isinstance(domain, DateDomain) and kind in ("whole", "real", "fixed", "flag"):
        some = [None, True, False] if kind == "flag" else [None, 0, 1, 20200101]
        return [*map(_float, some), math.nan] if kind == "real" else some
    if isinstance(domain, DateDomain):
        low, high = domain.bounds
        near = [day + step * datetime.timedelta(days=1) for day in (low, high) for step in (-1, 0, 1) if day.year > 1]
        ends = [day for pair in domain.bins[:60] for day in pair]
        far = [
            datetime.date(1, 1, 1),
            datetime.date(1582, 10, 4),
            datetime.date(1900, 2, 28),
            datetime.date(9999, 12, 31),
        ]
        return [None, *near, *ends, *far, low + WEEK]
    if kind == "flag":
        return [None, True, False]
    edges = [float(end) for pair in domain.bins for end in pair]
    if kind == "whole":
        return [
            None,
            999,
            -1,
            2**53 + 1,
            -(2**62),
            2**62,
            *(int(edge) + step for edge in edges for step in (-1, 0, 1)),
        ]
    if kind == "fixed":
        steps = (Decimal(0), Decimal("0.001"), Decimal("-0.001"))
        near = [Decimal(str(edge)) + step for edge in edges for step in steps]
        return [None, Decimal(999), *(each for each in near if abs(each) < 10**11)]
    beside = [math.nextafter(edge, way) for edge in edges for way in (-math.inf, math.inf)]
    odd = [math.nan, math.inf, -math.inf, 1e300, -1e300, 2.0**53 + 2, 0.5, 39.0, 39.5, -0.0, 999.0, -1000.0, -0.7]
    return [None, *odd, *edges, *beside]


def _float(number: int | None) -> float | None:
    return None if number is None else float(number)


def tables(cases: Sequence[tuple[str, ValueKind]] = CASES) -> tuple[Contract, dict[str, ValueKind], pa.Table]:
    """Return one wide contract with a column a case, its kinds, and rows that go through all values of each."""
    return _wide({case: values_of(COLUMNS[case[0]], case[1]) for case in cases})


def _wide(lists: Mapping[tuple[str, ValueKind], list[Any]]) -> tuple[Contract, dict[str, ValueKind], pa.Table]:
    """Return a wide contract with a column a case, and rows that go through all values of each."""
    columns, kinds, arrays = [], {}, []
    rows = max(map(len, lists.values()))
    for place, ((name, kind), values) in enumerate(lists.items()):
        column = COLUMNS[name].model_copy(update={"name": f"{name} {place}"})
        columns.append(column)
        kinds[column.name] = kind
        arrays.append(pa.array((values * (rows // len(values) + 1))[:rows], ARROW[kind]))
    return contract_of(*columns), kinds, pa.table(arrays, names=list(kinds))


def lattices_of(column: Column) -> tuple[ValueLattice, ...]:
    """Return lattices of a column of numbers: that of its bounds, a fine one, and one of awkward steps in a part."""
    low, high = (Decimal(end) for end in column.domain.value_bounds or ())
    counts_missing = column.domain.nulls.policy == "category"
    inside = low + ((high - low) / 3).quantize(Decimal("0.1"))
    lattices = (
        number_lattice(column.name, column.domain),
        ValueLattice(column.name, low, high, (high - low) / 10**6, counts_missing),
        ValueLattice(column.name, inside, inside + Decimal("2.1"), Decimal("0.3"), counts_missing),
    )
    sound = (each for each in lattices if not lattice_problems(each.low, each.high, each.step, 1))
    return tuple(dict.fromkeys(sound))


_ADDED = [name for name, column in COLUMNS.items() if column.domain.value_bounds is not None and lattices_of(column)]
NUMBERS = [(name, kind) for name, kind in CASES if name in _ADDED and kind != "nothing"]
"""Cases whose values can be added up."""


def numbers_table() -> tuple[Contract, dict[str, ValueKind], pa.Table]:
    """Return a wide contract of all columns of numbers, each of one kind, and rows beside steps of their lattices."""
    return _wide(
        {
            case: [*values_of(COLUMNS[case[0]], case[1]), *values_on(lattices_of(COLUMNS[case[0]]), case[1])]
            for case in NUMBERS
        }
    )


def values_on(lattices: Sequence[ValueLattice], kind: ValueKind) -> list[Any]:
    """Return values at halves of steps, and the doubles beside them; what a column of this kind can hold of them."""
    halves = [
        float(each.low + each.step * (2 * place + 1) / 2)
        for each in lattices
        for place in (0, 1, 2, 3, 4, 5, 6, each.width // 2, each.width - 1)
    ]
    beside = [math.nextafter(half, way) for half in halves for way in (-math.inf, math.inf)]
    if kind == "real":
        return [*halves, *beside, -0.0, math.nan, math.inf, -math.inf, 5e-324, 1.7976931348623157e308]
    if kind == "fixed":
        return [Decimal(str(half)).quantize(Decimal("0.001")) for half in halves if abs(half) < 10**11]
    if kind == "text":
        return [repr(half) for half in halves]
    return [int(half) for half in halves if abs(half) < 2**62] if kind == "whole" else [None, True, False]
