"""What a grant lets in to train with noise on parameters or on their changes: exact types, built anew, that fit."""

from __future__ import annotations

from typing import Any

from privacy.grant.arguments.exact_types import check_noise, checked_layout
from privacy.grant.measurement import DrawRequest
from privacy.learning.errors import CannotTrain
from privacy.learning.layout import RowLayout
from privacy.learning.perturbed import (
    DeltaTraining,
    ParameterRelease,
    Perturbation,
    PlainTraining,
    perturbation_digest,
)
from privacy.marginals.sensitivity import Noise


def checked_perturbation(rows: object, perturbation: object, noise: object) -> tuple[Perturbation, RowLayout]:
    """Refuse rows, trainings and noise of another making; return copies that nobody else holds.

    Raises:
        CannotTrain, ValueError: another type, a field out of range, or a network that does not fit the rows.
    """
    check_noise(noise)
    layout = checked_layout(rows)
    if type(perturbation) not in (ParameterRelease, DeltaTraining):
        raise CannotTrain("perturbation", type(perturbation).__name__, "ParameterRelease or DeltaTraining itself")
    given: Any = perturbation
    if type(given.training) is not PlainTraining:
        raise CannotTrain("training", type(given.training).__name__, "PlainTraining itself")
    training = PlainTraining(**vars(given.training))
    copied: Perturbation = type(given)(**{**vars(given), "training": training})
    training.check(layout)
    return copied, layout


def draw_requests(
    perturbation: Perturbation, layout: RowLayout, noise: Noise, *, rows_per_unit: int, key: str
) -> tuple[DrawRequest, ...]:
    """Return the draws of a training."""
    event = perturbation.event(noise, rows_per_unit=rows_per_unit)
    about = {"perturbation": perturbation_digest(perturbation), "layout": layout.digest}
    return tuple(
        DrawRequest(f"{key}/{place:05d}", (), event, {**about, "interval": place})
        for place in range(perturbation.draws)
    )
