"""Rule 11, asked for by `--deep`: fit the model again from the published measurements and choices, and compare.

The generator itself is run again, with a grant that draws nothing: it hands out what was published, in the order in
which it is asked for, and refuses anything else. So it is checked, too, that measurements and choices are those that
this generator with these options makes, given the answers before them; that a choice names the candidate at its
place; and that nothing was measured beside. Estimation is floating point: models are compared up to a tolerance.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from pydantic import ValidationError

from contracts.errors import Finding, SudareError
from privacy.generators.generator import Generator, Model, OutOfTime
from privacy.generators.registry import generator
from privacy.generators.release_plan import plan_synthetic
from tasks.records.model.synthetic_statements import SyntheticReplay
from tasks.records.strict_json import printable
from tasks.storage.progress import Bar
from tasks.verification.fitted.model_distance import OTHER_FIT, WHERE, compare_models
from tasks.verification.fitted.model_reader import UNREADABLE
from tasks.verification.fitted.stand_in_grant import NoCounts, PublishedDraws, PublishedValues, without_limit
from tasks.verification.fitted_meaning import FittedEvent, SyntheticMeaning


def reestimate(
    replay: SyntheticReplay,
    events: Sequence[FittedEvent],
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
    try:
        epsilon, delta = Decimal(replay.charge.epsilon), Decimal(replay.charge.delta)
        made_by: Generator[Any] = generator(meaning.product.generator)
        options = made_by.options.model_validate(meaning.product.options)
        unlimited = without_limit(options)
        noise = replay.charge.planned_for
        product, contract = meaning.product, meaning.contract
        plan = plan_synthetic(product, contract, unlimited, epsilon=epsilon, delta=delta, noise_epsilon=noise)
    except (SudareError, ValidationError, InvalidOperation, ValueError) as error:
        return [], [f"the fit: this installation cannot plan it ({printable(str(error))})"]
    grant = PublishedDraws(replay, events, values, meaning)
    try:
        fitted = made_by.fit(plan.asked, unlimited, plan.made, NoCounts(meaning), grant, bar.advance)
    except OutOfTime:
        return [], ["the fit: it was stopped by its time limit, and cannot be followed from there"]
    except UNREADABLE as error:
        allowed = "the draws that the generator asks for"
        return [Finding(WHERE, "the fit", printable(str(error)), allowed, OTHER_FIT)], []
    findings = []
    limited = getattr(options, "time_limit", None) is not None
    if grant.asked != len(replay.draws) or (grant.ran_out and not limited):
        wanted = "more than these" if grant.ran_out else f"the {grant.asked} that the generator asks for"
        findings.append(Finding(WHERE, "the draws", f"{len(replay.draws)} draws", wanted, OTHER_FIT))
    return findings + compare_models(published, fitted.model, [draw.clique for draw in replay.draws]), []
