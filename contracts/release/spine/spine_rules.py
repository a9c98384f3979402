"""What counts by place must be beside their contract and their file of places."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from contracts.contract.contract import Contract
from contracts.errors import Finding
from contracts.reading.scalars import FieldPath, Problem, nearest, word_list
from contracts.reading.yaml_lines import shown
from contracts.release.spec import ReleaseSpec
from contracts.release.spine.place_faults import PlaceFile, PlacesRefused
from contracts.release.spine.places import PlaceTree, read_places
from contracts.release.spine.product import SpineProduct, spine_product

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

MOST_SMALLEST: Final = 2**26
"""Cells of all smallest places together: what memory holds, and what a verification reads of one file."""
_FILE: Final[FieldPath] = ("product", "spine", "file")


def spine_findings(spec: ReleaseSpec, contract: Contract) -> list[Finding]:
    """List what in counts by place does not fit contract and places; the places are read where the rest fits."""
    product = spine_product(spec.product)
    found = [spec.finding(("product", *at), problem) for at, problem in spine_problems(product, contract)]
    if not spec.charge.delta:
        remedy = "give delta a small positive value: the noise is Gaussian"
        found.append(spec.finding(("charge", "delta"), Problem("delta 0", "a delta above 0", remedy)))
    if "csv" in spec.publish.formats:
        remedy = "leave csv out: counts by place are Parquet files, in parts where you write parts"
        found.append(spec.finding(("publish", "formats"), Problem("csv", "parquet, parts", remedy)))
    if found:
        return found
    path = places_path(spec)
    try:
        tree = places_of(path, product, contract)
    except PlacesRefused as error:
        return [
            Finding(
                shown(path) if fault.line is None else f"{shown(path)}:{fault.line}",
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
    state = (path.stat().st_mtime_ns, path.stat().st_size) if path.is_file() else (0, 0)
    spine = product.spine
    totals = tuple((level, each.column) for level, each in product.invariants.items())
    return _places(path, state, spine.levels, contract.column(spine.column).labels, spine.unbalanced, totals)


@lru_cache(maxsize=2)
def _places(
    path: Path,
    state: tuple[int, int],
    levels: tuple[str, ...],
    labels: Sequence[str],
    unbalanced: bool,
    totals: tuple[tuple[str, str], ...],
) -> PlaceTree:
    return read_places(path, PlaceFile(levels, labels, unbalanced, dict(totals)))


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
    for clique in contract.zero_cliques((column, *product.detail.columns)):
        if column in clique and len(clique) > 1:
            found = f"structural zeros or constraints on {', '.join(clique)}"
            remedy = "leave them out of the contract of this release"
            yield ("spine", "column"), Problem(found, "none that join places with other columns", remedy)
    yield from _invariant_problems(product, contract)


def _invariant_problems(product: SpineProduct, contract: Contract) -> Iterator[tuple[FieldPath, Problem]]:
    """Public totals are kept under replace_one alone, beside a total that the contract declares public (law 4)."""
    if not product.invariants:
        return
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
    import numpy as np

    pinned = product.spine.sha256
    if pinned not in (None, tree.sha256):
        remedy = "take the file that was pinned, or write its new digest"
        yield ("spine", "sha256"), Problem(f"places with digest {tree.sha256}", str(pinned), remedy)
    column, possible = product.spine.column, np.ones(tree.sizes[-1], dtype=np.int64)
    if contract.zero_cliques((column,)):
        possible = (~contract.impossible((column,)))[tree.codes].astype(np.int64)
    if contract.impossible(product.detail.columns).all() and product.detail.columns:
        possible[:] = 0
    for number in range(len(tree.levels) - 1, -1, -1):
        level = tree.levels[number]
        if level in tree.totals:
            yield from _total_problems(level, tree.totals[level], possible, contract, tree.names[number])
        if number:
            summed = np.bincount(tree.parents[number - 1], weights=possible, minlength=tree.sizes[number - 1])
            possible = summed.astype(np.int64)


def _total_problems(
    level: str, totals: NDArray[np.int64], possible: NDArray[np.int64], contract: Contract, names: object
) -> Iterator[tuple[FieldPath, Problem]]:
    """The totals of a level add up to the declared one, and no place without possible cells has any."""
    import numpy as np

    at: FieldPath = ("invariants", level)
    if contract.total is not None and int(totals.sum()) != contract.total.value:
        allowed = f"{contract.total.value:,}, the contract's public total"
        yield at, Problem(f"totals that add up to {int(totals.sum()):,}", allowed, "correct one of them")
    wrong = np.flatnonzero((totals > 0) & (possible == 0))
    if wrong.size:
        place = names[int(wrong[0])].as_py()  # type: ignore[index]
        found = f"the place {place!r} with a total of {int(totals[wrong[0]]):,}, whose cells are structural zeros"
        yield at, Problem(found, "0 where the contract says that nobody can be", "correct the total or the contract")
