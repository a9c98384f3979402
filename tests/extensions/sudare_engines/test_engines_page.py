"""What the pages say of engines is what the code has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sudare_engines.clickhouse import ClickHouseWorker
from sudare_engines.portable_sql import DIALECTS
from sudare_engines.spark import SparkWorker
from sudare_engines.stage import WAREHOUSES

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("page", ["docs/index.md", "extensions/sudare_engines/README.md"])
def test_the_dialects_that_no_engine_runs_are_named(page: str) -> None:
    """In the order of the code, so that an engine more is a name less in the manual."""
    spelled = {"bigquery": "BigQuery", "snowflake": "Snowflake", "trino": "Trino"}
    engines = (SparkWorker, ClickHouseWorker, *WAREHOUSES.values())
    run = {"duckdb", *(engine.dialect for engine in engines)}
    *first, last = (spelled[each] for each in DIALECTS if each not in run)
    words = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    assert re.search(rf"[Ff]or {', '.join(first)} and {last} ", words)
