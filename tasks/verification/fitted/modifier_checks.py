"""What a verification asks of a modifier of synthetic rows; its table: `contracts.release.synthetic`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from contracts.contract.decoding import Decoded, DecodedForm
from contracts.contract.impossible_cells import Clique
from contracts.errors import Finding
from privacy.generators.generator import Model
from tasks.records.model.version_statements import ModelStatement, SyntheticRecord, SyntheticReplay
from tasks.verification.draws.draw_checks import FileForm
from tasks.verification.fitted_meaning import SyntheticMeaning

CompareModels = Callable[[Model, Model, Sequence[Clique]], list[Finding]]


@dataclass(frozen=True)
class RowTable:
    """A table of published rows, and how they are made again.

    Args:
        data: name of its Parquet file.
        number: its rows.
        forms: its columns.
        pieces: makes the rows, piece by piece.
        keys: columns that the contract gives no domain.
        in_all_formats: whether it may have a CSV copy.
    """

    data: str
    number: int
    forms: tuple[DecodedForm, ...]
    pieces: Callable[[], Iterator[tuple[Decoded, ...]]]
    keys: frozenset[str] = frozenset()
    in_all_formats: bool = True


class ModifierChecks:
    """What a verification asks of a version whose product asks for a modifier, or whose record states it."""

    decides_rows: ClassVar[bool] = False
    """Whether the number of rows follows from something else than product and model."""

    def row_files(self, replay: SyntheticReplay) -> tuple[str, ...]:
        """Return the further files of rows that may have a CSV copy."""
        return ()

    def files(self, replay: SyntheticReplay) -> set[str]:
        """Return the further files that the version must have."""
        return set()

    def forms(self, replay: SyntheticReplay, meaning: SyntheticMeaning, rows: FileForm) -> dict[str, FileForm]:
        """Return how its files of rows are written.

        Args:
            replay, meaning: of the version.
            rows: how the rows of one table are written.
        """
        return {}

    def check_record(self, record: SyntheticRecord, meaning: SyntheticMeaning, *, where: str) -> list[Finding]:
        """Check what the record states of it."""
        return []

    def check_model(self, model: Model, stated: ModelStatement, meaning: SyntheticMeaning) -> list[Finding]:
        """Check the published model against product and contract."""
        return []

    def tables(
        self, tables: tuple[RowTable, ...], model: Model, replay: SyntheticReplay, meaning: SyntheticMeaning
    ) -> tuple[RowTable, ...]:
        """Return the published tables of rows, given those without the modifier."""
        return tables

    def check_tables(
        self, parquet: Mapping[str, bytes], replay: SyntheticReplay, meaning: SyntheticMeaning
    ) -> list[Finding]:
        """Check tables of rows that were found to be what model and seed give; bytes by name of the file."""
        return []


class ModelModifierChecks(ModifierChecks, ABC):
    """The same of a modifier that makes a kind of model of its own (`model` of the table)."""

    @abstractmethod
    def compare(self, published: Any, again: Any, drawn: Sequence[Clique], compare: CompareModels) -> list[Finding]:
        """Compare a model of its kind with the same one fitted again.

        Args:
            published, again: both of its kind.
            drawn: the columns of each draw.
            compare: compares the models that are in them.
        """
