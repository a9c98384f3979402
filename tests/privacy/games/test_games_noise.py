"""The games on noise, played fast: what is shipped stays below its claim, and every broken twin is found out.

Confidence is 1 - 1e-9 a game, so that a mechanism that just keeps its claim fails with probability below 1e-9. A twin
stays undetected less often than that: its bound is many standard deviations above the claim.
"""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.games import ledger, noise
from benchmarks.games.game import play
from privacy.games.results import stored

CONFIDENCE = 1 - 1e-9
GAMES = {**noise.GAMES, **ledger.GAMES}
SHARES = {"choice": 0.9, "sparse": 0.2, "whole_grant": 0.4}


@pytest.mark.long
@pytest.mark.stat
@pytest.mark.parametrize("name", GAMES)
def test_the_shipped_one_stays_below_its_claim_and_its_twin_does_not(name: str) -> None:
    """n = 400,000 outputs of each table (choices 54,000, listed 80,000, a whole ledger 40,000); false alarm 1e-9. A
    bound is also not trivially low: the attack proves at least half of what is claimed."""
    played = play(GAMES[name]().quick(SHARES.get(name, 1.0)), confidence=CONFIDENCE)
    assert played.holds
    assert played.caught
    assert played.bound.epsilon > 0.5 * played.game.epsilon
    assert played.game.epsilon < played.bound.largest_certifiable


def test_a_game_is_told_with_all_that_a_record_quotes() -> None:
    told = play(noise.laplace_add_remove().quick(0.01), confidence=0.999).to_json()
    wanted = {"mechanism", "threat", "trials", "seconds", "claimed_epsilon", "lower_bound", "confidence"}
    assert wanted | {"largest_certifiable", "negative_control"} <= set(told)
    assert set(told["negative_control"]) >= {"what", "lower_bound", "caught"}
    assert told["trials"] == 8000
    assert np.isfinite(told["lower_bound"])
    shipped = stored()
    assert shipped is not None
    assert all(set(told) <= set(each) for each in shipped["games"])
