"""Published units and distinct values: possible numbers, and intervals that hold in 95 % of releases."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from contracts.domains.addends import DistinctCount
from contracts.release.statistics import StatisticsTable
from privacy.grant.sampled_noise import SampledNoise
from privacy.marginals.cell_sums import cell_sum_event
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise, Noise
from privacy.noise.random_bytes import SeededBytes
from privacy.statistics.table import Columns, NoisyNumbers, table_values

RELEASES = 2000
TRUE = (0, 1, 3, 40, 99, 100)
"""How many values cells have; 100 are declared."""
FALSE_ALARM = 1e-9


def published(counted: DistinctCount, noise: Noise, rows: int, *, scale: int = 1) -> Columns:
    name = "units" if counted.column is None else "distinct_age"
    of = ["units"] if counted.column is None else [{"distinct": "age"}]
    table = StatisticsTable.model_validate({"by": ["ward", "floor"], "of": of})
    event = cell_sum_event(noise, counted, adjacency="add_remove", rows_per_unit=rows, cells=len(TRUE))
    shape = (RELEASES, len(TRUE), 1)
    drawn = SampledNoise(SeededBytes(5)).integers(int(np.prod(shape)), event=event).reshape(shape)
    values = np.array(TRUE)[None, :, None] + scale * drawn
    found = table_values(table, {counted.key: NoisyNumbers(values, event, counted)}, np.zeros(shape[:2], np.bool_))
    assert list(found) == [name, f"{name}_low", f"{name}_high"]
    return found


@pytest.mark.stat
@pytest.mark.parametrize("noise", [LaplaceNoise(Fraction(1, 2)), GaussianNoise(Fraction(1, 50))])
@pytest.mark.parametrize("counted", [DistinctCount(None, None, True), DistinctCount("age", 100, True)])
def test_intervals_hold_in_every_size(noise: Noise, counted: DistinctCount) -> None:
    """stat: 2,000 releases of six sizes, each against 95 %: false alarm 1e-9 a size. Half the noise is not stated."""
    few = int(binom.ppf(FALSE_ALARM, RELEASES, 0.95))
    held = {}
    for scale in (1, 2):
        value, low, high = published(counted, noise, 3, scale=scale).values()
        assert ((low <= value) & (value <= high) & (low >= 0)).all()
        if counted.values is not None:
            assert (high <= counted.values).all()
        held[scale] = ((low <= np.array(TRUE)) & (np.array(TRUE) <= high)).sum(axis=0)
    assert (held[1] >= few).all()
    assert (held[2][2:4] < few).all()  # sizes away from both ends


def test_cells_that_hold_nobody_have_no_values() -> None:
    table = StatisticsTable.model_validate({"by": ["ward"], "of": ["units", {"distinct": "age"}]})
    drawn = {}
    for counted in (DistinctCount(None, None, True), DistinctCount("age", 100, True)):
        event = cell_sum_event(LaplaceNoise(Fraction(1)), counted, adjacency="add_remove", rows_per_unit=1, cells=2)
        drawn[counted.key] = NoisyNumbers(np.full((2, 1), 50), event, counted)
    found = table_values(table, drawn, np.array([True, False]))  # type: ignore[arg-type]
    assert all(column.tolist()[0] == 0 < column.tolist()[1] for column in found.values())
    assert {column.dtype for column in found.values()} == {np.dtype(np.int64)}
    assert "near_zero" not in found
