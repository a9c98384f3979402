"""Sums of bounded vectors across sites: a site's noisy sums, and the coordinator's sum over sites (law 1).

What leaves when, and what is paid, is `federated_once`'s.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contracts.canonical import digest
from privacy.arrays import Unsigned
from privacy.federation.plan import Trust
from privacy.federation.rounds import Call, Collect, Contribution, RoundSum, residues_of
from privacy.federation.summing_plan import SumBounds, SummingPlan
from privacy.grant.durable_draws import DurableDraws, Reserve
from privacy.grant.measurement import DrawRequest
from privacy.grant.sites.durable_rounds import sent_once, summed_once
from privacy.learning.errors import CannotTrain
from privacy.learning.layout import RowLayout
from privacy.learning.moments import Moments
from privacy.learning.rows import PrivateRows
from privacy.ledger.terms import ChargeRequest
from privacy.noise.discrete_gaussian import discrete_gaussian
from privacy.noise.random_bytes import RandomBytes

BLOCK: Final = 1 << 22
"""Rows that are added up in 64 bits: a statistic's sums over more of them might wrap around."""


def checked_summing(plan: object, request: ChargeRequest) -> SummingPlan:
    """Refuse a plan of another making or another relation; return a copy that nobody else holds.

    Raises:
        CannotTrain: nothing was drawn.
    """
    if type(plan) is not SummingPlan:
        raise CannotTrain("plan", type(plan).__name__, "SummingPlan itself")
    if (plan.adjacency, plan.rows_per_unit) != (request.adjacency, request.rows_per_unit):
        raise CannotTrain("plan", f"for {plan.adjacency}", f"the charge's relation, {request.adjacency}")
    sums = tuple(SumBounds(tuple(each.moves), each.length, each.rho) for each in plan.sums)
    trust, sites = Trust(**vars(plan.trust)), tuple(plan.sites)
    return SummingPlan(sums, plan.adjacency, plan.rows_per_unit, sites, tuple(plan.rows_about), trust, plan.reserve)


def check_planned(plan: SummingPlan, number: object, statistic: Moments) -> int:
    """Refuse a round that there is not, or a statistic of other bounds than the round's; return the round.

    Raises:
        CannotTrain: nothing was drawn.
    """
    if type(number) is not int or not 0 <= number < plan.rounds:
        raise CannotTrain("round", number, f"0 to {plan.rounds - 1}")
    terms: Any = {"adjacency": plan.adjacency, "rows_per_unit": plan.rows_per_unit, "rho": plan.sums[number].rho}
    if SumBounds.of(statistic, **terms) != plan.sums[number]:
        raise CannotTrain("statistic", "of other bounds", f"that of round {number}, as it was planned")
    return number


def contribute_sums(
    rows: PrivateRows,
    statistic: Moments,
    layout: RowLayout,
    plan: SummingPlan,
    call: Call,
    *,
    key: str,
    once: DurableDraws,
    source: RandomBytes,
) -> Contribution:
    """Make one site's sums; see `Grant.contribute_sums`."""
    number = check_planned(plan, call.number, statistic)
    name = f"{key}/{number:05d}/{call.attempt}"
    asked = DrawRequest(name, (), plan.site_row_event(number), _about(plan, number, statistic, layout))
    make = partial(_noisy_sums, statistic=statistic, layout=layout, plan=plan, number=number, source=source)
    return Contribution(asked.key, residues_of(sent_once(asked, (rows,), rows._read, make, once=once, source=source)))


def sum_sums(
    plan: SummingPlan,
    statistic: Moments,
    layout: RowLayout,
    number: int,
    collect: Collect,
    attempt: str,
    *,
    key: str,
    once: DurableDraws,
    source: RandomBytes,
) -> RoundSum:
    """Collect one sum and release it, or replay it; see `Grant.sum_sums`."""
    number = check_planned(plan, number, statistic)
    about = _about(plan, number, statistic, layout)
    size = statistic.length
    return summed_once(
        DrawRequest(f"{key}/{number:05d}", (), plan.person_event(number), about),
        number,
        collect,
        attempt,
        plan=plan,
        size=size,
        noise=partial(discrete_gaussian, size, sigma_squared=plan.sigma_squared(number), source=source),
        reserve=Reserve(key, plan.reserve),
        once=once,
    )


def exact_total(codes: Unsigned, statistic: Moments, layout: RowLayout) -> NDArray[Any]:
    """Add a statistic up over all rows, however many: whole numbers of 64 bits, or of any size over many rows.

    Privacy: private; for a grant alone.
    """
    total: NDArray[Any] = statistic.total(codes[:BLOCK], layout)
    for start in range(BLOCK, codes.shape[0], BLOCK):
        total = total.astype(object) + statistic.total(codes[start : start + BLOCK], layout).astype(object)
    return total


def _about(plan: SummingPlan, number: int, statistic: Moments, layout: RowLayout) -> dict[str, Any]:
    told = {"plan": digest(plan.to_json()), "round": number}
    return {**told, "statistic": statistic.digest, "layout": layout.digest}


def _noisy_sums(
    codes: Unsigned, *, statistic: Moments, layout: RowLayout, plan: SummingPlan, number: int, source: RandomBytes
) -> NDArray[np.int64]:
    """Add up exactly, round to sent units, and add the site's share of the noise."""
    steps = plan.sent(number, exact_total(codes, statistic, layout))
    if plan.trust.noise == "server":
        return steps
    return steps + discrete_gaussian(steps.size, sigma_squared=plan.share_variance(number), source=source)
