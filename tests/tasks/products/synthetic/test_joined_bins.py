"""Versions whose bins were joined as noisy counts say: what is published, and what no forger can change."""

from __future__ import annotations

import polars as pl
import pytest

from tasks.verify import verify
from tests.tasks.verification.forgery import load
from tests.worlds.synthetic_rows import joined
from tests.worlds.versions import Version, Worlds


@pytest.fixture(scope="module")
def published(worlds: Worlds) -> Version:
    return worlds.published(joined())


def test_joined_bins_are_published_and_all_rules_hold(published: Version) -> None:
    replay = load(published.folder / "record.json")["replay"]
    sums = [draw for draw in replay["draws"] if draw["kind"] == "cell_sums"]
    assert [draw["key"] for draw in sums] == ["inside-0001", "inside-0002", "sum-0001", "sum-0002"]
    marginals = [draw for draw in replay["draws"] if draw["kind"] == "marginal"]
    bins = {name: firsts for draw in marginals for name, firsts in (draw.get("bins") or {}).items()}
    assert set(bins) == {"age", "bill"}
    print(bins, [draw["shape"] for draw in marginals])
    report = verify(published.folder, public_key=published.key, deep=True)
    assert report.ok, report.findings
    rows = pl.read_parquet(published.folder / "data" / "joined.parquet")
    print(rows.describe())
