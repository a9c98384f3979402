"""Noisy residuals of all columns and pairs of a fit, as they are published: one draw, one file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from contracts.message import message
from privacy.accounting.events import event_from_json
from privacy.grant.measurement import ResidualMeasurement
from privacy.marginals.uncertainty import variance
from tasks.records.draws.draw_form import DrawForm
from tasks.records.facts import RunFacts
from tasks.records.files.residual_file import RESIDUAL_COLUMNS, RESIDUALS_FILE, write_residuals
from tasks.records.files.tidy_tables import WrittenFile
from tasks.records.groups.account import noise_words
from tasks.records.model.version_statements import FittedDraw

_WHAT = message("residuals of all columns and all pairs of columns")


class ResidualDraw(FittedDraw):
    """Noisy residuals, in a file of their own."""

    kind: Literal["residuals"]


class ResidualForm(DrawForm[ResidualMeasurement, ResidualDraw]):
    """How noisy residuals are stated, written and told."""

    statement = ResidualDraw
    role = "measurements"
    summary = "Noisy residuals of marginals as they were drawn."
    columns: ClassVar[Mapping[str, str]] = RESIDUAL_COLUMNS
    noise_on = message("residuals")

    def files(self, drawn: Sequence[ResidualMeasurement], numbers: Mapping[str, int]) -> dict[str, str]:
        """Name the file."""
        return {each.key: RESIDUALS_FILE for each in drawn}

    def write(
        self, drawn: Sequence[ResidualMeasurement], facts: RunFacts, folder: Path, *, marks: Mapping[str, str]
    ) -> Iterator[WrittenFile]:
        """Write the file."""
        for each in drawn:
            yield write_residuals(each, folder, marks=marks)

    def stated(self, released: ResidualMeasurement, key: str) -> dict[str, Any]:
        """Return how many numbers were drawn; which they are follows from the product's columns."""
        return {"clique": [], "shape": list(released.values.shape)}

    def described(self, released: ResidualMeasurement, key: str) -> dict[str, Any]:
        """Describe the draw: its sensitivity, its noise."""
        return {
            "what": _WHAT,
            "columns": [],  # all of them: the key names the draw
            "cells": released.values.size,
            "l2_sensitivity_squared": sum(move * move for move in released.event.moves),
            "noise": noise_words(released.event),
            "variance": released.variance,
        }

    def measured(self, released: ResidualMeasurement) -> dict[str, Any]:
        """Describe what is published."""
        deviation = f"{released.variance**0.5:.6g}"
        return {"columns": _WHAT, "cells": released.values.size, "deviation": deviation}

    def sensitivities(self, drawn: Sequence[ResidualMeasurement]) -> list[dict[str, Any]]:
        """Give the norm of the worst neighbour's change."""
        norms = sorted({sum(move * move for move in each.event.moves) for each in drawn})
        return [{"of": _WHAT, "l2_squared": norm} for norm in norms]

    def published(self, draws: Sequence[ResidualDraw]) -> tuple[ResidualMeasurement, ...]:
        """Return the measurements without their values, of which only the shape is read."""
        return tuple(map(_measurement, draws))


def _measurement(draw: ResidualDraw) -> ResidualMeasurement:
    event: Any = event_from_json(draw.event)
    values = np.broadcast_to(np.int64(0), draw.shape)  # only its shape is read
    return ResidualMeasurement(draw.key, values, event, variance(event), draw.number, draw.sha256, ())
