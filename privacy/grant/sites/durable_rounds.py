"""What leaves a site once, and what a coordinator sums: the order that all federated draws keep.

A site's draw is one attempt of one round. Its file is a receipt, an identifier with the event; the contribution
itself is kept nowhere, and leaves once. Asked a second time for the same attempt the site refuses: sums over
different sites of the same shares would tell what one of them sent.

The coordinator's draw is the sum over the sites that answered; its values are what is released, and a run that
resumes replays them. An attempt that fewer sites answered than the plan needs is lost: paid, made again out of the
reserve with new coins and new noise, never summed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from privacy.federation.counting import CountingPlan
from privacy.federation.plan import FederatedPlan
from privacy.federation.rounds import Collect, Collected, RoundSum, checked_collected, lifted
from privacy.federation.summing_plan import SummingPlan
from privacy.grant.durable_draws import DurableDraws, Reserve
from privacy.grant.measurement import DrawRequest
from privacy.grant.queries.query import Handle
from privacy.ledger.errors import AttemptBroken, AttemptLost, refusal
from privacy.noise.random_bytes import RandomBytes

LatticeSteps = NDArray[np.int64]
_ExactT = TypeVar("_ExactT")


def sent_once(
    asked: DrawRequest,
    private: Sequence[Handle],
    read: Callable[[], _ExactT],
    make: Callable[[_ExactT], LatticeSteps],
    *,
    once: DurableDraws,
    source: RandomBytes,
) -> LatticeSteps:
    """Make what a site sends, unless it was sent before.

    An attempt whose receipt was written when the site was killed, and not entered, is paid, and is sent to nobody;
    phases of one run have keys that begin alike, so that the next phase's first attempt pays it as well.

    Raises:
        LedgerRefusal: it was.
    """
    made: list[LatticeSteps] = []
    receipt = source.take(16).view("<i8").astype(np.int64)

    def receipted(exact: _ExactT) -> LatticeSteps:
        made.append(make(exact))
        return receipt

    draw = once.drawn(asked, private, read, receipted, attempts_of=f"{asked.key.partition('/')[0]}/")
    if not made or not np.array_equal(draw.values, receipt):
        found, allowed = "answered already", "an attempt that is new: what a site sends leaves it once"
        raise refusal(f"draw {asked.key!r}", "attempt", found, allowed, "make another attempt")
    return made[0]


def summed_once(
    asked: DrawRequest,
    number: int,
    collect: Collect,
    attempt: str,
    *,
    plan: FederatedPlan | CountingPlan | SummingPlan,
    size: int,
    noise: Callable[[], LatticeSteps],
    reserve: Reserve,
    once: DurableDraws,
) -> RoundSum:
    """Collect one attempt of a round and release its sum, or replay it.

    Args:
        asked: the draw.
        number: the round.
        collect: makes the attempt.
        attempt: its name.
        plan: names the sites, and says how many are needed.
        size: numbers in a sum.
        noise: what the server adds; asked for only where the plan says so.
        reserve: what lost attempts are paid from.
        once: the draws of the charge.
    Raises:
        AttemptLost: too few sites answered; nothing was summed.
        AttemptBroken: the way to the sites broke down; nothing was summed.
    """

    def make(name: str) -> LatticeSteps:
        collected = _brought(collect, name)
        here = sum(collected.present)
        if here < plan.trust.fewest:
            missing = ", ".join(f"{site}: {why}" for site, why in sorted(collected.absent.items()))
            told = f"{here} of {len(plan.sites)} sites answered; needed: {plan.trust.fewest}"
            raise AttemptLost(f"{told}. Nothing was summed ({missing})")
        steps = lifted(checked_collected(collected, plan, size).residues)
        if plan.trust.noise == "server":
            steps = steps + noise()
        return np.concatenate([np.array(collected.present, np.int64), steps])

    draw = once.drawn(asked, (), lambda: attempt, make, reserve=reserve)
    present = tuple(bool(each) for each in draw.values[: len(plan.sites)])
    return RoundSum(number, present, draw.values[len(plan.sites) :], draw.sha256)


def _brought(collect: Collect, attempt: str) -> Collected:
    """Make an attempt; what breaks on the way leaves it begun, so that a resumed run pays for it and goes on."""
    try:
        return collect(attempt)
    except Exception as error:
        told = f"the way to the sites broke down ({type(error).__name__}: {error}); nothing was summed"
        raise AttemptBroken(f"{told}. Running the same command goes on, out of the reserve") from error
