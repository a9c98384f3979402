"""Replay: what the published numbers must be, given the noisy values, the events and the contract alone.

Pure functions over arrays; `tasks.verification.files.table_files` brings the arrays and turns differences into
findings.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isclose, prod, sqrt
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.column import Cells
from contracts.errors import Finding
from contracts.reading.scalars import six_digits
from contracts.release.tables.levels import table_cells
from contracts.release.tables.tables import Refine, TableSpec
from privacy.accounting.events import CountNoise
from privacy.arrays import Floats
from privacy.marginals.count_noise import half_width, variance
from privacy.refine.consistency import KnownTotal, MeasuredTable, measured_tree, refine_together, refine_tree
from privacy.refine.tables import Chosen, NoisySum, Refined, RefinedCells, average_variance, refine_table, total_kind
from tasks.records.model.version_statements import ChosenStatement, Replay, TableStatement
from tasks.records.strict_json import printable
from tasks.verification.record_identity import differences
from tasks.verification.table_meaning import Meaning, recorded_lambda

CONFIDENCE: Final = 0.95
RELATIVE_TOLERANCE: Final = 1e-9
ERROR_TOLERANCE: Final = 1e-4
"""Two machines add up squares in different orders; six digits are stated."""
_AGAIN: Final = "chosen again from the published noisy values"
_NOT_POST_PROCESSED: Final = "the published numbers are not what the declared steps make of the noisy ones"


@dataclass(frozen=True)
class Difference:
    """Where a column leaves what it must be.

    Args:
        row: first row that differs, from 1.
        found: what stands there.
        expected: what must stand there.
        count: number of rows that differ.
    """

    row: int
    found: object
    expected: object
    count: int


def first_difference(found: NDArray[Any], expected: NDArray[Any], *, tolerance: float = 0.0) -> Difference | None:
    """Compare two columns.

    Args:
        found: what was published, one value a row.
        expected: what it must be, one value a row.
        tolerance: largest relative difference that is passed over (for float columns).
    Returns:
        Difference: the first row that differs, or None.
    """
    same = np.isclose(found, expected, tolerance, 0.0, equal_nan=True) if tolerance else _alike(found, expected)
    rows = np.flatnonzero(~same)
    if rows.size == 0:
        return None
    row = int(rows[0])
    return Difference(row + 1, found[row].item(), expected[row].item(), int(rows.size))


def _alike(found: NDArray[Any], expected: NDArray[Any]) -> NDArray[np.bool_]:
    """Compare numbers; doubles by their bits, since 0 has two signs, which equal each other. NaN is no number."""
    same: NDArray[np.bool_] = found == expected
    if found.dtype == np.float64 and expected.dtype == np.float64:
        same = (same & (np.signbit(found) == np.signbit(expected))) | (np.isnan(found) & np.isnan(expected))
    return same


def label_codes(cells: Cells, clique: Sequence[str], place: int) -> NDArray[np.int64]:
    """Return the code of one column in every row of a marginal, in row-major order."""
    shape = cells.shape(clique)
    stride = prod(shape[place + 1 :])
    return (np.arange(prod(shape), dtype=np.int64) // stride) % shape[place]


def values_sha256(values: NDArray[np.int64] | NDArray[np.float64]) -> str:
    """Return the SHA-256 (hex) of the values as little-endian int64 or float64, in C order."""
    kind = "<i8" if values.dtype.kind == "i" else "<f8"
    return hashlib.sha256(np.ascontiguousarray(values, dtype=kind).tobytes()).hexdigest()


def uncertainty_columns(
    noisy: NDArray[np.int64],
    event: CountNoise,
    impossible: NDArray[np.bool_],
    suppressed: NDArray[np.bool_] | None = None,
) -> dict[str, NDArray[Any]]:
    """Return what must stand beside the noisy values, one value a row.

    Variance, 95 % interval, structural zeros; under a minimum-frequency rule also which cells are suppressed.
    """
    width = half_width(event, CONFIDENCE)
    return {
        **({} if suppressed is None else {"suppressed": suppressed}),
        "variance": np.full(noisy.size, variance(event)),
        "lower": noisy - width,
        "upper": noisy + width,
        "structural_zero": impossible.reshape(-1),
    }


def refined_again(
    noisy: Sequence[NDArray[np.int64]],
    table: TableSpec,
    meaning: Meaning,
    *,
    total: int | NoisySum | None,
    events: Sequence[CountNoise],
    reference: NDArray[np.int64] | None = None,
    by_columns: Floats | None = None,
) -> Refined:
    """Refine a table again as the product says, and choose again what the product leaves to the noisy values.

    Args:
        noisy: published noisy values of its coarser levels, coarsest first, if it has any, and then its own, one a
            row [units].
        table: the table, as the product has it.
        meaning: contract and product.
        total: the total that the record states; with the variance of its noise where it says that it is an average
            of noisy sums, which tables keep only where they gain [units].
        events: the noise of each.
        reference: counts of the table in the version on which λ is chosen, if there is one [units].
        by_columns: of noise that is not independent from cell to cell, as `refine_table` takes it.
    Returns:
        Refined: in the shape of the table, with its levels.
    Raises:
        ValueError: no such refinement is possible.
    """
    contract, terms = meaning.contract, meaning.product.refine
    with np.errstate(all="ignore"):
        try:
            if table.hierarchy is not None:
                tree = measured_tree(table, contract, noisy, events)
                known = total.value if isinstance(total, NoisySum) else total
                return refine_tree(tree, total=known, integers=terms.integers)
            cells = table_cells(table, contract)
            impossible = cells.impossible(table.columns)
            return refine_table(
                noisy[-1].reshape(impossible.shape),
                terms,
                impossible=impossible,
                total=total,
                event=events[-1],
                ordered=cells.ordered_axes(table.columns),
                reference=reference,
                threshold=meaning.threshold(events[-1]),
                by_columns=by_columns,
            )
        except (ArithmeticError, IndexError) as error:  # values that no run has, on the way through a search
            raise ValueError(str(error)) from error


def stated_total(
    replay: Replay, meaning: Meaning, measured: Iterable[tuple[NDArray[np.bool_], CountNoise]]
) -> int | NoisySum | None:
    """Return the total that the record states; with its variance, if it is the average of noisy sums.

    Args:
        replay: the record's replay block; its draws are those of the product.
        meaning: contract and product.
        measured: structural zeros and noise of every dense measurement whose sum is in the average.
    """
    stated = replay.total
    if stated.kind != "estimated" or stated.value is None or meaning.product.refine.consistent:
        return stated.value
    spread = (np.count_nonzero(~impossible) * variance(event) for impossible, event in measured)
    return NoisySum(stated.value, average_variance(spread))


def with_stated_lambda(meaning: Meaning, table: TableStatement) -> Meaning:
    """Return the product with the λ that the record states, for a table whose λ cannot be chosen again.

    Raises:
        ValueError: the stated λ is none.
    """
    terms = {**meaning.product.refine.model_dump(), "lambda_": table.lambda_}
    product = meaning.product.model_copy(update={"refine": Refine.model_validate(terms)})
    return replace(meaning, product=product)


def as_stated(refined: Refined, table: TableStatement) -> Refined:
    """Return a table that was refined with the stated λ as if that had been chosen, with the error that is stated."""
    errors: dict[str, float] = {
        name: float(error) for name, error in table.estimated_rmse.items() if name == refined.method
    }
    return replace(refined, chosen=Chosen("lambda", "reference"), estimated_rmse=errors)


def refined_together_again(
    noisy: Sequence[NDArray[np.int64]],
    cliques: Sequence[Sequence[str]],
    meaning: Meaning,
    *,
    total: int | None,
    total_event: CountNoise | None,
    events: Sequence[CountNoise],
) -> tuple[Refined, ...]:
    """Refine all tables together again.

    Args:
        noisy: published noisy values of each table, one a row [units].
        cliques: columns of each table.
        meaning: contract and product.
        total: the total that the record states [units].
        total_event: the event of its noise; None where it is declared.
        events: the event of each table's noise.
    Raises:
        ValueError: no such refinement is possible.
    """
    measured = []
    for values, clique, event in zip(noisy, cliques, events, strict=True):
        impossible = meaning.contract.impossible(clique)
        measured.append(MeasuredTable(tuple(clique), values.reshape(impossible.shape), impossible, event))
    known = None if total is None else KnownTotal(total, total_event)
    with np.errstate(all="ignore"):
        try:
            return refine_together(measured, meaning.product.refine, total=known)
        except (ArithmeticError, IndexError) as error:
            raise ValueError(str(error)) from error


def check_choice(table: TableStatement, refined: Refined | RefinedCells, *, where: str) -> list[Finding]:
    """Check that the record states the method, λ, choice and estimated errors that the noisy values lead to.

    Args:
        table: what the record states.
        refined: the table, refined again.
        where: the record's file name.
    """
    pairs: list[tuple[str, object, object]] = [
        ("method", table.method, refined.method),
        ("lambda", recorded_lambda(table), refined.lambda_),
        ("chosen", _choice(table.chosen), _choice(refined.chosen)),
        ("estimated_rmse", _names(table.estimated_rmse), _names(refined.estimated_rmse)),
    ]
    gone = getattr(refined, "suppressed", None)
    pairs += [
        ("total", table.total, refined.total),
        ("notes", list(table.notes), list(refined.notes)),
        ("suppressed", table.suppressed, None if gone is None else int(np.count_nonzero(gone))),
    ]
    gap, stated_gap = refined.disagreement, table.disagreement
    if gap is None or stated_gap is None or not _near(stated_gap, gap):
        pairs.append(("disagreement", stated_gap, None if gap is None else six_digits(gap)))
    for name, stated in table.estimated_rmse.items():
        error = refined.estimated_rmse.get(name)
        if error is not None and not _near(stated, error):
            pairs.append((f"estimated_rmse of {name}", stated, six_digits(error)))
    at = printable(f"replay.tables, {table.name}")
    named = [(f"{at}: {field}", found, expected) for field, found, expected in pairs]
    return list(differences(named, where=where, allowed=_AGAIN))


def _near(stated: str, computed: float) -> bool:
    """Compare a number of six digits with the computed one."""
    return isclose(float(stated), computed, rel_tol=ERROR_TOLERANCE, abs_tol=ERROR_TOLERANCE)


def _names(errors: Mapping[str, object]) -> str:
    """Name the methods whose error was estimated."""
    return ", ".join(sorted(errors)) or "of no method"


def _choice(chosen: ChosenStatement | Chosen | None) -> str:
    """Say what was chosen."""
    return "nothing" if chosen is None else f"{chosen.of} by {chosen.by}"


def _same_error(stated: str | None, computed: str | None) -> bool:
    return stated is None or computed is None or _near(stated, float(computed))


def check_total(
    replay: Replay, meaning: Meaning, *, drawn: int | None, estimated: NoisySum | None, where: str
) -> list[Finding]:
    """Check that the tables were refined to the total that the product leads to.

    Args:
        replay: the record's replay block; its draws are those of the product.
        meaning: contract and product.
        drawn: the drawn total as published among the measurements; None where there is none that can be read.
        estimated: the average of all sums of published measurements; None where not all can be read.
        where: the record's file name.
    """
    kind, stated = total_kind(meaning.product, meaning.contract), replay.total
    if stated.kind != kind:
        allowed = f"{kind}, as the product says"
        return [Finding(where, "replay.total.kind", stated.kind, allowed, _NOT_POST_PROCESSED)]
    average = None if estimated is None else estimated.value
    declared = None if meaning.contract.total is None else meaning.contract.total.value
    expected, source = {
        "estimated": (average, "the average of all noisy sums, weighted by their noise"),
        "noisy": (drawn, "the drawn total in measurements/total.parquet"),
        "invariant": (declared, "the contract's declared total"),
        "none": (None, "no total is used"),
    }[kind]
    alone = kind != "estimated" or meaning.product.refine.consistent
    kept = "by_all" if alone else "where_it_gains"
    if stated.kept != kept:
        allowed = f"{kept}: an average of sums may be left where tables are refined one by one, and only there"
        return [Finding(where, "replay.total.kept", stated.kept, allowed, _NOT_POST_PROCESSED)]
    error = estimated if kind == "estimated" else None
    spread = None if error is None else six_digits(sqrt(error.variance))
    if (stated.standard_error is None) != (kind != "estimated") or not _same_error(stated.standard_error, spread):
        found, allowed = str(stated.standard_error), f"{spread}, recomputed from the noise"
        return [Finding(where, "replay.total.standard_error", found, allowed, _NOT_POST_PROCESSED)]
    unread = kind in ("estimated", "noisy") and expected is None
    if unread or stated.value == expected:
        return []
    found, allowed = str(stated.value), f"{expected}, {source}"
    return [Finding(where, "replay.total.value", found, allowed, _NOT_POST_PROCESSED)]
