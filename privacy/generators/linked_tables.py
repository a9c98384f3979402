"""Two linked tables at once: a model of parents with their numbers of children, then children given their parent.

    PARENTS    any generator of marginals, on the parent table's columns, the column of sizes among them
    KNOWN      what the parents' model says of the parents' columns over the rows of children: each parent counts as
               often as it has children
    CHILDREN   AIM or MST with the parents' columns given: nothing is spent on marginals of these alone. In MST's tree
               they are one node, so that each column of children hangs on one of its parent or of its own table

Where (one letter each)
    k, g       rows of one unit in the parent table, and children that one parent keeps
    n, n'      parents, children                          m, m'   draws of each part
    c, c'      mean cells of a pair of each part          w, w'   pairs of each part that rows are read for

A unit moves a marginal of parents by k at most, and one of children by k g: the grant derives both, the first from
the handle, which counts the rows of the parent table (docs/derivations.md, "Linked tables"). All is one budget,
split before anything is read. Under zCDP, part ρ of it makes errors of a pair, in shares of the rows, of about

    parents    c √m k / (n √ρ)         children    c' √m' k g / (n' √ρ')

of which the sum over all pairs, weighted by w and w', is least where the shares are as (w c √m)^(2/3) to
(2 w' c' √m')^(2/3): n' is about n g / 2 where nobody knows it. Under a pure budget the noise grows with m in the
place of √m, and the shares are as the square roots.

What is not modelled: what two children of one parent have in common beyond their parent's columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import sqrt
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Protocol, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, ValidationError, field_validator

from contracts.contract.decoding import Decoded, DecodedForm, Decoder
from contracts.contract.impossible_cells import Clique
from contracts.contract.linked import rows_per_unit
from contracts.message import message
from contracts.release.linked_rows import LINKED_TABLES, TablePair, table_pair
from privacy.accounting.amounts import AmountRefused
from privacy.generators.generator import (
    CandidateRefused,
    CannotGenerate,
    CountsSource,
    DrawSeed,
    FitProgress,
    Fitted,
    Generator,
    GeneratorPlan,
    Model,
    ModelReader,
    Options,
    PlannedStep,
    Spending,
    SynthesisTask,
    effective_values,
    epsilon_of_part,
    resolved_options,
    too_small,
)
from privacy.generators.rows import PIECE_ROWS, shuffled
from privacy.grant.draws import Draws, PrefixedDraws
from privacy.marginals.blocks import ModelTooLarge, NothingPossible
from privacy.marginals.counts import PrivateCounts
from privacy.marginals.estimation import Measured
from privacy.marginals.graph import CellDomain
from privacy.marginals.inference import GraphicalModel
from privacy.marginals.model import ConditionalColumns, PublishedModel, conditional_columns, draw_given
from privacy.marginals.portable import PostProcessingSeed

if TYPE_CHECKING:
    from contracts.contract.contract import Contract


# --- The published model of two linked tables.


_PARENTS_PREFIX: Final = "parents-"
_CHILDREN: Final = "children-"
_GRAPHICAL: Final = "graphical_model"
"""The kind of model that columns can be drawn from given others."""


class GraphicalRows(Model, Protocol):
    """A published model that has potentials."""

    @property
    def graphical(self) -> GraphicalModel:
        """The same model in the floats that its whole numbers stand for."""
        ...


@dataclass(frozen=True, eq=False)
class LinkedModel:
    """A model of parents, and one of children given their parent.

    Args:
        parents: of the parent table's columns.
        children: of the columns of both tables, in rows of the child table.
    Raises:
        ValueError: a column of the parents that the children's model has not, or with other cells.
    """

    kind: ClassVar[str] = "linked"
    parents: Model
    children: GraphicalRows

    def __post_init__(self) -> None:
        """Check that both models know the parents' columns alike."""
        own, all_of_them = self.parents.domain, self.children.domain
        if not set(own.columns) < set(all_of_them.columns) or all_of_them.sizes(own.columns) != own.shape:
            raise ValueError("the model of children must have the parents' columns, with the same cells, and others")

    @property
    def domain(self) -> CellDomain:
        """The columns of both tables with their cells."""
        return self.children.domain

    @property
    def rows(self) -> int:
        """The estimated number of parents."""
        return self.parents.rows

    @cached_property
    def conditional(self) -> ConditionalColumns:
        """The children's columns given the parents'."""
        return conditional_columns(self.children.graphical, self.parents.domain.columns)

    def sample(self, rows: int, *, seed: int, where: Mapping[str, Sequence[int]] | None = None) -> NDArray[np.int32]:
        """Draw rows of parents, shape (rows, columns of parents); children are drawn by `children_of`."""
        return self.parents.sample(rows, seed=seed, where=where)

    def children_of(self, parents: NDArray[np.int32], *, seed: PostProcessingSeed) -> NDArray[np.int32]:
        """Draw a child for each row of parents that is given; a parent of several children is given as often.

        Args:
            parents: codes of the parent of each child, shape (children, columns of parents).
            seed: public; the same model, parents and seed give the same bytes.
        Returns:
            Codes of the child table's columns, shape (children, those columns), in the domain's order.
        Raises:
            NothingPossible: a parent has no possible child.
        Privacy: post-processing.
        """
        known = {name: parents[:, place].astype(np.int64) for place, name in enumerate(self.parents.domain.columns)}
        codes = draw_given(self.conditional, known, len(parents), seed=seed)
        return np.stack([codes[name] for name in self.child_columns], axis=1).astype(np.int32)

    @property
    def child_columns(self) -> Clique:
        """The columns of the child table."""
        return tuple(name for name in self.domain.columns if name not in self.parents.domain.columns)

    def marginal(self, clique: Clique) -> NDArray[np.float64]:
        """Return the expected counts of a clique [rows], of parents where all its columns are theirs."""
        own = set(self.parents.domain.columns)
        return self.parents.marginal(clique) if own.issuperset(clique) else self.children.marginal(clique)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[np.int64]]]:
        """Return both models as JSON values and integer arrays, for publication."""
        values: dict[str, Any] = {}
        arrays: dict[str, NDArray[np.int64]] = {}
        for name, prefix, model in (
            ("parents", _PARENTS_PREFIX, self.parents),
            ("children", _CHILDREN, self.children),
        ):
            own, numbers = model.to_arrays()
            values[name] = {"kind": model.kind, "values": own}
            arrays |= {f"{prefix}{each}": array for each, array in numbers.items()}
        return values, arrays


def read_linked(values: Mapping[str, Any], arrays: Mapping[str, NDArray[np.int64]], read: ModelReader) -> LinkedModel:
    """Read a published model back; what a stranger wrote is checked.

    Args:
        values, arrays: what `to_arrays` gave.
        read: reads the model of one table.
    Raises:
        ValueError: not a model of that kind.
    """
    parts: list[Model] = []
    if set(values) != {"parents", "children"} or not all(
        name.startswith((_PARENTS_PREFIX, _CHILDREN)) for name in arrays
    ):
        raise ValueError("a linked model has parents and children, and arrays of these alone")
    for name, prefix in (("parents", _PARENTS_PREFIX), ("children", _CHILDREN)):
        part = values[name]
        if set(part) != {"kind", "values"} or part["kind"] != _GRAPHICAL:
            raise ValueError(f"{name} must be a graphical model, with its kind and values")
        own = {each.removeprefix(prefix): array for each, array in arrays.items() if each.startswith(prefix)}
        parts.append(read(part["kind"], part["values"], own))
    parents, children = parts
    made = LinkedModel(parents, cast(GraphicalRows, children))
    _ = made.conditional  # some child is possible, and its tables are not too large
    return made


_PARENTS, _ROWS = "parents-", "children-"
_UNITS: Final = 10**6


class LinkedTablesOptions(Options):
    """Options of `linked_tables`.

    Args:
        parents: the generator of the parent table.
        children: the generator of the child table, given the parents.
        parent_options, child_options: of these generators, what they have beside the options of every generator.
        parent_share: of the budget, what the parent table takes; derived from public sizes when not given.
    """

    parents: Literal["aim", "independent", "mst", "privbayes"] = "aim"
    children: Literal["aim", "mst"] = "aim"
    parent_options: dict[str, Any] = Field(default_factory=dict)
    child_options: dict[str, Any] = Field(default_factory=dict)
    parent_share: float | None = Field(default=None, ge=0.05, le=0.95)

    @field_validator("time_limit")
    @classmethod
    def _none(cls, limit: float | None) -> float | None:
        if limit is not None:
            raise ValueError("a time limit is not offered for two tables: drop it")
        return limit


class LinkedTablesGenerator:
    """Models a parent table and, given it, a child table."""

    name: ClassVar[str] = LINKED_TABLES
    options = LinkedTablesOptions

    def resolved(self, options: LinkedTablesOptions) -> dict[str, Any]:
        """Return the options with those of both generators that nobody wrote."""
        own = {
            f"{table}_options": {
                name: value for name, value in resolved_options(*made).items() if name not in Options.model_fields
            }
            for table, made in zip(("parent", "child"), _generators(options), strict=True)
        }
        return {**effective_values(options), **own}

    def plan(self, task: SynthesisTask, options: LinkedTablesOptions) -> GeneratorPlan:
        """Plan one budget, from which the draws of both tables take their share.

        Raises:
            CannotGenerate: no two tables, parents that could have no possible child, or what the generator of either
                table refuses.
        """
        parts = _Parts.of(task, options)
        parts.check_possible()
        budget = Spending(task, options.noise)
        steps: list[PlannedStep] = []
        plans = parts.plans(options)
        for (table, share), plan in zip(parts.shares.items(), plans, strict=True):
            steps += [replace(step, what=f"{table}: {step.what}", share=step.share * share) for step in plan.steps]
        return GeneratorPlan(
            (budget.budget,),
            tuple(steps),
            max(plan.megabytes for plan in plans),
            sum(plan.seconds for plan in plans),
            {},
        )

    def fit(
        self,
        task: SynthesisTask,
        options: LinkedTablesOptions,
        plan: GeneratorPlan,
        counts: CountsSource,
        grant: Draws,
        progress: FitProgress,
        seed: DrawSeed,
    ) -> Fitted[Model]:
        """Fit the parents, then the children given them.

        Privacy: the budget of the plan; each draw's choice depends on released values only.
        """
        parts = _Parts.of(task, options)
        of_parents, of_children = parts.plans(options)
        (above, of_above), (under, of_under) = _generators(options)

        def within(table: str, start: float, end: float) -> FitProgress:
            return lambda done, what: progress(start + (end - start) * done, f"{table}: {what}")

        upper = above.fit(
            parts.parents,
            of_above,
            of_parents,
            _ParentCounts(counts),
            PrefixedDraws(grant, _PARENTS),
            within(parts.pair.parent, 0.0, 0.5),
            seed,
        )
        below = replace(parts.children, known=tuple(_known(upper, parts.pair, parts.children)))
        lower = under.fit(
            below,
            of_under,
            of_children,
            counts,
            PrefixedDraws(grant, _ROWS),
            within(parts.pair.child, 0.5, 1.0),
            seed,
        )
        if not isinstance(lower.model, PublishedModel):
            raise TypeError(f"a model of children of kind {lower.model.kind}")
        notes = _notes(parts.pair, {parts.pair.parent: upper, parts.pair.child: lower})
        return Fitted(LinkedModel(upper.model, lower.model), (*upper.draws, *lower.draws), notes)


def _notes(pair: TablePair, fitted: Mapping[str, Fitted[Any]]) -> tuple[str, ...]:
    """Return the notes of both tables, and what is not modelled."""
    of_tables = [
        message("{table}: {note}", table=table, note=note) for table, made in fitted.items() for note in made.notes
    ]
    unmodelled = message(
        "what two rows of {child} of one row of {parent} have in common beyond its columns is not modelled",
        child=pair.child,
        parent=pair.parent,
    )
    return (*of_tables, unmodelled)


@dataclass(frozen=True)
class _Parts:
    """What each of the two tables is asked for.

    Args:
        pair: the tables.
        parents, children: their tasks.
        shares: of the budget, by table; the parents' first.
    """

    pair: TablePair
    parents: SynthesisTask
    children: SynthesisTask
    shares: dict[str, float]

    @classmethod
    def of(cls, task: SynthesisTask, options: LinkedTablesOptions) -> _Parts:
        """Split a task over both tables.

        Raises:
            CannotGenerate: its contract has no two such tables, or the charge is too small to be split.
        """
        contract = task.contract
        if contract is None or contract.linked is None:
            raise CannotGenerate(f"{LINKED_TABLES} needs a contract of linked tables; do: take another generator")
        try:
            pair = table_pair(task.domain.columns, contract)
        except ValueError as error:
            raise CannotGenerate(f"{LINKED_TABLES}: {error}; do: see docs/linked-tables.md") from error
        own = set(pair.parent_columns)
        above = replace(
            task,
            domain=task.domain.project(task.domain.canonical(pair.parent_columns)),
            impossible={clique: mask for clique, mask in task.impossible.items() if own.issuperset(clique)},
            rows_per_unit=rows_per_unit(contract.linked, pair.parent),
            layout=None,
        )
        below = replace(task, given=above.domain.columns, layout=None)
        share = Fraction(round(_UNITS * (options.parent_share or _parent_share(above, below, options))), _UNITS)
        try:
            above = replace(above, epsilon=epsilon_of_part(task, share))
            below = replace(below, epsilon=epsilon_of_part(task, 1 - share))
        except AmountRefused as refused:
            raise too_small(refused) from refused
        return cls(pair, above, below, {pair.parent: float(share), pair.child: float(1 - share)})

    def plans(self, options: LinkedTablesOptions) -> tuple[GeneratorPlan, GeneratorPlan]:
        """Let the generators of both tables plan."""
        (above, of_above), (below, of_below) = _generators(options)
        return above.plan(self.parents, of_above), below.plan(self.children, of_below)

    def check_possible(self) -> None:
        """Refuse impossible cells of both tables' columns that leave some parent without any possible child.

        Raises:
            CannotGenerate: there could be such a parent.
        """
        task = self.children
        zeros = {clique: np.where(mask, -np.inf, 0.0) for clique, mask in task.impossible.items()}
        uniform = GraphicalModel(task.domain, tuple(zeros), tuple(zeros.values()), 1.0)
        try:
            found = conditional_columns(uniform, task.given)
        except (NothingPossible, ModelTooLarge) as error:
            raise CannotGenerate(f"{self.pair.child}: {error}; do: mend the contract's constraints") from error
        own = set(self.pair.parent_columns)
        known = {clique for clique in task.impossible if own.issuperset(clique)}
        left = [clique for clique, values in found.left if clique not in known and np.isneginf(values).any()]
        if left:
            raise CannotGenerate(
                f"impossible combinations leave a row of {self.pair.parent} with some values of "
                f"{', '.join(left[0])} without any possible {self.pair.child}; allowed: combinations that leave each "
                f"{self.pair.parent} some {self.pair.child}; do: declare these values of {self.pair.parent} "
                "impossible together, or leave a column out"
            )


class _ParentCounts:
    """The parent table's rows as a source of handles."""

    def __init__(self, counts: CountsSource) -> None:
        self._counts = counts

    def marginals(self, cliques: Sequence[Clique]) -> tuple[PrivateCounts, ...]:
        """Return a handle for each clique, over the rows of the parent table."""
        return self._counts.parent_marginals(cliques)

    def __getattr__(self, name: str) -> Any:
        """Refuse whatever else is asked for."""
        raise CannotGenerate(f"the parent table of linked ones has no {name}")


def _generators(options: LinkedTablesOptions) -> tuple[tuple[Generator[Any], BaseModel], ...]:
    """Return the generators of parents and of children, each with its options.

    Raises:
        CandidateRefused: options that it does not have, or that stand beside those of both tables.
    """
    from privacy.generators.calibration import generator  # which names this module

    common, made = options.model_dump(include={"noise", "max_model_megabytes"}), []
    parts = (
        ("parent_options", options.parents, options.parent_options),
        ("child_options", options.children, options.child_options),
    )
    for at, name, own in parts:
        made_by = generator(name)
        twice = sorted(set(own) & set(Options.model_fields))
        if twice:
            wrong = CannotGenerate(
                f"{twice[0]}; allowed: options of {name} alone; do: write it beside `{at}`, or drop it"
            )
            raise CandidateRefused((at,), wrong, options=own)
        try:
            made.append((made_by, made_by.options.model_validate({**own, **common})))
        except ValidationError as error:
            raise CandidateRefused((at,), error, model=made_by.options) from None
    return tuple(made)


def _parent_share(above: SynthesisTask, below: SynthesisTask, options: LinkedTablesOptions) -> float:
    """Return the parents' share of the budget; the formula stands in the module's docstring."""
    pure = Spending(above, options.noise).noise == "laplace" and above.delta == 0
    factors = []
    for task, rows in ((above, 1), (below, 2)):
        pairs = [pair for pair in combinations(task.domain.columns, 2) if not set(task.given).issuperset(pair)]
        draws = 2 * len(task.modelled)
        cells = fmean(task.domain.cells(pair) for pair in pairs) if pairs else float(task.domain.cells())
        factors.append(rows * max(1, len(pairs)) * cells * (draws if pure else sqrt(draws)))
    above_power, below_power = (float(factor ** (1 / 2 if pure else 2 / 3)) for factor in factors)
    return min(0.95, max(0.05, above_power / (above_power + below_power)))


def _known(fitted: Fitted[Model], pair: TablePair, task: SynthesisTask) -> Iterator[Measured]:
    """Yield what the parents' model says of their columns over rows of children, each parent times its size.

    A cell of n parents is one of about n times the mean size, and the variance of its noise grows with the square.
    """
    model = fitted.model
    weights = np.arange(model.domain.cells((pair.size,)), dtype=np.float64)
    sizes = model.marginal((pair.size,))
    mean = float((sizes * weights).sum() / max(float(sizes.sum()), 1.0))
    noise = min((each.variance for each in fitted.measurements), default=1.0)
    variance = max(1.0, noise * mean * mean)
    pairs = [each.clique for each in fitted.measurements if len(each.clique) == 2]
    for clique in dict.fromkeys([*((name,) for name in task.given), *pairs]):
        others = tuple(name for name in clique if name != pair.size)
        counts = model.marginal((*others, pair.size)) * weights
        own = pair.size in clique
        yield Measured((*others, pair.size) if own else others, counts if own else counts.sum(axis=-1), variance)


# --- Rows of two linked tables out of a published model and a published seed; the same bytes on any machine.


@dataclass(frozen=True, eq=False)
class LinkedRowPieces:
    """The rows of both tables.

    Args:
        model: a published model.
        contract: over the child; gives domains and constraints.
        seed: public.
        parents: how many rows of the parent table.
    Privacy: post-processing.
    """

    model: LinkedModel
    contract: Contract
    seed: PostProcessingSeed
    parents: int

    @cached_property
    def pair(self) -> TablePair:
        """The two tables, with their keys."""
        return table_pair(self.model.domain.columns, self.contract)

    @cached_property
    def parent_codes(self) -> NDArray[np.int32]:
        """Codes of the parents in the order in which they are published."""
        codes = self.model.sample(self.parents, seed=self.seed.derived("parents").value)
        return codes[shuffled(self.parents, self.seed.derived("order"))]

    @cached_property
    def owner(self) -> NDArray[np.int64]:
        """The place of each child's parent, ascending; as often as the parent's size says."""
        sizes = self.parent_codes[:, self.model.parents.domain.place(self.pair.size)]
        return np.repeat(np.arange(self.parents, dtype=np.int64), sizes)

    @cached_property
    def child_codes(self) -> NDArray[np.int32]:
        """Codes of the children, parent by parent."""
        return self.model.children_of(self.parent_codes[self.owner], seed=self.seed.derived("children"))

    @property
    def children(self) -> int:
        """How many rows of the child table."""
        return int(self.owner.size)

    def parent_rows(self) -> Iterator[tuple[Decoded, ...]]:
        """Yield the parents piece by piece: the key, then their columns."""
        names = self.model.parents.domain.columns
        keys = np.arange(1, self.parents + 1, dtype=np.int64)
        return self._decoded(self.pair.parent_key, keys, names, self.parent_codes, "parent values")

    def child_rows(self) -> Iterator[tuple[Decoded, ...]]:
        """Yield the children piece by piece: the key of the parent, then their columns."""
        names = self.model.child_columns
        return self._decoded(self.pair.child_key, self.owner + 1, names, self.child_codes, "child values")

    def _decoded(
        self, key: str, keys: NDArray[np.int64], names: Sequence[str], codes: NDArray[np.int32], purpose: str
    ) -> Iterator[tuple[Decoded, ...]]:
        decoder, values = Decoder(self.contract, names), self.seed.derived(purpose)
        for piece, start in enumerate(range(0, max(len(codes), 1), PIECE_ROWS)):
            own = keys[start : start + PIECE_ROWS]
            column = Decoded(key_form(key), own, np.zeros(own.size, dtype=np.bool_))
            yield (column, *decoder.decode(codes[start : start + PIECE_ROWS], piece=piece, words=values.words))


def key_form(name: str) -> DecodedForm:
    """Say how a column of keys is published: as whole numbers."""
    return DecodedForm(name, "integer")


def linked_forms(contract: Contract, names: Sequence[str]) -> tuple[tuple[DecodedForm, ...], tuple[DecodedForm, ...]]:
    """Return the columns of the published parents and of the published children, the key of each first.

    Args:
        contract: over the child.
        names: the columns that are synthesized, in the contract's order.
    """
    pair = table_pair(names, contract)
    above, below = (tuple(name for name in names if name in own) for own in (pair.parent_columns, pair.child_columns))
    return (
        (key_form(pair.parent_key), *Decoder(contract, above).forms),
        (key_form(pair.child_key), *Decoder(contract, below).forms),
    )
