"""Versions with private clips: they verify, their clips are those of the histograms, and forgeries are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest

from contracts.domains.addends import NarrowedLattice, ValueMagnitudes
from privacy.snapshots.snapshot import SnapshotSums
from privacy.statistics.plan import StatisticsPlan
from tests.tasks.verification.forgery import Forgery, Json, forge, load, set_cell
from tests.worlds.statistics import StatisticsScenario, of_tables, three_rows
from tests.worlds.versions import Version, Worlds, broken

TABLES = """[
  {by: [ward], of: [count, {mean: age, clip: private}, {quantiles: [0.5], of: age}]},
  {by: [], of: [{sum: bill, clip: {private: true, share: 0.2}, step: 2.5}, {mean: age}], weight: 2},
  {by: [insured], of: [{ratio: {sum: bill, clip: private, step: 2.5}, over: {sum: age}}]}]"""
AGES, BILLS = "clip:age/1", "clip:bill/2.5"


def laplace() -> StatisticsScenario:
    """Two histograms, of which one serves two tables; a tree and a declared clip beside them; Parquet and CSV."""
    return replace(of_tables(TABLES, release="clips", epsilon="4"), formats="[parquet, csv]")


BOTH = pytest.mark.parametrize("scenario", [laplace(), three_rows(TABLES)], ids=["laplace", "gaussian"])


def replayed(version: Version) -> Json:
    found: Json = load(version.folder / "record.json")["replay"]
    return found


def draws_of(version: Version) -> dict[str, Json]:
    return {each["key"]: each for each in replayed(version)["draws"]}


@pytest.mark.long
@BOTH
def test_a_version_with_private_clips_verifies_and_says_what_they_cost(
    worlds: Worlds, scenario: StatisticsScenario
) -> None:
    version = worlds.published(scenario)
    version.assert_verifies()
    draws = draws_of(version)
    assert list(draws)[:2] == [AGES, BILLS]
    clips = replayed(version)["clips"]
    assert [(each["draw"], each["histogram"]) for each in clips] == [
        *(("table:ward/age", AGES), ("table:all/bill", BILLS), ("table:insured/bill", BILLS))
    ]
    for clip, told in zip(clips, version.words["product.clips"], strict=True):
        addends = draws[clip["draw"]]["addends"]
        assert (addends["low"], addends["high"]) == (clip["low"], clip["high"])
        assert told["clip"] == f"[{clip['low']}, {clip['high']}]"
        assert (told["rows"], told["rows_below"], told["rows_above"]) == (clip["rows"], clip["below"], clip["above"])
        assert told["outside"].startswith("about ")
    page = (version.folder / "record.html").read_text(encoding="utf-8")
    assert "found in a noisy histogram of all rows" in page
    values = pq.read_table(version.folder / "data/ward.parquet").to_pydict()
    low, high = (float(clips[0][end]) for end in ("low", "high"))
    assert all(mean is None or low <= mean <= high for mean in values["mean_age_clipped"])


@BOTH
def test_the_charge_is_fixed_before_any_clip_is_known(tmp_path: Path, scenario: StatisticsScenario) -> None:
    """A budget of the later draws' parts beside the histograms and the other draws; together at most epsilon."""
    _, contract, plan, ledger = scenario.prepared_of(tmp_path, StatisticsPlan)
    ledger.close()
    budget = plan.events[-1]
    later = [draw.noise for draw in plan.draws if draw.clip is not None]
    assert budget.kind == ("pure" if plan.mechanism == "laplace" else "zero_concentrated")
    name = "epsilon" if plan.mechanism == "laplace" else "rho"
    assert getattr(budget, name) == sum(getattr(noise, name) for noise in later)
    assert len(plan.events) == plan.number - len(later) + 1
    shares = {draw.key: draw.share for draw in (*plan.clips, *plan.draws, *plan.choices)}
    assert sum(shares.values()) == 1
    assert shares[AGES] == Fraction(1, 4) / 2 / 10
    assert shares[BILLS] == Fraction(1, 2) / 2 / 5 + Fraction(1, 4) / 2 / 10
    assert plan.epsilon <= Decimal(scenario.epsilon) * 10**12
    k = contract.unit.max_rows_per_unit
    assert all(set(draw.event.moves) == {k} for draw in plan.clips)


def test_histograms_and_clipped_sums_are_those_of_the_rows(tmp_path: Path) -> None:
    """From the frame itself; a handle on a part of a lattice never gives the numbers of another part, or of all."""
    scenario = laplace()
    spec, contract, plan, ledger = scenario.prepared_of(tmp_path, StatisticsPlan)
    ledger.close()
    table = scenario.taken(tmp_path, spec, contract)
    (magnitudes,) = [draw.addends for draw in plan.clips if isinstance(draw.addends, ValueMagnitudes)][1:]
    whole = magnitudes.lattice
    parts = [magnitudes.narrowed(0, 32), magnitudes.narrowed(5, 64), magnitudes.narrowed(33, 360)]
    handles = SnapshotSums(table, contract).sums((), [whole, *parts, magnitudes])
    bills = np.nan_to_num(scenario.frame()["bill"].to_numpy())
    offsets = np.round(np.clip(bills, 0, 900) / 2.5).astype(np.int64)
    exact = [handle._read() for handle in handles]
    for lattice, found in zip([whole, *parts], exact, strict=False):
        first = lattice.first if isinstance(lattice, NarrowedLattice) else 0
        above = np.clip(offsets - first, 0, lattice.width)
        assert found.tolist() == [above.sum(), (lattice.width - above).sum()]
    wanted = [int(((offsets >= first) & (offsets <= last)).sum()) for first, last in magnitudes.bins]
    assert exact[-1].tolist() == wanted
    with duckdb.connect(str(table.path), read_only=True) as connection:
        assert connection.execute("SELECT count(*) FROM codes").fetchone() == (sum(wanted),)


def addends(place: int, **changed: Any) -> Callable[[Json], object]:
    return lambda record: record["replay"]["draws"][place]["addends"].update(changed)


def clip(place: int, **changed: Any) -> Callable[[Json], object]:
    return lambda record: record["replay"]["clips"][place].update(changed)


def narrower(record: Json) -> None:
    """State another part of the bounds, in draw and clip alike; a third of the ages lie above it."""
    for change in (addends(2, low="0", high="64"), clip(0, low="0", high="64")):
        change(record)


def repriced(record: Json) -> None:
    """The same, with moves and noise that fit it."""
    narrower(record)
    record["replay"]["draws"][2]["event"] = narrow_event(record["replay"]["draws"][2])


def repriced_entry(entries: list[Json]) -> None:
    body = [each for each in entries if each["kind"] == "noise_drawn"][2]["body"]
    body["event"] = narrow_event(body)


def narrow_event(drawn: Json) -> Json:
    """Return the event of the same part of the charge over 64 steps."""
    event = drawn["event"]
    part = Fraction(round(Fraction(event["inverse_scale"]) * sum(event["moves"]) * 10**12), 10**12)
    return {**event, "moves": [64], "inverse_scale": str(Fraction(int(part / 64 * 10**18), 10**18))}


def another_bin(folder: Path) -> None:
    """Move a noisy count of the histogram with its interval."""
    for column in ("noisy", "lower", "upper"):
        values = pq.read_table(folder / "measurements/0000-age.parquet").column(column).to_numpy()
        set_cell(folder / "measurements/0000-age.parquet", column, 9, values[9] + 500)


def declared(record: Json) -> None:
    """State that the spec declared the clip which was found."""
    draw = record["replay"]["draws"][2]["addends"]
    record["replay"]["product"]["tables"][0]["of"][1]["clip"] = [draw["low"], draw["high"]]


FORGERIES = {
    "another clip": Forgery({6}, "replay.draws[2].event.moves", narrower),
    "another clip that was paid for": Forgery(
        {9}, "as the histogram that was drawn for it says", repriced, repriced_entry
    ),
    "ends between bins": Forgery({5}, "replay.draws[2]", addends(2, low="5", high="70")),
    "ends that are no steps": Forgery({5}, "replay.draws[2]", addends(2, low="0.5", high="96")),
    "ends outside the bounds": Forgery({5}, "replay.draws[2]", addends(2, low="0", high="128")),
    "an end in another form": Forgery({5}, "replay.draws[2]", addends(2, high="9.6e1")),
    "fewer rows outside": Forgery({9}, "replay.clips[1].above", clip(1, above=-(10**6))),
    "another number of rows": Forgery({9}, "replay.clips[0].rows", clip(0, rows=5)),
    "another clip in words": Forgery({9}, "replay.clips[0].high", clip(0, high="4")),
    "no clips": Forgery({9}, "replay.clips", lambda record: record["replay"].pop("clips")),
    "a clip twice": Forgery({9}, "replay.clips", lambda r: r["replay"]["clips"].append(r["replay"]["clips"][0])),
    "a clip that was declared": Forgery({5}, "replay.draws", declared),
    "a histogram less": Forgery({5}, "replay.draws", lambda record: record["replay"]["draws"].pop(0)),
    "a histogram by cells": Forgery(
        {5, 6}, "replay.draws[0]", lambda record: record["replay"]["draws"][0].update(clique=["ward"])
    ),
    "a histogram that is a sum": Forgery({5, 6}, "replay.draws[0]", addends(0, magnitudes=None)),
    "a histogram that is a tree": Forgery({5, 6}, "replay.draws[0]", addends(0, resolution="1")),
    "another bin": Forgery({8}, "when it was drawn", files=another_bin),
    "another share": Forgery(
        {6},
        "the share of the charge",
        lambda record: record["replay"]["product"]["tables"][0]["of"][1]["clip"].update(share="0.2"),
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_clip_is_found(worlds: Worlds, tmp_path: Path, name: str) -> None:
    FORGERIES[name].check_found(worlds.published(laplace()).copy(tmp_path / "v"))


def test_the_forger_s_tools_alone_change_nothing(worlds: Worlds, tmp_path: Path) -> None:
    version = forge(worlds.published(laplace()).copy(tmp_path / "v"))
    version.assert_verifies()


@pytest.mark.long
@pytest.mark.parametrize("end", ["low", "high"])
def test_an_end_that_is_no_number_is_a_finding(worlds: Worlds, tmp_path: Path, end: str) -> None:
    """In a draw and in the stated clip: never a traceback."""
    texts = ("", "NaN", "Infinity", "-0", "9" * 400, "1e999999999", "1.0", "abc")
    changes = [change(place, **{end: text}) for text in texts for change, place in ((addends, 2), (clip, 0))]
    for number, change in enumerate(changes):
        version = forge(worlds.published(laplace()).copy(tmp_path / str(number)), record=change)
        assert broken(version.verify()), number


@pytest.mark.long
def test_a_table_of_few_rows_keeps_the_whole_bounds(tmp_path: Path, worlds: Worlds) -> None:
    """Nothing is found among three rows; other noise than this may make them look like many."""
    version = worlds.published(replace(laplace(), rows=3, release="few"))
    assert version.verify().ok
    ends = [(each["low"], each["high"]) for each in replayed(version)["clips"]]
    assert ends == [("0", "99"), ("0", "900"), ("0", "900")]
