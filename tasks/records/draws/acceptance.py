"""Tests of candidates, as they are published: each noisy distance, in the record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

from contracts.message import message
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace, event_from_json
from privacy.grant.queries.acceptance import CriterionTest
from privacy.marginals.uncertainty import half_width, variance
from privacy.table_plans.plan import CONFIDENCE
from tasks.records.draws.draw_form import DrawForm
from tasks.records.groups.account import noise_words
from tasks.records.model.statement import Count, Value
from tasks.records.model.version_statements import FittedDraw

TESTS: Final = message("acceptance tests")


class AcceptanceDraw(FittedDraw):
    """One test: of which candidate and criterion (from 0), the noisy distance, and up to which it is met [rows]."""

    kind: Literal["acceptance"]
    candidate: Count
    criterion: Count
    distance: Value
    passes_at: Value


class AcceptanceForm(DrawForm[CriterionTest, AcceptanceDraw]):
    """How a test is stated and told."""

    statement = AcceptanceDraw
    noise_on = TESTS

    def stated(self, released: CriterionTest, key: str) -> dict[str, Any]:
        """Return what was tested, and how it ended."""
        return {
            "clique": [],
            "shape": [],
            "candidate": released.candidate,
            "criterion": released.criterion,
            "distance": released.distance,
            "passes_at": released.passes_at,
        }

    def described(self, released: CriterionTest, key: str) -> dict[str, Any]:
        """Describe the draw: what was tested, its sensitivity, its noise, and how it ended."""
        (move,) = released.event.moves
        return {
            "what": message("acceptance test"),
            "columns": [],
            "candidate": released.candidate + 1,
            "criterion": released.criterion + 1,
            "noisy_distance": released.distance,
            "met_up_to": released.passes_at,
            "met": released.met,
            "l1_sensitivity": move,
            "noise": noise_words(released.event),
            "variance": variance(released.event),
            "half_width_95": half_width(released.event, CONFIDENCE),
        }

    def sensitivities(self, drawn: Sequence[CriterionTest]) -> list[dict[str, Any]]:
        """Give how far one privacy unit moves a distance [rows]."""
        moves = sorted({each.event.moves[0] for each in drawn})
        return [{"of": TESTS, "l1": move, "l2_squared": move * move} for move in moves]

    def published(self, draws: Sequence[AcceptanceDraw]) -> tuple[CriterionTest, ...]:
        """Return the tests."""
        return tuple(_test(draw) for draw in draws)


def _test(draw: AcceptanceDraw) -> CriterionTest:
    event = event_from_json(draw.event)
    if not isinstance(event, DiscreteLaplace | DiscreteGaussian):
        raise TypeError(f"{draw.key} is no test")
    asked = draw.candidate, draw.criterion, draw.distance, draw.passes_at
    return CriterionTest(draw.key, *asked, event, draw.number, draw.sha256)
