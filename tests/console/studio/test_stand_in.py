"""The made-up table: it follows from contract, plan and a slider alone, and its noise has the plan's law."""

from __future__ import annotations

import inspect
from math import log
from pathlib import Path
from statistics import NormalDist
from typing import Any

import pytest

from console.studio import stand_in as module
from console.studio.outlook_lines import lines_of, number_text
from console.studio.stand_in import made_up_count, noise_parts, stand_in
from contracts.contract.contract import Contract
from contracts.contract.odcs import load_contract

ADULT = Path(__file__).parents[3] / "examples" / "adult" / "adult.odcs.yaml"
REACH = 9


@pytest.fixture(scope="module")
def contract() -> Contract:
    return load_contract(ADULT)


def table(columns: list[str], cells: int, kind: str = "discrete_laplace") -> dict[str, Any]:
    draw = {
        "columns": columns,
        "cells": cells,
        "share": 1.0,
        "interval_95": REACH,
        "noise_below_rows": 1,
        "event": {"kind": kind},
    }
    return lines_of({"draws": [draw]})[0]


@pytest.mark.parametrize(
    ("kind", "law"),
    [
        ("discrete_laplace", lambda share, reach: -reach / log(20) * log(2 - 2 * share)),
        ("discrete_gaussian", lambda share, reach: NormalDist(0, reach / 1.959963984540054).inv_cdf(share)),
    ],
)
def test_noise_stands_at_the_quantiles_of_its_law(kind: str, law: Any) -> None:
    """A second derivation: the upper half of the parts are the quantiles, and 95 % of the parts lie within the reach.

    The wrong twin: parts of the other law are found out.
    """
    parts = sorted(noise_parts(kind, REACH, 2000))
    upper = [law((place + 0.5) / 2000, REACH) for place in range(1000, 2000)]
    assert parts[1000:] == pytest.approx(upper)
    assert parts[:1000] == pytest.approx([-part for part in reversed(parts[1000:])])
    assert sum(abs(part) <= REACH for part in parts) == 1900
    other = {"discrete_laplace": "discrete_gaussian"}.get(kind, "discrete_laplace")
    assert sorted(noise_parts(other, REACH, 2000))[1000:] != pytest.approx(upper, rel=0.05)


def test_a_small_table_has_the_labels_of_the_contract(contract: Contract) -> None:
    drawn = stand_in(table(["sex", "race"], 10), contract, 1000)
    assert drawn is not None
    assert [bar.name for bar in drawn.bars[:2]] == ["Female × White", "Female × Asian-Pac-Islander"]
    assert sum(int(bar.made_up.replace(",", "")) for bar in drawn.bars) == pytest.approx(1000, abs=5)
    assert all(bar.reach == str(REACH) for bar in drawn.bars)


def test_cells_that_cannot_be_have_no_bar(contract: Contract) -> None:
    """Where the plan counts fewer cells than the contract's labels make, ranks stand in the place of labels."""
    drawn = stand_in(table(["sex", "race"], 9), contract, 1000)
    assert drawn is not None
    assert {bar.name for bar in drawn.bars} == {""}
    assert [bar.rank for bar in drawn.bars] == sorted({bar.rank for bar in drawn.bars})


@pytest.mark.parametrize("cells", [1, 2, 12, 13, 1000, 1001, 10**7])
def test_any_table_has_a_picture_of_few_bars(cells: int) -> None:
    drawn = stand_in(table(["a", "b"], cells), None, 10_000)
    assert drawn is not None
    assert 1 <= len(drawn.bars) <= 12
    assert (drawn.bars[0].rank, drawn.bars[-1].rank) == (1, cells)


def test_cells_clear_of_the_noise_are_counted() -> None:
    """By the formula, and by counting every cell."""
    for cells, size in ((32, 500), (32, 10_000), (5000, 100_000)):
        drawn = stand_in(table(["a"], cells), None, size)
        assert drawn is not None
        counted = sum(made_up_count(rank, cells, size) > REACH for rank in range(1, cells + 1))
        assert drawn.clear == pytest.approx(counted, abs=max(1, 0.06 * cells))
        assert drawn.size == size


def test_statistics_stand_within_their_bounds() -> None:
    """A mean in the middle of its column, a quantile by rank, a sum of a cell; no bar without a scale."""
    expected = [
        {"statistic": "count", "half_width_95": 16.4},
        {"statistic": "mean_age", "half_width_95": 8.0, "rows": 100, "clip": 73.0},
        {"statistic": "q50_age", "half_width_95": 74.0, "ranks": True},
        {"statistic": "sum_age", "half_width_95": 1200.0},
        {"statistic": "ratio_age_over_hours", "half_width_95": 2.0, "rows": 100},
        {"statistic": "mean_age", "half_width_95": 1.0, "rows": 100, "clip": 20.0, "if": "a narrower clip"},
    ]
    of = {"column": "age", "low": "17", "high": "90"}
    draws = [{"key": "table:sex/age", "of": of, "event": {"kind": "discrete_laplace"}}]
    told = {"table": "sex", "columns": ["sex"], "cells": 2, "share": 1.0, "expected": expected}
    drawn = stand_in(lines_of({"statistics": [told], "draws": draws})[0], None, 1000)
    assert drawn is not None
    named = {bar.name: (bar.rows, bar.made_up, bar.reach) for bar in drawn.bars if bar.name}
    assert named == {
        "mean_age": (100, "53.5", "8"),
        "q50_age": (0, "250", "74"),
        "sum_age": (0, "22,500", "1,200"),
    }
    assert drawn.bars[0].reach == "17"


def test_steps_of_a_generator_have_no_picture() -> None:
    line = lines_of({"steps": [{"what": "one-way marginals", "share": 1.0}]})[0]
    assert stand_in(line, None, 1000) is None


def test_nothing_is_drawn_at_random_and_nothing_is_opened() -> None:
    """Twice the same picture; the module imports no source of chance, no door of noise, and opens nothing."""
    assert stand_in(table(["a"], 40), None, 77) == stand_in(table(["a"], 40), None, 77)
    source = inspect.getsource(module)
    imported = [line for line in source.splitlines() if line.startswith(("import ", "from "))]
    for word in ("random", "secrets", "privacy.noise", "privacy.grant", "pathlib", "tasks.storage"):
        assert not any(word in line for line in imported), word
    assert "open(" not in source


def test_numbers_are_short() -> None:
    assert [number_text(value) for value in (0, 16, 0.08071, 8.071, 239659.6, -3)] == [
        "0",
        "16",
        "0.0807",
        "8.07",
        "239,660",
        "−3",
    ]
