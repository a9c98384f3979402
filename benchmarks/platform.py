"""A table of a data platform: 100 million rows x 15 columns in Parquet, ten two-way tables, one `sudare run`.

    python -m benchmarks.platform [--rows N] [--folder FOLDER]

Measured are the whole run in a process of its own, with its split, its processor time (which a loaded machine does
not stretch) and its peak of memory, and then its counting alone, on the snapshot that the run keeps, beside the same
ten GROUP BYs typed by hand into DuckDB over the same codes. The rows are made up (`_platform_data`); a folder that
has them already is used as it is.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final

import duckdb

from benchmarks._platform_data import TABLES, write_contract, write_rows
from benchmarks.results import Row, Setting, machine, write
from benchmarks.ten_million_rows import MEASURED, STEP, SUDARE
from contracts.contract.odcs import load_contract
from privacy.snapshots.shared_scan import count_marginals

ROWS: Final = 100_000_000
THREADS: Final = 2
TURNS: Final = 3
RATIO_TARGET: Final = 1.3
SECONDS_TARGET: Final = 600.0
GIGABYTES_TARGET: Final = 6.0
BYTES_PER_ROW: Final = 60
"""What the rows take on the disk: as Parquet, and twice in the snapshot."""


def main() -> None:
    """Make the rows, release them, count them both ways, and write results/platform.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--folder", type=Path, default=None)
    given = parser.parse_args()
    with TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        _make(folder, given.rows)
        before = machine("duckdb", "great-expectations", "prefect")
        measured = _release(folder)
        [snapshot] = (folder / "workspace" / ".sudare" / "runs").glob("*/snapshot.duckdb")
        counted = _counting(folder, snapshot)
        shutil.rmtree(folder / "workspace")
    settings = before | {"rows": given.rows, "columns": 15, "tables": len(TABLES), "memory_limit": "1GB", "runs": 1}
    settings |= {"load_average_after": machine()["load_average"]}
    write("platform", [*_run_rows(*measured, settings), *_counting_rows(counted, settings)])


def _make(folder: Path, rows: int) -> None:
    """Write contract, rows, workspace and an account that pays."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "people").is_dir():
        if shutil.disk_usage(folder).free < rows * BYTES_PER_ROW:
            raise SystemExit(f"{folder}: {rows * BYTES_PER_ROW >> 30} GiB have to be free; name another --folder")
        write_rows(folder / "people", rows=rows)
    write_contract(folder / "people.odcs.yaml")
    tables = ", ".join(f"[{', '.join(table)}]" for table in TABLES)
    product = f"kind: tables, mechanism: laplace, tables: [{tables}], total: noisy, refine: {{method: simplex}}"
    (folder / "spec.yaml").write_text(
        "release: platform\ncontract: people.odcs.yaml\nsource: {path: people, files: parquet}\n"
        "charge: {account: platform, epsilon: 1, delta: 0}\n"
        f"product: {{{product}}}\n"
        "publish: {to: releases}\n"
    )
    account = ["--population", "made up", "--block", "2024", "--unit", "row", "--adjacency", "add_remove"]
    cap = ["--calculus", "pure", "--epsilon", "3", "--delta", "0", "--source", str(folder / "people")]
    where = ["--workspace", str(folder / "workspace")]
    subprocess.run([*SUDARE, "init", str(folder / "workspace")], check=True, capture_output=True)
    subprocess.run([*SUDARE, "budget", "open", "platform", *account, *cap, *where], check=True, capture_output=True)


def _release(folder: Path) -> tuple[float, float, float, list[tuple[str, str]]]:
    """Run the release in a process of its own: seconds, processor seconds, peak memory [GB], and the split."""
    words = ["run", str(folder / "spec.yaml"), "--workspace", str(folder / "workspace"), "--keep-snapshot"]
    begun, before = perf_counter(), _processor_seconds()
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *SUDARE, *words], capture_output=True, text=True, check=False
    )
    seconds, worked = perf_counter() - begun, _processor_seconds() - before
    if done.returncode != 0:
        raise SystemExit(f"the release failed:\n{done.stderr}")
    return seconds, worked, int(done.stderr.rsplit("peak ", 1)[1]) * 1024 / 1e9, STEP.findall(done.stderr)


def _processor_seconds() -> float:
    """Return the processor time of all processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _counting(folder: Path, snapshot: Path) -> dict[str, float]:
    """Count the ten tables in each way in turns; the median of each [s]."""
    contract = load_contract(folder / "people.odcs.yaml")
    shapes = {table: contract.shape(table) for table in TABLES}
    took: dict[str, list[float]] = {}
    for _ in range(TURNS):
        for way in ("ours", "by hand"):
            begun = perf_counter()
            if way == "ours":
                count_marginals(snapshot, shapes, threads=THREADS)
            else:
                _by_hand(snapshot)
            took.setdefault(way, []).append(perf_counter() - begun)
    return {way: median(seconds) for way, seconds in took.items()}


def _by_hand(snapshot: Path) -> None:
    """Run a GROUP BY a table."""
    with duckdb.connect(str(snapshot), read_only=True, config={"threads": THREADS}) as connection:
        for one, other in TABLES:
            connection.execute(f'SELECT "{one}", "{other}", count(*) FROM codes GROUP BY ALL').fetchall()


def _run_rows(
    seconds: float, worked: float, peak: float, steps: list[tuple[str, str]], settings: dict[str, Setting]
) -> list[Row]:
    whole = f"{settings['rows']} rows x 15 columns in Parquet, ten two-way tables: one run"
    rows = [
        Row(whole, round(seconds, 1), "s", SECONDS_TARGET, seconds <= SECONDS_TARGET, settings=settings),
        Row(f"{whole}: processor time", round(worked, 1), "s", settings=settings),
        Row(
            f"{whole}: peak memory",
            round(peak, 2),
            "GB",
            GIGABYTES_TARGET,
            peak <= GIGABYTES_TARGET,
            settings=settings,
        ),
    ]
    return rows + [Row(f"of which: {name}", float(took), "s", settings=settings) for name, took in steps]


def _counting_rows(counted: dict[str, float], settings: dict[str, Setting]) -> list[Row]:
    ratio = counted["ours"] / counted["by hand"]
    settings = settings | {"turns": TURNS, "threads": THREADS}
    rows = [
        Row(f"ten two-way tables: {way}", round(took, 2), "s", settings=settings) for way, took in counted.items()
    ]
    what = "counting, in multiples of the same GROUP BYs by hand"
    return [*rows, Row(what, round(ratio, 2), "x", RATIO_TARGET, ratio <= RATIO_TARGET, settings=settings)]


if __name__ == "__main__":
    main()
