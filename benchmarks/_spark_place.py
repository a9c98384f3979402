"""Workspaces for Spark releases that are killed, the processes of such a run, and named instants to kill them at."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks._kill_places import ACCOUNT, Place
from benchmarks._spark_cluster import JAVA
from contracts.periods.time_blocks import time_block
from privacy.accounting.amounts import PICO
from privacy.accounting.calculus import PureCalculus
from privacy.grant.durable_draws import DurableDraws
from privacy.ledger.draw_files import DrawFiles
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import AccountTerms
from sudare_engines import stage as ingest
from sudare_engines.spark import SparkWorker
from sudare_engines.staged_table import StagedTable
from tasks.storage.workspace.settings import FILE, Workspace

ROWS, UNITS, FILES = 20_000, 9_000, 3
CONTRACT: Final = """\
apiVersion: v3.1.0
kind: DataContract
id: people
name: People
version: 1.0.0
status: active
schema:
  - name: people
    logicalType: object
    physicalType: table
    customProperties:
      - property: privacy
        value:
          {unit: {kind: id, scope: block, column: person, max_rows_per_unit: 2}, adjacency: add_remove}
    properties:
      - {name: person, logicalType: string}
      - name: sex
        logicalType: string
        customProperties:
          - property: domain
            value:
              {kind: categories, values: [f, m], nulls: {policy: category}, provenance: {kind: declared}}
      - name: age
        logicalType: integer
        customProperties:
          - property: domain
            value:
              {kind: integer, bounds: [0, 99], bins: {width: 10}, nulls: {policy: category},
               provenance: {kind: declared}}
"""
SPEC: Final = """\
release: people
contract: people.odcs.yaml
source: {path: people, files: parquet, engine: spark}
charge: {account: people-2024, epsilon: 1, delta: 0}
product: {kind: tables, mechanism: laplace, tables: [[sex], [age], [sex, age]], refine: {method: none}}
publish: {to: releases/}
"""


def quick_java(file: Path, python: Path, java: str = JAVA) -> Path:
    """Write a Python whose Java has options of its own, and return it."""
    file.write_text(f'#!/bin/sh\nexport JAVA_TOOL_OPTIONS="{java}"\nexec "{python}" "$@"\n')
    file.chmod(0o700)
    return file


def make_spark_place(folder: Path, python: Path) -> Place:
    """Make workspace, source, spec and account of a release that Spark counts.

    Args:
        folder: an empty folder.
        python: the Python that has PySpark.
    """
    source = folder / "people"
    source.mkdir()
    for part in range(FILES):
        numbers = range(part, ROWS, FILES)
        columns = {
            "person": [f"p{number * 7 % UNITS}" for number in numbers],
            "sex": ["fm"[number % 5 % 2] for number in numbers],
            "age": [number * 31 % 100 for number in numbers],
        }
        pq.write_table(pa.table(columns), source / f"part-{part}.parquet")
    (folder / "people.odcs.yaml").write_text(CONTRACT)
    (folder / "people.yaml").write_text(SPEC)
    Workspace.create(folder / "workspace")
    started = quick_java(folder / "python", python)
    settings = folder / "workspace" / FILE
    settings.write_text(f'{settings.read_text()}\n[spark]\npython = "{started}"\n')
    place = Place(folder / "people.yaml", Workspace.open(folder / "workspace"))
    with closing(place.ledger()) as ledger:
        terms = AccountTerms(ACCOUNT, "people", "2024", "person", "add_remove", PureCalculus(), 2 * PICO, 0)
        ledger.open_account(terms)
        ledger.bind_source(str(source.resolve()), "people", time_block("2024"))
    return place


# --- the processes of a run -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Process:
    """One process, told from a later one of the same number by when it started.

    Args:
        number: its id.
        started: clock ticks after the machine's start.
    """

    number: int
    started: int

    def lives(self) -> bool:
        """Say whether it runs; one that is dead and not yet waited for does not."""
        found = _state(self.number)
        return found is not None and found[0] == self.started and found[1] != "Z"

    def kill(self) -> None:
        """Send SIGKILL, unless it is gone."""
        if self.lives():
            os.kill(self.number, signal.SIGKILL)


def processes(driver: int) -> dict[str, Process]:
    """Return who lives of a run: `driver` (ours), `worker` (Python that drives Spark), `java` (Spark itself)."""
    run: dict[str, Process] = {}
    number: int | None = driver
    for role in ("driver", "worker", "java"):
        number = number if role == "driver" or number is None else _child(number, role)
        state = None if number is None else _state(number)
        if number is None or state is None or state[1] == "Z":
            break
        run[role] = Process(number, state[0])
    return run


def _child(parent: int, role: str) -> int | None:
    """Find the child that runs a program of that role; before it runs it, a child is a copy of its parent."""
    for number in _children(parent):
        try:
            words = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(word.endswith(b"spark_worker.py") for word in words) if role == "worker" else b"java" in words[0]:
            return number
    return None


def _children(parent: int) -> list[int]:
    """List the children of all threads of a process."""
    found: list[int] = []
    for thread in Path(f"/proc/{parent}/task").glob("*/children"):
        try:
            found += [int(number) for number in thread.read_text().split()]
        except OSError:
            continue  # a thread that has ended has none
    return found


def _state(number: int) -> tuple[int, str] | None:
    """Return start and state of a process; None where it is gone."""
    try:
        after_name = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return int(after_name[19]), after_name[0]


# --- named instants ---------------------------------------------------------------------------------------------

_PLACES: Final[dict[str, tuple[Any, str]]] = {
    "the stage is written": (SparkWorker, "ask:stage"),
    "the stage is hashed": (ingest, "_hash"),
    "the charge is reserved": (Ledger, "reserve"),
    "the grant is opened": (Ledger, "open_charge"),
    "a marginal is counted": (StagedTable, "counted_cells"),
    "noise is drawn": (DurableDraws, "_made"),
    "a draw is written down": (DrawFiles, "write"),
    "a draw is entered": (DurableDraws, "_enter"),
    "the version is published": (Ledger, "publish"),
}
_TIMES: Final = {"noise is drawn": 2, "a draw is written down": 2, "a draw is entered": 2}
NAMED: Final = tuple(f"{side} {what}" for what in _PLACES for side in ("just before", "just after"))


def strike(instant: str, strike_now: Callable[[], None]) -> None:
    """From here on in this process: do something at a named instant, once; of several draws at the second.

    Args:
        instant: one of `NAMED`.
        strike_now: what is done.
    """
    what = instant.removeprefix("just before ").removeprefix("just after ")
    holder, name = _PLACES[what]
    name, _, request = name.partition(":")
    kept, seen, fatal = getattr(holder, name), count(1), _TIMES.get(what, 1)

    def struck(*arguments: Any, **named: Any) -> Any:
        meant = (not request or request in arguments) and next(seen) == fatal
        if meant and instant.startswith("just before"):
            strike_now()
        answer = kept(*arguments, **named)
        if meant and instant.startswith("just after"):
            strike_now()
        return answer

    setattr(holder, name, struck)
