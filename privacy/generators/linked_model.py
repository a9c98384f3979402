"""The published model of two linked tables: parents, and children given their parent.

The parents are a model of their own. Of the children there is a graphical model over the columns of both tables;
what is drawn from it are the columns of children, conditional on the columns of the parent that a child belongs to.
So a parent's row has as many children as its column of sizes says, and no key is without a parent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from contracts.contract.impossible_cells import Clique
from privacy.generators.generator import Model, ModelReader
from privacy.marginals.domain import CellDomain
from privacy.marginals.given_columns import ConditionalColumns, conditional_columns, draw_given
from privacy.marginals.graphical_model import GraphicalModel
from privacy.marginals.seeds import PostProcessingSeed

_PARENTS: Final = "parents-"
_CHILDREN: Final = "children-"
_GRAPHICAL: Final = "graphical_model"
"""The kind of model that columns can be drawn from given others."""


class GraphicalRows(Model, Protocol):
    """A published model that has potentials."""

    @property
    def graphical(self) -> GraphicalModel:
        """The same model in the floats that its whole numbers stand for."""
        ...


@dataclass(frozen=True, eq=False)
class LinkedModel:
    """A model of parents, and one of children given their parent.

    Args:
        parents: of the parent table's columns.
        children: of the columns of both tables, in rows of the child table.
    Raises:
        ValueError: a column of the parents that the children's model has not, or with other cells.
    """

    kind: ClassVar[str] = "linked"
    parents: Model
    children: GraphicalRows

    def __post_init__(self) -> None:
        """Check that both models know the parents' columns alike."""
        own, all_of_them = self.parents.domain, self.children.domain
        if not set(own.columns) < set(all_of_them.columns) or all_of_them.sizes(own.columns) != own.shape:
            raise ValueError("the model of children must have the parents' columns, with the same cells, and others")

    @property
    def domain(self) -> CellDomain:
        """The columns of both tables with their cells."""
        return self.children.domain

    @property
    def rows(self) -> int:
        """The estimated number of parents."""
        return self.parents.rows

    @cached_property
    def conditional(self) -> ConditionalColumns:
        """The children's columns given the parents'."""
        return conditional_columns(self.children.graphical, self.parents.domain.columns)

    def sample(self, rows: int, *, seed: int, where: Mapping[str, Sequence[int]] | None = None) -> NDArray[np.int32]:
        """Draw rows of parents, shape (rows, columns of parents); children are drawn by `children_of`."""
        return self.parents.sample(rows, seed=seed, where=where)

    def children_of(self, parents: NDArray[np.int32], *, seed: PostProcessingSeed) -> NDArray[np.int32]:
        """Draw a child for each row of parents that is given; a parent of several children is given as often.

        Args:
            parents: codes of the parent of each child, shape (children, columns of parents).
            seed: public; the same model, parents and seed give the same bytes.
        Returns:
            Codes of the child table's columns, shape (children, those columns), in the domain's order.
        Raises:
            NothingPossible: a parent has no possible child.
        Privacy: post-processing.
        """
        known = {name: parents[:, place].astype(np.int64) for place, name in enumerate(self.parents.domain.columns)}
        codes = draw_given(self.conditional, known, len(parents), seed=seed)
        return np.stack([codes[name] for name in self.child_columns], axis=1).astype(np.int32)

    @property
    def child_columns(self) -> Clique:
        """The columns of the child table."""
        return tuple(name for name in self.domain.columns if name not in self.parents.domain.columns)

    def marginal(self, clique: Clique) -> NDArray[np.float64]:
        """Return the expected counts of a clique [rows], of parents where all its columns are theirs."""
        own = set(self.parents.domain.columns)
        return self.parents.marginal(clique) if own.issuperset(clique) else self.children.marginal(clique)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[np.int64]]]:
        """Return both models as JSON values and integer arrays, for publication."""
        values: dict[str, Any] = {}
        arrays: dict[str, NDArray[np.int64]] = {}
        for name, prefix, model in (("parents", _PARENTS, self.parents), ("children", _CHILDREN, self.children)):
            own, numbers = model.to_arrays()
            values[name] = {"kind": model.kind, "values": own}
            arrays |= {f"{prefix}{each}": array for each, array in numbers.items()}
        return values, arrays


def read_linked(values: Mapping[str, Any], arrays: Mapping[str, NDArray[np.int64]], read: ModelReader) -> LinkedModel:
    """Read a published model back; what a stranger wrote is checked.

    Args:
        values, arrays: what `to_arrays` gave.
        read: reads the model of one table.
    Raises:
        ValueError: not a model of that kind.
    """
    parts: list[Model] = []
    if set(values) != {"parents", "children"} or not all(name.startswith((_PARENTS, _CHILDREN)) for name in arrays):
        raise ValueError("a linked model has parents and children, and arrays of these alone")
    for name, prefix in (("parents", _PARENTS), ("children", _CHILDREN)):
        part = values[name]
        if set(part) != {"kind", "values"} or part["kind"] != _GRAPHICAL:
            raise ValueError(f"{name} must be a graphical model, with its kind and values")
        own = {each.removeprefix(prefix): array for each, array in arrays.items() if each.startswith(prefix)}
        parts.append(read(part["kind"], part["values"], own))
    parents, children = parts
    made = LinkedModel(parents, cast(GraphicalRows, children))
    _ = made.conditional  # some child is possible, and its tables are not too large
    return made
