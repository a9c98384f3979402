"""Dense or sparse: whether a table has a value for every cell of its domain, or lists the cells above a threshold.

A table is dense unless its spec says `form: sparse`, or its domain has more cells than memory holds and its noise may
be discrete Laplace; `mechanism: auto` takes that noise where a table is sparse. What decides is public: the spec and
the sizes of the declared domains.
"""

from __future__ import annotations

from typing import Final

from contracts.contract.contract import Contract
from contracts.reading.scalars import FieldPath, Problem
from contracts.release.lambda_reference import AUTO, LambdaReference
from contracts.release.tables.product import Refine, TableForm, TableSpec, TablesProduct

MOST_DENSE_CELLS: Final = 2**24
MOST_CODES: Final = 2**63 - 1
_SPARSE_METHODS: Final = "none, simplex, or negative_l2 with `lambda:`"


def form_of_table(table: TableSpec, product: TablesProduct, contract: Contract) -> TableForm:
    """Return the form of a table whose columns are in the contract."""
    if table.form is not None:
        return table.form
    large = contract.cells(table.columns) > MOST_DENSE_CELLS
    return "sparse" if large and not product.noise_is_gaussian else "dense"


def form_problems(table: TableSpec, product: TablesProduct, contract: Contract, at: FieldPath) -> list[Problem]:
    """List what speaks against a table's form, as problems inside the spec's product.

    Args:
        table: a table whose columns are in the contract.
        product: the product that it belongs to.
        contract: gives the sizes of the domains.
        at: the table's place in the product.
    """
    cells, form = contract.cells(table.columns), form_of_table(table, product, contract)
    size = f"{' x '.join(map(str, contract.shape(table.columns)))} = {cells} cells"
    fewer = "take fewer columns, or coarser bins"
    if cells > MOST_CODES:
        found = f"{' x '.join(table.columns)}: {size}"
        return [Problem(found, f"at most {MOST_CODES} cells (2^63 - 1)", fewer, at)]
    if form == "dense" and cells > MOST_DENSE_CELLS:
        written = " with form: dense" if table.form else ""
        sparse = "drop `form: dense`" if product.mechanism != "gaussian" else "choose mechanism: laplace"
        remedy = f"{fewer}; or {sparse}: then the table lists the cells above a threshold"
        return [Problem(size + written, f"at most {MOST_DENSE_CELLS} cells for a dense table", remedy, at)]
    if form == "dense":
        return []
    problems = []
    if product.mechanism == "gaussian":
        found = "form: sparse with mechanism gaussian"
        remedy = "choose mechanism: laplace, or drop `form: sparse`"
        problems.append(Problem(found, "laplace: sparse noise is discrete Laplace", remedy, (*at, "form")))
    if table.hierarchy is not None:
        found = f"a hierarchy on table {table.name!r}, which is sparse ({size})"
        problems.append(
            Problem(found, "a hierarchy on dense tables only", f"drop it, or {fewer}", (*at, "hierarchy"))
        )
    if product.minimum_frequency is not None:
        found = f"`minimum_frequency` for table {table.name!r}, which is sparse ({size})"
        remedy = f"{fewer}; or drop it: a sparse table lists the cells above a threshold of its own"
        problems.append(Problem(found, "the rule for dense tables only", remedy, ("minimum_frequency",)))
    if table.hierarchy is None and not _lists(product.refine):
        asked, field = _unsupported_refinement(product.refine)
        found = f"{asked} for table {table.name!r}, which is sparse ({size})"
        remedy = "refine by negative_l2 with `lambda: auto`, or release the table in a spec of its own"
        allowed = f"for a sparse table {_SPARSE_METHODS} {AUTO} or a number, by itself"
        problems.append(Problem(found, allowed, remedy, ("refine", field)))
    return problems


def _lists(refine: Refine) -> bool:
    """Say whether a refinement needs the listed cells alone."""
    alone = refine.sparsity is None and not refine.consistent and not isinstance(refine.lambda_, LambdaReference)
    return alone and refine.method in ("none", "simplex", "negative_l2")


def _unsupported_refinement(refine: Refine) -> tuple[str, str]:
    """Name what a sparse table cannot be refined by, and its key."""
    if refine.consistent:
        return "`consistent`", "consistent"
    if isinstance(refine.lambda_, LambdaReference):
        return "lambda by `reference`", "lambda"
    return ("sparsity", "sparsity") if refine.sparsity is not None else (f"method {refine.method}", "method")


def measurement_marks(cells: int, threshold: int) -> dict[str, str]:
    """Say in a file of sparse measurements what the cells are that it does not list."""
    return {
        "sudare_form": "sparse",
        "sudare_cells": str(cells),
        "sudare_threshold": str(threshold),
        "sudare_absent": f"the noisy count of a cell that is not listed is below {threshold}",
    }


def data_marks(cells: int) -> dict[str, str]:
    """Say in a file of a refined sparse table what the cells are that it does not list."""
    absent = "the refined count of a cell that is not listed is 0"
    return {"sudare_form": "sparse", "sudare_cells": str(cells), "sudare_absent": absent}
