"""The same tables counted by DuckDB and, where the table lives, by a PostgreSQL server: equal counts, and seconds.

    python -m benchmarks.warehouse [--rows N ...]

The server is one of this machine, with the settings that it comes with. Rows are made up (`_platform_data`) and
loaded before. Measured are staging (encode, mark, keep and hash, all in the server), the count of ten two-way tables
in one scan, and the same ten GROUP BYs typed by hand over the same stage. A temporary table is read by one process.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final

import duckdb
import psycopg

from benchmarks._platform_data import TABLES, write_contract, write_rows
from benchmarks.engines import KEY, Measured, in_engine, rows_of
from benchmarks.results import Row, Setting, machine, write
from contracts.contract.odcs import load_contract
from contracts.release.source import Source
from deploy.postgres_server import postgres_server
from privacy.snapshots.snapshot import SnapshotCounts
from tasks.ingest import ingest

SECRET: Final = "the-secret-of-a-benchmark"
STAGING_TARGET: Final = 4.0
FEW: Final = 10_000
TYPES: Final = {"VARCHAR": "text", "INTEGER": "integer", "DOUBLE": "double precision", "DATE": "date"}


def main() -> None:
    """Measure and write results/warehouse.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    given = parser.parse_args()
    os.environ["SUDARE_CREDENTIALS_BENCHMARK"] = json.dumps({"user": "keeper", "password": SECRET})
    settings: dict[str, Setting] = machine("duckdb", "ibis-framework", "psycopg")
    settings |= {"columns": 15, "tables": len(TABLES), "runs": 1}
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with postgres_server("keeper", SECRET, folder / "log") as port:
            address = f"postgresql://keeper:{SECRET}@127.0.0.1:{port}/postgres"
            with psycopg.connect(address) as connection:
                settings |= {"postgresql": connection.info.parameter_status("server_version") or ""}
            list(
                _at_size(folder / "first", FEW, port, address)
            )  # what is imported for the first time is not measured
            found = [each for rows in given.rows for each in _at_size(folder / str(rows), rows, port, address)]
    settings |= {"load_average_after": machine()["load_average"]}
    write("warehouse", [*rows_of(found, settings), *_over_duckdb(found, settings)])


def _at_size(folder: Path, rows: int, port: int, address: str) -> Iterator[Measured]:
    """Measure both at one size."""
    write_rows(folder / "people", rows=rows)
    write_contract(folder / "people.odcs.yaml")
    contract = load_contract(folder / "people.odcs.yaml")
    begun = perf_counter()
    source = Source(path=folder / "people", files="parquet")
    here = ingest(source, contract, folder=folder / "duckdb", key=KEY, memory_limit="1GB")
    staging, begun = perf_counter() - begun, perf_counter()
    counts = [each._count() for each in SnapshotCounts(here, contract).marginals(TABLES)]
    measured = Measured("DuckDB", 2, rows, staging, perf_counter() - begun, None, True)
    print(measured, flush=True)
    yield measured
    _load(folder, address)
    place = {"path": f"postgresql://127.0.0.1:{port}/postgres", "table": "people", "credentials": "benchmark"}
    there = Source.model_validate({**place, "engine": "postgresql"})
    yield in_engine("PostgreSQL", 1, rows, None, there, contract, counts, folder / "run")


def _over_duckdb(found: list[Measured], settings: dict[str, Setting]) -> Iterator[Row]:
    """Say how many times as long the server stages, in one process, as DuckDB makes a snapshot on all cores."""
    for here, there in zip(found[::2], found[1::2], strict=True):
        ratio = there.staging / here.staging
        what = f"{there.rows:,} rows, {there.place}: staging over DuckDB's snapshot"
        yield Row(what, round(ratio, 2), "x", STAGING_TARGET, ratio <= STAGING_TARGET, settings=settings)


def _load(folder: Path, address: str) -> None:
    """Copy the files into a table of the server."""
    files, text = f"read_parquet('{folder}/people/*.parquet')", folder / "people.csv"
    with duckdb.connect() as here, psycopg.connect(address, autocommit=True) as there:
        columns = here.execute(f"DESCRIBE FROM {files}").fetchall()
        here.execute(f"COPY (FROM {files}) TO '{text}' (FORMAT csv, HEADER false)")
        listed = ", ".join(f"{name} {TYPES[kind]}" for name, kind, *_ in columns)
        there.execute("DROP TABLE IF EXISTS people")
        there.execute(f"CREATE TABLE people ({listed})".encode())
        with there.cursor() as cursor, cursor.copy(b"COPY people FROM STDIN (FORMAT csv)") as copy:
            with text.open("rb") as file:
                while block := file.read(1 << 20):
                    copy.write(block)
        there.execute("VACUUM people")
    text.unlink()


if __name__ == "__main__":
    main()
