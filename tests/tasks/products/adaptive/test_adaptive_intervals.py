"""Sums of cells of adaptive tables: intervals from one draw each, which hold whatever levels were chosen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from contracts.contract.contract import Contract
from contracts.release.spine.place_selection import SelectionRefused
from privacy.marginals.group_levels import level_sums
from tasks.products.adaptive.adaptive_intervals import sum_of
from tests.privacy.table_plans.test_adaptive_counts import planned
from tests.worlds.adaptive import of_wards


@pytest.fixture(scope="module")
def contract(tmp_path_factory: pytest.TempPathFactory) -> Contract:
    return of_wards().prepared_of(tmp_path_factory.mktemp("wards"), object)[1]


def test_cells_that_a_level_adds_up_with_others_are_refused(contract: Contract) -> None:
    """A group of which the total alone is known; all labels together may be asked of it."""
    plan = planned(contract)
    totals, counts = np.array([90, 40, 12, -5]), np.array([10] * 9 + [20, 15, 5] + [12] + [-5])
    with pytest.raises(SelectionRefused) as refused:
        sum_of(plan, {"insured": ["true"]}, totals, counts)
    assert "whose level is total" in refused.value.problem.found
    with pytest.raises(SelectionRefused) as refused:
        sum_of(plan, {"ward": ["children"], "floor": ["1"]}, totals, counts)
    assert "the group 'children', whose level is insured" in refused.value.problem.found
    found = sum_of(plan, {"ward": ["surgery", "children"], "insured": ["true"]}, totals, counts)
    assert (found.numbers, found.count) == (4, 50)
    every = sum_of(plan, {"insured": ["true", "false", "(null)"]}, totals, counts)
    assert (every.numbers, every.count) == (9 + 3 + 1 + 1, 90 + 40 + 12)


@pytest.mark.long
@pytest.mark.stat
@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_intervals_of_sums_hold_whatever_was_chosen_and_shorter_ones_are_found_out(
    contract: Contract, mechanism: str
) -> None:
    """n = 3,000 releases of four groups near a threshold: more than 92.5 % hold, of all rows and of one label.

    With 95 % or more, at most 92.5 % hold with probability exp(-3000 KL(0.925, 0.95)) < 4e-8 (Chernoff), for both
    below 8e-8. Intervals of 0.6 times the length hold about 77 %, with Laplace noise 83 %, and are found out.
    """
    plan = replace(planned(contract, epsilon="0.5", mechanism=mechanism), thresholds=(-(10**6), 90))
    random = np.random.default_rng(12)
    noise = random.normal if mechanism == "gaussian" else lambda *of: random.laplace(of[0], of[1] / 2**0.5, of[2])
    exact = np.zeros((4, 9), np.int64)
    for group, total in enumerate((80, 88, 91, 99)):
        exact[group] = np.bincount(np.arange(total) % 9, minlength=9)
    truths = {"rows": int(exact.sum()), "label": int(exact[:, :3].sum())}
    held = dict.fromkeys(((of, factor) for of in truths for factor in (1.0, 0.6)), 0)
    for _ in range(3000):
        totals = exact.sum(axis=1) + np.rint(noise(0, plan.totals.variance**0.5, 4)).astype(np.int64)
        true = level_sums(exact, plan.sizes, plan.cell_of, plan.chosen(totals))
        noisy = true + np.rint(noise(0, plan.counts.variance**0.5, true.size)).astype(np.int64)
        for of, asked in (("rows", {}), ("label", {"insured": ["true"]})):
            found = sum_of(plan, asked, totals, noisy)
            middle, half = (found.lower + found.upper) / 2, (found.upper - found.lower) / 2
            for factor in (1.0, 0.6):
                held[of, factor] += int(abs(truths[of] - middle) <= factor * half)
    for of in truths:
        assert held[of, 1.0] > 0.925 * 3000
        assert held[of, 0.6] < 0.90 * 3000
