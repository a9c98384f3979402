"""The interval of any sum of cells of a version of counts by place, from what it publishes alone.

    1. the record, the places and the noisy counts are read, each only if its SHA-256 is that of the manifest
    2. the upward pass is made, and the downward pass as far as the places that are asked for
    3. the sum of the estimates and its exact variance over the tree; the published count, from files checked as in 1

The manifest's signature is not checked here, and nothing is made again: `sudare verify` does that.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from math import prod
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.errors import Finding, SpecRefused
from contracts.release.spine.place_margins import PlaceTree
from contracts.release.spine.place_selection import PlaceSelection, SelectionRefused, names_of, parse_selection
from contracts.release.spine.product import SpineProduct
from privacy.refine.estimates import CrossingTree, SpineEstimate, each_level, estimate_upwards, sum_variances
from privacy.refine.margin_spaces import cell_shares
from privacy.refine.whole_counts import interval_ends
from privacy.table_plans.spine_plan import SpinePlan, crossing_tree, measured_spine, place_file
from tasks.products.spine.published_version import UNREADABLE, column_of, spine_version, unreadable
from tasks.records.draws.marginal import NOISY
from tasks.records.files.tidy_tables import DATA
from tasks.verification.files.folder import ManifestFiles


@dataclass(frozen=True)
class SumInterval:
    """A sum of cells with its 95 % interval.

    Args:
        places: how many places are added up.
        cells: how many cells of each.
        count: the published count [rows].
        lower, upper: the ends [rows].
        deviation: of the estimate [rows].
    """

    places: int
    cells: int
    count: int
    lower: int
    upper: int
    deviation: float


@dataclass(frozen=True, eq=False)
class PublishedSpine:
    """A version of counts by place, ready for sums.

    Args:
        files: of the version.
        contract, product, plan, tree: of the version.
        estimate: the upward pass of what it publishes.
        others: further trees over the same smallest places, estimated upwards.
    """

    files: ManifestFiles
    contract: Contract
    product: SpineProduct
    plan: SpinePlan
    tree: PlaceTree
    estimate: SpineEstimate
    others: tuple[CrossingTree, ...] = ()

    def interval(self, where: str) -> SumInterval:
        """Return the interval of a sum of cells.

        Args:
            where: conditions (`contracts.release.spine.place_selection`).
        Raises:
            SpecRefused: it is no sum of cells of the version, or a file of counts is not that of the manifest.
        Privacy: post-processing of published values.
        """
        tree, estimate = self._of(where)
        try:
            chosen = parse_selection(where, self.product, self.contract, tree)
        except SelectionRefused as error:
            problem = error.problem
            finding = Finding("--where", show_text(where), problem.found, problem.allowed, problem.remedy)
            raise SpecRefused([finding]) from None
        weights = {level: mask.astype(np.float64) for level, mask in chosen.places.items()}
        shares = cell_shares(self.plan.shape, chosen.cells)
        spread = float(sum_variances(estimate, weights) @ shares)
        deviation, count = max(spread, 0.0) ** 0.5, self._published(chosen, tree)
        middle = np.array([_estimated(chosen, estimate)])
        lower, upper = interval_ends(middle, np.array([deviation]), np.array([count], dtype=np.int64))
        places = int(sum(mask.sum() for mask in chosen.places.values()))
        cells = prod(int(mask.sum()) for mask in chosen.cells)
        return SumInterval(places, cells, count, int(lower[0]), int(upper[0]), deviation)

    def _of(self, where: str) -> tuple[PlaceTree, SpineEstimate]:
        """Return the first tree that has the levels which are asked for, with its estimates."""
        named = names_of(where)
        for tree, other in zip(self.tree.others, self.others, strict=True):
            if named & set(tree.levels[1:-1]):
                return tree, other.estimate
        return self.tree, self.estimate

    def _published(self, chosen: PlaceSelection, tree: PlaceTree) -> int:
        """Add up the published counts, of the level itself where it is published, else of its smallest places."""
        table, last, total = self.product.detail, len(tree.levels) - 1, 0
        mark = cell_mark(chosen).astype(np.bool_)
        for level, mask in chosen.places.items():
            at, inside = level, mask
            if level == last or tree.levels[level] not in self.product.levels_of(table):
                for parent in tree.parents[level:last]:
                    inside = inside[parent]
                # The smallest places are published in the order of the first tree.
                of_code = np.empty(inside.size, dtype=np.bool_)
                of_code[tree.codes] = inside
                at, inside = last, of_code[self.tree.codes]
            file = f"{DATA}/{place_file(table.name, tree.levels[at])}.parquet"
            total += _added(self.files, file, inside, mark)
        return total


def _estimated(chosen: PlaceSelection, estimate: SpineEstimate) -> float:
    """Add up the estimates, level by level as far as places are asked for."""
    total, mark = 0.0, cell_mark(chosen)
    for level, values in enumerate(islice(each_level(estimate), max(chosen.places) + 1)):
        if level in chosen.places:
            inside = values[chosen.places[level]].reshape(-1, mark.size)
            total += float((inside @ mark).sum())
    return total


def cell_mark(chosen: PlaceSelection) -> NDArray[np.float64]:
    """Mark the cells of a place that are added up, shape (cells,)."""
    mark = np.ones(1)
    for labels in chosen.cells:
        mark = np.multiply.outer(mark, labels.astype(np.float64)).reshape(-1)
    return mark


def show_text(where: str) -> str:
    """Show the conditions that were asked, short."""
    return where[:80] or "all rows"


def _added(files: ManifestFiles, name: str, places: NDArray[np.bool_], mark: NDArray[np.bool_]) -> int:
    """Add up the counts of some places and cells of a file, one row group after the other."""
    total, start, cells = 0, 0, mark.size
    try:
        with files.open(name) as opened, pq.ParquetFile(opened) as file:
            for group in range(file.num_row_groups):
                counts = file.read_row_group(group, columns=["count"]).column(0).to_numpy()
                numbers = np.arange(start, start + counts.size)
                total += int(counts[places[numbers // cells] & mark[numbers % cells]].sum())
                start += counts.size
    except UNREADABLE as error:
        raise unreadable(name, str(error)) from None
    return total


def published_spine(folder: Path) -> PublishedSpine:
    """Read a version of counts by place, and estimate its places upwards.

    Args:
        folder: the version's folder, links resolved.
    Raises:
        SpecRefused: it is no such version, or its files are not those of its record.
    """
    version = spine_version(folder)
    files, plan, tree, draws = version.files, version.plan, version.tree, version.record.replay.draws
    try:
        noisy = {draw.key: column_of(files, draw.measurements or "", NOISY).reshape(draw.shape) for draw in draws}
    except UNREADABLE as error:
        raise unreadable(str(folder), str(error)) from None
    others = tuple(crossing_tree(plan, tree, each, noisy) for each in tree.others)
    estimate = estimate_upwards(measured_spine(plan, tree, noisy))
    return PublishedSpine(files, version.contract, version.product, plan, tree, estimate, others)
