"""What is wrong in a file of places, found column by column: links that make no tree, leaves, public totals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from contracts.reading.scalars import show, word_list

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_SHOWN: Final = 12
_HEADER: Final = 2
"""The line of the first place: the header is line 1."""
LARGEST_TOTAL: Final = 10**15
MOST_PLACES: Final = 2**22
NEEDED: Final = ("place", "parent", "level")


@dataclass(frozen=True)
class PlaceFault:
    """One thing wrong in a file of places.

    Args:
        line: of the file, from 1; None where it is the whole file.
        found, allowed, remedy: in words.
        field: the column.
    """

    line: int | None
    found: str
    allowed: str
    remedy: str
    field: str = "place"


class PlacesRefused(Exception):
    """The file declares no tree; carries every fault that was found, a hundred at most, and another file's path."""

    def __init__(self, faults: Sequence[PlaceFault], path: Path | None = None) -> None:
        self.faults, self.path = tuple(faults[:100]), path
        super().__init__("; ".join(f"line {fault.line}: {fault.found}" for fault in self.faults[:3]))


@dataclass(frozen=True)
class PlaceFile:
    """How a file of places is read.

    Args:
        levels: from the whole down.
        labels: of the contract's column: what the smallest places must be.
        unbalanced: whether levels may be skipped.
        totals: the column of public totals, by level.
    """

    levels: tuple[str, ...]
    labels: Sequence[str]
    unbalanced: bool
    totals: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class LinkedPlaces:
    """The lines of a file of places.

    Args:
        table: its columns, as texts.
        names: labels, an Arrow array of text.
        depth: number of the level of each.
        above: line of the parent of each, from 0; of the root 0.
    """

    table: Any
    names: Any
    depth: NDArray[np.int64]
    above: NDArray[np.int64]


def linked(table: Any, terms: PlaceFile) -> LinkedPlaces:
    """Find the level and the parent of each place.

    Raises:
        PlacesRefused: the lines make no tree.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    names, parents = table.column("place").chunk(0), table.column("parent").chunk(0)
    if not 0 < len(names) <= MOST_PLACES:
        remedy = "name fewer places" if len(names) else "write a line for each place, below the names of columns"
        raise PlacesRefused([PlaceFault(None, f"{len(names):,} places", f"1 to {MOST_PLACES:,}", remedy)])
    first = pc.index_in(names, value_set=names).to_numpy()
    again = np.flatnonzero((first != np.arange(len(names))) | (pc.binary_length(names).to_numpy() == 0))
    refuse_lines(
        again, lambda n: (_name(names, n, "again"), "each place once, with a name", "rename or drop one", "place")
    )
    level = pc.index_in(table.column("level").chunk(0), value_set=pa.array(terms.levels, pa.string()))
    depth = level.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    levels = table.column("level").chunk(0)
    refuse_lines(
        np.flatnonzero(depth < 0),
        lambda n: (
            f"the level {show(levels[n].as_py())}",
            word_list(terms.levels),
            "name a level of the spec",
            "level",
        ),
    )
    rootless = pc.binary_length(parents).to_numpy() == 0
    roots = np.flatnonzero(rootless)
    _refuse_roots(names, roots, depth, terms)
    found = pc.index_in(parents, value_set=names)
    above = found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    above[rootless] = 0
    refuse_lines(
        np.flatnonzero((above < 0) & ~rootless),
        lambda n: (
            f"{_name(names, n)} below {show(parents[n].as_py())}, which is no place",
            "a parent that is a place of the file",
            "add the parent, or correct its name",
            "parent",
        ),
    )
    rows = LinkedPlaces(table, names, depth, above)
    _check_descent(rows, rootless, terms)
    return rows


def _refuse_roots(names: Any, roots: NDArray[np.int64], depth: NDArray[np.int64], terms: PlaceFile) -> None:
    """There is one place without a parent, and it is at the first level."""
    allowed = f"one place without a parent, at level {terms.levels[0]}"
    if roots.size == 0:
        remedy = "leave the parent of the whole empty"
        raise PlacesRefused([PlaceFault(None, "no place without a parent", allowed, remedy, "parent")])
    refuse_lines(
        roots[1:],
        lambda n: (f"{_name(names, n)}, a second root", allowed, "name the place that it is part of", "parent"),
    )
    refuse_lines(
        roots[depth[roots] != 0],
        lambda n: (f"{_name(names, n)} at level {terms.levels[depth[n]]}", allowed, "name its parent", "parent"),
    )


def _check_descent(rows: LinkedPlaces, root: NDArray[np.bool_], terms: PlaceFile) -> None:
    """Each place lies below its parent: by one level, unless the spec says that levels may be skipped."""
    import numpy as np

    depth, above, names = rows.depth, rows.above, rows.names
    step = np.where(root, 1, depth - depth[above])
    wrong = np.flatnonzero(step <= 0)
    circles = [_circle(rows, int(place)) for place in wrong[:_SHOWN]]
    if any(circles):
        found = [(int(place), words) for place, words in zip(wrong, circles, strict=False) if words]
        remedy = "name the place that each is part of, up to the whole"
        raise PlacesRefused(
            [PlaceFault(_HEADER + place, words, "no circle", remedy, "parent") for place, words in found[:1]]
        )
    refuse_lines(
        wrong,
        lambda n: (
            f"{_name(names, n)} at level {terms.levels[depth[n]]}, below {_name(names, above[n])} at level "
            f"{terms.levels[depth[above[n]]]}",
            "a parent of a larger level",
            "correct the level or the parent",
            "level",
        ),
    )
    if terms.unbalanced:
        return
    remedy = "add the place between, or write unbalanced: true in the spec"
    refuse_lines(
        np.flatnonzero(step > 1),
        lambda n: (
            f"{_name(names, n)} at level {terms.levels[depth[n]]}, right below {_name(names, above[n])} at level "
            f"{terms.levels[depth[above[n]]]}",
            f"a parent at level {terms.levels[depth[n] - 1]}",
            remedy,
            "parent",
        ),
    )
    childless = np.ones(depth.size, dtype=np.bool_)
    childless[above[~root]] = False
    remedy = "add the places below it, or write unbalanced: true in the spec"
    refuse_lines(
        np.flatnonzero(childless & (depth < len(terms.levels) - 1)),
        lambda n: (
            f"{_name(names, n)} at level {terms.levels[depth[n]]}, without places below it",
            f"places below it, down to level {terms.levels[-1]}",
            remedy,
            "place",
        ),
    )


def _circle(rows: LinkedPlaces, start: int) -> str:
    """Say which circle a place is in; empty where it is in none."""
    way, place = [start], int(rows.above[start])
    while place != start and len(way) <= len(rows.names) and len(way) < 1000:
        way.append(place)
        if rows.above[place] == place or (place == 0 and rows.above[0] == 0):
            break
        place = int(rows.above[place])
    if place != start:
        return ""
    shown = [_name(rows.names, each) for each in [*way[:_SHOWN], start]]
    return "a circle: " + " below ".join(shown)


def codes_of(rows: LinkedPlaces, smallest: NDArray[np.int64], terms: PlaceFile) -> NDArray[np.int64]:
    """Return the code of each smallest place; they must be the labels of the contract's column, each once.

    Raises:
        PlacesRefused: a place that is no label, or a label without a place.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    labels = pa.array(terms.labels, pa.string())
    codes = pc.index_in(rows.names.take(smallest), value_set=labels).fill_null(-1)
    found: NDArray[np.int64] = codes.to_numpy(zero_copy_only=False).astype(np.int64)
    remedy = "name each smallest place as the contract's column does"
    refuse_lines(
        smallest[found < 0],
        lambda n: (f"{_name(rows.names, n)}, no label of the column", "a label of the contract", remedy, "place"),
    )
    lacking = np.ones(len(labels), dtype=np.bool_)
    lacking[found] = False
    if lacking.any():
        named = ", ".join(show(labels[int(n)].as_py()) for n in np.flatnonzero(lacking)[:_SHOWN])
        allowed, remedy = "a smallest place for each label of the column", "add a line for it, below some place"
        raise PlacesRefused([PlaceFault(None, f"no place for {named}", allowed, remedy)])
    return found


def totals_of(
    rows: LinkedPlaces, found: Sequence[NDArray[np.int64]], parents: Sequence[NDArray[np.int64]], terms: PlaceFile
) -> dict[str, NDArray[np.int64]]:
    """Return the public totals of each level that has them; those of a place and of its parts must agree.

    Raises:
        PlacesRefused: a total is missing or no whole number, or two contradict each other.
    """
    import numpy as np

    totals: dict[str, NDArray[np.int64]] = {}
    upper: str | None = None
    for number, level in enumerate(terms.levels):
        if level not in terms.totals:
            continue
        column = terms.totals[level]
        totals[level] = _whole_numbers(rows, found[number], column)
        if upper is not None:
            sums = totals[level]
            for parent in reversed(parents[terms.levels.index(upper) : number]):
                sums = np.bincount(parent, weights=sums, minlength=int(parent.max()) + 1).astype(np.int64)
            at = found[terms.levels.index(upper)]
            refuse_lines(
                at[sums != totals[upper]],
                lambda n, sums=sums, at=at, upper=upper, level=level: (
                    f"{_name(rows.names, n)}: {rows.table.column(terms.totals[upper])[n]}, while its places at level "
                    f"{level} have {sums[np.flatnonzero(at == n)[0]]} together",
                    "totals that add up",
                    "correct one of them",
                    terms.totals[upper],
                ),
            )
        upper = level
    return totals


def _whole_numbers(rows: LinkedPlaces, places: NDArray[np.int64], column: str) -> NDArray[np.int64]:
    texts = rows.table.column(column).chunk(0).take(places)
    return whole_numbers(texts, lambda n: _name(rows.names, n), column, places)


def whole_numbers(
    texts: Any, named: Callable[[int], str], column: str, lines: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Read public totals.

    Args:
        texts: an Arrow array.
        named: names what a line is about, by its number.
        column: that they stand in.
        lines: their numbers, where not all lines have one.
    Raises:
        PlacesRefused: one is missing, or no whole number.
    """
    import numpy as np
    import pyarrow.compute as pc

    lines = np.arange(len(texts)) if lines is None else lines
    sound = pc.match_substring_regex(texts, "^[0-9]{1,15}$").to_numpy(zero_copy_only=False)
    shown = dict(zip(lines[~sound].tolist(), np.flatnonzero(~sound).tolist(), strict=True))
    refuse_lines(
        lines[~sound],
        lambda n: (
            f"{named(n)}: {show(texts[shown[n]].as_py())}",
            f"a whole number from 0 to {LARGEST_TOTAL - 1:,}",
            "write the public total of the place",
            column,
        ),
    )
    numbers: NDArray[np.int64] = np.asarray(texts.cast("int64").to_numpy(zero_copy_only=False), dtype=np.int64)
    return numbers


def _name(names: Any, place: Any, more: str = "") -> str:
    text = show(names[int(place)].as_py())
    return f"the place {text} {more}".strip()


def refuse_lines(places: NDArray[np.int64], words: Any) -> None:
    """Refuse the lines of some places; `words` gives what was found, what is allowed, what to do, and the column."""
    if len(places):
        shown = [(_HEADER + int(place), *words(int(place))) for place in sorted(places[:_SHOWN])]
        raise PlacesRefused([PlaceFault(line, found, ok, remedy, at) for line, found, ok, remedy, at in shown])


# --- A public file about places, CSV or Parquet, as a table of texts.


def read_texts(path: Path, columns: Sequence[str]) -> Any:
    """Read some columns as texts.

    Args:
        path: a CSV file with a header, or a Parquet file.
        columns: that it must have.
    Returns:
        pyarrow.Table: these columns, in one piece, empty where a value is missing.
    Raises:
        PlacesRefused: no such file, none that can be read, or a column that it lacks.
    """
    import pyarrow as pa

    try:
        return _read(path, columns)
    except FileNotFoundError:
        remedy = "write it beside the spec, a line a place, or correct its name in the spec"
        raise PlacesRefused(
            [PlaceFault(None, f"no file {path.name}", "a CSV or Parquet file", remedy, "file")]
        ) from None
    except (OSError, pa.ArrowException, ValueError) as error:
        remedy = f"write a CSV or Parquet file with the columns {', '.join(columns)}"
        raise PlacesRefused([PlaceFault(None, str(error).splitlines()[0][:200], "a readable file", remedy)]) from None


def _read(path: Path, columns: Sequence[str]) -> Any:
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
