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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contracts.canonical import canonical_json
from contracts.release.spine.place_faults import (
    NEEDED,
    PlaceFault,
    PlaceFile,
    PlacesRefused,
    codes_of,
    linked,
    totals_of,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class PlaceTree:
    """A tree of places, level by level from the whole down; the places of a family lie side by side.

    Args:
        levels: names of the levels.
        names: labels of the places of each level, arrays of text.
        parents: for each level but the first, the number of the place above each place; never falls.
        codes: of each smallest place, its code in the contract's column.
        totals: public totals by level, shape (places of the level,) [rows].
    """

    levels: tuple[str, ...]
    names: tuple[Any, ...]
    parents: tuple[NDArray[np.int64], ...]
    codes: NDArray[np.int64]
    totals: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)

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
        return digest.hexdigest()

    def groups(self, level: str) -> NDArray[np.int64]:
        """Return the number of the place of a level in which each code of the contract's column lies."""
        import numpy as np

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
    import pyarrow as pa

    try:
        table = _read_table(path, (*NEEDED, *dict.fromkeys(terms.totals.values())))
    except FileNotFoundError:
        remedy = "write it beside the spec, a line a place, or correct its name under spine.file"
        raise PlacesRefused(
            [PlaceFault(None, f"no file {path.name}", "a CSV or Parquet file", remedy, "file")]
        ) from None
    except (OSError, pa.ArrowException, ValueError) as error:
        remedy = "write a CSV or Parquet file with the columns place, parent and level"
        raise PlacesRefused([PlaceFault(None, str(error).splitlines()[0][:200], "a readable file", remedy)]) from None
    return tree_of(table, terms)


def _read_table(path: Path, columns: Sequence[str]) -> Any:
    """Read the columns as texts."""
    import pyarrow as pa
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

    if path.suffix == ".parquet":
        table = pq.read_table(path)
    else:
        header = path.open(encoding="utf-8-sig").readline().strip().split(",")
        texts = {name.strip('"'): pa.string() for name in header}
        table = pc.read_csv(path, convert_options=pc.ConvertOptions(column_types=texts, strings_can_be_null=False))
    missing = [name for name in columns if name not in table.column_names]
    if missing:
        allowed, remedy = f"the columns {', '.join(columns)}", "add it, or correct its name in file or spec"
        found = f"no column {missing[0]!r}, of {', '.join(table.column_names[:12])}"
        raise PlacesRefused([PlaceFault(1, found, allowed, remedy, missing[0])])
    texts = {name: table.column(name).cast(pa.string()).fill_null("") for name in columns}
    return pa.table({name: column.combine_chunks() for name, column in texts.items()})


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
