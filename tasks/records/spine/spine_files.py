"""The files of counts by place: the tree of places, and each table at each of its levels."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.release.spine.place_margins import PlaceMargin, PlaceTree
from contracts.release.spine.product import INVARIANTS, PLACES, SpineProduct
from contracts.release.spine.rules import PlaceCells, place_cells
from contracts.release.spine.tree import NEEDED
from privacy.table_plans.spine_plan import PlaceDraw, SpineCounts, place_file
from tasks.records.files.tidy_tables import DATA, Tidy, WrittenFile, written

if TYPE_CHECKING:
    from contracts.release.spec import Publish

PLACES_FILE: Final = f"{DATA}/{PLACES}.parquet"
TOTAL: Final = "total"
"""The column of public totals: of the file of places, empty where a place has none, and of public counts."""
WRITTEN: Final = (*NEEDED, TOTAL)


def data_file(draw: PlaceDraw) -> str:
    """Name the file of a table at a level."""
    return f"{DATA}/{place_file(draw.table, draw.level)}.parquet"


def csv_file(name: str) -> str:
    """Name the CSV copy of a file of a table."""
    return f"{name.removesuffix('.parquet')}.csv"


def write_table(
    counts: SpineCounts,
    tree: PlaceTree,
    draw: PlaceDraw,
    contract: Contract,
    folder: Path,
    *,
    marks: Mapping[str, str],
    publish: Publish,
) -> list[WrittenFile]:
    """Write a table at a level, Parquet first: counts with their intervals. Privacy: released values only."""
    tidy = tidy_table(counts, place_cells(contract, draw.clique[0], tree, draw.level), draw)
    paths = [data_file(draw), *([csv_file(data_file(draw))] if "csv" in publish.formats else [])]
    return [tidy.write(folder, path, draw=draw.key, marks=marks, formulas=publish.formulas) for path in paths]


def tidy_table(counts: SpineCounts, cells: PlaceCells, draw: PlaceDraw) -> Tidy:
    """Return a table at a level as it is written; `cells` are those of its level."""
    return Tidy(cells, draw.clique, counts.table(draw))


def places_table(tree: PlaceTree) -> pa.Table:
    """Return the places, from the whole down: a row a place and level, its parent, its public total."""
    columns: dict[str, list[Any]] = {name: [] for name in WRITTEN}
    for number, level in enumerate(tree.levels):
        size = tree.sizes[number]
        above = pa.array([""]) if number == 0 else tree.names[number - 1].take(pa.array(tree.parents[number - 1]))
        totals = tree.totals.get(level)
        texts = pa.array([""] * size) if totals is None else pc.cast(pa.array(totals), pa.string())
        own = (tree.names[number], above, pa.array(np.repeat(level, size).astype(object), pa.string()), texts)
        for name, array in zip(columns, own, strict=True):
            columns[name].append(array)
    return pa.table({name: pa.concat_arrays(arrays) for name, arrays in columns.items()})


def places_files(trees: int) -> tuple[str, ...]:
    """Name the files of so many trees of places, the first one first."""
    return (PLACES_FILE, *(f"{DATA}/{PLACES}.{number}.parquet" for number in range(2, trees + 1)))


def write_places(tree: PlaceTree, folder: Path, *, marks: Mapping[str, str]) -> list[WrittenFile]:
    """Write the public trees of places."""
    found, trees = [], (tree, *tree.others)
    for path, each in zip(places_files(len(trees)), trees, strict=True):
        table, target = places_table(each).replace_schema_metadata(dict(marks)), folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, target, compression="zstd", row_group_size=table.num_rows)
        columns = tuple((name, "string") for name in table.column_names)
        found.append(written(folder, path, "", "data", table.num_rows, columns))
    return found


def invariant_files(product: SpineProduct) -> dict[str, str]:
    """Name the files of public counts by columns, by level."""
    return {
        level: f"{DATA}/{place_file(INVARIANTS, level)}.parquet"
        for level, each in product.invariants.items()
        if each.columns
    }


def margin_clique(product: SpineProduct, contract: Contract, level: str) -> tuple[str, ...]:
    """Return the column of places, then the columns of the public counts of a level, in the contract's order."""
    own = product.invariants[level].columns
    return (product.spine.column, *(name for name in product.names(contract) if name in own))


def write_invariants(
    tree: PlaceTree, product: SpineProduct, contract: Contract, folder: Path, *, marks: Mapping[str, str]
) -> list[WrittenFile]:
    """Write the public counts by columns that are published exactly, a file a level."""
    found = []
    for level, path in invariant_files(product).items():
        clique = margin_clique(product, contract, level)
        cells = place_cells(contract, clique[0], tree, level)
        tidy = Tidy(cells, clique, {TOTAL: tree.margins[level].counts})
        found.append(tidy.write(folder, path, draw="", marks=marks))
    return found


def with_invariants(
    tree: PlaceTree, product: SpineProduct, contract: Contract, read: Callable[[str, str], NDArray[np.int64]]
) -> PlaceTree:
    """Return the tree of a version with its public counts by columns.

    Args:
        tree: as `read_places_table` returns it.
        product, contract: of the version.
        read: returns the totals in a file, given its name and its level.
    Raises:
        ValueError: a file has another number of them.
    """
    margins = {
        level: PlaceMargin(
            margin_clique(product, contract, level)[1:],
            read(path, level).reshape(tree.sizes[tree.levels.index(level)], -1),
        )
        for level, path in invariant_files(product).items()
    }
    return replace(tree, margins=margins)


def read_trees(read: Callable[[str], pa.Table], product: SpineProduct, labels: Sequence[str]) -> PlaceTree:
    """Read the trees of a version again.

    Args:
        read: returns a file of places, by its name.
        product: gives the levels, and which have public totals.
        labels: of the contract's column of places.
    Raises:
        ValueError: the lines are no trees over the labels, or not as they are written.
    """
    totals = [level for level, each in product.invariants.items() if not each.columns]
    names = places_files(1 + len(product.other_spines))
    first, *others = [
        read_places_table(read(name), each.levels, totals if name == PLACES_FILE else (), labels)
        for name, each in zip(names, (product.spine, *product.other_spines), strict=True)
    ]
    return replace(first, others=tuple(others))


def read_places_table(
    table: pa.Table, levels: tuple[str, ...], with_totals: Collection[str], labels: Sequence[str]
) -> PlaceTree:
    """Read a tree of a version again.

    Args:
        table: as `places_table` makes it.
        levels: from the whole down.
        with_totals: which of these have public totals.
        labels: of the contract's column of places.
    Raises:
        ValueError: the lines are no tree over the labels, or not as they are written.
    """
    names: list[Any] = []
    parents: list[NDArray[np.int64]] = []
    totals = {}
    for level in levels:
        lines = table.filter(pc.equal(table.column("level"), level)).combine_chunks()
        own = [lines.column(name).chunk(0) if lines.num_rows else pa.array([], pa.string()) for name in WRITTEN]
        if names:
            parents.append(_numbers(own[1], names[-1], f"a parent of level {level}"))
        names.append(own[0])
        if len(pc.unique(own[0])) < len(own[0]):
            raise ValueError(f"level {level} has a place twice")
        if level in with_totals:
            totals[level] = own[3].cast(pa.int64()).to_numpy(zero_copy_only=False)
    codes = _numbers(names[-1], pa.array(labels, pa.string()), "a smallest place")
    tree = PlaceTree(levels, tuple(names), tuple(parents), codes, totals)
    _check_tree(tree, len(labels))
    if places_table(tree) != table.replace_schema_metadata(None):
        raise ValueError("the lines of the places are not as they are written")
    return tree


def _numbers(texts: Any, among: Any, what: str) -> NDArray[np.int64]:
    found = pc.index_in(texts, value_set=among)
    if found.null_count:
        raise ValueError(f"{what} is not among those above it")
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.int64)


def _check_tree(tree: PlaceTree, labels: int) -> None:
    """Check that each level partitions the one above, families side by side, and each label is one smallest place."""
    if tree.sizes[0] != 1 or np.unique(tree.codes).size != labels or tree.sizes[-1] != labels:
        raise ValueError("the places are not one whole over all labels of the column")
    for number, parent in enumerate(tree.parents):
        steps = np.diff(parent, prepend=-1, append=tree.sizes[number])
        if ((steps < 0) | (steps > 1)).any() or (parent.size and steps[-1] != 1):
            raise ValueError(f"level {tree.levels[number + 1]} does not partition the level above")
