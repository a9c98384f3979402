"""Cells of places that no row can be in: structural zeros and constraints of the contract, level by level.

A cell of a place is impossible where it is in all smallest places below. Where totals are exact, whole counts exist
if every place and group of cells with a total above 0 has a possible cell, and if no larger place has exact counts by
further columns. That is found from public facts alone; what is left is refused by name.
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
    """Yield public counts above 0 where nobody can be, and zeros under which exact counts might not exist.

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
    uneven = differing_places(impossible[deepest])
    if not uneven.size:
        return
    smallest = public[tree.levels[deepest]]
    for above in tree.levels[:deepest]:
        finer = [name for name in public[above].columns if name not in smallest.columns] if above in public else []
        if finer:
            place, masks = int(uneven[0]), impossible[deepest]
            cell = int(np.flatnonzero(masks[place] & ~masks.all(axis=0))[0])
            left = f"leave the place {_name(tree, deepest, place)} without{_cell(columns, cell, contract)}"
            found = f"counts by {', '.join(finer)}, and structural zeros that {left}"
            named = f"by {', '.join(smallest.columns)}" if smallest.columns else "totals alone"
            allowed = f"the columns that are public at level {tree.levels[deepest]} too ({named})"
            remedy = f"publish level {tree.levels[deepest]} by the same columns, or drop columns or these zeros"
            yield ("invariants", above), Problem(found, allowed, remedy)
            return


def differing_places(impossible: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the places in which other cells are possible than in all places together, but for places without any.

    Args:
        impossible: of the places of a level, as of `impossible_cells`.
    """
    import numpy as np

    alike = (impossible == impossible.all(axis=0)).all(axis=1) | impossible.all(axis=1)
    return np.flatnonzero(~alike)


def _name(tree: PlaceTree, number: int, place: int) -> str:
    return repr(tree.names[number][place].as_py())


def _cell(columns: Sequence[str], cell: int, contract: Contract) -> str:
    """Name a cell by its labels."""
    import numpy as np

    digits: Any = np.unravel_index(cell, contract.shape(columns)) if columns else ()
    labels = [contract.column(name).labels[int(digit)] for name, digit in zip(columns, digits, strict=True)]
    return f" ({', '.join(labels)})" if labels else ""
