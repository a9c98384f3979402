"""The plan of a sparse table: from which threshold its cells are listed, and how many rows to expect."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from contracts.contract.cell_codes import ImpossibleCells
from contracts.contract.contract import Contract
from contracts.release.tables.product import Refine, TableSpec, TablesProduct
from contracts.release.tables.table_form import form_of_table
from privacy.accounting.events import CountNoise, DiscreteLaplace
from privacy.refine.sparse_depth import Depth, depth_of, expected_false_hits


@dataclass(frozen=True)
class SparsePlan:
    """How a table is drawn of which only the cells at or above a threshold are listed.

    Args:
        refine: the refinement; it says how far down the cells must be known.
        cells: cells of the declared domain.
        inverse_scale: of the noise [1 / unit].
        impossible: the declared structural zeros.
    """

    refine: Refine
    cells: int
    inverse_scale: Fraction
    impossible: ImpossibleCells

    def depth(self, total: int | None) -> Depth:
        """Return how far down the table is drawn, given the total, noisy or declared public [units]."""
        scale, impossible = self.inverse_scale, self.impossible
        return depth_of(self.refine, cells=self.cells, inverse_scale=scale, total=total, impossible=impossible)

    @property
    def thresholds(self) -> tuple[int, int]:
        """The first threshold, and the least one to which it may be lowered [units]."""
        depth = self.depth(0)
        return depth.first, depth.least

    @property
    def expected_rows(self) -> int:
        """Empty cells that are expected at or above the first threshold, rounded up; populated ones come on top."""
        return ceil(expected_false_hits(self.cells, self.inverse_scale, self.thresholds[0]))


def sparse_plan(table: TableSpec, product: TablesProduct, contract: Contract, event: CountNoise) -> SparsePlan | None:
    """Return how a table is listed; None for a dense one.

    Args:
        table: a table of the product.
        product: says how it is refined.
        contract: gives the domain and its structural zeros.
        event: the noise of the table.
    Raises:
        ValueError: a sparse table with noise other than discrete Laplace.
    Privacy: reads no data.
    """
    if form_of_table(table, product, contract) == "dense":
        return None
    if not isinstance(event, DiscreteLaplace):
        raise ValueError(f"table {table.name!r} is sparse: its noise must be discrete Laplace, not {event.kind}")
    impossible = ImpossibleCells.of(contract, table.columns)
    return SparsePlan(product.refine, contract.cells(table.columns), event.inverse_scale, impossible)
