"""Training across sites: what a site's grant lets out, and what the coordinator's releases (law 1).

A site's draw is one attempt of one round: coins, clipped sum, rounding, its share of the noise. The draw's file is
a receipt, an identifier with the event; the contribution itself is kept nowhere, and leaves once. Asked a second time
for the same attempt the site refuses: sums over different sites of the same shares would tell what one of them sent.

The coordinator's draw is the sum over the sites that answered; its values are what is released, and a run that
resumes replays them. An attempt that fewer sites answered than the plan needs is lost: paid, made again out of the
reserve with new coins and new noise, never summed.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from privacy.federation.rounds import (
    Call,
    Collect,
    Collected,
    Contribution,
    RoundSum,
    checked_collected,
    lifted,
    residues_of,
)
from privacy.learning.layout import Codes
from privacy.learning.learners import parameters_of
from privacy.learning.rows import PrivateRows
from privacy.learning.training import Session, State, initial_state
from privacy.ledger.errors import AttemptLost, refusal
from privacy.ledger.federated_entrance import FederatedTraining
from privacy.ledger.once import DrawOnce, Reserve
from privacy.noise.lattice_shares import noise_share
from privacy.noise.poisson_sample import poisson_sample
from privacy.noise.random_bytes import RandomBytes


def contribute(
    rows: PrivateRows, training: FederatedTraining, call: Call, *, key: str, once: DrawOnce, source: RandomBytes
) -> Contribution:
    """Make one site's contribution to one attempt; see `Grant.contribute`."""
    made: list[NDArray[np.int64]] = []
    receipt = source.take(16).view("<i8").astype(np.int64)

    def make(codes: Codes) -> NDArray[np.int64]:
        made.append(_noisy_sum(codes, training, call, source))
        return receipt

    asked = training.asked_of_site(key, call)
    draw = once.drawn(asked, (rows,), rows._read, make)
    if not made or not np.array_equal(draw.values, receipt):
        found, allowed = "answered already", "an attempt that is new: what a site sends leaves it once"
        raise refusal(f"federated round {call.number}", "attempt", found, allowed, "make another attempt")
    return Contribution(asked.key, residues_of(made[0]))


def sum_round(
    training: FederatedTraining,
    number: int,
    collect: Collect,
    attempt: str,
    *,
    key: str,
    once: DrawOnce,
    source: RandomBytes,
) -> RoundSum:
    """Collect one attempt of a round and release its sum, or replay it; see `Grant.sum_round`."""
    make = partial(_collected, training=training, collect=collect, source=source)
    reserve = Reserve(key, training.plan.training.reserve)
    draw = once.drawn(training.asked_of_coordinator(key, number), (), lambda: attempt, make, reserve=reserve)
    sites = len(training.plan.sites)
    present = tuple(bool(each) for each in draw.values[:sites])
    return RoundSum(number, present, draw.values[sites:], draw.sha256)


def _noisy_sum(codes: Codes, training: FederatedTraining, call: Call, source: RandomBytes) -> NDArray[np.int64]:
    """Sample, clip, sum, round to the lattice, and add the site's share of the noise."""
    plan, size = training.plan, parameters_of(training.learner)
    sampled = poisson_sample(codes.shape[0], probability=plan.training.sampling_probability, source=source)
    seed = int.from_bytes(source.take(8).tobytes(), "little") >> 1
    session = _session(training, call, seed=seed)
    exact = session.clipped_sum(codes[sampled], bound=plan.clipped_to(size)).astype(np.float64)
    steps = np.rint(np.clip(exact / plan.lattice, -plan.largest_entry, plan.largest_entry))
    if not np.isfinite(steps).all():
        raise ValueError("a sum of gradients is not finite")
    if plan.trust.noise == "server":
        return steps.astype(np.int64)
    noise = noise_share(size, standard_deviation=plan.share_deviation, source=source)
    return steps.astype(np.int64) + noise


def _session(training: FederatedTraining, call: Call, *, seed: int) -> Session:
    """Open a session at the parameters of a call; a site keeps nothing from round to round."""
    state = State(call.parameters, initial_state(training.learner).moments, np.empty(0, np.float32))
    steps, execution = training.plan.rounds, training.execution
    return Session(
        training.learner, training.layout, state, step=call.number, steps=steps, execution=execution, seed=seed
    )


def _collected(
    attempt: str, *, training: FederatedTraining, collect: Collect, source: RandomBytes
) -> NDArray[np.int64]:
    """Make one attempt; refuse to sum what too few sites sent."""
    plan, size = training.plan, parameters_of(training.learner)
    collected: Collected = collect(attempt)
    here = sum(collected.present)
    if here < plan.trust.fewest:
        missing = ", ".join(f"{name}: {why}" for name, why in sorted(collected.absent.items()))
        raise AttemptLost(
            f"{here} of {len(plan.sites)} sites answered; needed: {plan.trust.fewest}. Nothing was summed ({missing})"
        )
    collected = checked_collected(collected, plan, size)
    steps = lifted(collected.residues)
    if plan.trust.noise == "server":
        steps = steps + noise_share(size, standard_deviation=plan.deviation, source=source)
    return np.concatenate([np.array(collected.present, np.int64), steps])
