"""What adaptive tables must be beside their contract."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from contracts.contract.contract import Contract
from contracts.errors import Finding
from contracts.reading.scalars import FieldPath, Problem, nearest, word_list
from contracts.release.adaptive.detail_levels import TOTAL, level_problems
from contracts.release.adaptive.product import VALUES, AdaptiveProduct, AdaptiveTable, adaptive_product
from contracts.release.spec import ReleaseSpec

MOST_CELLS: Final = 2**26
"""Cells of all groups at the most detailed level: what memory holds."""


def adaptive_findings(spec: ReleaseSpec, contract: Contract) -> list[Finding]:
    """List what in adaptive tables does not fit the contract."""
    product = adaptive_product(spec.product)
    found = [spec.finding(("product", *at), problem) for at, problem in adaptive_problems(product, contract)]
    if product.mechanism == "gaussian" and not spec.charge.delta:
        remedy = "give delta a small positive value, or choose mechanism: laplace"
        problem = Problem("delta 0 with mechanism gaussian", "a delta above 0", remedy)
        found.append(spec.finding(("charge", "delta"), problem))
    return found


def adaptive_problems(product: AdaptiveProduct, contract: Contract) -> Iterator[tuple[FieldPath, Problem]]:
    """Yield what in a product does not fit its contract, below which place of the product."""
    if contract.total is not None:
        found = f"`adapt` with a declared total, under {contract.adjacency}"
        remedy = "leave the invariant `total` out of the contract of this release: totals of groups are noisy"
        yield ("tables",), Problem(found, "a contract without a public total", remedy)
    for place, table in enumerate(product.tables):
        at: FieldPath = ("tables", place)
        problems = list(_column_problems(table, contract))
        yield from ((at, problem) for problem in problems)
        if not problems:
            yield from ((at, problem) for problem in level_problems(table, contract))
            yield from _size_problems(table, contract, at)


def _column_problems(table: AdaptiveTable, contract: Contract) -> Iterator[Problem]:
    """Yield columns that the contract does not have, or that have no declared cells, or a name that is taken."""
    known = [column.name for column in contract.columns]
    without = {*contract.pictures(), *contract.texts()}
    named: list[tuple[FieldPath, str]] = [(("by", place), name) for place, name in enumerate(table.by)]
    for number, level in enumerate(table.adapt.levels):
        named += [(("adapt", "levels", number, place), name) for place, name in enumerate(level.columns)]
    for at, name in named:
        if name not in known:
            yield Problem(f"the column {name!r}", word_list(known), nearest(name, known), at)
        elif name in without:
            yield Problem(f"{name!r}, a column without declared cells", word_list(known), "drop it", at)
        elif name in (*VALUES, TOTAL):
            remedy = "rename it in `select:` and in the contract"
            yield Problem(f"the column {name!r}", f"names other than {', '.join((*VALUES, TOTAL))}", remedy, at)


def _size_problems(table: AdaptiveTable, contract: Contract, at: FieldPath) -> Iterator[tuple[FieldPath, Problem]]:
    cells = contract.cells(table.clique)
    if cells > MOST_CELLS:
        remedy = "take fewer columns, or coarser cells in the contract"
        yield at, Problem(f"{cells:,} cells of all groups at the last level", f"at most {MOST_CELLS:,}", remedy)
