"""The groups of a synthetic release's record: those of every release, with some fields filled in another way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from contracts.message import AND, SEMICOLON, joined, message
from privacy.accounting.amounts import pico_to_text
from privacy.accounting.events import ZeroConcentrated
from privacy.grant.measurement import Measurement, Selection, SumMeasurement
from privacy.learning.perturbed import STEPS
from privacy.marginals.uncertainty import half_width
from privacy.table_plans.plan import CONFIDENCE
from tasks.records.fitted_groups import parameter_entries as parameters
from tasks.records.fitted_groups import training_entries as trainings
from tasks.records.fitted_groups.synthesis_groups import ROWS_FROM, SYNTHESIS
from tasks.records.groups.account import LEDGER, noise_words
from tasks.records.groups.contract_terms import UNIT
from tasks.records.groups.evidence import OUTPUT, in_parts
from tasks.records.groups.field import NONE, FieldGroup, Fill, Run
from tasks.records.groups.guarantee import CONVERSION, GUARANTEE, conversion
from tasks.records.groups.noise import NOISE, SAMPLERS
from tasks.records.groups.unprotected import UNPROTECTED

Drawn = Measurement | SumMeasurement | Selection
PERTURBED: Final[dict[str, str]] = {
    parameters.PARAMETERS: message(
        "noise on every clamped weight and bias of a network that was trained without noise"
    ),
    parameters.CHANGES: message("noise on the clamped change of every weight and bias in every batch of a training"),
}
TRAINING: Final = message("DP-SGD: Gaussian noise on clipped gradients of Poisson samples")
CHOOSER: Final = message("exponential mechanism on rational scores, sampled exactly, without floating point")


def draws(run: Run) -> list[dict[str, Any]]:
    """List the draws as the journal has them: noisy marginals, and private choices of what to measure."""
    account = run.facts.account.terms.name
    entered = {entry.body["key"]: entry.body for entry in run.facts.entries if entry.kind == "noise_drawn"}
    told = [_draw(entered[each.key], account, each) for each in run.facts.fit[1].drawn]
    told += trainings.entered(run.facts, account) + parameters.entered(run.facts)
    return sorted(told, key=lambda each: int(entered[each["key"]]["number"]))


def _draw(body: Mapping[str, Any], account: str, drawn: Drawn) -> dict[str, Any]:
    columns = drawn.statistic.embedding.columns if isinstance(drawn, SumMeasurement) else drawn.clique
    told: dict[str, Any] = {"key": drawn.key, "what": "choice", "columns": list(columns), "event": body["event"]}
    if isinstance(drawn, SumMeasurement):
        told |= {
            "what": message("sums over rows"),
            "cells": drawn.values.size,
            "l2_sensitivity_squared": sum(move * move for move in drawn.event.moves),
            "noise": noise_words(drawn.event),
            "variance": drawn.variance,
            "lattice": message("a row moves the sums by at most {units} units a part", units=drawn.statistic.move),
        }
    elif isinstance(drawn, Measurement):
        moves = drawn.event.moves
        told |= {
            "what": "measurement",
            "cells": drawn.values.size,
            "l1_sensitivity": sum(map(abs, moves)),
            "l2_sensitivity_squared": sum(move * move for move in moves),
            "noise": noise_words(drawn.event),
            "variance": drawn.variance,
            "half_width_95": half_width(drawn.event, CONFIDENCE),
        }
    return {**told, "cost": pico_to_text(body["costs"][account])}


def sensitivities(run: Run) -> list[dict[str, Any]]:
    """List the distinct sensitivities of the marginals, and of the sums over rows [lattice units]."""
    made = run.facts.fit[1]
    moves = sorted({each.event.moves for each in made.fitted.measurements})
    norms = sorted({sum(part * part for part in each.event.moves) for each in made.fitted.sums})
    of_marginals = [{"l1": sum(map(abs, move)), "l2_squared": sum(part * part for part in move)} for move in moves]
    of_sums = [{"of": message("sums over rows, in lattice units"), "l2_squared": norm} for norm in norms]
    clipped = [
        {"of": message("sums of gradients"), "l2": float(each.plan.clipping_norm)} for each in made.fitted.trainings
    ]
    clamped = [
        {"of": message("each parameter, in steps of its range"), "l1": STEPS} for _ in parameters.of(run.facts)[:1]
    ]
    return of_marginals + of_sums + clipped + clamped


def conversion_words(run: Run) -> str:
    """Say by which theorem the claimed epsilon follows, where draws were chosen on the way too."""
    budgets = [event for event in run.facts.charge.request.events if isinstance(event, ZeroConcentrated)]
    if not budgets:
        return conversion(run)
    return message(
        "The draws were chosen one after the other within a zCDP budget that was fixed beforehand (a filter: "
        "{filter}); the account is charged the budget, and its best order is converted by {source}.",
        filter="Feldman, Zrnic 2021",
        source=CONVERSION,
    )


def mechanism(run: Run) -> str:
    """Say how noise is added, and what is chosen privately."""
    made = run.facts.fit[1]
    perturbed = [PERTURBED[parameters.what(each)] for each in parameters.of(run.facts)]
    if perturbed:
        return perturbed[0]
    kinds = [message(kind) for kind in sorted({each.event.kind.replace("_", " ") for each in made.measured})]
    on = [
        *([message("marginals")] if made.fitted.measurements else []),
        *([message("sums over rows")] if made.fitted.sums else []),
    ]
    noise = message("{kinds} noise on {parts}", kinds=joined(kinds, AND), parts=joined(on, AND))
    if made.fitted.trainings:
        noise = message("{noise}, and {training}", noise=noise, training=TRAINING) if on else TRAINING
    if made.fitted.selections:
        return message("{noise}; which ones, chosen by the exponential mechanism", noise=noise)
    return noise


def mechanism_choice(run: Run) -> dict[str, Any]:
    """Say who chose the marginals and the noise."""
    return {"by": message("the generator {name}, within the charge", name=run.facts.spec.synthetic_product.generator)}


def samplers(run: Run) -> list[str]:
    """Name how each kind of draw is sampled."""
    made = run.facts.fit[1]
    trained = {trainings.SAMPLER} if made.fitted.trainings else set()
    drawn = (*made.drawn, *parameters.of(run.facts))
    return sorted({SAMPLERS.get(each.event.kind, CHOOSER) for each in drawn} | trained)


def exact_total(run: Run) -> dict[str, Any] | str:
    """Give the number of rows where it is published as it was declared."""
    declared = run.facts.contract.total
    if run.facts.synthetic[1].rows_from != "public" or declared is None:
        return NONE
    return {"value": declared.value, "declared_public_in": declared.reference}


def row_count_origin(run: Run) -> str:
    """Say where the number of rows comes from."""
    _, made = run.facts.synthetic
    return message("{number} rows: {origin}", number=made.rows, origin=ROWS_FROM[made.rows_from])


def partitioning(run: Run) -> str:
    """Say how the files are split."""
    _, made = run.facts.synthetic
    files, parts = len(made.measured) + len(made.fitted.trainings), sum(file.role == "part" for file in run.files)
    whole = message("all rows in one file, each of {files} measurements in one of its own", files=files)
    return joined([whole, in_parts(parts)], SEMICOLON) if parts else message("none: {files}", files=whole)


def synthetic_groups(groups: tuple[FieldGroup, ...]) -> tuple[FieldGroup, ...]:
    """Return the groups of a synthetic release's record, in the order of those of tables."""
    changed = {group.name: group for group in (*_CHANGED, SYNTHESIS)}
    return tuple(changed.get(group.name, group) for group in groups)


def with_fills(group: FieldGroup, **fills: Fill) -> FieldGroup:
    """Fill some fields of a group in another way."""
    fields = tuple(replace(field, fill=fills[field.name]) if field.name in fills else field for field in group.fields)
    return replace(group, fields=fields)


_CHANGED: Final = (
    with_fills(UNIT, sensitivity=sensitivities),
    with_fills(GUARANTEE, conversion=conversion_words),
    with_fills(LEDGER, draws=draws),
    with_fills(UNPROTECTED, exact_total=exact_total),
    with_fills(NOISE, mechanism=mechanism, mechanism_choice=mechanism_choice, samplers=samplers),
    with_fills(OUTPUT, row_count_origin=row_count_origin, partitioning=partitioning),
)
