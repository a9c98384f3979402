"""What is checked alike of versions whose product is planned again: each draw's noise is its part of the charge."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final, Generic, Protocol, TypeVar

from contracts.errors import Finding
from privacy.accounting.events import DiscreteGaussian, PrivacyEvent
from tasks.records.strict_json import printable
from tasks.verification.fitted.drawn_checks import DrawnChecks, MeaningT, RecordT
from tasks.verification.record_identity import OTHER


class PlannedNoise(Protocol):
    """A plan, as far as its noise goes."""

    @property
    def events(self) -> Sequence[PrivacyEvent]:
        """The events of all draws, in their order."""


PlanT = TypeVar("PlanT", bound=PlannedNoise)

_MACHINES: Final = Fraction(1, 10**6)
"""By what share of its variance the calibration of noise may differ between machines."""


class PlannedChecks(DrawnChecks[RecordT, MeaningT], Generic[RecordT, MeaningT, PlanT]):
    """The checks of a version whose product, charge and contract give its plan.

    Args:
        record: its record.
        where: the record's file name.
        manifest_name: the manifest's.
    """

    def __init__(self, record: RecordT, where: str, manifest_name: str) -> None:
        super().__init__(record, where, manifest_name)
        self._plan: PlanT | None = None

    @property
    def _planned(self) -> bool:
        return self._plan is not None

    def _check_noise(self, meaning: MeaningT, findings: Sequence[Finding]) -> list[Finding]:
        """Compare the events of the draws, in their order, with those of the plan."""
        if findings or self._plan is None:
            return []
        pairs = enumerate(zip(self.events, self._plan.events, strict=True))
        return [
            Finding(
                self._where,
                f"replay.draws[{place}].event",
                printable(str(event.to_json())),
                f"{wanted.to_json()}, its share of the charge",
                OTHER,
            )
            for place, (event, wanted) in pairs
            if not _alike(event, wanted)
        ]


def _alike(event: PrivacyEvent, wanted: PrivacyEvent) -> bool:
    if not isinstance(event, DiscreteGaussian) or not isinstance(wanted, DiscreteGaussian):
        return event == wanted  # the scale of Laplace noise is a fraction: no machine computes another
    return abs(event.sigma_squared - wanted.sigma_squared) <= _MACHINES * wanted.sigma_squared
