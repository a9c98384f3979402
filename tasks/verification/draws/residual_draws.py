"""The one draw of tables that are measured by residuals: is it the product's, and is its sensitivity the contract's?

    1. which residuals are measured, and how often each counts, follows from product and contract alone
    2. the event's moves are whole numbers whose squares add up to how far the worst neighbour moves all residuals,
       which is derived here anew: over every choice of the columns in which two rows differ

A row in cell a adds  ⊗ (d e_a - 1)  to the residual of columns of d cells; two rows that differ in the columns S add
vectors with the inner product  Π_S (-d) Π_other d (d - 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import product
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.errors import Finding
from contracts.release.tables.all_marginals import RESIDUALS
from privacy.accounting.events import DiscreteGaussian
from privacy.marginals.errors import TooManyRanges
from privacy.marginals.residual_basis import Residual, squares_of
from privacy.marginals.residual_shares import MOST_RESIDUALS, TooManyResiduals
from privacy.table_plans.residual_plan import drawn_residuals
from tasks.records.files.residual_file import RESIDUALS_FILE, MeasuredResidual, residual_labels, residual_rows
from tasks.records.model.version_statements import DrawStatement
from tasks.records.strict_json import printable, shown
from tasks.verification.draws.draw_checks import FileForm
from tasks.verification.files.parquet_pages import open_numbers
from tasks.verification.files.table_files import (
    MISFIT,
    UNREADABLE,
    check_digest,
    check_whole,
    compare_column,
    label_numbers,
)
from tasks.verification.record_identity import OTHER, differences
from tasks.verification.refinement_replay import values_sha256
from tasks.verification.table_meaning import Meaning

MOST_SQUARES: Final = 16
"""Squares that an event of residuals states at most."""
_UNDERSTATED: Final = "the stated loss does not follow from the contract: do not rely on the claimed guarantee"


def check_workload(meaning: Meaning, *, where: str) -> list[Finding]:
    """Check that the product's tables have no more residuals than a plan may have."""
    try:
        drawn_residuals(meaning.product, meaning.tables, meaning.contract)
    except (TooManyResiduals, TooManyRanges):
        found, allowed = f"{len(meaning.tables)} tables", f"at most {MOST_RESIDUALS} residuals"
        return [Finding(where, "replay.product.tables", found, allowed, OTHER)]
    return []


def check_residual_draw(draws: Sequence[DrawStatement], meaning: Meaning, *, where: str) -> list[Finding]:
    """Check that there is one draw, of the product's residuals, with the worst neighbour's moves."""
    keys = [printable(draw.key) for draw in draws]
    if keys != [RESIDUALS]:
        found = ", ".join(keys[:12]) or "none"
        return [Finding(where, "replay.draws", found, f"{RESIDUALS}, as the product says", OTHER)]
    (draw,), contract = draws, meaning.contract
    residuals = drawn_residuals(meaning.product, meaning.tables, contract)
    pairs = [
        ("replay.draws[0].clique", list(draw.clique), []),
        ("replay.draws[0].shape", list(draw.shape), [sum(each.cells for each in residuals)]),
        ("replay.draws[0].event.kind", str(draw.event.get("kind")), DiscreteGaussian.kind),
        ("replay.draws[0].coarsening", str(draw.coarsening), str(None)),
        ("replay.draws[0].listed", str(draw.listed), str(None)),
    ]
    findings = list(differences(pairs, where=where, allowed="all residuals of the product's tables"))
    worst = list(squares_of(worst_norm(residuals, contract)))
    if draw.event.get("moves") != worst:
        terms = f"{contract.adjacency} with {contract.unit.max_rows_per_unit} rows a unit"
        found = str(draw.event.get("moves"))[:60]
        findings.append(Finding(where, "replay.draws[0].event.moves", found, f"{worst}, under {terms}", _UNDERSTATED))
    return findings


def worst_norm(residuals: Sequence[MeasuredResidual], contract: Contract) -> int:
    """Return the squared norm of what the worst neighbour moves, each residual by itself at its worst."""
    plain = [each for each in residuals if isinstance(each, Residual)]
    if len(plain) < len(residuals):
        from tasks.verification.draws.strategy_draws import worst_strategies  # few versions have them

        return worst_strategies(residuals, contract)
    changed = sum(each.multiplier**2 * _worst_row(each.shape, contract.adjacency) for each in plain)
    return contract.unit.max_rows_per_unit**2 * changed


@cache
def _worst_row(shape: tuple[int, ...], adjacency: str) -> int:
    """Return how far one row moves a residual at worst: present or absent, or in another cell."""
    norms = [cells * (cells - 1) for cells in shape]
    alone = prod(norms)
    if adjacency == "add_remove":
        return alone
    products = product(*([norm, -cells] for cells, norm in zip(shape, norms, strict=True)))
    moved = [2 * alone - 2 * prod(inner) for inner in products]
    return max(alone, *moved)  # a row may also go for none, where a unit may have several


def residual_form(meaning: Meaning) -> dict[str, FileForm]:
    """Say how the file of residuals is written."""
    return {
        RESIDUALS_FILE: FileForm(
            {"columns": residual_labels(drawn_residuals(meaning.product, meaning.tables, meaning.contract))}
        )
    }


def read_residuals(
    data: bytes, draw: DrawStatement, residuals: Sequence[MeasuredResidual]
) -> tuple[NDArray[np.int64] | None, list[Finding]]:
    """Check the file of residuals.

    Args:
        data: its bytes.
        draw: what the record says of the draw.
        residuals: what the product has measured.
    Returns:
        tuple: the noisy numbers, None where they cannot be read or are not those of the draw; and what is wrong.
    """
    where = RESIDUALS_FILE
    try:
        columns, findings = _columns(data, residuals, where)
    except UNREADABLE as error:
        return None, [Finding(where, "the file", printable(str(error)), "a whole Parquet file", MISFIT)]
    if columns is None:
        return None, findings
    noisy = columns["noisy"]
    for name, expected in residual_rows(residuals).items():
        source = "as product and contract say"
        findings += compare_column(columns[name], expected, where=where, name=name, source=source, remedy=MISFIT)
    others = check_digest(values_sha256(noisy), draw.sha256, "column noisy", where=where)
    return (None if others else noisy), findings + others


def _columns(
    data: bytes, residuals: Sequence[MeasuredResidual], where: str
) -> tuple[dict[str, NDArray[Any]] | None, list[Finding]]:
    """Read the columns after names, types and number of rows have been checked."""
    file = open_numbers(data, labels=["columns"])
    names, rows = ["columns", "cell", "multiplier", "noisy"], sum(each.cells for each in residuals)
    kinds = [str(file.schema_arrow.field(name).type) for name in names[1:] if name in file.schema_arrow.names]
    for field, is_, must in (
        ("columns", list(file.schema_arrow.names), names),
        ("types", kinds, ["int64"] * 3),
        ("rows", file.metadata.num_rows, rows),
    ):
        if is_ != must:
            return None, [Finding(where, field, shown(str(is_)), shown(str(must)), MISFIT)]
    table = file.read()
    table.validate(full=True)
    missing = check_whole(table, where, names)
    if missing:
        return None, missing
    places, _ = label_numbers(table.column("columns"), residual_labels(residuals))
    return {"columns": places} | {name: table.column(name).to_numpy() for name in names[1:]}, []
