"""Trainers by name."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import Final

from privacy.classifiers.trainer import AnyTrainer
from privacy.generators.generator import CannotGenerate

TRAINERS: Final = {
    "anonymizing_first": ("privacy.classifiers.anonymizing_first", "AnonymizingFirst"),
    "dp_sgd": ("privacy.classifiers.dp_sgd", "DpSgd"),
    "learning_first": ("privacy.classifiers.learning_first", "LearningFirst"),
    "anonymized_learning": ("privacy.classifiers.anonymized_learning", "AnonymizedLearning"),
}


def trainer(name: str) -> AnyTrainer:
    """Return the trainer of that name; only its own module is loaded.

    Raises:
        CannotGenerate: there is none, with the nearest name.
    """
    if name not in TRAINERS:
        near = get_close_matches(name, TRAINERS, n=1, cutoff=0.5)
        meant = f"; do you mean {near[0]!r}?" if near else "; do: take one of these"
        raise CannotGenerate(f"product.trainer: no trainer {name!r}; allowed: {', '.join(TRAINERS)}{meant}")
    module, kind = TRAINERS[name]
    made: AnyTrainer = getattr(import_module(module), kind)()
    return made
