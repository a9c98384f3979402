"""Votes through the grant: derived events, exact noise, replay without a row, and the joint law of all rounds."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from privacy.accounting.events import Pure, ZeroConcentrated
from privacy.generators.private_evolution import Evolution
from privacy.grant.grant import Grant, open_grant
from privacy.grant.queries.votes import VoteMeasurement, VoteQuery
from privacy.learning.candidates import Candidates
from privacy.learning.layout import PrivateRows
from privacy.ledger.entries import GrantExceeded, LedgerRefusal
from privacy.marginals.graph import CellDomain
from privacy.marginals.portable import PostProcessingSeed
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise
from tests.privacy.learning.learning_rows import LAYOUT, private, random_rows
from tests.privacy.ledger.ledgers import Place, ledger_with_account, opened_grant, request

NOISE = GaussianNoise(Fraction(1, 100))
ROWS = random_rows(200)
CANDIDATES = Candidates(LAYOUT.names, random_rows(30, 9).astype(np.int64), "label")


def counted(grant: Grant, candidates: Candidates = CANDIDATES, key: str = "votes") -> VoteMeasurement:
    return grant.draw(VoteQuery(private(ROWS), candidates, NOISE), key=key)


class LooseCandidates(Candidates):
    def votes(self, codes: Any, layout: Any) -> Any:
        raise AssertionError(codes)


@pytest.mark.parametrize(
    ("candidates", "said"),
    [
        (LooseCandidates(CANDIDATES.columns, CANDIDATES.codes, None), "Candidates itself, not LooseCandidates"),
        (Candidates(("height",), CANDIDATES.codes[:, :1], None), "candidates of height"),
        (Candidates(LAYOUT.names, CANDIDATES.codes, "height"), "the label 'height' is a number"),
        (Candidates(LAYOUT.names, CANDIDATES.codes + 20, None), "a code that its column does not have"),
    ],
)
def test_candidates_of_another_form_are_refused_before_a_row_is_read(
    sqlite_place: Place, candidates: Candidates, said: str
) -> None:
    """With nothing drawn: the whole budget is still there."""
    _, grant = opened_grant(sqlite_place, (ZeroConcentrated(Fraction(1, 10)),))
    unread = PrivateRows(LAYOUT, private(ROWS).keyed_hash, "b" * 64, lambda: pytest.fail("rows were read"))
    with pytest.raises((LedgerRefusal, ValueError), match=said):
        grant.draw(VoteQuery(unread, candidates, NOISE), key="votes")
    for turn in range(10):
        counted(grant, key=f"votes-{turn}")


EVOLUTION = Evolution(CellDomain(LAYOUT.names, (11, 11, 12, 3)), LAYOUT, {}, "label", PostProcessingSeed(4))
ROUNDS = 5


def evolved(grant: Grant, rows: NDArray[np.uint8]) -> list[tuple[Candidates, NDArray[np.int64]]]:
    codes, seen = EVOLUTION.begin(40), []
    for turn in range(ROUNDS):
        candidates = Candidates(LAYOUT.names, codes, "label")
        noise = LaplaceNoise(Fraction(1, ROUNDS))
        values = grant.draw(VoteQuery(private(rows), candidates, noise), key=f"votes-{turn}").values
        seen.append((candidates, values))
        codes = EVOLUTION.changed(EVOLUTION.drawn(codes, values, 40, turn), 2**13, turn)
    return seen


def loss(
    seen: Sequence[tuple[Candidates, NDArray[np.int64]]], one: NDArray[np.uint8], other: NDArray[np.uint8]
) -> float:
    """Return the log of how much likelier all that was seen is under one table than under another. A value's
    probability is in proportion to e^(-|away| / ROUNDS): discrete Laplace noise."""
    moved = 0
    for candidates, values in seen:
        away = [np.abs(values - candidates.votes(rows, LAYOUT)).sum() for rows in (one, other)]
        moved += int(away[1] - away[0])
    return moved / ROUNDS


@pytest.mark.long
def test_all_rounds_together_tell_no_more_than_epsilon(sqlite_place: Place) -> None:
    """The exact likelihood ratio of whole runs, adaptive candidates and all, is at most e^epsilon for each neighbour.
    No chance is in the bound: it holds whatever was drawn. Where every noisy vote is large it is reached, so that
    rows which moved two votes would pass it."""
    ledger = ledger_with_account(sqlite_place)
    ledger.reserve(request(events=(Pure(Fraction(1)),)))
    grant = open_grant(ledger, "run-1")
    seen = evolved(grant, ROWS)
    lacking = [np.delete(ROWS, place, axis=0) for place in range(len(ROWS))]
    assert max(abs(loss(seen, ROWS, each)) for each in lacking) <= 1
    large = [(candidates, values + 10**6) for candidates, values in seen]
    assert {loss(large, ROWS, each) for each in lacking} == {1}
    assert loss(large, ROWS, ROWS[2:]) == 2
    with pytest.raises(GrantExceeded):
        grant.draw(VoteQuery(private(ROWS), CANDIDATES, LaplaceNoise(Fraction(1, 10**6))), key="votes-more")
