"""The section product of a synthetic release: how the rows were made, and what they are good for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from contracts.contract.contract import Contract
from contracts.message import SEMICOLON, SENTENCES, joined, message, messages_to_json
from privacy.accounting.events import ZeroConcentrated
from privacy.generators.generator import Model
from privacy.generators.rows import seed_text
from privacy.ledger.draw_files import values_digest
from tasks.records.draws.choice import choice_entry
from tasks.records.draws.marginal import described_draws, drawn_files, forms_of, noise_mechanism, stated_draws
from tasks.records.draws.marginal import measured as measured_draws
from tasks.records.files.synthetic_files import MODEL_ARRAYS, MODEL_VALUES, rows_file, stated_rows
from tasks.records.groups.field import NONE, FieldGroup, Fill, Run, public, with_sections
from tasks.records.groups.guarantee import CONVERSION, GUARANTEE, LEDGER, NOISE, conversion
from tasks.records.groups.origin import OUTPUT, in_parts
from tasks.records.groups.terms import UNIT, UNPROTECTED
from tasks.records.model.record_kinds import DataColumn, ProductWords, ShownFile
from tasks.records.model.version_statements import SyntheticRecord
from tasks.records.modifiers.record_modifier import modifiers_of_replay, record_modifiers
from tasks.records.published_fit import fit_of, resolved_product
from tasks.records.values import Values

if TYPE_CHECKING:
    from contracts.contract.decoding import DecodedForm


ROWS_FROM: Final = {
    "estimated": message("estimated from the noisy counts; the exact number stays unknown"),
    "public": message("the contract's public total"),
    "declared": message("the spec's own number, which says nothing about the data"),
}
SAMPLING: Final = message(
    "rows are sampled from the published model, put in random order and decoded by the published seed, all in whole "
    "numbers: sudare verify makes the same rows again"
)
DECODING: Final = {
    "label": message("the label of its cell"),
    "boolean": message("true or false, as its cell says"),
    "integer": message("a whole number drawn uniformly from its bin"),
    "date": message("a day drawn uniformly from its period"),
    "picture": message("the levels of its places, row by row of the picture"),
}
KNOWN_BIAS: Final = message(
    "the model keeps what was measured and is as independent as possible otherwise: dependencies between columns "
    "that no measured marginal shows are lost, rare combinations are smoothed, and combinations without people may "
    "appear."
)
BIAS_OF_SUMS: Final = message(
    "the model keeps the noisy sums over rows that were measured, and what was learned from them; what these do not "
    "show is lost, rare rows become more like common ones, and combinations without people may appear."
)
EQUALLY_LIKELY: Final = message("Inside a bin all values are equally likely")
CONDITIONAL: Final = message(
    "Further rows, under a condition too, come from the published model by sudare sample, at no cost: post-processing"
)
USES_OF_SUMS: Final = (
    message(
        "Train and test models on the rows, explore, and develop programs; then ask the publisher for a release made "
        "for the question."
    ),
    message("Do not look for anybody in the rows: a row that resembles a person is chance."),
    message(
        "Do not take confidence intervals or p-values from the rows as if they were a sample: the noise and the "
        "model's gaps are not in them."
    ),
    message(
        "Do not count combinations in the rows: ask for a release of tables, or of rows that are fitted to marginals."
    ),
)
USES: Final = (
    message(
        "Counts and shares of rows in the cells that were measured are off by about their noise. Sums, means and "
        "quantiles of a number are off by more where its bins are wide: the noise says nothing about values inside a "
        "bin."
    ),
    message(
        "Develop and test programs on the rows, and explore; then ask the publisher for a release made for the "
        "question."
    ),
    message("Do not look for anybody in the rows: a row that resembles a person is chance."),
    message(
        "Do not take confidence intervals or p-values from the rows as if they were a sample: the noise and the "
        "model's gaps are not in them."
    ),
    message(
        "Do not count rare combinations in the rows: use the noisy counts in measurements/, which have intervals."
    ),
)

UTILITY: Final = message("private, for auditors only; what is public of it is in the section utility")


def model(run: Run) -> dict[str, Any]:
    """Describe the published model: its kind, its size, and its cliques where it has some."""
    _, made = run.facts.synthetic
    values, arrays = made.model.to_arrays()
    cliques = values.get("cliques")
    return {
        "kind": made.model.kind,
        "numbers": sum(array.size for array in arrays.values()),
        "cliques": [" × ".join(map(str, clique)) for clique in cliques] if isinstance(cliques, list) else NONE,
        "rows": made.model.rows,
        "files": [MODEL_VALUES, MODEL_ARRAYS],
    }


def measured(run: Run) -> list[dict[str, Any]]:
    """List what was measured, in order, with its noise and its file."""
    return measured_draws(run.facts)


def choices(run: Run) -> list[dict[str, Any]] | str:
    """List the private choices: which marginal was chosen, at what cost."""
    _, made = run.facts.fit
    return [choice_entry(each) for each in made.fitted.selections] or NONE


def rows(run: Run) -> dict[str, Any]:
    """Say how many rows there are, and why so many."""
    made = run.facts.synthetic[1]
    told = {"number": made.rows, "from": made.rows_from, "means": ROWS_FROM[made.rows_from]}
    for modifier in record_modifiers(run.facts.spec.product):
        told = modifier.rows(run, told)
    return told


def further_rows(run: Run) -> str:
    """Say whether further rows come from the model."""
    told: str = CONDITIONAL
    for modifier in record_modifiers(run.facts.spec.product):
        told = modifier.further_rows(run, told)
    return told


def decoding(run: Run) -> dict[str, str]:
    """Say how each column's values are made from its cells."""
    from contracts.contract.decoding import Decoder

    forms = Decoder(run.facts.contract, run.facts.synthetic[0].task.domain.columns).forms
    told = {form.name: _decoded(form) for form in forms}
    for modifier in record_modifiers(run.facts.spec.product):
        told = modifier.decoding(run, told)
    return told


def _decoded(form: DecodedForm) -> str:
    if not form.values and form.kind == "number":
        return message("a number of {scale} decimals drawn uniformly from its bin", scale=form.scale)
    return DECODING["label" if form.values else form.kind]


def learns_from_rows(run: Run) -> bool:
    """Say whether sums over rows or their votes were measured, or anything was trained on them."""
    fitted = run.facts.synthetic[1].fitted
    return bool(fitted.sums or fitted.trainings or fitted.of_kind("votes"))


def stated_bias(run: Run) -> str:
    """Say what rows of such a model are known to get wrong."""
    inside: str = EQUALLY_LIKELY
    for modifier in record_modifiers(run.facts.spec.product):
        inside = modifier.bias_inside(run, inside)
    return joined([BIAS_OF_SUMS if learns_from_rows(run) else KNOWN_BIAS, inside], SENTENCES)


def uses(run: Run) -> list[str]:
    """Say what rows of such a model are good for."""
    further = (use for modifier in record_modifiers(run.facts.spec.product) for use in modifier.uses(run))
    return [*(USES_OF_SUMS if learns_from_rows(run) else USES), *further]


def constraints(run: Run) -> list[str] | str:
    """List what holds in every row: structural zeros and constraints on published columns."""
    plan, _ = run.facts.synthetic
    held: list[str] = [
        message("impossible cells of {names} do not occur", names=" × ".join(clique))
        for clique in plan.task.impossible
    ]
    pairs = [each.less_or_equal for each in run.facts.contract.constraints]
    names = set(plan.task.domain.columns)
    held += [f"{pair[0]} <= {pair[1]}" for pair in pairs if pair is not None and set(pair) <= names]
    return held or NONE


def expected_error(run: Run) -> dict[str, str] | str:
    """Give the error that the noise alone was expected to make, by number of columns; data-free [rows]."""
    plan, _ = run.facts.synthetic
    return {f"{order}-way": f"{error:.6g}" for order, error in sorted(plan.plan.expected_error.items())} or NONE


SYNTHESIS = FieldGroup(
    "product",
    "Synthesis",
    (
        public("generator", "What made the model.", lambda run: run.facts.spec.synthetic_product.generator),
        public(
            "options",
            "Its options, with those that nobody wrote. What is not listed follows from the charge and the columns.",
            lambda run: dict(run.facts.synthetic[0].resolved_options),
        ),
        public("columns", "The columns of a row.", lambda run: list(run.facts.synthetic[0].task.domain.columns)),
        public("rows", "Number of rows, and where it comes from.", rows),
        public("seed", "Seed of sampling, order and decoding.", lambda run: seed_text(run.facts.synthetic[1].seed)),
        public(
            "measured", "Marginals and sums over rows that were measured, and trainings, with their noise.", measured
        ),
        public("choices", "Private choices of what to measure.", choices),
        public(
            "expected_error", "Mean L1 error of a marginal that noise alone makes, before estimation.", expected_error
        ),
        public("model", "The fitted model, as published.", model),
        public(
            "notes",
            "What the generator says about this fit.",
            lambda run: list(run.facts.synthetic[1].fitted.notes) or NONE,
        ),
        public("sampling", "How rows come out of the model.", lambda run: SAMPLING),
        public("decoding", "How values come out of cells.", decoding),
        public("constraints", "What holds in every row.", constraints),
        public("known_bias", "What the rows are known to get wrong.", stated_bias),
        public("conditional_sampling", "Further rows.", further_rows),
        public("uses", "What the rows are good for, and what not.", uses),
        public(
            "utility", "How close the rows are to the data: it is private, and not published.", lambda run: UTILITY
        ),
    ),
)


# --- The groups of a synthetic release's record.


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


# --- The part of a synthetic record's `replay` that tables do not have.


class SyntheticRecordPart:
    """The record of synthetic rows."""

    model: ClassVar = SyntheticRecord
    notice: ClassVar[str] = message("made-up records with these items; none is a person's")
    words: ClassVar = ProductWords(
        label="synthetic rows",
        registered="Synthetic data",
        made="Synthetic rows",
        remark="No row is a person's; record.html says what they are good for.",
        data="Synthetic rows.",
        value="Synthetic value.",
    )

    def groups(self, groups: tuple[FieldGroup, ...]) -> tuple[FieldGroup, ...]:
        """Return the sections, some of them filled in another way."""
        return synthetic_groups(groups)

    def columns(self, run: Run) -> set[str]:
        """Name the columns that the fit is about."""
        return set(run.facts.synthetic[0].task.domain.columns)

    def stated(self, run: Run) -> dict[str, Any]:
        """Return the product with all its options, what was drawn, and what follows from it."""
        return {"product": resolved_product(run), **synthetic_part(run)}

    def published(
        self, record: SyntheticRecord, contract: Contract, product: Any, accounts: Any, reserved: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return plan and fit."""
        return fit_of(record, contract, product)

    def files(self, record: SyntheticRecord) -> Iterator[tuple[str, ShownFile]]:
        """Yield the files of what was drawn."""
        yield record.replay.rows.data, ("", "data", "dense")
        for modifier in modifiers_of_replay(record.replay):
            yield from modifier.files(record.replay)
        yield from drawn_files(record.replay.draws)

    def data_columns(self, values: Values, path: str) -> Mapping[str, DataColumn]:
        """Return nothing: every column is a declared one."""
        return {}


def synthetic_part(run: Run) -> dict[str, Any]:
    """Return what the rows are computed from, beside the files."""
    facts, (_, made) = run.facts, run.facts.synthetic
    part: dict[str, Any] = {
        "draws": stated_draws(facts),
        "model": {
            "kind": made.model.kind,
            "values": MODEL_VALUES,
            "arrays": MODEL_ARRAYS,
            "rows": made.model.rows,
            "sha256": arrays_digests(made.model),
        },
        "rows": stated_rows(rows_file(made, facts), made.rows_from),
        "notes": messages_to_json(made.fitted.notes),
    }
    for modifier in record_modifiers(facts.spec.product):
        for name, stated in modifier.replay(run).items():
            part[name] = {**part[name], **stated} if name in part else stated
    return part


def arrays_digests(model: Model) -> dict[str, str]:
    """Return the SHA-256 of each of the model's arrays: little-endian int64, row-major."""
    return {name: values_digest(array) for name, array in model.to_arrays()[1].items()}
