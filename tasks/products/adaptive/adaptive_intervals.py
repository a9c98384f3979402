"""The interval of a sum of cells of a version of adaptive tables, from its published measurements alone.

    1. record and noisy counts are read, each only if its SHA-256 is that of the manifest
    2. whole groups are added up from their noisy totals, parts of groups from the noisy counts at their levels
    3. the variance is that of so many independent draws

The noise of the totals chose the levels. So each sum uses one of both draws alone, whichever levels were chosen: the
totals, where no column of the detail is named; else the counts, whose noise is independent of all choices. So each
interval holds at its rate. Combined estimates of both draws stand in the tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contracts.errors import Finding, SpecRefused
from contracts.reading.scalars import Problem, nearest, word_list
from contracts.release.spine.place_selection import SelectionRefused, conditions_of, marked_labels
from privacy.accounting.events import event_from_json
from privacy.refine.place_intervals import REACH, interval_ends
from privacy.table_plans.adaptive_counts import detail_counts, possible_cells
from privacy.table_plans.adaptive_plan import AdaptivePlan, AdaptiveTablePlan, plan_adaptive, with_variances
from privacy.table_plans.choice_reach import LEAST
from tasks.products.adaptive.adaptive_checks import read_adaptive
from tasks.products.spine.published_version import UNREADABLE, column_of, unreadable
from tasks.products.version_records import RECORD, understood
from tasks.records.adaptive.adaptive_statement import AdaptiveRecord
from tasks.verification.files.version_folder import ManifestFiles

_NOISY: Final = "noisy"


@dataclass(frozen=True)
class GroupSum:
    """A sum of cells of an adaptive table with its 95 % interval.

    Args:
        table: its name.
        groups: how many groups are added up.
        numbers: how many draws: of totals of groups, or of counts.
        count: the published count [rows].
        lower, upper: the ends [rows].
        deviation: of the noise [rows].
    """

    table: str
    groups: int
    numbers: int
    count: int
    lower: int
    upper: int
    deviation: float


def group_sum(folder: Path, where: str) -> GroupSum:
    """Return the interval of a sum of cells of a version of adaptive tables.

    Args:
        folder: the version's folder, links resolved.
        where: conditions on columns of one table, joined by `and`; labels of a column are joined by |.
    Raises:
        SpecRefused: it is no sum of cells of the version, or its files are not those of its record.
    Privacy: post-processing of published values.
    """
    files = ManifestFiles(folder)
    files.open(RECORD).close()
    record, meaning = understood(
        folder,
        AdaptiveRecord,
        lambda found: read_adaptive(found.replay, where=RECORD),
        found="no record of adaptive tables that can be read",
        remedy="sudare verify says what is wrong with this version",
    )
    charge, draws = record.replay.charge, record.replay.draws
    terms: dict[str, Any] = {"epsilon": Decimal(charge.epsilon), "delta": Decimal(charge.delta)}
    try:
        plan: AdaptivePlan = plan_adaptive(meaning.product, meaning.contract, **terms)
        plan = with_variances(plan, [event_from_json(draw.event) for draw in draws])  # type: ignore[misc]
        noisy = {draw.key: column_of(files, draw.measurements or "", _NOISY) for draw in draws}
    except UNREADABLE as error:
        raise unreadable(str(folder), str(error)) from None
    try:
        asked = dict(conditions_of(where))
        table = _table(plan, asked)
        return sum_of(table, asked, noisy[table.totals.key], noisy[table.counts.key])
    except SelectionRefused as error:
        problem = error.problem
        finding = Finding("--where", where[:80] or "all rows", problem.found, problem.allowed, problem.remedy)
        raise SpecRefused([finding]) from None


def _table(plan: AdaptivePlan, asked: dict[str, list[str]]) -> AdaptiveTablePlan:
    """Return the first table that has all columns which are asked for."""
    for table in plan.tables:
        if set(asked) <= {*table.cells.table.by, *table.cells.table.detail}:
            return table
    known = [name for table in plan.tables for name in (*table.cells.table.by, *table.cells.table.detail)]
    unknown = next((name for name in asked if name not in known), None)
    found = f"the column {unknown!r}" if unknown else f"columns of several tables: {', '.join(asked)}"
    remedy = nearest(unknown, known) if unknown else "name columns of one table"
    raise SelectionRefused(
        Problem(found, f"columns of one table, of {word_list(list(dict.fromkeys(known)))}", remedy)
    )


def _marked(table: AdaptiveTablePlan, columns: tuple[str, ...], asked: dict[str, list[str]]) -> NDArray[np.bool_]:
    """Mark the cells of some columns that have the labels which are asked for, row-major."""
    found = np.ones(1, dtype=np.bool_)
    for name in columns:
        labels = table.cells.contract.column(name).labels
        own = marked_labels(labels, name, asked[name]) if name in asked else np.ones(len(labels), dtype=np.bool_)
        found = np.logical_and.outer(found, own).reshape(-1)
    return found


def sum_of(
    table: AdaptiveTablePlan, asked: dict[str, list[str]], totals: NDArray[np.int64], counts: NDArray[np.int64]
) -> GroupSum:
    """Add up totals of whole groups, or counts at the levels of groups."""
    made, terms = detail_counts(table, totals, counts), table.cells.table
    groups = _marked(table, terms.by, asked)
    possible = possible_cells(table, made.chosen, made.starts)
    if not set(asked) & set(terms.detail):
        held = np.add.reduceat(possible, made.starts[:-1], dtype=np.int64) > 0
        inside, drawn, of, variance = groups & held, totals, made.totals, table.totals.variance
    else:
        inside = _inside(table, asked, groups, made.chosen, made.starts) & possible
        drawn, of, variance = counts, made.counts, table.counts.variance
    count, numbers = int(of[0][inside].sum()), int(inside.sum())
    deviation = (numbers * variance) ** 0.5
    reach = deviation * LEAST[table.noise] / REACH
    middle = np.array([float(drawn[inside].sum())])
    lower, upper = interval_ends(middle, np.array([reach]), np.array([count], dtype=np.int64))
    return GroupSum(table.name, int(groups.sum()), numbers, count, int(lower[0]), int(upper[0]), deviation)


def _inside(
    table: AdaptiveTablePlan,
    asked: dict[str, list[str]],
    groups: NDArray[np.bool_],
    chosen: NDArray[np.int64],
    starts: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Mark the numbers, group after group, that make up what is asked for.

    Raises:
        SelectionRefused: the level of a group adds up cells that are asked for with others.
    """
    finest, found = _marked(table, table.cells.table.detail, asked), np.zeros(int(starts[-1]), dtype=np.bool_)
    for place, level in enumerate(table.cells.levels):
        here = np.flatnonzero(groups & (chosen == place))
        parts = np.bincount(level.cell_of, minlength=level.cells)
        asked_for = np.bincount(level.cell_of[finest], minlength=level.cells)
        if here.size and ((asked_for > 0) & (asked_for < parts)).any():
            raise SelectionRefused(_coarse(table, int(here[0]), level.name))
        found[(starts[here][:, None] + np.flatnonzero(asked_for > 0)).reshape(-1)] = True
    return found


def _coarse(table: AdaptiveTablePlan, group: int, level: str) -> Problem:
    by, contract = table.cells.table.by, table.cells.contract
    labels = []
    for place, name in enumerate(by):
        own = contract.column(name).labels
        labels.append(own[group // prod(contract.shape(by[place + 1 :])) % len(own)])
    remedy = f"name whole labels of that level: the column level of data/{table.name}.parquet has it"
    found = f"the group {', '.join(map(repr, labels))}, whose level is {level}"
    return Problem(found, "cells that the level of each group tells apart", remedy)
