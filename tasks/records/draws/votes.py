"""Noisy votes for public candidates, as they are published: a file a draw, a number a candidate, in their order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from contracts.message import message
from privacy.grant.queries.votes import VoteMeasurement
from tasks.records.draws.marginal import NOISY, BareCountForm, DrawnFields
from tasks.records.facts import RunFacts
from tasks.records.files.tidy_tables import MEASUREMENTS, WrittenFile, written
from tasks.records.model.statement import Hash, StatedText
from tasks.records.model.version_statements import FittedDraw


class VoteDraw(FittedDraw):
    """Noisy votes, in a file of their own; the candidates by their digest, and the label that they are parted by."""

    kind: Literal["votes"]
    candidates: Hash
    label: StatedText | None


class VoteForm(BareCountForm[VoteMeasurement, VoteDraw]):
    """How noisy votes are stated, written and told."""

    statement = VoteDraw
    summary = "Noisy votes for public candidates, as they were drawn."
    cells = "one a candidate, in their order"
    noise_on = message("votes for public candidates")

    def stem(self, key: str) -> str:
        """Name the file of a draw after its key."""
        return key

    def named(self, released: VoteMeasurement) -> dict[str, Any]:
        """Return nothing: the key tells one round from another."""
        return {}

    def write(
        self, drawn: Sequence[VoteMeasurement], facts: RunFacts, folder: Path, *, marks: Mapping[str, str]
    ) -> Iterator[WrittenFile]:
        """Write each; all numbers have one noise, so that the count alone is written."""
        (folder / MEASUREMENTS).mkdir(exist_ok=True)
        schema = pa.schema([pa.field(NOISY, pa.int64(), nullable=False)], metadata=dict(marks))
        for each in drawn:
            table, path = pa.Table.from_arrays([pa.array(each.values)], schema=schema), self.path(each.key)
            pq.write_table(table, folder / path, compression="zstd", use_dictionary=False)
            yield written(folder, path, each.key, self.role, each.values.size, ((NOISY, "int64"),))

    def stated(self, released: VoteMeasurement, key: str) -> dict[str, Any]:
        """Return how many candidates there were, their digest, and the label."""
        told = {"candidates": released.candidates, "label": released.label}
        return {"clique": [], "shape": list(released.values.shape), **told}

    def measured(self, released: VoteMeasurement) -> dict[str, Any]:
        """Describe what is published."""
        return {**super().measured(released), "columns": self.noise_on}

    def measurement(self, draw: VoteDraw, numbers: DrawnFields) -> VoteMeasurement:
        """Return what was drawn."""
        return VoteMeasurement(*numbers, draw.candidates, draw.label)
