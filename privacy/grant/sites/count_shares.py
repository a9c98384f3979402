"""Marginal counts across sites: a site's noisy counts, and the coordinator's sum over sites (law 1).

What leaves when, and what is paid, is `federated_once`'s.
"""

from __future__ import annotations

from functools import partial
from math import prod

import numpy as np
from numpy.typing import NDArray

from contracts.canonical import digest
from privacy.federation.counting import CountingPlan
from privacy.federation.plan import Trust
from privacy.federation.rounds import Call, Collect, Contribution, RoundSum, residues_of
from privacy.grant.durable_draws import DurableDraws, Reserve
from privacy.grant.measurement import DrawRequest
from privacy.grant.sites.durable_rounds import sent_once, summed_once
from privacy.learning.errors import CannotTrain
from privacy.ledger.terms import ChargeRequest
from privacy.marginals.counts import PrivateCounts
from privacy.noise.discrete_gaussian import discrete_gaussian
from privacy.noise.random_bytes import RandomBytes


def checked_counting(plan: object, request: ChargeRequest) -> CountingPlan:
    """Refuse a plan of another making or another relation; return a copy that nobody else holds.

    Raises:
        CannotTrain: nothing was drawn.
    """
    if type(plan) is not CountingPlan:
        raise CannotTrain("plan", type(plan).__name__, "CountingPlan itself")
    if (plan.adjacency, plan.rows_per_unit) != (request.adjacency, request.rows_per_unit):
        raise CannotTrain("plan", f"for {plan.adjacency}", f"the charge's relation, {request.adjacency}")
    given = {name: value for name, value in vars(plan).items() if name not in ("kind", "trust")}
    return CountingPlan(**given, trust=Trust(**vars(plan.trust)))


def contribute_counts(
    counts: PrivateCounts, plan: CountingPlan, call: Call, *, key: str, once: DurableDraws, source: RandomBytes
) -> Contribution:
    """Make one site's counts of one table; see `Grant.contribute_counts`."""
    clique = plan.cliques[call.number]
    if counts.clique != clique or counts.coarsening is not None:
        raise CannotTrain("counts", "of other columns", f"the table of round {call.number}: {', '.join(clique)}")
    name = f"{key}/{call.number:05d}/{call.attempt}"
    asked = DrawRequest(name, clique, plan.site_row_event, {"plan": digest(plan.to_json()), "round": call.number})
    make = partial(_noisy_counts, plan=plan, source=source)
    steps = sent_once(asked, (counts,), counts._count, make, once=once, source=source)
    return Contribution(asked.key, residues_of(steps))


def sum_counts(
    plan: CountingPlan,
    shape: tuple[int, ...],
    number: int,
    collect: Collect,
    attempt: str,
    *,
    key: str,
    once: DurableDraws,
    source: RandomBytes,
) -> RoundSum:
    """Collect one table and release its sum over sites, or replay it; see `Grant.sum_counts`."""
    about = {"plan": digest(plan.to_json()), "round": number, "shape": list(shape)}
    return summed_once(
        DrawRequest(f"{key}/{number:05d}", plan.cliques[number], plan.person_event, about),
        number,
        collect,
        attempt,
        plan=plan,
        size=prod(shape),
        noise=partial(discrete_gaussian, prod(shape), sigma_squared=plan.fine_variance, source=source),
        reserve=Reserve(key, plan.reserve),
        once=once,
    )


def _noisy_counts(exact: NDArray[np.int64], *, plan: CountingPlan, source: RandomBytes) -> NDArray[np.int64]:
    """Count in fine units, within the range, and add the site's share of the noise."""
    most = plan.largest_entry >> plan.fine_bits
    fine = np.clip(exact.ravel(), 0, most) << plan.fine_bits
    if plan.trust.noise == "server":
        return fine
    return fine + discrete_gaussian(fine.size, sigma_squared=plan.share_variance, source=source)
