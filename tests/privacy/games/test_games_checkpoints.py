"""The games on published checkpoints, played fast: digits tell nothing of what is shipped, and all of its twin.

Confidence is 1 - 1e-9 for what is shipped: it fails with probability below 1e-9 where it just keeps its claim.
"""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.games import checkpoints
from benchmarks.games.game import play
from privacy.noise.random_bytes import SecureBytes


@pytest.mark.long
@pytest.mark.stat
@pytest.mark.parametrize("name", checkpoints.GAMES)
def test_what_is_shipped_stays_below_its_claim_and_float32_noise_is_found_out(name: str) -> None:
    """n = 40 trainings of each table; claims of 0.08 to 0.15. An attacker who is never wrong proves 0.7."""
    played = play(checkpoints.GAMES[name]().quick(0.0, least=40), confidence=1 - 1e-9, control_confidence=0.999)
    assert played.holds
    assert played.caught


@pytest.mark.stat
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_the_attacker_solves_every_noisy_sum_and_is_certain_of_float32_noise(steps: int) -> None:
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
