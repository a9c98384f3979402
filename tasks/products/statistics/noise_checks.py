"""Whether the noise of each draw of statistics is that of the product, and its share of the charge the right one."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from contracts.errors import Finding, SudareError
from privacy.accounting.events import DiscreteGaussian, ExponentialMechanism, PrivacyEvent
from tasks.records.draws.key_counts import KeyCountDraw
from tasks.records.draws.keys import KeyDraw
from tasks.records.draws.quantile_choices import QuantileDraw
from tasks.records.statistics_record import StatisticsReplay
from tasks.records.strict_json import printable, shown
from tasks.verification.clip_checks import ProductMeaning, stated_events
from tasks.verification.record_identity import OTHER

_MACHINES: Final = Fraction(1, 10**6)
_KIND_OF = {"laplace": "discrete_laplace", "gaussian": "discrete_gaussian"}


def check_noise(replay: StatisticsReplay, meaning: ProductMeaning, where: str) -> list[Finding]:
    """Check that each draw's noise is of the kind that the product names."""
    kind = _KIND_OF[meaning.product.mechanism]
    return [
        Finding(
            where,
            f"replay.draws[{place}].event.kind",
            shown(draw.event.get("kind")),
            f"{kind}, as the product says",
            OTHER,
        )
        for place, draw in enumerate(replay.draws)
        if draw.event.get("kind") != kind and not isinstance(draw, KeyDraw | KeyCountDraw | QuantileDraw)
    ]


def check_shares(
    replay: StatisticsReplay, events: tuple[PrivacyEvent, ...], meaning: ProductMeaning, where: str
) -> list[Finding]:
    """Check that the noise of each draw is what its table's weight leaves it of the spec's charge."""
    try:
        planned = stated_events(replay, meaning)
    except (SudareError, ArithmeticError, ValueError) as error:
        return [Finding(where, "replay.charge", printable(str(error)), "a charge that its draws can share", OTHER)]
    allowed = "the share of the charge that the table's weight gives"
    if len(events) != len(planned):
        return []  # `_check_tables` says which draws there must be
    return [
        Finding(
            where,
            f"replay.draws[{place}].event",
            shown(str(drawn.to_json())),
            f"{wanted.to_json()}, {allowed}",
            OTHER,
        )
        for place, (drawn, wanted) in enumerate(zip(events, planned, strict=True))
        if not _alike(drawn, wanted)
    ]


def _alike(drawn: PrivacyEvent, planned: PrivacyEvent) -> bool:
    """Compare two events; of Gaussian noise up to what machines may differ by in its calibration."""
    if isinstance(drawn, DiscreteGaussian) and isinstance(planned, DiscreteGaussian):
        near = abs(drawn.sigma_squared - planned.sigma_squared) <= _MACHINES * planned.sigma_squared
        return near and drawn.moves == planned.moves
    if isinstance(drawn, ExponentialMechanism) and isinstance(planned, ExponentialMechanism):
        return abs(drawn.epsilon - planned.epsilon) <= _MACHINES * planned.epsilon
    return drawn == planned
