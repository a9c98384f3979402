"""Rule 11, asked for by `--deep`: fit the model again from what was published.

The fitter itself is run again, with a grant that draws nothing: it hands out what was published, in the order in
which it is asked for, and refuses anything else. So it is checked, too, that the draws are those that this fitter
with these options makes, given the answers before them; that a choice names the candidate at its place; and that
nothing was drawn beside. What the fitter notes for a reader must be what the record notes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from contracts.errors import Finding, SudareError
from contracts.message import messages_to_json
from privacy.accounting.events import PrivacyEvent
from privacy.generators.calibration import FittedPlan, whole_fitter
from privacy.generators.generator import Fitted, Fitter, OutOfTime
from privacy.marginals.portable import PostProcessingSeed
from tasks.records.model.version_statements import FittedReplay
from tasks.records.strict_json import printable, shown
from tasks.storage.progress import Bar
from tasks.verification.draws.draw_checks import FittedMeaning, OtherDraw, PublishedValues
from tasks.verification.fitted.model_reader import UNREADABLE
from tasks.verification.fitted.stand_in_grant import NoCounts, PublishedDraws, without_limit

ModelT = TypeVar("ModelT")


@dataclass(frozen=True)
class Refit(Generic[ModelT]):
    """What is fitted again, and how it is spoken of.

    Args:
        fitter: finds the generator or trainer by its name.
        plan: plans with options, under a charge.
        options: of the product, as they were written.
        process: "fit" or "training".
        noun: "generator" or "trainer".
        where: the file, or the part of the version, that a finding is about.
        remedy: what to do about another model.
        seed: the published seed of post-processing, as text; None where there is none.
    """

    fitter: Callable[[], Fitter[Any, Any, ModelT]]
    plan: Callable[..., FittedPlan[Any]]
    options: dict[str, Any]
    process: str
    noun: str
    where: str
    remedy: str
    seed: str | None

    def published_seed(self) -> PostProcessingSeed:
        """Hand out the published seed.

        Raises:
            OtherDraw: there is none.
        """
        if self.seed is None:
            raise OtherDraw("a seed was asked for, and none was published")
        return PostProcessingSeed(int(self.seed, 16))


def refit(
    again: Refit[ModelT],
    replay: FittedReplay,
    events: Sequence[PrivacyEvent],
    values: PublishedValues,
    meaning: FittedMeaning,
    bar: Bar,
) -> tuple[Fitted[ModelT] | None, list[Finding], list[str]]:
    """Fit again.

    Args:
        again: what is fitted.
        replay: the record's replay block.
        events: the event of each draw.
        values: the published noisy values.
        meaning: contract and product.
        bar: told how far it is.
    Returns:
        tuple: what came out, where something did; what is wrong, and what could not be checked.
    """
    process = f"the {again.process}"
    try:
        fitter = again.fitter()
        options: BaseModel = fitter.options.model_validate(again.options)
        unlimited, charge = without_limit(options), replay.charge
        epsilon, delta = charge.amounts
        plan = again.plan(unlimited, epsilon=epsilon, delta=delta, noise_epsilon=charge.planned_for)
    except (SudareError, ValidationError, ValueError) as error:
        return None, [], [f"{process}: this installation cannot plan it ({printable(str(error))})"]
    grant, seed = PublishedDraws(replay, events, values, meaning), again.published_seed
    try:
        whole = whole_fitter(fitter, plan.task)
        fitted = whole.fit(plan.task, unlimited, plan.plan, NoCounts(meaning), grant, bar.advance, seed)
    except OutOfTime:
        return None, [], [f"{process}: it was stopped by its time limit, and cannot be followed from there"]
    except UNREADABLE as error:
        allowed = f"the draws that the {again.noun} asks for"
        return None, [Finding(again.where, process, printable(str(error)), allowed, again.remedy)], []
    limited = getattr(options, "time_limit", None) is not None
    if grant.asked == len(replay.draws) and (limited or not grant.ran_out):
        return fitted, _check_notes(replay, fitted), []
    wanted = "more than these" if grant.ran_out else f"the {grant.asked} that the {again.noun} asks for"
    return fitted, [Finding(again.where, "the draws", f"{len(replay.draws)} draws", wanted, again.remedy)], []


def _check_notes(replay: FittedReplay, fitted: Fitted[Any]) -> list[Finding]:
    """Compare what a reader is told of the fit."""
    noted = messages_to_json(list(fitted.notes))
    if list(replay.notes) == noted:
        return []
    remedy = "go by the draws and the model, not by what is noted of them"
    return [
        Finding("record.json", "replay.notes", shown(list(replay.notes)), f"{shown(noted)}, fitted again", remedy)
    ]
