"""Events: what a draw of noise cost, as frozen values that a record can carry and a stranger can read.

An event holds the noise and the worst change that one neighbouring table makes to the numbers under it
(`moves`: the worst neighbour shifts that many cells by those integers). Its loss is a function of these alone;
`curves` computes it. `adjacencies` names the relations between neighbours under which that loss is valid.
JSON goes through the explicit table of kinds: those below, and those that packages register as `sudare.events`. An
unknown kind is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Final

from contracts.plug_ins import find, others
from privacy.accounting.amounts import AmountRefused
from privacy.accounting.event import RegisteredEvent, UnsupportedEvent, WrittenEvent
from privacy.accounting.key_selection import KeySelection

_SMALLEST: Final = Fraction(1, 10**15)
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
    Privacy: pure epsilon = inverse_scale * sum(|moves|); its Rényi curve is in `curves`.
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
        scores under the release's adjacency; its Rényi curve is in `curves`.
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
    Privacy: under add_remove only; its Rényi curve is in `sampled_gaussian`.
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
