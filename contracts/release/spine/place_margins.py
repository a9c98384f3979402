"""Public counts of the places of a level by some columns: read from a public file, a line a place and labels.

    place,sex,residents
    13,F,7124100
    13,M,6923494

Every place of the level stands with every label of the columns once, `other` and `(null)` too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contracts.canonical import canonical_json
from contracts.contract.contract import Contract
from contracts.reading.scalars import FieldPath, Problem, show
from contracts.release.spine.tree import (
    NEEDED,
    PlaceFault,
    PlaceFile,
    PlacesRefused,
    codes_of,
    linked,
    read_texts,
    refuse_lines,
    totals_of,
    whole_numbers,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from contracts.release.spine.product import PlaceInvariant


_PLACE = "place"


@dataclass(frozen=True, eq=False)
class PlaceMargin:
    """Public counts of the places of a level.

    Args:
        columns: that they are by, in the contract's order; none for the number of rows.
        counts: shape (places, cells of the columns), int64 [rows].
    """

    columns: tuple[str, ...]
    counts: NDArray[np.int64]


def read_margin(path: Path, asked: PlaceInvariant, labels: Mapping[str, Sequence[str]], places: Any) -> PlaceMargin:
    """Read the public counts of a level.

    Args:
        path: a CSV file with a header, or a Parquet file.
        asked: names the columns.
        labels: of each of these columns, in the contract's order.
        places: of the level, an Arrow array of text.
    Raises:
        PlacesRefused: a line with an unknown place or label, one that stands twice or is missing, no whole number.
    Privacy: the file is public; no row is read.
    """
    import numpy as np

    try:
        table = read_texts(path, (_PLACE, *labels, asked.column))
        shape = (len(places), *(len(known) for known in labels.values()))
        code = np.zeros(table.num_rows, dtype=np.int64)
        for name, known in ((_PLACE, places), *labels.items()):
            code = code * len(known) + _numbers(table, name, known)
        _refuse_twice(table, code, labels)
        counts = np.full(prod(shape), -1, dtype=np.int64)
        counts[code] = whole_numbers(
            table.column(asked.column).chunk(0), lambda n: _cell(table, n, labels), asked.column
        )
    except PlacesRefused as error:
        raise PlacesRefused(error.faults, path) from None
    missing = np.flatnonzero(counts < 0)
    if missing.size:
        place, *digits = map(int, np.unravel_index(int(missing[0]), shape))
        own = [known[digit] for digit, known in zip(digits, labels.values(), strict=True)]
        found = f"no line for {', '.join(map(show, (places[place].as_py(), *own)))}"
        allowed = "a line for each place of the level and each label of the columns"
        raise PlacesRefused([PlaceFault(None, found, allowed, "add it, with 0 where nobody is")], path)
    return PlaceMargin(tuple(labels), counts.reshape(shape[0], -1))


def _numbers(table: Any, name: str, known: Any) -> NDArray[np.int64]:
    """Return the number of each text of a column among those that are known."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = table.column(name).chunk(0) if table.num_rows else pa.array([], pa.string())
    value_set = known if isinstance(known, pa.Array) else pa.array(known, pa.string())
    found = pc.index_in(texts, value_set=value_set).fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    what = "a place of the level" if name == _PLACE else f"a label of the contract's column {name!r}"
    refuse_lines(
        np.flatnonzero(found < 0), lambda n: (show(texts[n].as_py()), what, "correct or drop the line", name)
    )
    return np.asarray(found)


def _cell(table: Any, line: int, labels: Mapping[str, Any]) -> str:
    return ", ".join(show(table.column(name)[line].as_py()) for name in (_PLACE, *labels))


def _refuse_twice(table: Any, code: NDArray[np.int64], labels: Mapping[str, Any]) -> None:
    """Each place and labels stand once."""
    import numpy as np

    _, first = np.unique(code, return_index=True)
    again = np.ones(code.size, dtype=np.bool_)
    again[first] = False
    words = "each place with each label once", "drop one of the lines", _PLACE
    refuse_lines(np.flatnonzero(again), lambda n: (f"{_cell(table, n, labels)} again", *words))


def margin_of(counts: NDArray[Any], columns: Sequence[str], kept: Sequence[str], contract: Contract) -> NDArray[Any]:
    """Add up counts of places, (places, cells of some columns), to those by fewer of the columns."""
    shaped = counts.reshape(-1, *contract.shape(columns))
    left_out = tuple(axis for axis, name in enumerate(columns, start=1) if name not in kept)
    summed: NDArray[Any] = shaped.sum(axis=left_out)
    return summed.reshape(counts.shape[0], -1)


def disagreements(
    public: Mapping[str, PlaceMargin],
    levels: Sequence[str],
    parents: Sequence[NDArray[np.int64]],
    names: Sequence[Any],
    contract: Contract,
) -> Iterator[tuple[FieldPath, Problem]]:
    """Yield where public counts of two levels do not add up, or have columns that cannot be compared.

    Args:
        public: by level.
        levels, parents, names: of the tree.
        contract: gives the cells of columns.
    """
    import numpy as np

    lower: PlaceMargin | None = None
    told = ""
    for number in range(len(levels) - 1, -1, -1):
        level = levels[number]
        if lower is not None:
            starts = np.flatnonzero(np.diff(parents[number], prepend=-1))
            lower = PlaceMargin(lower.columns, np.add.reduceat(lower.counts, starts, axis=0))
        own = public.get(level)
        if own is None:
            continue
        if lower is not None:
            problem = _disagreement(own, lower, told, names[number], contract)
            if problem is not None:
                yield ("invariants", level), problem
                return
        if lower is None or len(own.columns) >= len(lower.columns):
            lower = own
        told = level


def _disagreement(own: PlaceMargin, lower: PlaceMargin, told: str, names: Any, contract: Contract) -> Problem | None:
    """Compare public counts of a level with those that follow from the level `told`."""
    import numpy as np

    both = [name for name in own.columns if name in lower.columns]
    if len(both) < min(len(own.columns), len(lower.columns)):
        found = f"totals by {', '.join(own.columns)}, and at level {told} by {', '.join(lower.columns)}"
        return Problem(found, "one of them with all columns of the other", "add columns to one, or drop them")
    one, other = (margin_of(each.counts, each.columns, both, contract) for each in (own, lower))
    wrong = np.argwhere(one != other)
    if not wrong.size:
        return None
    place, cell = map(int, wrong[0])
    here, below = int(one[place, cell]), int(other[place, cell])
    found = f"the place {names[place].as_py()!r}: {here:,}, while its places at level {told} have {below:,} together"
    return Problem(found, "totals that add up", "correct one of them")


# --- The tree of places.


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


# --- Cells of places that no row can be in.


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
            label = _cell_labels(own.columns, cell, contract)
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
            left = f"leave the place {_name(tree, deepest, place)} without{_cell_labels(columns, cell, contract)}"
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


def _cell_labels(columns: Sequence[str], cell: int, contract: Contract) -> str:
    import numpy as np

    digits: Any = np.unravel_index(cell, contract.shape(columns)) if columns else ()
    labels = [contract.column(name).labels[int(digit)] for name, digit in zip(columns, digits, strict=True)]
    return f" ({', '.join(labels)})" if labels else ""
