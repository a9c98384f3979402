"""A query: a frozen value that anybody may build, compare and write down; a grant alone draws it.

One class is a kind of draw. It names the private handles that it reads, derives its cost from them and from the
relation, says what a run that resumes must ask for again, and turns exact numbers into what may be written down. The
numbers and the noise are the grant's: it opens the handles of its own copy of the query (`exact_types`), and hands
the query a `NoiseSource`, so that no query imports a sampler.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace, DiscreteLaplaceVector

if TYPE_CHECKING:
    from contracts.contract.contract import Adjacency
    from contracts.contract.impossible_cells import Clique
    from privacy.accounting.events import KeySelection, PrivacyEvent
    from privacy.accounting.key_law import KeyCountLaw
    from privacy.federation.plan import ShareNoise
    from privacy.federation.rounds import SiteAnswers
    from privacy.grant.measurement import DurableDraw
    from privacy.learning.layout import PrivateRows
    from privacy.marginals.cell_sums import PrivateCellSums
    from privacy.marginals.cell_values import PrivateCellValues
    from privacy.marginals.counts import PrivateCounts, SparseCounts
    from privacy.marginals.key_units import PrivateKeyRows, PrivateKeys
    from privacy.refine.sparse import SparseTable

Handle: TypeAlias = (
    "PrivateCounts | SparseCounts | PrivateCellSums | PrivateCellValues | PrivateKeys | PrivateKeyRows | PrivateRows"
    " | SiteAnswers"
)
"""A handle on what only a grant reads."""
DrawnValues: TypeAlias = "NDArray[np.int64] | SparseTable"
"""What a draw makes: a value for every cell, or one for each listed cell."""
IntegerNoise = DiscreteLaplace | DiscreteLaplaceVector | DiscreteGaussian
"""Events of noise that is added to whole numbers, one by one."""
Progress = Callable[[int, int], None]
"""Told how many steps of how many are done; never anything about the data."""

ResultT = TypeVar("ResultT")


@dataclass(frozen=True)
class Relation:
    """Which tables are neighbours.

    Args:
        adjacency: whether a unit is added or removed, or replaced by another.
        rows_per_unit: bound on the rows of one unit.
        public_total: the number of rows, where the contract declares it public.
    """

    adjacency: Adjacency
    rows_per_unit: int
    public_total: int | None = None


@dataclass(frozen=True)
class DrawStage:
    """Under which relation a draw is made, which one of its query it is, and what came of the one before.

    Args:
        relation: which tables are neighbours.
        place: from 0.
        before: values of the draw before; None for the first.
        progress: told how far the query is; what it raises is raised once the draw is durable.
    """

    relation: Relation
    place: int
    before: NDArray[np.int64] | None
    progress: Progress


class SparseLayers(Protocol):
    """A sparse table that is drawn threshold by threshold; shows nothing below the threshold."""

    def drawn(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return codes and noisy values at or above the first threshold."""
        ...

    def lower(self, threshold: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Lower the threshold, and return codes and noisy values at or above it."""
        ...


class NoiseSource(Protocol):
    """What a query draws with; only a grant has one. Each method is the sampler of its name in `privacy.noise`."""

    def take(self, size: int) -> NDArray[np.uint8]:
        """Return uniform bytes."""
        ...

    def integers(self, size: int, *, event: IntegerNoise) -> NDArray[np.int64]:
        """Draw the noise of an event for so many numbers."""
        ...

    def exponential_mechanism(self, scores: Sequence[Fraction], *, epsilon: Fraction, sensitivity: Fraction) -> int:
        """Choose by exact scores; return the place of the choice."""
        ...

    def weighted_choice(
        self, distances: NDArray[np.int64], weights: NDArray[np.int64], *, rate: Fraction
    ) -> tuple[int, int]:
        """Choose a run of candidates by distances and weights; return its place and a number below its weight."""
        ...

    def sparse_laplace(
        self,
        codes: NDArray[np.int64],
        counts: NDArray[np.int64],
        *,
        cells: int,
        inverse_scale: Fraction,
        threshold: int,
    ) -> SparseLayers:
        """Draw the cells of a sparse table that reach a threshold."""
        ...

    def poisson_sample(self, rows: int, *, probability: Fraction) -> NDArray[np.int64]:
        """Sample each row by a coin of its own; return the places of those that are in."""
        ...

    def add_lattice_gaussian(self, exact: NDArray[np.float32], *, standard_deviation: Fraction) -> None:
        """Add Gaussian noise on a lattice to a vector, in its place."""
        ...

    def share(self, size: int, *, noise: ShareNoise) -> NDArray[np.int64]:
        """Draw what a site, or a server, adds to so many numbers."""
        ...

    def row_normals(self, rows: int, size: int) -> NDArray[np.float32]:
        """Draw normals, each row's from its own bytes."""
        ...

    def key_coins(self, units: NDArray[np.int64], *, event: KeySelection) -> NDArray[np.bool_]:
        """Toss the coin of every key, by how many units have it; whether each is published."""
        ...

    def noisy_key_counts(
        self, rows: NDArray[np.int64], *, law: KeyCountLaw
    ) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Draw the noisy count of every key; whether each is published, and the counts."""
        ...


class Query(ABC, Generic[ResultT]):
    """One kind of draw; `ResultT` is what a grant answers it with. A kind is a frozen dataclass of frozen parts."""

    kind: ClassVar[str]
    """Its name in the table of kinds."""
    leaves_once: ClassVar[bool] = False
    """Whether what is drawn leaves once, and its file is a receipt."""
    counts_parents: ClassVar[bool] = False
    """Whether its sensitivity follows from whose rows a handle counts: those of the base, or of a parent table."""

    @property
    @abstractmethod
    def handles(self) -> tuple[Handle, ...]:
        """The private handles that it reads; the grant holds each against the charge."""

    @property
    def clique(self) -> Clique:
        """Columns of the marginal; empty for the total, for sums over rows, and for a choice."""
        return ()

    @property
    def reserve(self) -> int | None:
        """How often its draws may be interrupted and made again; None where they are never made again."""
        return None

    def names(self, key: str) -> tuple[str, ...]:
        """Return the names of its draws, in their order; most kinds are one draw."""
        return (key,)

    def check(self, relation: Relation) -> None:
        """Refuse parts that do not fit together, before anything is read; types are checked already.

        Raises:
            ValueError: with what is allowed.
        """

    @abstractmethod
    def event(self, relation: Relation) -> PrivacyEvent:
        """Return the cost of each draw; the sensitivity is derived here, never passed in."""

    @abstractmethod
    def identity(self, relation: Relation, place: int) -> Mapping[str, Any]:
        """Return, as JSON values, what else a run that resumes must ask for again at one of its draws."""

    @abstractmethod
    def sample(self, exact: tuple[Any, ...], *, event: Any, noise: NoiseSource, stage: DrawStage) -> DrawnValues:
        """Return what may be written down of the numbers behind the handles, in their order.

        Privacy: that of the event. Only a grant calls this, with exact numbers (law 1).
        """

    def inspect(self, drawn: DurableDraw, place: int) -> None:
        """Stop where a durable draw shows that the next ones would be of no use. Post-processing."""

    @abstractmethod
    def result(self, event: Any, drawn: tuple[DurableDraw, ...]) -> ResultT:
        """Return durable draws as whoever asked sees them."""


def interval_names(key: str, draws: int) -> tuple[str, ...]:
    """Name the draws of a query that goes on from each draw to the next."""
    return tuple(f"{key}/{place:05d}" for place in range(draws))


def silent(done: int, steps: int) -> None:
    """Tell nobody how far a draw is."""
