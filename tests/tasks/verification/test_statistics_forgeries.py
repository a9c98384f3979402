"""Forged versions of each kind of statistic: whatever its publisher signs again, a rule finds it."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from privacy.grant.queries.keys import packed, packed_counts
from tasks.verification.refinement_replay import values_sha256
from tests.tasks.verification.forgery import (
    Change,
    Forgery,
    Json,
    both,
    cell,
    draw_of,
    drawn,
    edit_table,
    forge,
    load,
    moved,
    of_kind,
    replay,
    set_cell,
    undrawn,
)
from tests.worlds import distinct_counts, private_keys
from tests.worlds import statistic_kinds as kinds
from tests.worlds.statistics import StatisticsScenario
from tests.worlds.versions import Worlds, broken


def table(place: int, change: Change) -> Change:
    return replay(lambda r: change(r["product"]["tables"][place]))


def statistic(**changed: Any) -> Change:
    """Change the second statistic of the first table."""
    return table(0, lambda t: t["of"][1].update(changed))


def swapped(path: Callable[[Path], Path]) -> Callable[[Path], object]:
    return lambda folder: edit_table(path(folder), lambda rows: rows.take([1, 0, *range(2, len(rows))]))


# --- clips that a noisy histogram gives ---------------------------------------------------------------------------


def clip(place: int, **changed: Any) -> Change:
    return replay(lambda r: r["clips"][place].update(changed))


def narrow_event(draw: Json) -> Json:
    """Return the event of the same part of the charge over 64 steps."""
    event = draw["event"]
    part = Fraction(round(Fraction(event["inverse_scale"]) * sum(event["moves"]) * 10**12), 10**12)
    return {**event, "moves": [64], "inverse_scale": str(Fraction(int(part / 64 * 10**18), 10**18))}


def repriced(draw: Json) -> None:
    draw["event"] = narrow_event(draw)


def declared(record: Json) -> None:
    """State that the spec declared the clip which was found."""
    draw = draw_of(record, 2)["addends"]
    statistic(clip=[draw["low"], draw["high"]])(record)


NARROWER = both(drawn(2, "addends", low="0", high="64"), clip(0, low="0", high="64"))
"""Another part of the bounds, in draw and clip alike; a third of the ages lie above it."""
CLIPS = {
    "another clip": Forgery({6}, NARROWER, says="replay.draws[2].event.moves"),
    "another clip that was paid for": Forgery(
        {9},
        both(NARROWER, lambda record: repriced(draw_of(record, 2))),
        lambda entries: repriced([each for each in entries if each["kind"] == "noise_drawn"][2]["body"]),
        says="as the histogram that was drawn for it says",
    ),
    "ends between bins": Forgery({5}, drawn(2, "addends", low="5", high="70"), says="replay.draws[2]"),
    "ends that are no steps": Forgery({5}, drawn(2, "addends", low="0.5", high="96"), says="replay.draws[2]"),
    "ends outside the bounds": Forgery({5}, drawn(2, "addends", low="0", high="128"), says="replay.draws[2]"),
    "an end in another form": Forgery({5}, drawn(2, "addends", high="9.6e1"), says="replay.draws[2]"),
    "fewer rows outside": Forgery({9}, clip(1, above=-(10**6)), says="replay.clips[1].above"),
    "another number of rows": Forgery({9}, clip(0, rows=5), says="replay.clips[0].rows"),
    "another clip in words": Forgery({9}, clip(0, high="4"), says="replay.clips[0].high"),
    "no clips": Forgery({9}, replay(lambda r: r.pop("clips")), says="replay.clips"),
    "a clip twice": Forgery({9}, replay(lambda r: r["clips"].append(r["clips"][0])), says="replay.clips"),
    "a clip that was declared": Forgery({5}, declared, says="replay.draws"),
    "a histogram less": Forgery({5}, replay(lambda r: r["draws"].pop(0)), says="replay.draws"),
    "a histogram by cells": Forgery({5, 6}, drawn(0, clique=["ward"]), says="replay.draws[0]"),
    "a histogram that is a sum": Forgery({5, 6}, drawn(0, "addends", magnitudes=None), says="replay.draws[0]"),
    "a histogram that is a tree": Forgery({5, 6}, drawn(0, "addends", resolution="1"), says="replay.draws[0]"),
    "another bin": Forgery({8}, files=moved("measurements/0000-age.parquet", 9, 500), says="when it was drawn"),
    "another share": Forgery(
        {6}, table(0, lambda t: t["of"][1]["clip"].update(share="0.2")), says="the share of the charge"
    ),
}

# --- weights ------------------------------------------------------------------------------------------------------


def weight(place: int, **changed: object) -> Change:
    return lambda record: draw_of(record, place)["addends"]["weight"].update(changed)


def weight_asked(**changed: Any) -> Change:
    """State another weight of the second table, in the spec and in its draw."""
    ends = {key: value for key, value in changed.items() if key == "step"}
    ends |= {"high": changed["clip"][1]} if "clip" in changed else {}
    return both(table(1, lambda t: t["survey_weight"].update(changed)), drawn(1, "addends", **ends))


WARD = "data/ward.parquet"
WEIGHTS = {
    "a weight that moves less": Forgery({6}, drawn(0, "event", moves=[1800]), says="[178200]"),
    "a count that moves 1": Forgery({6}, drawn(1, "event", moves=[1]), says="[160]"),
    "a lower clip of the weight": Forgery({6}, weight(0, high="50"), says="[90000]"),
    "a coarser step of the weight": Forgery({6}, weight(0, step="33"), says="[5400]"),
    "a weight that does not start at 0": Forgery({6}, weight(0, low="9"), says="a weight that starts at 0"),
    "a weight above its bounds": Forgery({6}, weight(0, high="198"), says="within the bounds [0, 99]"),
    "a weight of another column": Forgery({6}, weight(0, column="floor"), says="a column of weights"),
    "missing weights counted otherwise": Forgery({6}, weight(0, counts_missing=False), says="as the contract says"),
    "a weight that is no number": Forgery({6}, weight(0, step="fine"), says="no lattice"),
    "no weight": Forgery({6}, undrawn(0, "addends", "weight"), says="[1800]"),
    "values in place of a count": Forgery({6}, undrawn(1, "addends", "counts_rows"), says="replay.draws"),
    "a count in place of values": Forgery({6}, drawn(0, "addends", counts_rows=True), says="no lattice"),
    "a count by resolution": Forgery({6}, drawn(1, "addends", resolution="5"), says="no lattice"),
    "another clip, in the spec too": Forgery({6}, weight_asked(clip=["0", "200"]), says="[80]"),
    "another step, in the spec too": Forgery({6}, weight_asked(step="5"), says="[80]"),
    "a noisy count": Forgery({8}, files=cell("measurements/0001-ward_x_age_x_bill.parquet", "noisy", 3, 10**6)),
    "a weighted count": Forgery({9}, files=cell(WARD, "count", 0, 5.0)),
    "an end of a weighted count": Forgery({9}, files=cell("data/wards.parquet", "count_high", 1, 2.5)),
    "a weighted mean": Forgery({9}, files=cell(WARD, "mean_bill", 0, 1.0)),
    "a weighted quantile": Forgery({9}, files=cell("data/all.parquet", "q25_age", 0, 1.0)),
}
SIZES = {
    "squares that move by one weight": Forgery({6}, drawn(0, "event", moves=[99]), says="[9801]"),
    "a weight that is not weighted": Forgery({6}, undrawn(0, "addends", "weight"), says="[99]"),
    "another size": Forgery({9}, files=cell(WARD, "effective_size_age", 0, 1.0)),
    "a narrower end": Forgery({9}, files=cell("data/all.parquet", "effective_size_bill_low", 0, 99.0)),
}

# --- units and distinct values: places of the draws of the first table, after its counts ----------------------------

PEOPLE, NOTES, FLOORS = 1, 2, 3
DISTINCT = {
    "a noisy number of units": Forgery({8}, files=cell("measurements/0001-ward_x_units.parquet", "noisy", 1, 10**6)),
    "a noisy number of values": Forgery({8}, files=cell("measurements/0002-ward_x_note.parquet", "noisy", 1, 10**6)),
    "units": Forgery({9}, files=cell(WARD, "units", 0, 4)),
    "an end of values": Forgery({9}, files=cell(WARD, "distinct_note_high", 0, 10**6)),
    "values": Forgery({9}, files=cell("data/every.parquet", "distinct_age", 0, 7)),
    "rows of a unit that move one value": Forgery({6}, drawn(NOTES, "event", moves=[1])),
    "a unit in one cell": Forgery({6}, drawn(PEOPLE, "event", moves=[1])),
    "a unit in fewer cells, farther": Forgery({6}, drawn(PEOPLE, "event", moves=[3])),
    "texts that somebody declared": Forgery({6}, drawn(NOTES, "addends", values=1)),
    "fewer values than are declared": Forgery({6}, drawn(FLOORS, "addends", values=1)),
    "no values": Forgery({6}, drawn(FLOORS, "addends", values=0)),
    "values of a column that nobody counts": Forgery({6}, undrawn(FLOORS, "addends", "values")),
    "another column": Forgery({5}, drawn(NOTES, "addends", column="ward", values=3)),
    "no column of the contract": Forgery({6}, drawn(NOTES, "addends", column="patient")),
    "values that are units": Forgery({6}, drawn(NOTES, "addends", counts="units")),
    "units that are values": Forgery({6}, drawn(PEOPLE, "addends", counts="values")),
    "units of a column": Forgery({6}, drawn(PEOPLE, "addends", column="ward")),
    "cells that nobody declared": Forgery({6}, drawn(PEOPLE, "addends", declared_cells=False)),
    "a lattice": Forgery(
        {6}, drawn(FLOORS, addends={"column": "floor", "low": "0", "high": "9", "step": "1", "counts_missing": True})
    ),
}

# --- variances, and sums alone --------------------------------------------------------------------------------------


def deviation_of_nobody(folder: Path) -> None:
    rows = pl.read_parquet(folder / "data/zeros.parquet")["sd_bill"].is_null()
    set_cell(folder / "data/zeros.parquet", "sd_bill", int(rows.arg_max()), 225.0)  # type: ignore[arg-type]


def more_digits(folder: Path) -> None:
    found = pl.read_parquet(folder / WARD)["variance_age"]
    row = int(found.is_not_null().arg_max())  # type: ignore[arg-type]
    set_cell(folder / WARD, "variance_age", row, found[row] + 0.0625)


def nobody_there(folder: Path) -> None:
    edit_table(folder / "data/only.parquet", lambda rows: rows.append_column("near_zero", [[True] * len(rows)]))


MOMENTS = {
    "a moment": Forgery({8}, files=cell("measurements/0000-ward_x_age.parquet", "noisy", 3, 10**9)),
    "a variance": Forgery({9}, files=cell(WARD, "variance_age", 0, 1.0)),
    "an end of a variance": Forgery({9}, files=cell(WARD, "variance_age_high", 1, 98.5)),
    "a deviation of nobody": Forgery({9}, files=deviation_of_nobody),
    "more digits than were published": Forgery({9}, files=more_digits),
    "a deviation": Forgery({9}, files=cell("data/all.parquet", "sd_bill_clipped_low", 0, 3.0)),
    "a sum alone": Forgery({9}, files=cell("data/only.parquet", "sum_age_clipped", 0, 7.0)),
    "a column that says nobody is there": Forgery({9}, files=nobody_there),
    "fewer steps": Forgery({6}, drawn(0, "addends", whole=99**2)),
    "no steps": Forgery({6}, drawn(0, "addends", whole=0)),
    "steps below 0": Forgery({6}, drawn(0, "addends", whole=-4)),
    "steps beyond all bounds": Forgery({6}, drawn(0, "addends", whole=10**30)),
    "moments that are two sums": Forgery({6}, undrawn(0, "addends", "whole")),
    "a sum alone that is two sums": Forgery({6}, undrawn(4, "addends", "alone")),
    "two sums that are one": Forgery({6}, drawn(3, "addends", alone=True)),
    "both forms": Forgery({6}, drawn(4, "addends", whole=65536)),
    "the length of the clip for the move": Forgery({6}, drawn(4, "event", moves=[60])),
}

# --- sums within a quota of each unit -------------------------------------------------------------------------------


def quota(value: str, *more: Change) -> Change:
    return both(drawn(0, "addends", per_unit=value), *more)


QUOTAS = {
    "a larger quota": Forgery({6}, quota("450")),
    "a smaller quota": Forgery({6}, quota("200")),
    "no quota": Forgery({6}, undrawn(0, "addends", "per_unit")),
    "a quota in another spelling": Forgery({6}, quota("4e2")),
    "a quota that is no number": Forgery({6}, quota("much")),
    "a quota of broken steps": Forgery({5}, quota("401", statistic(per_unit="401"))),
    "a quota that bounds nothing": Forgery({5}, quota("1500", statistic(per_unit="1500"))),
    "a larger quota, in the product too": Forgery({6}, quota("450", statistic(per_unit="450"))),
    "a larger quota, with its moves": Forgery(
        {6}, quota("450", statistic(per_unit="450"), drawn(0, "event", moves=[180]))
    ),
    "a smaller move": Forgery({6}, drawn(0, "event", moves=[80])),
    "the rows of a unit for the move": Forgery({6}, drawn(0, "event", moves=[600])),
    "a product without the quota": Forgery({5}, table(0, lambda t: t["of"][1].pop("per_unit"))),
    "a sum": Forgery({9}, files=cell("data/alone.parquet", "sum_age_clipped", 0, 7.0)),
    "a count beside it": Forgery({9}, files=cell(WARD, "count", 0, 7)),
}

# --- quantiles: by a tree of counts, and chosen by the exponential mechanism ----------------------------------------

AGES = "measurements/0001-ward_x_age.parquet"
TREES = {
    "a node": Forgery({8}, files=cell(AGES, "noisy", 3, 10**6)),
    "a quantile": Forgery({9}, files=cell(WARD, "q50_age", 0, 1.0)),
    "an end": Forgery({9}, files=cell(WARD, "q97.5_age_high", 1, 98.5)),
    "nodes in another order": Forgery({8}, files=swapped(lambda folder: folder / AGES)),
    "another resolution": Forgery({6}, drawn(1, "addends", resolution="2")),
    "no resolution": Forgery({6}, undrawn(1, "addends", "resolution")),
    "a resolution that is no number": Forgery({6}, drawn(1, "addends", resolution="fine")),
    "a resolution of nothing": Forgery({6}, drawn(1, "addends", resolution="0")),
    "a resolution of infinity": Forgery({6}, drawn(1, "addends", resolution="Infinity")),
    "fewer moves": Forgery({6}, drawn(1, "event", moves=[1])),
}
CHOICE = "table:ward/choice/age"


def chosen(folder: Path) -> Path:
    return folder / str(draw_of(load(folder / "record.json"), CHOICE)["measurements"])


def quantiles(*wanted: str) -> Change:
    return drawn(CHOICE, "choices", quantiles=list(wanted))


CHOICES = {
    "a choice": Forgery({8}, files=lambda folder: set_cell(chosen(folder), "chosen", 3, 17)),
    "a choice beyond the clip": Forgery({8}, files=lambda folder: set_cell(chosen(folder), "chosen", 3, 10**6)),
    "choices in another order": Forgery({8}, files=swapped(chosen)),
    "a published quantile": Forgery({9}, files=cell(WARD, "q50_age", 0, 1.0)),
    "an end": Forgery({9}, files=cell(WARD, "q10_age_high", 1, 98.5)),
    "another lattice": Forgery({5}, drawn(CHOICE, "choices", high="98")),
    "other quantiles": Forgery({5}, quantiles("0.1", "0.5", "0.9")),
    "quantiles in another order": Forgery({6}, quantiles("0.5", "0.1", "0.975")),
    "no quantiles": Forgery({6}, quantiles()),
    "a quantile that is no number": Forgery({6}, quantiles("NaN", "0.5", "0.975")),
    "a lower price": Forgery({6}, drawn(CHOICE, "event", epsilon="1/100")),
    "noise in the place of a choice": Forgery(
        {6}, drawn(CHOICE, event={"kind": "discrete_laplace", "inverse_scale": "1/100", "moves": [1]})
    ),
}

# --- shares, suppressed cells and refined counts --------------------------------------------------------------------

SHARES = {
    "tables that shared by weight": Forgery(
        {6}, replay(lambda r: r["product"].pop("split")), says="share of the charge"
    )
}


def shown(name: str, columns: dict[str, Any]) -> Callable[[Path], object]:
    """Give the first suppressed row of a file these values, and take its mark away."""

    def change(rows: pa.Table) -> pa.Table:
        row = int(np.flatnonzero(rows.column("suppressed").to_numpy())[0])
        for column, value in columns.items():
            values = rows.column(column).to_pylist()
            values[row] = value
            place, field = rows.schema.get_field_index(column), rows.schema.field(column)
            rows = rows.set_column(place, field, pa.array(values, field.type))
        return rows

    return lambda folder: edit_table(folder / name, change)


def rule(**changed: Any) -> Change:
    return replay(lambda r: r["product"]["minimum_frequency"].update(changed))


SUMS, HOW_MANY = "measurements/0000-ward_x_age_x_age.parquet", "data/how many.parquet"
COUNT = {"count": 500, "count_low": 490, "count_high": 510, "near_zero": False, "suppressed": False}
QUANTILE = {"what": "quantiles", "column": "age", "quantiles": ["0.5"]}
SUPPRESSED = {
    "a suppressed cell with a count": Forgery({9}, files=shown(HOW_MANY, COUNT)),
    "a value beside the mark": Forgery({9}, files=shown(HOW_MANY, {"count": 500})),
    "a noisy count of a suppressed cell": Forgery(
        {8}, files=shown("measurements/0002-insured_x_floor.parquet", {"noisy": 3})
    ),
    "a sum of a suppressed cell": Forgery({8}, files=shown(SUMS, {"noisy": 3})),
    "a suppressed sum unmarked": Forgery(
        {8}, files=shown(SUMS, {"noisy": 9000, "lower": 8191, "upper": 9809, "suppressed": False})
    ),
    "a lower k": Forgery({8}, rule(k=3)),
    "a higher probability": Forgery({8}, rule(at_most="0.4")),
    "quantiles beside the rule": Forgery({5}, table(2, lambda t: t["of"].append(QUANTILE))),
    "no rule": Forgery({8}, replay(lambda r: r["product"].pop("minimum_frequency"))),
    "a rule that is none": Forgery({5}, rule(at_most=None)),
}


def refine(**changed: Any) -> Change:
    return replay(lambda r: r["product"]["refine"].update(changed))


REFINED = {
    "a refined count": Forgery({9}, files=cell("data/many.parquet", "count_refined", 0, 7)),
    "another lambda": Forgery({9}, refine(lambda_="0.3")),
    "another method": Forgery({9}, refine(method="simplex", lambda_=None)),
    "no refinement": Forgery({9}, replay(lambda r: r["product"].pop("refine"))),
    "a lambda that is none": Forgery({5}, refine(lambda_="auto")),
}

# --- keys that nobody declared: selected, and selected and counted by one draw --------------------------------------


def selected(change: Callable[[list[str]], object]) -> Change:
    return lambda record: change(draw_of(record, 0)["selected"])


def another_key(keys: list[str]) -> None:
    keys[1] = "broken leg"


def with_its_digest(words: Callable[[list[tuple[str]]], Any]) -> Change:
    """State another key with the digest that a draw of it would have."""

    def change(record: Json) -> None:
        selected(another_key)(record)
        keys = sorted(draw_of(record, 0)["selected"])
        draw_of(record, 0)["sha256"] = values_sha256(words([(key,) for key in keys]))

    return change


def failing_part(change: Change) -> Change:
    return lambda entries: change(of_kind(entries, "charge_reserved")["parts"][0])


def cheaper(entries: list[Json]) -> None:
    of_kind(entries, "charge_reserved")["events"][0].update(delta="1/1000000000000")
    of_kind(entries, "noise_drawn")["event"].update(delta="1/1000000000000")


NOTE = "data/note.parquet"
KEYS = {
    "a key in the record": Forgery({6}, selected(another_key)),
    "a key with its digest": Forgery({6}, with_its_digest(packed)),
    "keys in another order": Forgery({6}, selected(lambda keys: keys.reverse())),
    "a key that no contract allows": Forgery({6}, selected(lambda keys: keys.append("x" * 41))),
    "a key of a declared column": Forgery({6}, drawn(0, clique=["ward"])),
    "a selection of no column": Forgery({6}, drawn(0, clique=[])),
    "more keys of a unit": Forgery({6}, drawn(0, "event", groups=2)),
    "no selection at all": Forgery({5}, replay(lambda r: r["draws"].pop(0))),
    "a selection that fails more seldom": Forgery({6}, drawn(0, "event", delta="1/1000000000000"), cheaper),
    "a smaller sum of failures": Forgery({7}, journal=failing_part(lambda part: part.update(failure_after=0))),
    "no sum of failures": Forgery(
        {7}, journal=failing_part(lambda part: (part.pop("failure_before"), part.pop("failure_after")))
    ),
    "an account that sets nothing aside": Forgery(
        {7}, journal=lambda entries: of_kind(entries, "account_opened")["calculus"].pop("selection_delta")
    ),
    "a count": Forgery({9}, files=cell(NOTE, "count", 0, 10**6)),
    "a sum of a key": Forgery({8}, files=cell("measurements/0001-note_x_bill.parquet", "noisy", 0, 10**9)),
}
FEW_KEYS = {"more keys of a unit": Forgery({5}, drawn(0, "event", groups=2))}
COUNTED = "measurements/0000-note_x_keys.parquet"
COUNTED_KEYS = {
    "a key in the record": Forgery({8}, selected(another_key)),
    "a key with a digest": Forgery({6}, with_its_digest(lambda keys: packed_counts(keys, np.zeros(7, np.int64)))),
    "keys in another order": Forgery({6}, selected(lambda keys: keys.reverse())),
    "a key that no contract allows": Forgery({6}, selected(lambda keys: keys.append("x" * 41))),
    "another kind of draw": Forgery({5}, drawn(0, kind="keys", shape=[], measurements=None)),
    "more coins of a unit": Forgery({6}, drawn(0, "event", groups=2)),
    "a count": Forgery({9}, files=cell(NOTE, "count", 0, 10**6)),
    "an interval": Forgery({9}, files=cell(NOTE, "count_low", 0, 1)),
    "what was drawn": Forgery({8}, files=cell(COUNTED, "noisy", 0, 10**4)),
    "a count below the threshold": Forgery({8}, files=cell(COUNTED, "noisy", 0, 1)),
}

KINDS: dict[str, tuple[Callable[[], StatisticsScenario], dict[str, Forgery]]] = {
    "clips": (kinds.clips, CLIPS),
    "weights": (kinds.weights, WEIGHTS),
    "effective sizes": (kinds.sizes, SIZES),
    "distinct values": (distinct_counts.laplace, DISTINCT),
    "moments": (kinds.moments, MOMENTS),
    "quotas": (kinds.quotas, QUOTAS),
    "trees": (kinds.trees, TREES),
    "choices": (kinds.choices, CHOICES),
    "shares": (kinds.shares, SHARES),
    "suppressed cells": (kinds.suppressed, SUPPRESSED),
    "refined counts": (kinds.refined, REFINED),
    "keys": (private_keys.pure, KEYS),
    "few keys": (private_keys.few_groups, FEW_KEYS),
    "counted keys": (private_keys.counted, COUNTED_KEYS),
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, (_, forged) in KINDS.items() for name in forged])
def test_a_forgery_is_found_by_the_rule_it_breaks(worlds: Worlds, tmp_path: Path, kind: str, name: str):
    """Everything is signed again; other rules may break beside it, since words and losses follow from the record."""
    scenario, forgeries = KINDS[kind]
    forgeries[name].check_found(worlds.published(scenario()).copy(tmp_path / "v"))


@pytest.mark.parametrize("kind", KINDS)
def test_the_forger_s_tools_alone_change_nothing(worlds: Worlds, tmp_path: Path, kind: str):
    scenario, _ = KINDS[kind]
    forge(worlds.published(scenario()).copy(tmp_path / "v")).assert_verifies()


@pytest.mark.long
@pytest.mark.parametrize("end", ["low", "high"])
def test_an_end_of_a_clip_that_is_no_number_is_a_finding(worlds: Worlds, tmp_path: Path, end: str):
    """In a draw and in the stated clip: never a traceback."""
    texts = ("", "NaN", "Infinity", "-0", "9" * 400, "1e999999999", "1.0", "abc")
    changes = [change for text in texts for change in (drawn(2, "addends", **{end: text}), clip(0, **{end: text}))]
    for number, change in enumerate(changes):
        version = forge(worlds.published(kinds.clips()).copy(tmp_path / str(number)), record=change)
        assert broken(version.verify()), number
