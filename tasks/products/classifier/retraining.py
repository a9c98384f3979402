"""Rule 11 of a model, asked for by `--deep`: train again from what was published, and compare the weights.

The trainer itself is run again, with a grant that draws nothing: it hands out what was published, in the order in
which it is asked for, and refuses anything else. Weights that follow from noisy values by arithmetic come out the
same byte for byte; where rows are made of a noisy model and trained on, floating point leaves a tolerance.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Final

import numpy as np
from pydantic import ValidationError

from contracts.errors import Finding, SudareError
from privacy.classifiers.classifier_model import ClassifierModel
from privacy.classifiers.model_plan import plan_model
from privacy.classifiers.registry import trainer
from privacy.generators.generator import OutOfTime
from privacy.marginals.seeds import PostProcessingSeed
from tasks.products.classifier.classifier_statement_checks import WEIGHTS, ModelMeaning
from tasks.records.model.classifier_statements import ModelReplay
from tasks.records.strict_json import printable
from tasks.storage.progress import Bar
from tasks.verification.fitted.model_reader import UNREADABLE
from tasks.verification.fitted.stand_in_grant import (
    NoCounts,
    OtherDraw,
    PublishedDraws,
    PublishedValues,
    without_limit,
)
from tasks.verification.fitted_meaning import FittedEvent

SHARE: Final = 0.01
"""By how much of a layer's largest weight the weights of a training on made-up rows may differ."""
OTHER_TRAINING: Final = "the weights are not what the trainer makes of the published values: do not use this version"


def retrain(
    replay: ModelReplay,
    events: Sequence[FittedEvent],
    values: PublishedValues,
    meaning: ModelMeaning,
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
    try:
        epsilon, delta = Decimal(replay.charge.epsilon), Decimal(replay.charge.delta)
        made_by = trainer(meaning.product.trainer)
        options = made_by.options.model_validate(meaning.product.options)
        unlimited = without_limit(options)
        noise = replay.charge.planned_for
        product, contract = meaning.product, meaning.contract
        plan = plan_model(product, contract, unlimited, epsilon=epsilon, delta=delta, noise_epsilon=noise)
    except (SudareError, ValidationError, InvalidOperation, ValueError) as error:
        return [], [f"the training: this installation cannot plan it ({printable(str(error))})"]
    grant = PublishedDraws(replay, events, values, meaning)
    try:
        fitted = made_by.fit(
            plan.asked,
            unlimited,
            plan.made,
            NoCounts(meaning),
            grant,
            bar.advance,
            lambda: _seed(replay),
        )
    except OutOfTime:
        return [], ["the training: it was stopped by its time limit, and cannot be followed from there"]
    except UNREADABLE as error:
        found, allowed = printable(str(error)), "the draws that the trainer asks for"
        return [Finding(WEIGHTS, "the training", found, allowed, OTHER_TRAINING)], []
    findings = []
    if grant.asked != len(replay.draws) or grant.ran_out:
        wanted = f"the {grant.asked} that the trainer asks for"
        findings.append(Finding(WEIGHTS, "the draws", f"{len(replay.draws)} draws", wanted, OTHER_TRAINING))
    return findings + _compare(published, fitted.model, exactly=replay.seed is None), []


def _seed(replay: ModelReplay) -> PostProcessingSeed:
    if replay.seed is None:
        raise OtherDraw("a seed was asked for, and none was published")
    return PostProcessingSeed(int(replay.seed, 16))


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
