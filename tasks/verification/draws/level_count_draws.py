"""Noisy counts of groups at their levels: the worst neighbour's moves, and the values that were entered."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from contracts.errors import Finding
from privacy.accounting.events import CountNoise, DiscreteGaussian, DiscreteLaplace
from privacy.grant.queries.level_counts import LevelCountQuery
from privacy.marginals.group_levels import chosen_digest, levels_digest
from tasks.records.draws.count_form import NOISY
from tasks.records.draws.level_counts import LevelCountDraw
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
from tasks.verification.files.listed_rows import read_rows
from tasks.verification.files.table_files import check_digest
from tasks.verification.refinement_replay import values_sha256


class LevelCountChecks(SeparateDrawChecks[LevelCountDraw, LevelCountQuery]):
    """The checks of noisy counts of groups at their levels."""

    events = (DiscreteLaplace, DiscreteGaussian)
    most_moves = MOST_MOVES

    def check_draw(self, draw: LevelCountDraw, meaning: FittedMeaning, *, at: str, where: str) -> list[Finding]:
        """Check the sensitivity and the file; columns, levels and choice are those of product and totals."""
        allowed = "every group and cell, in a file of its own"
        return check_count_draw(draw, meaning, at=at, where=where, allowed=allowed)

    def form(self, draw: LevelCountDraw, meaning: Any) -> FileForm:
        """Rows have the labels of the groups, of the levels, and of the columns at any level."""
        cells, columns, _ = meaning.rows_of(draw.key)
        return FileForm({name: cells.column(name).labels for name in columns})

    def read(
        self, data: bytes, draw: LevelCountDraw, event: CountNoise, meaning: Any, rebuilt: Any
    ) -> tuple[NDArray[np.int64] | None, list[Finding]]:
        """Check a file of noisy counts."""
        where = printable(draw.measurements or "")
        cells, clique, codes = meaning.rows_of(draw.key)
        columns, wrong = read_rows(data, where=where, cells=cells, clique=clique, codes=codes, values=(NOISY,))
        if columns is None:
            return None, wrong
        wrong += check_digest(values_sha256(columns[NOISY]), draw.sha256, f"column {NOISY}", where=where)
        return columns[NOISY], wrong

    def matching(self, query: LevelCountQuery, draw: LevelCountDraw, values: PublishedValues) -> LevelCountQuery:
        """Compare columns, levels and choice."""
        asked = query.clique, levels_digest(query.cells, query.cell_of), chosen_digest(query.chosen)
        if (draw.clique, draw.levels, draw.chosen) != asked:
            raise OtherDraw(f"draw {draw.key!r}: other counts were asked for than those that are there")
        return query
