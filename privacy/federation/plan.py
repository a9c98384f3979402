"""The plan of a training across sites: who takes part, how each step is sampled, clipped and noised, what it costs.

Each round is one step of DP-SGD over the rows of all sites together:
    1. every site samples each of its rows by a coin of its own, with the common probability
    2. it sums the clipped gradients of its sample, on a lattice of whole numbers
    3. it adds its share of the noise, or none where a named server adds it
    4. the sum over the sites that answered is released, and moves the parameters
The unit is the record: a row at one site. A person may have one at each of several sites, `sites_per_person` of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor, log2, sqrt
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.amounts import RealNumber
from privacy.accounting.events import PoissonSampledGaussian, PrivacyEvent
from privacy.learning.network import CannotTrain
from privacy.learning.plan import Schedule, TrainingPlan, calibrated_multiplier

LATTICE_BITS: Final = 14
"""The lattice of sums: C is at least 2^14 of its steps, and fewer than 2^15."""
MODULUS_BITS: Final = 32
"""Shares and sums are whole numbers modulo 2^32, as secure aggregation adds them."""
MOST_SITES: Final = 64
FINEST: Final = 2.0**8
"""Least standard deviation of a share [lattice steps]; what the sampler of shares holds to."""
_GRAIN: Final = 2**40
"""Sampling probabilities of people with several rows are rounded up to a multiple of 2^-40."""

NoiseBy = Literal["sites", "server"]


@dataclass(frozen=True)
class Trust:
    """Who is trusted with what; each field changes what the guarantee says.

    Args:
        noise: "sites", each adds a share; "server", which adds all of it and sees exact sums.
        secure_aggregation: whether the server sees the sum only, and no site's share of it.
        server: the server that is trusted with shares, or with exact sums; None where it sees noisy sums only.
        fewest: sites whose shares reach a sum, at least; a round with fewer is never summed.
        colluding: sites that may tell others their own noise; a site knows its own, so 1 protects from each site.
        sites_per_person: at how many sites one person may have a unit of rows; 1 where populations are disjoint.
    """

    noise: NoiseBy
    secure_aggregation: bool
    server: str | None
    fewest: int
    colluding: int
    sites_per_person: int


@dataclass(frozen=True)
class WholeNoise:
    """Discrete Gaussian noise on whole numbers.

    Args:
        variance: its parameter [sent units squared].
    """

    variance: Fraction


@dataclass(frozen=True)
class RoundedNoise:
    """Gaussian noise, rounded to whole numbers.

    Args:
        deviation: its standard deviation [lattice steps].
    """

    deviation: float


ShareNoise = WholeNoise | RoundedNoise
"""What a site, or a server, adds to what it sends or sums."""


@dataclass(frozen=True)
class FederatedPlan:
    """DP-SGD over the rows of several sites, as it is accounted for.

    Args:
        training: sampling, clipping, noise of the sum at its least, steps; one step a round.
        sites: names of the sites, in order.
        rows_about: about how many rows each has; declared, public [rows].
        trust: who is trusted with what.
    Raises:
        CannotTrain: a field out of range, or trust that does not fit together.
    Privacy: add_remove. A record's loss is `record_events`, a person's `person_events`.
    """

    training: TrainingPlan
    sites: tuple[str, ...]
    rows_about: tuple[int, ...]
    trust: Trust
    kind: str = field(default="dp_sgd", init=False)

    def __post_init__(self) -> None:
        if type(self.training) is not TrainingPlan or type(self.trust) is not Trust:
            raise CannotTrain("plan", "parts of another type", "TrainingPlan and Trust themselves")
        if self.training.checkpoint_every != 1:
            raise CannotTrain("checkpoint_every", self.training.checkpoint_every, "1: each round is released")
        check_sites(self.sites, self.rows_about)
        check_trust(self.trust, len(self.sites))
        self._check_lattice()
        self.person_event(0).to_json()

    @property
    def rounds(self) -> int:
        """Rounds, one step each."""
        return self.training.steps

    @property
    def reserve(self) -> int:
        """Lost attempts that may be made up for."""
        return self.training.reserve

    @property
    def lattice(self) -> float:
        """Width of a lattice step: the largest power of two up to C 2^-14."""
        return float(2.0 ** (floor(log2(self.training.clipping_norm)) - LATTICE_BITS))

    @property
    def shares_counted(self) -> int:
        """Shares whose noise is sure to be in a sum and unknown to whoever looks at it."""
        return self.trust.fewest - self.trust.colluding

    @property
    def share_deviation(self) -> float:
        """Standard deviation of one site's noise [lattice steps]; 0 where the server adds it."""
        if self.trust.noise == "server":
            return 0.0
        return self.deviation / sqrt(self.shares_counted) * (1 + 2.0**-40)

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise that the accounting counts on [lattice steps]."""
        return float(self.training.standard_deviation) / self.lattice

    @property
    def largest_entry(self) -> int:
        """Exact entries of one site are clipped to it, so that no sum of all sites leaves the modulus."""
        return 1 << (MODULUS_BITS - 2 - ceil(log2(len(self.sites) + 1)))

    def site_noise(self, number: int) -> ShareNoise | None:
        """Return what a site adds; None where the server adds all of it."""
        return None if self.trust.noise == "server" else RoundedNoise(self.share_deviation)

    def server_noise(self, number: int) -> ShareNoise | None:
        """Return what the server adds; None where the sites do."""
        return RoundedNoise(self.deviation) if self.trust.noise == "server" else None

    def sent(self, exact: NDArray[np.float64]) -> NDArray[np.int64]:
        """Round a site's sum of clipped gradients to the lattice, within its part of the range.

        Raises:
            ValueError: a sum that is not finite.
        """
        steps = np.rint(np.clip(exact / self.lattice, -self.largest_entry, self.largest_entry))
        if not np.isfinite(steps).all():
            raise ValueError("a sum of gradients is not finite")
        return steps.astype(np.int64)

    def site_event(self, number: int) -> PoissonSampledGaussian:
        """What one round costs a record at one site."""
        return self.training.event

    @property
    def record_events(self) -> tuple[PoissonSampledGaussian, ...]:
        """What a site's account is charged: every round, and the reserve."""
        return self.training.events

    def person_event(self, number: int) -> PoissonSampledGaussian:
        """What one round costs a person with a row at each of m sites: s/m, with probability 1 - (1 - q)^m.

        The person moves the sum by at most K C, where K of the m rows are sampled; m C whenever any is, is worse.
        """
        rows = self.trust.sites_per_person
        if rows == 1:
            return self.training.event
        sampled = at_least_one(self.training.sampling_probability, rows)
        return PoissonSampledGaussian(self.training.noise_multiplier / rows, sampled, 1)

    @property
    def person_events(self) -> tuple[PoissonSampledGaussian, ...]:
        """What the coordinator's account, which is the people's, is charged."""
        return (self.person_event(0),) * (self.training.checkpoints + self.training.reserve)

    def clipped_to(self, parameters: int) -> float:
        """Return the norm to which gradients are clipped, so that rounding to the lattice stays within C.

        C - g sqrt(parameters) - C / 1024, as `TrainingPlan.clipped_to`, for the lattice g of sums.

        Raises:
            CannotTrain: so many parameters that a tenth of C would be lost.
        """
        norm, lost = float(self.training.clipping_norm), self.lattice * sqrt(parameters)
        if lost > 0.1 * norm:
            raise CannotTrain("parameters", parameters, f"at most {int((0.1 * norm / self.lattice) ** 2)}")
        return norm - lost - norm / 1024

    def expected_rows(self, present: tuple[bool, ...]) -> float:
        """Return the expected sample of the sites that took part in a round; public."""
        rows = sum(rows for rows, here in zip(self.rows_about, present, strict=True) if here)
        return float(self.training.sampling_probability * rows)

    def to_json(self) -> dict[str, Any]:
        """Write the plan as JSON values."""
        return {
            "kind": self.kind,
            "training": self.training.to_json(),
            "sites": list(self.sites),
            "rows_about": list(self.rows_about),
            "trust": dict(vars(self.trust)),
        }

    def _check_lattice(self) -> None:
        """Refuse noise that is too fine for the lattice, or would leave the modulus."""
        counted = self.deviation if self.trust.noise == "server" else self.share_deviation
        most = self.largest_entry / 16
        if not FINEST <= counted <= most:
            scale = counted / float(self.training.noise_multiplier)
            raise CannotTrain(
                "noise_multiplier",
                f"{float(self.training.noise_multiplier):.4g}",
                f"from {FINEST / scale:.3g} to {most / scale:.4g} for {len(self.sites)} sites",
            )


@lru_cache(maxsize=64)
def planned(
    sites: tuple[str, ...],
    rows_about: tuple[int, ...],
    trust: Trust,
    *,
    rounds: int,
    batch: int,
    clipping_norm: Fraction,
    reserve: int,
    epsilon: RealNumber,
    delta: RealNumber,
    beside: tuple[PrivacyEvent, ...] = (),
) -> FederatedPlan:
    """Plan a training whose people lose at most (epsilon, delta), with the least noise that does it.

    Args:
        sites: names, in order.
        rows_about: about how many rows each has; declared, public [rows].
        trust: who is trusted with what.
        rounds: steps of the training.
        batch: expected rows a round, of all sites together [rows].
        clipping_norm: C, the largest L2 norm of one row's gradient.
        reserve: lost attempts that may be made up for.
        epsilon: what all rounds and the reserve may cost a person, > 0.
        delta: at this probability.
        beside: what else is drawn about the same people, of what they lose at all sites together.
    Raises:
        CannotTrain: a field out of range, or no noise multiplier will do.
    Privacy: reads no data. `person_events` and what is beside them are (epsilon, delta)-DP together; `record_events`
        cost no more.
    """
    check_sites(sites, rows_about)
    check_trust(trust, len(sites))
    whole = Schedule(sum(rows_about), batch, Fraction(1), checkpoints=1, reserve=0)
    probability = whole.sampling_probability
    seen = at_least_one(probability, trust.sites_per_person) if trust.sites_per_person > 1 else probability
    schedule = Schedule(seen.denominator, seen.numerator, rounds * seen, checkpoints=rounds, reserve=reserve)
    least = calibrated_multiplier(schedule, epsilon=epsilon, delta=delta, beside=beside)
    multiplier = least * trust.sites_per_person
    training = TrainingPlan(probability, Fraction(batch), rounds, clipping_norm, multiplier, 1, reserve)
    return FederatedPlan(training, sites, rows_about, trust)


def at_least_one(probability: Fraction, rows: int) -> Fraction:
    """Return 1 - (1 - q)^rows, rounded up to a multiple of 2^-40: at least one of a person's rows is sampled."""
    return min(Fraction(1), Fraction(ceil((1 - (1 - probability) ** rows) * _GRAIN), _GRAIN))


def check_sites(sites: object, rows_about: object) -> None:
    """Refuse names and sizes of sites that do not fit together."""
    if type(sites) is not tuple or any(type(name) is not str or not name for name in sites):
        raise CannotTrain("sites", type(sites).__name__, "a tuple of names")
    if not 1 <= len(sites) <= MOST_SITES or len(set(sites)) < len(sites):
        raise CannotTrain("sites", f"{len(sites)} names", f"1 to {MOST_SITES}, each once")
    whole = type(rows_about) is tuple and all(type(rows) is int and 1 <= rows <= 10**12 for rows in rows_about)
    if not whole or type(rows_about) is not tuple or len(rows_about) != len(sites):
        raise CannotTrain("rows_about", "other numbers", "a whole number above 0 for each site, declared")


def check_trust(trust: Trust, sites: int) -> None:
    """Refuse trust that contradicts itself."""
    if trust.noise not in ("sites", "server") or type(trust.secure_aggregation) is not bool:
        raise CannotTrain("noise", trust.noise, "sites or server, and secure_aggregation true or false")
    for name, least, most in (
        ("fewest", 1, sites),
        ("colluding", 0, trust.fewest - 1),
        ("sites_per_person", 1, sites),
    ):
        value = getattr(trust, name)
        if type(value) is not int or not least <= value <= most:
            raise CannotTrain(name, value, f"a whole number from {least} to {most}")
    if trust.noise == "server" and trust.colluding:
        raise CannotTrain("colluding", trust.colluding, "0 where the server adds the noise: no site knows any of it")
    if trust.secure_aggregation and (trust.fewest < 2 or sites < 3):
        raise CannotTrain("fewest", f"{trust.fewest} of {sites} sites", "at least 2 of 3 for secure aggregation")
    blind = trust.noise == "sites" and trust.secure_aggregation
    if not blind and not (type(trust.server) is str and trust.server):
        seen = "exact sums" if trust.noise == "server" else "the share of each site"
        raise CannotTrain("server", trust.server, f"the name of the server, which is trusted: it sees {seen}")
    if blind and trust.server is not None:
        raise CannotTrain("server", trust.server, "none: under secure aggregation it sees noisy sums only")
