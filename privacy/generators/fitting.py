"""One fit on its way: it measures through the grant, and estimates a model from what was measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from math import comb, lcm, pi, sqrt
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field, model_validator

from contracts.reading.scalars import nearest, word_list
from privacy.generators.generator import (
    CannotGenerate,
    CountsSource,
    FitProgress,
    Fitted,
    Model,
    Options,
    OutOfTime,
    Spending,
    SynthesisTask,
)
from privacy.grant.queries.marginal import MarginalQuery
from privacy.marginals.blocks import NothingPossible
from privacy.marginals.count_noise import mean_absolute, variance
from privacy.marginals.estimation import STEPS, Measured, StructuralZeros, estimate, estimate_total
from privacy.marginals.graph import CellDomain, ModelSizes, model_size
from privacy.marginals.model import PublishedModel

if TYPE_CHECKING:
    from contracts.contract.impossible_cells import Clique
    from privacy.accounting.events import CountNoise
    from privacy.grant.draws import Draws
    from privacy.grant.measurement import Measurement, Selection
    from privacy.marginals.counts import PrivateCounts
    from privacy.marginals.inference import GraphicalModel

Stopwatch = Callable[[], float]
ROUGH_TOLERANCE: Final = 0.02
"""Where estimation of a larger model between draws stops: a gap of so many noise variances a measured cell."""
SMALL_TOLERANCE: Final = 0.01
SMALL_STEPS: Final = 3
SMALL_MODEL: Final = 2.0
MANY_CLIQUES: Final = 100
"""Models up to these [MB, cliques] are estimated more finely between draws: 1 to 4 % lower errors for three times the
time, which is short there."""
LARGE_MODEL: Final = 8.0
"""Models above it are estimated in one step: a third of the time, and errors that differ by less than 1 % [MB]."""


class MarginalGenerator:
    """What generators of marginals have alike: they ask for marginals alone, of which their model is `fitted_model`.

    Args:
        clock: seconds since any moment; for the time limit.
    """

    reads_rows: ClassVar[bool] = False
    takes_copies: ClassVar[bool] = True

    def __init__(self, clock: Stopwatch = time.monotonic) -> None:
        self._clock = clock


class Fitting:
    """The state of a fit; all that it holds is released, the handles apart, which it cannot open.

    Args:
        asked: what is asked for.
        options: the options common to all.
        counts: where handles come from.
        grant: draws.
        progress: told how far it is.
        clock: seconds since any moment.
    """

    def __init__(
        self,
        task: SynthesisTask,
        options: Options,
        counts: CountsSource,
        grant: Draws,
        progress: FitProgress,
        clock: Stopwatch = time.monotonic,
    ) -> None:
        self.asked = task
        self.options = options
        self.spending = Spending(task, options.noise)
        self.measurements: list[Measurement] = []
        self.selections: list[Selection] = []
        self.progress = progress
        self._counts, self._grant = counts, grant
        self._handles: dict[Clique, PrivateCounts] = {}
        self._clock, self._began = clock, clock()

    @property
    def late(self) -> bool:
        """Whether the time limit has passed."""
        limit = self.options.time_limit
        return limit is not None and self._clock() - self._began >= limit

    def refuse_late(self, what: str) -> None:
        """Refuse to go on when the time limit has passed and there is no model yet.

        Raises:
            OutOfTime: what was drawn stays charged; a run that resumes replays it.
        """
        if self.late:
            raise OutOfTime(
                f"time_limit {self.options.time_limit:g} s has passed before the {what} were measured; "
                "do: run the same spec again, which replays what was measured and goes on from there; with another "
                "time_limit it is another release, and is charged anew"
            )

    @property
    def _key_of_measurement(self) -> str:
        # A draw's key is its place in the order: the same fit run again finds it.
        return f"measurement-{len(self.measurements) + 1:04d}"

    def look_up(self, cliques: Sequence[Clique]) -> None:
        """Get handles for many cliques at once, so that they can be counted in one scan."""
        new = [clique for clique in dict.fromkeys(cliques) if clique not in self._handles]
        if new:
            self._handles.update(zip(new, self._counts.marginals(new), strict=True))

    def measure(self, clique: Clique, part: Fraction) -> Measurement:
        """Measure a clique for a share of the budget."""
        self.look_up([clique])
        key = self._key_of_measurement
        drawn = self._grant.draw(MarginalQuery(self._handles[clique], self.spending.buys(part)), key=key)
        self.spending.take(drawn.event)
        self.measurements.append(drawn)
        return drawn

    def total(self) -> float:
        """Return the number of rows: the public one, or the one estimated from what was measured [rows]."""
        return total_of(self.asked, [*self._measured(), *self.asked.known])

    def rough(self, start: GraphicalModel | None = None) -> GraphicalModel:
        """Return a model that is good enough to choose by, while more measurements are to come."""
        cliques = {one.clique for one in [*self._measured(), *self._known()]} | set(self.asked.impossible)
        if len(cliques) <= MANY_CLIQUES and model_size(self.asked.domain, list(cliques)) <= SMALL_MODEL:
            return self._estimate(start, steps=SMALL_STEPS, tolerance=SMALL_TOLERANCE)
        return self._estimate(start, steps=1, tolerance=ROUGH_TOLERANCE)

    def final(self, start: GraphicalModel | None = None, notes: Sequence[str] = ()) -> Fitted[Model]:
        """Estimate the model that fits best, and return it with all that was drawn."""
        self.progress(0.95, "estimating")
        measured = [*self._measured(), *self._known()]
        model = fitted_model(self.asked, self.options, measured, self.total(), start)
        return Fitted(model, (*self.measurements, *self.selections), tuple(notes))

    def _estimate(self, start: GraphicalModel | None, **precision: Any) -> GraphicalModel:
        measured = [*self._measured(), *self._known()]
        return _estimate(self.asked, self.options, measured, self.total(), start, **precision)

    def _measured(self) -> list[Measured]:
        return released_counts(self.measurements)

    def _known(self) -> Sequence[Measured]:
        """Return what was known before, as far as the model's cap allows beside what was measured."""
        cliques = [*self.asked.impossible, *(one.clique for one in self.measurements)]
        cap, whole = self.options.max_model_megabytes, [*cliques, *(one.clique for one in self.asked.known)]
        if not self.asked.known or model_size(self.asked.domain, whole) <= cap:
            return self.asked.known
        fitting: list[Measured] = []
        for one in self.asked.known:
            if model_size(self.asked.domain, [*cliques, one.clique]) <= cap:
                fitting.append(one)
                cliques.append(one.clique)
        return fitting


def released_counts(measurements: Sequence[Measurement]) -> list[Measured]:
    """Return noisy marginals as a model is fitted to them."""
    return [Measured(one.clique, one.values, one.variance) for one in measurements]


def zeros(task: SynthesisTask) -> tuple[StructuralZeros, ...]:
    """Return the structural zeros as the engine takes them."""
    return tuple(StructuralZeros(clique, mask) for clique, mask in task.impossible.items())


def total_of(task: SynthesisTask, measured: Sequence[Measured]) -> float:
    """Return the public number of rows, or the one estimated from what was measured [rows]."""
    return estimate_total(measured) if task.public_total is None else float(task.public_total)


def fitted_model(
    task: SynthesisTask,
    options: Options,
    measured: Sequence[Measured],
    total: float,
    start: GraphicalModel | None = None,
) -> PublishedModel:
    """Return the model that fits noisy marginals best, in whole numbers.

    Args:
        task: gives domain and structural zeros.
        options: give the model's cap.
        measured: the noisy marginals.
        total: public or estimated number of rows; may be negative [rows].
        start: where the search starts; it changes the time alone.
    Privacy: post-processing.
    """
    size = model_size(task.domain, [*task.impossible, *(one.clique for one in measured)])
    found = _estimate(task, options, measured, total, start, steps=STEPS if size <= LARGE_MODEL else 1)
    # The estimate may be negative; a number of rows is not.
    return PublishedModel.of(found, max(0, round(total)))


def _estimate(
    task: SynthesisTask,
    options: Options,
    measured: Sequence[Measured],
    total: float,
    start: GraphicalModel | None,
    **precision: Any,
) -> GraphicalModel:
    """Estimate; a model of one row where the total is 0 or negative."""
    found = estimate(
        task.domain,
        measured,
        total=max(total, 1.0),
        structural_zeros=zeros(task),
        start=start,
        cap_mb=options.max_model_megabytes,
        **precision,
    )
    return found.model


# --- What is known about a fit before any data.


_MOST_MARGINALS: Final = 20_000
_SECONDS_PER_DRAW: Final = 0.03
_SECONDS_AN_ESTIMATE: Final = 0.05
_SECONDS_PER_MEGABYTE: Final = 2.0


def check(task: SynthesisTask, options: Options, cliques: Iterable[Clique]) -> None:
    """Refuse what must fail: no columns, no possible row, or a clique that alone is above the cap.

    Raises:
        CannotGenerate: with what to do.
    """
    if not task.domain.columns:
        raise CannotGenerate("there are no columns to synthesize; do: give the contract at least one with a domain")
    check_size(task, options, (), "the columns and the declared impossible combinations")
    sizes = ModelSizes(task.domain, task.impossible)
    for clique in cliques:
        refuse_above_cap(sizes.with_one(clique), options, f"the clique {'×'.join(clique)}")
    if task.impossible:
        # An estimate from the zeros alone shows whether any row is possible.
        try:
            estimate(task.domain, (), total=1.0, structural_zeros=zeros(task))
        except NothingPossible as nothing:
            raise CannotGenerate(str(nothing)) from nothing


def check_size(task: SynthesisTask, options: Options, cliques: Iterable[Clique], what: str) -> float:
    """Return the size of a model of cliques, measured together [MB].

    Raises:
        CannotGenerate: above the cap.
    """
    size = model_size(task.domain, (*task.impossible, *cliques))
    refuse_above_cap(size, options, what)
    return size


def refuse_above_cap(size: float, options: Options, what: str) -> None:
    """Refuse a model above the cap.

    Raises:
        CannotGenerate: with what to do.
    """
    if size > options.max_model_megabytes:
        written = f"{size:,.1f}" if size >= 1 else f"{size:.2g}"
        raise CannotGenerate(
            f"{what}: a model of {written} MB; allowed: max_model_megabytes {options.max_model_megabytes:g}; "
            "do: take smaller cliques or coarser bins, or raise max_model_megabytes"
        )


def check_time(options: Options, needed: float) -> None:
    """Refuse a time limit within which there cannot be a model.

    Raises:
        CannotGenerate: with the time that is needed.
    """
    if options.time_limit is not None and options.time_limit < needed:
        raise CannotGenerate(
            f"time_limit {options.time_limit:g} s is too short for a first model; allowed: at least {needed:.2g} s; "
            "do: raise time_limit or drop it"
        )


def named(domain: CellDomain, cliques: Iterable[Sequence[str]], option: str) -> tuple[Clique, ...]:
    """Return cliques in the domain's order of columns, each once.

    Raises:
        CannotGenerate: an unknown column, one named twice, or an empty clique.
    """
    found: dict[Clique, None] = {}
    for clique in cliques:
        unknown = [name for name in clique if name not in domain.columns]
        if unknown or not clique or len(set(clique)) != len(clique):
            wrong = f"unknown columns {', '.join(unknown)}" if unknown else f"the clique {list(clique)}"
            meant = nearest(unknown[0], domain.columns) if unknown else ""
            allowed = f"distinct columns, each {word_list(domain.columns)}"
            raise CannotGenerate(f"{option}: {wrong}; allowed: {allowed}; do: {meant or 'mend the spec'}")
        found[domain.canonical(clique)] = None
    return tuple(found)


def estimation_seconds(megabytes: float) -> float:
    """Say roughly how long one estimate of a model of that size takes [s]."""
    return _SECONDS_AN_ESTIMATE + _SECONDS_PER_MEGABYTE * megabytes


def drawing_seconds(draws: int) -> float:
    """Say roughly how long so many draws take [s]."""
    return _SECONDS_PER_DRAW * draws


def expected_error(domain: CellDomain, measured: Sequence[tuple[Clique, CountNoise]]) -> Mapping[int, float]:
    """Return for each order the mean, over all marginals of it, of the expected L1 error that noise alone makes.

    A marginal is read off the measured clique that contains it and gives it the least noise; an order of which some
    marginal is in no measured clique is left out. What estimation gains is not counted.

    Formula: n · E|noise| where measured itself, else sqrt(2 / pi · variance · n · cells of the clique), n its cells
    """
    errors = {}
    for order in range(1, 1 + max((len(clique) for clique, _ in measured), default=0)):
        if comb(len(domain.columns), order) > _MOST_MARGINALS:
            break
        best: dict[Clique, float] = {}
        for clique, event in measured:
            for part in combinations(clique, order):
                best[part] = min(best.get(part, float("inf")), _error(domain, part, clique, event))
        if len(best) == comb(len(domain.columns), order):
            errors[order] = sum(best.values()) / len(best)
    return errors


def noise_in_words(events: Sequence[CountNoise]) -> str:
    """Say what noise events are, such as "discrete Gaussian, standard deviation 61.2"."""
    deviations = sorted({f"{sqrt(variance(event)):.3g}" for event in events}, key=float)
    kind = events[0].kind.replace("_", " ").replace("gaussian", "Gaussian").replace("laplace", "Laplace")
    reach = deviations[0] if len(deviations) == 1 else f"{deviations[0]} to {deviations[-1]}"
    return f"{kind}, standard deviation {reach}"


def _error(domain: CellDomain, part: Clique, clique: Clique, event: CountNoise) -> float:
    cells, whole = domain.cells(part), domain.cells(clique)
    if cells == whole:
        return cells * mean_absolute(event)
    # A sum of many cells' noise is nearly Gaussian: its mean size is sqrt(2 / pi) deviations.
    return cells * sqrt(2 / pi * variance(event) * whole / cells)


# --- Workloads.


MOST_CLIQUES: Final = 500_000


class WeightedClique(BaseModel):
    """Columns with a weight; a bare list of columns has weight 1.

    Args:
        columns: of the marginal, at least one.
        weight: how much it matters, > 0.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    columns: tuple[str, ...] = Field(min_length=1)
    weight: float = Field(default=1, gt=0, le=1e6, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _from_list(cls, value: Any) -> Any:
        return {"columns": value} if isinstance(value, list | tuple) else value


def weighted(domain: CellDomain, cliques: Iterable[WeightedClique], option: str) -> dict[Clique, Fraction]:
    """Return the weight of each clique; those of a clique that is named more than once are added.

    Raises:
        CannotGenerate: unknown columns, or one named twice in a clique.
    """
    weights: dict[Clique, Fraction] = {}
    for clique in cliques:
        (columns,) = named(domain, [clique.columns], option)
        weights[columns] = weights.get(columns, Fraction(0)) + Fraction(str(clique.weight))
    return weights


def all_of_order(domain: CellDomain, order: int) -> dict[Clique, Fraction]:
    """Return all cliques of so many columns (of all columns, if there are fewer), each of weight 1.

    Raises:
        CannotGenerate: they are too many to be looked at in every round.
    """
    number = comb(len(domain.columns), min(order, len(domain.columns)))
    if number > MOST_CLIQUES:
        raise CannotGenerate(
            f"degree {order} on {len(domain.columns)} columns: {number:,} marginals; "
            f"allowed: at most {MOST_CLIQUES:,}; "
            "do: lower degree, publish fewer columns, or list what matters as workload"
        )
    return {clique: Fraction(1) for clique in combinations(domain.columns, min(order, len(domain.columns)))}


def downward_closure(domain: CellDomain, cliques: Iterable[Clique]) -> tuple[Clique, ...]:
    """Return all non-empty subsets of the cliques, small ones first, then in the domain's order."""
    parts = {part for clique in cliques for size in range(1, 1 + len(clique)) for part in combinations(clique, size)}
    return tuple(sorted(parts, key=lambda part: (len(part), [domain.place(name) for name in part])))


def relevance(weights: Mapping[Clique, Fraction], candidates: Iterable[Clique]) -> dict[Clique, Fraction]:
    """Return w_r = sum over the workload's cliques s of c_s · |r ∩ s|, for each candidate r.

    Source: AIM, McKenna et al. 2022, algorithm 2 line 7.
    """
    unit = lcm(
        *(weight.denominator for weight in set(weights.values()))
    )  # sums of whole numbers are ten times faster
    of_column: dict[str, int] = {}
    for clique, weight in weights.items():
        parts = weight.numerator * (unit // weight.denominator)
        for name in clique:
            of_column[name] = of_column.get(name, 0) + parts
    # The sum over cliques s of c_s |r ∩ s|, taken column by column.
    return {clique: Fraction(sum(of_column.get(name, 0) for name in clique), unit) for clique in candidates}
