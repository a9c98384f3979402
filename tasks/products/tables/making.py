"""Tables of counts: every planned marginal is measured, then refined, and both are written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from contracts.contract.column import Cells
from contracts.release.tables.levels import level_name, table_cells
from contracts.release.tables.tables import tables_of
from privacy.grant.measurement import Measurement, ResidualMeasurement, SparseMeasurement
from privacy.table_plans.plan import TOTAL_KEY
from tasks.products.product_kind import Making, MakingStep
from tasks.products.tables.table_measurement import measure
from tasks.products.tables.table_refinement import refine
from tasks.records.facts import Outputs, RunFacts
from tasks.records.files.tidy_tables import WrittenFile, write_data, write_measurement, write_sparse_measurement
from tasks.records.files.write import write_parts, write_residuals
from tasks.records.outputs import DrawnTables


def _measured(making: Making, _before: None) -> tuple[DrawnTables, ...]:
    return measure(making.grant, making.plan, making.table, making.contract)


def _refined(making: Making, drawn: tuple[DrawnTables, ...]) -> Outputs:
    product = making.spec.tables_product
    return Outputs(drawn, refine(product, making.plan, making.contract, drawn, making.earlier))


class TablesMaking:
    """Tables of counts."""

    steps: ClassVar[tuple[MakingStep, ...]] = (MakingStep("measure", _measured), MakingStep("refine", _refined))

    def write_files(self, facts: RunFacts, folder: Path, *, marks: Mapping[str, str]) -> tuple[WrittenFile, ...]:
        """Write the tables in their order, then what was measured, the measured total last."""
        if facts.total is not None and any(table.name.casefold() == TOTAL_KEY for table in facts.tables):
            raise ValueError(f"a table named {TOTAL_KEY!r} would overwrite the measured total")
        formats = facts.spec.publish.formats
        files: list[WrittenFile] = []
        drawn: list[tuple[Measurement | SparseMeasurement, str, Cells]] = []
        specified = {each.name: each for each in tables_of(facts.spec.tables_product, facts.contract)}
        for table in facts.tables:
            own = table_cells(specified[table.name], facts.contract)
            written = write_data(table, own, folder, marks=marks, publish=facts.spec.publish)
            files += written
            if "parts" in formats:
                whole = [file for file in written if file.path.endswith(".parquet")]
                files += [part for file in whole for part in write_parts(folder, file)]
            drawn += [
                (each.measurement, level_name(table.name, each.level.name), each.level) for each in table.levels
            ]
            drawn.append((table.measurement, table.name, own))
        if facts.total is not None:
            drawn.append((facts.total, TOTAL_KEY, facts.contract))
        for measurement, name, cells in drawn:
            width = facts.tables_plan.draw(measurement.key).half_width
            if isinstance(measurement, SparseMeasurement):
                files.append(write_sparse_measurement(measurement, name, width, facts.contract, folder, marks=marks))
            else:
                files.append(write_measurement(measurement, name, width, cells, folder, marks=marks))
        measured = (each for each in facts.measurements if isinstance(each, ResidualMeasurement))
        files += [write_residuals(each, folder, marks=marks) for each in measured]
        return tuple(files)
