"""Counts by place: every table at each of its levels through the grant, then counts that add up."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from contracts.contract.contract import Contract
from contracts.release.spine.place_margins import PlaceTree
from contracts.release.spine.product import spine_product
from privacy.generators.generator import Fitted
from privacy.grant.measurement import PlaceMeasurement
from privacy.grant.queries.place_counts import PlaceCountQuery
from privacy.snapshots.snapshot import SnapshotCounts
from privacy.table_plans.spine_plan import SpinePlan, spine_counts
from tasks.products.product_kind import Making, MakingStep
from tasks.records.draws.marginal import write_drawn
from tasks.records.facts import Outputs, RunFacts
from tasks.records.files.tidy_tables import WrittenFile
from tasks.records.files.write import write_parts
from tasks.records.outputs import ReleasedSpine, released_of
from tasks.records.spine.spine_files import write_invariants, write_places, write_table
from tasks.storage.progress import step

logger = logging.getLogger(__name__)


def tree_of_plan(plan: SpinePlan) -> PlaceTree:
    """Return the places of a plan that was made with them.

    Raises:
        ValueError: it was made without.
    """
    if plan.tree is None:
        raise ValueError("the plan has no places")
    return plan.tree


def _measured(making: Making, _before: None) -> tuple[PlaceMeasurement, ...]:
    """Draw, or replay, every table at each of its levels; the rows are counted once."""
    plan: SpinePlan = making.plan
    tree = tree_of_plan(plan)
    clique = (plan.draws[0].clique[0], *plan.columns)
    bytes_held = making.contract.cells(clique) * 8
    counts = SnapshotCounts(making.table, making.contract, remembered_bytes=bytes_held)
    handle, groups = counts.marginal(clique), {level: tree.groups(level) for level in tree.level_sizes}
    drawn = []
    with step("measure") as bar:
        for draw in plan.draws:
            query = PlaceCountQuery(
                handle, draw.level, draw.shape[0], groups[draw.level], draw.clique[1:], draw.noise
            )
            drawn.append(making.grant.draw(query, key=draw.key))
            bar.advance(len(drawn) / len(plan.draws))
    logger.info("measured %d draws of %d numbers", len(drawn), plan.cells)
    return tuple(drawn)


def _refined(making: Making, drawn: tuple[PlaceMeasurement, ...]) -> Outputs:
    with step("refine") as bar:
        made = released_spine(making.plan, tree_of_plan(making.plan), making.contract, drawn)
        bar.advance(1.0)
    return Outputs(made=made)


def released_spine(
    plan: SpinePlan, tree: PlaceTree, contract: Contract, drawn: tuple[PlaceMeasurement, ...]
) -> ReleasedSpine:
    """Return the counts that follow from what was drawn. Post-processing."""
    noisy = {each.key: each.values for each in drawn}
    return ReleasedSpine(Fitted(None, drawn), tree, spine_counts(plan, tree, contract, noisy))


class SpineMaking:
    """Counts by place."""

    steps: ClassVar[tuple[MakingStep, ...]] = (MakingStep("measure", _measured), MakingStep("refine", _refined))

    def write_files(self, facts: RunFacts, folder: Path, *, marks: Mapping[str, str]) -> tuple[WrittenFile, ...]:
        """Write the places, the tables at their levels, then what was drawn."""
        made = released_of(facts.fit[1])
        product = spine_product(facts.spec.product)
        files = write_places(made.tree, folder, marks=marks)
        files += write_invariants(made.tree, product, facts.contract, folder, marks=marks)
        for draw in made.counts.plan.draws:
            table = write_table(
                made.counts, made.tree, draw, facts.contract, folder, marks=marks, publish=facts.spec.publish
            )
            files += table
            if "parts" in facts.spec.publish.formats:
                files += write_parts(folder, table[0])
        return (*files, *write_drawn(made.fitted, facts, folder, marks=marks))
