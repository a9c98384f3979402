"""What counts by place must be beside their contract and their file of places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Final

from contracts.contract.column import Labelled
from contracts.contract.contract import Contract
from contracts.errors import Finding
from contracts.reading.scalars import FieldPath, Problem, nearest, word_list
from contracts.reading.yaml_lines import shown
from contracts.release.spec import ReleaseSpec
from contracts.release.spine.place_margins import (
    PlaceTree,
    contradictions,
    disagreements,
    impossible_cells,
    read_margin,
    read_places,
)
from contracts.release.spine.product import PlaceInvariant, PlaceLevels, SpineProduct, spine_product
from contracts.release.spine.tree import PlaceFile, PlacesRefused

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


MOST_SMALLEST: Final = 2**26
"""Cells of all smallest places together: what memory holds, and what a verification reads of one file."""


def spine_findings(spec: ReleaseSpec, contract: Contract) -> list[Finding]:
    """List what in counts by place does not fit contract and places; the places are read where the rest fits."""
    product = spine_product(spec.product)
    found = [spec.finding(("product", *at), problem) for at, problem in spine_problems(product, contract)]
    if not spec.charge.delta:
        remedy = "give delta a small positive value: the noise is Gaussian"
        found.append(spec.finding(("charge", "delta"), Problem("delta 0", "a delta above 0", remedy)))
    if found:
        return found
    path = places_path(spec)
    try:
        tree = places_of(path, product, contract)
    except PlacesRefused as error:
        return [
            Finding(
                shown(error.path or path) + ("" if fault.line is None else f":{fault.line}"),
                fault.field,
                fault.found,
                fault.allowed,
                fault.remedy,
            )
            for fault in error.faults
        ]
    return [spec.finding(("product", *at), problem) for at, problem in tree_problems(product, contract, tree)]


def places_path(spec: ReleaseSpec) -> Path:
    """Return the file of places: it lies beside the spec."""
    return spec.path.parent / spine_product(spec.product).spine.file


def places_of(path: Path, product: SpineProduct, contract: Contract) -> PlaceTree:
    """Read the file of places, once for as long as it does not change.

    Raises:
        PlacesRefused: it declares no tree over the labels of the contract's column.
    """
    spine, known = product.spine, {column.name: column for column in contract.columns}
    totals, margins = [], []
    for level, each in product.invariants.items():
        if each.file is None:
            totals.append((level, each.column))
            continue
        own = tuple((name, known[name].labels) for name in known if name in each.columns)
        file = path.parent / each.file
        margins.append((level, each, file, _state(file), own))
    labels = contract.column(spine.column).labels
    tree = _places(path, _state(path), spine.levels, labels, spine.unbalanced, tuple(totals), tuple(margins))
    others = [_other(path.parent / other.file, other, labels) for other in product.other_spines]
    return replace(tree, others=tuple(others)) if others else tree


def _other(path: Path, asked: PlaceLevels, labels: Sequence[str]) -> PlaceTree:
    """Read a further tree over the same smallest places."""
    try:
        return _places(path, _state(path), asked.levels, labels, asked.unbalanced, (), ())
    except PlacesRefused as error:
        raise PlacesRefused(error.faults, error.path or path) from None


def _state(path: Path) -> tuple[int, int]:
    """Return what tells that a file has changed."""
    return (path.stat().st_mtime_ns, path.stat().st_size) if path.is_file() else (0, 0)


@lru_cache(maxsize=4)
def _places(
    path: Path,
    state: tuple[int, int],
    levels: tuple[str, ...],
    labels: Sequence[str],
    unbalanced: bool,
    totals: tuple[tuple[str, str], ...],
    margins: tuple[tuple[str, PlaceInvariant, Path, tuple[int, int], tuple[tuple[str, Sequence[str]], ...]], ...],
) -> PlaceTree:
    tree = read_places(path, PlaceFile(levels, labels, unbalanced, dict(totals)))
    found = {
        level: read_margin(file, asked, dict(known), tree.names[levels.index(level)])
        for level, asked, file, _, known in margins
    }
    return replace(tree, margins=found) if found else tree


def spine_problems(product: SpineProduct, contract: Contract) -> Iterator[tuple[FieldPath, Problem]]:
    """Yield what in a product does not fit its contract, with its place in the product."""
    known = {column.name: column for column in contract.columns}
    column, counted = product.spine.column, [(("spine", "column"), product.spine.column)]
    counted += [
        (("tables", place, "columns", order), name)  # type: ignore[misc]
        for place, table in enumerate(product.tables)
        for order, name in enumerate(table.columns)
    ]
    sound = True
    for at, name in counted:
        if name not in known or name in contract.pictures() or name in contract.texts():
            sound = False
            found = f"the column {name!r}" if name not in known else f"{name!r}, a column without declared cells"
            yield at, Problem(found, word_list([*known]), nearest(name, [*known]))
        if name == column and len(at) > 2:
            sound = False
            remedy = "drop it: every table is by place"
            yield at, Problem(f"the column of places {name!r}", "columns other than that", remedy)
    if not sound:
        return
    cells = contract.cells((column, *product.detail.columns))
    if cells > MOST_SMALLEST:
        remedy = "take fewer columns, or larger places"
        yield ("tables",), Problem(f"{cells:,} cells of all smallest places", f"at most {MOST_SMALLEST:,}", remedy)
    yield from _invariant_problems(product, contract)


def _invariant_problems(product: SpineProduct, contract: Contract) -> Iterator[tuple[FieldPath, Problem]]:
    """Public totals are kept under replace_one alone, beside a total that the contract declares public (law 4)."""
    if not product.invariants:
        return
    for level, each in product.invariants.items():
        for order, name in enumerate(each.columns):
            if name not in product.detail.columns or name in each.columns[:order]:
                allowed = f"columns of the table of all columns, each once: {word_list(product.detail.columns)}"
                remedy = nearest(name, product.detail.columns) or "name columns that the places are counted by"
                yield ("invariants", level, "columns", order), Problem(f"the column {name!r}", allowed, remedy)
    if contract.total is None:
        remedy = "declare it in the contract: invariants: [{kind: total, value: N, reference: WHERE}]"
        found = "invariants without a total that the contract declares public"
        yield ("invariants",), Problem(found, "a contract with a public total", remedy)
    if contract.adjacency != "replace_one":
        remedy = "write adjacency: replace_one in the contract"
        found = f"invariants with adjacency {contract.adjacency}"
        yield ("invariants",), Problem(found, "replace_one: who is added or removed changes a total", remedy)


def tree_problems(product: SpineProduct, contract: Contract, tree: PlaceTree) -> Iterator[tuple[FieldPath, Problem]]:
    """Yield what in a product does not fit the places that were read."""
    pinned = product.spine.sha256
    if pinned not in (None, tree.sha256):
        remedy = "take the file that was pinned, or write its new digest"
        yield ("spine", "sha256"), Problem(f"places with digest {tree.sha256}", str(pinned), remedy)
    public, total = tree.public, contract.total
    for level, own in public.items():
        if total is not None and int(own.counts.sum()) != total.value:
            found, allowed = (
                f"totals that add up to {int(own.counts.sum()):,}",
                f"{total.value:,}, the contract's public total",
            )
            yield ("invariants", level), Problem(found, allowed, "correct one of them")
    yield from disagreements(public, tree.levels, tree.parents, tree.names, contract)
    if public:
        columns = tuple(name for name in product.names(contract) if name != product.spine.column)
        impossible = impossible_cells(contract, product.spine.column, columns, tree)
        yield from contradictions(public, impossible, columns, tree, contract)


# --- The cells of counts by place at one level.


@dataclass(frozen=True, eq=False)
class PlaceLabels:
    """The places of a level, as the labels of a column.

    Args:
        tree: the places.
        level: number of the level.
    """

    tree: PlaceTree
    level: int

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Labels in the order of the tree."""
        return tuple(self.tree.names[self.level].to_pylist())

    @property
    def size(self) -> int:
        """Number of places."""
        return self.tree.sizes[self.level]


@dataclass(frozen=True, eq=False)
class PlaceCells:
    """The cells of a level.

    Args:
        contract: gives the cells of all columns but that of places.
        places: the column of places.
        own: the places of the level.
    """

    contract: Contract
    places: str
    own: PlaceLabels

    def column(self, name: str) -> Labelled:
        """Return the cells of one column."""
        return self.own if name == self.places else self.contract.column(name)

    def shape(self, clique: Sequence[str]) -> tuple[int, ...]:
        """Return the number of cells of each column."""
        return tuple(self.column(name).size for name in clique)

    def cells(self, clique: Sequence[str]) -> int:
        """Return the number of cells of all columns together."""
        return prod(self.shape(clique))

    def impossible(self, clique: Sequence[str]) -> NDArray[np.bool_]:
        """Mark the cells that the contract's structural zeros on the other columns exclude, in every place."""
        import numpy as np

        others = [name for name in clique if name != self.places]
        mask = self.contract.impossible(others)
        return np.broadcast_to(mask, self.shape(clique)) if self.places in clique else mask


def place_cells(contract: Contract, places: str, tree: PlaceTree, level: str) -> PlaceCells:
    """Return the cells of a level by its name, of whichever tree has it."""
    own = tree.having(level)
    return PlaceCells(contract, places, PlaceLabels(own, own.levels.index(level)))
