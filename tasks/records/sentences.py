"""Sentences that a record tells people and that the checker compares word for word."""

from __future__ import annotations

from typing import Any, Final

from contracts.message import message
from contracts.release.product import AUTO
from contracts.release.tables.tables import TablesProduct
from privacy.table_plans.plan import TablesPlan

WHOLE: Final = message("no narrower than about a whole unit: every draw may depend on every column")
PRESENCE: Final = message("a unit is in the table")
ROWS: Final = message("the rows of a unit are these and no others")
ANY_COLUMN: Final = message("any column")
WHOLE_TWICE: Final = message(
    "no narrower than about a whole unit: every draw may depend on every column. Of somebody known to be in the "
    "table "
    "that is twice the epsilon of the release: another row counts as one unit removed and another added"
)
OF_A_PERIOD: Final = message("rows of one period")
LEAST: Final = message(
    "least expected error, from public parameters alone: the root mean square over all cells before refinement, each "
    "counted with its table's weight"
)
NAMED: Final = message("the spec")
RESIDUALS_ARE_GAUSSIAN: Final = message(
    "residuals, which have Gaussian noise. The error of Laplace noise is what it would be with `split: optimal`"
)


def meaning(adjacency: str, rows_per_unit: int, *, synthetic: bool) -> str:
    """Say what a bound about one column is about, under a relation."""
    present = adjacency == "add_remove"
    if synthetic:
        return WHOLE_TWICE if present else WHOLE
    rows = message("one row") if rows_per_unit == 1 else message("{rows} rows", rows=rows_per_unit)
    if present:
        return message(
            "of somebody of whom everything else in the encoded table is known, what the release adds about this "
            "column: only draws that count the column tell of it, and another value moves at most {rows} of each "
            "from "
            "one cell to another. What other columns suggest about it is bounded by twice the epsilon of the "
            "release, "
            "and whether somebody is in the table at all by that epsilon itself. Another value counts as one unit "
            "removed and another added: so it may exceed the loss about presence",
            rows=rows,
        )
    return message(
        "of somebody of whom everything else in the encoded table is known, what the release adds about this column: "
        "only draws that count the column tell of it, and another value moves at most {rows} of each from one cell "
        "to "
        "another. What other columns suggest about it is bounded by the epsilon of the release alone",
        rows=rows,
    )


def mechanism_choice(product: TablesProduct, plan: TablesPlan) -> dict[str, Any]:
    """Say who chose the mechanism, and the expected error [rows] of each kind of noise that was weighed.

    Where it is known: expected squared errors over the least, or over a bound below it.
    """
    errors = {str(noise): f"{error:.6g}" for noise, error in sorted(plan.expected_rmse.items())}
    over, least = plan.over_optimum, "over_bound" if plan.over_bound else "over_optimum"
    known = {} if over is None else {least: f"{over:.4f}"}
    chosen = RESIDUALS_ARE_GAUSSIAN if product.noise_is_gaussian else LEAST
    return {"by": chosen if product.mechanism == AUTO else NAMED, "expected_rmse": errors, **known}
