"""The section product of tables: what was done to the noisy counts afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.cell_codes import ImpossibleCells
from contracts.message import SENTENCES, joined, message, plural
from contracts.reading.scalars import six_digits
from contracts.release.tables.levels import table_cells
from contracts.release.tables.tables import RESIDUALS, TableSpec
from privacy.grant.measurement import Measurement, SparseMeasurement
from privacy.grant.queries.votes import VoteMeasurement
from privacy.marginals.count_noise import half_width, mean_absolute, variance
from privacy.marginals.suppression import rule_statement
from privacy.refine.consistency import expected_variances
from privacy.refine.intervals import interval_statement
from privacy.refine.tables import total_kind as total_kind_of
from privacy.table_plans.plan import CONFIDENCE, TOTAL_KEY
from tasks.records.groups.field import NONE, FieldGroup, Run, auditor, public
from tasks.records.outputs import DenseTable, ReleasedSparseTable, ReleasedTable

KEPT = message("likely zeros set to zero, and projection of the others, keeping the total")
BIAS: dict[str, tuple[str, list[str]]] = {
    "none": (
        message("none: each count is unbiased, and may be negative; tables do not add up to the same total"),
        [],
    ),
    "simplex": (
        message(
            "no count is negative and the total is kept: the same amount is taken off every cell (or added), and "
            "what is then below zero becomes zero. Small cells are pulled to zero; empty ones may keep some noise"
        ),
        [message("projection onto the non-negative tables with the total")],
    ),
    "negative_l2": (
        message(
            "no count is negative and the total is kept: more is taken off every cell than by plain projection, and "
            "what stays positive is scaled up by 1 / (1 - lambda). Small cells become zero; large ones are pulled up"
        ),
        [message("projection with negative l2 regularisation, keeping the total")],
    ),
    "empirical_bayes": (
        message(
            "no count is negative and the total is kept: each count is drawn towards those counts that the table's "
            "noisy values make likely, and becomes zero where zero is likely. Cells unlike the others, small ones "
            "above all, are pulled to the others"
        ),
        [message("posterior mean under a prior that is estimated from the table's noisy values"), KEPT],
    ),
    "neighbourhood": (
        message(
            "no count is negative and the total is kept: each count is drawn towards what the cells around it in the "
            "ordered columns suggest, and becomes zero where zero is likely. Lone peaks and sharp edges are smoothed"
        ),
        [message("posterior mean given the noisy values of the cell and of the cells around it"), KEPT],
    ),
}
AGREED: Final = message("weighted least squares over all tables: margins that tables share agree")
CONSISTENT_BIAS: dict[str, tuple[str, list[str]]] = {
    "none": (
        message(
            "none: each count is unbiased, and may be negative; margins that tables share are the same in all of them"
        ),
        [AGREED],
    ),
    "simplex": (
        message(
            "no count is negative, all tables have the same total, and margins that they share agree up to the "
            "disagreement that is stated. Small cells are pulled to zero; empty ones may keep some noise"
        ),
        [AGREED, message("the nearest such tables without a negative cell")],
    ),
}
BIAS["mixture"] = (
    message(
        "no count is negative and the total is kept: each count is drawn towards what several methods make of it, "
        "weighted by their expected errors. Cells unlike the others are pulled to the others, and to the product of "
        "the table's margins; empty cells may keep a small count"
    ),
    [message("mean of several refinements that keep the total, weighted by the errors that are expected of them")],
)
BIAS["hierarchy"] = (
    message(
        "no count is negative and all resolutions add up: what a count and the sums above and below it say is "
        "weighted by its noise, and the total comes down level by level. In families of small counts the small ones "
        "are pulled to zero; whole numbers move counts by less than 1 within a family"
    ),
    [
        message("weighted least squares, so that every count is the sum of the finer counts below it"),
        message(
            "projection of each family onto the non-negative counts that add up to the count above, from the top down"
        ),
    ],
)
SELECTED = message("Listed noisy counts are too high on average: they are listed because their noise was high.")
SPARSE_BIAS: dict[bool, str] = {
    True: joined([SELECTED, message("Whoever reads absent cells as 0 loses what small cells hold")], SENTENCES),
    False: joined([SELECTED, message("The refined ones are those of the whole noisy table")], SENTENCES),
}
"""Of a sparse table, by whether it was left unrefined."""
SUPPRESSED: Final = message("noisy counts below the threshold suppressed, before they were written down")
CENSORED_BIAS: Final = message(
    "counts are published only where they came out high enough: a published count lies above the exact one on "
    "average, by what `minimum_frequency` states; no count is negative"
)
CHOICE: dict[tuple[str, str], str] = {
    ("lambda", "auto"): message(
        "lambda has the least error that is expected from the noisy values (parametric bootstrap)"
    ),
    ("lambda", "sparsity"): message(
        "lambda leaves the share of nonzero cells that the spec asks for, in the refined noisy values"
    ),
    ("method", "auto"): message(
        "the method has the least error that is expected from the noisy values, of those listed"
    ),
    ("weights", "auto"): message(
        "each method listed has its weight by the error that is expected of it on noise that it has not seen"
    ),
}


def post_processing(run: Run) -> list[dict[str, Any]]:
    """Say for each table what was done to its noisy counts, in order."""
    return [_processed(run, table) for table in run.facts.tables]


def _processed(run: Run, table: ReleasedTable) -> dict[str, Any]:
    refined, integers = table.refined, run.facts.spec.tables_product.refine.integers
    consistent = run.facts.spec.tables_product.refine.consistent
    bias, estimate = (CONSISTENT_BIAS if consistent else BIAS)[refined.method]
    if isinstance(table, ReleasedSparseTable):
        more = SPARSE_BIAS[refined.method == "none"]
        bias = more if refined.method == "none" else message("{bias}. {more}", bias=bias, more=more)
    gone = suppressed_cells(table)
    impossible = _impossible(run, table)
    zeros = [_zeroed(impossible)] if impossible != 0 else []
    zeros += [SUPPRESSED] if gone is not None else []
    rounding = [message("whole numbers by largest remainder")] if integers and refined.method != "none" else []
    return {
        "table": table.name,
        **_bins(run, table),
        "steps": [*_from_residuals(run), *zeros, *estimate, *rounding] or NONE,
        "method": refined.method,
        "lambda": NONE if refined.lambda_ is None else str(refined.lambda_),
        "chosen": chosen(run, table),
        "estimated_rmse": estimated_rmse(table) or NONE,
        "disagreement": disagreement(table) or NONE,
        "total": NONE if refined.total is None else refined.total,
        "total_from": total_from(run, table),
        "levels": levels(run, table) or NONE,
        "minimum_frequency": minimum_frequency(run, table) or NONE,
        "notes": list(refined.notes) or NONE,
        "known_bias": bias if gone is None else CENSORED_BIAS,
        "interval": interval_statement(refined.method, consistent=consistent),
        "raw": next(
            file.path for file in run.files if file.role == "measurements" and file.draw == table.measurement.key
        ),
        **sparse_entry(run, table),
    }


def chosen(run: Run, table: ReleasedTable) -> str:
    """Say what the spec left to the noisy values or to an earlier version, how it was found, and why that is free."""
    made, earlier = table.refined.chosen, run.facts.earlier_version
    if made is None:
        return NONE
    if earlier is None:
        return message(
            "{how}: only noisy values were read, so that this is post-processing and costs nothing",
            how=CHOICE[made.of, made.by],
        )
    return message(
        "lambda has the least error that this noise would make on the counts of {release} v{number} "
        "(MANIFEST.json {digest}): only what was published and paid for before was read, so that this costs nothing",
        release=earlier.release,
        number=earlier.number,
        digest=earlier.manifest,
    )


def minimum_frequency(run: Run, table: ReleasedTable) -> dict[str, Any] | None:
    """Give the minimum-frequency rule on a table, and what it does, from the declared noise; None without a rule."""
    rule = run.facts.spec.tables_product.minimum_frequency
    return None if rule is None else rule_statement(rule, table.measurement.event)


def suppressed_cells(table: ReleasedTable) -> NDArray[np.bool_] | None:
    """Return which cells a minimum-frequency rule suppresses; None without such a rule."""
    return None if isinstance(table, ReleasedSparseTable) else table.refined.suppressed


def total_from(run: Run, table: ReleasedTable) -> str:
    """Say where a table's total comes from: the release's, its own sum, or the levels of a hierarchy themselves."""
    kind, estimated = total_kind(run), run.facts.estimated_total
    if table.refined.total is None:
        return NONE
    if kind == "estimated" and isinstance(table, ReleasedSparseTable):
        return "noisy"
    if estimated is not None and table.refined.total != max(0, estimated.value):
        return "own"
    return "levels" if table.levels and kind == NONE else kind


def levels(run: Run, table: ReleasedTable) -> list[dict[str, Any]]:
    """List the resolutions of a table with a hierarchy, coarsest first: share, noise, expected error."""
    if not table.levels:
        return []
    measured = [*((each.level.name, each.measurement) for each in table.levels), (table.name, table.measurement)]
    planned = [run.facts.tables_plan.draw(measurement.key) for _, measurement in measured]
    known = total_kind(run) == "invariant"
    expected = expected_variances(
        [draw.cells for draw in planned], [draw.variance for draw in planned], total_known=known
    )
    return [
        {
            "level": name,
            "cells": draw.cells,
            "share": str(draw.share),
            "variance": f"{draw.variance:.6g}",
            "variance_when_consistent": f"{after:.6g}",
            "half_width_95": draw.half_width,
            "data": next(file.path for file in run.files if file.role == "data" and file.draw == draw.key),
            "raw": next(file.path for file in run.files if file.role == "measurements" and file.draw == draw.key),
        }
        for (name, _), draw, after in zip(measured, planned, expected, strict=True)
    ]


def sparse_entry(run: Run, table: ReleasedTable) -> dict[str, Any]:
    """Say of a sparse table which cells are listed, and what the others are; nothing of a dense one."""
    planned = run.facts.tables_plan.draw(table.measurement.key).sparse
    if not isinstance(table, ReleasedSparseTable) or planned is None:
        return {}
    noisy, (first, least) = table.measurement.table, planned.thresholds
    cells = {
        "cells": noisy.cells,
        "threshold": noisy.threshold,
        "listed_noisy": int(noisy.codes.size),
        "listed_refined": int(table.refined.codes.size),
        "absent_noisy": message("the noisy count is below {threshold}", threshold=noisy.threshold),
        "absent_refined": message("the refined count is 0"),
        "absent_interval": [0, table.refined.absent_upper],
        "threshold_rule": (
            message(
                "the first threshold, {first}, follows from the number of cells and the noise; it was lowered, down "
                "to {least} at most, as far as the cells above it did not tell how much has to be taken off every "
                "cell",
                first=first,
                least=least,
            )
        ),
    }
    return {"form": "sparse", "listed": cells}


def _impossible(run: Run, table: ReleasedTable) -> int | None:
    """Count the impossible cells of a table; None where they are too many to be counted."""
    contract, own = run.facts.contract, _with_bins(run, table)
    if own is not None:
        return int(table_cells(own, contract).impossible(table.columns).sum())
    impossible = ImpossibleCells.of(contract, table.columns)
    return impossible.count if impossible.some else 0


def _with_bins(run: Run, table: ReleasedTable) -> TableSpec | None:
    """Return the table of the spec if it has bins of its own."""
    written = (each for each in run.facts.spec.tables_product.tables if isinstance(each, TableSpec) and each.bins)
    return next((each for each in written if each.name == table.name), None)


def _bins(run: Run, table: ReleasedTable) -> dict[str, list[str]]:
    """Name the bins of a table that has its own, as its spec writes them."""
    own = _with_bins(run, table)
    return {} if own is None else {"bins": [each.words for each in own.bins]}


def _from_residuals(run: Run) -> list[str]:
    """Say that a table's noisy counts were not drawn, where they follow from residuals."""
    if run.facts.spec.tables_product.split != RESIDUALS:
        return []
    return [message("noisy counts made of the noisy residuals that all tables share, rounded to whole numbers")]


def _zeroed(number: int | None) -> str:
    if number is None:
        return message("all cells declared impossible set to zero")
    return message("{number} cells declared impossible set to zero", number=number)


def estimated_rmse(table: ReleasedTable) -> dict[str, str]:
    """Give the error that is expected of each method that was judged [rows], as text of six digits."""
    return {name: six_digits(error) for name, error in sorted(table.refined.estimated_rmse.items())}


def disagreement(table: ReleasedTable) -> str | None:
    """Give how far a margin of the table may lie from another table's [rows]; None where it was refined alone."""
    gap = table.refined.disagreement
    return None if gap is None else six_digits(gap)


def total_kind(run: Run) -> str:
    """Say where the total comes from that the tables keep: estimated, noisy, invariant, or none."""
    return total_kind_of(run.facts.spec.tables_product, run.facts.contract)


def noisy_total(run: Run) -> dict[str, Any] | str:
    """Give the total that was estimated from all sums, or else the drawn one."""
    estimated = run.facts.estimated_total
    if estimated is not None:
        return {"value": estimated.value, "standard_error": f"{sqrt(estimated.variance):.6g}"}
    if run.facts.total is None:
        return NONE
    width = run.facts.tables_plan.draw(TOTAL_KEY).half_width
    return {"value": int(run.facts.total.values), "half_width_95": width}


def suppression(run: Run) -> str:
    """Compare the published rows with the cells of the declared domains."""
    rows = {file.draw: file.rows for file in run.files if file.role == "data" and file.form == "dense"}
    cells = sum(run.facts.tables_plan.draw(key).cells for key in rows)
    left_out = cells - sum(rows.values()) or NONE
    dense = message(
        "{left_out}: {rows} rows for {cells} cells", left_out=left_out, rows=sum(rows.values()), cells=cells
    )
    gone = [hidden for table in run.facts.tables if (hidden := suppressed_cells(table)) is not None]
    if gone:
        return message(
            "{hidden} of {cells} cells, by the minimum-frequency rule: their noisy count is below the threshold of "
            "the table; they have rows without a count",
            hidden=sum(int(each.sum()) for each in gone),
            cells=cells,
        )
    sparse = [table.name for table in run.facts.tables if isinstance(table, ReleasedSparseTable)]
    if not sparse:
        return dense
    return message(
        "{dense}; sparse tables ({names}) list noisy counts from their threshold on, and the refined ones above 0: "
        "no cell is left out for its true count",
        dense=dense if rows else NONE,
        names=joined(sparse),
    )


POST_PROCESSING = FieldGroup(
    "product",
    "Post-processing",
    (
        public("tables", "What was done to each table, in order, and what bias that brings.", post_processing),
        public("noisy_total", "The total that was estimated from the tables' noisy sums, or measured.", noisy_total),
        public("suppression", "Cells left out because they are small.", suppression),
    ),
)


# --- Utility.


SPARSE: Final = message("not given for a sparse table: cells that are not listed have no noisy count")


def measured(run: Run) -> Iterator[Measurement | SparseMeasurement]:
    """Yield the noisy marginals of a run, in the order of its draws."""
    if not run.facts.of_tables:
        yield from run.facts.fit[1].fitted.measurements
        return
    if run.facts.total is not None:
        yield run.facts.total
    for table in run.facts.tables:
        yield from (each.measurement for each in table.levels)
        yield table.measurement


def expected_error(run: Run) -> list[dict[str, Any]] | str:
    """Give for each noisy marginal the error of a cell that its declared noise makes [rows]."""
    return [
        {
            "of": each.key,
            "mean_absolute": f"{mean_absolute(each.event):.6g}",
            "rmse": f"{sqrt(variance(each.event)):.6g}",
            "half_width_95": half_width(each.event, CONFIDENCE),
        }
        for each in measured(run)
    ] or NONE


def error_against_noisy(run: Run) -> list[dict[str, Any]] | str:
    """Say how far published counts lie from the noisy ones, beside how far noise alone lies from the exact ones."""
    if run.facts.classifier is not None:
        return NONE
    told = _of_rows(run) if run.facts.synthesis is not None else _of_tables(run)
    return list(told) or NONE


def _of_tables(run: Run) -> Iterator[dict[str, Any]]:
    for table in run.facts.tables:
        noise = f"{sqrt(variance(table.measurement.event)):.6g}"
        if not isinstance(table, DenseTable):
            yield {"of": table.measurement.key, "mean_absolute": SPARSE, "rmse": SPARSE, "noise_rmse": noise}
            continue
        found = run.facts.distances[table.measurement.key]
        yield {"of": table.measurement.key, **found.to_json(), "noise_rmse": noise}


def _of_rows(run: Run) -> Iterator[dict[str, Any]]:
    made = run.facts.synthetic[1]
    for each in made.fitted.measurements:
        yield {"of": each.key, **run.facts.distances[each.key].to_json(), "noise_rmse": f"{sqrt(each.variance):.6g}"}


def computed_on(run: Run) -> list[dict[str, str]]:
    """Say of each metric what it was computed on, and what it cost."""
    draws = len(list(measured(run)))
    noise, compared = _of_counts(run, draws) if draws else (_of_no_counts(run),) * 2
    return [
        {"metric": "expected_error", "computed_on": noise, "cost": "none"},
        {"metric": "error_against_noisy", "computed_on": compared, "cost": "none"},
        {
            "metric": "scores_on_real_rows",
            "computed_on": message("the confidential rows"),
            "cost": message("internal only"),
        },
    ]


def _of_counts(run: Run, draws: int) -> tuple[str, str]:
    """Say what both metrics of noisy counts were computed on."""
    noise = message("the declared noise of {n} draws; no data", n=draws)
    if run.facts.classifier is not None:
        return noise, message("nothing: a classifier gives no counts that noisy ones could be compared with")
    if run.facts.synthesis is not None:
        return noise, message("the model's expected counts and the noisy ones, both released")
    return noise, message("refined counts and the noisy ones, both released")


def _of_no_counts(run: Run) -> str:
    """Say that no count of a table's cells was drawn, and what was drawn in its place."""
    if run.facts.of_tables:
        return message("nothing: no cells of a table were counted")
    fitted = run.facts.fit[1].fitted
    sums, votes, trainings = len(fitted.sums), len(fitted.of_kind(VoteMeasurement.kind)), len(fitted.trainings)
    kinds = (
        (sums, plural("{count} noisy sum over rows", "{count} noisy sums over rows", sums, count=sums)),
        (votes, plural("{count} round of noisy votes", "{count} rounds of noisy votes", votes, count=votes)),
        (trainings, plural("{count} private training", "{count} private trainings", trainings, count=trainings)),
    )
    drawn = [words for count, words in kinds if count]
    if not drawn:
        return message("nothing: no cells of a table were counted")
    return message("nothing: no cells of a table were counted; drawn were {drawn}", drawn=joined(drawn))


UTILITY: Final = FieldGroup(
    "utility",
    "Utility",
    (
        public(
            "expected_error",
            "Error of what is noisy, from the declared noise alone [rows; of sums and means the column's unit].",
            expected_error,
        ),
        public(
            "error_against_noisy",
            "How far published counts, or those that the model expects, lie from the noisy ones [rows].",
            error_against_noisy,
        ),
        public("computed_on", "What each metric was computed on, and what that cost.", computed_on),
        auditor(
            "scores_on_real_rows",
            "How close the release is to the confidential rows.",
            lambda run: message(
                "computed on request by `sudare evaluate`, from the rows; pays nothing, and is for auditors only; "
                "not "
                "when the record of {release} was written",
                release=run.facts.spec.release,
            ),
        ),
    ),
)
