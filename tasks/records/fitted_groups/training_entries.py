"""Trainings by DP-SGD in the record: their draws, as the journal has them, and what they are in plain words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from contracts.message import message
from privacy.accounting.amounts import pico_to_text
from privacy.learning.learners import parameters_of
from privacy.learning.trained import Trained
from tasks.records.facts import RunFacts
from tasks.records.files.checkpoint_files import checkpoint_name, training_part
from tasks.records.files.tidy_tables import MEASUREMENTS

SAMPLER: Final = message("Gaussian, drawn exactly and rounded to a lattice; Poisson samples of rows drawn exactly")


def drawn(facts: RunFacts) -> Iterator[tuple[Trained, Mapping[str, Any]]]:
    """Yield each draw of a training as the journal has it; attempts that were interrupted and lost too."""
    trainings = facts.fit[1].fitted.trainings
    for entry in facts.entries:
        if entry.kind == "noise_drawn":
            own = [each for each in trainings if entry.body["key"].startswith(f"{each.key}/")]
            if own:
                yield own[0], entry.body


def replayed(facts: RunFacts, account: str) -> list[dict[str, Any]]:
    """Describe the draws for whoever replays the version."""
    return [
        {
            "key": body["key"],
            "number": body["number"],
            "clique": [],
            "shape": [] if "/lost-" in body["key"] else [trained.checkpoint.size],
            "coarsening": None,
            "event": body["event"],
            "cost": body["costs"][account],
            "sha256": body["sha256"],
            "measurements": _file(trained, body["number"]) if body["key"] == trained.draws[-1] else None,
            "index": None,
            "training": training_part(trained, body["key"]),
        }
        for trained, body in drawn(facts)
    ]


def entered(facts: RunFacts, account: str) -> list[dict[str, Any]]:
    """Describe the draws for people."""
    return [
        {
            "key": body["key"],
            "what": message("interval of a training, lost and paid again")
            if "/lost-" in body["key"]
            else message("interval of a training"),
            "columns": list(trained.layout.names),
            "event": body["event"],
            "cells": parameters_of(trained.learner),
            "noise": noise(trained),
            "cost": pico_to_text(body["costs"][account]),
        }
        for trained, body in drawn(facts)
    ]


def training_entry(trained: Trained, number: int) -> dict[str, Any]:
    """Describe a training for people; the keys that marginals have too mean the same."""
    plan = trained.plan
    return {
        "columns": ", ".join(trained.layout.names),
        "cells": parameters_of(trained.learner),
        "deviation": f"{float(plan.standard_deviation):.6g}",
        "trained": (
            message(
                "{kind}: {steps} steps, each on a sample in which every row is with probability {p}, the gradients "
                "of its rows clipped to norm {norm}",
                kind=trained.learner.kind.replace("_", " "),
                steps=plan.steps,
                p=f"{float(plan.sampling_probability):.6g}",
                norm=f"{float(plan.clipping_norm):.6g}",
            )
        ),
        "noise": noise(trained),
        "file": _file(trained, number),
    }


def noise(trained: Trained) -> str:
    """Say how much noise a step adds."""
    plan = trained.plan
    return message(
        "Gaussian, sigma {sigma} clipping norms on every sum of gradients",
        sigma=f"{float(plan.noise_multiplier):.6g}",
    )


def last_numbers(facts: RunFacts) -> list[tuple[Trained, int]]:
    """Return each training with the number of its last checkpoint."""
    return [(trained, body["number"]) for trained, body in drawn(facts) if body["key"] == trained.draws[-1]]


def _file(trained: Trained, number: int) -> str:
    return f"{MEASUREMENTS}/{checkpoint_name(trained, number)}.parquet"
