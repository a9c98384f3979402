"""How far made-up rows of two linked tables are from the real ones: parents, pairs across, pairs within a parent.

Distances are of raw counts over the number of real rows, as in `errors`: of parents over parents, of children over
children, of pairs of children over the pairs that the real parents have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privacy.evaluation.cells import EncodedRows
from privacy.evaluation.errors import WorkloadError, alpha_way_error, workload_error


@dataclass(frozen=True, eq=False, repr=False)
class LinkedCodes:
    """The rows of both tables; private or released, whoever made them knows.

    Args:
        parents: rows of the parent table.
        children: rows of the child table, each with the columns of its parent beside its own.
        owners: which parent each child belongs to, any whole numbers; None where nobody knows.
    """

    parents: EncodedRows
    children: EncodedRows
    owners: NDArray[np.int64] | None

    @property
    def own(self) -> tuple[int, ...]:
        """The places of the child table's own columns."""
        names = self.children.columns
        return tuple(place for place, name in enumerate(names) if name not in self.parents.columns)


@dataclass(frozen=True)
class LinkedErrors:
    """What was found.

    Args:
        size: the column of sizes.
        parents: the α-way error of the parent table, by α.
        across: pairs of a column of the parent and one of the child, over the rows of children.
        children: pairs of the child's columns.
        siblings: pairs of columns of two different children of one parent; by names of the columns. None where it is
            not known which children belong together.
    """

    size: str
    parents: Mapping[int, WorkloadError]
    across: WorkloadError
    children: WorkloadError
    siblings: Mapping[tuple[str, str], float] | None
    names: tuple[str, ...]
    parent_names: tuple[str, ...]

    @property
    def sizes(self) -> float:
        """The distance of the sizes."""
        return self.parents[1].distances[self.parent_names.index(self.size)]

    @property
    def sibling_error(self) -> float | None:
        """The mean of the pairs of siblings."""
        return None if self.siblings is None else fmean(self.siblings.values())

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as JSON."""

        def named(error: WorkloadError, names: Sequence[str]) -> dict[str, Any]:
            pairs = zip(error.cliques, error.distances, strict=True)
            marginals = [{"columns": [names[place] for place in clique], "error": one} for clique, one in pairs]
            return {"mean": error.mean, "by_marginal": marginals}

        siblings = None
        if self.siblings is not None:
            each = [{"columns": list(pair), "error": error} for pair, error in self.siblings.items()]
            siblings = {"mean": self.sibling_error, "by_pair": each}
        return {
            "sizes": self.sizes,
            "parents": {str(alpha): named(error, self.parent_names) for alpha, error in self.parents.items()},
            "across": named(self.across, self.names),
            "children": named(self.children, self.names),
            "siblings": siblings,
        }


def linked_errors(real: LinkedCodes, made: LinkedCodes, *, size: str) -> LinkedErrors:
    """Compare made-up rows of two tables with the real ones.

    Args:
        real, made: with the same columns.
        size: the parents' column that counts their children.
    Returns:
        LinkedErrors: of the class of its inputs; private when either is.
    Raises:
        ValueError: other columns or cells, or no real rows of either table.
    """
    own = real.own
    above = [place for place in range(len(real.children.columns)) if place not in own]
    across: list[tuple[int, ...]] = [(one, other) for one in above for other in own]
    inside: list[tuple[int, ...]] = list(combinations(own, 2)) or [own]
    degrees = [alpha for alpha in (1, 2) if alpha <= len(real.parents.columns)]
    known = real.owners is not None and made.owners is not None
    return LinkedErrors(
        size,
        {alpha: alpha_way_error(real.parents, made.parents, alpha=alpha) for alpha in degrees},
        workload_error(real.children, made.children, across),
        workload_error(real.children, made.children, inside),
        _sibling_errors(real, made) if known else None,
        real.children.columns,
        real.parents.columns,
    )


def _sibling_errors(real: LinkedCodes, made: LinkedCodes) -> dict[tuple[str, str], float]:
    """Return the distance of each pair of columns of two different children, over the real ordered pairs."""
    names, errors = real.children.columns, {}
    for one, other in combinations_with_replacement(real.own, 2):
        exact, found = (_sibling_counts(rows, one, other) for rows in (real, made))
        errors[names[one], names[other]] = float(np.abs(exact - found).sum()) / max(1.0, float(exact.sum()))
    return errors


def _sibling_counts(rows: LinkedCodes, one: int, other: int) -> NDArray[np.float64]:
    """Count the ordered pairs of two different children of one parent by a column of the first and one of the second.

    Formula: over all parents, the outer product of both columns' counts, less each child with itself
    """
    _, owners = np.unique(np.asarray(rows.owners), return_inverse=True)
    parents = int(owners.max(initial=-1)) + 1
    codes, shape = rows.children.codes, rows.children.shape
    counts = []
    for place in (one, other):
        table = np.zeros((parents, shape[place]))
        np.add.at(table, (owners, codes[:, place]), 1.0)
        counts.append(table)
    with_itself = np.zeros((shape[one], shape[other]))
    np.add.at(with_itself, (codes[:, one], codes[:, other]), 1.0)
    both: NDArray[np.float64] = counts[0].T @ counts[1] - with_itself
    return both
