"""Versions whose values lie inside bins as noisy counts say: what is published, and what no forger can change."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from contracts.canonical import readable_json
from privacy.accounting.amounts import PICO
from privacy.accounting.calculus import PureCalculus
from privacy.marginals.portable import PostProcessingSeed
from tasks.sample import sample
from tests.tasks.products.synthetic.test_verify_synthetic import model_of, resample, write_model
from tests.tasks.verification.forgery import forge, load
from tests.worlds.synthetic_rows import SyntheticScenario, aim, looked_into
from tests.worlds.versions import Version, Worlds, broken, publish_version

PURE = (
    "{kind: synthetic, generator: independent, columns: [ward, age, bill], "
    "inside_bins: {share: 0.5, columns: [bill]}}"
)


@pytest.fixture(scope="module")
def published(worlds: Worlds) -> Version:
    return worlds.published(looked_into())


def test_counts_inside_bins_are_published_and_rows_follow_them(published: Version) -> None:
    """Half of the made-up rows of each bin are where it begins: so are nearly half of the synthetic ones."""
    draws = load(published.folder / "record.json")["replay"]["draws"]
    assert [draw["addends"]["column"] for draw in draws if draw["kind"] == "cell_sums"] == [
        "age",
        "arrived",
        "left",
        "bill",
    ]
    assert [draw["key"] for draw in draws[:4]] == [f"inside-000{number}" for number in range(1, 5)]
    rows = pl.read_parquet(published.folder / "data" / "looked-into.parquet")
    starts = rows["age"].drop_nulls().is_in([0, 25, 50, 75]).mean()
    assert 0.35 < starts < 0.6, "uniform bins of 25 years would have 0.04"  # type: ignore[operator]
    days = rows["arrived"].drop_nulls()
    first = ((days.dt.day() == 1) & days.dt.month().is_in([1, 4, 7, 10])).mean()
    assert 0.3 < first < 0.6, "uniform quarters would have 0.01"  # type: ignore[operator]
    both = rows.drop_nulls(["arrived", "left"])
    assert (both["arrived"] <= both["left"]).all(), "the contract's order holds for the days"


def test_what_is_said_of_decoding_and_bias_names_the_columns(published: Version) -> None:
    page = (published.folder / "record.html").read_text()
    assert "a whole number from its bin, drawn by released noisy counts inside the bin" in page
    assert "Inside the bins of age, arrived, left, bill values lie as noisy counts say" in page
    assert "a day from its period, drawn by released noisy counts inside the period" in page


def test_further_rows_follow_them_too(published: Version, tmp_path: Path) -> None:
    to = tmp_path / "more.parquet"
    sample(published.folder, rows=400, where={"age": ["0 to 24"]}, seed=PostProcessingSeed(5), to=to)
    assert 0.3 < (pl.read_parquet(to)["age"] == 0).mean() < 0.7  # type: ignore[operator]


def bend(folder: Path) -> None:
    """Move all weight of the first column's first bin to its last leaf, and make the rows that follow."""
    _, arrays = model_of(folder)
    weights = arrays["inside-0000-weights"].copy()
    weights[24] += weights[:24].sum()
    weights[:24] = 0
    write_model(folder, {**arrays, "inside-0000-weights": weights})
    resample(folder)


def shift(folder: Path) -> None:
    """Take other leaves than those that were counted."""
    _, arrays = model_of(folder)
    cuts = np.delete(arrays["inside-0000-cuts"], 3)
    weights = np.delete(arrays["inside-0000-weights"], 3)
    path = folder / "model" / "model.json"
    stated = load(path)
    stated["shapes"]["inside-0000-cuts"] = stated["shapes"]["inside-0000-weights"] = [int(cuts.size)]
    path.write_bytes(readable_json(stated))
    write_model(folder, {**arrays, "inside-0000-cuts": cuts, "inside-0000-weights": weights})
    resample(folder)


def test_weights_that_do_not_come_of_the_counts_are_found_by_deep(version: Version) -> None:
    """The rows of bent weights replay; that the weights are no estimate of what was published, `--deep` sees."""
    bend(version.folder)
    forge(version)
    report = version.verify(deep=True)
    assert broken(report) == {11}
    assert any("inside age" in finding.field for finding in report.findings)


def test_leaves_that_were_not_counted_are_found_at_once(version: Version) -> None:
    shift(version.folder)
    forge(version)
    report = version.verify()
    assert 9 in broken(report)
    assert any("inside age" in finding.field for finding in report.findings)


@pytest.mark.long
def test_a_pure_charge_one_column_and_laplace_noise(tmp_path: Path) -> None:
    """A run under replace_one with a pure account; all rules hold."""
    privacy = (
        "{unit: {kind: row, scope: block}, adjacency: replace_one, ZEROS, "
        'invariants: [{kind: total, value: 3000, reference: "yearbook"}]}'
    )
    terms: dict[str, Any] = {"delta": "0", "calculus": PureCalculus(), "cap": (20 * PICO, 0), "formats": "[parquet]"}
    scenario = replace(aim(), privacy=privacy, product=PURE, release="pure-inside", **terms)
    version = publish_version(scenario, tmp_path / "v")
    version.assert_verifies(deep=True)
    draws = load(version.folder / "record.json")["replay"]["draws"]
    trees = [draw for draw in draws if draw["kind"] == "cell_sums"]
    assert [draw["addends"]["column"] for draw in trees] == ["bill"]
    assert trees[0]["event"]["kind"] == "discrete_laplace"
    assert len(trees[0]["event"]["moves"]) == 2 * 5, "two for each of five levels"
    assert Fraction(sum(draw["cost"] for draw in trees), sum(draw["cost"] for draw in draws)) == pytest.approx(0.5)


@pytest.mark.long
def test_uniform_is_written_and_changes_nothing(worlds: Worlds, tmp_path: Path) -> None:
    scenario: SyntheticScenario = replace(
        looked_into(),
        product="{kind: synthetic, generator: independent, columns: [age, ward], inside_bins: uniform}",
        release="uniform",
    )
    version = publish_version(scenario, tmp_path / "v")
    version.assert_verifies()
    record = load(version.folder / "record.json")
    assert record["replay"]["product"]["inside_bins"]["method"] == "uniform"
    assert record["replay"]["model"]["kind"] == "graphical_model"
