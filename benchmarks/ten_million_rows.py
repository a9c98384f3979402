"""A 10-million-row CSV, from the file to the published version: `sudare run` as a whole process, with its split.

The rows are made up from the Adult contract (`ten_million_rows_data`); three tables are released, as in the example.
Time and peak memory are those of the process `sudare run` alone (the Prefect server it starts is listed beside it).
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final

from benchmarks.results import Row, Setting, machine, write
from benchmarks.ten_million_rows_data import write_rows
from contracts.contract.odcs import load_contract

ROWS: Final = 10_000_000
SECONDS_TARGET: Final = 60.0
GIGABYTES_TARGET: Final = 2.0
EXAMPLE: Final = Path(__file__).parents[1] / "examples" / "adult"
SUDARE: Final = (sys.executable, "-c", "from console.main import main; main()")
MEASURED: Final = (
    "import resource, subprocess, sys; done = subprocess.run(sys.argv[1:]); "
    "print('peak', resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr); "
    "sys.exit(done.returncode)"
)
STEP: Final = re.compile(r"✓ (?P<name>.+?) +(?P<seconds>[0-9.]+) s$", re.MULTILINE)


def main() -> None:
    """Make the rows, release them, and write results/ten_million_rows.json."""
    with TemporaryDirectory() as place:
        folder = Path(place)
        spec = prepared(folder)
        begun = perf_counter()
        command = [
            sys.executable,
            "-c",
            MEASURED,
            *SUDARE,
            "run",
            str(spec),
            "--workspace",
            str(folder / "workspace"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds = perf_counter() - begun
        if done.returncode != 0:
            raise SystemExit(f"the release failed:\n{done.stderr}")
    peak = int(done.stderr.rsplit("peak ", 1)[1]) * 1024 / 1e9
    write("ten_million_rows", _rows(seconds, peak, STEP.findall(done.stderr)))


def prepared(folder: Path) -> Path:
    """Make the CSV, a workspace, an account that pays, and the spec."""
    for name in ("adult.odcs.yaml", "tables.yaml"):
        shutil.copy(EXAMPLE / name, folder)
    source = folder / "people.csv"
    write_rows(load_contract(folder / "adult.odcs.yaml"), source, rows=ROWS, seed=1)
    spec = folder / "tables.yaml"
    spec.write_text(spec.read_text().replace("adult.parquet", source.name))
    account = ["--population", "made up", "--block", "1994", "--unit", "row", "--adjacency", "add_remove"]
    cap = ["--calculus", "pure", "--epsilon", "3", "--delta", "0", "--source", str(source)]
    where = ["--workspace", str(folder / "workspace")]
    subprocess.run([*SUDARE, "init", str(folder / "workspace")], check=True, capture_output=True)
    subprocess.run([*SUDARE, "budget", "open", "adult-1994", *account, *cap, *where], check=True, capture_output=True)
    return spec


def _rows(seconds: float, peak: float, steps: list[tuple[str, str]]) -> list[Row]:
    settings: dict[str, Setting] = machine("duckdb", "great-expectations", "prefect")
    settings |= {"rows": ROWS, "columns": 15, "format": "CSV", "tables": 3, "memory_limit": "1GB", "runs": 1}
    whole = "10 million rows: ingest, validate, three tables, publish, record"
    rows = [
        Row(whole, round(seconds, 1), "s", SECONDS_TARGET, seconds < SECONDS_TARGET, settings=settings),
        Row(
            "the same: peak memory",
            round(peak, 2),
            "GB",
            GIGABYTES_TARGET,
            peak < GIGABYTES_TARGET,
            settings=settings,
        ),
    ]
    return rows + [Row(f"of which: {name}", float(took), "s", settings=settings) for name, took in steps]


if __name__ == "__main__":
    main()
