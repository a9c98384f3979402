"""A sum of cells that a person asks for: conditions on places and labels, such as `region=13|14 and sex=F`.

A condition names a level of the tree, or a column, and labels of it with `|` between them. `and` joins conditions:
places of all levels that are named are added up together, and cells must have one of the labels in every column.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from contracts.contract.contract import Contract
from contracts.reading.scalars import Problem, nearest, show, word_list
from contracts.release.spine.place_margins import PlaceTree
from contracts.release.spine.product import SpineProduct

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_AND: Final = re.compile(r"\s+and\s+", re.IGNORECASE)


class SelectionRefused(Exception):
    """What was asked for is no sum of cells of the version.

    Args:
        problem: what was found, what is allowed, what to do.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(f"found {problem.found}, allowed {problem.allowed}")


@dataclass(frozen=True, eq=False)
class PlaceSelection:
    """A sum of cells.

    Args:
        places: marks the places of each level that has some, by number of the level, shape (places,).
        cells: marks labels of each column, in the contract's order, shape (labels,).
    """

    places: Mapping[int, NDArray[np.bool_]]
    cells: tuple[NDArray[np.bool_], ...]


def parse_selection(text: str, product: SpineProduct, contract: Contract, tree: PlaceTree) -> PlaceSelection:
    """Read conditions.

    Args:
        text: the conditions; empty for all rows.
        product, contract, tree: of the version.
    Returns:
        PlaceSelection: the whole where no place is named, all labels of a column that is not.
    Raises:
        SelectionRefused: an unknown level, column, place or label, one that is named twice, or a place in another.
    """
    import numpy as np

    columns = [name for name in product.names(contract) if name != product.spine.column]
    cells = {name: np.ones(contract.column(name).size, dtype=np.bool_) for name in columns}
    places: dict[int, NDArray[np.bool_]] = {}
    for name, labels in _conditions(text):
        if name in tree.levels:
            number = tree.levels.index(name)
            places[number] = _places(tree, number, labels)
        elif name in columns:
            cells[name] = _labels(contract.column(name).labels, name, labels)
        else:
            known = [*tree.levels, *columns]
            _refuse(f"the name {name!r}", word_list(known), nearest(name, known) or "name a level or a column")
    if not places:
        places[0] = np.ones(1, dtype=np.bool_)
    _check_apart(tree, places)
    return PlaceSelection(places, tuple(cells.values()))


def _conditions(text: str) -> list[tuple[str, list[str]]]:
    """Return the names of conditions with their labels, in the order in which they are written."""
    found: dict[str, list[str]] = {}
    for condition in _AND.split(text.strip()) if text.strip() else ():
        name, equals, labels = (part.strip() for part in condition.partition("="))
        if not equals or not labels:
            _refuse(
                f"the condition {show(condition)}", "NAME=LABEL, or NAME=LABEL|LABEL", "write region=13 and sex=F"
            )
        if name in found:
            _refuse(f"{name!r} twice", "each level and column once", "join its labels with |")
        found[name] = [label.strip() for label in labels.split("|")]
    return list(found.items())


def names_of(text: str) -> set[str]:
    """Return the levels and columns that conditions name, whether they are known or not."""
    return {condition.partition("=")[0].strip() for condition in _AND.split(text.strip())}


def _refuse(found: str, allowed: str, remedy: str) -> None:
    raise SelectionRefused(Problem(found, allowed, remedy))


def _places(tree: PlaceTree, number: int, labels: list[str]) -> NDArray[np.bool_]:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    found = pc.index_in(pa.array(labels, pa.string()), value_set=tree.names[number]).to_pylist()
    for label, place in zip(labels, found, strict=True):
        if place is None:
            level = tree.levels[number]
            _refuse(f"the place {label!r}", f"a place of level {level}", "look it up in data/places.parquet")
    mask = np.zeros(tree.sizes[number], dtype=np.bool_)
    mask[found] = True
    return mask


def _labels(known: tuple[str, ...], name: str, labels: list[str]) -> NDArray[np.bool_]:
    """Mark the labels of a column that a condition names."""
    import numpy as np

    for label in labels:
        if label not in known:
            _refuse(
                f"the label {label!r} of {name!r}", word_list(known), nearest(label, known) or "take one of these"
            )
    return np.array([label in labels for label in known])


def _check_apart(tree: PlaceTree, places: Mapping[int, NDArray[np.bool_]]) -> None:
    """Refuse places of two levels of which one lies in the other: its rows would be counted twice."""
    import numpy as np

    inside = np.zeros(1, dtype=np.int64)
    for number in range(len(tree.levels)):
        if number:
            inside = inside[tree.parents[number - 1]]
        if number in places:
            inside = inside + places[number]
    if (inside > 1).any():
        place = tree.names[-1][int(np.flatnonzero(inside > 1)[0])].as_py()
        found = f"places that both hold {place!r}"
        _refuse(found, "places of which none lies in another", "drop the smaller ones")
