"""The section product of a synthetic release: how the rows were made, and what they are good for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from contracts.message import SENTENCES, joined, message
from privacy.generators.rows import seed_text
from tasks.records.draws.choice import choice_entry
from tasks.records.draws.drawn import measured as measured_draws
from tasks.records.files.synthetic_files import MODEL_ARRAYS, MODEL_VALUES
from tasks.records.groups.field import NONE, FieldGroup, Run, public
from tasks.records.modifiers.record_modifier import record_modifiers

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
