"""Noisy marginals, as they are published with what was fitted to them: each in a tidy table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from pydantic import Field

from contracts.contract.column import Cells
from contracts.contract.contract import Contract
from contracts.message import message
from privacy.accounting.events import event_from_json
from privacy.grant.measurement import Measurement
from privacy.marginals.coarsening import Coarsening, coarsening
from privacy.marginals.uncertainty import half_width, variance
from privacy.table_plans.plan import CONFIDENCE
from tasks.records.draws.count_form import CountForm
from tasks.records.facts import RunFacts
from tasks.records.files.tidy_tables import MEASUREMENTS, WrittenFile, write_measurement
from tasks.records.model.statement import Count, StatedText, Tuple
from tasks.records.model.version_statements import FittedDraw

_LONGEST_NAME: Final = 80
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")


class MarginalDraw(FittedDraw):
    """A noisy marginal, in a file of its own.

    `table` is a parent table, where its rows were counted. `bins` has the first declared bin of each joined one, by
    column.
    """

    kind: Literal["marginal"]
    table: StatedText | None = Field(default=None, exclude_if=lambda table: table is None)
    bins: dict[StatedText, Tuple[Count]] | None = None

    def cells(self, contract: Contract) -> Cells:
        """Return the cells that were measured: the contract's, or joined ones."""
        return measured_cells(self.clique, self.bins, contract)

    def resolution(self, contract: Contract) -> Coarsening | None:
        """Return which declared cells each joined one is the sum of; None where none were joined."""
        if not self.bins:
            return None
        from contracts.release.joined_cells import joined_cells  # most versions have none

        return coarsening(joined_cells(self.clique, self.bins, contract), tuple(self.bins.items()))


class MarginalForm(CountForm[Measurement, MarginalDraw]):
    """How a noisy marginal is stated, written and told."""

    statement = MarginalDraw
    role = "measurements"
    noise_on = message("marginals")

    def files(self, drawn: Sequence[Measurement], numbers: Mapping[str, int]) -> dict[str, str]:
        """Name the file of each."""
        return {each.key: f"{MEASUREMENTS}/{measurement_name(each)}.parquet" for each in drawn}

    def write(
        self, drawn: Sequence[Measurement], facts: RunFacts, folder: Path, *, marks: Mapping[str, str]
    ) -> Iterator[WrittenFile]:
        """Write each marginal."""
        for each in drawn:
            name, width = measurement_name(each), half_width(each.event, CONFIDENCE)
            cells = measured_cells(each.clique, _firsts(each), facts.contract)
            yield write_measurement(each, name, width, cells, folder, marks=marks)

    def stated(self, released: Measurement, key: str) -> dict[str, Any]:
        """Return its columns and shape, whose rows were counted, and which bins were joined."""
        stated = {"clique": list(released.clique), "shape": list(released.values.shape), **_of_table(released)}
        if released.coarsening is None:
            return stated
        joined = {name: list(firsts) for name, firsts in released.coarsening.firsts}
        return {**stated, "coarsening": released.coarsening.to_json(), "bins": joined}

    def described(self, released: Measurement, key: str) -> dict[str, Any]:
        """Describe the draw: its sensitivity, its noise."""
        return self.noise_of(released, "measurement", _of_table(released))

    def measured(self, released: Measurement) -> dict[str, Any]:
        """Describe what is published."""
        return {
            "columns": " × ".join(released.clique) or message("total"),
            "cells": released.values.size,
            "deviation": f"{released.variance**0.5:.6g}",
            **_of_table(released),
        }

    def published(self, draws: Sequence[MarginalDraw]) -> tuple[Measurement, ...]:
        """Return the marginals without their values, of which only the shape is read."""
        return tuple(_measurement(draw) for draw in draws)


def _of_table(released: Measurement) -> dict[str, str]:
    """Name the parent table whose rows were counted; nothing for the rows of the base."""
    return {} if released.table is None else {"table": released.table}


def measured_cells(clique: Sequence[str], joins: Mapping[str, Sequence[int]] | None, contract: Contract) -> Cells:
    """Return the cells of a marginal: the contract's, or with some bins joined."""
    if not joins:
        return contract
    from contracts.release.joined_cells import joined_cells  # most versions have none

    return joined_cells(clique, joins, contract)


def _firsts(released: Measurement) -> dict[str, tuple[int, ...]]:
    """Return the first declared bin of each joined one, by column."""
    return {} if released.coarsening is None else dict(released.coarsening.firsts)


def measurement_name(measurement: Measurement) -> str:
    """Name a measurement's file after its number and its columns."""
    return file_name(measurement.number, measurement.clique)


def file_name(number: int, columns: Sequence[str]) -> str:
    """Name a draw's file after its number and some columns."""
    named = _UNSAFE.sub("-", "_x_".join(columns))[:_LONGEST_NAME] or "total"
    return f"{number:04d}-{named}"


def _measurement(draw: MarginalDraw) -> Measurement:
    event: Any = event_from_json(draw.event)
    values = np.broadcast_to(np.int64(0), draw.shape)  # only its shape is read
    own = draw.key, draw.clique, values, event, variance(event), draw.number, draw.sha256
    return Measurement(*own, table=draw.table)
