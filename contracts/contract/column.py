"""A column: its logical type and the cells of its domain, in the order of their codes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Literal, Protocol

from pydantic import Field, model_validator

from contracts.contract.shapes import PlaceShapes, shape_problems
from contracts.domains.domain import Frozen
from contracts.domains.kinds import Domain, kinds_for
from contracts.reading.scalars import Label, Problem, refuse

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LogicalType = Literal["integer", "number", "string", "date", "boolean", "array"]


def misfits(logical_type: str, domain: Domain) -> list[Problem]:
    """Say that a kind of domain does not go with a logical type; empty when it does. `at` is within the domain."""
    if logical_type in domain.logical_types:
        return []
    kinds = kinds_for(logical_type)
    found = f"kind {domain.kind} on logicalType {logical_type}"
    remedy = "change the kind, or the logicalType if it is not what the column holds"
    return [Problem(found, "kind " + " or ".join(kinds), remedy, ("kind",))]


class Labelled(Protocol):
    """Cells with labels: a column, or a column at a coarser resolution."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels in the order of the codes."""

    @property
    def size(self) -> int:
        """The number of cells."""


class Cells(Protocol):
    """The cells of any marginal, by columns: a contract, or a coarser resolution of one of its tables."""

    def column(self, name: str) -> Labelled:
        """Return the cells of one column."""

    def shape(self, clique: Sequence[str]) -> tuple[int, ...]:
        """Return the number of cells of each column."""

    def cells(self, clique: Sequence[str]) -> int:
        """Return the number of cells of all columns together."""

    def impossible(self, clique: Sequence[str]) -> NDArray[np.bool_]:
        """Mark the cells that cannot hold anybody."""


class Column(Frozen):
    """One column of the contract. Codes run from 0 to `size` - 1; `labels[code]` names the cell.

    A picture has `length` codes, one for each place, and `labels` are the levels of a place. Maps of places are drawn
    of their `shapes`.
    """

    name: Label
    logical_type: LogicalType
    domain: Domain
    description: str | None = None
    shapes: PlaceShapes | None = Field(default=None, exclude_if=lambda shapes: shapes is None)

    @model_validator(mode="after")
    def _kind_fits_type(self) -> Column:
        problems = misfits(self.logical_type, self.domain)
        if self.shapes is not None and not problems:
            problems = shape_problems(self.shapes, self.labels, named=self.named)
        if problems:
            refuse(problems)
        return self

    @property
    def labels(self) -> tuple[str, ...]:
        """Cell labels in code order: values or bins, then other if declared, then "(null)" if nulls have a cell."""
        return self.domain.labels

    @property
    def size(self) -> int:
        """The number of cells."""
        return len(self.domain.labels)

    @property
    def length(self) -> int:
        """The number of codes of a value: 1, but for pictures, which have one for each place."""
        return prod(self.domain.shape)

    @property
    def ordered(self) -> bool:
        """Whether neighbouring cells are neighbouring values (numbers and dates)."""
        return self.domain.ordered

    @property
    def named(self) -> bool:
        """Whether a value is one of named cells: no bin, no period, no picture."""
        return not self.ordered and self.length == 1

    @property
    def null_code(self) -> int:
        """The code that a missing or unreadable value gets."""
        return self.domain.null_code
