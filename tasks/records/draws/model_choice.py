"""Private choices among models, as they are published: the place of the chosen one, in the record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from contracts.message import message
from privacy.accounting.events import ExponentialMechanism, event_from_json
from privacy.grant.queries.model_choice import ModelSelection
from tasks.records.draws.draw_form import CHOOSER, DrawForm
from tasks.records.model.statement import Count
from tasks.records.model.version_statements import FittedDraw


class ModelChoiceDraw(FittedDraw):
    """A private choice among models: the place of the chosen one."""

    kind: Literal["model_choice"]
    index: Count


class ModelChoiceForm(DrawForm[ModelSelection, ModelChoiceDraw]):
    """How a choice among models is stated and told."""

    statement = ModelChoiceDraw

    def stated(self, released: ModelSelection, key: str) -> dict[str, Any]:
        """Return what was chosen."""
        return {"clique": [], "shape": [], "index": released.index}

    def described(self, released: ModelSelection, key: str) -> dict[str, Any]:
        """Describe the draw."""
        return {"what": message("choice among models"), "columns": [], "model": released.index + 1}

    def samplers(self, drawn: Sequence[ModelSelection]) -> set[str]:
        """Name how a choice is sampled."""
        return {CHOOSER}

    def published(self, draws: Sequence[ModelChoiceDraw]) -> tuple[ModelSelection, ...]:
        """Return the choices."""
        return tuple(_selection(draw) for draw in draws)


def _selection(draw: ModelChoiceDraw) -> ModelSelection:
    event = event_from_json(draw.event)
    if not isinstance(event, ExponentialMechanism):
        raise TypeError(f"{draw.key} is no choice")
    return ModelSelection(draw.key, draw.index, event, draw.number, draw.sha256)
