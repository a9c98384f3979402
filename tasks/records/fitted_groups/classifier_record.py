"""The part of a released model's `replay` that others do not have: draws, and what the weights follow from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from contracts.contract.contract import Contract
from contracts.message import message, messages_to_json
from privacy.generators.rows import seed_text
from tasks.records.draws.drawn import drawn_files, stated_draws
from tasks.records.files.classifier_files import CARD, INPUTS, WEIGHTS
from tasks.records.fitted_groups.classifier_groups import classifier_groups
from tasks.records.groups.field import FieldGroup, Run
from tasks.records.model.classifier_statements import ClassifierRecord
from tasks.records.model.record_kinds import DataColumn, ProductWords, ShownFile
from tasks.records.published_fit import fit_of, resolved_product
from tasks.records.values import Values


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
