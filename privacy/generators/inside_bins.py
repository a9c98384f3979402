"""Any generator, with counts inside bins measured before it: where values lie in the bins of numbers.

    MEASURE   for each column a noisy tree of counts inside its bins (`contracts.domains.trees`); for
              `bins: private` also a noisy sum of it
    JOIN      for `bins: private` neighbouring bins that the trees do not tell apart (`bin_weights`)
    FIT       the generator, with what the trees have left of the charge
    MODEL     the generator's own, its margins without bins that are noise (`standing_margins`), with whole-number
              weights of the leaves in each bin (`bin_weights`), and of the bins in each joined one

A charge of (epsilon, delta) with delta above 0 holds a zCDP budget of rho. The generator is asked for the largest
epsilon' whose budget is at most (1 - share) rho; what it leaves is split over trees and sums. A pure charge is
split in epsilon. Trees and sums are planned draws, of which the grant derives the sensitivity (docs/derivations.md,
"Counts inside bins", "Joined bins"); the weights are post-processing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import pi, sqrt
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from contracts.contract.contract import Contract
from contracts.contract.decoding import BinContents
from contracts.contract.impossible_cells import Clique
from contracts.domains.lattice import ValueLattice
from contracts.domains.trees import BinTree, bin_ends
from privacy.accounting.amounts import AmountRefused
from privacy.accounting.events import CountNoise
from privacy.arrays import Floats
from privacy.generators.bin_weights import (
    DECIMALS,
    STANDS,
    Bins,
    JoinedBins,
    JoinedCounts,
    Joins,
    apart_in,
    bin_contents,
    contents_by,
    inside_error,
    join,
    joined_task,
    leaf_covariance,
    leaf_estimates,
    leaf_shares,
    mean_offset,
    standing_margins,
    whole_weights,
    with_mean,
)
from privacy.generators.calibration import FitModifier
from privacy.generators.fitting import noise_in_words
from privacy.generators.generator import (
    CannotGenerate,
    CountsSource,
    DrawSeed,
    FitProgress,
    Fitted,
    Fitter,
    GeneratorPlan,
    InsideTask,
    Model,
    ModelReader,
    PlannedStep,
    Spending,
    SynthesisTask,
    epsilon_of_part,
    too_small,
)
from privacy.grant.draws import Draws
from privacy.grant.measurement import CellSumMeasurement
from privacy.grant.queries.cell_sums import CellSumQuery
from privacy.marginals.cell_sums import cell_sum_event
from privacy.marginals.count_noise import variance
from privacy.marginals.estimation import Measured
from privacy.marginals.graph import CellDomain
from privacy.marginals.portable import PostProcessingSeed

# --- A published model of cells, with how values lie inside the bins of its columns.


_CUTS, _WEIGHTS = "inside-{:04d}-cuts", "inside-{:04d}-weights"
_FIRSTS, _BINS = "inside-joined-{:04d}-firsts", "inside-joined-{:04d}-bins"
_OURS: Final = "inside-"


@dataclass(frozen=True, eq=False)
class FilledModel:
    """A model of cells and the contents of bins.

    Args:
        cells: the model of cells.
        contents: of the bins of some columns, by name.
        joined: the joined bins of those whose bins were joined in the model of cells, by name.
    Raises:
        ValueError: contents, or joined bins, of a column that the model has not; joined bins of a model that cannot
            weigh its cells.
    """

    kind: ClassVar[str] = "filled"
    cells: Model
    contents: Mapping[str, BinContents]
    joined: Mapping[str, JoinedBins] = field(default_factory=dict)

    def __post_init__(self) -> None:
        domain = self.cells.domain
        unknown = {*self.contents, *self.joined} - set(domain.columns)
        if unknown:
            raise ValueError(f"contents of bins of columns that are not there: {', '.join(sorted(unknown))[:80]}")
        if self.joined and not hasattr(self.cells, "weighed"):
            raise ValueError(f"joined bins of a model of kind {self.cells.kind}")
        small = [name for name, bins in self.joined.items() if domain.sizes([name])[0] < bins.firsts.size]
        if small:
            raise ValueError(f"{small[0][:80]}: more joined bins than the model has cells")

    @cached_property
    def domain(self) -> CellDomain:
        """The columns with their declared cells."""
        domain = self.cells.domain
        sizes = (
            self.joined[name].declared(cells) if name in self.joined else cells
            for name, cells in zip(domain.columns, domain.shape, strict=True)
        )
        return CellDomain(domain.columns, tuple(sizes)) if self.joined else domain

    @property
    def rows(self) -> int:
        """The public or the estimated number of rows."""
        return self.cells.rows

    def sample(self, rows: int, *, seed: int, where: Mapping[str, Sequence[int]] | None = None) -> NDArray[np.int32]:
        """Draw rows of codes from the model of cells, and spread those of joined bins over the declared ones.

        Raises:
            ValueError: as the model's; or a code of a joined column that there is not.
        """
        codes_of, cells, joined = dict(where or {}), self.cells, dict(self.joined)
        for name in [name for name in joined if name in codes_of]:
            allowed, (size,) = codes_of.pop(name), self.domain.sizes([name])
            if not all(0 <= code < size for code in allowed):
                raise ValueError(f"codes of {name} lie between 0 and {size - 1}")
            own = joined[name].cell_of(*cells.domain.sizes([name]))
            parts = np.where(np.isin(np.arange(size), list(allowed)), self._parts(name), 0.0)
            cells = cells.weighed(name, np.bincount(own, parts))  # type: ignore[attr-defined]
            joined[name] = joined[name].within(allowed)
        codes = cells.sample(rows, seed=seed, where=codes_of)
        for name, bins in joined.items():
            place = self.domain.place(name)
            codes[:, place] = bins.spread(codes[:, place], PostProcessingSeed(seed).derived(f"joined bins of {name}"))
        return codes

    def marginal(self, clique: Clique) -> NDArray[np.float64]:
        """Return the expected counts of a clique [rows]."""
        found = self.cells.marginal(clique)
        for axis, name in enumerate(clique):
            if name in self.joined:
                own = self.joined[name].cell_of(found.shape[axis])
                parts = self._parts(name).reshape([-1 if other == axis else 1 for other in range(found.ndim)])
                found = np.take(found, own, axis) * parts
        return found

    def _parts(self, name: str) -> Floats:
        """Return the part of its joined bin that each declared cell of a column has."""
        return self.joined[name].parts(*self.cells.domain.sizes([name]))

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[np.int64]]]:
        """Return the model as JSON values and integer arrays, for publication."""
        values, arrays = self.cells.to_arrays()
        for number, found in enumerate(self.contents.values()):
            arrays = {**arrays, _CUTS.format(number): found.cuts, _WEIGHTS.format(number): found.weights}
        for number, bins in enumerate(self.joined.values()):
            arrays = {**arrays, _FIRSTS.format(number): bins.firsts, _BINS.format(number): bins.weights}
        told = {"joined": list(self.joined)} if self.joined else {}
        cells = {"kind": self.cells.kind, "values": values}
        return {"cells": cells, "inside": list(self.contents), **told}, arrays


def read_filled(values: Mapping[str, Any], arrays: Mapping[str, NDArray[np.int64]], read: ModelReader) -> FilledModel:
    """Read a published model back; what a stranger wrote is checked.

    Args:
        values, arrays: what `to_arrays` gave.
        read: reads the model of cells.
    Raises:
        ValueError: not a model of that kind.
    """
    cells, columns, joined = values["cells"], values["inside"], values.get("joined", [])
    parts = [name.format(number) for number in range(len(columns)) for name in (_CUTS, _WEIGHTS)]
    parts += [name.format(number) for number in range(len(joined)) for name in (_FIRSTS, _BINS)]
    own = {name for name in arrays if name.startswith(_OURS)}
    lists = all(isinstance(names, list) and len(set(names)) == len(names) for names in (columns, joined))
    if not lists or own != set(parts) or set(values) != {"cells", "inside", *(["joined"] if joined else [])}:
        raise ValueError("a filled model has cells and inside, with two arrays for each column of the latter")
    if set(cells) != {"kind", "values"} or cells["kind"] == FilledModel.kind:
        raise ValueError("a filled model has one model of cells, with its kind and values")
    within = read(cells["kind"], cells["values"], {name: arrays[name] for name in arrays if name not in own})
    contents = {
        name: BinContents(arrays[_CUTS.format(number)], arrays[_WEIGHTS.format(number)])
        for number, name in enumerate(columns)
    }
    bins = {
        name: JoinedBins(arrays[_FIRSTS.format(number)], arrays[_BINS.format(number)])
        for number, name in enumerate(joined)
    }
    return FilledModel(within, contents, bins)


# --- What a fit over joined bins makes of the noisy trees and sums.


FOLLOWED: Final = 0.02
"""The largest expected error of all followed counts together, as a share of the rows."""
LEAST_MASS: Final = 1e-9
"""Of all rows; what is less is not scaled up: its weight could overflow."""


@dataclass(frozen=True)
class CountedColumn:
    """What was measured of a column.

    Args:
        tree: its leaves.
        axis: its declared bins.
        counts: of the tree.
        total: the sums of its steps above the lower and below the upper bound; None where bins are not joined.
    """

    tree: BinTree
    axis: Bins
    counts: CellSumMeasurement
    total: CellSumMeasurement | None

    @property
    def estimates(self) -> NDArray[np.float64]:
        """Estimated counts of the leaves [rows]."""
        return leaf_estimates(self.counts.values, self.tree, self.counts.variance)

    @property
    def missing(self) -> NDArray[np.int64]:
        """The noisy number of rows without a value, where it is counted apart; one number or none [rows]."""
        return self.counts.values[sum(self.tree.level_nodes) :]

    def runs(self, joins: Joins) -> list[int]:
        """Return the first leaf of each joined bin, and after them the number of leaves."""
        ends = bin_ends(self.axis, self.tree)
        return [*(ends[first] for first in joins[self.tree.column]), self.tree.leaves]

    @property
    def mean(self) -> float | None:
        """The mean offset that sums and tree say together; None where they say nothing [steps]."""
        return None if self.total is None else mean_offset(self.tree, self.counts, self.total)


def contract_of(task: SynthesisTask) -> Contract:
    """Return the contract, which joined bins need.

    Raises:
        CannotGenerate: the task has none.
    """
    if task.contract is None:
        raise CannotGenerate("joined bins need the contract that declares them")
    return task.contract


def joins_of(counted: Sequence[CountedColumn], task: SynthesisTask, spending: Spending) -> Joins:
    """Return which bins of each column are joined.

    Args:
        counted: what was measured of each column.
        task: what the generator is asked for, over declared bins.
        spending: its budget.
    Privacy: post-processing.
    """
    (even, *_) = spending.split(spending.total, [1] * len(task.domain.columns))
    floor, joins = STANDS * sqrt(variance(spending.event(even))), {}
    for each in counted:
        name, ends = each.tree.column, bin_ends(each.axis, each.tree)
        apart = apart_in(task, name, len(each.axis))
        terms = {"variance": each.counts.variance, "floor": floor}
        joins[name] = join(each.estimates, each.tree, ends, apart=apart, **terms)
    return joins


def known_margins(counted: Sequence[CountedColumn], joins: Joins) -> tuple[Measured, ...]:
    """Return what the trees say of joined bins and missing values: the generator's model is fitted to it too.

    Args:
        counted: what was measured of each column.
        joins: which bins were joined.
    Privacy: post-processing.
    """
    found = []
    for each in counted:
        runs, leaves = each.runs(joins), np.arange(each.tree.leaves)
        rows = np.append(np.add.reduceat(each.estimates, runs[:-1]), each.missing)
        inside = np.searchsorted(runs, leaves, side="right") - 1 == np.arange(len(runs) - 1)[:, None]
        noise = each.counts.variance * float(np.diag(leaf_covariance(each.tree, inside.astype(float))).mean())
        found.append(Measured((each.tree.column,), rows, noise))
    return tuple(found)


def refilled(cells: Model, counted: Sequence[CountedColumn], joins: Joins) -> FilledModel:
    """Return a model of joined bins with the declared bins in them, and the leaves in these.

    Args:
        cells: what the generator fitted.
        counted: what was measured of each column.
        joins: which bins were joined.
    Privacy: post-processing.
    """
    for each in counted:
        cells = follow_blocks(cells, each.tree.column, *followed_blocks(each, joins))
    contents, joined = {}, {}
    for each in counted:
        name, tree = each.tree.column, each.tree
        ends, firsts = np.array(bin_ends(each.axis, tree)), np.array(joins[name], dtype=np.int64)
        runs = each.runs(joins)
        shares = leaf_shares(each.estimates, tree, runs, each.counts.variance)
        if each.mean is not None:
            shares = with_mean(shares, cells.marginal((name,))[: firsts.size], tree, runs, each.mean)
        contents[name] = contents_by(shares, tree, ends.tolist())
        joined[name] = JoinedBins(firsts, _bin_weights(np.add.reduceat(shares, ends[:-1]), firsts))
    return FilledModel(cells, contents, joined)


def follow_blocks(cells: Model, name: str, blocks: Sequence[int], rows: Floats) -> Model:
    """Return a model in which blocks of a column's cells have the shares that were counted.

    A block that is not counted above 0 keeps what the model gives it, and so does one with next to no row in it.

    Args:
        cells: a model that can weigh its cells.
        name: the column.
        blocks: the first cell of each block, rising from 0, and after them the end of the last.
        rows: counts of the blocks; their shares alone matter.
    Privacy: post-processing.
    """
    marginal = cells.marginal((name,))
    before = np.add.reduceat(marginal[: blocks[-1]], blocks[:-1])
    counted = np.where((rows > 0) & (before > LEAST_MASS * marginal.sum()), rows, 0.0)
    # One block alone has its share already.
    if np.count_nonzero(counted) < 2:
        return cells
    followed = np.where(counted > 0, before[counted > 0].sum() * counted / counted.sum(), before)
    factors = np.divide(followed, before, out=np.ones(before.size), where=before > 0)
    weights = np.append(np.repeat(factors, np.diff(blocks)), np.ones(marginal.size - blocks[-1]))
    return cells.weighed(name, weights)  # type: ignore[attr-defined, no-any-return]


def followed_blocks(each: CountedColumn, joins: Joins) -> tuple[list[int], Floats]:
    """Return the blocks of joined bins whose counts a model follows, and their counts.

    They hold about equally many rows, as far as joined bins allow, and are as many as noise allows: each count is
    `STANDS` deviations or more, and all together are expected to be off by at most `FOLLOWED` of all rows. A finer
    division would put the tree's noise in the place of a smooth fit.

    Returns:
        blocks: the first joined bin of each, rising from 0, and after them their number; one block follows nothing.
        rows: their estimated counts.
    Privacy: post-processing.
    """
    runs = each.runs(joins)
    before = np.round(np.append(0.0, np.cumsum(each.estimates))[runs], DECIMALS)
    blocks, parts = [0, len(runs) - 1], 2
    while parts < len(runs):
        finer = _even_blocks(before, parts)
        inside = np.searchsorted(np.array(runs)[finer], np.arange(each.tree.leaves), side="right") - 1
        sums = (inside == np.arange(len(finer) - 1)[:, None]).astype(np.float64)
        deviations = np.round(np.sqrt(each.counts.variance * np.diag(leaf_covariance(each.tree, sums))), DECIMALS)
        off = sqrt(2 / pi) * float(deviations.sum())
        if off > FOLLOWED * before[-1] or (np.diff(before[finer]) < STANDS * deviations).any():
            break
        blocks, parts = finer, 2 * parts
    return blocks, np.diff(before[blocks])


def _even_blocks(before: Floats, parts: int) -> list[int]:
    """Return the first run of each of so many blocks of about as many rows, and after them the number of runs."""
    wanted = before[-1] * np.arange(1, parts) / parts
    inner = {int(np.abs(before - each).argmin()) for each in wanted} - {0, before.size - 1}
    return [0, *sorted(inner), before.size - 1]


def _bin_weights(shares: NDArray[np.float64], firsts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the shares of declared bins as whole weights of each joined one."""
    parts = np.split(shares, firsts[1:])
    return np.concatenate([whole_weights(part) for part in parts])


_SECONDS_PER_TREE: Final = 0.1
_TREE_WEIGHT, _SUM_WEIGHT = 2, 3
"""What a tree misses of a mean grows with the bounds, and so does a sum's error; of ranks a tree misses little."""


class InsideBins(Fitter[Any, SynthesisTask, Any]):
    """A generator that has what is measured inside bins drawn before it.

    Args:
        generator: fits the model of cells.
        inside: what is measured.
    """

    name: ClassVar[str] = "inside_bins"
    options = BaseModel

    def __init__(self, generator: Fitter[Any, Any, Any], inside: InsideTask) -> None:
        self._generator, self._inside = generator, inside

    def plan(self, task: SynthesisTask, options: BaseModel) -> GeneratorPlan:
        """Plan one tree a column, a sum beside it where bins are joined, and what the generator plans with the rest.

        Raises:
            CannotGenerate: as the generator's; too small a charge; or joined bins for a generator without potentials.
        """
        inside = self._inside
        if inside.joins:
            _refuse_unweighed(self._generator)
        events = self._events(task, options)
        rest = _rest(task, inside)
        plan = self._generator.plan(rest, options)
        # What is drawn over joined bins is chosen when they are known: as a whole it is a budget.
        later = (Spending(rest, getattr(options, "noise", None)).budget,) if inside.joins else plan.events
        trees = events[: len(inside.trees)]
        steps = [
            PlannedStep(what, len(some), float(inside.share) * part, noise_in_words(some))
            for what, some, part in self._stages(events)
        ]
        others = (replace(each, share=each.share * (1 - float(inside.share))) for each in plan.steps)
        return replace(
            plan,
            events=(*events, *later),
            steps=(*steps, *others),
            seconds=plan.seconds + _SECONDS_PER_TREE * len(events),
            inside_error={
                tree.column: inside_error(tree, axis, variance=variance(event))
                for tree, axis, event in zip(inside.trees, inside.axes, trees, strict=True)
            },
        )

    def _stages(self, events: Sequence[CountNoise]) -> list[tuple[str, Sequence[CountNoise], float]]:
        """Return what is measured in words, with its events and its part of the share."""
        trees, what = len(self._inside.trees), "counts inside bins"
        if not self._inside.joins:
            return [(what, events, 1.0)]
        part = _TREE_WEIGHT / (_TREE_WEIGHT + _SUM_WEIGHT)
        return [(what, events[:trees], part), ("sums of numbers", events[trees:], 1 - part)]

    def fit(
        self,
        task: SynthesisTask,
        options: BaseModel,
        plan: GeneratorPlan,
        counts: CountsSource,
        grant: Draws,
        progress: FitProgress,
        seed: DrawSeed,
    ) -> Fitted[Any]:
        """Measure inside bins, then let the generator fit.

        Raises:
            OutOfTime, GrantExceeded: as the generator's.
        Privacy: exactly the planned events.
        """
        inside, rest = self._inside, _rest(task, self._inside)
        drawn = self._drawn(task, options, counts, grant)
        own = replace(plan, events=plan.events[len(drawn) :])
        trees, sums = drawn[: len(inside.trees)], drawn[len(inside.trees) :]
        beside = sums if inside.joins else [None] * len(trees)
        counted = [CountedColumn(*each) for each in zip(inside.trees, inside.axes, trees, beside, strict=True)]
        terms: Any = own, counts, grant, progress, seed
        if inside.joins:
            return self._joined(rest, options, counted, drawn, terms)
        fitted = self._generator.fit(rest, options, *terms)
        contents = {
            each.tree.column: bin_contents(each.counts.values, each.tree, each.axis, variance=each.counts.variance)
            for each in counted
        }
        margins = [(each.tree, each.axis, each.counts) for each in counted]
        cells = standing_margins(fitted.model, margins, fitted.measurements)
        return replace(fitted, model=FilledModel(cells, contents), draws=(*drawn, *fitted.draws))

    def _joined(
        self,
        rest: SynthesisTask,
        options: BaseModel,
        counted: Sequence[CountedColumn],
        drawn: Sequence[CellSumMeasurement],
        terms: tuple[Any, ...],
    ) -> Fitted[Any]:
        """Join bins, let the generator count the joined ones, and spread its rows over the declared ones."""
        own, counts, *others = terms
        contract = contract_of(rest)
        joins = joins_of(counted, rest, Spending(rest, getattr(options, "noise", None)))
        source = JoinedCounts(counts, joins, contract)
        joined = replace(joined_task(rest, joins, contract), known=known_margins(counted, joins))
        fitted = self._generator.fit(joined, options, own, source, *others)
        return replace(fitted, model=refilled(fitted.model, counted, joins), draws=(*drawn, *fitted.draws))

    def _drawn(
        self, task: SynthesisTask, options: BaseModel, counts: CountsSource, grant: Draws
    ) -> list[CellSumMeasurement]:
        """Draw all trees, then all sums."""
        trees, addends, parts = len(self._inside.trees), self._addends, self._parts(task, options)
        keys = [f"inside-{number:04d}" for number in range(1, trees + 1)]
        keys += [f"sum-{number:04d}" for number in range(1, len(addends) - trees + 1)]
        asked = zip(counts.sums((), addends), parts, keys, strict=True)
        return [grant.draw(CellSumQuery(handle, part), key=key) for handle, part, key in asked]

    @property
    def _addends(self) -> tuple[BinTree | ValueLattice, ...]:
        """What is measured: trees, and sums where bins are joined."""
        trees = self._inside.trees
        return (*trees, *(tree.lattice for tree in trees)) if self._inside.joins else trees

    def _parts(self, task: SynthesisTask, options: BaseModel) -> list[Any]:
        """Return the noise of each tree and sum: of what the generator leaves, 2 parts a tree and 3 a sum."""
        spending, rest = (
            Spending(each, getattr(options, "noise", None)) for each in (task, _rest(task, self._inside))
        )
        weights = [_TREE_WEIGHT if isinstance(each, BinTree) else _SUM_WEIGHT for each in self._addends]
        parts = spending.split(spending.total - rest.total, weights)
        return [spending.buys(part) for part in parts]

    def _events(self, task: SynthesisTask, options: BaseModel) -> list[CountNoise]:
        """Return the event of each tree and sum."""
        relation: Any = {"adjacency": task.adjacency, "rows_per_unit": task.rows_per_unit}
        try:
            pairs = zip(self._addends, self._parts(task, options), strict=True)
            return [cell_sum_event(part, each, **relation) for each, part in pairs]
        except AmountRefused as refused:
            raise too_small(refused) from refused


def _refuse_unweighed(generator: Fitter[Any, Any, Any]) -> None:
    """Refuse joined bins for a generator that reads rows, or whose model has no potentials.

    Raises:
        CannotGenerate: with what is allowed.
    """
    if getattr(generator, "reads_rows", True) or not getattr(generator, "joins_bins", True):
        raise CannotGenerate(
            f"product.bins: private, which {generator.name!r} cannot take; allowed: a generator of marginals (aim, "
            "mst, privbayes, independent, fixed); do: choose one of these, or drop `bins:`"
        )


class InsideFit(FitModifier):
    """What is measured inside bins before the generator fits; with joined bins, over which the generator counts."""

    def terms(self, product: Any, contract: Contract) -> dict[str, Any]:
        """Return the trees, the declared bins, and the share."""
        trees = product.trees(contract)
        axes = tuple(contract.column(tree.column).domain.axis for tree in trees)
        return {"inside": InsideTask(trees, axes, Fraction(product.measured_inside.share), product.bins is not None)}

    def stage(self, generator: Fitter[Any, Any, Any], task: SynthesisTask) -> Fitter[Any, Any, Any]:
        """Return a generator that has it measured first."""
        return with_inside(generator, task)


def with_inside(generator: Fitter[Any, Any, Any], task: SynthesisTask) -> Fitter[Any, Any, Any]:
    """Return the generator; where something is measured inside bins, one that measures it first."""
    return generator if task.inside is None else InsideBins(generator, task.inside)


def _rest(task: SynthesisTask, inside: InsideTask) -> SynthesisTask:
    """Return what the generator is asked for: the same, for less."""
    try:
        epsilon = epsilon_of_part(task, 1 - inside.share)
    except AmountRefused as refused:
        raise too_small(refused) from refused
    return replace(task, epsilon=epsilon, inside=None)
