"""The plan of marginal counts across sites: which tables, with how much noise, and what they cost.

Counts of disjoint rows add up: each site counts its own rows, adds its share of discrete Gaussian noise (or none,
where a named server adds it), and the sum over sites is released. Shares are drawn in fine units, 2^-bits of a row,
so that a sum of shares is a discrete Gaussian up to 10^-60 in every probability, relative (docs/federation.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, log2
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.impossible_cells import Clique
from contracts.contract.privacy_terms import Adjacency
from privacy.accounting.events import DiscreteGaussian
from privacy.federation.plan import MODULUS_BITS, ShareNoise, Trust, WholeNoise, check_sites, check_trust
from privacy.learning.errors import CannotTrain
from privacy.marginals.sensitivity import GaussianNoise, marginal_moves

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
