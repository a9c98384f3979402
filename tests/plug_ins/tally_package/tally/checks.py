"""What is checked of a tally."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contracts.errors import Finding
from privacy.accounting.events import DiscreteLaplace
from tally.form import TallyDraw
from tally.query import TallyQuery
from tasks.records.model.version_statements import FittedDraw
from tasks.verification.draws.draw_checks import (
    UNDERSTATED,
    DrawChecks,
    FileForm,
    FittedMeaning,
    OtherDraw,
    PublishedValues,
    is_own_file,
)
from tasks.verification.files.parquet_pages import open_numbers
from tasks.verification.files.table_files import OTHER_NOISE
from tasks.verification.record_identity import differences
from tasks.verification.refinement_replay import values_sha256


class TallyChecks(DrawChecks[TallyDraw, TallyQuery]):
    """The checks of tallies."""

    events = (DiscreteLaplace,)
    most_moves = 1

    def check(
        self,
        placed: Sequence[tuple[int, TallyDraw]],
        draws: Sequence[FittedDraw],
        meaning: FittedMeaning,
        *,
        where: str,
    ) -> list[Finding]:
        """Check the cell, the file, and the worst neighbour."""
        findings: list[Finding] = []
        for place, draw in placed:
            at, last = f"replay.draws[{place}]", meaning.contract.shape(draw.clique)[0] - 1
            pairs: list[tuple[str, object, object]] = [
                (f"{at}.cell", draw.cell, last),
                (f"{at}.measurements", is_own_file(draw.measurements), True),
                (f"{at}.event.moves", draw.event["moves"], [meaning.contract.unit.max_rows_per_unit]),
            ]
            findings += differences(pairs, where=where, allowed=UNDERSTATED)
        return findings

    def form(self, draw: TallyDraw, meaning: FittedMeaning) -> FileForm:
        """Numbers are written with dictionaries."""
        return FileForm(all_dictionaries=True)

    def read(
        self, data: bytes, draw: TallyDraw, event: Any, meaning: FittedMeaning, rebuilt: Any
    ) -> tuple[NDArray[np.int64] | None, list[Finding]]:
        """Compare with what was entered."""
        values = open_numbers(data).read().column("tally").to_numpy()
        found = values_sha256(values)
        wrong = (
            []
            if found == draw.sha256
            else [Finding(draw.measurements or "", "tally", found, draw.sha256, OTHER_NOISE)]
        )
        return values, wrong

    def matching(self, query: TallyQuery, draw: TallyDraw, values: PublishedValues) -> TallyQuery:
        if draw.clique != query.clique:
            raise OtherDraw(f"draw {draw.key!r}: a tally of another column was asked for")
        return query
