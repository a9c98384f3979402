"""The files of a classifier: weights, contract of inputs, and model card."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from contracts.canonical import readable_json
from privacy.accounting.amounts import atto_to_text, pico_to_text
from privacy.classifiers.classifier import CardTerms, card_of, inputs_of
from privacy.classifiers.trainer import trainer
from tasks.records.facts import RunFacts
from tasks.records.files.synthetic_files import MODEL
from tasks.records.files.tidy_tables import WrittenFile, written

WEIGHTS: Final = f"{MODEL}/model.safetensors"
INPUTS: Final = f"{MODEL}/inputs.json"
CARD: Final = f"{MODEL}/card.md"


def write_network(facts: RunFacts, folder: Path) -> tuple[WrittenFile, ...]:
    """Write weights, contract of inputs and card of a run that trained a classifier.

    Args:
        facts: the finished run.
        folder: the version's folder.
        marks: what each Parquet file says about where it comes from.
    Privacy: released and public values only.
    """
    made = facts.trained[1]
    (folder / MODEL).mkdir(parents=True, exist_ok=True)
    model = made.model
    inputs = inputs_of(facts.contract, facts.spec.classifier_product, model.widths, model.bounds)
    (folder / WEIGHTS).write_bytes(model.to_bytes())
    (folder / INPUTS).write_bytes(readable_json(inputs))
    (folder / CARD).write_bytes(card_of(card_terms(facts), {"weights": WEIGHTS, "inputs": INPUTS}))
    return (
        written(folder, WEIGHTS, "", "weights", model.parameters, ()),
        written(folder, INPUTS, "", "inputs", 1, ()),
        written(folder, CARD, "", "card", 1, ()),
    )


def card_terms(facts: RunFacts) -> CardTerms:
    """Return what the card says, from the run."""
    plan, made = facts.trained
    request = facts.charge.request
    return CardTerms(
        release=facts.version.release,
        version=facts.version.number,
        title=facts.contract.name,
        trainer=plan.generator,
        summary=trainer(plan.generator).summary,
        label=plan.task.label,
        names=plan.task.domain.columns,
        widths=made.model.widths,
        epsilon=pico_to_text(request.epsilon),
        delta=atto_to_text(request.delta),
        unit=facts.contract.unit.column or "row",
        adjacency=facts.contract.adjacency,
        notes=made.fitted.notes,
    )
