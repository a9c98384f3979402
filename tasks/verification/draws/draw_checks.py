"""What a kind of draw brings for those who verify it: its contract, its file, and its place in a fit made again.

The table `tasks.records.model.draw_kinds` names one `DrawChecks` for each kind of query.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.errors import Finding, SudareError
from contracts.release.tables.tables import MinimumFrequency
from privacy.accounting.events import PrivacyEvent
from tasks.records.files import part_names
from tasks.records.model.version_statements import FittedDraw
from tasks.verification.files.folder import OpenFiles

UNDERSTATED: Final = "the stated loss does not follow from the contract: do not rely on the claimed guarantee"
SHARE: Final = 0.001
"""By how much of an array's largest number the numbers of a fit made again may differ."""
DrawT = TypeVar("DrawT", bound=FittedDraw)
QueryT = TypeVar("QueryT")


class OtherDraw(SudareError):
    """The generator asks for something else than what was published."""


class FittedMeaning(Protocol):
    """What the replay block of such a release is about."""

    @property
    def contract(self) -> Contract:
        """The contract."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are read."""
        ...

    def ordered(self, clique: tuple[str, ...]) -> tuple[str, ...]:
        """Return the columns of a marginal in the order in which it has them."""
        ...

    def minimum_frequency_of(self, key: str) -> MinimumFrequency | None:
        """Return the rule under which small cells of a draw are suppressed; None without one."""
        ...


@dataclass(frozen=True)
class FileForm:
    """How a Parquet file of a version is written, as far as its values do not tell.

    Args:
        labels: of each dictionary column its entries: in their order, or as a set where only which they are is known.
        marks: what the file says beside what every file of the version says.
        piece: rows of a row group; None where each array is one of its own.
        all_dictionaries: numbers are written with dictionaries too.
        exact: its bytes were compared with those that are written of its values; nothing of it is left to check.
    """

    labels: Mapping[str, Sequence[str] | frozenset[str]] = field(default_factory=dict)
    marks: Mapping[str, str] = field(default_factory=dict)
    piece: int | None = field(default_factory=lambda: part_names.PIECE)
    all_dictionaries: bool = False
    exact: bool = False


@dataclass(frozen=True)
class PublishedValues:
    """What was published of the measurements.

    Args:
        noisy: the noisy values, by key of the draw, in their shapes.
        rebuilt: what else the files tell of a draw, by its key, such as what was added up in sums over rows.
    """

    noisy: Mapping[str, NDArray[np.int64]]
    rebuilt: Mapping[str, Any]


class DrawChecks(ABC, Generic[DrawT, QueryT]):
    """What a verification asks of a kind of draw.

    Class attributes:
        events: the events that it may have.
        most_moves: how many cells its event may move, where it says which; an event of more is not recomputed.
    """

    events: ClassVar[tuple[type[PrivacyEvent], ...]]
    most_moves: ClassVar[int] = 2

    @abstractmethod
    def check(
        self, placed: Sequence[tuple[int, DrawT]], draws: Sequence[FittedDraw], meaning: FittedMeaning, *, where: str
    ) -> list[Finding]:
        """Check what the record says of all draws of the kind, each with its place, against contract and product.

        The kind of its event, and that columns are of the product, are checked before.
        """

    def files_beside(self, draws: Sequence[DrawT]) -> frozenset[str]:
        """Name the files for all draws of the kind together."""
        return frozenset()

    def forms_beside(self, draws: Sequence[DrawT]) -> dict[str, FileForm]:
        """Say how the Parquet files among these are written."""
        return {}

    def read_beside(
        self, draws: Sequence[DrawT], meaning: FittedMeaning, files: OpenFiles, findings: list[Finding]
    ) -> dict[str, Any]:
        """Check these files, and add to the findings; return what they tell of each draw, by its key."""
        return {}

    def form(self, draw: DrawT, meaning: FittedMeaning) -> FileForm:
        """Say how the file of a draw is written."""
        return FileForm()

    def read(
        self, data: bytes, draw: DrawT, event: Any, meaning: FittedMeaning, rebuilt: Any
    ) -> tuple[NDArray[np.int64] | None, list[Finding]]:
        """Check the file of a draw.

        Args:
            data: bytes of the file.
            draw: what the record says of the draw.
            event: its event.
            meaning: contract and product.
            rebuilt: what the files beside tell of it.
        Returns:
            tuple: the values as they were drawn, None where they cannot be read; and what is wrong.
        Raises:
            LookupError: what the files beside should tell is not there; the message says what cannot be checked.
        """
        raise LookupError("draws of this kind have no file")

    def drawn(self, draw: DrawT, values: PublishedValues) -> NDArray[np.int64]:
        """Return what was drawn, as a fit made again is given it; empty where nothing of it is published."""
        return values.noisy.get(draw.key, np.empty(0, np.int64))

    def matching(self, query: QueryT, draw: DrawT, values: PublishedValues) -> QueryT:
        """Return the query that a fit made again goes on with, if it is the one whose values were published.

        Raises:
            OtherDraw: it is another.
        """
        return query


class SeparateDrawChecks(DrawChecks[DrawT, QueryT]):
    """What a verification asks of a kind whose draws have nothing to do with each other."""

    def check(
        self, placed: Sequence[tuple[int, DrawT]], draws: Sequence[FittedDraw], meaning: FittedMeaning, *, where: str
    ) -> list[Finding]:
        """Check each draw by itself."""
        return [
            finding
            for place, draw in placed
            for finding in self.check_draw(draw, meaning, at=f"replay.draws[{place}]", where=where)
        ]

    @abstractmethod
    def check_draw(self, draw: DrawT, meaning: FittedMeaning, *, at: str, where: str) -> list[Finding]:
        """Check what the record says of one draw; `at` is its place in the record."""


def is_own_file(name: str | None) -> bool:
    """Say whether a name is that of a Parquet file of measurements."""
    return (
        name is not None and name.startswith("measurements/") and name.endswith(".parquet") and name.count("/") == 1
    )
