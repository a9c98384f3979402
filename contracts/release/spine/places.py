"""The tree of places: a public file with a line a place, read into arrays of whole numbers, level by level.

    place,parent,level,residents
    JP,,nation,126146099
    13,JP,region,14047594
    13101,13,block,66680

A place that lies at several levels at once, because a level is skipped above it or it has no places below it,
stands at each of them as the only part of itself. So all levels have the same rows, and each partitions the one
above.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contracts.canonical import canonical_json
from contracts.release.spine.place_faults import (
    NEEDED,
    PlaceFile,
    codes_of,
    linked,
    totals_of,
)
from contracts.release.spine.place_texts import read_texts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from contracts.release.spine.place_margins import PlaceMargin


@dataclass(frozen=True, eq=False)
class PlaceTree:
    """A tree of places, level by level from the whole down; the places of a family lie side by side.

    Args:
        levels: names of the levels.
        names: labels of the places of each level, arrays of text.
        parents: for each level but the first, the number of the place above each place; never falls.
        codes: of each smallest place, its code in the contract's column.
        totals: public totals by level, shape (places of the level,) [rows].
        margins: public counts by some columns, by level.
        others: further trees over the same smallest places, with the same whole.
    """

    levels: tuple[str, ...]
    names: tuple[Any, ...]
    parents: tuple[NDArray[np.int64], ...]
    codes: NDArray[np.int64]
    totals: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    margins: Mapping[str, PlaceMargin] = field(default_factory=dict)
    others: tuple[PlaceTree, ...] = ()

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of places of each level."""
        return tuple(len(names) for names in self.names)

    @cached_property
    def sha256(self) -> str:
        """Digest of the tree as it was read, whatever file it came from."""
        digest = hashlib.sha256(canonical_json({"levels": list(self.levels), "sizes": list(self.sizes)}))
        for array in (
            *self.parents,
            self.codes,
            *(self.totals[level] for level in self.levels if level in self.totals),
        ):
            digest.update(array.astype("<i8").tobytes())
        for names in self.names:
            digest.update(canonical_json(names.to_pylist()))
        digest.update(canonical_json(sorted(self.totals)))
        for level in sorted(self.margins):
            own = self.margins[level]
            digest.update(canonical_json([level, list(own.columns)]))
            digest.update(own.counts.astype("<i8").tobytes())
        for other in self.others:
            digest.update(other.sha256.encode())
        return digest.hexdigest()

    @property
    def public(self) -> dict[str, PlaceMargin]:
        """Public counts by level: totals are counts by no column."""
        from contracts.release.spine.place_margins import PlaceMargin

        totals = {level: PlaceMargin((), counts.reshape(-1, 1)) for level, counts in self.totals.items()}
        return {**totals, **self.margins}

    @property
    def level_sizes(self) -> dict[str, int]:
        """Number of places of each level of all trees, by name."""
        found = dict(zip(self.levels, self.sizes, strict=True))
        for other in self.others:
            found |= {level: size for level, size in other.level_sizes.items() if level not in found}
        return found

    def having(self, level: str) -> PlaceTree:
        """Return the first tree that has a level.

        Raises:
            LookupError: none has.
        """
        for tree in (self, *self.others):
            if level in tree.levels:
                return tree
        raise LookupError(f"no level {level!r}")

    def groups(self, level: str) -> NDArray[np.int64]:
        """Return the number of the place of a level in which each code of the contract's column lies."""
        import numpy as np

        if level not in self.levels:
            return self.having(level).groups(level)
        above = np.arange(self.sizes[-1])
        for parent in reversed(self.parents[self.levels.index(level) :]):
            above = parent[above]
        groups = np.empty(self.sizes[-1], dtype=np.int64)
        groups[self.codes] = above
        return groups


def read_places(path: Path, terms: PlaceFile) -> PlaceTree:
    """Read a file of places.

    Args:
        path: a CSV file with a header, or a Parquet file.
        terms: what it must hold.
    Returns:
        PlaceTree: the tree.
    Raises:
        PlacesRefused: with every fault of the first kind that was found.
    Privacy: the file is public; no row is read.
    """
    return tree_of(read_texts(path, (*NEEDED, *dict.fromkeys(terms.totals.values()))), terms)


def tree_of(table: Any, terms: PlaceFile) -> PlaceTree:
    """Return the tree that a table of texts declares; arguments and result as for `read_places`."""
    rows = linked(table, terms)
    found, parents = _by_level(rows, terms)
    codes, totals = codes_of(rows, found[-1], terms), totals_of(rows, found, parents, terms)
    names = tuple(rows.names.take(each) for each in found)
    return PlaceTree(terms.levels, names, tuple(parents), codes, totals)


def _by_level(rows: Any, terms: PlaceFile) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]]:
    """Return the rows of each level, families side by side, and the number of the place above each."""
    import numpy as np

    depth, above, last = rows.depth, rows.above, len(terms.levels) - 1
    # A place stands from the level below its parent down to its own; without places below it, down to the last.
    top = np.where(depth == 0, 0, depth[above] + 1)
    childless = np.ones(depth.size, dtype=np.bool_)
    childless[above[depth > 0]] = False
    bottom = np.where(childless, last, depth)
    found, parents = [np.flatnonzero(top == 0)], []
    number = np.zeros(depth.size, dtype=np.int64)
    for level in range(1, last + 1):
        number[found[-1]] = np.arange(found[-1].size)
        here = np.flatnonzero((top <= level) & (bottom >= level))
        over = np.where(top[here] == level, number[above[here]], number[here])
        order = np.argsort(over, kind="stable")
        found.append(here[order])
        parents.append(over[order].astype(np.int64))
    return found, parents
