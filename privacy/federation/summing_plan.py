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

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import ceil, isqrt, log2, sqrt
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.privacy_terms import Adjacency
from privacy.accounting.adaptive import concentrated_loss
from privacy.accounting.calibrate import gaussian_sigma_squared
from privacy.accounting.events import DiscreteGaussian, ZeroConcentrated
from privacy.federation.counting import FINEST_VARIANCE
from privacy.federation.plan import MODULUS_BITS, ShareNoise, Trust, WholeNoise, check_sites, check_trust
from privacy.learning.errors import CannotTrain
from privacy.learning.moments import Moments
from privacy.marginals.sensitivity import GaussianNoise

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
