"""Noisy counts by place: the level's places, the worst neighbour's moves, and the values that were entered."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from contracts.errors import Finding
from privacy.accounting.events import CountNoise, DiscreteGaussian
from privacy.grant.queries.place_counts import PlaceCountQuery
from tasks.records.draws.marginal import NOISY
from tasks.records.draws.place_counts import PlaceCountDraw
from tasks.records.strict_json import printable
from tasks.verification.draws.charged_noise import MOST_MOVES
from tasks.verification.draws.count_draws import check_count_draw
from tasks.verification.draws.draw_checks import (
    FileForm,
    FittedMeaning,
    OtherDraw,
    PublishedValues,
    SeparateDrawChecks,
)
from tasks.verification.files.table_files import check_digest, read_parquet
from tasks.verification.refinement_replay import values_sha256


class PlaceCountChecks(SeparateDrawChecks[PlaceCountDraw, PlaceCountQuery]):
    """The checks of noisy counts by place."""

    events = (DiscreteGaussian,)
    most_moves = MOST_MOVES

    def check_draw(self, draw: PlaceCountDraw, meaning: FittedMeaning, *, at: str, where: str) -> list[Finding]:
        """Check the sensitivity and the file; columns, shape and level are those of the product, as it says."""
        return check_count_draw(
            draw, meaning, at=at, where=where, allowed="every place and cell, in a file of its own"
        )

    def form(self, draw: PlaceCountDraw, meaning: Any) -> FileForm:
        """Cells have the labels of the level's places, and of their columns."""
        cells = meaning.cells_at(draw.level)
        return FileForm({name: cells.column(name).labels for name in draw.clique})

    def read(
        self, data: bytes, draw: PlaceCountDraw, event: CountNoise, meaning: Any, rebuilt: Any
    ) -> tuple[NDArray[np.int64] | None, list[Finding]]:
        """Check a file of noisy counts."""
        where, cells = printable(draw.measurements or ""), meaning.cells_at(draw.level)
        types = {NOISY: "int64"}
        columns, wrong = read_parquet(data, where=where, cells=cells, clique=draw.clique, values=types)
        if columns is None:
            return None, wrong
        wrong += check_digest(values_sha256(columns[NOISY]), draw.sha256, f"column {NOISY}", where=where)
        return columns[NOISY].reshape(draw.shape), wrong

    def matching(self, query: PlaceCountQuery, draw: PlaceCountDraw, values: PublishedValues) -> PlaceCountQuery:
        """Compare columns and level."""
        if (draw.clique, draw.level) != (query.clique, query.level):
            raise OtherDraw(f"draw {draw.key!r}: other counts were asked for than those that are there")
        return query
