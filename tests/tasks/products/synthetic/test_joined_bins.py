"""Versions whose bins were joined as noisy counts say: what is published, and what no forger can change."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest

from contracts.errors import SpecRefused
from contracts.release import synthetic
from privacy.marginals.portable import PostProcessingSeed
from tasks.inference import NoisyVersion
from tasks.sample import sample
from tests.tasks.products.synthetic.test_verify_synthetic import model_of, resample, write_model
from tests.tasks.verification.forgery import Json, as_forged, forge, load, told
from tests.worlds.synthetic_rows import SyntheticScenario, joined
from tests.worlds.versions import Version, Worlds, broken


@pytest.fixture(scope="module")
def published(worlds: Worlds) -> Version:
    return worlds.published(joined())


def marginals(record: Json) -> list[Json]:
    return [draw for draw in record["replay"]["draws"] if draw["kind"] == "marginal"]


@pytest.mark.long
def test_joined_bins_are_published_and_all_rules_hold(published: Version) -> None:
    record = load(published.folder / "record.json")
    sums = [draw for draw in record["replay"]["draws"] if draw["kind"] == "cell_sums"]
    numbered = range(1, 5)
    assert [draw["key"] for draw in sums] == [f"{kind}-000{each}" for kind in ("inside", "sum") for each in numbered]
    stated = [(name, tuple(firsts)) for draw in marginals(record) for name, firsts in (draw["bins"] or {}).items()]
    bins = dict(stated)
    assert set(bins) == {"age", "arrived", "left", "bill"}
    assert len(set(stated)) == 4, "all draws of a column are over the same joined bins"
    assert 1 < len(bins["age"]) < 50, "of 50 bins some are joined"
    assert 49 in bins["age"], "the last one, which no child can be in, is kept apart"
    published.assert_verifies(deep=True)
    rows = pl.read_parquet(published.folder / "data" / "joined.parquet")
    assert not ((rows["age"] >= 98) & (rows["ward"] == "children")).any()


def test_the_files_have_the_labels_of_joined_bins(published: Version) -> None:
    draw = next(draw for draw in marginals(load(published.folder / "record.json")) if draw["clique"] == ["age"])
    labels = pl.read_parquet(published.folder / draw["measurements"])["age"].cast(pl.String).to_list()
    assert len(labels) == draw["shape"][0] == len(draw["bins"]["age"]) + 1
    assert labels[0].startswith("0 to ")
    days = next(draw for draw in marginals(load(published.folder / "record.json")) if draw["clique"] == ["arrived"])
    named = pl.read_parquet(published.folder / days["measurements"])["arrived"].cast(pl.String).to_list()
    assert named[0].startswith("2024-Q1")
    assert len(set(named)) == len(named) == len(days["bins"]["arrived"]) + 1
    assert labels[-1] == "(null)"


def test_further_rows_may_be_asked_for_by_a_declared_bin(published: Version, tmp_path: Path) -> None:
    """Of a bin that has published rows: noise may leave a bin without any."""
    to = tmp_path / "more.parquet"
    ages = pl.read_parquet(published.folder / "data" / "joined.parquet")["age"].drop_nulls()
    low = int(ages.mode()[0]) // 2 * 2
    sample(published.folder, rows=200, where={"age": [f"{low} to {low + 1}"]}, seed=PostProcessingSeed(5), to=to)
    assert set(pl.read_parquet(to)["age"]) <= {low, low + 1}


def test_no_interval_comes_of_marginals_over_joined_bins(published: Version) -> None:
    with pytest.raises(SpecRefused, match="a version whose bins were joined"):
        NoisyVersion(published.folder)


def bend(folder: Path) -> None:
    """Give a joined bin's first declared bin all of it, and make the rows that follow."""
    _, arrays = model_of(folder)
    name = "inside-joined-0000-bins"
    firsts, weights = arrays["inside-joined-0000-firsts"], arrays[name].copy()
    # One whose other declared bins hold much: noise may have given all to the first already.
    start, end = max(pairwise(firsts), key=lambda ends: weights[ends[0] + 1 : ends[1]].sum())
    weights[start] = weights[start:end].sum()
    weights[start + 1 : end] = 0
    write_model(folder, {**arrays, name: weights})
    resample(folder)


@pytest.mark.long
def test_parts_that_do_not_come_of_the_counts_are_found_by_deep(version: Version) -> None:
    """The rows of bent parts replay; that they are no estimate of what was published, `--deep` sees."""
    bend(version.folder)
    forge(version)
    report = version.verify(deep=True)
    assert broken(report) == {11}
    assert any("joined bins of age" in finding.field for finding in report.findings)


@pytest.mark.parametrize("firsts", [[1, 5], [0, 50], [0, 7, 7], []])
def test_bins_that_are_none_are_found_at_once(version: Version, firsts: list[int]) -> None:

    def change(record: Json) -> None:
        next(draw for draw in marginals(record) if draw["clique"] == ["age"])["bins"]["age"] = firsts

    forge(version, record=change)
    report = version.verify()
    assert broken(report)
    assert any("bins" in finding.field for finding in report.findings)


def test_other_joined_bins_than_those_that_were_measured_are_found(version: Version) -> None:
    """The resolution's digest no longer fits the stated bins: no `--deep` is needed."""

    def change(record: Json) -> None:
        firsts = next(draw for draw in marginals(record) if draw["clique"] == ["age"])["bins"]["age"]
        moved = next(place for place in range(1, len(firsts)) if firsts[place] - firsts[place - 1] > 1)
        firsts[moved] -= 1

    forge(version, record=change)
    report = version.verify()
    assert broken(report)
    assert any(finding.field.endswith("coarsening") for finding in report.findings)


def usual() -> SyntheticScenario:
    """Joined bins of which nobody wrote what they take."""
    return replace(joined(), product="{kind: synthetic, generator: mst, bins: private}", release="usual")


@pytest.mark.long
@pytest.mark.parametrize("stated", [True, False])
def test_the_usual_share_of_joined_bins_is_stated_and_outlasts_a_change(
    worlds: Worlds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stated: bool
) -> None:
    """The spec stays as it was written, and so does its digest; an older record states no share."""
    version = as_forged(worlds.published(usual(), here=True).copy(tmp_path / "v"))
    inside = {"method": "measured", "share": "0.2", "columns": "all"}
    assert load(version.folder / "record.json")["replay"]["product"]["inside_bins"] == inside

    def older(record: Json) -> None:
        told(record, "software.code", "f" * 64)
        if not stated:
            del record["replay"]["product"]["inside_bins"]

    forge(version, record=older).assert_verifies()
    monkeypatch.setattr(synthetic, "JOINED_SHARE", Decimal("0.25"))
    assert version.verify(deep=True).ok == stated
