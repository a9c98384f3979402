"""Made-up rows for benchmarks/platform.py: fifteen columns in Parquet, skewed like names of places and goods.

A column of n values takes value number floor((n + 1)^u) - 1 for a uniform u: Zipf's law, since the k-th value then
has probability log((k + 1) / k) / log(n + 1). Draws are hashes of (row, column), so the same rows come on every
machine.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import duckdb
import yaml

ROWS_A_FILE: Final = 10_000_000
MISSING_IN_2048: Final = 20
CATEGORIES: Final = {
    "region": 16,
    "district": 120,
    "sex": 2,
    "education": 12,
    "work": 9,
    "industry": 40,
    "household": 7,
    "tenure": 4,
    "nationality": 60,
    "insurance": 5,
}
NUMBERS: Final = {"age": (0, 99, 5), "hours": (0, 79, 8), "children": (0, 9, 1)}
INCOME: Final = (0, 200_000, 10_000)
FIRST_DAY, LAST_DAY = "2015-01-01", "2024-12-31"
TABLES: Final = (
    ("region", "age"),
    ("region", "industry"),
    ("sex", "income"),
    ("education", "income"),
    ("work", "hours"),
    ("household", "children"),
    ("age", "tenure"),
    ("nationality", "region"),
    ("insurance", "since"),
    ("education", "industry"),
)


def names(column: str) -> list[str]:
    """Return the categories of a column."""
    return [f"{column} {place:03}" for place in range(CATEGORIES[column])]


def write_contract(path: Path, *, unit: str = "{kind: row, scope: block}") -> None:
    """Write the contract of the rows."""
    null: dict[str, Any] = {"nulls": {"policy": "category"}, "provenance": {"kind": "declared"}}
    domains: list[tuple[str, str, dict[str, Any]]] = [
        (column, "string", {"kind": "categories", "values": names(column)}) for column in CATEGORIES
    ]
    domains += [
        (column, "integer", {"kind": "integer", "bounds": [low, high], "bins": {"width": width}})
        for column, (low, high, width) in NUMBERS.items()
    ]
    low, high, width = INCOME
    domains.append(("income", "number", {"kind": "decimal", "bounds": [low, high], "bins": {"width": width}}))
    domains.append(("since", "date", {"kind": "date", "bounds": [FIRST_DAY, LAST_DAY], "granularity": "quarter"}))
    privacy = {"unit": yaml.safe_load(unit), "adjacency": "add_remove"}
    privacy |= {"invariants": [], "structural_zeros": [], "gates": []}
    properties = [
        {"name": name, "logicalType": kind, "customProperties": [{"property": "domain", "value": domain | null}]}
        for name, kind, domain in domains
    ]
    contract = {
        "apiVersion": "v3.1.0",
        "kind": "DataContract",
        "id": "platform",
        "name": "Made-up people",
        "version": "1.0.0",
        "status": "active",
        "description": {"purpose": "benchmarks", "limitations": "no real person", "usage": "benchmarks"},
        "schema": [
            {
                "name": "people",
                "logicalType": "object",
                "physicalType": "table",
                "customProperties": [{"property": "privacy", "value": privacy}],
                "properties": properties,
            }
        ],
    }
    path.write_text(yaml.safe_dump(contract, sort_keys=False))


def write_rows(folder: Path, *, rows: int, memory_limit: str = "2GB") -> None:
    """Write the rows as Parquet files of ten million rows each."""
    folder.mkdir(parents=True, exist_ok=True)
    values = ", ".join(_values())
    with duckdb.connect(config={"memory_limit": memory_limit, "threads": 2}) as connection:
        for start in range(0, rows, ROWS_A_FILE):
            part = folder / f"part-{start // ROWS_A_FILE:03}.parquet"
            made = f"SELECT {values} FROM range({start}, {min(start + ROWS_A_FILE, rows)}) t(i)"
            connection.execute(f"COPY ({made}) TO '{part}' (FORMAT parquet, COMPRESSION zstd)")


def _values() -> list[str]:
    """SQL for the columns in the contract's order; about one value in a hundred is missing."""
    texts = {
        column: f"([{', '.join(map(repr, names(column)))}])[1 + {_rank(column, size)}]"
        for column, size in CATEGORIES.items()
    }
    wholes = {
        column: f"({low} + {_rank(column, high - low + 1)})::INTEGER" for column, (low, high, _) in NUMBERS.items()
    }
    income = {"income": f"round({INCOME[1]} * {_uniform('income')} * {_uniform('income')}, 2)"}
    since = {"since": f"(DATE '{FIRST_DAY}' + floor({_uniform('since')} * 3653)::INTEGER)"}
    drawn = texts | wholes | income | since
    return [
        f"CASE WHEN (hash(i, '{column}') & 2047) >= {MISSING_IN_2048} THEN {value} END AS {column}"
        for column, value in drawn.items()
    ]


def _uniform(column: str) -> str:
    return f"((hash(i, '{column}') >> 11)::DOUBLE / 9007199254740992)"


def _rank(column: str, size: int) -> str:
    """A number from 0 to size - 1 by Zipf's law."""
    return f"least({size - 1}, floor(pow({size + 1}, {_uniform(column)}))::INTEGER - 1)"
