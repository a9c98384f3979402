"""10 million rows, three group-bys with six statistics each: `sudare run` and `sudare verify` as whole processes.

The rows are those of `ten_million_rows`. Time and peak memory are those of the process alone (the Prefect server that
`run` starts is listed beside it).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final

from benchmarks.results import Row, Setting, machine, write
from benchmarks.ten_million_rows import GIGABYTES_TARGET, MEASURED, ROWS, SECONDS_TARGET, STEP, SUDARE, prepared

VERIFY_TARGET: Final = 5.0
GROUPS: Final = (("sex", "race"), ("education",), ("occupation", "sex"))
SIX: Final = """
        - count
        - {mean: age}
        - {mean: hours-per-week}
        - {sum: capital-gain, clip: [0, 20000]}
        - {mean: capital-gain}
        - {ratio: {sum: capital-gain}, over: {sum: hours-per-week}}"""
SPEC: Final = """
release: made-up-statistics
contract: adult.odcs.yaml
source: {path: people.csv}
charge: {account: adult-1994, epsilon: 1, delta: 0}
publish: {to: releases/}
product:
  kind: statistics
  tables:
"""


def main() -> None:
    """Make the rows, release them, verify the version, and write results/statistics_at_scale.json."""
    with TemporaryDirectory() as place:
        folder = Path(place)
        prepared(folder)
        spec = folder / "statistics.yaml"
        spec.write_text(SPEC + "".join(f"    - by: [{', '.join(by)}]\n      of:{SIX}\n" for by in GROUPS))
        workspace = folder / "workspace"
        seconds, peak, told = measured("run", str(spec), "--workspace", str(workspace))
        version = str(workspace / "releases" / "made-up-statistics" / "latest")
        checked, _, _ = measured("verify", version, "--key", str(workspace / ".sudare" / "keys" / "signing.pub"))
    settings: dict[str, Setting] = machine("duckdb", "great-expectations", "prefect")
    settings |= {"rows": ROWS, "format": "CSV", "tables": 3, "statistics": 18, "memory_limit": "1GB", "runs": 1}
    whole = "10 million rows, three group-bys with six statistics each: the whole run"
    rows = [
        Row(whole, round(seconds, 1), "s", SECONDS_TARGET, seconds <= SECONDS_TARGET, settings=settings),
        Row(
            "the same: peak memory",
            round(peak, 2),
            "GB",
            GIGABYTES_TARGET,
            peak <= GIGABYTES_TARGET,
            settings=settings,
        ),
        Row("verify of it", round(checked, 2), "s", VERIFY_TARGET, checked <= VERIFY_TARGET, settings=settings),
    ]
    steps = STEP.findall(told)
    rows += [Row(f"of which: {name}", float(each), "s", settings=settings) for name, each in steps]
    write("statistics_at_scale", rows)


def measured(*arguments: str) -> tuple[float, float, str]:
    """Run a command as a process of its own; return its seconds, its peak memory [GB], and what it told.

    Raises:
        SystemExit: it failed.
    """
    begun = perf_counter()
    command = [sys.executable, "-c", MEASURED, *SUDARE, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = perf_counter() - begun
    if done.returncode != 0:
        raise SystemExit(f"{arguments[0]} failed:\n{done.stdout}\n{done.stderr}")
    return seconds, int(done.stderr.rsplit("peak ", 1)[1]) * 1024 / 1e9, done.stderr


if __name__ == "__main__":
    main()
