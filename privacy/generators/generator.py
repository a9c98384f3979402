"""What everything is that fits a model through a grant: a name, an options model, a data-free plan, and a fit.

A fitter never sees rows or exact counts. It asks a `CountsSource` for handles, hands them to the grant, and gets
noisy values or a private choice back; whatever it does with these is post-processing. A generator fits a model of
rows; a trainer (`privacy.classifiers.trainer`) fits a classifier.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from math import floor, isqrt
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import to_jsonable_python

from contracts.errors import SudareError
from privacy.accounting.amounts import PICO, AmountRefused, root
from privacy.accounting.events import CountNoise, ExponentialMechanism, PrivacyEvent, Pure, ZeroConcentrated
from privacy.accounting.renyi import Budget, limit, rho_for, share
from privacy.grant.measurement import Measurement, Selection, SumMeasurement
from privacy.marginals.portable import PostProcessingSeed
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise, Noise, NoiseKind, noise_event

if TYPE_CHECKING:
    from contracts.contract.contract import Adjacency, Contract
    from contracts.contract.impossible_cells import Clique
    from contracts.domains.addends import Addends
    from contracts.domains.bins import ExactNumber
    from contracts.domains.trees import BinTree
    from privacy.grant.draws import Draws
    from privacy.learning.layout import PrivateRows, RowLayout
    from privacy.learning.trained import Trained
    from privacy.marginals.cell_sums import PrivateCellSums
    from privacy.marginals.counts import PrivateCounts
    from privacy.marginals.estimation import Measured
    from privacy.marginals.graph import CellDomain

FitProgress = Callable[[float, str], None]
"""Told how much is done (0 to 1, never less than before) and what is being done; the text holds no count."""

DrawSeed = Callable[[], PostProcessingSeed]
"""Draws the public seed of post-processing; called after the last noise, if at all."""

OptionsT = TypeVar("OptionsT", bound=BaseModel)
ModelT_co = TypeVar("ModelT_co", covariant=True)


class CannotGenerate(SudareError):
    """A generator cannot do what it is asked; known from public facts, before anything is charged."""

    exit_code = 2


class CandidateRefused(CannotGenerate):
    """The part of one of several tables cannot be what is written.

    Args:
        at: its place below the options of the generator that makes all.
        cause: what is wrong: a misread option, or what the part's own generator says.
        options: of the part, as they are written.
        model: the options that were misread.
    """

    def __init__(
        self,
        at: tuple[str | int, ...],
        cause: Exception,
        *,
        options: Mapping[str, Any] | None = None,
        model: type[BaseModel] | None = None,
    ) -> None:
        super().__init__(f"{'.'.join(map(str, at))}: {cause}")
        self.at, self.cause, self.options, self.model = at, cause, options or {}, model


class OutOfTime(SudareError):
    """The time limit of a fit has passed before it had a model; what was drawn stays charged, and is replayed."""


@dataclass(frozen=True)
class InsideTask:
    """What is measured inside bins; public, data-free.

    Args:
        trees: of counts, one a column.
        axes: the declared bins of each of these columns.
        share: of the charge, for all of them together, above 0 and below 1.
        joins: whether bins are joined as the trees say, and a sum of each column is drawn beside its tree.
    """

    trees: tuple[BinTree, ...]
    axes: tuple[tuple[tuple[ExactNumber, ExactNumber], ...], ...]
    share: Fraction
    joins: bool = False


@dataclass(frozen=True)
class SynthesisTask:
    """What a generator is asked for; public, data-free.

    Args:
        domain: the columns to synthesize, in order, with their cells.
        impossible: structural zeros: for some cliques, in the domain's order of columns, True where no row can be.
        adjacency: neighbour relation of the contract.
        rows_per_unit: bound k on the rows of one unit.
        epsilon: what the release may cost, > 0.
        delta: 0 <= delta < 1; 0 asks for a pure guarantee, with Laplace noise.
        public_total: the number of rows, where the contract declares it public (replace_one); else None.
        layout: the same columns as entries of a vector, for generators that learn from rows; None where unknown.
        inside: what is measured inside bins beside what the generator draws; None where nothing is.
        contract: the contract, for generators that read its labels; None where it is not known.
        known: noisy marginals that were released before within the same charge: what a model is fitted to beside its
            own, as far as its cap allows.
        copies: how many further models are fitted, each to the measurements drawn again around the first.
        given: columns that rows will be drawn for, and whose own distribution is known; nothing is spent on it.
        modifiers: of synthetic rows, those that ask something of the fit (`privacy.generators.calibration`).
    """

    domain: CellDomain
    impossible: Mapping[Clique, NDArray[np.bool_]]
    adjacency: Adjacency
    rows_per_unit: int
    epsilon: Fraction
    delta: Fraction
    public_total: int | None
    layout: RowLayout | None = None
    inside: InsideTask | None = None
    contract: Contract | None = None
    known: tuple[Measured, ...] = ()
    copies: int = 0
    given: Clique = ()
    modifiers: tuple[str, ...] = ()

    @property
    def modelled(self) -> Clique:
        """The columns whose distribution is asked for, given the others."""
        return tuple(name for name in self.domain.columns if name not in self.given)


TaskT_contra = TypeVar("TaskT_contra", bound=SynthesisTask, contravariant=True)


@dataclass(frozen=True)
class PlannedStep:
    """One line of a plan, for people.

    Args:
        what: "one-way marginals", "private choices", "rounds".
        count: how many draws, at most.
        share: of the budget, 0 to 1.
        noise: in words with numbers, such as "discrete Gaussian, standard deviation 61.2".
    """

    what: str
    count: int
    share: float
    noise: str


@dataclass(frozen=True)
class InsideError:
    """What noise inside bins is expected to do to the values of a column, beside the noise of the bins themselves.

    Args:
        sum: standard deviation of the column's sum [units · rows]; of its mean, this over the number of rows.
        rank: standard deviation at most of the rank of a quantile, such as the median's [rows].
    """

    sum: float
    rank: float


@dataclass(frozen=True)
class GeneratorPlan:
    """What a generator will spend, data-free.

    Args:
        events: what is charged: the draws, where all are known beforehand, else one budget for those that are chosen
            on the way.
        steps: what it is spent on.
        megabytes: most memory that the model may take.
        seconds: rough time.
        expected_error: by order (1, 2, ...) mean L1 error of marginals by noise alone [rows]; empty where unknown.
        inside_error: of each column whose bins are looked into, what noise inside them is expected to do.
        notes: what else a person should know before it is charged.
    """

    events: tuple[PrivacyEvent, ...]
    steps: tuple[PlannedStep, ...]
    megabytes: float
    seconds: float
    expected_error: Mapping[int, float]
    inside_error: Mapping[str, InsideError] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class CountsSource(Protocol):
    """Where handles come from."""

    def marginals(self, cliques: Sequence[Clique]) -> tuple[PrivateCounts, ...]:
        """Return a handle for each clique; nothing is read before a grant opens one."""
        ...

    def rows(self, names: Sequence[str] | None = None) -> PrivateRows:
        """Return a handle on the rows of some columns; nothing is read before a grant opens it."""
        ...

    def sums(self, clique: Clique, addends: Sequence[Addends]) -> tuple[PrivateCellSums, ...]:
        """Return a handle for each of what is counted over the lattices of columns, by the cells of a clique."""
        ...

    def parent_marginals(self, cliques: Sequence[Clique]) -> tuple[PrivateCounts, ...]:
        """Return a handle for each clique over the rows of the base's parent table, of linked tables."""
        ...


class Model(Protocol):
    """A fitted model: all that sampling needs, released, in whole numbers so that it replays on any machine.

    One whose fit is in whole numbers too says `in_whole_numbers = True`: fitted again it must be the same."""

    kind: ClassVar[str]

    @property
    def domain(self) -> CellDomain:
        """The columns with their cells."""
        ...

    @property
    def rows(self) -> int:
        """The public or the estimated number of rows."""
        ...

    def sample(self, rows: int, *, seed: int, where: Mapping[str, Sequence[int]] | None = None) -> NDArray[np.int32]:
        """Draw rows of codes, shape (rows, columns); the same model, seed and condition give the same bytes."""
        ...

    def marginal(self, clique: Clique) -> NDArray[np.float64]:
        """Return the expected counts of a clique [rows]."""
        ...

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[np.int64]]]:
        """Return the model as JSON values and integer arrays, for publication."""
        ...


ModelReader = Callable[[str, Mapping[str, Any], Mapping[str, NDArray[np.int64]]], Model]
"""Reads a published model of a kind back from its JSON values and arrays."""


class ReleasedDraw(Protocol):
    """What a grant has drawn for a fit, with the kind of the query that asked for it."""

    kind: ClassVar[str]


@dataclass(frozen=True)
class Fitted(Generic[ModelT_co]):
    """What a fit gives.

    Args:
        model: the model; the `rows` of a model of rows is their public or their estimated number.
        draws: all that was drawn for it; those of one kind in order.
        notes: what a reader of the record should know.
        seed: of post-processing, where the fit drew it; rows are sampled by one that is drawn after the fit.
    """

    model: ModelT_co
    draws: tuple[ReleasedDraw, ...] = ()
    notes: tuple[str, ...] = ()
    seed: PostProcessingSeed | None = None

    def of_kind(self, kind: str) -> tuple[Any, ...]:
        """Return what was drawn by one kind of query, in order."""
        return tuple(each for each in self.draws if each.kind == kind)

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """The noisy marginals."""
        return self.of_kind(Measurement.kind)

    @property
    def selections(self) -> tuple[Selection, ...]:
        """The private choices."""
        return self.of_kind(Selection.kind)

    @property
    def sums(self) -> tuple[SumMeasurement, ...]:
        """The noisy sums over rows."""
        return self.of_kind(SumMeasurement.kind)

    @property
    def trainings(self) -> tuple[Trained, ...]:
        """What was trained by DP-SGD."""
        return self.of_kind("training")


class Fitter(Protocol, Generic[OptionsT, TaskT_contra, ModelT_co]):
    """A way to fit a model to noisy values."""

    name: ClassVar[str]
    options: type[OptionsT]

    def plan(self, task: TaskT_contra, options: OptionsT) -> GeneratorPlan:
        """Plan without data.

        Raises:
            CannotGenerate: it is known already that the fit must fail; nothing is charged.
        """
        ...

    def fit(
        self,
        task: TaskT_contra,
        options: OptionsT,
        plan: GeneratorPlan,
        counts: CountsSource,
        grant: Draws,
        progress: FitProgress,
        seed: DrawSeed,
    ) -> Fitted[ModelT_co]:
        """Measure through the grant and estimate a model.

        Raises:
            OutOfTime: the options' time limit has passed before there was a model.
            GrantExceeded: it drew more than it planned; nothing was drawn.
        Privacy: exactly what the grant admits.
        """
        ...


class Generator(Fitter[OptionsT, SynthesisTask, Model], Protocol[OptionsT]):
    """A way to make synthetic microdata. Others register theirs in the entry point group `sudare.generators`.

    One that can make pictures (columns of several codes a row) says so by a class attribute `takes_pictures = True`;
    the others are refused such columns before they plan. One that asks for marginals alone says `reads_rows = False`:
    an engine can count for it. One whose model follows from its marginals by
    `privacy.generators.fitting.fitted_model` says `takes_copies = True`.
    """


# --- What a fit may spend, and what a part of it buys.


TOO_SMALL: Final = "the charge is too small"
_FINEST: Final = 10**9
_UNITS: Final = 10**15
"""Shares and epsilons are whole multiples of 10^-15, those of a pure budget of 10^-12 (`Spending.split`)."""


class Spending:
    """A budget with what has been spent of it.

    Args:
        asked: epsilon, delta and the relation between neighbours.
        noise: kind of noise; None for gaussian unless delta is 0.
    Raises:
        CannotGenerate: Gaussian noise with delta 0, or an epsilon too small for any noise.
    """

    def __init__(self, task: SynthesisTask, noise: NoiseKind | None) -> None:
        if noise == "gaussian" and task.delta == 0:
            raise CannotGenerate(
                "noise: gaussian needs a delta above 0, and delta is 0; "
                "do: use noise: laplace, or give the charge a delta"
            )
        self.noise: NoiseKind = noise or ("gaussian" if task.delta > 0 else "laplace")
        self._asked = task
        try:
            self.budget: Budget = (
                ZeroConcentrated(rho_for(task.epsilon, task.delta))
                if task.delta > 0
                else Pure(down(task.epsilon, PICO))
            )
        except AmountRefused as refused:
            raise too_small(refused) from refused
        self.spent = Fraction(0)

    @property
    def total(self) -> Fraction:
        """The whole budget."""
        return limit(self.budget)

    @property
    def left(self) -> Fraction:
        """What has not been spent."""
        return self.total - self.spent

    def take(self, event: PrivacyEvent) -> None:
        """Count a draw as spent."""
        self.spent += share(self.budget, event)

    def buys(self, part: Fraction) -> Noise:
        """Return the noise of a measurement that takes a share of the budget."""
        if self.noise == "gaussian":
            return GaussianNoise(part)
        return LaplaceNoise(_root(2 * part) if isinstance(self.budget, ZeroConcentrated) else part)

    def event(self, part: Fraction) -> CountNoise:
        """Return the event of such a measurement.

        Raises:
            CannotGenerate: the share is too small for any noise.
        """
        try:
            asked = self._asked
            return noise_event(self.buys(part), adjacency=asked.adjacency, rows_per_unit=asked.rows_per_unit)
        except AmountRefused as refused:
            raise too_small(refused) from refused

    def chooses(self, part: Fraction) -> Fraction:
        """Return the epsilon of a private choice that takes a share of the budget."""
        return _root(8 * part) if isinstance(self.budget, ZeroConcentrated) else down(part)

    def choice(self, part: Fraction) -> ExponentialMechanism:
        """Return the event of such a choice.

        Raises:
            CannotGenerate: the share is too small for any choice.
        """
        try:
            return ExponentialMechanism(self.chooses(part))
        except AmountRefused as refused:
            raise too_small(refused) from refused

    def split(self, total: Fraction, weights: Sequence[Fraction | int]) -> tuple[Fraction, ...]:
        """Split (a part of) the budget in proportion to weights.

        Parts of a pure budget are whole units of the ledger, which rounds each draw's loss up by itself: together
        the draws cost what the budget does, and no unit more.
        """
        return split(total, weights, units=self._units)

    def down(self, amount: Fraction) -> Fraction:
        """Round a part of the budget down to whole units: of a pure budget those of the ledger."""
        return down(amount, self._units)

    @property
    def _units(self) -> int:
        return PICO if isinstance(self.budget, Pure) else _UNITS

    def of_choice(self, epsilon: Fraction) -> Fraction:
        """Return the share that a private choice of an epsilon takes."""
        return epsilon * epsilon / 8 if isinstance(self.budget, ZeroConcentrated) else epsilon

    def optimal(self, sizes: Sequence[Fraction], part: Fraction | None = None) -> tuple[Fraction, ...]:
        """Split the budget over measurements so that the sum of size · deviation is least.

        Formula: a deviation falls as share^-1/2, or as share^-1 for a pure budget; by Lagrange the shares are in
        proportion to size^(2/3), or to size^(1/2)

        Args:
            sizes: weight times cells of each measurement, > 0.
            part: of the budget; all of it, when not given.
        """
        whole = self.total if part is None else part
        if isinstance(self.budget, ZeroConcentrated):
            return self.split(whole, [root(size * size, 3) for size in sizes])
        return self.split(whole, [root(size, 2) for size in sizes])


def epsilon_of_part(task: SynthesisTask, part: Fraction) -> Fraction:
    """Return the largest epsilon, in steps of 10^-9, whose budget is within a part of that of a charge.

    Args:
        task: the charge.
        part: of its budget, in (0, 1].
    Raises:
        AmountRefused: the charge is too small for any budget.
        CannotGenerate: the part is.
    """
    if task.delta == 0:
        return down(task.epsilon * part, PICO)
    return _within(rho_for(task.epsilon, task.delta) * part, task.epsilon, task.delta)


@lru_cache(maxsize=256)
def _within(most: Fraction, epsilon: Fraction, delta: Fraction) -> Fraction:
    # The budget of an epsilon rises with it: halving finds the largest one.
    low, high = 0, int(epsilon * _FINEST) + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _budget(Fraction(middle, _FINEST), delta) <= most else (low, middle)
    if low == 0:
        raise CannotGenerate(f"{TOO_SMALL} to be split over the draws; do: raise epsilon")
    return Fraction(low, _FINEST)


def _budget(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the budget of an epsilon; 0 of one that is too small for any."""
    try:
        return rho_for(epsilon, delta)
    except AmountRefused:
        return Fraction(0)


def too_small(refused: AmountRefused) -> CannotGenerate:
    """Return what is said when the charge is too small to be split."""
    return CannotGenerate(f"{TOO_SMALL} to be split over the draws: {refused}; do: raise epsilon")


def split(budget: Fraction, weights: Sequence[Fraction | int], *, units: int = _UNITS) -> tuple[Fraction, ...]:
    """Split a budget in proportion to weights, into multiples of 1 / units; the last part takes what rounding leaves.

    Args:
        budget: > 0.
        weights: > 0, at least one.
        units: in one.
    """
    total = sum(weights)
    parts = [down(budget * weight / total, units) for weight in weights[:-1]]
    return (*parts, budget - sum(parts))


def down(amount: Fraction, units: int = _UNITS) -> Fraction:
    """Round down to a multiple of 1 / units."""
    return Fraction(floor(amount * units), units)


def _root(square: Fraction) -> Fraction:
    """Return the square root, rounded down to a multiple of 10^-15."""
    return Fraction(isqrt(floor(square * _UNITS * _UNITS)), _UNITS)


# --- The options of a fitter.


class Options(BaseModel):
    """What may be asked of any built-in generator; unknown options are refused.

    Args:
        noise: kind of noise; gaussian unless delta is 0, when not given.
        max_model_megabytes: most memory that the model's tables may take [MB of 2²⁰ bytes].
        time_limit: stop drawing after so many seconds; what has been measured by then makes the model [s].
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    noise: NoiseKind | None = None
    max_model_megabytes: float = Field(default=80, gt=0, allow_inf_nan=False)
    time_limit: float | None = Field(default=None, gt=0, allow_inf_nan=False)


def resolved_options(fitter: Fitter[Any, Any, Any], options: BaseModel) -> dict[str, Any]:
    """Return the options of a fitter as JSON values, with all that nobody wrote.

    Options that the fitter would not read back as the same, as those of another package may be, stay as they were
    written.

    Args:
        fitter: whose options they are.
        options: as the fitter's own model read them.
    """
    values = getattr(fitter, "resolved", effective_values)
    resolved: dict[str, Any] = values(options)
    try:
        same = values(fitter.options.model_validate(resolved)) == resolved
    except ValidationError:
        same = False
    return resolved if same else options.model_dump(mode="json", by_alias=True, exclude_unset=True)


def effective_values(options: BaseModel) -> dict[str, Any]:
    """Return all values of a model, but for those that have no effect beside the others."""
    idle = set(getattr(options, "without_effect", ()))
    return options.model_dump(mode="json", by_alias=True, exclude=idle)


def default_values(form: type[BaseModel]) -> dict[str, Any]:
    """Return as JSON values what this version gives each option that nobody writes."""
    return {
        field.alias or name: to_jsonable_python(field.get_default(call_default_factory=True))
        for name, field in form.model_fields.items()
        if not field.is_required()
    }


def non_default_options(form: type[BaseModel], written: Mapping[str, Any]) -> dict[str, Any]:
    """Return those options that differ from the defaults of this version."""
    usual = default_values(form)
    return {name: value for name, value in written.items() if name not in usual or usual[name] != value}
