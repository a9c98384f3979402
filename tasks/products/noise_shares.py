"""Whether the Gaussian noise of each draw is the share that its plan gives it of the charge."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from contracts.errors import Finding
from privacy.accounting.events import DiscreteGaussian, PrivacyEvent
from tasks.records.strict_json import printable
from tasks.verification.record_identity import OTHER

_MACHINES: Final = Fraction(1, 10**6)
"""By what share of its variance the calibration of noise may differ between machines."""


def check_planned_noise(
    events: Sequence[PrivacyEvent], planned: Sequence[PrivacyEvent], *, where: str
) -> list[Finding]:
    """Compare the events of draws, in their order, with those of the plan."""
    findings = []
    for place, (event, wanted) in enumerate(zip(events, planned, strict=True)):
        if _alike(event, wanted):
            continue
        found, allowed = printable(str(event.to_json())), f"{wanted.to_json()}, its share of the charge"
        findings.append(Finding(where, f"replay.draws[{place}].event", found, allowed, OTHER))
    return findings


def _alike(event: PrivacyEvent, wanted: PrivacyEvent) -> bool:
    if not isinstance(event, DiscreteGaussian) or not isinstance(wanted, DiscreteGaussian):
        return False
    return abs(event.sigma_squared - wanted.sigma_squared) <= _MACHINES * wanted.sigma_squared
