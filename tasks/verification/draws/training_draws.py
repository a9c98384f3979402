"""Are the draws of a training by DP-SGD those of its plan, and does the contract allow its events?

1. add_remove and one row a unit: the only relation under which a Poisson-sampled Gaussian is accounted for
2. each draw's event is the plan's: noise multiplier, sampling probability, and the steps between two checkpoints
3. the draws of one training have one plan and one learner, its intervals come in order, none is left out, and no more
   attempts were lost than the plan has in reserve; the last checkpoint is published, in a file of its own
4. the plan is the one that the product's options lead to, at the noise that was charged
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from contracts.contract.contract import Contract
from contracts.errors import Finding, SudareError
from privacy.accounting.events import event_from_json
from tasks.records.model.synthetic_statements import SyntheticDraw
from tasks.records.strict_json import printable, shown
from tasks.verification.record_identity import OTHER, differences

_UNDERSTATED: Final = "the stated loss does not follow from the contract: do not rely on the claimed guarantee"
_PLAN: Final = frozenset(
    {
        *("sampling_probability", "expected_batch_size", "steps", "clipping_norm", "noise_multiplier"),
        *("checkpoint_every", "reserve"),
    }
)

_SHOWN: Final = frozenset(
    {"rows_about", "batch", "epochs", "checkpoints", "reserve", "gradient_norm", "hidden", "averaging"}
)
"""Options that the plan of a training and the size of its checkpoints show."""


def check_trainings(draws: Sequence[SyntheticDraw], contract: Contract, *, where: str) -> list[Finding]:
    """Check the draws of all trainings.

    Args:
        draws: all draws of the version, in order.
        contract: gives adjacency and rows of a unit.
        where: the record's file name.
    """
    placed = [(place, draw) for place, draw in enumerate(draws) if draw.training is not None]
    if not placed:
        return []
    findings = []
    terms = contract.adjacency, contract.unit.max_rows_per_unit
    if terms != ("add_remove", 1):
        found = f"{terms[0]} with {terms[1]} rows a unit"
        allowed = "add_remove with one row a unit, for a training by DP-SGD"
        findings.append(Finding(where, "replay.adjacency", found, allowed, _UNDERSTATED))
    for place, draw in placed:
        findings += _check_draw(draw, f"replay.draws[{place}]", where)
    for key in dict.fromkeys(_training_of(draw) for _, draw in placed):
        findings += _check_course([draw for _, draw in placed if _training_of(draw) == key], key, where)
    return findings


def is_last(draw: SyntheticDraw) -> bool:
    """Say whether a draw is the last checkpoint of its training."""
    training = draw.training
    if training is None or training.interval is None:
        return False
    steps, every = training.plan.get("steps"), training.plan.get("checkpoint_every")
    return isinstance(steps, int) and isinstance(every, int) and (training.interval + 1) * every == steps


def check_options(
    draws: Sequence[SyntheticDraw], form: type[BaseModel], written: Mapping[str, Any], *, where: str
) -> list[Finding]:
    """Check that the options of a product lead to the plan of its trainings, whose noise the charge states.

    Args:
        draws: all draws of the version.
        form: the options of its generator or trainer.
        written: the options that the product states.
        where: the record's file name.
    """
    from privacy.generators.latent_options import TrainingOptions
    from privacy.generators.training_budget import plan_of

    placed = [(place, draw) for place, draw in enumerate(draws) if draw.training is not None]
    if not placed or not issubclass(form, TrainingOptions):
        return []
    try:
        options = form.model_validate(written)
        plans = [plan_of(options, [event_from_json(draw.event)]).to_json() for _, draw in placed]
    except (SudareError, ValidationError, ValueError, TypeError) as error:
        found, allowed = printable(str(error)), "options of a training"
        return [Finding(where, "replay.product.options", found, allowed, OTHER)]
    findings: list[Finding] = []
    for (place, draw), plan in zip(placed, plans, strict=True):
        stated = {} if draw.training is None else draw.training.plan
        at = f"replay.draws[{place}].training.plan"
        pairs = [(f"{at}.{name}", stated.get(name), value) for name, value in plan.items()]
        findings += differences(pairs, where=where, allowed="as the product's options lead to")
    return findings


def options_without_trace(draws: Sequence[SyntheticDraw], written: Mapping[str, Any]) -> tuple[str, ...]:
    """Name the options of a training that neither its events nor the published values show: the publisher's word."""
    trained = any(draw.training is not None for draw in draws)
    return tuple(f"replay.product.options.{name}" for name in sorted(written) if trained and name not in _SHOWN)


def _training_of(draw: SyntheticDraw) -> str:
    """Name the training that a draw belongs to."""
    lost = draw.training is not None and draw.training.interval is None
    key = draw.key.rpartition("/")[0] if lost else draw.key
    return key.rpartition("/")[0]


def _check_draw(draw: SyntheticDraw, at: str, where: str) -> list[Finding]:
    """Check one draw's form, and its event against the plan."""
    training, name = draw.training, draw.measurements
    if training is None or set(training.plan) != _PLAN:
        return [Finding(where, f"{at}.training.plan", "another plan", f"exactly {', '.join(sorted(_PLAN))}", OTHER)]
    plan = training.plan
    event = {
        "kind": "poisson_sampled_gaussian",
        "noise_multiplier": plan["noise_multiplier"],
        "sampling_probability": plan["sampling_probability"],
        "steps": plan["checkpoint_every"],
    }
    own = name is not None and name.startswith("measurements/") and name.endswith(".parquet") and name.count("/") == 1
    key = f"/{training.interval:05d}" if training.interval is not None else f"/lost-{draw.number}"
    pairs: list[tuple[str, object, object]] = [
        (f"{at}.clique", list(draw.clique), []),
        (f"{at}.index", draw.index, None),
        (f"{at}.coarsening", draw.coarsening, None),
        (f"{at}.statistic", draw.statistic, None),
        (f"{at}.listed", draw.listed, None),
        (f"{at}.key", shown(draw.key[-len(key) :]), shown(key)),
        (f"{at}.shape", len(draw.shape), int(training.interval is not None)),
        (f"{at}.measurements", own, is_last(draw)),
    ]
    findings = list(differences(pairs, where=where, allowed="as of every checkpoint; the last one is published"))
    if draw.event != event:
        found, allowed = printable(str(draw.event)[:120]), f"{event}, by the training's plan"
        findings.append(Finding(where, f"{at}.event", found, allowed, _UNDERSTATED))
    return findings


def _check_course(draws: Sequence[SyntheticDraw], key: str, where: str) -> list[Finding]:
    """Check that the draws of one training are one course."""
    stated = [draw.training for draw in draws if draw.training is not None]
    plan, at = stated[0].plan, f"replay.draws, training {shown(key)}"
    if any((each.plan, each.learner) != (plan, stated[0].learner) for each in stated):
        return [Finding(where, at, "several plans or learners", "one plan and one learner", OTHER)]
    steps, every, reserve = (plan.get(name) for name in ("steps", "checkpoint_every", "reserve"))
    if not all(isinstance(each, int) for each in (steps, every, reserve)) or not every or int(steps or 0) % every:
        return [Finding(where, at, "steps that are no whole intervals", "a plan of whole intervals", OTHER)]
    intervals = [each.interval for each in stated if each.interval is not None]
    lost, wanted = len(stated) - len(intervals), list(range(int(steps or 0) // every))
    findings = []
    if intervals != wanted:
        found = f"the intervals {shown(intervals[:12])}"
        findings.append(Finding(where, at, found, f"{len(wanted)} intervals in order", OTHER))
    if lost > int(reserve or 0):
        findings.append(Finding(where, at, f"{lost} lost attempts", f"at most {reserve}, the reserve", OTHER))
    return findings
