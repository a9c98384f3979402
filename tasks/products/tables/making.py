"""Tables of counts: every planned marginal is measured, then refined, and both are written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from contracts.contract.column import Cells
from contracts.contract.contract import Contract
from contracts.release.spec import ReleaseSpec
from contracts.release.tables.levels import level_name
from contracts.release.tables.product import AUTO
from privacy.accounting.calculus import PureCalculus
from privacy.grant.measurement import Measurement, SparseMeasurement
from privacy.table_plans.plan import TOTAL_KEY, TablesPlan, plan_tables
from tasks.products.product_kind import Making, MakingStep, Needs, Payers
from tasks.products.tables.table_measurement import measure
from tasks.products.tables.table_refinement import refine
from tasks.records.facts import Outputs, RunFacts
from tasks.records.files.row_group_parts import write_parts
from tasks.records.files.tidy_tables import WrittenFile, write_data, write_listed, write_measurement
from tasks.records.outputs import Plan, TableMeasurement

_MEGABYTE = 2**20
_BYTES_PER_CELL = 50
"""In memory; on disk a fifth of it."""


def _measured(making: Making, _before: None) -> tuple[TableMeasurement, ...]:
    return measure(making.grant, making.plan, making.table, making.contract)


def _refined(making: Making, drawn: tuple[TableMeasurement, ...]) -> Outputs:
    product = making.spec.tables_product
    return Outputs(drawn, refine(product, making.plan, making.contract, drawn, making.earlier))


class TablesKind:
    """Tables of counts."""

    steps: ClassVar[tuple[MakingStep, ...]] = (MakingStep("measure", _measured), MakingStep("refine", _refined))

    def plan(self, spec: ReleaseSpec, contract: Contract, payers: Payers | None) -> tuple[ReleaseSpec, TablesPlan]:
        """Plan the marginals; `mechanism: auto` takes Gaussian noise only where no pure account would pay."""
        plan = plan_tables(spec, contract)
        if spec.tables_product.mechanism == AUTO and plan.mechanism == "gaussian" and payers is not None:
            accounts = payers(spec, plan_tables(spec, contract, pure_account=True))
            pure = any(isinstance(state.terms.calculus, PureCalculus) for state in accounts)
            plan = plan_tables(spec, contract, pure_account=pure)
        return spec, plan

    def planned_again(
        self, spec: ReleaseSpec, contract: Contract, plan: Plan, noise_epsilon: int | None
    ) -> tuple[ReleaseSpec, Plan]:
        """Return the plan as it is: what the accounts have left decides nothing of it."""
        return spec, plan

    def needs(self, plan: TablesPlan) -> Needs:
        """Memory and disk of all cells; a sparse table's are not known beforehand."""
        sparse = any(draw.sparse is not None for draw in plan.draws)
        megabytes = 0.0 if sparse else plan.cells * _BYTES_PER_CELL / _MEGABYTE
        return Needs(megabytes, megabytes / 5, ("product",))

    def write_files(self, facts: RunFacts, folder: Path, *, marks: Mapping[str, str]) -> tuple[WrittenFile, ...]:
        """Write the tables in their order, then what was measured, the measured total last."""
        if facts.total is not None and any(table.name.casefold() == TOTAL_KEY for table in facts.tables):
            raise ValueError(f"a table named {TOTAL_KEY!r} would overwrite the measured total")
        formats = facts.spec.publish.formats
        files: list[WrittenFile] = []
        drawn: list[tuple[Measurement | SparseMeasurement, str, Cells]] = []
        for table in facts.tables:
            written = write_data(table, facts.contract, folder, marks=marks, publish=facts.spec.publish)
            files += written
            if "parts" in formats:
                whole = [file for file in written if file.path.endswith(".parquet")]
                files += [part for file in whole for part in write_parts(folder, file)]
            drawn += [
                (each.measurement, level_name(table.name, each.level.name), each.level) for each in table.levels
            ]
            drawn.append((table.measurement, table.name, facts.contract))
        if facts.total is not None:
            drawn.append((facts.total, TOTAL_KEY, facts.contract))
        for measurement, name, cells in drawn:
            width = facts.tables_plan.draw(measurement.key).half_width
            if isinstance(measurement, SparseMeasurement):
                files.append(write_listed(measurement, name, width, facts.contract, folder, marks=marks))
            else:
                files.append(write_measurement(measurement, name, width, cells, folder, marks=marks))
        return tuple(files)

    def adapted_options(self, spec: ReleaseSpec, rows: int) -> tuple[dict[str, Any], list[str]] | None:
        """Tables have no options."""
        return None
