"""Noisy residuals of a fit: are they of all columns, or of pairs too, and is their sensitivity the contract's?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from contracts.errors import Finding
from privacy.accounting.events import DiscreteGaussian
from privacy.grant.queries.residuals import ResidualQuery
from privacy.marginals.domain import CellDomain
from privacy.marginals.residual_basis import Residual, squares_of
from privacy.marginals.residual_shares import column_residuals, pair_residuals
from tasks.records.draws.residuals import ResidualDraw
from tasks.records.files.residual_file import RESIDUALS_FILE, residual_labels
from tasks.verification.draws.draw_checks import (
    UNDERSTATED,
    FileForm,
    FittedMeaning,
    OtherDraw,
    PublishedValues,
    SeparateDrawChecks,
)
from tasks.verification.draws.residual_draws import MOST_SQUARES, read_residuals, worst_norm
from tasks.verification.record_identity import differences


class FittedResidualChecks(SeparateDrawChecks[ResidualDraw, ResidualQuery]):
    """The checks of residuals that a fit drew. How far a unit moves them is derived as of tables, by its own code."""

    events = (DiscreteGaussian,)
    most_moves = MOST_SQUARES

    def check_draw(self, draw: ResidualDraw, meaning: FittedMeaning, *, at: str, where: str) -> list[Finding]:
        """Check which residuals are drawn, their file, and the worst neighbour's moves."""
        residuals, contract = _residuals(draw, meaning), meaning.contract
        pairs: list[tuple[str, object, object]] = [
            (f"{at}.clique", list(draw.clique), []),
            (f"{at}.shape", list(draw.shape), [sum(each.cells for each in residuals)]),
            (f"{at}.coarsening", draw.coarsening, None),
            (f"{at}.listed", draw.listed, None),
            (f"{at}.measurements", draw.measurements, RESIDUALS_FILE),
        ]
        findings = list(
            differences(pairs, where=where, allowed="all residuals of the product's columns, or of columns and pairs")
        )
        worst = list(squares_of(worst_norm(residuals, contract)))
        if draw.event.get("moves") != worst:
            terms = f"{contract.adjacency} with {contract.unit.max_rows_per_unit} rows a unit"
            found = str(draw.event.get("moves"))[:60]
            findings.append(Finding(where, f"{at}.event.moves", found, f"{worst}, under {terms}", UNDERSTATED))
        return findings

    def form(self, draw: ResidualDraw, meaning: FittedMeaning) -> FileForm:
        """Columns of a residual are labels."""
        return FileForm({"columns": residual_labels(_residuals(draw, meaning))})

    def read(
        self, data: bytes, draw: ResidualDraw, event: DiscreteGaussian, meaning: FittedMeaning, rebuilt: object
    ) -> tuple[NDArray[np.int64] | None, list[Finding]]:
        """Check the file of the noisy numbers."""
        return read_residuals(data, draw, _residuals(draw, meaning))

    def matching(self, query: ResidualQuery, draw: ResidualDraw, values: PublishedValues) -> ResidualQuery:
        """Compare how many numbers were asked for; which they are, the event tells."""
        if sum(each.cells for each in query.residuals) != sum(draw.shape):
            raise OtherDraw(f"draw {draw.key!r}: other residuals were asked for than those that are there")
        return query


def _residuals(draw: ResidualDraw, meaning: FittedMeaning) -> tuple[Residual, ...]:
    """Return the residuals of all columns, or of all pairs too: whichever has as many numbers as were drawn."""
    contract = meaning.contract
    domain = CellDomain.of(contract, meaning.names)
    cells = tuple(zip(domain.columns, domain.shape, strict=True))
    known = contract.total is not None
    columns = column_residuals(cells, adjacency=contract.adjacency, total_is_public=known)
    if list(draw.shape) == [sum(each.cells for each in columns)]:
        return columns
    return pair_residuals(cells, adjacency=contract.adjacency, total_is_public=known)
