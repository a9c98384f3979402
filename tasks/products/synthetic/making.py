"""Synthetic rows: a generator plans and measures, rows come out of its published model, and all of it is written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from tasks.products.product_kind import Making, MakingStep
from tasks.products.synthetic.synthesis import synthesize
from tasks.records.draws.drawn import write_drawn
from tasks.records.facts import Outputs, RunFacts
from tasks.records.files.synthetic_files import RowsFile, rows_file, write_model, write_rows
from tasks.records.files.tidy_tables import WrittenFile
from tasks.records.modifiers.record_modifier import record_modifiers


def _synthesized(making: Making, _before: None) -> Outputs:
    product, key = making.spec.synthetic_product, making.run_key
    terms = making.plan, making.table, making.contract, making.folder, key
    return Outputs(synthesis=synthesize(making.grant, product, *terms))


class SyntheticMaking:
    """Synthetic rows."""

    steps: ClassVar[tuple[MakingStep, ...]] = (MakingStep("synthesize", _synthesized),)

    def write_files(self, facts: RunFacts, folder: Path, *, marks: Mapping[str, str]) -> tuple[WrittenFile, ...]:
        """Write rows, model, and what was drawn."""
        _, made = facts.synthetic
        files: tuple[RowsFile, ...] = (rows_file(made, facts),)
        for modifier in record_modifiers(facts.spec.product):
            files = modifier.row_files(files, facts)
        rows = write_rows(files, facts, folder, marks=marks)
        drawn = write_drawn(made.fitted, facts, folder, marks=marks)
        model = write_model(made.model, folder, marks=marks)
        return (*rows, *drawn, *model)
