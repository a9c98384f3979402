"""Exact marginals of 10 million rows x 15 columns: what an adaptive generator reads in a run, counted in three ways.

AIM of degree 2 asks for all 105 pairs and 15 single columns once a run and remembers them. Every way runs in a
process of its own on the same made-up codes (uniform, in the domain of the Adult contract), and all must agree.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from subprocess import run
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final

import duckdb
import numpy as np
from numpy.typing import NDArray

from benchmarks.results import Row, Setting, machine, write
from contracts.contract.odcs import load_contract
from privacy.snapshots.shared_scan import Shapes, count_marginals

ROWS: Final = 10_000_000
SECONDS_TARGET: Final = 15.0
GIGABYTES_TARGET: Final = 8.0
THREADS: Final = 2
SETS: Final = 20
CONTRACT: Final = Path(__file__).parents[1] / "examples" / "adult" / "adult.odcs.yaml"
Counted = dict[tuple[str, ...], NDArray[np.int64]]


def one_scan(path: Path, shapes: Shapes) -> Counted:
    """What the program does: fetch the codes once, in batches, and add up histograms."""
    return count_marginals(path, shapes, threads=THREADS)


def group_by_each(path: Path, shapes: Shapes) -> Counted:
    """One GROUP BY a clique."""
    return {clique: _grouped(path, {clique: shapes[clique]})[clique] for clique in shapes}


def grouping_sets(path: Path, shapes: Shapes) -> Counted:
    """GROUPING SETS of twenty cliques at a time; more at once takes longer and more memory."""
    counted: Counted = {}
    for some in _parts(shapes):
        counted |= _grouped(path, some)
    return counted


WAYS: Final[dict[str, Callable[[Path, Shapes], Counted]]] = {
    "one scan, histograms by batch": one_scan,
    "one GROUP BY a clique": group_by_each,
    f"GROUPING SETS, {SETS} cliques at a time": grouping_sets,
}


def main() -> None:
    """Make the codes, count them in each way, and write results/counts.json."""
    if len(sys.argv) == 3:
        print(*_measured(WAYS[sys.argv[1]], Path(sys.argv[2])))
        return
    with TemporaryDirectory() as folder:
        path = Path(folder) / "codes.duckdb"
        _make_codes(path)
        found = {name: _alone(name, path) for name in WAYS}
    if len({digest for _, _, digest in found.values()}) != 1:
        raise SystemExit("the ways do not agree")
    write("counts", [row for name, (seconds, peak, _) in found.items() for row in _rows(name, seconds, peak)])


def _alone(name: str, path: Path) -> tuple[float, float, str]:
    """Count in a process of its own: seconds, peak memory [GB], digest of all counts."""
    command = [sys.executable, "-m", "benchmarks.counts", name, str(path)]
    seconds, peak, digest = run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(seconds), float(peak), digest


def _measured(way: Callable[[Path, Shapes], Counted], path: Path) -> tuple[float, float, str]:
    contract = load_contract(CONTRACT)
    names = [column.name for column in contract.columns]
    cliques = [*((name,) for name in names), *combinations(names, 2)]
    begun = perf_counter()
    counted = way(path, {clique: contract.shape(clique) for clique in cliques})
    seconds = perf_counter() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    digest = sha256(b"".join(counted[clique].tobytes() for clique in cliques)).hexdigest()
    return round(seconds, 2), round(peak, 3), digest


def _make_codes(path: Path) -> None:
    columns = load_contract(CONTRACT).columns
    values = ", ".join(
        f'(hash(i, {place}) % {column.size})::UTINYINT AS "{column.name}"' for place, column in enumerate(columns)
    )
    with duckdb.connect(str(path), config={"threads": THREADS, "memory_limit": "1GB"}) as connection:
        connection.execute(f"CREATE TABLE codes AS SELECT {values} FROM range({ROWS}) t(i)")


def _grouped(path: Path, shapes: Shapes) -> Counted:
    """Count by one statement with a grouping set a clique."""
    names = sorted({name for clique in shapes for name in clique})
    sets = ", ".join("(" + ", ".join(f'"{name}"' for name in clique) + ")" for clique in shapes)
    quoted = ", ".join(f'"{name}"' for name in names)
    query = (
        f"SELECT {quoted}, grouping({quoted}) AS which, count(*) AS rows FROM codes GROUP BY GROUPING SETS ({sets})"
    )
    with duckdb.connect(str(path), read_only=True, config={"threads": THREADS}) as connection:
        found = connection.execute(query).fetchnumpy()
    counted: Counted = {}
    for clique, shape in shapes.items():
        absent = sum(1 << (len(names) - 1 - place) for place, name in enumerate(names) if name not in clique)
        mine = np.asarray(found["which"]) == absent
        counted[clique] = np.zeros(shape, dtype=np.int64)
        counted[clique][tuple(np.asarray(found[name])[mine] for name in clique)] = np.asarray(found["rows"])[mine]
    return counted


def _parts(shapes: Shapes) -> list[Shapes]:
    cliques = list(shapes)
    return [{each: shapes[each] for each in cliques[start : start + SETS]} for start in range(0, len(cliques), SETS)]


def _rows(name: str, seconds: float, peak: float) -> list[Row]:
    settings: dict[str, Setting] = machine("duckdb", "numpy")
    settings |= {"rows": ROWS, "columns": 15, "cliques": 120, "threads": THREADS, "runs": 1}
    what = f"15 columns and 105 pairs of 10 million rows: {name}"
    chosen = WAYS[name] is one_scan
    return [
        Row(
            what,
            seconds,
            "s",
            target=SECONDS_TARGET if chosen else None,
            holds=seconds <= SECONDS_TARGET if chosen else None,
            settings=settings,
        ),
        Row(
            f"{what}: peak memory",
            peak,
            "GB",
            target=GIGABYTES_TARGET if chosen else None,
            holds=peak <= GIGABYTES_TARGET if chosen else None,
            settings=settings,
        ),
    ]


if __name__ == "__main__":
    main()
