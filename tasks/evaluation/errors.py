"""A version of statistics against the real rows: the exact statistics of every cell. For the auditor alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from contracts.contract.column import Cells
from contracts.contract.contract import Contract
from contracts.domains.addends import DistinctCount, LoneSum
from contracts.domains.lattice import ValueLattice, lattice_problems
from contracts.domains.text import KeyColumn
from contracts.domains.trees import tree_key
from contracts.domains.value_sql import identifier, literal
from contracts.errors import Finding, Refused, SpecRefused
from contracts.release.statistics import COUNT, EFFECTIVE_SIZE, REFINED, StatisticsProduct, StatisticsTable
from contracts.release.tables.levels import Level, table_cells
from contracts.release.tables.tables import TableSpec
from privacy.arrays import Floats
from privacy.evaluation.cells import EncodedRows
from privacy.evaluation.statistic_errors import (
    OffsetCounts,
    PrivateStatisticErrors,
    StatisticErrors,
    exact_statistics,
    statistic_errors,
)
from privacy.evaluation.table_errors import CellErrors, PrivateTableErrors, PublishedCells, cell_errors
from privacy.private_table import PrivateTable
from privacy.snapshots.scans import quota_unit, sum_within_quota
from privacy.snapshots.snapshot import SnapshotKeys, telling_column
from tasks.records.page.draw_words import found_lattices
from tasks.records.statistics_fields import StatisticsRecord
from tasks.records.strict_json import printable
from tasks.storage.duckdb_session import attempt, connect, trouble
from tasks.storage.progress import step
from tasks.verification.files.table_files import label_numbers
from tasks.verification.table_meaning import Meaning

_REMEDY: Final = "sudare verify says what is wrong with this version"
_NO_COLUMN: Final = ValueLattice("", Decimal(0), Decimal(1), Decimal(1), True)
"""Of a table of counts alone."""
_ByKey = dict[str | None, OffsetCounts]


def evaluated_lattices(product: StatisticsProduct, contract: Contract) -> tuple[ValueLattice | KeyColumn, ...]:
    """Return what a snapshot has to hold: the lattices of the product, and those of the bounds of each column."""
    own = product.lattices(contract)
    whole = [_unclipped(each, contract) for each in own if isinstance(each, ValueLattice)]
    return tuple(dict.fromkeys([*own, *(each for each in whole if each is not None)]))


def evaluate_statistics(
    table: PrivateTable, path: Path, record: StatisticsRecord, contract: Contract, *, memory_limit: str
) -> PrivateStatisticErrors:
    """Compare every published statistic with the exact ones of a snapshot.

    Args:
        table: the snapshot, with `evaluated_lattices`.
        path: the version's folder.
        record: its record.
        contract: its contract, with the keys that were selected.
        memory_limit: DuckDB's limit, such as "1GB" [text].
    Returns:
        Errors by table and by statistic; private.
    Raises:
        Refused: the snapshot is of another contract, or a table cannot be read.
    Privacy: nothing is drawn or charged, and the result must not be shown to anybody who may not see the rows.
    """
    if table.contract_digest != contract.digest:
        found, allowed = "another contract than the snapshot's", "the contract that encoded the snapshot"
        raise Refused([Finding(f"contract {contract.id}", "digest", found, allowed)])
    product = StatisticsProduct.model_validate(record.replay.product)
    keys = {name: contract.column(name).labels[:-2] for name in _texts(product, contract)}
    if keys:
        apart = tuple(name for each in product.tables for name in each.told_apart)
        table, _ = SnapshotKeys(table, before_keys(contract, product)).recoded(
            keys, apart, product.bounded_groups(contract)
        )
    errors: dict[str, dict[str, StatisticErrors]] = {}
    with step("evaluate") as bar:
        for number, (each, stated) in enumerate(zip(product.tables, record.replay.tables, strict=True), 1):
            clips = [clip.model_dump() for clip in record.replay.clips]
            lattices = found_lattices(each, contract, clips, stated.draws)
            refined = product.refine is not None and any(one.what == COUNT for one in each.of)
            errors[each.name] = _errors(table, path, each, contract, lattices, memory_limit, refined=refined)
            bar.advance(number / len(product.tables))
    return PrivateStatisticErrors(errors)


def before_keys(contract: Contract, product: StatisticsProduct) -> Contract:
    """Return the contract as it was before keys were selected."""
    return contract.with_keys(dict.fromkeys(_texts(product, contract), ()))


def _texts(product: StatisticsProduct, contract: Contract) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for table in product.tables for name in contract.texts(table.by)))


def _errors(
    table: PrivateTable,
    path: Path,
    wanted: StatisticsTable,
    contract: Contract,
    lattices: Mapping[str, ValueLattice],
    memory_limit: str,
    *,
    refined: bool,
) -> dict[str, StatisticErrors]:
    """Compare all statistics of one table, and refined counts beside the noisy ones."""
    published, cells = _published(path / "data" / f"{wanted.name}.parquet", wanted, contract, refined)
    clipped: _ByKey = {}
    whole: _ByKey = {}
    cut: set[str] = set()
    for lattice in wanted.lattices(contract):
        bounds, counted = _unclipped(lattice, contract), _counted(table, wanted, contract, lattice, memory_limit)
        # A private clip is one of sums: quantiles are over the bounds.
        for key in (lattice.column, tree_key(lattice.column)):
            clipped[key] = whole[key] = _narrowed(counted, lattices[key])
            if bounds is not None and (lattices[key].low, lattices[key].high) != (bounds.low, bounds.high):
                whole[key] = _counted(table, wanted, contract, bounds, memory_limit)
                cut.add(key)
    if not clipped:
        weight = None if wanted.survey_weight is None else wanted.survey_weight.lattice(contract)
        clipped[None] = _counted(table, wanted, contract, replace(_NO_COLUMN, weight=weight), memory_limit)
    clipped[None] = whole[None] = next(iter(clipped.values()))
    labels = partial(_cell_labels, contract, wanted.by)
    possible = ~contract.impossible(wanted.by).reshape(-1)
    apart = {each.key: each for each in wanted.distinct_counts(contract)}
    found = {}
    for statistic in wanted.of:
        if statistic.key in apart:
            alone = _different(table, wanted, contract, apart[statistic.key], memory_limit)
            numbers = tuple(_by_cell(published[f"{statistic.name}{end}"], cells) for end in ("", "_low", "_high"))
            found[statistic.name] = statistic_errors(alone, numbers, labels, possible)  # type: ignore[arg-type]
            continue
        exact, unclipped = exact_statistics(statistic, clipped), exact_statistics(statistic, whole)
        is_cut = any(term.key in cut for term in statistic.terms) and statistic.what != EFFECTIVE_SIZE
        if statistic.per_unit is not None:
            exact, is_cut = (_within_quota(table, wanted, contract, str(statistic.column)),), True
        for place, name in enumerate(statistic.estimates):
            numbers = tuple(_by_cell(published[f"{name}{end}"], cells) for end in ("", "_low", "_high"))
            before = unclipped[place] if is_cut else None
            found[name] = statistic_errors(exact[place], numbers, labels, possible, before)  # type: ignore[arg-type]
        if refined and statistic.what == COUNT:
            counts = _by_cell(published[REFINED], cells)
            found[REFINED] = statistic_errors(exact[0], (counts, None, None), labels, possible)
    return found


def _within_quota(table: PrivateTable, wanted: StatisticsTable, contract: Contract, column: str) -> Floats:
    """Add a column up by cell, each unit within its quota [the column's units]."""
    drawn = (addends for _, addends in wanted.draws(contract))
    form = next(each for each in drawn if isinstance(each, LoneSum) and each.column == column)
    shape, unit = contract.shape(wanted.by), quota_unit(contract)
    steps = sum_within_quota(table, wanted.by, shape, form, unit, threads=2)
    return np.asarray(steps * float(form.lattice.step))


def _different(
    table: PrivateTable, wanted: StatisticsTable, contract: Contract, counted: DistinctCount, memory_limit: str
) -> Floats:
    """Count the different values, or the units, of each cell."""
    stored, none = telling_column(counted, contract)
    column, number = identifier(stored), identifier("how many")
    known = "" if none is None else f" FILTER ({column} <> {literal(none) if isinstance(none, str) else none})"
    chosen = [*map(identifier, wanted.by), f"count(DISTINCT {column}){known}::BIGINT AS {number}"]
    groups = ", ".join(str(place) for place in range(1, len(chosen)))
    query = f"SELECT {', '.join(chosen)} FROM codes{' GROUP BY ' + groups if groups else ''}"
    read = _read(table, query, memory_limit)
    codes = [np.asarray(read[name], dtype=np.int64) for name in wanted.by]
    found = np.zeros(contract.cells(wanted.by))
    found[_numbers(contract.shape(wanted.by), codes, len(read["how many"]))] = read["how many"]
    return found


def _read(table: PrivateTable, query: str, memory_limit: str) -> Mapping[str, Any]:
    """Return the columns of a query on the snapshot; private."""
    with connect(table.path, memory_limit=memory_limit, spill=table.path.parent / "spill", read_only=True) as session:
        return attempt(
            lambda: session.execute(query).fetchnumpy(), lambda error: trouble(error, table.path, "reading it")
        )


def _counted(
    table: PrivateTable, wanted: StatisticsTable, contract: Contract, lattice: ValueLattice, memory_limit: str
) -> OffsetCounts:
    """Count how often each cell has each value of a column."""
    names, shape, weight = wanted.by, contract.shape(wanted.by), lattice.weight
    offset = identifier(lattice.name) if lattice.column else "0"
    mass = "1" if weight is None else f"greatest({identifier(weight.name)}::BIGINT - 1, 0)"
    chosen = [*map(identifier, names), f"{offset}::BIGINT AS {identifier('the offset')}"]
    places = ", ".join(str(place) for place in range(1, len(chosen) + 1))
    query = (
        f"SELECT {', '.join(chosen)}, sum({mass})::BIGINT AS {identifier('the mass')} FROM codes GROUP BY {places}"
    )
    counted = _read(table, query, memory_limit)
    offsets, masses = (np.asarray(counted[name], dtype=np.int64) for name in ("the offset", "the mass"))
    codes = [np.asarray(counted[name], dtype=np.int64) for name in names]
    return OffsetCounts(_numbers(shape, codes, len(offsets)), offsets, masses, contract.cells(names), lattice)


def _narrowed(counts: OffsetCounts, lattice: ValueLattice) -> OffsetCounts:
    """Clip values to the part of their lattice that the run has found; without a private clip nothing changes."""
    shift = int((lattice.low - counts.lattice.low) / lattice.step)
    moved = np.where(counts.offsets > 0, np.clip(counts.offsets - shift, 1, lattice.width + 1), 0)
    return replace(counts, offsets=moved, lattice=replace(lattice, weight=counts.lattice.weight))


def _unclipped(lattice: ValueLattice, contract: Contract) -> ValueLattice | None:
    """Return the lattice of a column's bounds in the same steps, or None where it is one that cannot be added up."""
    bounds = contract.column(lattice.column).domain.value_bounds
    if bounds is None or lattice_problems(bounds[0], bounds[1], lattice.step, contract.unit.max_rows_per_unit):
        return None
    return replace(lattice, low=bounds[0], high=bounds[1])


def _published(
    file: Path, table: StatisticsTable, contract: Contract, refined: bool
) -> tuple[Mapping[str, NDArray[np.float64]], NDArray[np.int64]]:
    """Read the published numbers of one table, missing ones as NaN, and the cell of each row."""
    try:
        if file.is_symlink() or file.parent.is_symlink():
            raise OSError("a symbolic link")
        read = pq.read_table(file, partitioning=None)
        codes = [label_numbers(read.column(name), contract.column(name).labels)[0] for name in table.by]
        names = [*(name for each in table.of for name in each.published), *([REFINED] if refined else [])]
        numbers = {name: _floats(read.column(name)) for name in names}
    except (OSError, KeyError, pa.ArrowException) as error:
        found = printable(str(getattr(error, "strerror", None) or error))
        raise SpecRefused([Finding(printable(str(file)), "table", found, "a published table", _REMEDY)]) from None
    arrays = [np.asarray(each, dtype=np.int64) for each in codes]
    size = contract.cells(table.by)
    cells = _numbers(contract.shape(table.by), arrays, read.num_rows)
    if any((each < 0).any() for each in arrays) or sorted(cells.tolist()) != list(range(size)):
        found = f"{read.num_rows} rows that are not the cells"
        allowed = f"a row for each of the {size} cells, with labels of the contract"
        raise SpecRefused([Finding(printable(str(file)), "rows", found, allowed, _REMEDY)])
    return numbers, cells


def _floats(column: Any) -> Floats:
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)


def _by_cell(numbers: Floats, cells: NDArray[np.int64]) -> Floats:
    found = np.empty_like(numbers)
    found[cells] = numbers
    return found


def _numbers(shape: tuple[int, ...], codes: Sequence[NDArray[np.int64]], rows: int) -> NDArray[np.int64]:
    """Return the row-major numbers of the cells of rows."""
    found = np.zeros(rows, dtype=np.int64)
    for size, column in zip(shape, codes, strict=True):
        found = found * size + column
    return found


def _cell_labels(contract: Contract, by: Sequence[str], cell: int) -> tuple[str, ...]:
    places = np.unravel_index(cell, contract.shape(by)) if by else ()
    return tuple(contract.column(name).labels[int(place)] for name, place in zip(by, places, strict=True))


# --- A tables version against the real rows.


_VERIFY_REMEDY = "sudare verify says what is wrong with this version"


def evaluate_tables(table: PrivateTable, path: Path, meaning: Meaning, *, memory_limit: str) -> PrivateTableErrors:
    """Compare every published table with the exact counts of a snapshot.

    Args:
        table: the snapshot.
        path: the version's folder.
        meaning: its contract, which encoded the snapshot, and its product.
        memory_limit: DuckDB's limit, such as "1GB" [text].
    Returns:
        Errors by name of the table, of a hierarchy its finest one; private.
    Raises:
        Refused: the snapshot is of another contract, or a table cannot be read.
    Privacy: nothing is drawn or charged, and the result must not be shown to anybody who may not see the rows.
    """
    contract = meaning.contract
    check_snapshot(table, contract)
    found_errors: dict[str, CellErrors] = {}
    with step("evaluate") as bar:
        for number, spec in enumerate(meaning.tables, 1):
            cells = table_cells(spec, contract)
            published = published_cells(path / "data" / f"{spec.name}.parquet", spec.columns, cells)
            found_errors[spec.name] = _marginal_errors(table, published, spec, cells, memory_limit)
            bar.advance(number / len(meaning.tables))
    return PrivateTableErrors(found_errors)


def check_snapshot(table: PrivateTable, contract: Contract) -> None:
    """Refuse a snapshot of another contract.

    Raises:
        Refused: its digest is another one.
    """
    if table.contract_digest != contract.digest:
        found, allowed = "another contract than the snapshot's", "the contract that encoded the snapshot"
        raise Refused([Finding(f"contract {contract.id}", "digest", found, allowed)])


def _marginal_errors(
    table: PrivateTable, published: PublishedCells, spec: TableSpec, cells: Contract | Level, memory_limit: str
) -> CellErrors:
    """Count the exact rows of the cells of one table."""
    names = spec.columns
    found, rows = counted_codes(table, names, memory_limit)
    if isinstance(cells, Level):
        found = [np.asarray(cells.column(name).codes)[codes] for name, codes in zip(names, found, strict=True)]
    return errors_of_cells(found, rows, published, names, cells)


def counted_codes(
    table: PrivateTable, names: Sequence[str], memory_limit: str
) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
    """Return the codes of some columns that rows of a snapshot have, and how many rows have them; private.

    Args:
        table: the snapshot.
        names: the columns; none for the number of all rows.
        memory_limit: DuckDB's limit, such as "1GB" [text].
    Returns:
        tuple: for each column its codes, shape (n,); the rows, int64, shape (n,).
    """
    chosen = ", ".join(map(identifier, names))
    query = f"SELECT {chosen}{', ' if names else ''}count(*) AS {identifier('number of rows')} FROM codes"
    query += f" GROUP BY {chosen}" if names else ""
    with connect(table.path, memory_limit=memory_limit, spill=table.path.parent / "spill", read_only=True) as session:
        counted = attempt(
            lambda: session.execute(query).fetchnumpy(), lambda error: trouble(error, table.path, "reading it")
        )
    rows = np.asarray(counted["number of rows"], dtype=np.int64)
    return [np.asarray(counted[name], dtype=np.int64) for name in names], rows


def errors_of_cells(
    codes: Sequence[NDArray[np.int64]],
    rows: NDArray[np.int64],
    published: PublishedCells,
    names: Sequence[str],
    cells: Cells,
) -> CellErrors:
    """Compare published cells with exact counts; private.

    Args:
        codes: of each column, in the codes of `cells`; several entries may be of one cell.
        rows: how many rows each has [rows].
        published: the published cells.
        names: the columns.
        cells: their labels.
    """
    shape = cells.shape(names)
    numbers = EncodedRows(tuple(names), shape, np.stack(codes, axis=1)).numbers(range(len(names)))
    exact: dict[int, int] = {}
    for number, own in zip(numbers.tolist(), rows.tolist(), strict=True):
        exact[number] = exact.get(number, 0) + own
    return cell_errors(
        exact,
        EncodedRows(tuple(names), shape, published.codes).numbers(range(len(names))),
        published,
        columns=tuple(names),
        labels=tuple(cells.column(name).labels for name in names),
        cells=cells.cells(names),
    )


def published_cells(file: Path, names: Sequence[str], cells: Cells) -> PublishedCells:
    """Read the published cells of one table."""
    try:
        if file.is_symlink() or file.parent.is_symlink():
            raise OSError("a symbolic link")
        table = pq.read_table(file, partitioning=None)
        codes = [label_numbers(table.column(name), cells.column(name).labels)[0] for name in names]
        counts = _float_column(table, "count")
        ends = [_float_column(table, end) for end in ("lower", "upper") if end in table.column_names]
    except (OSError, KeyError, pa.ArrowException) as error:
        found = printable(str(getattr(error, "strerror", None) or error))
        raise SpecRefused(
            [Finding(printable(str(file)), "table", found, "a published table", _VERIFY_REMEDY)]
        ) from None
    stacked = np.stack([np.asarray(each, dtype=np.int64) for each in codes], axis=1)
    if (stacked < 0).any():
        allowed = "labels of the contract"
        raise SpecRefused([Finding(printable(str(file)), "labels", "a label that is none", allowed, _VERIFY_REMEDY)])
    return PublishedCells(stacked, counts, np.stack(ends) if len(ends) == 2 else None)


def _float_column(table: pa.Table, name: str) -> NDArray[np.float64]:
    column = table.column(name).cast(pa.float64(), safe=False)
    return np.asarray(column.to_numpy(), dtype=np.float64)
