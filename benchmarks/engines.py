"""The same tables counted by DuckDB, Spark here, a cluster and a Connect server: equal counts, seconds, and a model.

    SUDARE_SPARK_PYTHON=PYTHON python -m benchmarks.engines [--rows N ...] [--here N ...] [--folder FOLDER]

The cluster is a master and workers of one core, authenticated and encrypted, as processes of their own on loopback.
The Connect server stands behind TLS. Rows are made up (`_platform_data`). Measured are staging (read, encode, mark,
keep and hash), the count of ten two-way tables in one scan, and the same ten GROUP BYs typed by hand over the same
stage. The times of the cluster are fitted by t = a + c n + b n / w (`_time_model`).

A few rows hold values that no contract names (`_spark_traces`). These, the keys that choose rows and the secret are
looked for on all of loopback while the cluster counts, which needs the right to open a packet socket, and in files
and web pages of the cluster, of the Connect server and of the run while its session lives. A control must be found.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import SystemRandom
from secrets import token_bytes
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks._loopback import Heard, listening
from benchmarks._platform_data import TABLES, write_contract, write_rows
from benchmarks._spark_cluster import SparkProcesses, connect_server, standalone_cluster, tls_front
from benchmarks._spark_traces import Planted, found_in, in_utf8, pages, send_on_loopback, written
from benchmarks._time_model import Point, fitted
from benchmarks.results import FOLDER, Row, Setting, machine, write
from contracts.contract.contract import Contract
from contracts.contract.odcs import load_contract
from contracts.release.source import Source
from privacy.private_table import PrivateTable
from privacy.snapshots.snapshot import SnapshotCounts
from sudare_engines.spark_settings import SparkSettings
from sudare_engines.stage import ingest_in_engine
from sudare_engines.staging import stage_of
from tasks.ingest import ingest
from tasks.storage.snapshot.snapshot import choice_keys
from tests.tasks.federation.certificates import loopback_certificates

KEY: Final = token_bytes(32)
"""Of this run alone: the keys that follow from it are looked for, and tests beside it send theirs on loopback."""
JAVA: Final = ""
"""Options of every Java: none. It compiles as it does for an operator."""
SECRET: Final = "the-secret-of-a-benchmark"
RATIO_TARGET: Final = 1.3
RUNS: Final = 3
"""How often ours and the bare statements are run, in turn; times are medians."""
FAR: Final = (10_000_000_000, 64)
CONTROL: Final = "heard-where-it-passes"
OPERATORS: Final = ".conf"
"""Files of settings that the operator writes: the secret stands there, and nowhere else."""


@dataclass
class Search:
    """What is looked for, and what was found where.

    Args:
        planted: values of rows that no contract names.
        heard: what passed on loopback.
        places: where in files and web pages a value was found, by its name.
        looked: how many files and pages were read.
    """

    planted: Planted = field(default_factory=lambda: Planted.drawn(SystemRandom()))
    heard: Heard = field(default_factory=Heard)
    places: dict[str, list[str]] = field(default_factory=dict)
    looked: int = 0

    @property
    def forms(self) -> dict[str, bytes]:
        """The bytes that are looked for: values, keys and the secret."""
        return self.planted.forms | in_utf8([*choice_keys(KEY), SECRET])

    def through(self, processes: SparkProcesses, run: Path) -> None:
        """Look through files and pages while the session lives.

        Raises:
            RuntimeError: the secret was not found in the operator's own settings, so the search does not search.
        """
        read = {**written(processes.folder), **pages(processes), **written(run)}
        found = found_in(read, self.forms)
        settings = [each for each in found.get(SECRET, []) if each.endswith(OPERATORS)]
        if not settings:
            raise RuntimeError("the search does not find the secret in the operator's settings")
        found[SECRET] = [each for each in found[SECRET] if each not in settings]
        self.places |= {name: each for name, each in found.items() if each}
        self.looked += len(read)


@dataclass(frozen=True)
class Measured:
    """One place at one size.

    Args:
        place: which engine.
        workers: cores that count.
        rows: how many.
        staging: seconds of ingest or staging.
        counting: seconds of ten tables.
        bare: seconds of the same GROUP BYs by hand; None for DuckDB, whose ratio `benchmarks.platform` measures.
        same: whether all counts are DuckDB's.
    """

    place: str
    workers: int
    rows: int
    staging: float
    counting: float
    bare: float | None
    same: bool


def main() -> None:
    """Measure and write results/engines.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="*", default=[1_000_000, 10_000_000], help="sizes of all places")
    parser.add_argument("--here", type=int, nargs="*", default=[], help="sizes of DuckDB and Spark here alone")
    parser.add_argument("--folder", type=Path, default=None)
    given = parser.parse_args()
    os.environ["SUDARE_CREDENTIALS_BENCHMARK"] = json.dumps({"secret": SECRET})
    os.environ["SUDARE_CREDENTIALS_BENCHMARK_SERVER"] = json.dumps({"token": SECRET})
    with TemporaryDirectory() as temporary:
        folder, search = given.folder or Path(temporary), Search()
        settings = machine("duckdb", "ibis-framework") | {"columns": 15, "tables": len(TABLES), "runs": RUNS}
        found = [each for rows in given.rows for each in _at_size(folder / str(rows), rows, search)]
        found += [each for rows in given.here for each in _at_size(folder / str(rows), rows, None)]
    settings |= {"load_average_after": machine()["load_average"]}
    rows = [*rows_of(found, settings), *(_found(search, settings) if given.rows else ()), *_model(found, settings)]
    write("engines", [*_measured_before(rows), *rows])


def _measured_before(rows: list[Row]) -> list[Row]:
    """Return the stored rows of what was not measured this time."""
    path, now = FOLDER / "engines.json", {row.what for row in rows}
    stored = [Row(**each) for each in json.loads(path.read_text())] if path.exists() else []
    return [row for row in stored if row.what not in now]


def _at_size(folder: Path, rows: int, search: Search | None) -> Iterator[Measured]:
    """Measure all places at one size, or those on this machine alone where nothing is searched."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "people").is_dir():
        write_rows(folder / "people", rows=rows)
    if search is not None:
        search.planted.write(folder / "people")
    write_contract(folder / "people.odcs.yaml")
    contract = load_contract(folder / "people.odcs.yaml")
    source = Source(path=folder / "people", files="parquet")
    begun = perf_counter()
    here = ingest(source, contract, folder=folder / "duckdb", key=KEY, memory_limit="1GB")
    staging, begun = perf_counter() - begun, perf_counter()
    counts = _ours(here, contract)
    yield _told(Measured("DuckDB", 2, rows, staging, perf_counter() - begun, None, True))
    python = Path(os.environ["SUDARE_SPARK_PYTHON"])
    yield in_engine("Spark local", 2, rows, SparkSettings(python), source, contract, counts, folder / "local")
    if search is None:
        return
    for workers in (1, 2):
        yield _in_cluster(folder, workers, rows, source, contract, counts, search)
    yield _over_connect(folder, rows, source, contract, counts, search)


def _in_cluster(
    folder: Path,
    workers: int,
    rows: int,
    source: Source,
    contract: Contract,
    counts: list[NDArray[np.int64]],
    search: Search,
) -> Measured:
    """Measure a standalone cluster of so many workers; as `in_engine`."""
    (folder / f"cluster{workers}").mkdir()
    python = Path(os.environ["SUDARE_SPARK_PYTHON"])
    processes = standalone_cluster(folder / f"cluster{workers}", python, secret=SECRET, workers=workers, java=JAVA)
    with processes as cluster, listening(search.forms | in_utf8([CONTROL]), search.heard):
        settings = SparkSettings(python, f"spark://127.0.0.1:{cluster.port}", "900m", "benchmark")
        send_on_loopback(CONTROL)
        run = folder / f"run{workers}"
        return in_engine("cluster", workers, rows, settings, source, contract, counts, run, (search, cluster))


def _over_connect(
    folder: Path, rows: int, source: Source, contract: Contract, counts: list[NDArray[np.int64]], search: Search
) -> Measured:
    """Measure a server of Spark Connect behind TLS; as `in_engine`."""
    (folder / "connect").mkdir()
    python, paths = Path(os.environ["SUDARE_SPARK_PYTHON"]), loopback_certificates(folder)
    with ExitStack() as stack:
        server = stack.enter_context(connect_server(folder / "connect", python, token=SECRET, java=JAVA))
        port = stack.enter_context(tls_front(server.port, certificate=paths.certificate, key=paths.key))
        master = f"sc://127.0.0.1:{port}"
        settings = SparkSettings(python, master, credentials="benchmark-server", certificate=paths.authority)
        run = folder / "run-connect"
        return in_engine("Connect", 2, rows, settings, source, contract, counts, run, (search, server))


def in_engine(
    place: str,
    workers: int,
    rows: int,
    settings: SparkSettings | None,
    source: Source,
    contract: Contract,
    expected: list[NDArray[np.int64]],
    folder: Path,
    searched: tuple[Search, SparkProcesses] | None = None,
) -> Measured:
    """Stage and count in one engine; the session is started within the staging, and searched at the end.

    Args:
        place: which engine.
        workers: cores that count.
        rows: how many.
        settings: where Spark is; None for another engine.
        source: the rows.
        contract: their contract.
        expected: the counts of DuckDB.
        folder: of the run.
        searched: what is looked for, and the processes whose files and pages are read.
    """
    begun = perf_counter()
    table = ingest_in_engine(source, contract, folder=folder, key=KEY, settings=settings)
    staging, engine = perf_counter() - begun, table.engine
    if engine is None:
        raise RuntimeError("no engine")
    try:
        worker: Any = engine
        counts, times = _ours(table, contract), list[tuple[float, float]]()
        _bare(worker, contract)  # Java compiles what is run for the first time
        for _ in range(RUNS):
            begun = perf_counter()
            _bare(worker, contract)
            between = perf_counter()
            _ours(table, contract)
            times.append((between - begun, perf_counter() - between))
        bare, counting = (median(each) for each in zip(*times, strict=True))
        if searched is not None:
            search, processes = searched
            search.through(processes, folder)
    finally:
        engine.close()
    same = all(np.array_equal(one, other) for one, other in zip(counts, expected, strict=True))
    return _told(Measured(place, workers, rows, staging, counting, bare, same))


def _ours(table: PrivateTable, contract: Contract) -> list[NDArray[np.int64]]:
    """Count the ten tables as a release does: in one scan."""
    return [each._count() for each in SnapshotCounts(table, contract).marginals(TABLES)]


def _bare(engine: Any, contract: Contract) -> None:
    """Run a GROUP BY a table over the stage, as a person types them."""
    codes = stage_of(contract).codes
    for one, other in TABLES:
        columns = f"{codes[one]}, {codes[other]}"
        engine._worker.query(f"SELECT {columns}, count(*) FROM sudare_stage GROUP BY {columns}")


def _told(measured: Measured) -> Measured:
    print(measured, flush=True)
    return measured


def rows_of(found: list[Measured], settings: dict[str, Setting]) -> Iterator[Row]:
    """Say seconds of staging and counting, whether counts are DuckDB's, and the ratio to bare GROUP BYs."""
    for each in found:
        what = f"{each.rows:,} rows, {each.place}, {each.workers} core{'' if each.workers == 1 else 's'}"
        yield Row(f"{what}: staging", round(each.staging, 1), "s", settings=settings)
        yield Row(f"{what}: ten tables", round(each.counting, 2), "s", settings=settings)
        if each.bare is None:
            continue
        yield Row(f"{what}: counts are DuckDB's", float(each.same), "1 = all", 1, each.same, settings=settings)
        ratio = each.counting / each.bare
        held = ratio <= RATIO_TARGET
        yield Row(f"{what}: over bare GROUP BYs", round(ratio, 2), "x", RATIO_TARGET, held, settings=settings)


def _found(search: Search, settings: dict[str, Setting]) -> Iterator[Row]:
    """Say how many values passed on loopback or stood in files and pages, and how much was searched."""
    heard = search.heard
    if CONTROL not in heard.values:
        raise RuntimeError("the control that was sent on loopback was not heard")
    values, forms = sorted(heard.values - {CONTROL}), len(search.forms)
    own = settings | {"forms_searched": forms, "bytes_searched": heard.searched, "packets_lost": heard.lost}
    own |= {"found": list[Setting](values), "control": "heard"}
    yield Row("planted values in clear on loopback", len(values), "values", 0, not values, settings=own)
    own = settings | {"forms_searched": forms, "files_and_pages": search.looked, "control": "found in its own file"}
    own |= {"found": {name: list[Setting](places) for name, places in sorted(search.places.items())}}
    what = "planted values in event logs, pages, shuffle and spill files"
    yield Row(what, len(search.places), "values", 0, not search.places, settings=own)


def _model(found: list[Measured], settings: dict[str, Setting]) -> Iterator[Row]:
    """Fit staging and counting together on the cluster, and say what the model foretells."""
    points = [
        Point(each.rows, each.workers, each.staging + each.counting) for each in found if each.place == "cluster"
    ]
    model = fitted(points)
    if model is None:
        return
    own = settings | {"points": len(points), "form": "t = a + c n + b n / w"}
    own |= {"a": model.base, "c": model.serial, "b": model.shared}
    error = round(100 * model.largest_error, 1)
    yield Row("model of time: largest error on the measured points", error, "%", settings=own)
    if model.left_out_error is not None:
        error = round(100 * model.left_out_error, 1)
        yield Row("model of time: largest error of a point that was left out", error, "%", settings=own)
    rows, workers = FAR
    hours = round(model.seconds(rows, workers) / 3600, 2)
    yield Row(f"model of time: {rows:,} rows on {workers} workers, at most", hours, "h", settings=own)
    hours = round((model.base + model.shared * rows / workers) / 3600, 2)
    what = f"model of time: {rows:,} rows on {workers} workers, were all that rows cost divided"
    yield Row(what, hours, "h", settings=own)


if __name__ == "__main__":
    main()
