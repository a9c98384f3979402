"""The groups of the record of a classifier: its product's section, and fields that are filled in another way."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

from contracts.contract.contract import Contract
from contracts.message import message, messages_to_json
from privacy.accounting.amounts import atto_to_text, pico_to_text
from privacy.classifiers.trainer import trainer
from privacy.generators.rows import seed_text
from tasks.records.draws.marginal import drawn_files, stated_draws
from tasks.records.files.classifier_files import CARD, INPUTS, WEIGHTS
from tasks.records.fitted_groups.synthesis_groups import (
    choices,
    conversion_words,
    draws,
    measured,
    mechanism,
    samplers,
    sensitivities,
    with_fills,
)
from tasks.records.groups.field import NONE, FieldGroup, Run, public, with_sections
from tasks.records.groups.guarantee import GUARANTEE, LEDGER, NOISE
from tasks.records.groups.origin import OUTPUT
from tasks.records.groups.terms import UNIT, UNPROTECTED
from tasks.records.model.record_kinds import DataColumn, ProductWords, ShownFile
from tasks.records.model.version_statements import ClassifierRecord
from tasks.records.published_fit import fit_of, resolved_product
from tasks.records.values import Values

USES: Final = (
    message(
        "Classify rows of which the columns of product.columns but the label are known, encoded as model/inputs.json "
        "says."
    ),
    message(
        "Test it on rows of your own before you rely on it: how good it is on the confidential rows is not published."
    ),
    message(
        "Do not decide about a person by it alone: it says what is usual for people like that, and may be wrong."
    ),
    message("Do not read more into a single weight than its noise leaves: the smallest ones are mostly noise."),
)
KNOWN_BIAS: Final = message(
    "noise and clipping pull the model to what is common: it errs more on small groups than on large ones, and by "
    "more than a model without noise would"
)
ATTACKS: Final = message(
    "not published: attacks by whoever has the rows (membership, by loss and by shadow models) are private scores, "
    "for auditors only; what no attacker can exceed follows from guarantee.epsilon and guarantee.delta"
)


def network(run: Run) -> dict[str, Any]:
    """Describe the network: its layers, and what is between them."""
    model = run.facts.trained[1].model
    return {
        "widths": list(model.widths),
        "activation": message("max(0, x) between the layers, softmax after the last"),
        "loss": message("cross entropy"),
        "parameters": model.parameters,
    }


def guarantees(run: Run) -> dict[str, Any]:
    """State the joint guarantee, which is charged, and that of each parameter by itself, which is reported only."""
    request, plan = run.facts.charge.request, run.facts.trained[0]
    alone = per_parameter(run)
    return {
        "joint": {
            "epsilon": pico_to_text(request.epsilon),
            "delta": atto_to_text(request.delta),
            "bounds": message("all weights and biases together; this is what the account is charged"),
        },
        "per_parameter": {"epsilon": NONE if alone is None else alone, "bounds": trainer(plan.generator).summary},
    }


def per_parameter(run: Run) -> str | None:
    """Return the epsilon of each parameter by itself, where the trainer has one that is not the joint one."""
    plan = run.facts.trained[0]
    return trainer(plan.generator).per_parameter(plan.task, plan.options)


def clamped(run: Run) -> dict[str, str] | str:
    """Give the ranges to which all weights and all biases were clamped, where they were."""
    bounds = run.facts.trained[1].model.bounds
    return NONE if bounds is None else bounds.to_json()


def seed(run: Run) -> str:
    """Give the seed of post-processing, where there is one."""
    drawn = run.facts.trained[1].seed
    return NONE if drawn is None else seed_text(drawn)


def classifier_mechanism_choice(run: Run) -> dict[str, Any]:
    """Say who chose what is noisy, and how much."""
    return {"by": message("the trainer {trainer}, within the charge", trainer=run.facts.trained[0].generator)}


def row_count(run: Run) -> str:
    """Say that no number of rows is published."""
    return message(
        "none: no rows are published; a number of rows that stands in product.options was declared by the spec"
    )


def partitioning(run: Run) -> str:
    """Say how the files are split."""
    files = sum(file.role not in ("weights", "inputs", "card") for file in run.files)
    return message("none: all weights in one file; {files} files of what was measured or trained", files=files)


MODEL: Final = FieldGroup(
    "product",
    "Model",
    (
        public("trainer", "What made the model.", lambda run: run.facts.trained[0].generator),
        public(
            "options",
            "Its options, with those that nobody wrote. What is not listed follows from the charge and the columns.",
            lambda run: dict(run.facts.trained[0].resolved_options),
        ),
        public("label", "The column that the model tells.", lambda run: run.facts.trained[0].task.label),
        public(
            "columns",
            "The columns that were learned from, the label among them.",
            lambda run: list(run.facts.trained[0].task.domain.columns),
        ),
        public("network", "The network.", network),
        public("clamped", "Ranges to which all weights, and all biases, were clamped.", clamped),
        public("guarantees", "The joint guarantee, and that of each parameter by itself.", guarantees),
        public("measured", "What was measured or trained, with its noise.", measured),
        public("choices", "Private choices of what to measure.", choices),
        public("seed", "Seed of post-processing.", seed),
        public("files", "Weights, contract of inputs, and model card.", lambda run: [WEIGHTS, INPUTS, CARD]),
        public("notes", "What the trainer says about this training.", lambda run: notes(run)),
        public("known_bias", "What the model is known to get wrong.", lambda run: KNOWN_BIAS),
        public("uses", "What the model is good for, and what not.", lambda run: list(USES)),
        public("attacks", "How well attacks on the model work: private, and not published.", lambda run: ATTACKS),
    ),
)


def notes(run: Run) -> list[str] | str:
    """Return what the trainer says about this training."""
    return list(run.facts.trained[1].fitted.notes) or NONE


def classifier_groups(groups: tuple[FieldGroup, ...]) -> tuple[FieldGroup, ...]:
    """Return the groups of the record of a classifier, in the order of those of tables."""
    return with_sections(groups, (*_CHANGED, MODEL))


_CHANGED: Final = (
    with_fills(UNIT, sensitivity=sensitivities),
    with_fills(GUARANTEE, conversion=conversion_words),
    with_fills(LEDGER, draws=draws),
    with_fills(UNPROTECTED, exact_total=lambda run: NONE),
    with_fills(NOISE, mechanism=mechanism, mechanism_choice=classifier_mechanism_choice, samplers=samplers),
    with_fills(OUTPUT, row_count_origin=row_count, partitioning=partitioning),
)


# --- The part of a released model's `replay` that others do not have.


class ClassifierRecordPart:
    """The record of a classifier."""

    model: ClassVar = ClassifierRecord
    notice: ClassVar[str] = message("the weights of a classifier of these items; no record of a person")
    words: ClassVar = ProductWords(
        label="a classifier",
        registered="Machine learning model",
        made="A classifier",
        remark="Its weights are noisy; model/card.md says what it is good for.",
    )

    def groups(self, groups: tuple[FieldGroup, ...]) -> tuple[FieldGroup, ...]:
        """Return the sections, some of them filled in another way."""
        return classifier_groups(groups)

    def columns(self, run: Run) -> set[str]:
        """Name the columns that the fit is about."""
        return set(run.facts.trained[0].task.domain.columns)

    def stated(self, run: Run) -> dict[str, Any]:
        """Return the product with all its options, what was drawn, and what follows from it."""
        return {"product": resolved_product(run), **classifier_part(run)}

    def published(
        self, record: ClassifierRecord, contract: Contract, product: Any, accounts: Any, reserved: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return plan and fit."""
        return fit_of(record, contract, product)

    def files(self, record: ClassifierRecord) -> Iterator[tuple[str, ShownFile]]:
        """Yield the files of what was drawn."""
        yield from drawn_files(record.replay.draws)

    def data_columns(self, values: Values, path: str) -> Mapping[str, DataColumn]:
        """Return nothing: a model has no file of data."""
        return {}


def classifier_part(run: Run) -> dict[str, Any]:
    """Return what the weights follow from, beside the files."""
    made = run.facts.trained[1]
    model = made.model
    return {
        "draws": stated_draws(run.facts),
        "model": {
            "weights": WEIGHTS,
            "inputs": INPUTS,
            "card": CARD,
            "widths": list(model.widths),
            "range": None if model.bounds is None else list(model.bounds.texts),
            "sha256": hashlib.sha256(model.to_bytes()).hexdigest(),
        },
        "seed": None if made.seed is None else seed_text(made.seed),
        "notes": messages_to_json(made.fitted.notes),
    }
