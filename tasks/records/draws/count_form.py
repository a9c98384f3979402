"""How draws of counts are told: their noise, and how far a privacy unit moves them; and files of bare counts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from contracts.contract.impossible_cells import Clique
from privacy.accounting.events import CountNoise, event_from_json
from privacy.marginals.uncertainty import half_width, variance
from privacy.table_plans.plan import CONFIDENCE
from tasks.records.draws.draw_form import DrawForm
from tasks.records.files.tidy_tables import MEASUREMENTS
from tasks.records.groups.account import noise_words
from tasks.records.model.version_statements import FittedDraw

NOISY: Final = "noisy"
DrawnFields = tuple[str, NDArray[np.int64], CountNoise, float, int, str]
"""The fields of `DrawnNumbers`."""


class _Counts(Protocol):
    """Counts of the cells of some columns, all with one noise."""

    @property
    def key(self) -> str: ...
    @property
    def clique(self) -> Clique: ...
    @property
    def values(self) -> NDArray[np.int64]: ...
    @property
    def event(self) -> CountNoise: ...
    @property
    def variance(self) -> float: ...


CountsT = TypeVar("CountsT", bound=_Counts)
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


class BareCountForm(CountForm[CountsT, StatedT]):
    """How counts are told of which a file has the noisy numbers alone: the variance of all stands in the record."""

    role = "measurements"
    columns: ClassVar[Mapping[str, str]] = {NOISY: "Noisy count, as it was drawn; its variance stands in the record."}

    @abstractmethod
    def stem(self, key: str) -> str:
        """Name the file of a draw, without folder and ending."""

    @abstractmethod
    def named(self, released: CountsT) -> dict[str, Any]:
        """Return what else than its columns tells a draw from others."""

    @abstractmethod
    def measurement(self, draw: StatedT, numbers: DrawnFields) -> CountsT:
        """Return what was drawn, of its statement and of what all draws of numbers have (`DrawnNumbers`)."""

    def path(self, key: str) -> str:
        """Return the file of a draw."""
        return f"{MEASUREMENTS}/{self.stem(key)}.parquet"

    def files(self, drawn: Sequence[CountsT], numbers: Mapping[str, int]) -> dict[str, str]:
        """Name the file of each."""
        return {each.key: self.path(each.key) for each in drawn}

    def described(self, released: CountsT, key: str) -> dict[str, Any]:
        """Describe the draw: what it is of, its sensitivity, its noise."""
        return self.noise_of(released, self.noise_on, self.named(released))

    def measured(self, released: CountsT) -> dict[str, Any]:
        """Describe what is published."""
        return {
            "columns": " × ".join(released.clique),
            **self.named(released),
            "cells": released.values.size,
            "deviation": f"{released.variance**0.5:.6g}",
        }

    def published(self, draws: Sequence[StatedT]) -> tuple[CountsT, ...]:
        """Return the measurements without their values, of which only the shape is read."""
        return tuple(map(self._published, draws))

    def _published(self, draw: StatedT) -> CountsT:
        event: Any = event_from_json(draw.event)
        values = np.broadcast_to(np.int64(0), draw.shape)  # only its shape is read
        return self.measurement(draw, (draw.key, values, event, variance(event), draw.number, draw.sha256))
