"""What a record says of tables: the exact statement, and the run as far as the record states it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from math import sqrt
from typing import Any, ClassVar

import numpy as np

from contracts.contract.contract import Contract
from contracts.message import message
from contracts.reading.scalars import plain_text, six_digits
from contracts.release.tables.levels import level_name
from contracts.release.tables.tables import RESIDUALS, TableForm
from privacy.accounting.calculus import PureCalculus
from privacy.accounting.events import event_from_json
from privacy.arrays import Numbers
from privacy.ledger.draw_files import listing_digest
from privacy.ledger.terms import AccountState
from privacy.refine.sparse import SparseTable as NoisyList
from privacy.refine.tables import draws_total
from privacy.table_plans.plan import TOTAL_KEY, PlannedDraw, plan_product, table_key
from tasks.records.facts import RunFacts
from tasks.records.files.tidy_tables import DATA, MEASUREMENTS
from tasks.records.files.write import RESIDUALS_FILE
from tasks.records.groups.field import FieldGroup, Run
from tasks.records.groups.post_processing import disagreement, estimated_rmse, suppressed_cells, total_kind
from tasks.records.model.record_kinds import COUNT_COLUMNS, DataColumn, ProductWords, ShownFile
from tasks.records.model.version_statements import ChargeStatement, Record, TableStatement
from tasks.records.outputs import DenseTable, ReleasedSparseTable, ReleasedTable
from tasks.records.unpublished import Published
from tasks.records.values import Values

# --- The tables of a version as its record states them, in the place of those that a run made.


def tables_of(record: Record, derived: Sequence[PlannedDraw] = ()) -> dict[str, Any]:
    """Return what a run of tables knows of its own tables and totals, as far as the record states it.

    Args:
        record: the record.
        derived: the noise of tables that follow from residuals, which have no draw of their own.
    """
    replay = record.replay
    draws: dict[str, Any] = {draw.key: draw for draw in replay.draws}
    draws |= {
        each.key: Published(key=each.key, clique=each.clique, event=each.event.to_json(), listed=None)
        for each in derived
    }
    total, earlier = replay.total, replay.reference
    known: dict[str, Any] = {
        "synthesis": None,
        "classifier": None,
        "tables": tuple(_released_table(table, draws) for table in replay.tables),
        "total": None if TOTAL_KEY not in draws else _measurement(draws[TOTAL_KEY], values=total.value),
        "estimated_total": None,
        "earlier_version": None,
    }
    if total.standard_error is not None:
        variance = float(total.standard_error) ** 2
        known["estimated_total"] = Published(value=total.value, variance=variance)
    if earlier is not None:
        known["earlier_version"] = Published(
            release=earlier.release, number=earlier.version, manifest=earlier.manifest
        )
    return known


def _measurement(draw: Any, **more: Any) -> Any:
    return Published(key=draw.key, clique=draw.clique, event=event_from_json(draw.event), **more)


def _released_table(table: TableStatement, draws: Mapping[str, Any]) -> ReleasedTable:
    draw = draws[table_key(table.name)]
    levels: Any = tuple(
        Published(
            level=Published(name=level.name), measurement=_measurement(draws[table_key(table.name, level.name)])
        )
        for level in table.levels
    )
    refined: dict[str, Any] = {
        "method": table.method,
        "lambda_": None if table.lambda_ is None else Decimal(table.lambda_),
        "chosen": table.chosen,
        "estimated_rmse": {name: float(error) for name, error in table.estimated_rmse.items()},
        "disagreement": None if table.disagreement is None else float(table.disagreement),
        "total": table.total,
        "notes": table.notes,
    }
    if table.listed is None or draw.listed is None:
        gone = table.suppressed
        refined["suppressed"] = None if gone is None else Published(sum=lambda: gone)
        made: Any = Published(**refined)
        return DenseTable(table.name, table.columns, _measurement(draw), made, levels)
    noisy = Published(
        cells=draw.listed.cells, threshold=draw.listed.threshold, codes=Published(size=draw.listed.rows)
    )
    made = Published(**refined, codes=Published(size=table.listed.rows), absent_upper=table.listed.absent_upper)
    return ReleasedSparseTable(table.name, table.columns, _measurement(draw, table=noisy), made, levels)


class TablesRecordPart:
    """The record of tables."""

    model: ClassVar = Record
    notice: ClassVar[str] = message("noisy counts by these items; no record of a person")
    words: ClassVar = ProductWords(
        label="tables of counts",
        registered="Summary statistics",
        made="Tables of noisy counts",
        remark="Counts are noisy; record.html explains them.",
        data="Refined tables.",
    )

    def groups(self, groups: tuple[FieldGroup, ...]) -> tuple[FieldGroup, ...]:
        """Return the sections as they are."""
        return groups

    def columns(self, run: Run) -> set[str]:
        """Name the columns of all tables."""
        return {name for table in run.facts.tables for name in table.columns}

    def stated(self, run: Run) -> dict[str, Any]:
        """Return draws, total and tables."""
        return _tables_part(run)

    def published(
        self,
        record: Record,
        contract: Contract,
        product: Any,
        accounts: tuple[AccountState, ...],
        reserved: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Plan the tables again; a plan whose events are not those that were charged is not the run's."""
        charge = record.replay.charge
        plan = plan_product(
            product,
            contract,
            epsilon=_planned_epsilon(charge),
            delta=Decimal(charge.delta),
            pure_account=any(isinstance(account.terms.calculus, PureCalculus) for account in accounts),
            with_total=draws_total(product, contract),
        )
        same = [event.to_json() for event in plan.events] == list(reserved["events"])
        return ({"tables_plan": plan, "plan": plan} if same else {}) | tables_of(record, plan.derived)

    def files(self, record: Record) -> Iterator[tuple[str, ShownFile]]:
        """Yield data and measurements of each table and level."""
        yield f"{MEASUREMENTS}/{TOTAL_KEY}.parquet", (TOTAL_KEY, "measurements", "dense")
        yield RESIDUALS_FILE, (RESIDUALS, "measurements", "dense")
        for table in record.replay.tables:
            form: TableForm = "dense" if table.listed is None else "sparse"
            for level in table.levels:
                key = table_key(table.name, level.name)
                yield level.data, (key, "data", "dense")
                yield level.measurements, (key, "measurements", "dense")
            yield table.data, (table_key(table.name), "data", form)
            yield table.measurements, (table_key(table.name), "measurements", form)

    def data_columns(self, values: Values, path: str) -> Mapping[str, DataColumn]:
        """Return those of counts."""
        return COUNT_COLUMNS


def _planned_epsilon(charge: ChargeStatement) -> Decimal:
    planned: Fraction = charge.planned_for
    return Decimal(planned.numerator) / Decimal(planned.denominator)


def _tables_part(run: Run) -> dict[str, Any]:
    facts = run.facts
    return {
        "draws": _draws(facts),
        "total": {
            "kind": total_kind(run),
            "value": _total(facts),
            "standard_error": _standard_error(facts),
            "kept": _kept(facts),
        },
        "reference": _reference(facts),
        "tables": [_table(facts, table) for table in facts.tables],
    }


def _draws(facts: RunFacts) -> list[dict[str, Any]]:
    entered = sorted(
        (entry.body for entry in facts.entries if entry.kind == "noise_drawn"), key=lambda body: body["number"]
    )
    lists = {
        table.measurement.key: table.measurement.table
        for table in facts.tables
        if isinstance(table, ReleasedSparseTable)
    }
    return [
        {
            "key": body["key"],
            "number": body["number"],
            "clique": list(facts.tables_plan.draw(body["key"]).clique),
            "shape": _shape(facts, body["key"]),
            "coarsening": _coarsening(facts, body["key"]),
            "event": body["event"],
            "cost": body["costs"][facts.account.terms.name],
            "sha256": body["sha256"],
            **_sparse_statement(lists.get(body["key"])),
        }
        for body in entered
    ]


def _shape(facts: RunFacts, key: str) -> list[int]:
    planned = facts.tables_plan.draw(key)
    if key == RESIDUALS and facts.tables_plan.residuals is not None:
        return [planned.cells]
    return list(facts.contract.shape(planned.clique) if planned.coarsening is None else planned.coarsening.shape)


def _coarsening(facts: RunFacts, key: str) -> dict[str, str] | None:
    """Name the coarser resolution that was measured, with the digest of which cells it sums up."""
    coarser = facts.tables_plan.draw(key).coarsening
    return None if coarser is None else coarser.to_json()


def _levels(table: ReleasedTable) -> list[dict[str, Any]]:
    return [
        {
            "name": each.level.name,
            "data": f"{DATA}/{level_name(table.name, each.level.name)}.parquet",
            "measurements": f"{MEASUREMENTS}/{level_name(table.name, each.level.name)}.parquet",
            "sha256": _values_digest(counts.values),
        }
        for each, counts in zip(table.levels, table.refined.coarser, strict=True)
    ]


def _sparse_statement(table: NoisyList | None) -> dict[str, Any]:
    """Say of a sparse draw from which threshold on its cells are listed, and how many they are."""
    if table is None:
        return {}
    return {"listed": {"cells": table.cells, "threshold": table.threshold, "rows": int(table.codes.size)}}


def _reference(facts: RunFacts) -> dict[str, Any] | None:
    """Name the version on which λ was chosen."""
    earlier = facts.earlier_version
    if earlier is None:
        return None
    return {"release": earlier.release, "version": earlier.number, "manifest": earlier.manifest}


def _total(facts: RunFacts) -> int | None:
    if facts.estimated_total is not None:
        return facts.estimated_total.value
    return facts.plan.public_total if facts.total is None else int(facts.total.values)


def _standard_error(facts: RunFacts) -> str | None:
    """Give the standard error of a total that was estimated from all sums."""
    estimated = facts.estimated_total
    return None if estimated is None else six_digits(sqrt(estimated.variance))


def _kept(facts: RunFacts) -> str:
    """Say that tables keep an average of sums only where they gain, as those do that are refined one by one."""
    alone = facts.estimated_total is None or facts.spec.tables_product.refine.consistent
    return "by_all" if alone else "where_it_gains"


def _table(facts: RunFacts, table: ReleasedTable) -> dict[str, Any]:
    refined = table.refined
    return {
        "name": table.name,
        "columns": list(table.columns),
        "method": refined.method,
        "lambda": None if refined.lambda_ is None else plain_text(refined.lambda_),
        "chosen": None if refined.chosen is None else {"of": refined.chosen.of, "by": refined.chosen.by},
        "estimated_rmse": estimated_rmse(table),
        "disagreement": disagreement(table),
        "integers": facts.spec.tables_product.refine.integers,
        "total": refined.total,
        "notes": list(refined.notes),
        "suppressed": _suppressed(table),
        "data": f"{DATA}/{table.name}.parquet",
        "measurements": f"{MEASUREMENTS}/{table.name}.parquet",
        "sha256": _digest(table),
        "levels": _levels(table),
        **_rows(table),
    }


def _suppressed(table: ReleasedTable) -> int | None:
    """Count the cells that a minimum-frequency rule suppressed; None without one."""
    gone = suppressed_cells(table)
    return None if gone is None else int(gone.sum())


def _rows(table: ReleasedTable) -> dict[str, Any]:
    """Say of a refined sparse table how many cells are not 0, and where the interval of an unlisted one ends."""
    if not isinstance(table, ReleasedSparseTable):
        return {}
    return {"listed": {"rows": int(table.refined.codes.size), "absent_upper": table.refined.absent_upper}}


def _digest(table: ReleasedTable) -> str:
    """SHA-256 of the refined values; of a sparse table with its cells."""
    if isinstance(table, ReleasedSparseTable):
        return listing_digest(table.refined.codes, table.refined.values, {"cells": table.refined.cells})
    return _values_digest(table.refined.values)


def _values_digest(values: Numbers) -> str:
    """SHA-256 of the refined values: little-endian int64 or float64, row-major."""
    form = "<i8" if np.issubdtype(values.dtype, np.integer) else "<f8"
    return hashlib.sha256(np.ascontiguousarray(values, dtype=form).tobytes()).hexdigest()
