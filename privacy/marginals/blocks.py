"""Blocks of a graph: the parts that no single column holds together.

Two edges are in one block when a cycle passes through both. What is triangulated in one block does not bear on
another: they share a column at most. So a tree of columns, however wide, is a matter of its edges; and one more edge
changes only the blocks on the way between its ends, which it makes one.

Columns are bits of Python integers.

Source: Hopcroft and Tarjan 1973, algorithm 447 (biconnected components).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from contracts.errors import SudareError


@dataclass(frozen=True)
class Blocks:
    """The blocks of a graph, hung up by their tops.

    Args:
        masks: the columns of each block, as bits; two at least.
        tops: the column of each block by which it hangs on the others above it.
        above: for each column the blocks on the way up from it, nearest first.
        part_of: for each column the number of its connected part.
    """

    masks: tuple[int, ...]
    tops: tuple[int, ...]
    above: tuple[tuple[int, ...], ...]
    part_of: tuple[int, ...]

    def between(self, one: int, other: int) -> set[int]:
        """Return the blocks on the way between two columns of one connected part."""
        first, second = list(self.above[one]), list(self.above[other])
        common = -1
        while first and second and first[-1] == second[-1]:
            # Blocks that both ways share lie above the place where they meet.
            common = first.pop()
            second.pop()
        top_of_first = self.tops[first[-1]] if first else one
        top_of_second = self.tops[second[-1]] if second else other
        way = {*first, *second}
        if top_of_first != top_of_second:  # both hang on one block, at different columns
            way.add(common)
        return way


def blocks(neighbours: Sequence[int]) -> Blocks:
    """Find the blocks of a graph.

    Args:
        neighbours: for each column the bits of those that it has an edge with.
    """
    search = _BlockSearch(neighbours)
    for root in range(len(neighbours)):
        if search.number[root] < 0:
            search.run(root)
    above: list[tuple[int, ...]] = [()] * len(neighbours)
    for column in search.order:
        block = search.hung_on[column]
        if block >= 0:
            # A block's top was reached before the columns that hang on it: its own way up is known.
            above[column] = (block, *above[search.tops[block]])
    return Blocks(tuple(search.masks), tuple(search.tops), tuple(above), tuple(search.part_of))


class _BlockSearch:
    """A depth-first search; `low` is the first column that is reached from below a column by one edge back."""

    def __init__(self, neighbours: Sequence[int]) -> None:
        count = len(neighbours)
        self._neighbours = neighbours
        self.number, self._low, self.part_of = [-1] * count, [0] * count, [-1] * count
        self.hung_on = [-1] * count
        self.masks: list[int] = []
        self.tops: list[int] = []
        self.order: list[int] = []
        self._open: list[int] = []

    def run(self, root: int) -> None:
        """Search a connected part."""
        self._reach(root, root)
        path, left = [root], [self._neighbours[root]]
        while path:
            column = path[-1]
            if not left[-1]:
                path.pop()
                left.pop()
                if path:
                    self._leave(column, path[-1])
                continue
            bit = left[-1] & -left[-1]
            left[-1] ^= bit
            other = bit.bit_length() - 1
            # An edge back to a column that was met before: it closes a cycle.
            if self.number[other] >= 0:
                self._low[column] = min(self._low[column], self.number[other])
            else:
                self._reach(other, root)
                path.append(other)
                left.append(self._neighbours[other] & ~(1 << column))

    def _reach(self, column: int, root: int) -> None:
        self.number[column] = self._low[column] = len(self.order)
        self.part_of[column] = root
        self.order.append(column)
        self._open.append(column)

    def _leave(self, column: int, above: int) -> None:
        """Go back up; a block ends here if nothing below reaches further up."""
        self._low[above] = min(self._low[above], self._low[column])
        # Something below reaches further up than `above`: the block goes on beyond it.
        if self._low[column] < self.number[above]:
            return
        mask = 1 << above
        # What was opened since `column` hangs on the rest of the graph by `above` alone: with it, that is a block.
        while not mask >> column & 1:
            member = self._open.pop()
            mask |= 1 << member
            self.hung_on[member] = len(self.masks)
        self.masks.append(mask)
        self.tops.append(above)


# --- What the marginal engine refuses.


class ModelTooLarge(SudareError):
    """The tables of a model's largest cliques would need more memory than the cap allows; nothing was built.

    Args:
        size_mb: what the model would need [MB of 2²⁰ bytes].
        cap_mb: what is allowed [MB].
    """

    exit_code = 2

    def __init__(self, size_mb: float, cap_mb: float) -> None:
        self.size_mb = size_mb
        self.cap_mb = cap_mb
        super().__init__(
            f"the model needs {size_mb:.1f} MB, the cap is {cap_mb:.1f} MB: measure fewer or smaller cliques "
            "together, use coarser bins, or raise the cap"
        )


class NothingPossible(SudareError):
    """The structural zeros (and the evidence, if there is any) leave no combination of values possible.

    Args:
        what: what excludes every row, or so many that none was found.
    """

    exit_code = 2

    def __init__(
        self,
        what: str = "the declared impossible combinations (and the evidence) exclude every row: drop one of them",
    ) -> None:
        super().__init__(what)
