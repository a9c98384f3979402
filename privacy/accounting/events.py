"""Events: what a draw of noise cost, as frozen values that a record can carry and a stranger can read.

An event holds the noise and the worst change that one neighbouring table makes to the numbers under it
(`moves`: the worst neighbour shifts that many cells by those integers). Its loss is a function of these alone;
`renyi` computes it. `adjacencies` names the relations between neighbours under which that loss is valid.
JSON goes through the explicit table of kinds: those below, and those that packages register as `sudare.events`. An
unknown kind is refused.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Final, Self

from contracts.errors import SudareError
from contracts.plug_ins import find, others
from privacy.accounting.amounts import ATTO, PICO, AmountRefused, exact

# --- What every event is.


class UnsupportedEvent(SudareError):
    """An event that is not known here, or whose loss is infinite in the calculus that is asked."""


@dataclass(frozen=True)
class WrittenEvent:
    """An event that is written as its kind and its fields.

    `drawn` says that a grant draws such noise; what is none is a budget, or stands for noise in a computation.
    """

    kind: ClassVar[str]
    drawn: ClassVar[bool] = True

    def to_json(self) -> dict[str, Any]:
        """Write the event as JSON values, its kind first; rationals as text, numbers of steps as numbers."""
        return {"kind": self.kind, **{field.name: _shown(getattr(self, field.name)) for field in fields(self)}}


@dataclass(frozen=True)
class RegisteredEvent(WrittenEvent, ABC):
    """An event that a package registers at the entry point `sudare.events`, by its kind.

    Its fields are rationals (`Fraction`), whole numbers (`int`) and moves (`tuple[int, ...]`); it checks their ranges
    when it is made. `adjacencies` names the relations between neighbours under which its loss is valid. A checker
    computes the loss by `tasks.verification.recompute`, from code of its own.
    """

    adjacencies: ClassVar[frozenset[str]]

    @property
    @abstractmethod
    def pure_loss(self) -> Fraction | None:
        """The pure epsilon, exactly; None where it is infinite."""

    @abstractmethod
    def divergence(self, order: float) -> float:
        """Return a bound of the Rényi divergence of the worst neighbour at an order > 1, both directions."""

    @abstractmethod
    def scaled(self, factor: Fraction) -> Self:
        """Return the same draw with its loss multiplied by a factor > 0, rounded so that it never costs more."""


def _shown(value: Any) -> Any:
    """Write one field: moves as a list, steps as a number, a rational as text."""
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, Fraction) else value


# --- A private selection of keys, as an event.


_SMALLEST: Final = Fraction(1, 10**15)
_LARGEST_EPSILON: Final = 100
_LARGEST_KEY_TERM: Final = 10**40
_STEP: Final = 10**36
MOST_GROUPS: Final = 4096


@dataclass(frozen=True)
class KeySelection(WrittenEvent):
    """A coin for each key that some unit has, which shows whether the key is published; others are never published.

    Args:
        epsilon: of one key's coin, 10^-15 <= epsilon <= 100 [dimensionless].
        delta: of one key's coin, > 0 and < 1, at most 40 digits a term [probability].
        groups: keys that one unit may have, 1 to 4096.
    Raises:
        AmountRefused: a parameter out of range.
    Privacy: of one unit, added or removed: groups * epsilon, but for a failure of probability 1 - (1 - delta)^groups.
    Source: Desfontaines, Voss, Gipson, Mandayam 2022 (the optimal rule); docs/derivations.md, section 4.
    """

    epsilon: Fraction
    delta: Fraction
    groups: int
    kind: ClassVar[str] = "key_selection"
    adjacencies: ClassVar[frozenset[str]] = frozenset({"add_remove"})

    def __post_init__(self) -> None:
        _within(
            "epsilon", self.epsilon, _SMALLEST <= self.epsilon <= _LARGEST_EPSILON, f"1e-15 to {_LARGEST_EPSILON}"
        )
        _within("delta", self.delta, 0 < self.delta < 1, "above 0 and below 1")
        if type(self.groups) is not int or not 1 <= self.groups <= MOST_GROUPS:
            raise AmountRefused("groups", self.groups, f"an integer from 1 to {MOST_GROUPS}")

    @property
    def failure(self) -> Fraction:
        """The probability that it fails, exactly: 1 - (1 - delta)^groups."""
        return 1 - (1 - self.delta) ** self.groups


def _within(what: str, value: Any, holds: bool, allowed: str) -> None:
    """Refuse what is not an exact rational in range, and terms of any length, which would cost time and memory."""
    if not isinstance(value, Fraction) or not holds or max(value.numerator, value.denominator) > _LARGEST_KEY_TERM:
        raise AmountRefused(what, value, f"a Fraction, {allowed}, with at most 40 digits above and below the line")


def key_selection(epsilon: Fraction, failure: int, groups: int) -> KeySelection:
    """Plan the selection that costs a loss and a failure probability, whole.

    epsilon / groups for each key, and the largest delta in units of 10^-36 with 1 - (1 - delta)^groups <= failure.

    Args:
        epsilon: > 0, the pure loss of all keys of a unit together [dimensionless].
        failure: > 0 and < 10^18 [10^-18].
        groups: keys that one unit may have, 1 to 4096.
    Returns:
        KeySelection: its failure, rounded up, is at most `failure`.
    Raises:
        AmountRefused: an amount out of range; no probability is left for a selection.
    """
    if type(groups) is not int or not 1 <= groups <= MOST_GROUPS:
        raise AmountRefused("groups", groups, f"an integer from 1 to {MOST_GROUPS}")
    if type(failure) is not int or not 1 <= failure < ATTO:
        raise AmountRefused(
            "failure", failure, "an int in 10^-18, > 0 and < 10^18: a selection without delta is none"
        )
    kept = Fraction(ATTO - failure, ATTO)
    low, high = 0, _STEP
    # The largest step that is allowed: (1 - step)^groups falls in it, and the comparison is of integers.
    while high - low > 1:
        middle = (low + high) // 2
        fits = kept.denominator * (_STEP - middle) ** groups >= kept.numerator * _STEP**groups
        low, high = (middle, high) if fits else (low, middle)
    return KeySelection(epsilon / groups, Fraction(low, _STEP), groups)


# --- failures of lists --------------------------------------------------------------------------------------------


def failure_of(event: object) -> Fraction:
    """Return the probability that an event fails, beside its loss; 0 for all that is no selection of keys."""
    return event.failure if isinstance(event, KeySelection) else Fraction(0)


def failures(events: Iterable[object]) -> int:
    """Add up the failure probabilities of events, each rounded up, so that parts cost together what the whole does.

    Args:
        events: the events; their order does not matter.
    Returns:
        int: the sum, which bounds the probability that any of them fails [10^-18].
    """
    return sum(math.ceil(failure_of(event) * ATTO) for event in events)


def entered_failures(events: Iterable[Mapping[str, Any]]) -> int:
    """Add up the failure probabilities of events as a journal's entry has them; as `failures`.

    Raises:
        AmountRefused: a parameter out of range.
        KeyError, TypeError, ValueError: a selection that cannot be read.
    """
    entered = [event for event in events if event["kind"] == KeySelection.kind]
    return failures(
        KeySelection(Fraction(event["epsilon"]), Fraction(event["delta"]), event["groups"]) for event in entered
    )


_LARGEST_LOSS: Final = 10**6
_SMALLEST_VARIANCE: Final = Fraction(1, 10**12)
_LARGEST_VARIANCE: Final = 10**30
_LARGEST_TERM: Final = 10**60
_LARGEST_MOVE: Final = 10**9
_LARGEST_NORM: Final = 10**11
_MOST_MOVES: Final = 4096
_MOST_TIMES: Final = 10**12
_SMALLEST_MULTIPLIER: Final = Fraction(1, 10**6)
_LARGEST_MULTIPLIER: Final = 10**15
# Where the sampled Gaussian's curve is computed and tested.
_SMALLEST_SAMPLED_MULTIPLIER: Final = Fraction(1, 10)
_LARGEST_SAMPLED_MULTIPLIER: Final = 10**9
_SMALLEST_PROBABILITY: Final = Fraction(1, 10**12)
_MOST_STEPS: Final = 10**9
_RATIONAL: Final = re.compile(r"[0-9]{1,61}(/[1-9][0-9]{0,60})?")
_ADD_REMOVE: Final = frozenset({"add_remove"})
_BOTH: Final = frozenset({"add_remove", "replace_one"})


@dataclass(frozen=True)
class DiscreteLaplace(WrittenEvent):
    """Discrete Laplace noise on integer cells: P(x) proportional to exp(-|x| * inverse_scale), cell by cell.

    Args:
        inverse_scale: t, 10^-15 <= t <= 10^6 [1 / unit].
        moves: the change of the worst neighbour, one non-zero integer a cell that changes [units].
    Raises:
        AmountRefused: a parameter out of range.
    Privacy: pure epsilon = inverse_scale * sum(|moves|); its Rényi curve is in `renyi`.
    """

    inverse_scale: Fraction
    moves: tuple[int, ...]
    kind: ClassVar[str] = "discrete_laplace"
    adjacencies: ClassVar[frozenset[str]] = _BOTH

    def __post_init__(self) -> None:
        _rational(self.inverse_scale, "inverse_scale", _SMALLEST, _LARGEST_LOSS)
        _moves(self.moves, _LARGEST_MOVE)


@dataclass(frozen=True)
class DiscreteGaussian(WrittenEvent):
    """Discrete Gaussian noise on integer cells: P(x) proportional to exp(-x^2 / (2 * sigma_squared)).

    Args:
        sigma_squared: the parameter, 10^-12 <= sigma_squared <= 10^30 [units squared].
        moves: the change of the worst neighbour, one non-zero integer a cell that changes; or, of noise on sums of
            vectors, integers whose squares add up to at least the squared norm of every change [units].
    Raises:
        AmountRefused: a parameter out of range.
    Privacy: rho-zCDP with rho = sum(moves^2) / (2 * sigma_squared).
    Source: Canonne, Kamath, Steinke 2020; proof in docs/derivations.md.
    """

    sigma_squared: Fraction
    moves: tuple[int, ...]
    kind: ClassVar[str] = "discrete_gaussian"
    adjacencies: ClassVar[frozenset[str]] = _BOTH

    def __post_init__(self) -> None:
        _rational(self.sigma_squared, "sigma_squared", _SMALLEST_VARIANCE, _LARGEST_VARIANCE)
        _moves(self.moves, _LARGEST_NORM)


@dataclass(frozen=True)
class Pure(WrittenEvent):
    """A pure differentially private step of which nothing else is known.

    Args:
        epsilon: 10^-15 <= epsilon <= 10^6 [dimensionless].
    Raises:
        AmountRefused: a parameter out of range.
    Privacy: epsilon-DP.
    """

    epsilon: Fraction
    kind: ClassVar[str] = "pure"
    drawn: ClassVar[bool] = False
    adjacencies: ClassVar[frozenset[str]] = _BOTH

    def __post_init__(self) -> None:
        _rational(self.epsilon, "epsilon", _SMALLEST, _LARGEST_LOSS)


@dataclass(frozen=True)
class ZeroConcentrated(WrittenEvent):
    """A zero-concentrated step: a budget for a release that chooses its noise on the way.

    Args:
        rho: 10^-15 <= rho <= 10^6 [dimensionless].
    Raises:
        AmountRefused: a parameter out of range.
    Privacy: rho-zCDP.
    """

    rho: Fraction
    kind: ClassVar[str] = "zero_concentrated"
    drawn: ClassVar[bool] = False
    adjacencies: ClassVar[frozenset[str]] = _BOTH

    def __post_init__(self) -> None:
        _rational(self.rho, "rho", _SMALLEST, _LARGEST_LOSS)


@dataclass(frozen=True)
class Gaussian(WrittenEvent):
    """Continuous Gaussian noise of standard deviation noise_multiplier * l2_sensitivity.

    Args:
        noise_multiplier: m, 10^-6 <= m <= 10^15 [dimensionless].
    Raises:
        AmountRefused: a parameter out of range.
    Privacy: rho-zCDP with rho = 1 / (2 m^2), where the sensitivity is that of the release's adjacency.
    """

    noise_multiplier: Fraction
    kind: ClassVar[str] = "gaussian"
    drawn: ClassVar[bool] = False
    adjacencies: ClassVar[frozenset[str]] = _BOTH

    def __post_init__(self) -> None:
        _rational(self.noise_multiplier, "noise_multiplier", _SMALLEST_MULTIPLIER, _LARGEST_MULTIPLIER)


@dataclass(frozen=True)
class ExponentialMechanism(WrittenEvent):
    """A private choice: P(candidate) proportional to exp(epsilon * score / (2 * sensitivity)).

    Args:
        epsilon: the range of its log-likelihood ratios, 10^-15 <= epsilon <= 10^6 [dimensionless].
    Raises:
        AmountRefused: a parameter out of range.
    Privacy: epsilon-bounded range, hence epsilon-DP and epsilon^2/8-zCDP, where the sensitivity is that of the
        scores under the release's adjacency; its Rényi curve is in `renyi`.
    Source: Dong, Durfee, Rogers 2020; Cesar, Rogers 2021; proof in docs/derivations.md.
    """

    epsilon: Fraction
    kind: ClassVar[str] = "exponential_mechanism"
    adjacencies: ClassVar[frozenset[str]] = _BOTH

    def __post_init__(self) -> None:
        _rational(self.epsilon, "epsilon", _SMALLEST, _LARGEST_LOSS)


@dataclass(frozen=True)
class PoissonSampledGaussian(WrittenEvent):
    """So many steps of Gaussian noise on a Poisson sample: each unit is in a step's sample by itself (DP-SGD).

    Args:
        noise_multiplier: standard deviation / l2_sensitivity of one unit, 0.1 <= s <= 10^9 [dimensionless].
        sampling_probability: 10^-12 <= q <= 1 [probability].
        steps: 1 <= steps <= 10^9.
    Raises:
        AmountRefused: a parameter out of range.
    Privacy: under add_remove only; its Rényi curve is `renyi.sampled_gaussian_divergence`.
    Source: Mironov, Talwar, Zhang 2019; proof in docs/derivations.md.
    """

    noise_multiplier: Fraction
    sampling_probability: Fraction
    steps: int
    kind: ClassVar[str] = "poisson_sampled_gaussian"
    adjacencies: ClassVar[frozenset[str]] = _ADD_REMOVE

    def __post_init__(self) -> None:
        smallest, largest = _SMALLEST_SAMPLED_MULTIPLIER, _LARGEST_SAMPLED_MULTIPLIER
        _rational(self.noise_multiplier, "noise_multiplier", smallest, largest)
        _rational(self.sampling_probability, "sampling_probability", _SMALLEST_PROBABILITY, 1)
        if isinstance(self.steps, bool) or not isinstance(self.steps, int) or not 1 <= self.steps <= _MOST_STEPS:
            raise AmountRefused("steps", self.steps, f"an integer from 1 to {_MOST_STEPS}")


@dataclass(frozen=True)
class DiscreteLaplaceVector(WrittenEvent):
    """Discrete Laplace noise on many numbers, each of which the worst neighbour moves by as much, so many times.

    It is what `DiscreteLaplace` with a list of equal moves would be, where the list would be too long to write down.

    Args:
        inverse_scale: t, 10^-15 <= t <= 10^6 [1 / unit].
        move: how far one number moves at worst, 1 to 10^9 [units].
        times: how many numbers move, over all steps: 1 to 10^12.
    Raises:
        AmountRefused: a parameter out of range.
    Privacy: pure epsilon = inverse_scale * move * times; its Rényi curve is `times` that of one number.
    """

    inverse_scale: Fraction
    move: int
    times: int
    kind: ClassVar[str] = "discrete_laplace_vector"
    adjacencies: ClassVar[frozenset[str]] = _BOTH

    def __post_init__(self) -> None:
        _rational(self.inverse_scale, "inverse_scale", _SMALLEST, _LARGEST_LOSS)
        for name, most in (("move", _LARGEST_MOVE), ("times", _MOST_TIMES)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
                raise AmountRefused(name, value, f"an integer from 1 to {most}")


CountNoise = DiscreteLaplace | DiscreteGaussian
"""The noise of a count."""

PrivacyEvent = (
    DiscreteLaplace
    | DiscreteLaplaceVector
    | DiscreteGaussian
    | Pure
    | ZeroConcentrated
    | Gaussian
    | ExponentialMechanism
    | PoissonSampledGaussian
    | KeySelection
    | RegisteredEvent
)

_GROUP: Final = "sudare.events"
_KINDS: Final[dict[str, type[PrivacyEvent]]] = {
    DiscreteLaplace.kind: DiscreteLaplace,
    DiscreteLaplaceVector.kind: DiscreteLaplaceVector,
    DiscreteGaussian.kind: DiscreteGaussian,
    Pure.kind: Pure,
    ZeroConcentrated.kind: ZeroConcentrated,
    Gaussian.kind: Gaussian,
    ExponentialMechanism.kind: ExponentialMechanism,
    PoissonSampledGaussian.kind: PoissonSampledGaussian,
    KeySelection.kind: KeySelection,
}


@lru_cache(maxsize=256)
def event_kind(kind: str) -> type[PrivacyEvent] | None:
    """Return the class of a kind, ours or a package's; None for an unknown one.

    Raises:
        PlugInAway: a package registers something else.
    """
    if kind in _KINDS:
        return _KINDS[kind]
    registered = find(_GROUP, {}, kind)
    found: type[RegisteredEvent] | None = None if registered is None else registered.load(RegisteredEvent)
    return found


def event_names() -> tuple[str, ...]:
    """Return the names of all kinds, sorted."""
    return tuple(sorted({*_KINDS, *others(_GROUP, {})}))


def event_from_json(data: Mapping[str, Any]) -> PrivacyEvent:
    """Read an event back from its JSON values.

    Args:
        data: what `to_json` wrote: `kind` and exactly the fields of that kind.
    Returns:
        Event: equal to the event that was written.
    Raises:
        UnsupportedEvent: an unknown kind, a missing or extra field, a field that is not of its form.
        AmountRefused: a parameter out of range.
    """
    if not isinstance(data, Mapping):
        raise UnsupportedEvent(f"an event is {type(data).__name__}; allowed: an object with a kind")
    kind = data.get("kind")
    made = event_kind(kind) if isinstance(kind, str) else None
    if made is None:
        raise UnsupportedEvent(f"event kind {str(kind)[:60]!r}; allowed: {', '.join(event_names())}")
    wanted = {field.name: getattr(field.type, "__name__", str(field.type)) for field in fields(made)}
    # Exactly the fields of the kind: one more could change what a reader takes the event for.
    if set(data) - {"kind"} != set(wanted):
        raise UnsupportedEvent(f"event {kind!r} has fields {sorted(map(str, data))}; allowed: kind, {sorted(wanted)}")
    return made(**{name: _read(name, declared, data[name]) for name, declared in wanted.items()})


def _read(name: str, declared: str, value: Any) -> Any:
    """Read one field: whole numbers from numbers, moves from a list, everything else from a rational's text."""
    if declared == "int":
        if isinstance(value, bool) or not isinstance(value, int):
            raise UnsupportedEvent(f"{name} is {str(value)[:60]!r}; allowed: an integer")
        return value
    if declared.startswith("tuple"):
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise UnsupportedEvent(f"{name} is {type(value).__name__}; allowed: a list of integers")
        return tuple(value)
    if not isinstance(value, str) or not _RATIONAL.fullmatch(value):
        raise UnsupportedEvent(f"{name} is {str(value)[:60]!r}; allowed: a rational as text, such as '1/2'")
    return Fraction(value)


def _rational(value: Any, what: str, smallest: Fraction, largest: int) -> None:
    """Refuse what is not an exact rational in range."""
    allowed = f"a Fraction, >= {float(smallest):g} and <= {float(largest):g}"
    if not isinstance(value, Fraction) or not smallest <= value <= largest:
        raise AmountRefused(what, value, allowed)
    # A stranger's numbers of any length would cost exact arithmetic time and memory.
    if max(value.numerator, value.denominator) > _LARGEST_TERM:
        raise AmountRefused(what, value, f"{allowed}, with at most 60 digits above and below the line")


def _moves(moves: Any, largest: int) -> None:
    """Refuse what is not a non-empty tuple of non-zero integers."""
    allowed = f"1 to {_MOST_MOVES} non-zero integers of at most {largest}"
    if not isinstance(moves, tuple) or not 1 <= len(moves) <= _MOST_MOVES:
        raise AmountRefused("moves", type(moves).__name__, allowed)
    for move in moves:
        if isinstance(move, bool) or not isinstance(move, int) or not 1 <= abs(move) <= largest:
            raise AmountRefused("moves", move, allowed)


# --- How events compose, named as `dp_accounting` names them.


@dataclass(frozen=True)
class PoissonSampled:
    """An event on a sample in which each unit is by a coin of its own.

    Args:
        sampling_probability: 0 < q <= 1 [probability].
        event: Gaussian noise; of no other event is a curve known here.
    Raises:
        AmountRefused: a probability out of range.
    Privacy: under add_remove only.
    """

    sampling_probability: Fraction
    event: Gaussian

    def __post_init__(self) -> None:
        if not 0 < self.sampling_probability <= 1:
            raise AmountRefused("sampling_probability", self.sampling_probability, "above 0, at most 1")


@dataclass(frozen=True)
class SelfComposed:
    """An event so many times.

    Args:
        event: what is repeated.
        count: at least 1.
    Raises:
        AmountRefused: a count below 1.
    """

    event: ComposableEvent
    count: int

    def __post_init__(self) -> None:
        if type(self.count) is not int or self.count < 1:
            raise AmountRefused("count", self.count, "a whole number, at least 1")


@dataclass(frozen=True)
class Composed:
    """Events one after the other.

    Args:
        events: in any order.
    """

    events: tuple[ComposableEvent, ...]


ComposableEvent = PrivacyEvent | PoissonSampled | SelfComposed | Composed


def composition(event: PrivacyEvent) -> PrivacyEvent | SelfComposed:
    """Return the composition that an event of the books stands for; itself where it is no composition."""
    match event:
        case PoissonSampledGaussian(noise_multiplier, sampling_probability, steps):
            return SelfComposed(PoissonSampled(sampling_probability, Gaussian(noise_multiplier)), steps)
        case DiscreteLaplaceVector(inverse_scale, move, times):
            return SelfComposed(DiscreteLaplace(inverse_scale, (move,)), times)
    return event


# --- The scale of a draw's noise, from its loss.


def laplace_inverse_scale(epsilon: Fraction, moves: Sequence[int]) -> Fraction:
    """Calibrate discrete Laplace noise to a pure loss.

    Formula: inverse_scale = epsilon / sum(|moves|)

    Args:
        epsilon: the loss of the draw, > 0 [dimensionless].
        moves: the change of the worst neighbour, cell by cell [units].
    Returns:
        Fraction: a multiple of 10^-18, rounded down: more noise [1 / unit].
    Raises:
        AmountRefused: an amount out of range, or so small that the inverse scale rounds to zero.
    Privacy: `DiscreteLaplace(inverse_scale, moves)` costs at most epsilon.
    """
    budget = exact(epsilon, what="epsilon")
    inverse_scale = Fraction(math.floor(budget * ATTO / _positive(sum(abs(move) for move in moves))), ATTO)
    if inverse_scale <= 0:
        raise AmountRefused("epsilon", epsilon, "at least 1e-18 a unit of sensitivity")
    return inverse_scale


def gaussian_sigma_squared(rho: Fraction, moves: Sequence[int]) -> Fraction:
    """Calibrate discrete Gaussian noise to a zero-concentrated loss.

    Formula: sigma_squared = sum(moves^2) / (2 * rho)

    Args:
        rho: the loss of the draw, > 0 [dimensionless].
        moves: the change of the worst neighbour, cell by cell [units].
    Returns:
        Fraction: a multiple of 10^-12, rounded up: more noise [units squared].
    Raises:
        AmountRefused: an amount out of range.
    Privacy: `DiscreteGaussian(sigma_squared, moves)` costs at most rho.
    """
    budget = exact(rho, what="rho")
    return Fraction(math.ceil(PICO * _positive(sum(move * move for move in moves)) / (2 * budget)), PICO)


def _positive(sensitivity: int) -> int:
    """Refuse moves that move nothing."""
    if sensitivity < 1:
        raise AmountRefused("moves", sensitivity, "at least one cell that changes")
    return sensitivity
