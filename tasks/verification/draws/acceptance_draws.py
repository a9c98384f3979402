"""Tests of candidates: each is of a criterion of the product, and its noisy distance is the one that was entered.

Its event has the moves of the worst neighbour, derived here anew. Whether the version was accepted by all tests
together, the product's own checks ask (`tasks.products.synthetic.acceptance_checks`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.errors import Finding
from contracts.release.acceptance import Acceptance, CellCriterion, acceptance_of
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace
from privacy.grant.queries.acceptance import AcceptanceQuery
from tasks.records.draws.acceptance import AcceptanceDraw
from tasks.records.model.version_statements import FittedDraw
from tasks.verification.draws.charged_noise import worst_moves
from tasks.verification.draws.draw_checks import UNDERSTATED, DrawChecks, OtherDraw, PublishedValues
from tasks.verification.record_identity import OTHER, differences
from tasks.verification.refinement_replay import values_sha256

_OFF: Final = 2
"""By how many rows the bound of a fit made again may differ: the estimated number of rows is a float, rounded."""


class AcceptanceChecks(DrawChecks[AcceptanceDraw, AcceptanceQuery]):
    """The checks of tests of candidates."""

    events = (DiscreteLaplace, DiscreteGaussian)

    def check(
        self,
        placed: Sequence[tuple[int, AcceptanceDraw]],
        draws: Sequence[FittedDraw],
        meaning: Any,
        *,
        where: str,
    ) -> list[Finding]:
        """Check each test against product, contract and what was entered."""
        acceptance = acceptance_of(meaning.product)
        if acceptance is None:
            found, allowed = f"{len(placed)} acceptance tests", "none, of a product without criteria"
            return [Finding(where, "replay.draws", found, allowed, OTHER)]
        return [
            finding
            for place, draw in placed
            for finding in _check_test(draw, acceptance, meaning, at=f"replay.draws[{place}]", where=where)
        ]

    def drawn(self, draw: AcceptanceDraw, values: PublishedValues) -> NDArray[np.int64]:
        """Return the noisy distance."""
        return np.array([draw.distance])

    def matching(self, query: AcceptanceQuery, draw: AcceptanceDraw, values: PublishedValues) -> AcceptanceQuery:
        """Compare candidate, criterion and bound; go on with the stated bound."""
        if (query.candidate, query.criterion) != (draw.candidate, draw.criterion):
            raise OtherDraw(f"draw {draw.key!r}: another test was asked for than the one that is there")
        if abs(query.passes_at - draw.passes_at) > _OFF:
            asked = f"met up to {query.passes_at} rows was asked for, not {draw.passes_at}"
            raise OtherDraw(f"draw {draw.key!r}: a criterion {asked}")
        return replace(query, passes_at=draw.passes_at)


def _check_test(draw: AcceptanceDraw, acceptance: Acceptance, meaning: Any, *, at: str, where: str) -> list[Finding]:
    if draw.criterion >= len(acceptance.criteria) or draw.candidate >= len(acceptance.candidates):
        found = f"candidate {draw.candidate}, criterion {draw.criterion}"
        allowed = f"one of {len(acceptance.candidates)} candidates and {len(acceptance.criteria)} criteria, from 0"
        return [Finding(where, at, found, allowed, OTHER)]
    found = values_sha256(np.array([draw.distance], dtype=np.int64))
    pairs: list[tuple[str, object, object]] = [
        (f"{at}.clique", str(list(draw.clique)), "[]"),
        (f"{at}.shape", str(list(draw.shape)), "[]"),
        (f"{at}.coarsening", draw.coarsening, None),
        (f"{at}.listed", draw.listed, None),
        (f"{at}.measurements", draw.measurements, None),
        (f"{at}.distance, its SHA-256", found, draw.sha256),
    ]
    findings = list(differences(pairs, where=where, allowed="as it was entered when the test was made"))
    worst = _moved(acceptance, draw.criterion, meaning.contract, meaning.names)
    if draw.event.get("moves") != [worst]:
        terms = f"{meaning.contract.adjacency} with {meaning.contract.unit.max_rows_per_unit} rows a unit"
        stated = str(draw.event.get("moves"))[:60]
        findings.append(Finding(where, f"{at}.event.moves", stated, f"[{worst}], under {terms}", UNDERSTATED))
    return findings


def _moved(acceptance: Acceptance, place: int, contract: Contract, names: tuple[str, ...]) -> int:
    """Derive how far the worst neighbour moves the distance of a criterion [rows]."""
    criterion, moves = acceptance.criteria[place], worst_moves(contract)
    if isinstance(criterion, CellCriterion):
        return max(moves)
    return criterion.parts(len(criterion.cliques(names))) * sum(moves)
