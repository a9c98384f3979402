"""Trainings by DP-SGD, as they are published: the last checkpoint of each, number by number, as it was drawn.

Earlier checkpoints are not published: nothing is made of them. Their digests stand in the record and in the journal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from contracts.message import message
from privacy.learning.learners import learner_digest, parameters_of
from privacy.learning.trained import Trained, unpacked
from tasks.records.draws.draw_form import DrawForm
from tasks.records.facts import RunFacts
from tasks.records.files.tidy_tables import MEASUREMENTS, WrittenFile, written
from tasks.records.model.statement import Count, Hash, Statement
from tasks.records.model.version_statements import FittedDraw
from tasks.records.unpublished import Published

CHECKPOINT_SCHEMA: Final = pa.schema(
    [
        pa.field("part", pa.dictionary(pa.int8(), pa.string()), nullable=False),
        pa.field("value", pa.float32(), nullable=False),
    ]
)
CHECKPOINT_PARTS: Final = ("parameters", "first moments", "second moments", "average", "padding")


SAMPLER: Final = message("Gaussian, drawn exactly and rounded to a lattice; Poisson samples of rows drawn exactly")
TRAINING: Final = message("DP-SGD: Gaussian noise on clipped gradients of Poisson samples")
LOST: Final = "/lost-"


class TrainingStatement(Statement):
    """One interval of a training by DP-SGD.

    Its plan (rationals as text), the digest of what was trained, and which interval it is; None for an attempt that
    was interrupted and lost.
    """

    plan: dict[str, Any]
    learner: Hash
    interval: Count | None


class TrainingDraw(FittedDraw):
    """One interval of a training; the last one's checkpoint is published."""

    kind: Literal["training"]
    training: TrainingStatement


class TrainingForm(DrawForm[Trained, TrainingDraw]):
    """How a training is stated, written and told."""

    statement = TrainingDraw
    role = "checkpoint"
    summary = "The last checkpoint of a training, as it was drawn."
    columns: ClassVar[Mapping[str, str]] = {
        "part": "Parameters, the optimizer's moments, or their average.",
        "value": "A number of it.",
    }

    def keys(self, released: Trained, entered: Sequence[str]) -> Sequence[str]:
        """Return the intervals as the journal has them; attempts that were interrupted and lost too."""
        return [key for key in entered if key.startswith(f"{released.key}/")]

    def files(self, drawn: Sequence[Trained], numbers: Mapping[str, int]) -> dict[str, str]:
        """Name the file of each last checkpoint after its number."""
        return {
            trained.draws[-1]: f"{MEASUREMENTS}/{numbers[trained.draws[-1]]:04d}-checkpoint.parquet"
            for trained in drawn
        }

    def write(
        self, drawn: Sequence[Trained], facts: RunFacts, folder: Path, *, marks: Mapping[str, str]
    ) -> Iterator[WrittenFile]:
        """Write the last checkpoint of each training."""
        (folder / MEASUREMENTS).mkdir(exist_ok=True)
        numbers = {entry.body["key"]: entry.body["number"] for entry in facts.entries if entry.kind == "noise_drawn"}
        for trained, path in zip(drawn, self.files(drawn, numbers).values(), strict=True):
            values = unpacked(trained.checkpoint, 2 * trained.checkpoint.size)
            parts = pa.DictionaryArray.from_arrays(
                pa.array(_parts(trained, values.size)), pa.array(CHECKPOINT_PARTS, pa.string())
            )
            schema = CHECKPOINT_SCHEMA.with_metadata(dict(marks))
            table = pa.Table.from_arrays([parts, pa.array(values)], schema=schema)
            pq.write_table(table, folder / path, compression="zstd", use_dictionary=["part"])
            columns = (("part", "string"), ("value", "float"))
            yield written(folder, path, trained.draws[-1], self.role, values.size, columns)

    def stated(self, released: Trained, key: str) -> dict[str, Any]:
        """Return plan, learner, and which interval it is."""
        interval = released.draws.index(key) if key in released.draws else None
        return {
            "clique": [],
            "shape": [] if LOST in key else [released.checkpoint.size],
            "training": {
                "plan": released.plan.to_json(),
                "learner": learner_digest(released.learner),
                "interval": interval,
            },
        }

    def described(self, released: Trained, key: str) -> dict[str, Any]:
        """Describe an interval."""
        lost = message("interval of a training, lost and paid again")
        return {
            "what": lost if LOST in key else message("interval of a training"),
            "columns": list(released.layout.names),
            "cells": parameters_of(released.learner),
            "noise": noise_of(released),
        }

    def measured(self, released: Trained) -> dict[str, Any]:
        """Describe a training; the keys that marginals have too mean the same."""
        plan = released.plan
        return {
            "columns": ", ".join(released.layout.names),
            "cells": parameters_of(released.learner),
            "deviation": f"{float(plan.standard_deviation):.6g}",
            "trained": message(
                "{kind}: {steps} steps, each on a sample in which every row is with probability {p}, the gradients "
                "of its rows clipped to norm {norm}",
                kind=released.learner.kind.replace("_", " "),
                steps=plan.steps,
                p=f"{float(plan.sampling_probability):.6g}",
                norm=f"{float(plan.clipping_norm):.6g}",
            ),
            "noise": noise_of(released),
        }

    def sensitivities(self, drawn: Sequence[Trained]) -> list[dict[str, Any]]:
        """Give the norm to which gradients are clipped."""
        return [{"of": message("sums of gradients"), "l2": float(each.plan.clipping_norm)} for each in drawn]

    def samplers(self, drawn: Sequence[Trained]) -> set[str]:
        """Name how samples and noise are drawn."""
        return {SAMPLER}

    def mechanism(self, noise: str, drawn: Sequence[Trained]) -> str:
        """Say how noise is added."""
        return message("{noise}, and {training}", noise=noise, training=TRAINING) if noise else TRAINING

    def published(self, draws: Sequence[TrainingDraw]) -> tuple[Any, ...]:
        """Return keys and clipping norms; what was trained stands in files."""
        trainings = {draw.key.rpartition("/")[0]: draw.training.plan for draw in draws}
        return tuple(
            Published(
                kind="training", key=key, plan=Published(clipping_norm=Fraction(str(plan.get("clipping_norm"))))
            )
            for key, plan in trainings.items()
        )


def noise_of(trained: Trained) -> str:
    """Say how much noise a step adds."""
    return message(
        "Gaussian, sigma {sigma} clipping norms on every sum of gradients",
        sigma=f"{float(trained.plan.noise_multiplier):.6g}",
    )


def _parts(trained: Trained, numbers: int) -> np.ndarray[Any, np.dtype[np.int8]]:
    """Say of each number of a checkpoint what it is: parameters, moments, the average, and what fills a word up."""
    size, learner = parameters_of(trained.learner), trained.learner
    averaged = learner.averaging is not None
    moments = numbers // size - 1 - averaged
    kinds = [0, *range(1, 1 + moments), *([3] if averaged else [])]
    found = np.full(numbers, 4, dtype=np.int8)
    found[: size * len(kinds)] = np.repeat(np.array(kinds, dtype=np.int8), size)
    return found
