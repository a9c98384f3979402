"""Rule 8 for tables that are measured by residuals: the noisy tables follow from what was drawn, number by number."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from contracts.errors import Finding
from contracts.release.tables.product import TableSpec
from privacy.accounting.events import CountNoise, DiscreteGaussian
from privacy.table_plans.plan import TOTAL_KEY, table_key
from privacy.table_plans.residual_plan import plan_of_draw
from tasks.products.tables.checks.sparse_replay import Read
from tasks.products.tables.checks.table_parts import TableNoise
from tasks.records.files.residual_file import RESIDUALS_FILE
from tasks.records.model.version_statements import DrawStatement
from tasks.verification.draws.residual_draws import read_residuals
from tasks.verification.refinement_replay import values_sha256
from tasks.verification.table_meaning import Meaning

StatedDraws = dict[str, tuple[DrawStatement, CountNoise]]
RowNoises = dict[str, TableNoise]
"""By the key of a draw of a table."""


def derived_draws(
    draw: DrawStatement, event: CountNoise, meaning: Meaning, bytes_of: Callable[[str], Read]
) -> tuple[tuple[StatedDraws, RowNoises] | None, list[Finding], list[str]]:
    """Make every noisy table again from the residuals, and state it as if it had been drawn.

    Args:
        draw: what the record says of the one draw.
        event: its event.
        meaning: contract and product.
        bytes_of: reads a file whose checksum holds.
    Returns:
        tuple: for each table, and the total where it was measured, its digest and its noise, by the key of a draw of
        it, with the noise of each row where it differs; None where the residuals cannot be read; and what is wrong
        or was skipped.
    """
    data, findings, skipped = bytes_of(RESIDUALS_FILE)
    if data is None or not isinstance(event, DiscreteGaussian):
        return None, findings, skipped
    plan = plan_of_draw(meaning.product, meaning.tables, meaning.contract, event)
    values, wrong = read_residuals(data, draw, plan.residuals)
    if values is None:
        return None, findings + wrong, skipped
    tables = plan.tables(values)
    wanted: list[tuple[str, TableSpec | None]] = [(table_key(each.name), each) for each in meaning.tables]
    wanted += [] if plan.public_total is not None else [(TOTAL_KEY, None)]
    drawn: StatedDraws = {}
    for key, table in wanted:
        columns = () if table is None else table.columns
        counts, noise = plan.counts(tables, key, columns), plan.table_noise(table)  # type: ignore[arg-type]
        shape, digest = tuple(counts.shape), values_sha256(counts.reshape(prod(counts.shape)))
        terms = {"key": key, "number": draw.number, "clique": columns, "shape": shape, "sha256": digest}
        stated = DrawStatement.model_validate({**terms, "coarsening": None, "event": noise.to_json(), "cost": 0})
        drawn[key] = stated, noise
    rows: RowNoises = {
        table_key(each.name): (plan.row_noise(each), plan.noise_by_columns(each)) for each in meaning.tables
    }
    return (drawn, rows), findings + wrong, skipped
