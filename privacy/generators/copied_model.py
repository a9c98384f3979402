"""A published model with further models of the same table, one for each copy of the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.impossible_cells import Clique
from contracts.release.copies import LEAST_COPIES, MOST_COPIES
from privacy.generators.generator import Model, ModelReader
from privacy.marginals.graph import CellDomain

_COPY: Final = "copy-{:04d}-"
_OURS: Final = "copy-"


@dataclass(frozen=True, eq=False)
class CopiedModel:
    """A model, and those of the copies.

    Args:
        first: the model that is fitted to what was measured.
        copies: those that are fitted to the same measurements drawn again around it.
    Raises:
        ValueError: too few or too many copies, or one of other columns.
    """

    kind: ClassVar[str] = "copied"
    first: Model
    copies: tuple[Model, ...]

    def __post_init__(self) -> None:
        if not LEAST_COPIES <= len(self.copies) <= MOST_COPIES:
            raise ValueError(f"{len(self.copies)} copies; allowed: from {LEAST_COPIES} to {MOST_COPIES}")
        if any(copy.domain != self.first.domain for copy in self.copies):
            raise ValueError("a copy of other columns or cells")

    @property
    def domain(self) -> CellDomain:
        """The columns with their cells."""
        return self.first.domain

    @property
    def rows(self) -> int:
        """The public or the estimated number of rows."""
        return self.first.rows

    def sample(self, rows: int, *, seed: int, where: Mapping[str, Sequence[int]] | None = None) -> NDArray[np.int32]:
        """Draw rows of codes from the first model."""
        return self.first.sample(rows, seed=seed, where=where)

    def marginal(self, clique: Clique) -> NDArray[np.float64]:
        """Return the expected counts of a clique by the first model [rows]."""
        return self.first.marginal(clique)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[np.int64]]]:
        """Return all models as JSON values and integer arrays, for publication."""
        values, arrays = self.first.to_arrays()
        copies = []
        for number, copy in enumerate(self.copies, 1):
            stated, numbers = copy.to_arrays()
            copies.append({"kind": copy.kind, "values": stated})
            arrays = {**arrays, **{_COPY.format(number) + name: array for name, array in numbers.items()}}
        return {"first": {"kind": self.first.kind, "values": values}, "copies": copies}, arrays


def copies_of(model: Model) -> tuple[Model, ...]:
    """Return the models of the copies; none where there are no copies."""
    return model.copies if isinstance(model, CopiedModel) else ()


def read_copied(values: Mapping[str, Any], arrays: Mapping[str, NDArray[np.int64]], read: ModelReader) -> CopiedModel:
    """Read published models back; what a stranger wrote is checked.

    Args:
        values, arrays: what `to_arrays` gave.
        read: reads a model of a kind.
    Raises:
        ValueError: not a model of that kind.
    """
    stated = values["copies"]
    if set(values) != {"first", "copies"} or not isinstance(stated, list) or len(stated) > MOST_COPIES:
        raise ValueError(f"models of copies have first and copies, of these at most {MOST_COPIES}")
    parts = {"": values["first"], **{_COPY.format(number): one for number, one in enumerate(stated, 1)}}
    if any(set(part) != {"kind", "values"} or part["kind"] == CopiedModel.kind for part in parts.values()):
        raise ValueError("each of the models has a kind and values, and none has copies itself")
    own = {prefix: {n.removeprefix(prefix): a for n, a in arrays.items() if _of(n) == prefix} for prefix in parts}
    if sum(map(len, own.values())) != len(arrays):
        raise ValueError("an array of no model")
    first, *copies = (read(part["kind"], part["values"], own[prefix]) for prefix, part in parts.items())
    return CopiedModel(first, tuple(copies))


def _of(name: str) -> str:
    """Return with what the name of an array begins: nothing for those of the first model."""
    return name[: len(_COPY.format(0))] if name.startswith(_OURS) else ""
