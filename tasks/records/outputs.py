"""What the products make of a run's draws: released values, from which files, pages and records are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.events import PrivacyEvent
from privacy.grant.measurement import Measurement, ResidualMeasurement, SparseMeasurement

if TYPE_CHECKING:
    from contracts.release.spine.place_margins import PlaceTree
    from contracts.release.tables.levels import Level
    from privacy.accounting.events import PrivacyEvent
    from privacy.classifiers.classifier import ClassifierModel
    from privacy.generators.generator import Fitted, Model
    from privacy.marginals.portable import PostProcessingSeed
    from privacy.refine.tables import Refined, RefinedCells
    from privacy.statistics.clips import FoundClip
    from privacy.table_plans.spine_plan import SpineCounts

WriteFiles = Callable[[Path, Mapping[str, str]], Any]
"""Writes the data files of a version into a folder, with marks of where they come from; returns what it wrote."""

EarlierCounts = Mapping[str, NDArray[np.int64]]


class Plan(Protocol):
    """What a release will draw: the events that are charged, and what they cost together."""

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        """The draws, and a budget for those that are chosen on the way, where there is one."""
        ...

    @property
    def epsilon(self) -> int:
        """ε of all events composed, at `delta` [10⁻¹²]."""
        ...

    @property
    def delta(self) -> int:
        """δ [10⁻¹⁸]."""
        ...

    @property
    def public_total(self) -> int | None:
        """The declared public number of rows, where there is one."""
        ...

    @property
    def noise_epsilon(self) -> int | None:
        """ε that the noise was planned for [10⁻¹²], where that is not the spec's."""
        ...


@dataclass(frozen=True)
class EarlierVersion:
    """What λ is chosen on.

    Args:
        release: the release.
        number: its version.
        manifest: SHA-256 (hex) of its MANIFEST.json.
        counts: its refined counts by name of the table, whole, at least 0 [units].
    """

    release: str
    number: int
    manifest: str
    counts: EarlierCounts


@dataclass(frozen=True)
class MeasuredLevel:
    """A coarser resolution of a table, with its measurement."""

    level: Level
    measurement: Measurement


@dataclass(frozen=True)
class DenseTable:
    """A table as it will be published, with a count for every cell, and the measurement it came from.

    Args:
        name: name of the table.
        columns: its columns.
        measurement: the noisy marginal.
        refined: the refined one.
        levels: its coarser resolutions, coarsest first, where it has a hierarchy; their refined counts are
            `refined.coarser`.
    """

    name: str
    columns: tuple[str, ...]
    measurement: Measurement
    refined: Refined
    levels: tuple[MeasuredLevel, ...] = ()

    @property
    def kept(self) -> NDArray[np.bool_] | None:
        """Which cells a minimum-frequency rule leaves; None without one."""
        return None if self.refined.suppressed is None else ~self.refined.suppressed


@dataclass(frozen=True)
class ReleasedSparseTable:
    """A table as it will be published, with a count for each cell that is not 0; the rest as for `DenseTable`."""

    name: str
    columns: tuple[str, ...]
    measurement: SparseMeasurement
    refined: RefinedCells
    levels: tuple[MeasuredLevel, ...] = ()


ReleasedTable = DenseTable | ReleasedSparseTable
TableMeasurement = Measurement | SparseMeasurement
DrawnTables: TypeAlias = "TableMeasurement | ResidualMeasurement"
"""What a release of tables draws, and the noisy tables that follow from residuals."""
RowsFrom = Literal["estimated", "public", "declared"]


@dataclass(frozen=True)
class AcrossPlan:
    """What a release across sites draws, as its coordinator is charged.

    Args:
        events: of every round, and of the reserve; what a person loses at all sites together.
        epsilon: of all of them, at `delta` [10^-12].
        delta: [10^-18].
    """

    events: tuple[PrivacyEvent, ...]
    epsilon: int
    delta: int

    @property
    def public_total(self) -> None:
        """No total is declared: nothing says whose it would be."""
        return None

    @property
    def noise_epsilon(self) -> None:
        """The noise is planned for the spec's own epsilon."""
        return None


@dataclass(frozen=True)
class Fit:
    """What was drawn to fit a model; released.

    Args:
        fitted: the model with its measurements and choices.
    """

    fitted: Fitted[Any]


@dataclass(frozen=True)
class Synthesis(Fit):
    """What a generator made of a table; released.

    Args:
        fitted: the model with its measurements and choices.
        model: the model as a stranger reads it from the published files.
        seed: drives sampling, order and decoding of the rows.
        rows: how many rows are published.
        rows_from: why so many: estimated from noisy counts, the contract's public total, or the spec's number.
        parents: of two linked tables how many rows of the parent table are published; `rows` follow from their sizes.
    """

    fitted: Fitted[Model]
    model: Model
    seed: PostProcessingSeed
    rows: int
    rows_from: RowsFrom
    parents: int | None = None


@dataclass(frozen=True)
class TrainedClassifier(Fit):
    """What a trainer made of a table; released."""

    fitted: Fitted[ClassifierModel]

    @property
    def model(self) -> ClassifierModel:
        """The classifier."""
        return self.fitted.model

    @property
    def seed(self) -> PostProcessingSeed | None:
        """The seed of post-processing; None where there is none."""
        return self.fitted.seed


@dataclass(frozen=True)
class StatisticsTableValues:
    """A table of statistics as it will be published.

    Args:
        name: name of the table.
        columns: the columns that rows are grouped by.
        values: each published column after those, in the shape of the cells (`privacy.statistics.table`).
        draws: keys of the draws that it comes of.
    """

    name: str
    columns: tuple[str, ...]
    values: Mapping[str, NDArray[Any]]
    draws: tuple[str, ...]


@dataclass(frozen=True)
class ReleasedStatistics(Fit):
    """What was drawn for statistics, and the tables that follow from it; nothing is fitted, and there is no model.

    Args:
        fitted: all draws.
        tables: the tables.
        clips: those that the run found, by key of the draw that has each.
    """

    fitted: Fitted[None]
    tables: tuple[StatisticsTableValues, ...]
    clips: Mapping[str, FoundClip] = field(default_factory=dict)


@dataclass(frozen=True)
class ReleasedSpine(Fit):
    """What was drawn by place, and the counts that follow from it; there is no model.

    Args:
        fitted: all draws.
        tree: the places.
        counts: of all levels.
    """

    fitted: Fitted[None]
    tree: PlaceTree
    counts: SpineCounts


def released_of(made: Fit) -> ReleasedSpine:
    """Return what was made, where it is counts by place.

    Raises:
        TypeError: it is something else.
    """
    if not isinstance(made, ReleasedSpine):
        raise TypeError("the release publishes no counts by place")
    return made
