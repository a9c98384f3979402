"""Draws that are chosen on the way: the budget they take from, and private choices."""

from fractions import Fraction

import numpy as np
import pytest

from privacy.accounting.amounts import ATTO
from privacy.accounting.calculus import PureCalculus, RenyiCalculus
from privacy.accounting.events import DiscreteGaussian, ExponentialMechanism, Pure, ZeroConcentrated
from privacy.grant.grant import Grant, open_grant
from privacy.grant.queries.choice import ChoiceQuery
from privacy.grant.queries.marginal import MarginalQuery
from privacy.ledger.entries import GrantExceeded, LedgerRefusal
from privacy.ledger.ledger import Ledger
from privacy.marginals.scores import Candidate, DistanceScore
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise
from tests.privacy.ledger.forged_entries import draw
from tests.privacy.ledger.ledgers import Counted, Place, ledger_with_account, request

RENYI = RenyiCalculus(Fraction(12))
RHO = ZeroConcentrated(Fraction(1, 10))
ZEROS = np.zeros(12, dtype=np.int64)
TENTH = GaussianNoise(Fraction(1, 100))


def opened(place: Place, budget: ZeroConcentrated | Pure = RHO) -> tuple[Ledger, Grant]:
    pure = isinstance(budget, Pure)
    ledger = ledger_with_account(place, PureCalculus() if pure else RENYI)
    ledger.reserve(request(events=(budget,), delta=0 if pure else ATTO // 10**9))
    return ledger, open_grant(ledger, "run-1")


def candidates(*columns: str) -> tuple[list[Counted], list[Candidate]]:
    """Marginals of which the first is far from what is known, the others are not."""
    counted = [Counted(ZEROS + (10**6 if place == 0 else 0), (name,)) for place, name in enumerate(columns)]
    score = DistanceScore(ZEROS, Fraction(1), Fraction(0))
    return counted, [Candidate(each.handle, score) for each in counted]


def test_draws_take_their_share_of_the_budget_until_it_is_used_up(place: Place):
    """Nine draws of a tenth and a choice fit; what does not fit is refused before a count is read."""
    ledger, grant = opened(place)
    for number in range(9):
        grant.draw(MarginalQuery(Counted(ZEROS).handle, TENTH), key=f"round-{number}")
    grant.draw(ChoiceQuery(tuple(candidates("age", "sex")[1]), Fraction(1, 100)), key="choice")
    counted = Counted(ZEROS)
    with pytest.raises(GrantExceeded, match=r"(?s)takes 0\.01 of the zero_concentrated budget.*nothing was drawn"):
        grant.draw(MarginalQuery(counted.handle, TENTH), key="last")
    assert counted.opened == 0
    left = Fraction(99, 10_000)
    grant.draw(MarginalQuery(Counted(ZEROS).handle, GaussianNoise(left)), key="last")
    account = ledger.account("people-2024")
    assert account.spent == RENYI.cost((RHO,))
    assert ledger.verify() == []


def test_a_pure_budget_takes_laplace_noise_and_choices_and_nothing_else(place: Place):
    _, grant = opened(place, Pure(Fraction(1)))
    grant.draw(MarginalQuery(Counted(ZEROS).handle, LaplaceNoise(Fraction(1, 2))), key="a")
    grant.draw(ChoiceQuery(tuple(candidates("age")[1]), Fraction(1, 2)), key="b")
    with pytest.raises(GrantExceeded, match="at most 0, what is left of it"):
        grant.draw(ChoiceQuery(tuple(candidates("age")[1]), Fraction(1, 10**9)), key="c")


def test_a_choice_is_private_durable_and_made_once(place: Place):
    """It is written with its event, entered in the journal, and replayed without a look at the counts."""
    ledger, grant = opened(place)
    counted, asked = candidates("age", "sex", "work")
    chosen = grant.draw(ChoiceQuery(tuple(asked), Fraction(1, 10)), key="choice")
    assert (chosen.index, chosen.clique) == (0, ("age",))
    assert [each.opened for each in counted] == [1, 1, 1]
    entry = ledger.entries_of("run-1")[-1].body
    assert entry["event"] == ExponentialMechanism(Fraction(1, 10)).to_json()
    assert entry["sha256"] == chosen.sha256
    again, asked_again = candidates("age", "sex", "work")
    assert open_grant(ledger, "run-1").draw(ChoiceQuery(tuple(asked_again), Fraction(1, 10)), key="choice") == chosen
    assert [each.opened for each in again] == [0, 0, 0]


def test_a_known_choice_is_not_replayed_for_other_candidates_or_another_epsilon(place: Place):
    _, grant = opened(place)
    grant.draw(ChoiceQuery(tuple(candidates("age", "sex")[1]), Fraction(1, 10)), key="choice")
    for columns, epsilon in ((("age", "work"), Fraction(1, 10)), (("age", "sex"), Fraction(1, 20))):
        with pytest.raises(LedgerRefusal, match="as it was drawn before"):
            grant.draw(ChoiceQuery(tuple(candidates(*columns)[1]), epsilon), key="choice")
    with pytest.raises(LedgerRefusal, match="as it was drawn before"):
        grant.draw(MarginalQuery(Counted(ZEROS).handle, TENTH), key="choice")


def test_a_choice_needs_candidates_and_counts_of_the_charged_snapshot(place: Place):
    _, grant = opened(place)
    with pytest.raises(ValueError, match="at least one marginal"):
        grant.draw(ChoiceQuery((), Fraction(1)), key="choice")
    other = Candidate(Counted(ZEROS, keyed_hash="f" * 64).handle, DistanceScore(ZEROS, Fraction(1), Fraction(0)))
    with pytest.raises(LedgerRefusal, match="of another snapshot"):
        grant.draw(ChoiceQuery((other,), Fraction(1)), key="choice")


@pytest.mark.long
def test_the_noise_of_a_choice_grows_with_the_largest_weight(sqlite_place: Place):
    """Scores that differ by 10 weights w: e^(-eps 10 w / 2 w) is the odds against the worse one, whatever w is.

    400 choices at eps 0.02: the better one is chosen with probability 0.525; between 140 and 280 times but for a
    probability below 1e-8. Were the sensitivity 1 and not w = 1,000, it would be chosen 400 times.
    """
    _, grant = opened(sqlite_place)
    near, far = Counted(ZEROS, ("near",)), Counted(ZEROS + np.eye(1, 12, dtype=np.int64)[0] * 10, ("far",))
    score = DistanceScore(ZEROS, Fraction(1000), Fraction(0))
    asked = [Candidate(near.handle, score), Candidate(far.handle, score)]
    drawn = [grant.draw(ChoiceQuery(tuple(asked), Fraction(1, 50)), key=f"choice-{n}").index for n in range(400)]
    assert 140 <= sum(drawn) <= 280


def test_a_plan_with_two_budgets_is_refused(place: Place):
    ledger = ledger_with_account(place, RENYI)
    with pytest.raises(LedgerRefusal, match="2 budgets in one plan"):
        ledger.reserve(request(events=(RHO, RHO)))


def test_planned_draws_and_a_budget_stand_beside_each_other(place: Place):
    planned = DiscreteGaussian(Fraction(50), (1,))
    ledger = ledger_with_account(place, RENYI)
    ledger.reserve(request(events=(planned, RHO)))
    grant = open_grant(ledger, "run-1")
    for key in ("planned", *map(str, range(10))):
        assert grant.draw(MarginalQuery(Counted(ZEROS).handle, TENTH), key=key).event == planned
    with pytest.raises(GrantExceeded, match="zero_concentrated budget"):
        grant.draw(MarginalQuery(Counted(ZEROS).handle, TENTH), key="more")
    assert ledger.verify() == []


def test_a_journal_with_more_drawn_than_the_budget_is_found_out(place: Place):
    """Somebody enters one draw beyond the budget by hand, with its row: the ledger's own check names it."""
    ledger, grant = opened(place)
    for number in range(10):
        made = grant.draw(MarginalQuery(Counted(ZEROS).handle, TENTH), key=f"k{number}")
    assert ledger.verify() == []
    where = draw(place, "run-1", made.event.to_json(), {"people-2024": RENYI.cost((made.event,))}, 10)
    assert (where, "noise_drawn, event") in {(finding.where, finding.field) for finding in ledger.verify()}
