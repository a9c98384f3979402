"""Rule 11 of a model, asked for by `--deep`: train again from what was published (`refit`), and compare the weights.

Weights that follow from noisy values by arithmetic come out the same byte for byte; where rows are made of a noisy
model and trained on, floating point leaves a tolerance.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np

from contracts.errors import Finding
from privacy.accounting.events import PrivacyEvent
from privacy.classifiers.classifier import ClassifierModel
from privacy.classifiers.trainer import plan_classifier, trainer
from tasks.products.classifier.classifier_statement_checks import WEIGHTS, ClassifierMeaning
from tasks.records.model.version_statements import ClassifierReplay
from tasks.storage.progress import Bar
from tasks.verification.draws.draw_checks import PublishedValues
from tasks.verification.fitted.refit import Refit, refit

SHARE: Final = 0.01
"""By how much of a layer's largest weight the weights of a training on made-up rows may differ."""
OTHER_TRAINING: Final = "the weights are not what the trainer makes of the published values: do not use this version"


def retrain(
    replay: ClassifierReplay,
    events: Sequence[PrivacyEvent],
    values: PublishedValues,
    meaning: ClassifierMeaning,
    published: ClassifierModel,
    bar: Bar,
) -> tuple[list[Finding], list[str]]:
    """Train again, and compare.

    Args:
        replay: the record's replay block.
        events: the event of each draw.
        values: the published noisy values.
        meaning: contract and product.
        published: the published model.
        bar: told how far it is.
    Returns:
        tuple: what is wrong, and what could not be checked.
    """
    product = meaning.product
    again = Refit(
        partial(trainer, product.trainer),
        partial(plan_classifier, product, meaning.contract),
        product.options,
        process="training",
        noun="trainer",
        where=WEIGHTS,
        remedy=OTHER_TRAINING,
        seed=replay.seed,
    )
    fitted, findings, skipped = refit(again, replay, events, values, meaning, bar)
    if fitted is not None:
        findings += _compare(published, fitted.model, exactly=replay.seed is None)
    return findings, skipped


def _compare(published: ClassifierModel, again: ClassifierModel, *, exactly: bool) -> list[Finding]:
    """Compare the weights: byte for byte, or up to a share of each layer's largest."""
    if exactly:
        same = published.to_bytes() == again.to_bytes()
        allowed = "the bytes that come out of the training"
    else:
        same = published.widths == again.widths and all(
            np.abs(one.astype(np.float64) - other).max() <= SHARE * max(float(np.abs(other).max()), 1e-9)
            for mine, theirs in zip(published.layers, again.layers, strict=True)
            for one, other in zip(mine, theirs, strict=True)
        )
        allowed = f"those trained again, up to {SHARE:g} of the largest"
    return [] if same else [Finding(WEIGHTS, "weights", "other weights", allowed, OTHER_TRAINING)]
