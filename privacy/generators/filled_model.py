"""A published model of cells, with how values lie inside the bins of its columns.

The cells are those of the model within. Of columns whose bins were joined for it, the rows of each joined bin are
spread over the declared ones. Of each column whose bins were looked into it has the first offset and the weight of
each leaf, all in whole numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.bin_contents import BinContents
from contracts.contract.impossible_cells import Clique
from privacy.arrays import Floats
from privacy.generators.generator import Model, ModelReader
from privacy.generators.joined_bins import JoinedBins
from privacy.marginals.domain import CellDomain
from privacy.marginals.seeds import PostProcessingSeed

_CUTS, _WEIGHTS = "inside-{:04d}-cuts", "inside-{:04d}-weights"
_FIRSTS, _BINS = "inside-joined-{:04d}-firsts", "inside-joined-{:04d}-bins"
_OURS: Final = "inside-"


@dataclass(frozen=True, eq=False)
class FilledModel:
    """A model of cells and the contents of bins.

    Args:
        cells: the model of cells.
        contents: of the bins of some columns, by name.
        joined: the joined bins of those whose bins were joined in the model of cells, by name.
    Raises:
        ValueError: contents, or joined bins, of a column that the model has not; joined bins of a model that cannot
            weigh its cells.
    """

    kind: ClassVar[str] = "filled"
    cells: Model
    contents: Mapping[str, BinContents]
    joined: Mapping[str, JoinedBins] = field(default_factory=dict)

    def __post_init__(self) -> None:
        domain = self.cells.domain
        unknown = {*self.contents, *self.joined} - set(domain.columns)
        if unknown:
            raise ValueError(f"contents of bins of columns that are not there: {', '.join(sorted(unknown))[:80]}")
        if self.joined and not hasattr(self.cells, "weighed"):
            raise ValueError(f"joined bins of a model of kind {self.cells.kind}")
        small = [name for name, bins in self.joined.items() if domain.sizes([name])[0] < bins.firsts.size]
        if small:
            raise ValueError(f"{small[0][:80]}: more joined bins than the model has cells")

    @cached_property
    def domain(self) -> CellDomain:
        """The columns with their declared cells."""
        domain = self.cells.domain
        sizes = (
            self.joined[name].declared(cells) if name in self.joined else cells
            for name, cells in zip(domain.columns, domain.shape, strict=True)
        )
        return CellDomain(domain.columns, tuple(sizes)) if self.joined else domain

    @property
    def rows(self) -> int:
        """The public or the estimated number of rows."""
        return self.cells.rows

    def sample(self, rows: int, *, seed: int, where: Mapping[str, Sequence[int]] | None = None) -> NDArray[np.int32]:
        """Draw rows of codes from the model of cells, and spread those of joined bins over the declared ones.

        Raises:
            ValueError: as the model's; or a code of a joined column that there is not.
        """
        codes_of, cells, joined = dict(where or {}), self.cells, dict(self.joined)
        for name in [name for name in joined if name in codes_of]:
            allowed, (size,) = codes_of.pop(name), self.domain.sizes([name])
            if not all(0 <= code < size for code in allowed):
                raise ValueError(f"codes of {name} lie between 0 and {size - 1}")
            own = joined[name].cell_of(*cells.domain.sizes([name]))
            parts = np.where(np.isin(np.arange(size), list(allowed)), self._parts(name), 0.0)
            cells = cells.weighed(name, np.bincount(own, parts))  # type: ignore[attr-defined]
            joined[name] = joined[name].within(allowed)
        codes = cells.sample(rows, seed=seed, where=codes_of)
        for name, bins in joined.items():
            place = self.domain.place(name)
            codes[:, place] = bins.spread(codes[:, place], PostProcessingSeed(seed).derived(f"joined bins of {name}"))
        return codes

    def marginal(self, clique: Clique) -> NDArray[np.float64]:
        """Return the expected counts of a clique [rows]."""
        found = self.cells.marginal(clique)
        for axis, name in enumerate(clique):
            if name in self.joined:
                own = self.joined[name].cell_of(found.shape[axis])
                parts = self._parts(name).reshape([-1 if other == axis else 1 for other in range(found.ndim)])
                found = np.take(found, own, axis) * parts
        return found

    def _parts(self, name: str) -> Floats:
        """Return the part of its joined bin that each declared cell of a column has."""
        return self.joined[name].parts(*self.cells.domain.sizes([name]))

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[np.int64]]]:
        """Return the model as JSON values and integer arrays, for publication."""
        values, arrays = self.cells.to_arrays()
        for number, found in enumerate(self.contents.values()):
            arrays = {**arrays, _CUTS.format(number): found.cuts, _WEIGHTS.format(number): found.weights}
        for number, bins in enumerate(self.joined.values()):
            arrays = {**arrays, _FIRSTS.format(number): bins.firsts, _BINS.format(number): bins.weights}
        told = {"joined": list(self.joined)} if self.joined else {}
        cells = {"kind": self.cells.kind, "values": values}
        return {"cells": cells, "inside": list(self.contents), **told}, arrays


def read_filled(values: Mapping[str, Any], arrays: Mapping[str, NDArray[np.int64]], read: ModelReader) -> FilledModel:
    """Read a published model back; what a stranger wrote is checked.

    Args:
        values, arrays: what `to_arrays` gave.
        read: reads the model of cells.
    Raises:
        ValueError: not a model of that kind.
    """
    cells, columns, joined = values["cells"], values["inside"], values.get("joined", [])
    parts = [name.format(number) for number in range(len(columns)) for name in (_CUTS, _WEIGHTS)]
    parts += [name.format(number) for number in range(len(joined)) for name in (_FIRSTS, _BINS)]
    own = {name for name in arrays if name.startswith(_OURS)}
    lists = all(isinstance(names, list) and len(set(names)) == len(names) for names in (columns, joined))
    if not lists or own != set(parts) or set(values) != {"cells", "inside", *(["joined"] if joined else [])}:
        raise ValueError("a filled model has cells and inside, with two arrays for each column of the latter")
    if set(cells) != {"kind", "values"} or cells["kind"] == FilledModel.kind:
        raise ValueError("a filled model has one model of cells, with its kind and values")
    within = read(cells["kind"], cells["values"], {name: arrays[name] for name in arrays if name not in own})
    contents = {
        name: BinContents(arrays[_CUTS.format(number)], arrays[_WEIGHTS.format(number)])
        for number, name in enumerate(columns)
    }
    bins = {
        name: JoinedBins(arrays[_FIRSTS.format(number)], arrays[_BINS.format(number)])
        for number, name in enumerate(joined)
    }
    return FilledModel(within, contents, bins)
