"""The groups of a synthetic release's record: those of every release, with some fields filled in another way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from contracts.message import SEMICOLON, joined, message
from privacy.accounting.events import ZeroConcentrated
from tasks.records.draws.drawn import described_draws, forms_of, noise_mechanism
from tasks.records.fitted_groups.synthesis_groups import ROWS_FROM, SYNTHESIS, rows
from tasks.records.groups.account import LEDGER
from tasks.records.groups.contract_terms import UNIT
from tasks.records.groups.evidence import OUTPUT, in_parts
from tasks.records.groups.field import NONE, FieldGroup, Fill, Run, with_sections
from tasks.records.groups.guarantee import CONVERSION, GUARANTEE, conversion
from tasks.records.groups.noise import NOISE
from tasks.records.groups.unprotected import UNPROTECTED


def draws(run: Run) -> list[dict[str, Any]]:
    """List the draws as the journal has them: what was measured or trained, and private choices."""
    return described_draws(run.facts)


def sensitivities(run: Run) -> list[dict[str, Any]]:
    """Give the sensitivity of each kind of draw."""
    return [entry for form, drawn in forms_of(run.facts.fit[1].fitted) for entry in form.sensitivities(drawn)]


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
    return noise_mechanism(run.facts.fit[1].fitted)


def mechanism_choice(run: Run) -> dict[str, Any]:
    """Say who chose the marginals and the noise."""
    return {"by": message("the generator {name}, within the charge", name=run.facts.spec.synthetic_product.generator)}


def samplers(run: Run) -> list[str]:
    """Name how each kind of draw is sampled."""
    names = [form.samplers(drawn) for form, drawn in forms_of(run.facts.fit[1].fitted)]
    return sorted(set().union(*names))


def exact_total(run: Run) -> dict[str, Any] | str:
    """Give the number of rows where it is published as it was declared."""
    declared = run.facts.contract.total
    if run.facts.synthetic[1].rows_from != "public" or declared is None:
        return NONE
    return {"value": declared.value, "declared_public_in": declared.reference}


def row_count_origin(run: Run) -> str:
    """Say where the number of rows comes from."""
    made, means = run.facts.synthetic[1], rows(run)["means"]
    origin = ROWS_FROM[made.rows_from]
    return str(means) if means != origin else message("{number} rows: {origin}", number=made.rows, origin=origin)


def partitioning(run: Run) -> str:
    """Say how the files are split."""
    roles = {form.role for form, _ in forms_of(run.facts.synthetic[1].fitted)}
    files = sum(file.role in roles for file in run.files)
    parts = sum(file.role == "part" for file in run.files)
    whole = message("all rows in one file, each of {files} measurements in one of its own", files=files)
    return joined([whole, in_parts(parts)], SEMICOLON) if parts else message("none: {files}", files=whole)


def synthetic_groups(groups: tuple[FieldGroup, ...]) -> tuple[FieldGroup, ...]:
    """Return the groups of a synthetic release's record, in the order of those of tables."""
    return with_sections(groups, (*_CHANGED, SYNTHESIS))


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
