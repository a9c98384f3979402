"""Two versions of a release beside each other: what is promised, what was declared, and what the tables say."""

from __future__ import annotations

import io
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from console.published_folders import Folder, Folders
from contracts.release.statistics import NEAR_ZERO
from tasks.records.public_text import SILENT
from tasks.records.sentences import PRESENCE
from tasks.records.values import Values

if TYPE_CHECKING:
    import pyarrow as pa

_GUARANTEE: Final = (
    "epsilon",
    "delta",
    "odds",
    "unit_sure",
    "attribute",
    "attribute_sure",
    "variant",
    "unit",
    "neighbours",
    "population",
    "time",
)
_MOST_FIELDS: Final = 100
_MOST_FILES: Final = 12
_MOST_ROWS: Final = 20
_MOST_CELLS: Final = 2_000_000
_LARGEST: Final = 128 << 20
_LONGEST: Final = 300
_MOST_TEXT: Final = 2_000
_EVEN: Final = "50 %"
_FACTS: Final = (
    ("epsilon", "guarantee.epsilon"),
    ("delta", "guarantee.delta"),
    ("odds", "guarantee.odds_factor"),
    ("variant", "guarantee.variant"),
    ("unit", "unit.unit"),
    ("neighbours", "unit.neighbours"),
    ("population", "source.population"),
    ("time", "source.time_block"),
    ("account", "ledger.account"),
    ("charged", "ledger.charged"),
    ("cap", "ledger.cap"),
    ("mechanism", "noise.mechanism"),
    ("measured", "identity.measured_hour"),
    ("contract", "contract.contract_id"),
    ("contract_version", "contract.contract_version"),
)
_VALUES: Final = ("count", "noisy", "variance", "lower", "upper", "structural_zero", "suppressed")


def compare_versions(folders: Folders, one: Folder, other: Folder) -> dict[str, Any]:
    """Compare two versions whose folders are as they were published: guarantee, contract, tables, as plain data."""
    records = [folders.record(folder) for folder in (one, other)]
    facts = [facts_of(folders.values(folder)) for folder in (one, other)]
    contracts = [((record or {}).get("replay") or {}).get("contract") for record in records]
    told = {name for record in records for name in _summarized(record)}
    names = [name for name in _common_tables(one, other) if name not in told]
    tables = [made for name in names[:_MOST_FILES] for made in _differences(one, other, name)]
    return {
        "guarantee": [
            {"name": name, "first": facts[0].get(name, ""), "second": facts[1].get(name, "")} for name in _GUARANTEE
        ],
        "contract": None if None in contracts else changes(contracts[0], contracts[1])[:_MOST_FIELDS],
        "meaning": meaning(contracts[0], contracts[1]),
        "tables": tables,
        "more_tables": max(0, len(names) - _MOST_FILES),
    }


def meaning(first: Any, second: Any) -> list[dict[str, str]] | None:
    """Return what the second contract declares otherwise than the first, and for whom that breaks something.

    Args:
        first, second: contracts as records hold them; whoever wrote the folder wrote them.
    Returns:
        the gravest first; None where one of them is no contract.
    """
    from pydantic import ValidationError

    from contracts.comparison.changes import compare
    from contracts.contract.contract import Contract

    try:
        old, new = Contract.model_validate(first), Contract.model_validate(second)
    except ValidationError:
        return None
    return [
        {"effect": change.effect, "field": change.field, "first": change.old, "second": change.new, "why": change.why}
        for change in compare(old, new).changes[:_MOST_FIELDS]
    ]


def changes(first: Any, second: Any, field: str = "") -> list[dict[str, str | None]]:
    """Return where two JSON values differ, as texts; items of lists that have a name are held against their like.

    Args:
        first, second: the values.
        field: where they stand.
    """
    if isinstance(first, dict) and isinstance(second, dict):
        pairs = [(key, first.get(key), second.get(key)) for key in sorted({*first, *second}, key=str)]
    elif _named(first) and _named(second):
        ours, theirs = ({str(each["name"]): each for each in value} for value in (first, second))
        pairs = [(key, ours.get(key), theirs.get(key)) for key in {**ours, **theirs}]
    elif first == second:
        return []
    else:
        return [{"field": field, "first": _brief(first), "second": _brief(second)}]
    return [line for key, a, b in pairs for line in changes(a, b, f"{field}.{key}" if field else str(key))]


def _named(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) and "name" in each for each in value)


def _brief(value: Any) -> str | None:
    import json

    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " …"


def _common_tables(one: Folder, other: Folder) -> list[str]:
    """Return the tables that both versions have: refined ones, or what was measured where there are none in both."""
    common = [name for name in one.files if name.endswith(".parquet") and name in other.files]
    refined = [name for name in common if name.startswith("data/") and name.count("/") == 1]
    measured = [name for name in common if name.startswith("measurements/")]
    return [*refined, *(name for name in measured if f"data/{name.removeprefix('measurements/')}" not in refined)]


def _summarized(record: Any) -> set[str]:
    """Return the files of noisy numbers of which a record's tables of statistics tell all."""
    replay = (record or {}).get("replay") or {}
    tables, draws = (
        [each for each in replay.get(name) or () if isinstance(each, dict)] for name in ("tables", "draws")
    )
    keys = [key for table in tables for key in table.get("draws") or ()]
    return {str(draw.get("measurements")) for draw in draws if draw.get("key") in keys}


def _differences(one: Folder, other: Folder, name: str) -> list[dict[str, Any]]:
    """Compare each number of a table with its interval in both versions; none where cells or columns differ."""
    first, second = _read(one, name), _read(other, name)
    if first is None or second is None or first.num_rows != second.num_rows:
        return []
    ours, theirs = _intervals(first.column_names), _intervals(second.column_names)
    labels = [each for each in first.column_names if each not in {*_VALUES, NEAR_ZERO, *chain(*ours)}]
    if not set(labels) <= set(second.column_names):
        return []
    cells = [table.select(labels) if labels else None for table in (first, second)]
    if cells[0] != cells[1]:
        return []
    return [_difference(first, second, name, labels, columns) for columns in ours if columns in theirs]


def _intervals(names: list[str]) -> list[tuple[str, str, str]]:
    """Return which columns are a number with the ends of its interval: of statistics several, else one."""
    found = [(name, f"{name}_low", f"{name}_high") for name in names]
    found = [columns for columns in found if set(columns) <= set(names)]
    counts = [(name, "lower", "upper") for name in names if name in ("count", "noisy")]
    return found or [columns for columns in counts[:1] if set(columns) <= set(names)]


def _difference(
    first: pa.Table, second: pa.Table, name: str, labels: list[str], columns: tuple[str, str, str]
) -> dict[str, Any]:
    """Compare a number of two tables with the same cells."""
    import numpy as np

    (a, low_a, high_a), (b, low_b, high_b) = (
        [_numbers(table, column) for column in columns] for table in (first, second)
    )
    cells = first.select(labels) if labels else None
    change, low, high = b - a, low_b - high_a, high_b - low_a
    moved = (low > 0) | (high < 0)
    order = np.argsort(-np.abs(np.nan_to_num(change)), kind="stable")[:_MOST_ROWS]
    taken = None if cells is None else cells.take(order.tolist())
    names = [[] for _ in order] if taken is None else [[str(v) for v in row.values()] for row in taken.to_pylist()]
    rows = [
        {"labels": names[place], "first": _json_number(a[cell]), "second": _json_number(b[cell])}
        | {"difference": _json_number(change[cell]), "low": _json_number(low[cell]), "high": _json_number(high[cell])}
        | {"moved": bool(moved[cell])}
        for place, cell in enumerate(order)
    ]
    told = {"file": name, "statistic": "" if columns[1] == "lower" else columns[0]}
    return {**told, "cells": first.num_rows, "moved": int(moved.sum()), "columns": labels, "rows": rows}


def _read(folder: Folder, name: str) -> pa.Table | None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if folder.files[name].bytes > _LARGEST:
        return None
    try:
        file = pq.ParquetFile(io.BytesIO(folder.read(name)))
        if file.metadata.num_rows > _MOST_CELLS:
            return None
        table = file.read().replace_schema_metadata(None)
    except (OSError, pa.ArrowException):
        return None
    return table.unify_dictionaries().combine_chunks()


def _numbers(table: pa.Table, column: str) -> Any:
    import numpy as np

    return np.asarray(table.column(column).cast("float64").to_numpy(zero_copy_only=False), dtype=np.float64)


def _json_number(value: Any) -> float | int | None:
    """Return a number as JSON has it; a suppressed one is none."""
    number = float(value)
    if number != number:
        return None
    return int(number) if number.is_integer() else round(number, 6)


def facts_of(values: Values) -> dict[str, str]:
    """Return what is to be seen of a record first, as texts."""
    found = {name: value_of(values, field) for name, field in _FACTS}
    facts = {name: short_text(value) or "" for name, value in found.items() if isinstance(value, str | int | float)}
    return facts | _learned(values)


def _learned(values: Values) -> dict[str, str]:
    """Return how sure one who was half sure can become: of one unit, and of one column of somebody in the table."""
    unit, largest = (value_of(values, f"guarantee.{name}") for name in ("largest_posterior", "largest_attribute"))
    try:
        found = {"unit_sure": unit["at_most"][_EVEN], "attribute_sure": largest["at_most"][_EVEN]}
        found["attribute"] = largest["column"]
        found["presence"] = "yes" if unit["hypothesis"] == PRESENCE else ""
    except (KeyError, TypeError):
        return {}
    return {name: short_text(value) or "" for name, value in found.items() if isinstance(value, str)}


def value_of(values: Values, name: str) -> Any:
    """Return what a field of a record tells everybody; None where it was not available."""
    value = values.get(name)
    return None if isinstance(value, str) and value in SILENT else value


def short_text(value: Any) -> str | None:
    """Return a value as a text of a length that fits on a page; None for none."""
    return None if value is None else str(value)[:_MOST_TEXT]
