"""The benchmark of engines: what its model of time says, and that its search finds what was planted."""

from dataclasses import replace
from pathlib import Path
from random import Random

import duckdb
import pytest

from benchmarks._platform_data import write_contract, write_rows
from benchmarks._spark_traces import Planted, found_in, written
from benchmarks._time_model import Point, fitted
from contracts.contract.odcs import load_contract

SIZES = (10**6, 10**7, 10**8)


def points(base: float, serial: float, shared: float, *, off: float = 0.0) -> list[Point]:
    """Times of one and two workers, every second one too long by a share."""
    places = [(rows, workers) for rows in SIZES for workers in (1, 2)]
    return [
        Point(rows, workers, (base + serial * rows + shared * rows / workers) * (1 + off * (number % 2)))
        for number, (rows, workers) in enumerate(places)
    ]


@pytest.mark.parametrize(
    ("base", "serial", "shared"), [(20.0, 0.0, 4e-6), (0.0, 2e-6, 1e-5), (300.0, 1e-8, 1e-8), (45.0, 1e-5, 0.0)]
)
def test_times_of_the_model_give_the_model_back(base: float, serial: float, shared: float):
    model = fitted(points(base, serial, shared))
    assert model is not None
    assert (model.base, model.serial * 1e8, model.shared * 1e8) == pytest.approx(
        (base, serial * 1e8, shared * 1e8), rel=1e-6, abs=1e-6
    )
    assert model.largest_error < 1e-6
    assert model.left_out_error is not None
    assert model.left_out_error < 1e-6
    assert model.seconds(10**10, 64) == pytest.approx(base + serial * 10**10 + shared * 10**10 / 64)


def test_times_that_differ_from_the_model_say_by_how_much():
    """Times that are a fifth too long at one size alone: no model is right for all, and the fit lies between."""
    off = [
        replace(each, seconds=each.seconds * (1.2 if each.rows == 10**7 else 1)) for each in points(20.0, 0.0, 4e-6)
    ]
    model = fitted(off)
    assert model is not None
    assert 0.02 < model.largest_error < 0.2
    assert model.left_out_error is not None
    assert model.left_out_error > model.largest_error


def test_times_that_grow_with_more_workers_give_no_number_below_zero():
    model = fitted([Point(each.rows, each.workers, each.seconds * each.workers) for each in points(20.0, 0.0, 4e-6)])
    assert model is not None
    assert min(model.base, model.serial, model.shared) >= 0
    assert model.largest_error > 0.1


@pytest.mark.parametrize(
    "few",
    [
        [],
        points(20.0, 0.0, 4e-6)[:2],
        points(20.0, 0.0, 4e-6)[::2],
        [Point(10, 1, 1.0), Point(20, 2, 1.0), Point(40, 4, 1.1)],
    ],
)
def test_too_few_points_and_one_number_of_workers_tell_nothing(few: list[Point]):
    assert fitted(few) is None


def test_a_point_that_is_left_out_needs_three_others_that_tell_all():
    model = fitted(points(20.0, 1e-6, 4e-6)[:3])
    assert model is not None
    assert (model.base, model.left_out_error) == (pytest.approx(20.0), None)


def test_what_is_planted_is_read_with_the_other_rows_and_no_contract_names_it(tmp_path: Path):
    planted, other = Planted.drawn(Random(7)), Planted.drawn(Random(8))
    write_contract(tmp_path / "people.odcs.yaml")
    write_rows(tmp_path / "people", rows=100)
    for each in (other, planted):
        each.write(tmp_path / "people")
    assert not found_in({"contract": (tmp_path / "people.odcs.yaml").read_bytes()}, planted.forms)
    contract = load_contract(tmp_path / "people.odcs.yaml")
    with duckdb.connect() as connection:
        read = connection.execute(f"FROM read_parquet('{tmp_path}/people/*.parquet')").to_arrow_table()
    assert read.num_rows == 100 + len(planted.texts)
    assert read.column_names == list(contract.source_columns)
    values = {each for column in read.columns for each in column.to_pylist()}
    assert {*planted.texts, *planted.incomes} <= values
    assert not {*other.texts, *other.incomes} & values


def test_the_search_finds_each_form_in_a_file(tmp_path: Path):
    """Texts, digits and either order of a number's bytes, all of them, and no value that was never written."""
    planted = Planted.drawn(Random(9))
    for number, form in enumerate(planted.forms.values()):
        (tmp_path / f"{number}.spill").write_bytes(b"\x00before" + form + b"after\xff")
    found = found_in(written(tmp_path), planted.forms)
    assert {name: len(places) for name, places in found.items()} == dict.fromkeys(planted.forms, 1)
    assert not found_in(written(tmp_path), Planted.drawn(Random(10)).forms)
    assert not written(tmp_path, but=".spill")
