"""Made-up rows for benchmarks: a CSV of any length whose values lie in the declared domain of a contract.

    python -m benchmarks.ten_million_rows_data CONTRACT OUT.csv --rows 10000000 --seed 1

The values are hashes of (row, column, seed), so the same arguments give the same file whatever the threads. Columns
are independent, categories are skewed (the first ones are frequent), numbers and days are uniform within their
bounds, and one value in a hundred is missing. No real data is read.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import duckdb

from contracts.contract.contract import Column, Contract
from contracts.contract.odcs import load_contract
from contracts.domains.categories import CategoryDomain, MappingDomain
from contracts.domains.ordered import DateDomain, DecimalDomain, IntegerDomain

MISSING_IN_2048 = 20
DECIMAL_PLACES = 2


def write_rows(contract: Contract, path: Path, *, rows: int, seed: int, memory_limit: str = "1GB") -> None:
    """Write a CSV with a header and `rows` made-up rows.

    Args:
        contract: says the columns and their domains.
        path: the file to write; replaced if it exists.
        rows: number of rows, at least 1.
        seed: another seed gives other rows.
        memory_limit: DuckDB's limit [text].
    """
    values = _unit_id(contract, rows)
    values += [_value(column, place) for place, column in enumerate(contract.columns)]
    places = {"_unit": -1, **{str(place): place for place in range(len(contract.columns))}}
    draws = ", ".join(f"hash(i, {place}, {seed}) AS draw{name}" for name, place in places.items())
    target = str(path).replace("'", "''")
    drawn = f"SELECT {draws} FROM range({rows}) t(i)"
    with duckdb.connect(config={"memory_limit": memory_limit}) as connection:
        connection.execute(f"COPY (SELECT {', '.join(values)} FROM ({drawn})) TO '{target}' (HEADER)")


def _uniform(draw: str) -> str:
    """A number in [0, 1) from the upper 53 bits of a draw."""
    return f"(({draw} >> 11)::DOUBLE / 9007199254740992)"


def _unit_id(contract: Contract, rows: int) -> list[str]:
    """The id column, where there is one: a unit has `max_rows_per_unit` rows on average, some more and some fewer."""
    if contract.unit.column is None:
        return []
    units = max(1, rows // contract.unit.max_rows_per_unit)
    return [f"'u' || floor({_uniform('draw_unit')} * {units})::BIGINT AS {_name(contract.unit.column)}"]


def _value(column: Column, place: int) -> str:
    """One value of a column, missing now and then (by the lower 11 bits of its draw)."""
    missing = _text(column.domain.missing[0]) if column.domain.missing else "NULL"
    drawn = _drawn(column, _uniform(f"draw{place}"))
    absent = f"(draw{place} & 2047) < {MISSING_IN_2048}"
    return f"CASE WHEN {absent} THEN {missing} ELSE {drawn}::VARCHAR END AS {_name(column.name)}"


def _drawn(column: Column, uniform: str) -> str:
    """A value inside the domain, at a number in [0, 1)."""
    match column.domain:
        case CategoryDomain(values=texts):
            return _chosen(texts, uniform)
        case MappingDomain(mapping=pairs):
            return _chosen([raw for raw, _ in pairs], uniform)
        case IntegerDomain(bounds=(low, high)):
            return f"({low} + floor({uniform} * {high - low + 1})::BIGINT)"
        case DecimalDomain(bounds=(low, high)):
            drawn = f"round({low} + {uniform} * ({high} - {low}), {DECIMAL_PLACES})"
            return f"least(greatest({drawn}, {low}), {high})"
        case DateDomain(bounds=(first, last)):
            return f"(DATE '{first}' + floor({uniform} * {(last - first).days + 1})::INTEGER)"
        case other:
            raise TypeError(f"no such values are drawn here: {other.kind}")


def _chosen(texts: Sequence[str], uniform: str) -> str:
    """One of the texts; the squared draw makes the first ones frequent."""
    return f"([{', '.join(_text(text) for text in texts)}])[1 + floor({uniform} * {uniform} * {len(texts)})::INTEGER]"


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def main() -> None:
    """Read the command line, write the file, say how long it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("contract", type=Path, help="the contract file")
    parser.add_argument("out", type=Path, help="the CSV to write")
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    given = parser.parse_args()
    start = time.perf_counter()
    write_rows(load_contract(given.contract), given.out, rows=given.rows, seed=given.seed)
    size = given.out.stat().st_size / 1e6
    print(f"{given.out}: {given.rows} rows, {size:.0f} MB in {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
