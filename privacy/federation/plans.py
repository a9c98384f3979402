"""The plan of sums across sites: bounded vectors of rows, added up at each site, noised, and summed over the sites.

Each site adds up its own rows' vectors exactly (`privacy.learning.moments`), rounds the sum to a lattice on which
the sum of all sites fits into 32 bits, and adds its share of discrete Gaussian noise, or none where a named server
adds it. With t the statistic's lattice units in one sent unit, a power of two, and L numbers in a sum:

    |rint(x / t) - rint(x' / t)| <= |x - x'| / t + sqrt(L)          t > 1: each rounding is off by at most 1/2
    |t' x - t' x'| = t' |x - x'|                                    t = 1 / t' <= 1: nothing is rounded

so that a unit's rows at one site move what is sent by at most that, and a person's rows at m sites by m times that.
Clipping what a site sends to its part of the range brings sums closer together, entry by entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from math import ceil, isqrt, log2, sqrt
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from contracts.contract.impossible_cells import Clique
from contracts.contract.terms import Adjacency
from privacy.accounting.events import (
    DiscreteGaussian,
    PoissonSampledGaussian,
    ZeroConcentrated,
    gaussian_sigma_squared,
)
from privacy.accounting.renyi import concentrated_loss
from privacy.arrays import Singles
from privacy.federation.plan import (
    MODULUS_BITS,
    FederatedPlan,
    ShareNoise,
    Trust,
    WholeNoise,
    check_sites,
    check_trust,
)
from privacy.federation.rounds import Call, RoundSum
from privacy.learning.layout import RowLayout
from privacy.learning.learners import Learner
from privacy.learning.moments import Moments
from privacy.learning.network import CannotTrain
from privacy.marginals.sensitivity import GaussianNoise, marginal_moves

# --- The plan of marginal counts across sites.


FINEST_VARIANCE: Final = 16
"""Least variance of one share [fine units squared]."""
_MOST_BITS: Final = 16


@dataclass(frozen=True)
class CountingPlan:
    """Marginals over the rows of several sites, as they are accounted for.

    Args:
        cliques: the columns of each table, in order; one round each.
        sigma_squared: of the noise that a sum has at its least, exact [rows^2].
        adjacency: the neighbour relation of the contract.
        rows_per_unit: at most so many rows of a unit at one site.
        sites, rows_about, trust: as of `FederatedPlan`.
        reserve: lost attempts that may be made up for.
    Raises:
        CannotTrain: a field out of range.
    Privacy: a unit's loss at one site is `record_events`, a person's with one at several sites `person_events`.
    """

    cliques: tuple[Clique, ...]
    sigma_squared: Fraction
    adjacency: Adjacency
    rows_per_unit: int
    sites: tuple[str, ...]
    rows_about: tuple[int, ...]
    trust: Trust
    reserve: int
    kind: str = field(default="counts", init=False)

    def __post_init__(self) -> None:
        if type(self.trust) is not Trust or type(self.sigma_squared) is not Fraction:
            raise CannotTrain("plan", "parts of another type", "Trust itself and an exact sigma_squared")
        if not self.cliques or any(type(clique) is not tuple for clique in self.cliques):
            raise CannotTrain("cliques", "none, or no tuples", "at least one tuple of columns")
        if type(self.reserve) is not int or not 0 <= self.reserve <= 10_000:
            raise CannotTrain("reserve", self.reserve, "a whole number from 0 to 10,000")
        check_sites(self.sites, self.rows_about)
        check_trust(self.trust, len(self.sites))
        self.person_event(0).to_json()
        if self.fine_bits > _MOST_BITS or float(self.fine_variance) ** 0.5 > self.largest_entry / 16:
            raise CannotTrain(
                "sigma_squared", f"{float(self.sigma_squared):.3g}", "noise that fits the numbers' range"
            )

    @property
    def rounds(self) -> int:
        """Rounds, one table each."""
        return len(self.cliques)

    @property
    def fine_bits(self) -> int:
        """Fine units are 2^-fine_bits of a row."""
        short = FINEST_VARIANCE * self.shares_counted / self.sigma_squared
        return max(0, ceil(log2(short) / 2)) if short > 1 else 0

    @property
    def fine_variance(self) -> Fraction:
        """Parameter of the noise that the accounting counts on [fine units squared]."""
        return self.sigma_squared * (1 << 2 * self.fine_bits)

    @property
    def shares_counted(self) -> int:
        """Shares whose noise is sure to be in a sum and unknown to whoever looks at it; 1 for a server's noise."""
        return 1 if self.trust.noise == "server" else self.trust.fewest - self.trust.colluding

    @property
    def share_variance(self) -> Fraction:
        """Parameter of one site's noise [fine units squared]; 0 where the server adds it."""
        return Fraction(0) if self.trust.noise == "server" else self.fine_variance / self.shares_counted

    @property
    def largest_entry(self) -> int:
        """Counts of one site are clipped to it, so that no sum of all sites leaves the modulus [fine units]."""
        return 1 << (MODULUS_BITS - 2 - ceil(log2(len(self.sites) + 1)))

    def site_noise(self, number: int) -> ShareNoise | None:
        """Return what a site adds; None where the server adds all of it."""
        return None if self.trust.noise == "server" else WholeNoise(self.share_variance)

    def server_noise(self, number: int) -> ShareNoise | None:
        """Return what the server adds; None where the sites do."""
        return WholeNoise(self.fine_variance) if self.trust.noise == "server" else None

    def noise(self, number: int) -> GaussianNoise:
        """Return what a table costs a person, as a query says it."""
        moves = self.person_event(number).moves
        return GaussianNoise(sum(move * move for move in moves) / (2 * self.sigma_squared))

    def sent(self, exact: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return exact counts in fine units, within the site's part of the range."""
        most = self.largest_entry >> self.fine_bits
        return np.clip(exact.ravel(), 0, most) << self.fine_bits

    def site_event(self, number: int) -> DiscreteGaussian:
        """What one table costs a unit at one site."""
        return DiscreteGaussian(self.sigma_squared, marginal_moves(self.adjacency, self.rows_per_unit))

    def person_event(self, number: int) -> DiscreteGaussian:
        """What one table costs a person with rows at `sites_per_person` sites: all of them may move."""
        rows = self.rows_per_unit * self.trust.sites_per_person
        return DiscreteGaussian(self.sigma_squared, marginal_moves(self.adjacency, rows))

    @property
    def record_events(self) -> tuple[DiscreteGaussian, ...]:
        """What a site's account is charged: every table, and the reserve."""
        return (self.site_event(0),) * (self.rounds + self.reserve)

    @property
    def person_events(self) -> tuple[DiscreteGaussian, ...]:
        """What the coordinator's account is charged."""
        return (self.person_event(0),) * (self.rounds + self.reserve)

    def to_json(self) -> dict[str, Any]:
        """Write the plan as JSON values."""
        return {
            "kind": self.kind,
            "cliques": [list(clique) for clique in self.cliques],
            "sigma_squared": str(self.sigma_squared),
            "adjacency": self.adjacency,
            "rows_per_unit": self.rows_per_unit,
            "sites": list(self.sites),
            "rows_about": list(self.rows_about),
            "trust": dict(vars(self.trust)),
            "reserve": self.reserve,
        }


HEADROOM: Final = 2
"""A site may have so many times its declared rows before its sums are clipped."""
FINEST_UNIT, COARSEST_UNIT = -16, 30
"""Logarithms of the sent unit, in the statistic's lattice units."""
MOST_ROUNDED: Final = Fraction(1, 4)
"""Rounding may make the noise wider by at most this part of it."""
_WIDEST: Final = 16
"""A site's range holds at least so many standard deviations of the noise."""
_GRAIN: Final = 10**15


@dataclass(frozen=True)
class SumBounds:
    """One sum, as far as it is known before any data.

    Args:
        moves: whole numbers whose squares add up to the largest squared change by one unit's rows at one site.
        length: numbers in the sum.
        rho: what the sum may cost a person.
    """

    moves: tuple[int, ...]
    length: int
    rho: Fraction

    @classmethod
    def of(cls, statistic: Moments, *, adjacency: Adjacency, rows_per_unit: int, rho: Fraction) -> SumBounds:
        """Return the bounds of a statistic, or of a stand-in of the same bounds."""
        return cls(statistic.moves(adjacency, rows_per_unit), statistic.length, rho)


@dataclass(frozen=True)
class SummingPlan:
    """Sums over the rows of several sites, as they are accounted for; one round each.

    Args:
        sums: the bounds of each, in order; a later statistic may be made of earlier noisy sums.
        adjacency: the neighbour relation of the contract.
        rows_per_unit: at most so many rows of a unit at one site.
        sites, rows_about, trust: as of `FederatedPlan`.
        reserve: lost attempts that may be made up for, each at most as costly as the costliest sum.
    Raises:
        CannotTrain: a field out of range, or sums that do not fit into the modulus.
        AmountRefused: an amount out of range.
    Privacy: a unit's loss at one site is `record_events`, a person's with one at several sites `person_events`.
    """

    sums: tuple[SumBounds, ...]
    adjacency: Adjacency
    rows_per_unit: int
    sites: tuple[str, ...]
    rows_about: tuple[int, ...]
    trust: Trust
    reserve: int
    kind: str = field(default="sums", init=False)

    def __post_init__(self) -> None:
        if type(self.trust) is not Trust or type(self.sums) is not tuple or not self.sums:
            raise CannotTrain("plan", "parts of another type", "Trust itself and a tuple of at least one SumBounds")
        for each in self.sums:
            _check_bounds(each)
        for name, least, most in (("reserve", 0, 10_000), ("rows_per_unit", 1, 10**6)):
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= most:
                raise CannotTrain(name, value, f"a whole number from {least} to {most}")
        check_sites(self.sites, self.rows_about)
        check_trust(self.trust, len(self.sites))
        for number in range(self.rounds):
            self._check_sent(number)

    @property
    def rounds(self) -> int:
        """Rounds, one sum each."""
        return len(self.sums)

    @property
    def largest_entry(self) -> int:
        """Sums of one site are clipped to it, so that no sum of all sites leaves the modulus [sent units]."""
        return 1 << (MODULUS_BITS - 2 - ceil(log2(len(self.sites) + 1)))

    @property
    def shares_counted(self) -> int:
        """Shares whose noise is sure to be in a sum and unknown to whoever looks at it; 1 for a server's noise."""
        return 1 if self.trust.noise == "server" else self.trust.fewest - self.trust.colluding

    @cached_property
    def _units(self) -> tuple[int, ...]:
        """For each sum the least sent unit at which a site's sums and the noise fit into its part of the range."""
        rows, found = HEADROOM * max(self.rows_about), []
        for each in self.sums:
            norm = self.trust.sites_per_person * (isqrt(sum(move * move for move in each.moves)) + 1)
            noise = 2 * _WIDEST * ceil(norm / sqrt(2 * float(each.rho)))
            most = max(noise, rows * -(-max(each.moves) // self.rows_per_unit))
            fits = (unit for unit in range(FINEST_UNIT, 64) if most <= _scaled(self.largest_entry, unit))
            found.append(next(fits, 64))
        return tuple(found)

    def unit(self, number: int) -> int:
        """Return the logarithm, base 2, of a sent unit in the statistic's lattice units."""
        return self._units[number]

    def moves(self, number: int) -> tuple[int, ...]:
        """Return whole numbers whose squares bound how far one unit's rows at one site move a sum [sent units]."""
        bounds, unit = self.sums[number], self.unit(number)
        if unit <= 0:
            return tuple(move << -unit for move in bounds.moves)
        norm = isqrt(sum(move * move for move in bounds.moves)) + 1
        return (-(-norm >> unit) + isqrt(bounds.length - 1) + 1,)

    def sigma_squared(self, number: int) -> Fraction:
        """Return the parameter of the noise that the accounting counts on [sent units squared]."""
        return gaussian_sigma_squared(self.sums[number].rho, self._person_moves(number))

    def share_variance(self, number: int) -> Fraction:
        """Return the parameter of one site's noise [sent units squared]; 0 where the server adds it."""
        return (
            Fraction(0)
            if self.trust.noise == "server"
            else self.sigma_squared(number) / Fraction(self.shares_counted)
        )

    def variance(self, number: int, present: tuple[bool, ...]) -> float:
        """Return the variance of the noise in a released sum, in the statistic's lattice [lattice units squared]."""
        shares = self.share_variance(number) * sum(present)
        return float(self.sigma_squared(number) if self.trust.noise == "server" else shares) * 4.0 ** self.unit(
            number
        )

    def site_noise(self, number: int) -> ShareNoise | None:
        """Return what a site adds; None where the server adds all of it."""
        return None if self.trust.noise == "server" else WholeNoise(self.share_variance(number))

    def server_noise(self, number: int) -> ShareNoise | None:
        """Return what the server adds; None where the sites do."""
        return WholeNoise(self.sigma_squared(number)) if self.trust.noise == "server" else None

    def noise(self, number: int) -> GaussianNoise:
        """Return what a sum costs a person, as a query says it."""
        return GaussianNoise(self.sums[number].rho)

    def site_event(self, number: int) -> DiscreteGaussian:
        """What one sum costs a unit at one site."""
        return DiscreteGaussian(self.sigma_squared(number), self.moves(number))

    def person_event(self, number: int) -> DiscreteGaussian:
        """What one sum costs a person with rows at `sites_per_person` sites: all of them may move."""
        return DiscreteGaussian(self.sigma_squared(number), self._person_moves(number))

    @cached_property
    def record_events(self) -> tuple[DiscreteGaussian | ZeroConcentrated, ...]:
        """What a site's account is charged: every sum, and the reserve."""
        return self._reserved(tuple(self.site_event(number) for number in range(self.rounds)))

    @cached_property
    def person_events(self) -> tuple[DiscreteGaussian | ZeroConcentrated, ...]:
        """What the coordinator's account is charged."""
        return self._reserved(tuple(self.person_event(number) for number in range(self.rounds)))

    def sent(self, number: int, exact: NDArray[Any]) -> NDArray[np.int64]:
        """Round exact sums to sent units, within the site's part of the range; whole numbers of any size."""
        unit, most = self.unit(number), self.largest_entry
        if unit > 0:
            steps: NDArray[np.int64] = np.clip((exact + (1 << (unit - 1))) >> unit, -most, most).astype(np.int64)
            return steps
        least = most >> -unit
        within: NDArray[np.int64] = np.clip(exact, -least, least).astype(np.int64)
        return within << -unit

    def received(self, number: int, steps: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return a released sum in the statistic's lattice units; finer units are rounded. Post-processing."""
        unit = self.unit(number)
        return steps << unit if unit >= 0 else (steps + (1 << (-unit - 1))) >> -unit

    def to_json(self) -> dict[str, Any]:
        """Write the plan as JSON values."""
        sums = [{"moves": list(each.moves), "length": each.length, "rho": str(each.rho)} for each in self.sums]
        return {
            "kind": self.kind,
            "sums": [{**told, "unit": self.unit(number)} for number, told in enumerate(sums)],
            "adjacency": self.adjacency,
            "rows_per_unit": self.rows_per_unit,
            "sites": list(self.sites),
            "rows_about": list(self.rows_about),
            "trust": dict(vars(self.trust)),
            "reserve": self.reserve,
        }

    def _person_moves(self, number: int) -> tuple[int, ...]:
        return tuple(self.trust.sites_per_person * move for move in self.moves(number))

    def _reserved(self, events: tuple[DiscreteGaussian, ...]) -> tuple[DiscreteGaussian | ZeroConcentrated, ...]:
        """Add what lost attempts may cost: a budget, since nobody knows which sums they will be of."""
        if not self.reserve:
            return events
        lost = self.reserve * max(concentrated_loss(event) for event in events)
        return (*events, ZeroConcentrated(Fraction(ceil(lost * _GRAIN), _GRAIN)))

    def _check_sent(self, number: int) -> None:
        """Refuse sums whose rounding would cost too much, or whose noise leaves the modulus or shows the units."""
        bounds, unit = self.sums[number], self.unit(number)
        norm = isqrt(sum(move * move for move in bounds.moves))
        if unit > COARSEST_UNIT or (unit > 0 and (isqrt(bounds.length) + 1) << unit > MOST_ROUNDED * norm):
            raise CannotTrain(
                "rows_about",
                f"{max(self.rows_about)} rows at one of {len(self.sites)} sites, and {bounds.length} numbers in sum "
                f"{number + 1}",
                "sums that fit into 32 bits together without much rounding",
                "take fewer columns or categories, or fewer components",
            )
        share = self.sigma_squared(number) / self.shares_counted
        if share < FINEST_VARIANCE or float(self.sigma_squared(number)) ** 0.5 > self.largest_entry / _WIDEST:
            raise CannotTrain("rho", f"{float(bounds.rho):.3g}", "noise that fits the numbers' range")
        self.person_event(number).to_json()


def _check_bounds(bounds: object) -> None:
    if type(bounds) is not SumBounds or type(bounds.rho) is not Fraction or bounds.rho <= 0:
        raise CannotTrain("sums", "parts of another type", "SumBounds itself with an exact rho above 0")
    whole = type(bounds.moves) is tuple and all(type(move) is int and move > 0 for move in bounds.moves)
    if not whole or not bounds.moves or type(bounds.length) is not int or bounds.length < 1:
        raise CannotTrain("sums", "other bounds", "whole numbers above 0")


def _scaled(entry: int, unit: int) -> int:
    """Return sent units in lattice units, rounded down."""
    return entry << unit if unit >= 0 else entry >> -unit


# --- Two phases in one run.


PhaseEvent = DiscreteGaussian | ZeroConcentrated | PoissonSampledGaussian
_LOW: Final = 16
_LARGEST_HIGH: Final = 1 << 22


class Phased(Protocol):
    """What released sums are made into; every party works it out for itself."""

    @property
    def layout(self) -> RowLayout:
        """Of the rows that are added up."""
        ...

    @property
    def trained_layout(self) -> RowLayout:
        """Of the rows that are trained on."""
        ...

    def statistic(self, sums: Sequence[RoundSum]) -> Moments:
        """Return what is added up next, after these sums."""
        ...

    def learner(self, sums: Sequence[RoundSum]) -> Learner:
        """Return what is trained, after all sums."""
        ...


@dataclass(frozen=True)
class PhasedPlan:
    """Sums, and then a training, as they are accounted for together.

    Args:
        sums: the first phase.
        training: the second.
    Raises:
        CannotTrain: phases of other parties.
    """

    sums: SummingPlan
    training: FederatedPlan
    kind: str = field(default="phases", init=False)

    def __post_init__(self) -> None:
        if type(self.sums) is not SummingPlan or type(self.training) is not FederatedPlan:
            raise CannotTrain("plan", "parts of another type", "SummingPlan and FederatedPlan themselves")
        for name in ("sites", "rows_about", "trust"):
            if getattr(self.sums, name) != getattr(self.training, name):
                raise CannotTrain(name, "different in the phases", "the same in both")

    @property
    def sites(self) -> tuple[str, ...]:
        """Names, in order."""
        return self.sums.sites

    @property
    def trust(self) -> Trust:
        """Who is trusted with what."""
        return self.sums.trust

    @property
    def rounds(self) -> int:
        """Rounds of both phases."""
        return self.sums.rounds + self.training.rounds

    @property
    def largest_entry(self) -> int:
        """Largest entry of one site's contribution; the same in both phases."""
        return max(self.sums.largest_entry, self.training.largest_entry)

    @cached_property
    def record_events(self) -> tuple[PhaseEvent, ...]:
        """What a site's account is charged: all rounds, and the reserves."""
        return (*self.sums.record_events, *self.training.record_events)

    @cached_property
    def person_events(self) -> tuple[PhaseEvent, ...]:
        """What the coordinator's account is charged."""
        return (*self.sums.person_events, *self.training.person_events)

    def to_json(self) -> dict[str, Any]:
        """Write the plan as JSON values."""
        return {"kind": self.kind, "sums": self.sums.to_json(), "training": self.training.to_json()}


def keys(key: str) -> tuple[str, str]:
    """Return what the keys of the two phases' draws begin with."""
    return f"{key}/sums", f"{key}/training"


def encode_sums(sums: Sequence[RoundSum]) -> Singles:
    """Write released sums as the coordinator sends them."""
    parts = [np.zeros(0, np.float32)]
    for each in sums:
        high, low = each.steps >> _LOW, each.steps & ((1 << _LOW) - 1)
        parts += [np.array(each.present, np.float32), np.stack([high, low], axis=1).ravel().astype(np.float32)]
    return np.concatenate(parts)


def heard(call: Call, plan: PhasedPlan) -> tuple[tuple[RoundSum, ...], Singles]:
    """Read what the coordinator sent: released sums, and the parameters so far.

    Raises:
        CannotTrain: no such round, or numbers that no released sums are.
    """
    if type(call) is not Call or type(call.number) is not int or not 0 <= call.number < plan.rounds:
        raise CannotTrain("round", "another", f"0 to {plan.rounds - 1}")
    given, sites = call.parameters, len(plan.sites)
    sizes = [sites + 2 * each.length for each in plan.sums.sums[: call.number]]
    if type(given) is not np.ndarray or given.dtype != np.float32 or given.ndim != 1 or given.size < sum(sizes):
        raise CannotTrain("parameters", "other numbers", f"float32, at least {sum(sizes)}: the sums so far")
    starts = [0, *accumulate(sizes)]
    sums = tuple(_heard(number, given[starts[number] : starts[number + 1]], sites) for number in range(len(sizes)))
    return sums, given[starts[-1] :]


def _heard(number: int, values: Singles, sites: int) -> RoundSum:
    present, pairs = values[:sites], values[sites:].reshape(-1, 2)
    whole = np.isfinite(values).all() and (values == np.rint(values)).all() and np.isin(present, (0.0, 1.0)).all()
    within = whole and (np.abs(pairs[:, 0]) < _LARGEST_HIGH).all() and (pairs[:, 1] >= 0).all()
    if not within or not (pairs[:, 1] < 1 << _LOW).all():
        raise CannotTrain("parameters", "numbers that no released sum is", "the released sums as they are written")
    high, low = pairs.astype(np.int64).T
    return RoundSum(number, tuple(bool(each) for each in present), (high << _LOW) + low, "")
