"""How a tally is stated, written and told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from privacy.accounting.events import event_from_json
from tally.query import Tally
from tasks.records.draws.marginal import DrawForm
from tasks.records.facts import RunFacts
from tasks.records.files.tidy_tables import MEASUREMENTS, WrittenFile, written
from tasks.records.groups.guarantee import noise_words
from tasks.records.model.statement import Count
from tasks.records.model.version_statements import FittedDraw

SCHEMA = pa.schema([pa.field("tally", pa.int64(), nullable=False)])


class TallyDraw(FittedDraw):
    """A tally; the cell is stated, too."""

    kind: Literal["tally"]
    cell: Count


class TallyForm(DrawForm[Tally, TallyDraw]):
    """How a tally is stated, written and told."""

    statement = TallyDraw
    role = "tally"
    summary = "A noisy number of rows, as it was drawn."
    columns: Mapping[str, str] = {"tally": "The number."}
    noise_on = "tallies"

    def files(self, drawn: Sequence[Tally], numbers: Mapping[str, int]) -> dict[str, str]:
        return {each.key: f"{MEASUREMENTS}/{numbers[each.key]:04d}-tally.parquet" for each in drawn}

    def write(
        self, drawn: Sequence[Tally], facts: RunFacts, folder: Path, *, marks: Mapping[str, str]
    ) -> Iterator[WrittenFile]:
        for each in drawn:
            (path,) = self.files([each], {each.key: each.number}).values()
            table = pa.Table.from_arrays([pa.array([each.value])], schema=SCHEMA.with_metadata(dict(marks)))
            pq.write_table(table, folder / path, compression="zstd")
            yield written(folder, path, each.key, self.role, 1, (("tally", "int64"),))

    def stated(self, released: Tally, key: str) -> dict[str, Any]:
        return {"clique": [released.column], "shape": [1], "cell": released.cell}

    def described(self, released: Tally, key: str) -> dict[str, Any]:
        return {"what": "tally", "columns": [released.column], "cells": 1, "noise": noise_words(released.event)}

    def measured(self, released: Tally) -> dict[str, Any]:
        return {"columns": released.column, "cells": 1}

    def sensitivities(self, drawn: Sequence[Tally]) -> list[dict[str, Any]]:
        """Give how far one unit moves it."""
        return [{"of": "tallies", "l1": each.event.moves[0]} for each in drawn]

    def published(self, draws: Sequence[TallyDraw]) -> tuple[Tally, ...]:
        """Return all but the values."""
        events: list[Any] = [event_from_json(draw.event) for draw in draws]
        return tuple(
            Tally(draw.key, draw.clique[0], draw.cell, 0, event, draw.number)
            for draw, event in zip(draws, events, strict=True)
        )
