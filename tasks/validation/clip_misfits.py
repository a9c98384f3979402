"""What the clips of a spec cut: by clip and by cell the rows whose value lies beyond it.

Exact and private, as `misfits`: it is counted before the charge, for the operator alone. A clip that is narrower
than the contract's bounds cuts values which the contract allows. Means and sums are then of other numbers than those
of the rows, and no interval says by how much. A clip that the run finds itself is not known yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.domains.lattice import ValueLattice, one_step_wider
from contracts.domains.value_sql import identifier
from contracts.reading.scalars import plain_text
from contracts.release.product import ProductSpec
from contracts.release.statistics import StatisticsProduct
from privacy.private_table import PrivateTable
from privacy.snapshots.shared_scan import cell_sql, spread_out, whole_columns
from tasks.validation.misfits import ColumnMisfits

_THREADS: Final = 2
_MOST_CELLS: Final = 5
"""Cells that are named of one clip, those that it cuts most."""


def clip_misfits(
    table: PrivateTable, contract: Contract, product: ProductSpec, share: Fraction
) -> tuple[ColumnMisfits, ...]:
    """Count the rows that each declared clip of a release of statistics cuts, in all and in its cells.

    Args:
        table: the snapshot, encoded with the product's lattices.
        contract: the contract that encoded it.
        product: what is published; only one of statistics has clips.
        share: above which a run asks. Cells of fewer than 1 / share rows are not named: one row of theirs is more.
    Returns:
        For each table and clip the rows with a value, and how many are cut; then its cells above the share.
    Raises:
        SudareError: an engine does not answer.
    Privacy: exact counts, as `misfits`.
    """
    if not isinstance(product, StatisticsProduct):
        return ()
    found: list[ColumnMisfits] = []
    for each in product.tables:
        by = tuple(name for name in each.by if name not in contract.texts(each.by))
        for lattice in each.clipped_lattices(contract):
            named = f"{lattice.column} [{plain_text(lattice.low)}, {plain_text(lattice.high)}] · {each.name}"
            rows, cut = _counts(table, contract, by, lattice)
            found.append(_cut(named, int(rows.sum()), int(cut.sum())))
            found += _cells(named, contract, by, rows, cut, share)
    return tuple(found)


def _counts(
    table: PrivateTable, contract: Contract, by: tuple[str, ...], lattice: ValueLattice
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return by cell the rows with a value, and those of them that the clip cuts."""
    wider, shape = one_step_wider(lattice), contract.shape(by)
    offset = identifier(wider.name)
    terms = [
        f"coalesce(sum(1) FILTER ({offset} {each}), 0)::BIGINT" for each in ("> 0", f"IN (1, {wider.width + 1})")
    ]
    query = f"SELECT {cell_sql(by, shape)}, {', '.join(terms)} FROM codes GROUP BY 1"
    cells, *counted = whole_columns(table, query, _THREADS)
    rows, cut = (spread_out(cells, each, prod(shape)) for each in counted)
    return rows, cut


def _cells(
    named: str,
    contract: Contract,
    by: tuple[str, ...],
    rows: NDArray[np.int64],
    cut: NDArray[np.int64],
    share: Fraction,
) -> Iterator[ColumnMisfits]:
    """Yield the cells of which more than the share is cut, the worst first."""
    if not by:
        return
    above = np.flatnonzero((cut > float(share) * rows) & (float(share) * rows >= 1))
    for cell in above[np.argsort(-cut[above] / rows[above], kind="stable")][:_MOST_CELLS]:
        places = zip(by, np.unravel_index(int(cell), contract.shape(by)), strict=True)
        labels = ", ".join(contract.column(name).labels[int(place)] for name, place in places)
        yield _cut(f"{named}: {labels}", int(rows[cell]), int(cut[cell]))


def _cut(named: str, rows: int, cut: int) -> ColumnMisfits:
    return ColumnMisfits(named, rows, unfit=0, clipped=cut, null=0, unfit_to="", null_to="", expected=False)
