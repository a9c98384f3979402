"""Rule 11 of synthetic rows, asked for by `--deep`: fit the model again (`refit`), and compare.

Estimation is floating point: models are compared up to a tolerance.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from contracts.errors import Finding
from privacy.accounting.events import PrivacyEvent
from privacy.generators.calibration import generator, plan_synthetic
from privacy.generators.generator import Model
from tasks.records.model.version_statements import SyntheticReplay
from tasks.storage.progress import Bar
from tasks.verification.draws.draw_checks import PublishedValues
from tasks.verification.fitted.model_distance import OTHER_FIT, WHERE, compare_models
from tasks.verification.fitted.refit import Refit, refit
from tasks.verification.fitted_meaning import SyntheticMeaning


def reestimate(
    replay: SyntheticReplay,
    events: Sequence[PrivacyEvent],
    values: PublishedValues,
    meaning: SyntheticMeaning,
    published: Model,
    bar: Bar,
) -> tuple[list[Finding], list[str]]:
    """Fit again, and compare the models.

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
        partial(generator, product.generator),
        partial(plan_synthetic, product, meaning.contract),
        product.options,
        process="fit",
        noun="generator",
        where=WHERE,
        remedy=OTHER_FIT,
        seed=replay.rows.seed,
    )
    fitted, findings, skipped = refit(again, replay, events, values, meaning, bar)
    if fitted is not None:
        findings += compare_models(published, fitted.model, [draw.clique for draw in replay.draws])
    return findings, skipped
