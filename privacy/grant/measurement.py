"""What a grant hands out: noisy marginals, whole or listed, sums and private choices, each with what it cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.events import (
    CountNoise,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    KeySelection,
    PrivacyEvent,
    event_from_json,
)

if TYPE_CHECKING:
    from contracts.contract.impossible_cells import Clique
    from contracts.domains.addends import Addends
    from privacy.learning.moments import Moments
    from privacy.marginals.counts import Coarsening
    from privacy.marginals.residual_basis import Residual
    from privacy.marginals.suppression import Threshold
    from privacy.refine.sparse import SparseTable
    from privacy.statistics.cell_suppression import CellThreshold


class CellListing(Protocol):
    """Which cells a sparse draw holds."""

    @property
    def codes(self) -> NDArray[np.int64]:
        """Row-major numbers of the cells, ascending."""
        ...

    @property
    def threshold(self) -> int:
        """What every listed cell's noisy value reaches."""
        ...

    @property
    def cells(self) -> int:
        """Size of the declared domain."""
        ...


class DurableDraw(Protocol):
    """A durable draw, whether it was made just now, before, or was published."""

    @property
    def key(self) -> str:
        """Name of the draw inside its run."""
        ...

    @property
    def number(self) -> int:
        """Its order inside the run."""
        ...

    @property
    def clique(self) -> Clique:
        """Columns of the marginal."""
        ...

    @property
    def values(self) -> NDArray[np.int64]:
        """What was drawn."""
        ...

    @property
    def sha256(self) -> str:
        """Digest of the values."""
        ...

    @property
    def listing(self) -> CellListing | None:
        """The cells of a sparse draw; None where every cell has a value."""
        ...


@dataclass(frozen=True)
class Measurement:
    """A noisy marginal with what it cost; released, no longer private.

    Args:
        key: name of the draw inside its run.
        clique: columns of the marginal.
        values: noisy counts, int64, in the marginal's shape; suppressed ones read threshold - 1 [rows].
        event: the event, with the scale of the noise and the sensitivity.
        variance: variance of each cell's noise [rows²].
        number: order of the draw inside its run.
        sha256: digest of the values.
        threshold: the minimum-frequency rule under which small noisy counts were suppressed; None without one.
        table: the parent table whose rows were counted; None for the base.
        coarsening: the coarser resolution that was measured; None for the declared cells.
    """

    key: str
    clique: Clique
    values: NDArray[np.int64]
    event: CountNoise
    variance: float
    number: int
    sha256: str
    threshold: Threshold | None = None
    table: str | None = None
    coarsening: Coarsening | None = None
    kind: ClassVar[str] = "marginal"


@dataclass(frozen=True)
class DrawnNumbers:
    """Noisy whole numbers of one draw, with what they cost; released, no longer private.

    Args:
        key: name of the draw inside its run.
        values: noisy numbers, int64.
        event: the event, with the scale of the noise and the sensitivity.
        variance: variance of each number's noise.
        number: order of the draw inside its run.
        sha256: digest of the values.
    """

    key: str
    values: NDArray[np.int64]
    event: CountNoise
    variance: float
    number: int
    sha256: str


@dataclass(frozen=True)
class PlaceMeasurement(DrawnNumbers):
    """Noisy counts of the places of a level, shape (places, cells of the columns ...) [rows].

    Args:
        clique: the column of places, then the columns that are counted by.
        level: which level of the tree.
        groups: SHA-256 (hex) of which place each smallest place lies in.
    """

    clique: Clique
    level: str
    groups: str
    kind: ClassVar[str] = "place_counts"


@dataclass(frozen=True)
class Selection:
    """A private choice with what it cost; released, no longer private.

    Args:
        key: name of the draw inside its run.
        index: place of the chosen candidate.
        clique: its columns.
        event: the event.
        number: order of the draw inside its run.
        sha256: digest of the choice.
    """

    key: str
    index: int
    clique: Clique
    event: ExponentialMechanism
    number: int
    sha256: str
    kind: ClassVar[str] = "choice"


@dataclass(frozen=True)
class DrawRequest:
    """What a draw is asked for; a run that resumes asks for the same.

    Args:
        key: name of the draw inside its run.
        clique: columns of the marginal; empty for the total, for sums over rows, and for a choice.
        event: what it will cost.
        about: what else it must be the same in, such as the candidates of a choice.
    """

    key: str
    clique: Clique
    event: PrivacyEvent
    about: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Write it as JSON values."""
        parts = {"clique": list(self.clique), "event": self.event.to_json(), "about": dict(self.about)}
        return {"key": self.key, **parts}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> DrawRequest:
        """Read it back."""
        return cls(document["key"], tuple(document["clique"]), event_from_json(document["event"]), document["about"])


@dataclass(frozen=True)
class SparseMeasurement:
    """The cells of a noisy marginal that reached a threshold, with what they cost; released, no longer private.

    Args:
        key: name of the draw inside its run.
        clique: columns of the marginal.
        table: the listed cells with their noisy counts, the threshold, and the size of the domain [rows].
        event: the event, with the scale of the noise and the sensitivity.
        variance: variance of each cell's noise, before cells are selected by their noisy counts [rows²].
        number: order of the draw inside its run.
        sha256: digest of all that `table` says.
    """

    key: str
    clique: Clique
    table: SparseTable
    event: DiscreteLaplace
    variance: float
    number: int
    sha256: str
    kind: ClassVar[str] = "sparse_marginal"


@dataclass(frozen=True)
class ResidualMeasurement(DrawnNumbers):
    """Noisy residuals of marginals: one after the other, each row-major and times its multiplier.

    Args:
        residuals: what was measured, in the order of the values.
    """

    event: DiscreteGaussian
    residuals: tuple[Residual, ...]
    kind: ClassVar[str] = "residuals"


@dataclass(frozen=True)
class CellSumMeasurement:
    """Noisy sums of a column by cell, with what they cost; released, no longer private.

    Args:
        key: name of the draw inside its run.
        clique: columns that rows are grouped by.
        addends: the column that was added up, with its lattice or a tree of counts over it; or a weight of rows.
        values: noisy numbers, int64, shape (*cells, addends.parts): steps above, below, and of missing values; or
            the counts of all nodes (`privacy.marginals.cell_sums`) [steps, or rows].
        event: the event, with the scale of the noise and the sensitivity.
        variance: variance of each number's noise [steps², or rows²].
        number: order of the draw inside its run.
        sha256: digest of the values.
        threshold: the minimum-frequency rule under which cells were suppressed, all numbers of them 0; None without.
    """

    key: str
    clique: Clique
    addends: Addends
    values: NDArray[np.int64]
    event: CountNoise
    variance: float
    number: int
    sha256: str
    threshold: CellThreshold | None = None
    kind: ClassVar[str] = "cell_sums"


@dataclass(frozen=True)
class KeyMeasurement:
    """Keys that were selected, with what the selection cost; released, no longer private.

    Args:
        key: name of the draw inside its run.
        clique: the columns whose labels make a key.
        keys: the selected keys, sorted; a label for each column.
        event: the event, with epsilon and delta of one key and the keys that a unit has at most.
        number: order of the draw inside its run.
        sha256: digest of the packed keys.
    """

    key: str
    clique: Clique
    keys: tuple[tuple[str, ...], ...]
    event: KeySelection
    number: int
    sha256: str
    kind: ClassVar[str] = "keys"


def selected_texts(drawn: Iterable[object]) -> dict[str, tuple[str, ...]]:
    """Return the selected keys of each column, among all that was drawn."""
    selected = [each for each in drawn if isinstance(each, KeyMeasurement)]
    return {each.clique[0]: tuple(key[0] for key in each.keys) for each in selected}


@dataclass(frozen=True)
class KeyCountMeasurement(KeyMeasurement):
    """Keys that were selected with their noisy counts, from one draw; released, no longer private.

    Args:
        values: noisy counts of each key, of rows that have another one, and of those that have none; int64 [rows].
    """

    values: NDArray[np.int64]
    kind: ClassVar[str] = "key_counts"


@dataclass(frozen=True)
class SumMeasurement(DrawnNumbers):
    """Noisy sums over rows, shape (statistic.length,) [lattice units].

    Args:
        statistic: what was added up; its `blocks` or `means` give the values in natural units.
    """

    event: DiscreteGaussian
    statistic: Moments
    kind: ClassVar[str] = "sums"
