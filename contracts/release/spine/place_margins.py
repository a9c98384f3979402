"""Public counts of the places of a level by some columns: read from a public file, a line a place and labels.

    place,sex,residents
    13,F,7124100
    13,M,6923494

Every place of the level stands with every label of the columns once, `other` and `(null)` too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contracts.contract.contract import Contract
from contracts.reading.scalars import FieldPath, Problem, show
from contracts.release.spine.place_faults import PlaceFault, PlacesRefused, refuse_lines, whole_numbers
from contracts.release.spine.place_texts import read_texts

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
