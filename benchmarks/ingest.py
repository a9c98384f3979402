"""Ingest beside DuckDB's own reading: a snapshot of rows x 15 columns, and CREATE TABLE AS of the file.

    python -m benchmarks.ingest [--csv ROWS] [--parquet ROWS] [--folder FOLDER] [--turns N]

Both are processes of their own with the same threads and memory, in turns. Compared is processor time, which other
work on the machine does not stretch as it does the wall clock's. The rows are made up (`ten_million_rows_data`,
`_platform_data`); a folder that has them already is used as it is. DuckDB reads the CSV in two ways, with types that
it detects and all as text; ingest is compared with the cheaper one.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final

import duckdb

from benchmarks._platform_data import write_contract
from benchmarks._platform_data import write_rows as write_parquet
from benchmarks.results import Row, Setting, machine, write
from benchmarks.ten_million_rows import EXAMPLE
from benchmarks.ten_million_rows_data import write_rows as write_csv
from contracts.contract.odcs import load_contract
from contracts.release.source import Source
from tasks.ingest import ingest

ROWS: Final = {"csv": 10_000_000, "parquet": 100_000_000}
TURNS: Final = 3
MEMORY: Final = "1GB"
TARGETS: Final = {"csv": 1.5, "parquet": 2.0}
KEY: Final = bytes(range(32))
"""Of made-up rows."""


def main() -> None:
    """Make the rows, read them both ways, and write results/ingest.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for form, most in ROWS.items():
        parser.add_argument(f"--{form}", type=int, default=most, metavar="ROWS")
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--one", nargs=2, default=None, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(_WAYS[given.one[1]](given.folder, given.one[0])))
        return
    with TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        sizes = {form: int(getattr(given, form)) for form in ROWS}
        _make(folder, sizes)
        before = machine("duckdb")
        taken = {form: _in_turns(folder, form, given.turns) for form in sizes}
    settings = before | {"columns": 15, "memory_limit": MEMORY, "turns": given.turns}
    settings |= {"load_average_after": machine()["load_average"]}
    found = (_rows(form, seconds, settings | {"rows": sizes[form]}) for form, seconds in taken.items())
    write("ingest", [row for rows in found for row in rows])


def _make(folder: Path, sizes: dict[str, int]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_contract(folder / "parquet.odcs.yaml")
    (folder / "csv.odcs.yaml").write_text((EXAMPLE / "adult.odcs.yaml").read_text())
    if not (folder / "people.csv").exists():
        write_csv(load_contract(folder / "csv.odcs.yaml"), folder / "people.csv", rows=sizes["csv"], seed=1)
    if not (folder / "people").is_dir():
        write_parquet(folder / "people", rows=sizes["parquet"])


def _in_turns(folder: Path, form: str, turns: int) -> dict[str, list[float]]:
    """Return processor seconds by the way, a number a turn."""
    found: dict[str, list[float]] = {}
    for _ in range(turns):
        for way in _WAYS:
            if way == "as text" and form != "csv":
                continue
            words = [sys.executable, "-m", "benchmarks.ingest", "--folder", str(folder), "--one", form, way]
            done = subprocess.run(words, capture_output=True, text=True, check=True)
            found.setdefault(way, []).append(json.loads(done.stdout)["processor"])
    return found


def _measured(action: Callable[[], object]) -> dict[str, float]:
    begun, before = perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    action()
    after = resource.getrusage(resource.RUSAGE_SELF)
    worked = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"processor": worked, "wall": perf_counter() - begun}


def _by_ingest(folder: Path, form: str) -> dict[str, float]:
    """From the source to the finished snapshot, with its hash."""
    contract = load_contract(folder / f"{form}.odcs.yaml")
    source = Source(path=folder / "people.csv") if form == "csv" else Source(path=folder / "people", files="parquet")
    with TemporaryDirectory(dir=folder) as place:
        return _measured(lambda: ingest(source, contract, folder=Path(place), key=KEY, memory_limit=MEMORY))


def _by_duckdb(folder: Path, form: str, options: str = "") -> dict[str, float]:
    """CREATE TABLE AS, and its way to the disk."""
    files = (
        f"read_csv('{folder}/people.csv'{options})" if form == "csv" else f"read_parquet('{folder}/people/*.parquet')"
    )
    config = {"memory_limit": MEMORY, "storage_compatibility_version": "latest"}
    with TemporaryDirectory(dir=folder) as place, duckdb.connect(f"{place}/t.duckdb", config=config) as connection:
        return _measured(lambda: connection.execute(f"CREATE TABLE t AS FROM {files}; CHECKPOINT"))


def _as_text(folder: Path, form: str) -> dict[str, float]:
    return _by_duckdb(folder, form, ", all_varchar = true")


_WAYS: Final[dict[str, Callable[[Path, str], dict[str, float]]]] = {
    "ingest": _by_ingest,
    "CREATE TABLE AS": _by_duckdb,
    "as text": _as_text,
}


def _rows(form: str, seconds: dict[str, list[float]], settings: dict[str, Setting]) -> list[Row]:
    name = {"csv": "CSV", "parquet": "Parquet"}[form]
    typical = {way: median(each) for way, each in seconds.items()}
    rows = [
        Row(f"{name}, {way}: processor time", round(took, 1), "s", settings=settings) for way, took in typical.items()
    ]
    ratio = typical["ingest"] / min(took for way, took in typical.items() if way != "ingest")
    what = f"{name}: ingest over DuckDB's own reading, in processor time"
    held = ratio <= TARGETS[form]
    return [*rows, Row(what, round(ratio, 2), "x", TARGETS[form], held, settings=settings)]  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
