"""The time zone of the process changes nothing: codes, hash and refusals are those of the rows and the contract."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.tasks.intake import make_contract

pytestmark = pytest.mark.services

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

def told(select, by, run):
    types = {"since": "moment"} if "(since" in select else None
    days = SourceDays(by, time_block("2021-Q1")) if by else None
    try:
        source = Source(path=folder / "people.parquet", select=select or None, types=types)
        table = ingest(source, contract, folder=run, key=bytes(32), memory_limit="256MB", days=days)
    except Refused as error:
        return str(error)
    with duckdb.connect(str(table.path), read_only=True) as connection:
        return [connection.execute("SELECT * FROM codes").fetchall(), table.keyed_hash]

folder, run = Path(sys.argv[1]), Path(sys.argv[2])
contract = load_contract(folder / "people.odcs.yaml")
print(json.dumps([told(*each, run / str(place)) for place, each in enumerate(json.load(sys.stdin))]))
"""
SELECTS = {
    "as it is": "",
    "cast by a select": "SELECT age, sex, wage, CAST(since AS DATE) AS since FROM source",
    "by its parts": "SELECT age, sex, hour(since) AS wage, make_date(year(since), 1, 1) AS since FROM source",
    "as a text": "SELECT age, CAST(since AS VARCHAR) AS sex, wage, since FROM source",
}

INGESTS = [
    *((select, "") for select in SELECTS.values()),
    *((SELECTS[case], "since") for case in ("as it is", "cast by a select")),
]
"""Selects, and the column by which a period is taken; one process of a zone takes all of them in."""


def told(folder: Path, zone: str) -> list[Any]:
    """What ingests in a process of some time zone tell: codes and hash, or the refusal."""
    words = [sys.executable, "-c", INGEST, str(folder), str(folder / f"run-{zone.replace('/', '-')}")]
    environment = os.environ | {"TZ": zone, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        words, input=json.dumps(INGESTS), env=environment, capture_output=True, text=True, check=True, timeout=120
    )
    found: list[Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def by_zone(tmp_path_factory: pytest.TempPathFactory) -> list[list[Any]]:
    """What is told in each zone of rows whose instants lie in one year here and in another there."""
    folder = tmp_path_factory.mktemp("zones")
    make_contract(folder)
    instants = "TIMESTAMPTZ '2020-12-31 14:00:00+00' + to_hours(i::INTEGER)"
    rows = f"SELECT 30 AS age, 'F' AS sex, 2.5 AS wage, {instants} AS since FROM range(24) t(i)"
    duckdb.sql(f"COPY ({rows}) TO '{folder}/people.parquet'")
    return [told(folder, zone) for zone in ZONES]


@pytest.mark.parametrize("case", SELECTS)
def test_codes_and_hash_are_the_same_in_every_time_zone(by_zone: list[list[Any]], case: str):
    """24 hours around a new year: 10 of the old one, by UTC."""
    here, *others = (found[list(SELECTS).index(case)] for found in by_zone)
    assert all(other == here for other in others)
    assert [row[3] for row in here[0]] == [0] * 10 + [1] * 14


def test_a_period_takes_the_same_rows_or_refuses_alike_in_every_time_zone(by_zone: list[list[Any]]):
    here, *others = (found[len(SELECTS) :] for found in by_zone)
    assert len(here) == 2
    assert all(other == here for other in others)


def test_without_a_fixed_zone_the_days_would_part():
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
