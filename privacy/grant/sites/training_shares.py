"""Training across sites: a site's noisy clipped sum, and the coordinator's sum over sites (law 1).

What leaves when, and what is paid, is `federated_once`'s.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from privacy.arrays import Unsigned
from privacy.federation.rounds import Call, Collect, Contribution, RoundSum, residues_of
from privacy.grant.arguments.site_arguments import FederatedTraining
from privacy.grant.durable_draws import DurableDraws, Reserve
from privacy.grant.sites.durable_rounds import sent_once, summed_once
from privacy.learning.learners import parameters_of
from privacy.learning.rows import PrivateRows
from privacy.learning.training import Session, TrainingState, initial_state
from privacy.noise.lattice_shares import noise_share
from privacy.noise.poisson_sample import poisson_sample
from privacy.noise.random_bytes import RandomBytes
from privacy.noise.row_normals import normals_from


def contribute(
    rows: PrivateRows, training: FederatedTraining, call: Call, *, key: str, once: DurableDraws, source: RandomBytes
) -> Contribution:
    """Make one site's contribution to one attempt; see `Grant.contribute`."""
    asked = training.asked_of_site(key, call)
    make = partial(_noisy_sum, training=training, call=call, source=source)
    return Contribution(asked.key, residues_of(sent_once(asked, (rows,), rows._read, make, once=once, source=source)))


def sum_round(
    training: FederatedTraining,
    number: int,
    collect: Collect,
    attempt: str,
    *,
    key: str,
    once: DurableDraws,
    source: RandomBytes,
) -> RoundSum:
    """Collect one attempt of a round and release its sum, or replay it; see `Grant.sum_round`."""
    plan, size = training.plan, parameters_of(training.learner)
    return summed_once(
        training.asked_of_coordinator(key, number),
        number,
        collect,
        attempt,
        plan=plan,
        size=size,
        noise=partial(noise_share, size, standard_deviation=plan.deviation, source=source),
        reserve=Reserve(key, plan.training.reserve),
        once=once,
    )


def _noisy_sum(codes: Unsigned, *, training: FederatedTraining, call: Call, source: RandomBytes) -> NDArray[np.int64]:
    """Sample, clip, sum, round to the lattice, and add the site's share of the noise."""
    plan, size = training.plan, parameters_of(training.learner)
    sampled = poisson_sample(codes.shape[0], probability=plan.training.sampling_probability, source=source)
    session = _session(training, call)
    exact = session.clipped_sum(codes[sampled], bound=plan.clipped_to(size), normals=normals_from(source)).astype(
        np.float64
    )
    steps = np.rint(np.clip(exact / plan.lattice, -plan.largest_entry, plan.largest_entry))
    if not np.isfinite(steps).all():
        raise ValueError("a sum of gradients is not finite")
    if plan.trust.noise == "server":
        return steps.astype(np.int64)
    noise = noise_share(size, standard_deviation=plan.share_deviation, source=source)
    return steps.astype(np.int64) + noise


def _session(training: FederatedTraining, call: Call) -> Session:
    """Open a session at the parameters of a call; a site keeps nothing from round to round."""
    state = TrainingState(call.parameters, initial_state(training.learner).moments, np.empty(0, np.float32))
    steps, execution = training.plan.rounds, training.execution
    return Session(training.learner, training.layout, state, step=call.number, steps=steps, execution=execution)
