"""The ledger under load and as it grows: 64 processes on one account, a journal of a million entries; composition.

The first two on SQLite and on a PostgreSQL server with its default settings (fsync on), on this machine.

    python -m benchmarks.ledger              everything
    python -m benchmarks.ledger growth       what grows with the journal; the other rows of the results stay
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from sqlalchemy import create_engine, text

from benchmarks import _composition as composition
from benchmarks import _ledger_contention as contention
from benchmarks import _ledger_growth as growth
from benchmarks._ledger_places import ACCOUNT, DATABASES, connect, database, make_ledger
from benchmarks.results import FOLDER, Row, Setting, machine, write
from privacy.accounting.amounts import PICO

RATES: Final = {"SQLite": 100, "PostgreSQL": 300}  # charges a second
ROUNDS: Final = 3
RATIO: Final = 1.5
CHECK_SECONDS: Final = 60
_CAP: Final = 1_000
_PROOFS: Final = 51
_REFUSALS: Final = 11


def main() -> None:
    """Measure everything, or one part of it, and write results/ledger.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="?", choices=("all", "growth"), default="all")
    if parser.parse_args().part == "growth":
        return _measure_growth()
    rows = [row for name in DATABASES for row in _contention(name)]
    rows += [row for name in DATABASES for row in _growth(name)]
    write("ledger", [*rows, *composition.rows()])


def _measure_growth() -> None:
    """Measure what grows with the journal in place of the rows about it."""
    measured = [row for name in DATABASES for row in _growth(name)]
    kept = [Row(**row) for row in json.loads((FOLDER / "ledger.json").read_bytes())]
    before = [row for row in kept if "processes" in row.settings]
    after = [row for row in kept if "processes" not in row.settings and "grown_in_seconds" not in row.settings]
    write("ledger", [*before, *measured, *after])


def _settings(name: str) -> dict[str, Setting]:
    settings = machine("sqlalchemy", "psycopg", "pgserver")
    return settings | {"database": name, "durability": "every charge is fsynced"}


def _contention(name: str) -> list[Row]:
    """Let 64 processes charge one account at once, so many times, each on an empty ledger."""
    rounds = [_crowd(name) for _ in range(ROUNDS)]
    settings = _settings(name) | {"processes": contention.PROCESSES, "charges_each": contention.CHARGES}
    rates = [round(each.per_second) for each in rounds]
    statistic = "the best of the rounds: others share the machine; of the counts the worst"
    settings |= {"cap_admits": contention.ADMITTED, "rates_of_rounds": list(rates), "statistic": statistic}
    admitted = max((each.admitted for each in rounds), key=lambda found: abs(found - contention.ADMITTED))
    over = max(each.spent - contention.EPSILON * PICO for each in rounds)
    findings = max(each.findings for each in rounds)
    attempts = max(round(each.attempts_per_second) for each in rounds)
    exactly = admitted == contention.ADMITTED
    what = f"{name}, 64 processes × 200 charges at once"
    return [
        Row(f"{what}: admitted", admitted, "charges", contention.ADMITTED, exactly, settings=settings),
        Row(f"{what}: spent over the cap", over, "10⁻¹²", 0, over == 0, settings=settings),
        Row(f"{what}: findings", findings, "findings", 0, findings == 0, settings=settings),
        Row(f"{what}: rate", max(rates), "charges/s", RATES[name], max(rates) >= RATES[name], settings=settings),
        Row(f"{what}: with refusals", attempts, "attempts/s", settings=settings),
    ]


def _crowd(name: str) -> contention.Crowd:
    with TemporaryDirectory() as folder, database(name, Path(folder)) as url:
        return contention.crowd(url, Path(folder))


def _growth(name: str) -> list[Row]:
    """Measure what a ledger of a million entries costs, in turns with smaller ones."""
    with TemporaryDirectory() as folder, ExitStack() as stack:
        places = [Path(folder) / str(size) for size in growth.SIZES]
        urls, seconds = [], 0.0
        for place, size in zip(places, growth.SIZES, strict=True):
            place.mkdir()
            urls.append(stack.enter_context(database(name, place)))
            make_ledger(urls[-1], place, epsilon=_CAP)
            seconds = growth.grow(urls[-1], place, until=size)
        wheres = tuple(zip(urls, places, strict=True))
        ledgers = [stack.enter_context(closing(connect(*where))) for where in wheres]
        acts = {
            "a charge": growth.medians(ledgers, growth.reserve, repeats=growth.REPEATS),
            "a process's first charge": growth.medians(wheres, growth.reserve_first, repeats=_PROOFS),
            "a proof": growth.medians(ledgers, growth.prove, repeats=_PROOFS),
            "a refusal": growth.medians(ledgers, growth.refuse, repeats=_REFUSALS),
        }
        size_mib = _size(*wheres[-1])
        check = growth.checked(*wheres[-1])
    settings = _settings(name) | {"grown_in_seconds": round(seconds), "repeats": growth.REPEATS, "account": ACCOUNT}
    settings |= {"statistic": "median, the ledgers in turns"}
    return [*_costs(name, acts, settings), *_check(name, check, size_mib, settings)]


def _costs(name: str, acts: dict[str, list[float]], settings: dict[str, Setting]) -> list[Row]:
    rows = []
    for what, medians in acts.items():
        for entries, taken in zip(growth.SIZES, medians, strict=True):
            label = f"{name}: {what} at {entries:,} entries"
            rows.append(Row(label, round(taken * 1e3, 2), "ms", settings=settings))
    return [*_flat(name, acts["a charge"], settings), *rows]


def _flat(name: str, charge: Sequence[float], settings: dict[str, Setting]) -> list[Row]:
    """Hold the cost of a charge on each larger ledger against that on the smallest."""
    rows = []
    for entries, taken in zip(growth.SIZES[1:], charge[1:], strict=True):
        ratio, what = taken / charge[0], f"{name}: a charge at {entries:,} entries over one at {growth.SMALL:,}"
        rows.append(Row(what, round(ratio, 2), "×", RATIO, ratio <= RATIO, settings=settings))
    return rows


def _check(name: str, check: growth.Checked, size: float, settings: dict[str, Setting]) -> list[Row]:
    what = f"{name}: full check of {growth.LARGE:,} entries"
    holds = check.seconds <= CHECK_SECONDS
    return [
        Row(what, round(check.seconds, 1), "s", CHECK_SECONDS, holds, settings=settings),
        Row(f"{what}: findings", check.findings, "findings", 0, check.findings == 0, settings=settings),
        Row(f"{what}: peak memory", round(check.peak_mib), "MiB", settings=settings),
        Row(f"{name}: size with {growth.LARGE:,} entries", round(size), "MiB", settings=settings),
    ]


def _size(url: str, folder: Path) -> float:
    """Return the size of a database [MiB]."""
    if url.startswith("sqlite"):
        return sum(path.stat().st_size for path in folder.glob("ledger.sqlite*")) / 2**20
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as connection:
        size = float(connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one())
    engine.dispose()
    return size / 2**20


if __name__ == "__main__":
    main()
