"""Noisy parameters in the record: their draws, and what they are in plain words."""

from __future__ import annotations

from typing import Any, Final

from contracts.message import message
from privacy.accounting.amounts import pico_to_text
from privacy.accounting.events import DiscreteGaussian
from privacy.grant.measurement import ParameterMeasurement
from privacy.learning.perturbed import STEPS, DeltaTraining
from tasks.records.facts import RunFacts
from tasks.records.files.parameter_files import parameter_path, parameters_part

PARAMETERS: Final = message("noisy parameters")
CHANGES: Final = message("a training on noisy changes of parameters")


def of(facts: RunFacts) -> tuple[ParameterMeasurement, ...]:
    """Return the draws of noisy parameters of a run."""
    return () if facts.classifier is None else facts.classifier.parameters


def _costs(facts: RunFacts) -> dict[str, int]:
    account = facts.account.terms.name
    return {e.body["key"]: e.body["costs"][account] for e in facts.entries if e.kind == "noise_drawn"}


def replayed(facts: RunFacts) -> list[dict[str, Any]]:
    """Describe the draws for whoever replays the version."""
    drawn, costs = of(facts), _costs(facts)
    return [
        {
            "key": each.key,
            "number": each.number,
            "clique": [],
            "shape": [each.values.size],
            "coarsening": None,
            "event": each.event.to_json(),
            "cost": costs[each.key],
            "sha256": each.sha256,
            "measurements": parameter_path(drawn, each),
            "index": None,
            "parameters": parameters_part(each),
        }
        for each in drawn
    ]


def entered(facts: RunFacts) -> list[dict[str, Any]]:
    """Describe the draws for people."""
    costs = _costs(facts)
    return [
        {
            "key": each.key,
            "what": what(each),
            "columns": [],
            "event": each.event.to_json(),
            "cells": each.values.size,
            "noise": noise(each),
            "cost": pico_to_text(costs[each.key]),
        }
        for each in of(facts)
    ]


def parameters_entry(facts: RunFacts) -> list[dict[str, Any]]:
    """Describe what is published of the draws, for people."""
    drawn = of(facts)
    return [
        {"key": each.key, "columns": what(each), "cells": each.values.size, "noise": noise(each), "file": path}
        for each in drawn
        if (path := parameter_path(drawn, each)) is not None
    ]


def what(measurement: ParameterMeasurement) -> str:
    """Name what was drawn."""
    return CHANGES if isinstance(measurement.perturbation, DeltaTraining) else PARAMETERS


def noise(measurement: ParameterMeasurement) -> str:
    """Say how much noise a parameter, or a change of one, gets."""
    if isinstance(measurement.event, DiscreteGaussian):
        spread = float(measurement.event.sigma_squared) ** 0.5 / STEPS
        return message(
            "discrete Gaussian, standard deviation {spread} times the range of the number", spread=f"{spread:.6g}"
        )
    return message(
        "discrete Laplace, scale {spread} times the range of the number",
        spread=f"{1 / float(measurement.event.inverse_scale) / STEPS:.6g}",
    )
