"""Errors on a public stand-in: what a spec makes of rows that are declared public, through the whole refinement.

An older census, or rows that were made up, stand for the confidential ones. Releases are made of them as shadow
releases are: through a grant of a ledger of their own, so that no account pays. What their counts are off by is
known, since the rows are public. No confidential row is read; nothing of it is published.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.column import Cells
from contracts.contract.contract import Contract
from contracts.domains.value_sql import identifier
from contracts.errors import Finding, SpecRefused
from contracts.release.tables.levels import table_cells
from contracts.release.tables.tables import TablesProduct, tables_of
from flows.evaluation.attack_target import Attacked, adapted, refuse_rows_of
from flows.evaluation.evaluate import Real, file_source, private_snapshot
from flows.request import Request, planned_request
from privacy.evaluation.cells import EncodedRows
from privacy.marginals.counts import sum_up
from privacy.private_table import PrivateTable
from privacy.table_plans.plan import TablesPlan, table_key
from tasks.evaluation.public_rows import DeclaredPublic, refuse_confidential
from tasks.evaluation.shadow_releases import shadows_of
from tasks.products.tables.table_measurement import measure
from tasks.products.tables.table_refinement import refine
from tasks.records.outputs import DenseTable, ReleasedTable
from tasks.storage.duckdb_session import attempt, connect, trouble
from tasks.storage.progress import quietly, step
from tasks.storage.workspace.settings import Workspace

SIZES: Final = (0, 1, 10, 100, 1_000, 10_000)
"""Lower ends of the classes of size of a cell [rows of the stand-in]."""
RELEASES: Final = 5
MOST_SHOWN: Final = 12
"""Cells of a table that are shown one by one."""
_REMEDY: Final = "name public rows of other people: an older census, or rows that were made up"
StandInCounts = Mapping[str, NDArray[np.int64]]


@dataclass(frozen=True)
class ClassError:
    """How far refined counts of a table are off in cells of one class of size.

    Args:
        table: its name.
        least: the class's lower end [rows].
        cells: how many cells it has.
        rmse: root of the mean squared error over cells and releases [rows].
    """

    table: str
    least: int
    cells: int
    rmse: float


@dataclass(frozen=True)
class ShownCell:
    """A cell of a stand-in's table, and what one release of it would have published.

    Args:
        table: its name.
        labels: of the cell.
        rows: of the stand-in in it.
        released: the refined count of the first release.
    """

    table: str
    labels: tuple[str, ...]
    rows: int
    released: float


@dataclass(frozen=True)
class SurrogateErrors:
    """What releases of a stand-in are off by.

    Args:
        declared: the word that its rows are public.
        releases: how many were made.
        errors: of each table, by class of size.
        cells: some of each table, from the largest to the smallest.
        adapted: what was adapted to the stand-in, such as its total.
    """

    declared: DeclaredPublic
    releases: int
    errors: tuple[ClassError, ...]
    cells: tuple[ShownCell, ...]
    adapted: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Write them as JSON values."""
        return {
            "file": self.declared.file,
            "sha256": self.declared.sha256,
            "because": self.declared.because,
            "releases": self.releases,
            "adapted": list(self.adapted),
            "errors": [{**vars(each), "class": class_name(each.least)} for each in self.errors],
            "cells": [{**vars(each), "labels": list(each.labels)} for each in self.cells],
        }


def surrogate_errors(request: Request, file: Path, *, because: str | None, workspace: Workspace) -> SurrogateErrors:
    """Make releases of a public stand-in, and compare their refined counts with its own.

    Args:
        request: the release; its source is not read.
        file: the stand-in: rows as the contract has them.
        because: why they are public.
        workspace: has the ledger, and keeps the snapshot while it is needed.
    Raises:
        SudareError: there is no reason; the file is a source that the ledger has bound, or has the rows of this
            release; the product is none of tables.
    Privacy: no confidential row is read. Beyond what is refused, that the rows are public is the publisher's word.
    """
    source = file_source(file, option="--surrogate", remedy="name a file: what a release spec names is confidential")
    declared = DeclaredPublic.of(file, because=because, option="--surrogate")
    _check_kind(request)
    with closing(workspace.open_ledger()) as ledger:
        bound = [*ledger.sources(), request.spec.source.name]
    refuse_confidential(source.name, bound, what="the stand-in", remedy=_REMEDY)
    target = Attacked(request.spec, request.contract)
    with private_snapshot(Real(source), request.contract, workspace) as table:
        refuse_rows_of(target, table, workspace, what="the stand-in", remedy=_REMEDY)
        rows = _rows(table, request.contract, workspace.memory_limit)
        spec, contract, said = adapted(target, len(rows.codes))
        own = planned_request(spec, contract, workspace)
        errors, cells = _compared(own, rows, table, workspace)
    declared.check_unchanged(file)
    return SurrogateErrors(declared, RELEASES, errors, cells, said)


def class_name(least: int) -> str:
    """Name a class of size by its lower end."""
    place = SIZES.index(least)
    if place + 1 == len(SIZES):
        return f"{least:,} on"
    after = SIZES[place + 1]
    return f"{least:,}" if after == least + 1 else f"{least:,} to {after - 1:,}"


def _check_kind(request: Request) -> None:
    product = request.spec.product
    if not isinstance(product, TablesProduct) or request.spec.reference is not None:
        found = "a refinement chosen on an earlier version" if request.spec.reference else f"kind {product.kind}"
        allowed = "tables that are refined by themselves"
        raise SpecRefused([Finding(str(request.spec.path), "product", found, allowed, "leave --surrogate out")])


def _rows(table: PrivateTable, contract: Contract, memory_limit: str) -> EncodedRows:
    """Read the codes of all rows of the stand-in, which are public."""
    names = tuple(column.name for column in contract.columns)
    query = f"SELECT {', '.join(map(identifier, names))} FROM codes"
    with connect(
        table.path, memory_limit=memory_limit, spill=table.path.parent / "spill", read_only=True
    ) as connection:
        found = attempt(
            lambda: connection.execute(query).fetchnumpy(), lambda error: trouble(error, table.path, "reading it")
        )
    codes = np.stack([np.asarray(found[name], dtype=np.int64) for name in names], axis=1)
    return EncodedRows(names, contract.shape(names), codes)


def _compared(
    request: Request, rows: EncodedRows, table: PrivateTable, workspace: Workspace
) -> tuple[tuple[ClassError, ...], tuple[ShownCell, ...]]:
    """Make the releases; add up squared errors by table and class, and show cells of the first."""
    tables = {each.name: each for each in tables_of(request.spec.tables_product, request.contract)}
    exact, squares, cells = _exact(request, rows), defaultdict[str, Any](float), list[ShownCell]()
    for number, made in enumerate(_releases(request, table, workspace)):
        for each in made:
            if isinstance(each, DenseTable) and each.kept is None:
                refined = each.refined.values.reshape(-1)
                squares[each.name] += (refined - exact[each.name]).astype(np.float64) ** 2
                if not number:
                    cells += _shown(each, exact[each.name], table_cells(tables[each.name], request.contract))
    return tuple(_errors(squares, exact)), tuple(cells)


def _errors(squares: Mapping[str, Any], exact: StandInCounts) -> Iterator[ClassError]:
    for name, summed in squares.items():
        classes = np.searchsorted(SIZES, exact[name], side="right") - 1
        for place, least in enumerate(SIZES):
            chosen = summed[classes == place]
            if chosen.size:
                yield ClassError(name, least, int(chosen.size), float(np.sqrt(chosen.mean() / RELEASES)))


def _shown(table: DenseTable, exact: NDArray[np.int64], cells: Cells) -> Iterator[ShownCell]:
    """Pick cells of a table by their rank, evenly on a scale of logarithms; of a small table all."""
    shape, refined = cells.shape(table.columns), table.refined.values.reshape(-1)
    ranked = np.argsort(-exact, kind="stable")
    ranks = np.unique(np.geomspace(1, exact.size, MOST_SHOWN).round().astype(int)) - 1
    labels = [cells.column(name).labels for name in table.columns]
    for place in ranked if exact.size <= MOST_SHOWN else ranked[ranks]:
        codes = np.unravel_index(place, shape)
        names = tuple(of[int(code)] for of, code in zip(labels, codes, strict=True))
        yield ShownCell(table.name, names, int(exact[place]), float(refined[place]))


def _releases(request: Request, table: PrivateTable, workspace: Workspace) -> Iterator[tuple[ReleasedTable, ...]]:
    """Make releases by the steps of any release of tables, each through a grant of its own."""
    spec, contract, plan, limit = request.spec, request.contract, request.plan, workspace.memory_limit
    if not isinstance(plan, TablesPlan):
        raise TypeError("a release of tables has a plan of tables")
    with shadows_of(spec, contract, plan, table, memory_limit=limit) as shadows, step("stand-in") as bar:
        for number in range(RELEASES):
            with quietly():
                part = replace(shadows.table, source=f"file:surrogate-{number}")
                drawn = measure(shadows.grant(number, part), plan, part, contract)
                made = refine(spec.tables_product, plan, contract, drawn)
            bar.advance((number + 1) / RELEASES)
            yield made


def _exact(request: Request, rows: EncodedRows) -> StandInCounts:
    """Count the stand-in's rows in the cells of each table."""
    found, plan = {}, request.plan
    for draw in plan.measured if isinstance(plan, TablesPlan) else ():
        if draw.clique and draw.sparse is None:
            places = [rows.columns.index(name) for name in draw.clique]
            shape = tuple(rows.shape[place] for place in places)
            counts = np.bincount(rows.numbers(places), minlength=int(np.prod(shape))).reshape(shape)
            whole = counts if draw.coarsening is None else sum_up(draw.coarsening, counts)
            found[draw.key.removeprefix(table_key(""))] = whole.reshape(-1)
    return found
