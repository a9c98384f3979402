"""Chosen quantiles by cell, as they are published: each draw in a tidy table, a row a cell and quantile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import numpy as np

from contracts.domains.quantile_choices import QuantileChoices
from contracts.domains.value_lattices import ValueLattice
from contracts.message import message
from contracts.reading.scalars import parse_bound, plain_text
from privacy.accounting.events import ExponentialMechanism, event_from_json
from privacy.grant.queries.quantile_choice import QuantileMeasurement
from tasks.records.draws.cell_sums import PART, PartedCells, cell_sum_words
from tasks.records.draws.draw_form import CHOOSER, DrawForm
from tasks.records.draws.marginal import file_name
from tasks.records.facts import RunFacts
from tasks.records.files.tidy_tables import MEASUREMENTS, Tidy, WrittenFile
from tasks.records.model.statement import StatedText, Statement, Tuple
from tasks.records.model.version_statements import FittedDraw

CHOSEN: Final = "chosen"
ZERO: Final = "structural_zero"


class ChoicesStatement(Statement):
    """The lattice among whose offsets quantiles were chosen, and which quantiles."""

    column: StatedText
    low: StatedText
    high: StatedText
    step: StatedText
    counts_missing: bool
    quantiles: Tuple[StatedText]

    @property
    def choices(self) -> QuantileChoices:
        """Lattice and quantiles.

        Raises:
            ValueError: an end, the step or a quantile is no number, or one that no contract can have.
        """
        low, high, step = (parse_bound(text) for text in (self.low, self.high, self.step))
        lattice = ValueLattice(self.column, low, high, step, self.counts_missing)
        return QuantileChoices(lattice, tuple(parse_bound(text) for text in self.quantiles))


class QuantileDraw(FittedDraw):
    """Chosen quantiles by cell, in a file of their own."""

    kind: Literal["quantile_choice"]
    choices: ChoicesStatement


class QuantileChoiceForm(DrawForm[QuantileMeasurement, QuantileDraw]):
    """How chosen quantiles are stated, written and told."""

    statement = QuantileDraw
    role = "chosen quantiles"
    summary = "Quantiles by cell as the exponential mechanism chose them."
    cells = "one a cell of the declared domain and quantile"
    columns: ClassVar[Mapping[str, str]] = {
        PART: "Which quantile was chosen among the values of the cell, in percent.",
        CHOSEN: "The chosen value, in steps of the column's lattice above the lower end of its clip.",
        ZERO: "Whether the contract declares the cell impossible.",
    }

    def files(self, drawn: Sequence[QuantileMeasurement], numbers: Mapping[str, int]) -> dict[str, str]:
        """Name the file of each."""
        return {each.key: f"{MEASUREMENTS}/{_name(each)}.parquet" for each in drawn}

    def write(
        self, drawn: Sequence[QuantileMeasurement], facts: RunFacts, folder: Path, *, marks: Mapping[str, str]
    ) -> Iterator[WrittenFile]:
        """Write each, a row a cell and quantile."""
        for each in drawn:
            cells, clique = PartedCells(facts.contract, each.choices.part_names), (*each.clique, PART)
            tidy = Tidy(cells, clique, {CHOSEN: each.values, ZERO: cells.impossible(clique)})
            yield tidy.write(folder, f"{MEASUREMENTS}/{_name(each)}.parquet", draw=each.key, marks=marks)

    def stated(self, released: QuantileMeasurement, key: str) -> dict[str, Any]:
        """Return the columns, the shape of what was chosen, and among what."""
        return {
            "clique": list(released.clique),
            "shape": list(released.values.shape),
            "choices": released.choices.to_json(),
        }

    def described(self, released: QuantileMeasurement, key: str) -> dict[str, Any]:
        """Describe the draw: which quantiles of what, and how many candidates there were."""
        choices, lattice = released.choices, released.choices.lattice
        return {
            "what": message("chosen quantiles"),
            "of": choices.column,
            "columns": list(released.clique),
            "numbers": released.values.size,
            "clip": f"[{plain_text(lattice.low)}, {plain_text(lattice.high)}]",
            "steps_of": plain_text(lattice.step),
            "quantiles": [plain_text(share) for share in choices.shares],
            "loss_per_row": str(choices.loss_factor),
            "noise": message("exponential mechanism"),
        }

    def measured(self, released: QuantileMeasurement) -> dict[str, Any]:
        """Describe what is published."""
        named = message("quantiles of {column}", column=released.choices.column)
        return {"columns": cell_sum_words(named, released.clique), "quantiles": list(released.choices.part_names)}

    def sensitivities(self, drawn: Sequence[QuantileMeasurement]) -> list[dict[str, Any]]:
        """Say by how much one row moves the distance of a candidate at most, quantile by quantile [rows]."""
        return [
            {
                "of": message("distances from quantiles of {column}", column=each.choices.column),
                "moved_by": [plain_text(max(share, 1 - share)) for share in each.choices.shares],
            }
            for each in drawn
        ]

    def samplers(self, drawn: Sequence[QuantileMeasurement]) -> set[str]:
        """Name how a choice is sampled."""
        return {CHOOSER}

    def mechanism(self, noise: str, drawn: Sequence[QuantileMeasurement]) -> str:
        """Say that quantiles are chosen."""
        return message("{noise}; quantiles chosen by the exponential mechanism", noise=noise)

    def published(self, draws: Sequence[QuantileDraw]) -> tuple[QuantileMeasurement, ...]:
        """Return what was chosen without its values, of which only the shape is read."""
        return tuple(_measurement(draw) for draw in draws)


def _name(measurement: QuantileMeasurement) -> str:
    return file_name(measurement.number, (*measurement.clique, measurement.choices.column))


def _measurement(draw: QuantileDraw) -> QuantileMeasurement:
    event = event_from_json(draw.event)
    if not isinstance(event, ExponentialMechanism):
        raise TypeError(f"{draw.key} is no choice")
    values = np.broadcast_to(np.int64(0), draw.shape)  # only its shape is read
    return QuantileMeasurement(draw.key, draw.clique, draw.choices.choices, values, event, draw.number, draw.sha256)
