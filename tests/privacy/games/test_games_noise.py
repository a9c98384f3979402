"""The games on noise and on published checkpoints, played fast: claims that hold, and twins that are found out.

Confidence is 1 - 1e-9 a game, so that a mechanism that just keeps its claim fails with probability below 1e-9. A twin
stays undetected less often than that: its bound is many standard deviations above the claim.

Confidence is 1 - 1e-9 for what is shipped: it fails with probability below 1e-9 where it just keeps its claim.
"""

import numpy as np
import pytest

from benchmarks.games import checkpoints, ledger, noise
from benchmarks.games.game import play
from privacy.games.results import stored
from privacy.noise.random_bytes import SecureBytes

CONFIDENCE = 1 - 1e-9
GAMES = {**noise.GAMES, **ledger.GAMES}
SHARES = {"choice": 0.9, "sparse": 0.2, "whole_grant": 0.4}


@pytest.mark.long
@pytest.mark.stat
@pytest.mark.parametrize("name", GAMES)
def test_the_shipped_one_stays_below_its_claim_and_its_twin_does_not(name: str):
    """n = 400,000 outputs of each table (choices 54,000, listed 80,000, a whole ledger 40,000); false alarm 1e-9. A
    bound is also not trivially low: the attack proves at least half of what is claimed."""
    played = play(GAMES[name]().quick(SHARES.get(name, 1.0)), confidence=CONFIDENCE)
    assert played.holds
    assert played.caught
    assert played.bound.epsilon > 0.5 * played.game.epsilon
    assert played.game.epsilon < played.bound.largest_certifiable


def test_a_game_is_told_with_all_that_a_record_quotes():
    told = play(noise.laplace_add_remove().quick(0.01), confidence=0.999).to_json()
    wanted = {"mechanism", "threat", "trials", "seconds", "claimed_epsilon", "lower_bound", "confidence"}
    assert wanted | {"largest_certifiable", "negative_control"} <= set(told)
    assert set(told["negative_control"]) >= {"what", "lower_bound", "caught"}
    assert told["trials"] == 8000
    assert np.isfinite(told["lower_bound"])
    shipped = stored()
    assert shipped is not None
    assert all(set(told) <= set(each) for each in shipped["games"])


@pytest.mark.long
@pytest.mark.stat
@pytest.mark.parametrize("name", checkpoints.GAMES)
def test_what_is_shipped_stays_below_its_claim_and_float32_noise_is_found_out(name: str):
    """n = 40 trainings of each table; claims of 0.08 to 0.15. An attacker who is never wrong proves 0.7."""
    played = play(checkpoints.GAMES[name]().quick(0.0, least=40), confidence=1 - 1e-9, control_confidence=0.999)
    assert played.holds
    assert played.caught


@pytest.mark.stat
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_the_attacker_solves_every_noisy_sum_and_is_certain_of_float32_noise(steps: int):
    """Four trainings of each table. Under the right one no pair is impossible; under the wrong one about 7 a step.
    That eight trainings have none has a probability below e^-50."""
    plan, wrongly = checkpoints.plan_of(steps), 0
    for there in (True, False) * 4:
        states = checkpoints.published(checkpoints.table(there), plan, checkpoints.float32_step, SecureBytes())
        for place in range(steps):
            noisy = checkpoints.solved(states[place], states[place + 1], place, plan)
            assert np.isfinite(noisy).mean() > 0.9
        told = checkpoints.impossible(states, plan)
        assert told[there] == 0
        wrongly += told[not there]
    assert wrongly > 0
