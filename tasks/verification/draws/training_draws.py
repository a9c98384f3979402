"""Are the draws of a training by DP-SGD those of its plan, and does the contract allow its events?

1. add_remove and one row a unit: the only relation under which a Poisson-sampled Gaussian is accounted for
2. each draw's event is the plan's: noise multiplier, sampling probability, and the steps between two checkpoints
3. the draws of one training have one plan and one learner, its intervals come in order, none is left out, and no more
   attempts were lost than the plan has in reserve; the last checkpoint is published, in a file of its own
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.errors import Finding
from privacy.accounting.events import PoissonSampledGaussian
from privacy.grant.queries.training import TrainingQuery
from privacy.learning.learners import learner_digest
from privacy.learning.trained import packed
from tasks.records.draws.training import CHECKPOINT_PARTS, CHECKPOINT_SCHEMA, TrainingDraw
from tasks.records.model.version_statements import FittedDraw
from tasks.records.strict_json import printable, shown
from tasks.verification.draws.draw_checks import (
    UNDERSTATED,
    DrawChecks,
    FileForm,
    FittedMeaning,
    OtherDraw,
    PublishedValues,
    is_own_file,
)
from tasks.verification.files.parquet_pages import open_numbers
from tasks.verification.files.table_files import MISFIT, UNREADABLE, check_digest
from tasks.verification.record_identity import OTHER, differences
from tasks.verification.refinement_replay import values_sha256

_PLAN: Final = frozenset(
    {
        *("sampling_probability", "expected_batch_size", "steps", "clipping_norm", "noise_multiplier"),
        *("checkpoint_every", "reserve"),
    }
)


class TrainingChecks(DrawChecks[TrainingDraw, TrainingQuery]):
    """The checks of trainings by DP-SGD."""

    events = (PoissonSampledGaussian,)

    def check(
        self,
        placed: Sequence[tuple[int, TrainingDraw]],
        draws: Sequence[FittedDraw],
        meaning: FittedMeaning,
        *,
        where: str,
    ) -> list[Finding]:
        """Check relation, events and course of all trainings."""
        return check_trainings(placed, meaning.contract, where=where)

    def form(self, draw: TrainingDraw, meaning: FittedMeaning) -> FileForm:
        """Parts of a checkpoint are labels."""
        return FileForm({"part": CHECKPOINT_PARTS})

    def read(
        self, data: bytes, draw: TrainingDraw, event: Any, meaning: FittedMeaning, rebuilt: Any
    ) -> tuple[NDArray[np.int64] | None, list[Finding]]:
        """Check a file of a checkpoint."""
        return check_checkpoint(data, draw)

    def matching(self, query: TrainingQuery, draw: TrainingDraw, values: PublishedValues) -> TrainingQuery:
        """Compare plan and learner of an interval."""
        wanted = (query.plan.to_json(), learner_digest(query.learner))
        if (draw.training.plan, draw.training.learner) != wanted:
            raise OtherDraw(f"draw {draw.key!r}: another training was asked for, not what is there")
        return query


def check_trainings(placed: Sequence[tuple[int, TrainingDraw]], contract: Contract, *, where: str) -> list[Finding]:
    """Check the draws of all trainings.

    Args:
        placed: each draw of a training with its place among all draws.
        contract: gives adjacency and rows of a unit.
        where: the record's file name.
    """
    findings = []
    terms = contract.adjacency, contract.unit.max_rows_per_unit
    if terms != ("add_remove", 1):
        found = f"{terms[0]} with {terms[1]} rows a unit"
        allowed = "add_remove with one row a unit, for a training by DP-SGD"
        findings.append(Finding(where, "replay.adjacency", found, allowed, UNDERSTATED))
    for place, draw in placed:
        findings += _check_draw(draw, f"replay.draws[{place}]", where)
    for key in dict.fromkeys(_training_of(draw) for _, draw in placed):
        findings += _check_course([draw for _, draw in placed if _training_of(draw) == key], key, where)
    return findings


def is_last(draw: TrainingDraw) -> bool:
    """Say whether a draw is the last checkpoint of its training."""
    training = draw.training
    if training.interval is None:
        return False
    steps, every = training.plan.get("steps"), training.plan.get("checkpoint_every")
    return isinstance(steps, int) and isinstance(every, int) and (training.interval + 1) * every == steps


def _training_of(draw: TrainingDraw) -> str:
    """Name the training that a draw belongs to."""
    lost = draw.training.interval is None
    key = draw.key.rpartition("/")[0] if lost else draw.key
    return key.rpartition("/")[0]


def _check_draw(draw: TrainingDraw, at: str, where: str) -> list[Finding]:
    """Check one draw's form, and its event against the plan."""
    training, own = draw.training, is_own_file(draw.measurements)
    if set(training.plan) != _PLAN:
        return [Finding(where, f"{at}.training.plan", "another plan", f"exactly {', '.join(sorted(_PLAN))}", OTHER)]
    plan = training.plan
    event = {
        "kind": "poisson_sampled_gaussian",
        "noise_multiplier": plan["noise_multiplier"],
        "sampling_probability": plan["sampling_probability"],
        "steps": plan["checkpoint_every"],
    }
    key = f"/{training.interval:05d}" if training.interval is not None else f"/lost-{draw.number}"
    pairs: list[tuple[str, object, object]] = [
        (f"{at}.clique", list(draw.clique), []),
        (f"{at}.coarsening", draw.coarsening, None),
        (f"{at}.listed", draw.listed, None),
        (f"{at}.key", shown(draw.key[-len(key) :]), shown(key)),
        (f"{at}.shape", len(draw.shape), int(training.interval is not None)),
        (f"{at}.measurements", own, is_last(draw)),
    ]
    findings = list(differences(pairs, where=where, allowed="as of every checkpoint; the last one is published"))
    if draw.event != event:
        found, allowed = printable(str(draw.event)[:120]), f"{event}, by the training's plan"
        findings.append(Finding(where, f"{at}.event", found, allowed, UNDERSTATED))
    return findings


def _check_course(draws: Sequence[TrainingDraw], key: str, where: str) -> list[Finding]:
    """Check that the draws of one training are one course."""
    stated = [draw.training for draw in draws]
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


def check_checkpoint(data: bytes, draw: TrainingDraw) -> tuple[NDArray[np.int64] | None, list[Finding]]:
    """Check a file of a checkpoint.

    Args:
        data: bytes of the file.
        draw: what the record says of the draw.
    Returns:
        tuple: the checkpoint as it was drawn, in whole words; None where it cannot be read; and what is wrong.
    """
    where = printable(draw.measurements or "")
    try:
        file = open_numbers(data)
        found = [(field.name, str(field.type)) for field in file.schema_arrow]
        wanted = [(field.name, str(field.type)) for field in CHECKPOINT_SCHEMA]
        rows, numbers = file.metadata.num_rows, 2 * draw.shape[0]
        for field, is_, must in (("columns", found, wanted), ("rows", rows, numbers)):
            if is_ != must:
                return None, [Finding(where, field, shown(str(is_)), shown(str(must)), MISFIT)]
        column = file.read(columns=["value"]).column("value")
        if column.null_count:
            return None, [Finding(where, "column value", "missing values", "a value in every row", MISFIT)]
        words = packed(column.to_numpy())
    except UNREADABLE as error:
        return None, [Finding(where, "the file", printable(str(error)), "a whole Parquet file", MISFIT)]
    return words, check_digest(values_sha256(words), draw.sha256, "the checkpoint", where=where)
