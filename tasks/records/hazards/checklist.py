"""The numbered hazards of docs/hazards.md: which are met, which in part, and which do not concern a release."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from privacy.grant.measurement import CellSumMeasurement
from tasks.records.groups.field import Run

VERSION: Final = 1
"""Of the page. Another hazard, or another answer to one, is another version."""

COUNT: Final = 53
Concern = Callable[[Run], bool]


def kinds(run: Run) -> frozenset[str]:
    """Return the kinds of events that were drawn, as the journal has them."""
    return frozenset(entry.body["event"]["kind"] for entry in run.facts.entries if entry.kind == "noise_drawn")


def _noise_on_counts(run: Run) -> bool:
    return bool(kinds(run) & {"discrete_laplace", "discrete_laplace_vector", "discrete_gaussian"})


def trained(run: Run) -> bool:
    """Whether steps of a training were drawn."""
    return "poisson_sampled_gaussian" in kinds(run)


def _chosen(run: Run) -> bool:
    return "exponential_mechanism" in kinds(run)


def _sums(run: Run) -> bool:
    if run.facts.of_tables:
        return False
    fitted = run.facts.fit[1].fitted
    return bool(fitted.sums or fitted.of_kind(CellSumMeasurement.kind))


def _tables(run: Run) -> bool:
    return run.facts.of_tables


def _rows(run: Run) -> bool:
    return run.facts.synthesis is not None


def _generated_by(*names: str) -> Concern:
    return lambda run: _rows(run) and run.facts.spec.synthetic_product.generator in names


CONCERNS: Final[Mapping[int, Concern]] = {
    12: _chosen,
    13: _generated_by("aim", "mst"),
    14: trained,
    15: trained,
    17: _noise_on_counts,
    18: trained,
    19: trained,
    21: _sums,
    25: _noise_on_counts,
    26: _tables,
    27: _rows,
    28: _generated_by("ae", "p3gm"),
    29: _generated_by("ae", "dp_gm", "p3gm", "vae"),
    30: trained,
    31: _chosen,
    39: _tables,
}
"""Which releases a hazard concerns; one without an entry concerns every release."""

LIMITED: Final = frozenset({10, 16, 19, 32, 33, 35, 39, 40, 41, 42, 43, 48, 50, 51, 52, 53})
"""Hazards that are met in part, or not at all."""


def hazards(run: Run) -> dict[str, Any]:
    """Return how a release stands to each hazard, by number."""
    concerned = {number for number in range(1, COUNT + 1) if number not in CONCERNS or CONCERNS[number](run)}
    return {
        "version": VERSION,
        "met": sorted(concerned - LIMITED),
        "limit": sorted(concerned & LIMITED),
        "not_applicable": sorted(set(range(1, COUNT + 1)) - concerned),
    }
