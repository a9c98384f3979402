"""A caller's frozen values bring no code of their own to where exact counts are, and no draw can be tried again."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from contracts.release.tables.tables import MinimumFrequency
from privacy.counting_engine import CountsUnavailable
from privacy.grant.queries.choice import ChoiceQuery
from privacy.grant.queries.marginal import MarginalQuery
from privacy.grant.queries.sparse_marginal import SparseMarginalQuery
from privacy.grant.queries.sums import SumQuery
from privacy.ledger.entries import LedgerRefusal
from privacy.marginals.counts import Coarsening
from privacy.marginals.scores import Candidate, DistanceScore
from tests.privacy.grant.crashes import opened
from tests.privacy.grant.test_grant_sparse import HALF, Listed, depth
from tests.privacy.grant.test_grant_sums import NOISE, ROWS, private
from tests.privacy.learning.learning_rows import all_statistics
from tests.privacy.ledger.ledgers import Counted, Place, opened_grant


def shadow(value: object, name: str, entry: object) -> None:
    """Put an entry into a frozen value's own dictionary, past its class."""
    vars(value)[name] = entry


def refuse(*_: object) -> Any:
    raise AssertionError("a caller's function was called")


def test_a_depth_with_a_rule_of_its_own_is_refused_before_anything_is_drawn(place: Place):
    ledger, grant = opened(place)
    until = depth()
    shadow(until, "next", refuse)
    with pytest.raises(ValueError, match="until must keep its fields alone, and not 'next'"):
        grant.draw(SparseMarginalQuery(Listed().handle, HALF, until), key="a")
    assert [entry.kind for entry in ledger.entries_of("run-1")] == ["charge_reserved", "grant_opened"]


def test_a_depth_whose_zeros_are_a_sequence_of_a_callers_class_is_refused(place: Place):
    """It could show one mask to the check and another to the draw."""

    class Masks(tuple[Any, ...]):
        __slots__ = ()

    _, grant = opened(place)
    until = depth()
    object.__setattr__(until.impossible, "masks", Masks(until.impossible.masks))
    with pytest.raises(ValueError, match=r"until\.impossible\.masks must be tuple itself, not Masks"):
        grant.draw(SparseMarginalQuery(Listed().handle, HALF, until), key="a")


@pytest.mark.parametrize("part", ["statistic", "embedding"])
def test_a_statistic_with_a_method_of_its_own_is_refused(place: Place, part: str):
    _, grant = opened_grant(place)
    statistic = all_statistics()["class moments"].rebuilt()
    shadow(statistic if part == "statistic" else statistic.embedding, "rebuilt", refuse)
    with pytest.raises(ValueError, match="keep its fields alone"):
        grant.draw(SumQuery(private(ROWS), statistic, NOISE), key="k")


def test_a_score_with_a_sensitivity_of_its_own_is_refused(place: Place):
    _, grant = opened(place)
    score = DistanceScore(np.zeros(3, np.int64), Fraction(1), Fraction(0))
    shadow(score, "sensitivity", lambda *_: Fraction(1, 10**6))
    candidate = Candidate(Counted(np.array([5, 0, 0])).handle, score)
    with pytest.raises(ValueError, match="not 'sensitivity' besides"):
        grant.draw(ChoiceQuery((candidate,), Fraction(1, 100)), key="c")


def test_a_rule_that_was_constructed_past_its_checks_is_refused(place: Place):
    """An integer of a caller's making would meet the noisy counts before they are written."""

    class Threshold(int):
        pass

    _, grant = opened(place)
    rule = MinimumFrequency.model_construct(k=Threshold(3), t=0)
    with pytest.raises(ValueError, match="k must be a plain number, not Threshold"):
        grant.draw(MarginalQuery(Counted(np.array([7, 70, 700])).handle, HALF, rule), key="a")


def test_what_a_coarsening_has_cached_is_worked_out_again(place: Place):
    """The header of a draw names the grouping that was counted, not what a caller put there."""
    _, grant = opened(place)
    grouping = Coarsening("L", (1,), np.zeros(3, np.int64))
    honest = grouping.sha256
    shadow(grouping, "sha256", "f" * 64)
    grant.draw(MarginalQuery(Counted(np.array([7, 70, 700])).handle.coarser(grouping), HALF), key="a")
    (file,) = (place.folder / "draws" / "run-1").glob("*.draw")
    assert honest.encode() in file.read_bytes()
    assert b"f" * 64 not in file.read_bytes()


def test_an_engine_that_fails_while_noise_is_drawn_spoils_the_draw(place: Place, monkeypatch: pytest.MonkeyPatch):
    """Only counts that cannot be read leave a draw open: with noise drawn, trying again would be a second draw."""
    ledger, grant = opened(place)

    def away(*_: object, **__: object) -> Any:
        raise CountsUnavailable("the engine does not answer")

    monkeypatch.setattr("privacy.grant.queries.sparse_marginal.draw_listed", away)
    for _ in range(2):
        with pytest.raises(LedgerRefusal):
            grant.draw(SparseMarginalQuery(Listed().handle, HALF, depth()), key="a")
    assert [entry.kind for entry in ledger.entries_of("run-1")][-1] == "noise_drawn"
