"""The checks of a version of a classifier: rules 5, 6, 8 and 9, and 11 where it is asked for."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from decimal import InvalidOperation
from typing import ClassVar, Final

from pydantic import BaseModel, ValidationError

from contracts.canonical import readable_json
from contracts.errors import Finding, SudareError
from privacy.accounting.amounts import atto_to_text, pico_to_text
from privacy.classifiers.classifier import (
    CardTerms,
    ClassifierModel,
    ParameterRange,
    card_of,
    classifier_layout,
    inputs_of,
    read_classifier,
)
from privacy.classifiers.trainer import ClassificationTask, classification_task, trainer
from privacy.generators.calibration import TRAINERS
from tasks.products.classifier.classifier_statement_checks import (
    CARD,
    INPUTS,
    WEIGHTS,
    ClassifierMeaning,
    check_network,
    read_classifier_meaning,
    required_files,
)
from tasks.products.classifier.retraining import retrain
from tasks.records.model.manifest import Manifest
from tasks.records.model.version_statements import ClassifierRecord
from tasks.records.strict_json import printable
from tasks.storage.progress import Bar
from tasks.verification.draws.draw_checks import PublishedValues
from tasks.verification.files.folder import OpenFiles
from tasks.verification.fitted.fit_options import check_options, check_perturbation
from tasks.verification.fitted.fitted_checks import FittedChecks
from tasks.verification.fitted_meaning import check_own_fields
from tasks.verification.outcomes import RuleFindings
from tasks.verification.record_identity import check_file_list

SEED: Final = "whether the seed of the training was drawn blindly, and not chosen with a look at the data"
WEIGHTS_UNTOLD: Final = (
    "whether the weights hold nothing but what the measurements tell: --deep makes rows of them and trains again"
)
OTHER_WEIGHTS: Final = "the weights are not those that follow from the noisy values: do not use this version"
_OTHER_TEXT: Final = "it says something else than the record: go by the record"


class ClassifierChecks(FittedChecks[ClassifierRecord, ClassifierMeaning, ClassifierModel]):
    """The checks of a version of a classifier."""

    statement: ClassVar = ClassifierRecord
    registry = TRAINERS

    @property
    def untold(self) -> tuple[str, ...]:
        """Where rows are made of the measurements: how their seed was come by, and the training without `--deep`."""
        if self._record.replay.seed is None:
            return ()
        return (SEED,) if self._fitted_again else (WEIGHTS_UNTOLD, SEED)

    @property
    def rules(self) -> Mapping[int, str]:
        """Rules 8, 9 and 11, as they read for a model."""
        return {
            8: "noisy measurements, checkpoints and parameters, and private choices",
            9: "weights, contract of inputs and model card follow from what was published",
            11: "model trained again from the noisy values",
        }

    def read(self) -> list[Finding]:
        """Read contract and product again."""
        self.meaning, findings = read_classifier_meaning(self._record.replay, where=self._where)
        return findings or self._read_fitter()

    def check_files(self, manifest: Manifest) -> list[Finding]:
        """Check that weights, inputs, card and what was drawn are all there, and nothing else."""
        required = required_files(self._record.replay)
        return check_file_list(required, set(), manifest.files, where=self._manifest_name)

    def check_product(self) -> list[Finding]:
        """Check the network against the product, and what people are told of it."""
        if self.meaning is None:
            return []
        meaning, draws = self.meaning, self._record.replay.draws
        fitter, written = trainer(meaning.product.trainer), meaning.product.options
        findings = check_network(self._record.replay, meaning, where=self._where)
        findings += check_options(draws, fitter.options, written, where=self._where)
        findings += check_perturbation(draws, fitter, lambda: self._task(meaning), where=self._where)
        self._sound = self._sound and not findings
        return findings + check_own_fields(self._record, self.meaning.product.options, where=self._where)

    def _fit_again(
        self, values: PublishedValues, meaning: ClassifierMeaning, model: ClassifierModel, bar: Bar
    ) -> RuleFindings:
        return retrain(self._record.replay, self.events, values, meaning, model, bar)

    def _check_outcome(self, files: OpenFiles, meaning: ClassifierMeaning) -> list[Finding]:
        findings: list[Finding] = []
        replay = self._record.replay
        weights, inputs, card = (files.read(name, findings) for name in (WEIGHTS, INPUTS, CARD))
        try:
            asked, options = self._task(meaning)
            bounds = _bounds(replay.model.range)
            layout = classifier_layout(meaning.contract, meaning.product)
            expected = readable_json(inputs_of(meaning.contract, meaning.product, replay.model.widths, bounds))
            described = card_of(self._card(meaning), {"weights": WEIGHTS, "inputs": INPUTS})
            if weights is not None:
                self._model = read_classifier(weights, layout, meaning.product.label, bounds)
        except (SudareError, ValidationError, InvalidOperation, ValueError) as error:
            found, allowed = printable(str(error)), "a classifier of this product"
            return [*findings, Finding(WEIGHTS, "the model", found, allowed, OTHER_WEIGHTS)]
        for name, data, wanted in ((INPUTS, inputs, expected), (CARD, card, described)):
            if data is not None and data != wanted:
                allowed = "the bytes that follow from contract and record"
                findings.append(Finding(name, "the file", "other bytes", allowed, _OTHER_TEXT))
        if weights is None or self._model is None:
            return findings
        measured = sum(draw.measurements is not None for draw in replay.draws)
        if len(self._values) != measured:
            files.skipped.append(f"{WEIGHTS}: not all that was drawn for it can be read")
            return findings
        return findings + self._check_weights(weights, self._model, asked, options)

    def _asked(self, meaning: ClassifierMeaning) -> ClassificationTask:
        return self._task(meaning)[0]

    def _task(self, meaning: ClassifierMeaning) -> tuple[ClassificationTask, BaseModel]:
        """Return what the trainer was asked for, read again."""
        charge = self._record.replay.charge
        epsilon, delta = charge.amounts
        options = trainer(meaning.product.trainer).options.model_validate(meaning.product.options)
        asked = classification_task(meaning.product, meaning.contract, epsilon=epsilon, delta=delta)
        return replace(asked, epsilon=charge.planned_for), options

    def _card(self, meaning: ClassifierMeaning) -> CardTerms:
        replay, contract = self._record.replay, meaning.contract
        return CardTerms(
            release=self._record.release,
            version=self._record.version,
            title=contract.name,
            trainer=meaning.product.trainer,
            summary=trainer(meaning.product.trainer).summary,
            label=meaning.product.label,
            names=meaning.names,
            widths=replay.model.widths,
            epsilon=pico_to_text(replay.claim.epsilon),
            delta=atto_to_text(replay.claim.delta),
            unit=contract.unit.column or "row",
            adjacency=contract.adjacency,
            notes=replay.said,
        )

    def _check_weights(
        self, weights: bytes, model: ClassifierModel, task: ClassificationTask, options: BaseModel
    ) -> list[Finding]:
        """Check form and digest of the weights, and that they follow from the noisy values."""
        made_by, stated = trainer(self._record.replay.product["trainer"]), self._record.replay.model
        found = hashlib.sha256(weights).hexdigest()
        pairs: list[tuple[str, object, object]] = [
            ("SHA-256", found, stated.sha256),
            ("the bytes", hashlib.sha256(model.to_bytes()).hexdigest(), found),
            ("layers", model.widths, stated.widths),
            ("range", model.bounds, made_by.bounds(options)),
            ("layers", model.widths, task.widths(made_by.hidden(options))),
        ]
        try:
            again = made_by.weights(task, options, self._values)
        except ValueError as error:
            allowed = "noisy values of a network of this product"
            return [Finding(WEIGHTS, "weights", printable(str(error)), allowed, OTHER_WEIGHTS)]
        if again is not None:
            made = ClassifierModel(model.layout, model.label, again, model.bounds).to_bytes()
            pairs.append(("weights", found, hashlib.sha256(made).hexdigest()))
        return [
            Finding(WEIGHTS, field, printable(str(found)), printable(str(wanted)), OTHER_WEIGHTS)
            for field, found, wanted in pairs
            if found != wanted
        ]


def _bounds(stated: tuple[str, ...] | None) -> ParameterRange | None:
    return None if stated is None else ParameterRange.of(stated)
