"""The tables of a version as its record states them, in the place of those that a run made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from privacy.accounting.events import event_from_json
from privacy.table_plans.plan import TOTAL_KEY, PlannedDraw, table_key
from tasks.records.model.version_statements import Record, TableStatement
from tasks.records.outputs import DenseTable, ReleasedSparseTable, ReleasedTable
from tasks.records.unpublished import Published


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
        "tables": tuple(_table(table, draws) for table in replay.tables),
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


def _table(table: TableStatement, draws: Mapping[str, Any]) -> ReleasedTable:
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
