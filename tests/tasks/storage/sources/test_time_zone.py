"""The time zone of the process changes nothing: codes, hash and refusals are those of the rows and the contract."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.tasks.intake import make_contract

ZONES = ("UTC", "Asia/Tokyo", "America/St_Johns")
INGEST = """
import json, sys
from pathlib import Path
import duckdb
from contracts.errors import Refused
from contracts.contract.odcs import load_contract
from contracts.release.source import Source
from contracts.periods.time_blocks import time_block
from tasks.ingest import ingest
from tasks.storage.sources.days import SourceDays

folder, select, by = Path(sys.argv[1]), sys.argv[2] or None, sys.argv[3]
types = {"since": "moment"} if "(since" in (select or "") else None
days = SourceDays(by, time_block("2021-Q1")) if by else None
try:
    source = Source(path=folder / "people.parquet", select=select, types=types)
    table = ingest(source, load_contract(folder / "people.odcs.yaml"), folder=folder / sys.argv[4], key=bytes(32),
                   memory_limit="256MB", days=days)
except Refused as error:
    print(json.dumps(str(error)))
else:
    with duckdb.connect(str(table.path), read_only=True) as connection:
        codes = connection.execute("SELECT * FROM codes").fetchall()
    print(json.dumps([codes, table.keyed_hash]))
"""
SELECTS = {
    "as it is": "",
    "cast by a select": "SELECT age, sex, wage, CAST(since AS DATE) AS since FROM source",
    "by its parts": "SELECT age, sex, hour(since) AS wage, make_date(year(since), 1, 1) AS since FROM source",
    "as a text": "SELECT age, CAST(since AS VARCHAR) AS sex, wage, since FROM source",
}


def told(folder: Path, zone: str, select: str, by: str = "") -> Any:
    """What an ingest in a process of some time zone tells: codes and hash, or the refusal."""
    words = [sys.executable, "-c", INGEST, str(folder), select, by, f"run-{zone.replace('/', '-')}"]
    environment = os.environ | {"TZ": zone, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True, timeout=120)
    return json.loads(done.stdout)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Rows whose instants lie in one year here and in another there."""
    make_contract(tmp_path)
    instants = "TIMESTAMPTZ '2020-12-31 14:00:00+00' + to_hours(i::INTEGER)"
    rows = f"SELECT 30 AS age, 'F' AS sex, 2.5 AS wage, {instants} AS since FROM range(24) t(i)"
    duckdb.sql(f"COPY ({rows}) TO '{tmp_path}/people.parquet'")
    return tmp_path


@pytest.mark.parametrize("case", SELECTS)
def test_codes_and_hash_are_the_same_in_every_time_zone(folder: Path, case: str) -> None:
    """24 hours around a new year: 10 of the old one, by UTC."""
    here, *others = (told(folder, zone, SELECTS[case]) for zone in ZONES)
    assert all(other == here for other in others)
    assert [row[3] for row in here[0]] == [0] * 10 + [1] * 14


def test_a_period_takes_the_same_rows_or_refuses_alike_in_every_time_zone(folder: Path) -> None:
    for select in (SELECTS["as it is"], SELECTS["cast by a select"]):
        here, *others = (told(folder, zone, select, by="since") for zone in ZONES)
        assert all(other == here for other in others)


def test_without_a_fixed_zone_the_days_would_part() -> None:
    """The wrong case: DuckDB as it opens takes the zone of the process."""
    instant = "TIMESTAMPTZ '2020-12-31 15:30:00+00'"
    ask = f'import duckdb; print(duckdb.execute("SELECT CAST({instant} AS DATE)").fetchall())'
    days = {
        subprocess.run(
            [sys.executable, "-c", ask], env=os.environ | {"TZ": zone}, capture_output=True, text=True
        ).stdout
        for zone in ZONES[:2]
    }
    assert len(days) == 2
