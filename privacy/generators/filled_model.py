"""A published model of cells, with how values lie inside the bins of its columns.

The cells are those of the model within. Of each column whose bins were looked into it has the first offset and the
weight of each leaf, all in whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.bin_contents import BinContents
from contracts.contract.impossible_cells import Clique
from privacy.generators.generator import Model
from privacy.marginals.domain import CellDomain

Reader = Callable[[str, Mapping[str, Any], Mapping[str, NDArray[np.int64]]], Model]
"""Reads a model of a kind from its JSON values and arrays."""
_CUTS, _WEIGHTS = "inside-{:04d}-cuts", "inside-{:04d}-weights"
_OURS: Final = "inside-"


@dataclass(frozen=True, eq=False)
class FilledModel:
    """A model of cells and the contents of bins.

    Args:
        cells: the model of cells.
        contents: of the bins of some columns, by name.
    Raises:
        ValueError: contents of a column that the model has not.
    """

    kind: ClassVar[str] = "filled"
    cells: Model
    contents: Mapping[str, BinContents]

    def __post_init__(self) -> None:
        unknown = set(self.contents) - set(self.cells.domain.columns)
        if unknown:
            raise ValueError(f"contents of bins of columns that are not there: {', '.join(sorted(unknown))[:80]}")

    @property
    def domain(self) -> CellDomain:
        """The columns with their cells."""
        return self.cells.domain

    @property
    def rows(self) -> int:
        """The public or the estimated number of rows."""
        return self.cells.rows

    def sample(self, rows: int, *, seed: int, where: Mapping[str, Sequence[int]] | None = None) -> NDArray[np.int32]:
        """Draw rows of codes from the model of cells."""
        return self.cells.sample(rows, seed=seed, where=where)

    def marginal(self, clique: Clique) -> NDArray[np.float64]:
        """Return the expected counts of a clique [rows]."""
        return self.cells.marginal(clique)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[np.int64]]]:
        """Return the model as JSON values and integer arrays, for publication."""
        values, arrays = self.cells.to_arrays()
        for number, found in enumerate(self.contents.values()):
            arrays = {**arrays, _CUTS.format(number): found.cuts, _WEIGHTS.format(number): found.weights}
        return {"cells": {"kind": self.cells.kind, "values": values}, "inside": list(self.contents)}, arrays


def contents_of(model: Model) -> Mapping[str, BinContents]:
    """Return how values lie inside the bins of a model's columns; none where that was not measured."""
    return model.contents if isinstance(model, FilledModel) else {}


def read_filled(values: Mapping[str, Any], arrays: Mapping[str, NDArray[np.int64]], read: Reader) -> FilledModel:
    """Read a published model back; what a stranger wrote is checked.

    Args:
        values, arrays: what `to_arrays` gave.
        read: reads the model of cells.
    Raises:
        ValueError: not a model of that kind.
    """
    columns, cells = values["inside"], values["cells"]
    wanted = {name.format(number) for number in range(len(columns)) for name in (_CUTS, _WEIGHTS)}
    own = {name for name in arrays if name.startswith(_OURS)}
    if (
        set(values) != {"cells", "inside"}
        or not isinstance(columns, list)
        or own != wanted
        or len(set(columns)) != len(columns)
    ):
        raise ValueError("a filled model has cells and inside, with two arrays for each column of the latter")
    if set(cells) != {"kind", "values"} or cells["kind"] == FilledModel.kind:
        raise ValueError("a filled model has one model of cells, with its kind and values")
    within = read(cells["kind"], cells["values"], {name: arrays[name] for name in arrays if name not in own})
    contents = {
        name: BinContents(arrays[_CUTS.format(number)], arrays[_WEIGHTS.format(number)])
        for number, name in enumerate(columns)
    }
    return FilledModel(within, contents)
