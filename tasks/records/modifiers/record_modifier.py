"""What a version and its record have of a modifier of synthetic rows (`contracts.release.synthetic`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from contracts.contract.contract import Contract
from contracts.release.synthetic import modifier_parts, named_parts, stated_modifiers
from tasks.records.facts import RunFacts
from tasks.records.files.synthetic_files import RowsFile
from tasks.records.groups.field import Run
from tasks.records.model.record_kinds import ShownFile
from tasks.records.model.version_statements import SyntheticReplay
from tasks.records.outputs import Synthesis


class RecordModifier:
    """What is made, written, stated and told of a version whose product asks for a modifier."""

    def made(self, made: Synthesis, contract: Contract) -> Synthesis:
        """Return what was made, with what follows from it under the modifier."""
        return made

    def row_files(self, files: tuple[RowsFile, ...], facts: RunFacts) -> tuple[RowsFile, ...]:
        """Return the files of rows, given those without the modifier."""
        return files

    def replay(self, run: Run) -> dict[str, Any]:
        """Return what the replay block states beside draws, model and rows; a mapping adds to the one there."""
        return {}

    def published(self, replay: SyntheticReplay) -> dict[str, Any]:
        """Return what the record states of what was made, as a `Synthesis` has it."""
        return {}

    def files(self, replay: SyntheticReplay) -> Iterator[tuple[str, ShownFile]]:
        """Yield the files that it adds, with what each shows."""
        return iter(())

    def rows(self, run: Run, told: dict[str, Any]) -> dict[str, Any]:
        """Return what is told of the number of rows, given what is told without the modifier."""
        return told

    def decoding(self, run: Run, told: dict[str, str]) -> dict[str, str]:
        """Return how values come out of cells, by column; as `rows`."""
        return told

    def bias_inside(self, run: Run, told: str) -> str:
        """Return what values inside bins are known to get wrong; as `rows`."""
        return told

    def further_rows(self, run: Run, told: str) -> str:
        """Return whether further rows come from the model; as `rows`."""
        return told

    def uses(self, run: Run) -> list[str]:
        """Return what more the rows are good for."""
        return []


def record_modifiers(product: Any) -> list[RecordModifier]:
    """Return the record parts of the modifiers that a product asks for, in the order of the table."""
    return [modifier for _, modifier in modifier_parts(product, "record")]


def modifiers_of_replay(replay: SyntheticReplay) -> list[RecordModifier]:
    """Return the record parts of the modifiers that a record names."""
    named = {name for name, written in replay.product.items() if written is not None}
    return [modifier for _, modifier in named_parts({*named, *stated_modifiers(replay)}, "record")]
