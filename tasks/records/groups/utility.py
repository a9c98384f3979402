"""Utility: how good the published numbers are. Public: from the declared noise, and against noisy values alone."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from typing import Any, Final

from contracts.message import joined, message, plural
from privacy.grant.measurement import Measurement, SparseMeasurement
from privacy.grant.queries.votes import VoteMeasurement
from privacy.marginals.uncertainty import half_width, mean_absolute, variance
from privacy.table_plans.plan import CONFIDENCE
from tasks.records.groups.field import NONE, FieldGroup, Run, auditor, public
from tasks.records.outputs import DenseTable

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
