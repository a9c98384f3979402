"""Classifiers: a trainer plans and draws, and weights, inputs, card and what was drawn are written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from tasks.products.classifier.classifier_training import train_classifier
from tasks.products.product_kind import Making, MakingStep
from tasks.records.draws.drawn import write_drawn
from tasks.records.facts import Outputs, RunFacts
from tasks.records.files.classifier_files import write_network
from tasks.records.files.tidy_tables import WrittenFile


def _trained(making: Making, _before: None) -> Outputs:
    terms = making.plan, making.table, making.contract, making.folder, making.run_key
    return Outputs(classifier=train_classifier(making.grant, *terms))


class ClassifierMaking:
    """Classifiers."""

    steps: ClassVar[tuple[MakingStep, ...]] = (MakingStep("train", _trained),)

    def write_files(self, facts: RunFacts, folder: Path, *, marks: Mapping[str, str]) -> tuple[WrittenFile, ...]:
        """Write weights, inputs, card, and what was drawn."""
        drawn = write_drawn(facts.trained[1].fitted, facts, folder, marks=marks)
        return (*write_network(facts, folder), *drawn)
