"""Cells of places that no row can be in: structural zeros and constraints of the contract, level by level.

A cell of a place is impossible where it is in all smallest places below. Exact totals and cells that are impossible
in some places of a level alone are refused together: whole counts under both might not exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from contracts.contract.contract import Contract
from contracts.reading.scalars import FieldPath, Problem
from contracts.release.spine.place_margins import PlaceMargin
from contracts.release.spine.places import PlaceTree

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def impossible_cells(
    contract: Contract, column: str, columns: Sequence[str], tree: PlaceTree
) -> tuple[NDArray[np.bool_], ...]:
    """Mark the cells of each level that no row can be in.

    Args:
        contract: declares structural zeros and constraints, on places by the labels of their column.
        column: of places.
        columns: of the cells, in the contract's order.
        tree: the places.
    Returns:
        By level, shape (places, cells); (1, cells) where all places are alike.
    """
    import numpy as np

    clique = (column, *columns)
    if not any(column in each for each in contract.zero_cliques(clique)):
        return (contract.impossible(columns).reshape(1, -1),) * len(tree.levels)
    smallest = contract.impossible(clique).reshape(tree.sizes[-1], -1)[tree.codes]
    found = [smallest]
    for parent in reversed(tree.parents):
        starts = np.flatnonzero(np.diff(parent, prepend=-1))
        found.insert(0, np.logical_and.reduceat(found[0], starts, axis=0))
    return tuple(found)


def contradictions(
    public: Mapping[str, PlaceMargin],
    impossible: Sequence[NDArray[np.bool_]],
    columns: Sequence[str],
    tree: PlaceTree,
    contract: Contract,
) -> Iterator[tuple[FieldPath, Problem]]:
    """Yield public counts above 0 where nobody can be, and cells that are impossible in some places beside totals.

    Args:
        public: public counts by level.
        impossible: as of `impossible_cells`, of `columns`.
        columns: of the cells.
        tree: the places.
        contract: gives the cells of columns.
    """
    import numpy as np

    shape = contract.shape(columns)
    for number, level in enumerate(tree.levels):
        if level not in public:
            continue
        own = public[level]
        left_out = tuple(axis for axis, name in enumerate(columns, start=1) if name not in own.columns)
        empty = impossible[number].reshape(-1, *shape).all(axis=left_out).reshape(impossible[number].shape[0], -1)
        wrong = np.argwhere((own.counts > 0) & empty)
        if wrong.size:
            place, cell = map(int, wrong[0])
            label = _cell(own.columns, cell, contract)
            found = f"the place {_name(tree, number, place)}{label} with a total of {int(own.counts[place, cell]):,}"
            allowed = "0 where the contract says that nobody can be"
            yield (
                ("invariants", level),
                Problem(f"{found}, whose cells are structural zeros", allowed, "correct the total or the contract"),
            )
            return
    deepest = max((number for number, level in enumerate(tree.levels) if level in public), default=0)
    masks = impossible[deepest]
    uneven = np.flatnonzero(~((masks == masks.all(axis=0)).all(axis=1) | masks.all(axis=1)))
    if uneven.size:
        place = int(uneven[0])
        cell = int(np.flatnonzero(masks[place] & ~masks.all(axis=0))[0])
        left = f"leave the place {_name(tree, deepest, place)} without{_cell(columns, cell, contract)}"
        found = f"structural zeros that {left}"
        allowed = f"the same cells in all places of level {tree.levels[deepest]}, which has exact totals"
        remedy = "leave these zeros out of the contract of this release, or the totals out of the spec"
        yield ("invariants", tree.levels[deepest]), Problem(found, allowed, remedy)


def _name(tree: PlaceTree, number: int, place: int) -> str:
    return repr(tree.names[number][place].as_py())


def _cell(columns: Sequence[str], cell: int, contract: Contract) -> str:
    """Name a cell by its labels."""
    import numpy as np

    digits: Any = np.unravel_index(cell, contract.shape(columns)) if columns else ()
    labels = [contract.column(name).labels[int(digit)] for name, digit in zip(columns, digits, strict=True)]
    return f" ({', '.join(labels)})" if labels else ""
