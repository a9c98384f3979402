"""Noisy votes: the worst neighbour's moves, the values that were entered, and the candidates of a fit made again.

Each row votes for one candidate, so the moves are those of a marginal, whatever the candidates are. Which these were
is stated by a digest. A fit made again comes to them from the seed and the votes before, and must find this digest.
"""

from __future__ import annotations

from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contracts.errors import Finding
from privacy.accounting.events import CountNoise, DiscreteGaussian, DiscreteLaplace
from privacy.grant.queries.votes import VoteQuery
from privacy.learning.candidates import MOST_CANDIDATES
from tasks.records.draws.marginal import NOISY
from tasks.records.draws.votes import VoteDraw
from tasks.records.strict_json import printable, shown
from tasks.verification.draws.charged_noise import MOST_MOVES
from tasks.verification.draws.count_draws import check_count_draw
from tasks.verification.draws.draw_checks import FittedMeaning, OtherDraw, PublishedValues, SeparateDrawChecks
from tasks.verification.files.table_files import (
    MISFIT,
    UNREADABLE,
    check_digest,
    check_form,
    check_weight,
    check_whole,
    open_parquet,
)
from tasks.verification.record_identity import OTHER
from tasks.verification.refinement_replay import values_sha256

_ROWS: Final = "one for each candidate"


class VoteChecks(SeparateDrawChecks[VoteDraw, VoteQuery]):
    """The checks of noisy votes."""

    events = (DiscreteLaplace, DiscreteGaussian)
    most_moves = MOST_MOVES

    def check_draw(self, draw: VoteDraw, meaning: FittedMeaning, *, at: str, where: str) -> list[Finding]:
        """Check that candidates are whole rows, the label, the file, and the sensitivity."""
        one = len(draw.shape) == 1 and 1 <= draw.shape[0] <= MOST_CANDIDATES
        findings = []
        if not one:
            allowed = f"one number of candidates, 1 to {MOST_CANDIDATES}"
            findings.append(Finding(where, f"{at}.shape", shown(list(draw.shape)), allowed, OTHER))
        if draw.label is not None and draw.label not in meaning.names:
            found = f"the column {shown(draw.label)}"
            findings.append(Finding(where, f"{at}.label", found, "a column of the product, or none", OTHER))
        own: list[tuple[str, object, object]] = [(f"{at}.clique", list(draw.clique), [])]
        allowed = "a vote of every row, in a file of its own"
        return findings + check_count_draw(draw, meaning, own, at=at, where=where, allowed=allowed)

    def read(
        self, data: bytes, draw: VoteDraw, event: CountNoise, meaning: FittedMeaning, rebuilt: Any
    ) -> tuple[NDArray[np.int64] | None, list[Finding]]:
        """Check a file of noisy votes."""
        where, rows, types = printable(draw.measurements or ""), prod(draw.shape), {NOISY: "int64"}
        try:
            file = open_parquet(data, ())
            expected = rows, _ROWS
            findings = check_form(file.schema_arrow, file.metadata.num_rows, where, (), types, expected=expected)
            findings = findings or check_weight(data, file.metadata, where, meaning.contract, (), types, rows=rows)
            if not findings:
                table = file.read()
                table.validate(full=True)
                findings = check_whole(table, where, (NOISY,))
        except UNREADABLE as error:
            findings = [Finding(where, "the file", printable(str(error)), "a whole Parquet file", MISFIT)]
        if findings:
            return None, findings
        noisy = table.column(NOISY).to_numpy()
        return noisy, check_digest(values_sha256(noisy), draw.sha256, f"column {NOISY}", where=where)

    def matching(self, query: VoteQuery, draw: VoteDraw, values: PublishedValues) -> VoteQuery:
        """Compare the candidates, number by number: they follow in whole numbers from what was drawn before."""
        asked = query.candidates.digest, query.candidates.label
        if (draw.candidates, draw.label) != asked:
            raise OtherDraw(f"draw {draw.key!r}: votes for other candidates were asked for than those that are there")
        return query
