"""Values inside bins, bins that were joined, and places of bins: what is published, and what no forger can change."""

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from contracts.canonical import readable_json
from contracts.errors import SpecRefused
from contracts.release import synthetic
from privacy.accounting.amounts import PICO
from privacy.accounting.calculus import PureCalculus
from privacy.marginals.portable import PostProcessingSeed
from tasks.inference import NoisyVersion
from tasks.sample import sample
from tests.tasks.products.synthetic.test_verify_synthetic import model_of, resample, write_model
from tests.tasks.verification.forgery import (
    Change,
    Json,
    as_forged,
    assert_caught,
    assert_caught_by_deep,
    forge,
    load,
    told,
)
from tests.worlds.synthetic_rows import SyntheticScenario, aim, joined, looked_into
from tests.worlds.versions import Version, Worlds, broken, publish_version

PURE = (
    "{kind: synthetic, generator: independent, columns: [ward, age, bill], "
    "inside_bins: {share: 0.5, columns: [bill]}}"
)


@pytest.fixture(scope="module")
def published(worlds: Worlds) -> Version:
    return worlds.published(looked_into())


def test_counts_inside_bins_are_published_and_rows_follow_them(published: Version):
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


def test_what_is_said_of_decoding_and_bias_names_the_columns(published: Version):
    page = (published.folder / "record.html").read_text()
    assert "a whole number from its bin, drawn by released noisy counts inside the bin" in page
    assert "Inside the bins of age, arrived, left, bill values lie as noisy counts say" in page
    assert "a day from its period, drawn by released noisy counts inside the period" in page


def test_further_rows_follow_them_too(published: Version, tmp_path: Path):
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


def test_weights_that_do_not_come_of_the_counts_are_found_by_deep(version: Version):
    """The rows of bent weights replay; that the weights are no estimate of what was published, `--deep` sees."""
    bend(version.folder)
    assert_caught_by_deep(forge(version), "inside age")


def test_leaves_that_were_not_counted_are_found_at_once(version: Version):
    shift(version.folder)
    assert_caught(forge(version), {9}, field="inside age")


@pytest.mark.long
def test_a_pure_charge_one_column_and_laplace_noise(tmp_path: Path):
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
def test_uniform_is_written_and_changes_nothing(worlds: Worlds, tmp_path: Path):
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


@pytest.fixture(scope="module")
def joined_version(worlds: Worlds) -> Version:
    return worlds.published(joined())


def marginals(record: Json) -> list[Json]:
    return [draw for draw in record["replay"]["draws"] if draw["kind"] == "marginal"]


@pytest.mark.long
def test_joined_bins_are_published_and_all_rules_hold(joined_version: Version):
    record = load(joined_version.folder / "record.json")
    sums = [draw for draw in record["replay"]["draws"] if draw["kind"] == "cell_sums"]
    numbered = range(1, 5)
    assert [draw["key"] for draw in sums] == [f"{kind}-000{each}" for kind in ("inside", "sum") for each in numbered]
    stated = [(name, tuple(firsts)) for draw in marginals(record) for name, firsts in (draw["bins"] or {}).items()]
    bins = dict(stated)
    assert set(bins) == {"age", "arrived", "left", "bill"}
    assert len(set(stated)) == 4, "all draws of a column are over the same joined bins"
    assert 1 < len(bins["age"]) < 50, "of 50 bins some are joined"
    assert 49 in bins["age"], "the last one, which no child can be in, is kept apart"
    joined_version.assert_verifies(deep=True)
    rows = pl.read_parquet(joined_version.folder / "data" / "joined.parquet")
    assert not ((rows["age"] >= 98) & (rows["ward"] == "children")).any()


def test_the_files_have_the_labels_of_joined_bins(joined_version: Version):
    draw = next(draw for draw in marginals(load(joined_version.folder / "record.json")) if draw["clique"] == ["age"])
    labels = pl.read_parquet(joined_version.folder / draw["measurements"])["age"].cast(pl.String).to_list()
    assert len(labels) == draw["shape"][0] == len(draw["bins"]["age"]) + 1
    assert labels[0].startswith("0 to ")
    days = next(
        draw for draw in marginals(load(joined_version.folder / "record.json")) if draw["clique"] == ["arrived"]
    )
    named = pl.read_parquet(joined_version.folder / days["measurements"])["arrived"].cast(pl.String).to_list()
    assert named[0].startswith("2024-Q1")
    assert len(set(named)) == len(named) == len(days["bins"]["arrived"]) + 1
    assert labels[-1] == "(null)"


def test_further_rows_may_be_asked_for_by_a_declared_bin(joined_version: Version, tmp_path: Path):
    """Of a bin that has published rows: noise may leave a bin without any."""
    to = tmp_path / "more.parquet"
    ages = pl.read_parquet(joined_version.folder / "data" / "joined.parquet")["age"].drop_nulls()
    low = int(ages.mode()[0]) // 2 * 2
    sample(joined_version.folder, rows=200, where={"age": [f"{low} to {low + 1}"]}, seed=PostProcessingSeed(5), to=to)
    assert set(pl.read_parquet(to)["age"]) <= {low, low + 1}


def test_no_interval_comes_of_marginals_over_joined_bins(joined_version: Version):
    with pytest.raises(SpecRefused, match="a version whose bins were joined"):
        NoisyVersion(joined_version.folder)


def bend_joined(folder: Path) -> None:
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
def test_parts_that_do_not_come_of_the_counts_are_found_by_deep(joined_version: Version, tmp_path: Path):
    """The rows of bent parts replay; that they are no estimate of what was published, `--deep` sees."""
    version = joined_version.copy(tmp_path / "v")
    bend_joined(version.folder)
    assert_caught_by_deep(forge(version), "joined bins of age")


def of_ages(change: Change) -> Change:
    """Change what the first cells of the joined ages are said to be."""
    return lambda record: change(next(draw for draw in marginals(record) if draw["clique"] == ["age"])["bins"])


def one_moved(bins: Json) -> None:
    firsts = bins["age"]
    moved = next(place for place in range(1, len(firsts)) if firsts[place] - firsts[place - 1] > 1)
    firsts[moved] -= 1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        *(
            (lambda bins, firsts=firsts: bins.update(age=firsts), "bins")
            for firsts in ([1, 5], [0, 50], [0, 7, 7], [])
        ),
        (one_moved, "coarsening"),
    ],
)
def test_bins_that_are_none_or_that_were_not_measured_are_found_at_once(
    joined_version: Version, tmp_path: Path, change: Change, says: str
):
    """The resolution's digest no longer fits the stated bins: no `--deep` is needed."""
    report = forge(joined_version.copy(tmp_path / "v"), record=of_ages(change)).verify()
    assert broken(report)
    assert any(says in finding.field for finding in report.findings)


def usual() -> SyntheticScenario:
    """Joined bins of which nobody wrote what they take."""
    return replace(joined(), product="{kind: synthetic, generator: mst, bins: private}", release="usual")


@pytest.mark.long
@pytest.mark.parametrize("stated", [True, False])
def test_the_usual_share_of_joined_bins_is_stated_and_outlasts_a_change(
    worlds: Worlds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stated: bool
):
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


PLACES = (
    "{kind: synthetic, generator: p3gm, columns: [ward, insured, bill], options: "
    "{label: ward, numbers: bins, labels: components, decoder: linear, rows_about: 3000}}"
)


@pytest.fixture(scope="module")
def by_places(worlds: Worlds) -> Version:
    return worlds.published(replace(aim(), product=PLACES, release="bills"), here=True)


@pytest.mark.long
def test_a_version_by_bins_says_so_verifies_and_is_fitted_again(by_places: Version):
    assert load(by_places.folder / "record.json")["replay"]["product"]["options"]["numbers"] == "bins"
    by_places.assert_verifies(deep=True)


@pytest.mark.parametrize("numbers", ["scaled", "auto"])
def test_another_way_to_enter_is_the_publishers_word_until_the_fit_is_made_again(
    by_places: Version, tmp_path: Path, numbers: str
):
    """Both have the same plan and the same sums; what stands for a bin in the model is another number."""
    version = as_forged(by_places.copy(tmp_path / "v"))

    def forged_by_places(record: Json) -> None:
        told(record, "software.code", "f" * 64)
        record["replay"]["product"]["options"]["numbers"] = numbers

    forge(version, record=forged_by_places).assert_verifies()
    report = version.verify(deep=True)
    assert [each.rule for each in report.checks if each.findings] == [11], report.findings
