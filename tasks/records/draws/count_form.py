"""How draws of counts are told, marginals and counts by place: their noise, and how far a privacy unit moves them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from privacy.grant.measurement import Measurement, PlaceMeasurement
from privacy.marginals.uncertainty import half_width
from privacy.table_plans.plan import CONFIDENCE
from tasks.records.draws.draw_form import DrawForm
from tasks.records.groups.account import noise_words
from tasks.records.model.version_statements import FittedDraw

CountsT = TypeVar("CountsT", Measurement, PlaceMeasurement)
StatedT = TypeVar("StatedT", bound=FittedDraw)


class CountForm(DrawForm[CountsT, StatedT]):
    """How counts with one noise in every cell are told."""

    def noise_of(self, released: CountsT, what: str, named: Mapping[str, Any]) -> dict[str, Any]:
        """Describe a draw: what it is of, its sensitivity, its noise.

        Args:
            released: the draw.
            what: what was drawn, in words.
            named: what else tells it from others.
        """
        moves = released.event.moves
        return {
            "what": what,
            **named,
            "columns": list(released.clique),
            "cells": released.values.size,
            "l1_sensitivity": sum(map(abs, moves)),
            "l2_sensitivity_squared": sum(move * move for move in moves),
            "noise": noise_words(released.event),
            "variance": released.variance,
            "half_width_95": half_width(released.event, CONFIDENCE),
        }

    def sensitivities(self, drawn: Sequence[CountsT]) -> list[dict[str, Any]]:
        """Give the norms of the worst neighbour's change."""
        moves = sorted({each.event.moves for each in drawn})
        return [{"l1": sum(map(abs, move)), "l2_squared": sum(part * part for part in move)} for move in moves]
