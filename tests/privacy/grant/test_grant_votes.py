"""Residuals and votes through the grant: one derived event for all, exact noise, replay, no cheaper sensitivity."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from privacy.accounting.events import Pure, ZeroConcentrated
from privacy.generators.private_evolution import Evolution
from privacy.grant.grant import Grant, open_grant
from privacy.grant.queries.residuals import ResidualQuery
from privacy.grant.queries.votes import VoteMeasurement, VoteQuery
from privacy.learning.candidates import Candidates
from privacy.learning.layout import PrivateRows
from privacy.ledger.entries import GrantExceeded, LedgerRefusal
from privacy.marginals.counts import Coarsening, PrivateCounts
from privacy.marginals.graph import CellDomain
from privacy.marginals.portable import PostProcessingSeed
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise
from tests.privacy.learning.learning_rows import LAYOUT, private, random_rows
from tests.privacy.ledger.ledgers import KEYED_HASH, Place, ledger_with_account, opened_grant, request

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
):
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
def test_all_rounds_together_tell_no_more_than_epsilon(sqlite_place: Place):
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


COUNTS = np.arange(6, dtype=np.int64).reshape(2, 3) * 100


def handle(clique: tuple[str, ...], exact: NDArray[np.int64]) -> PrivateCounts:
    return PrivateCounts(clique, exact.shape, KEYED_HASH, "b" * 64, lambda: exact)


def test_what_does_not_fit_together_is_refused(sqlite_place: Place):
    """Pairs, sets of columns once, cells of the contract, at least two a column; nothing is drawn."""
    _, grant = opened_grant(sqlite_place)
    sex = handle(("sex",), COUNTS.sum(axis=1))
    coarser = sex.coarser(Coarsening("all", (1,), np.zeros(2, np.int64)))
    for counts, multipliers in (
        ((), ()),
        ((sex,), (1, 1)),
        ((sex, sex), (1, 1)),
        ((coarser,), (1,)),
        ((sex,), (0,)),
        ((handle(("sex",), np.zeros(1, np.int64)),), (1,)),
    ):
        with pytest.raises(ValueError, match="allowed"):
            grant.draw(ResidualQuery(counts, multipliers, NOISE), key="residuals")


def test_counts_of_another_shape_than_was_planned_are_not_drawn_for(sqlite_place: Place):
    """The sensitivity follows from the shape, so the counts must have it."""
    _, grant = opened_grant(sqlite_place)
    wrong = replace(handle(("sex",), COUNTS.sum(axis=1)), _count=lambda: COUNTS)
    with pytest.raises(LedgerRefusal, match="ValueError"):
        grant.draw(ResidualQuery((wrong,), (1,), NOISE), key="residuals")
