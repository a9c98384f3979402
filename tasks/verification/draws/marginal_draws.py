"""Noisy marginals: whole domains, the worst neighbour's moves, and the values that were entered."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.errors import Finding
from privacy.accounting.events import CountNoise, DiscreteGaussian, DiscreteLaplace
from privacy.grant.queries.marginal import MarginalQuery
from privacy.marginals.counts import ParentRows
from privacy.marginals.suppression import threshold_for
from tasks.records.draws.marginal import MarginalDraw
from tasks.records.strict_json import printable, shown
from tasks.verification.draws.charged_noise import MOST_MOVES
from tasks.verification.draws.count_draws import check_count_draw
from tasks.verification.draws.draw_checks import (
    UNDERSTATED,
    FileForm,
    FittedMeaning,
    OtherDraw,
    PublishedValues,
    SeparateDrawChecks,
)
from tasks.verification.files.measurement_files import check_measured
from tasks.verification.files.suppressed_cells import SUPPRESSED, marks_of
from tasks.verification.files.table_files import MEASURED, read_parquet
from tasks.verification.record_identity import OTHER


class MarginalChecks(SeparateDrawChecks[MarginalDraw, MarginalQuery]):
    """The checks of noisy marginals."""

    events = (DiscreteLaplace, DiscreteGaussian)
    most_moves = MOST_MOVES

    def check_draw(self, draw: MarginalDraw, meaning: FittedMeaning, *, at: str, where: str) -> list[Finding]:
        """Check shape, file and sensitivity of each."""
        return _check_marginal(draw, meaning, at, where)

    def form(self, draw: MarginalDraw, meaning: FittedMeaning) -> FileForm:
        """Cells have the labels of their columns."""
        cells = draw.cells(meaning.contract)
        return FileForm({name: cells.column(name).labels for name in draw.clique})

    def read(
        self, data: bytes, draw: MarginalDraw, event: CountNoise, meaning: FittedMeaning, rebuilt: Any
    ) -> tuple[NDArray[np.int64] | None, list[Finding]]:
        """Check a file of a marginal."""
        name, cells = draw.measurements or "", draw.cells(meaning.contract)
        rule = meaning.minimum_frequency_of(draw.key)
        threshold = None if rule is None else threshold_for(rule, event)
        types, marks = MEASURED, None
        if threshold is not None:
            types, marks = {**MEASURED, SUPPRESSED: "bool"}, marks_of(threshold.value - 1, event)
        terms: dict[str, Any] = {"cells": cells, "clique": draw.clique, "values": types, "marks": marks}
        columns, wrong = read_parquet(data, where=printable(name), **terms)
        if columns is None:
            return None, wrong
        hidden = None if threshold is None else threshold.suppressed(columns["noisy"])
        wrong += check_measured(columns, name, draw, event, cells, hidden)
        return columns["noisy"].reshape(draw.shape), wrong

    def matching(self, query: MarginalQuery, draw: MarginalDraw, values: PublishedValues) -> MarginalQuery:
        """Compare the columns, whose rows are counted, and which bins are joined."""
        parents = query.counts.parents
        if (draw.clique, draw.table) != (query.clique, None if parents is None else parents.table):
            raise OtherDraw(
                f"draw {draw.key!r}: {'×'.join(query.clique) or 'all rows'} was asked for, not what is there"
            )
        asked = None if query.counts.coarsening is None else query.counts.coarsening.firsts
        if (None if draw.bins is None else dict(draw.bins)) != (None if asked is None else dict(asked)):
            raise OtherDraw(f"draw {draw.key!r}: other joined bins were asked for than those that are there")
        return query


def _check_marginal(draw: MarginalDraw, meaning: FittedMeaning, at: str, where: str) -> list[Finding]:
    """Check a marginal's shape, joined bins, file and sensitivity."""
    allowed, coarser = "the whole declared domain, in a file of its own", None
    if draw.bins is not None:
        coarser, findings = _joined(draw, meaning, at, where)
        if coarser is None:
            return findings
    own = [
        (f"{at}.clique", list(draw.clique), list(meaning.ordered(draw.clique))),
        (f"{at}.shape", list(draw.shape), list(draw.cells(meaning.contract).shape(draw.clique))),
    ]
    counted, wrong = _counted(draw, meaning, at, where)
    terms: dict[str, Any] = {"contract": counted, "allowed": allowed, "coarsening": coarser}
    return wrong or check_count_draw(draw, meaning, own, at=at, where=where, **terms)


def _counted(
    draw: MarginalDraw, meaning: FittedMeaning, at: str, where: str
) -> tuple[Contract | None, list[Finding]]:
    """Return the contract of a parent table whose rows were counted; None for the rows of the base."""
    if draw.table is None:
        return None, []
    contract = meaning.contract
    parent = None
    if contract.linked is not None and contract.linked.chain(contract.table):
        parent = contract.over(ParentRows.of(contract).table)
    if parent is None or draw.table != parent.table:
        allowed = "no table" if parent is None else f"{printable(parent.table)}, or no table"
        return None, [Finding(where, f"{at}.table", printable(draw.table), allowed, UNDERSTATED)]
    unknown = set(draw.clique) - {column.name for column in parent.columns}
    if unknown:
        found, allowed = f"the column {printable(min(unknown))}", f"columns of {printable(parent.table)}"
        return None, [Finding(where, f"{at}.clique", found, allowed, UNDERSTATED)]
    return parent, []


def _joined(
    draw: MarginalDraw, meaning: FittedMeaning, at: str, where: str
) -> tuple[dict[str, str] | None, list[Finding]]:
    """Return what a marginal over joined bins must state of its resolution; or what is wrong with the bins."""
    from contracts.release.joined_cells import joins_fit  # most versions have none

    joins = draw.bins or {}
    if (
        draw.table is not None
        or not joins_fit(joins, draw.clique, meaning.contract)
        or (coarser := draw.resolution(meaning.contract)) is None
    ):
        allowed = "of some of its columns of numbers, first bins that rise from 0"
        return None, [Finding(where, f"{at}.bins", shown(joins), allowed, OTHER)]
    return coarser.to_json(), []
