"""Noisy parameters, as they are published: the whole numbers as they were drawn; of several draws the last one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from contracts.message import message
from privacy.accounting.events import DiscreteGaussian
from privacy.grant.queries.parameters import ParameterMeasurement
from privacy.learning.perturbed import STEPS, DeltaTraining
from tasks.records.draws.draw_form import DrawForm
from tasks.records.facts import RunFacts
from tasks.records.files.tidy_tables import MEASUREMENTS, WrittenFile, written
from tasks.records.model.statement import Count, Statement
from tasks.records.model.version_statements import FittedDraw
from tasks.records.unpublished import Published

PARAMETER_SCHEMA: Final = pa.schema([pa.field("value", pa.int64(), nullable=False)])
PARAMETERS: Final = message("noisy parameters")
CHANGES: Final = message("a training on noisy changes of parameters")
PERTURBED: Final[dict[str, str]] = {
    PARAMETERS: message("noise on every clamped weight and bias of a network that was trained without noise"),
    CHANGES: message("noise on the clamped change of every weight and bias in every batch of a training"),
}


class ParametersStatement(Statement):
    """Noisy parameters, or a checkpoint of a training on noisy changes: what was trained, and which draw it is."""

    perturbation: dict[str, Any]
    interval: Count


class ParameterDraw(FittedDraw):
    """Noisy parameters; those of the last draw are published."""

    kind: Literal["parameters"]
    parameters: ParametersStatement


class ParameterForm(DrawForm[ParameterMeasurement, ParameterDraw]):
    """How noisy parameters are stated, written and told."""

    statement = ParameterDraw
    role = "parameters"
    summary = "Noisy parameters of a network as they were drawn, or the last checkpoint of them."
    columns: ClassVar[Mapping[str, str]] = {
        "value": "Steps of a parameter's range; of a training on noisy changes the bits of a double."
    }

    def files(self, drawn: Sequence[ParameterMeasurement], numbers: Mapping[str, int]) -> dict[str, str]:
        """Name the file of the last draw; of those before it nothing is made."""
        return {each.key: f"{MEASUREMENTS}/{each.number:04d}-parameters.parquet" for each in drawn[-1:]}

    def write(
        self, drawn: Sequence[ParameterMeasurement], facts: RunFacts, folder: Path, *, marks: Mapping[str, str]
    ) -> Iterator[WrittenFile]:
        """Write the last draw."""
        (folder / MEASUREMENTS).mkdir(exist_ok=True)
        schema = PARAMETER_SCHEMA.with_metadata(dict(marks))
        last, (path,) = drawn[-1], self.files(drawn, {}).values()
        table = pa.Table.from_arrays([pa.array(last.values)], schema=schema)
        pq.write_table(table, folder / path, compression="zstd")
        yield written(folder, path, last.key, self.role, last.values.size, (("value", "int64"),))

    def stated(self, released: ParameterMeasurement, key: str) -> dict[str, Any]:
        """Return what was trained, and which draw it is."""
        about = {"perturbation": released.perturbation.to_json(), "interval": released.interval}
        return {"clique": [], "shape": [released.values.size], "parameters": about}

    def described(self, released: ParameterMeasurement, key: str) -> dict[str, Any]:
        """Describe the draw."""
        cells = released.values.size
        return {"what": what(released), "columns": [], "cells": cells, "noise": noise_of(released)}

    def measured(self, released: ParameterMeasurement) -> dict[str, Any]:
        """Describe what is published."""
        return {"columns": what(released), "cells": released.values.size, "noise": noise_of(released)}

    def sensitivities(self, drawn: Sequence[ParameterMeasurement]) -> list[dict[str, Any]]:
        """Say how far a clamped number moves."""
        return [{"of": message("each parameter, in steps of its range"), "l1": STEPS}]

    def mechanism(self, noise: str, drawn: Sequence[ParameterMeasurement]) -> str:
        """Say how noise is added."""
        return PERTURBED[what(drawn[0])]

    def published(self, draws: Sequence[ParameterDraw]) -> tuple[Any, ...]:
        """Return how many there are; what was trained stands in the record as it was written."""
        return tuple(Published(kind=draw.kind) for draw in draws)


def what(measurement: ParameterMeasurement) -> str:
    """Name what was drawn."""
    return CHANGES if isinstance(measurement.perturbation, DeltaTraining) else PARAMETERS


def noise_of(measurement: ParameterMeasurement) -> str:
    """Say how much noise a parameter, or a change of one, gets."""
    if isinstance(measurement.event, DiscreteGaussian):
        spread = float(measurement.event.sigma_squared) ** 0.5 / STEPS
        return message(
            "discrete Gaussian, standard deviation {spread} times the range of the number", spread=f"{spread:.6g}"
        )
    return message(
        "discrete Laplace, scale {spread} times the range of the number",
        spread=f"{1 / float(measurement.event.inverse_scale) / STEPS:.6g}",
    )
