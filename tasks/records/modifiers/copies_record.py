"""Copies of synthetic rows, as a version has and a record states them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from contracts.message import message
from contracts.release.copies import copy_path, rows_of_copy
from privacy.generators.copied_model import copies_of
from privacy.generators.rows import copy_seed, synthetic_rows
from tasks.records.facts import RunFacts
from tasks.records.files.synthetic_files import RowsFile, stated_rows
from tasks.records.files.tidy_tables import DATA
from tasks.records.groups.field import Run
from tasks.records.model.record_kinds import ShownFile
from tasks.records.model.version_statements import SyntheticReplay
from tasks.records.modifiers.record_modifier import RecordModifier


class CopiesRecord(RecordModifier):
    """Copies of the rows: a file each, with a seed that follows from that of the rows."""

    def row_files(self, files: tuple[RowsFile, ...], facts: RunFacts) -> tuple[RowsFile, ...]:
        """Add the file of each copy, in Parquet alone."""
        _, made = facts.synthetic
        models, data = copies_of(made.model), f"{DATA}/{files[0].name}.parquet"
        rows, copies = rows_of_copy(made.rows, max(1, len(models))), list[RowsFile]()
        for number, model in enumerate(models, 1):
            seed = copy_seed(made.seed, number)
            name = copy_path(data, number).removeprefix(f"{DATA}/").removesuffix(".parquet")
            pieces = synthetic_rows(model, facts.contract, seed, rows)
            copies.append(RowsFile(name, pieces, rows, in_all_formats=False, seed=seed))
        return (*files, *copies)

    def replay(self, run: Run) -> dict[str, Any]:
        """State number, seed and file of each copy."""
        made = run.facts.synthetic[1]
        first = RowsFile(run.facts.spec.release, iter(()), made.rows, seed=made.seed)
        _, *copies = self.row_files((first,), run.facts)
        return {"copies": [stated_rows(each, made.rows_from) for each in copies]}

    def files(self, replay: SyntheticReplay) -> Iterator[tuple[str, ShownFile]]:
        """Yield the file of each copy."""
        for copy in replay.copies:
            yield copy.data, ("", "data", "dense")

    def rows(self, run: Run, told: dict[str, Any]) -> dict[str, Any]:
        """Say how many copies there are, and how they are made."""
        copied = message(
            "{number} copies of the rows, each of a model of its own: fitted as the first was, to the measurements "
            "drawn again around it with the same noise. They cost nothing, and their seeds follow from that of the "
            "rows.",
            number=run.facts.synthetic[0].task.copies,
        )
        return {**told, "copies": copied}

    def uses(self, run: Run) -> list[str]:
        """Say that copies give intervals."""
        return [
            message(
                "For an interval do the same analysis with the rows and with each copy, and combine the results by "
                "the rule of the manual: how they differ shows what the noise does."
            )
        ]
