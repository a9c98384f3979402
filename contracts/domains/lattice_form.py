"""What all forms share in which the values of a column are added up, counted or chosen from: the lattice itself."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from contracts.domains.value_lattices import ValueLattice


@dataclass(frozen=True)
class LatticeForm:
    """A form over the lattice of a column.

    Args:
        lattice: the lattice of the values.
    """

    lattice: ValueLattice

    @property
    def column(self) -> str:
        """The column."""
        return self.lattice.column

    @property
    def key(self) -> str:
        """What its draw is found by among those of a table."""
        return self.lattice.key

    @property
    def weight(self) -> ValueLattice | None:
        """The lattice of the survey weight; None where every row counts once."""
        return self.lattice.weight

    @property
    def weight_step(self) -> Decimal:
        """What one step of the weight is; 1 where rows are not weighed."""
        return self.lattice.weight_step
