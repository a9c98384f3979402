"""Are the options of a product ones that its generator or trainer takes, and do they lead to what was drawn?

1. the generator or trainer reads them
2. the plan of a training by DP-SGD is the one that they lead to, at the noise that was charged
3. what is said of noisy parameters is what they lead to, and so is the noise of each draw

An event holds a noise multiplier, a probability and a number of steps. It does not hold the norm to which gradients
were clipped, nor how many rows there are. What no event and no published number shows is the publisher's word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from contracts.errors import Finding, SudareError
from privacy.accounting.events import event_from_json
from privacy.classifiers.trainer import ClassificationTask, Trainer
from privacy.generators.generator import non_default_options
from tasks.records.draws.draws import TrainingDraw
from tasks.records.draws.marginal import ParameterDraw
from tasks.records.model.version_statements import FittedDraw
from tasks.records.strict_json import printable
from tasks.verification.record_identity import OTHER, differences

OPTIONS: Final = "replay.product.options"
_ALLOWED: Final = "as the product's options lead to"
_OF_TRAININGS: Final = tuple(
    f"replay.draws.training.plan.{name}" for name in ("clipping_norm", "expected_batch_size")
)
_OF_PARAMETERS: Final = ("replay.draws.parameters.perturbation",)
_OF_VOTES: Final = ("replay.draws.candidates", "replay.draws.label")


def check_options(
    draws: Sequence[FittedDraw], form: type[BaseModel], written: Mapping[str, Any], *, where: str
) -> list[Finding]:
    """Check that options are of their form, and that they lead to the plan of each training.

    Args:
        draws: all draws of the version.
        form: the options of its generator or trainer.
        written: the options that the product states.
        where: the record's file name.
    """
    from privacy.generators.latent import TrainingOptions, plan_of

    try:
        options = form.model_validate(written)
        if not isinstance(options, TrainingOptions):
            return []
        placed = [(place, draw) for place, draw in enumerate(draws) if isinstance(draw, TrainingDraw)]
        plans = [plan_of(options, [event_from_json(draw.event)]).to_json() for _, draw in placed]
    except (SudareError, ValidationError, ValueError, TypeError) as error:
        return [_misfit(error, where)]
    findings: list[Finding] = []
    for (place, draw), plan in zip(placed, plans, strict=True):
        stated, at = draw.training.plan, f"replay.draws[{place}].training.plan"
        pairs = [(f"{at}.{name}", stated.get(name), value) for name, value in plan.items()]
        findings += differences(pairs, where=where, allowed=_ALLOWED)
    return findings


def check_perturbation(
    draws: Sequence[FittedDraw],
    fitter: Trainer[Any],
    read: Callable[[], tuple[ClassificationTask, BaseModel]],
    *,
    where: str,
) -> list[Finding]:
    """Check that options lead to what is said of noisy parameters, and to the noise of each draw.

    Args:
        draws: all draws of the version.
        fitter: its trainer.
        read: reads what it was asked for, and its options.
        where: the record's file name.
    """
    placed = [(place, draw) for place, draw in enumerate(draws) if isinstance(draw, ParameterDraw)]
    if not placed:
        return []
    try:
        task, options = read()
        perturbation = fitter.perturbation(task, options)
        made = {} if perturbation is None else perturbation.to_json()
        planned = [event.to_json() for event in fitter.plan(task, options).events]
    except (SudareError, ValidationError, ArithmeticError, ValueError, TypeError) as error:
        return [_misfit(error, where)]
    pairs: list[tuple[str, object, object]] = [("replay.draws, of parameters", len(placed), len(planned))]
    for (place, draw), event in zip(placed, planned, strict=False):
        stated = draw.parameters.perturbation
        for name, found, wanted in (("event", draw.event, event), ("parameters.perturbation", stated, made)):
            at = f"replay.draws[{place}].{name}"
            pairs += [(f"{at}.{field}", found.get(field), wanted.get(field)) for field in {**wanted, **found}]
    return list(differences(pairs, where=where, allowed=_ALLOWED))


def options_on_word(
    draws: Sequence[FittedDraw], form: type[BaseModel], stated: Mapping[str, Any], *, fitted_again: bool
) -> tuple[str, ...]:
    """Name the options on the publisher's word: without `--deep` all, with it those of a fit on private rows.

    Those that differ from the defaults of this version are named one by one. `replay.product.options` stands for all
    others, also for those that are not stated, and always for what no fit shows, such as a time limit. For which
    candidates rows voted no number of a draw shows either: a fit made again comes to them.

    Args:
        draws: all draws of the version.
        form: the options of its generator or trainer.
        stated: the options that the product states.
        fitted_again: whether `--deep` has fitted again.
    """
    trained = any(isinstance(draw, TrainingDraw) for draw in draws)
    perturbed = any(isinstance(draw, ParameterDraw) for draw in draws)
    chosen = sorted(non_default_options(form, stated)) if trained or perturbed or not fitted_again else ()
    voted = not fitted_again and any(draw.kind == "votes" for draw in draws)
    told = (trained, _OF_TRAININGS), (perturbed, _OF_PARAMETERS), (voted, _OF_VOTES)
    named = (*(f"{OPTIONS}.{name}" for name in chosen), OPTIONS)
    return (*named, *(name for holds, names in told if holds for name in names))


def _misfit(error: Exception, where: str) -> Finding:
    return Finding(where, OPTIONS, printable(str(error)), "options that lead to what was drawn", OTHER)
