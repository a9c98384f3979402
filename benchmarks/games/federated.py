"""Games on releases across sites: who sees the sums, and one of the sites, against a person at another.

Three sites: the canary's; one that colludes with the coordinator and tells it all that it contributed; one that
drops. What the two see is each sum less the colluding site's part, which is what the canary's site sent, with the
least noise that the plan counts on: one share. Contributions and sums are made by the grant's own code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from fractions import Fraction
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, cast

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.games.attackers import claimed, log_odds
from benchmarks.games.game import Game
from benchmarks.games.grant import CONTRACT, HASH, RUN, UnrecordedSite
from benchmarks.games.ledger import opened
from benchmarks.games.rows import LAYOUT, NOBODY, ONE
from benchmarks.games.sums import Repeated, second_moment
from benchmarks.games.training import LEARNER, START
from privacy.accounting.amounts import ATTO, PICO
from privacy.accounting.calculus import RenyiCalculus
from privacy.arrays import Floats, Unsigned
from privacy.federation.plan import FederatedPlan, Trust
from privacy.federation.plans import CountingPlan, SumBounds, SummingPlan
from privacy.federation.rounds import Call, Contribution, HasSites, InProcessSites, SiteAnswer, lifted, residues_of
from privacy.grant.grant import Grant, open_grant
from privacy.grant.queries.across_sites import SiteShare
from privacy.grant.queries.marginal import MarginalQuery
from privacy.grant.queries.sums import exact_total
from privacy.grant.queries.training import TrainingQuery
from privacy.grant.sampled_noise import SampledNoise
from privacy.learning.layout import PrivateRows
from privacy.learning.moments import Moments
from privacy.learning.plan import Execution, TrainingPlan
from privacy.learning.training import Session
from privacy.marginals.counts import PrivateCounts
from privacy.noise.lattice_gaussian import normals_from
from privacy.noise.random_bytes import SecureBytes

TRIALS: Final = 4_000
CELLS: Final = 100_000
STEP_DELTA: Final = 1e-5
COUNT_DELTA: Final = 0.01
CANARY, COLLUDING, DROPPED = SITES = ("north", "east", "south")
TRUST: Final = Trust("sites", secure_aggregation=True, server=None, fewest=2, colluding=1, sites_per_person=1)
CPU: Final = Execution("cpu")
_COUNT: Final = 7
_ASKED: Final = ("a", "a", "b", "b", "c")
"""Attempts that the coordinator asks for, by their letter; the plan pays for two."""
_CALCULUS: Final = RenyiCalculus(Fraction(12))
_PAID, _ROOM = 100 * PICO, ATTO // 10**6
_NOTHING: Final = np.zeros(0, np.float32)


def training_across() -> Game:
    """A round of DP-SGD over all rows; the twin's shares are sized for all sites, none of which drops or tells."""
    whole = Trust("sites", secure_aggregation=True, server=None, fewest=3, colluding=0, sites_per_person=1)
    plan, twin = (_training_plan(trust) for trust in (TRUST, whole))
    threat = (
        "a site of one row, whose gradient is above the clipping norm, or of none; the coordinator sees the sum, and "
        "colludes with a second site; a third drops"
    )
    return Game(
        "a round of DP-SGD across sites, noise in shares",
        threat,
        claimed(plan.person_events, STEP_DELTA),
        STEP_DELTA,
        TRIALS,
        partial(_rounds, plan=plan),
        partial(_rounds, plan=twin),
        "shares of noise sized for all sites, of which one drops and one tells its own",
        method="gaussian",
        twin_method="gaussian",
    )


def counts_across() -> Game:
    """A table and one lost attempt, asked for five times; the twin answers as often as it is asked."""
    plan = CountingPlan((("place",),), Fraction(2), "add_remove", 1, SITES, (10, 10, 10), TRUST, reserve=1)
    threat = (
        "a cell of a marginal, one row more or not at one site; the coordinator, with which a second site colludes, "
        "asks for three attempts, two of them twice, where two are paid for; all that it was sent"
    )
    broken, way = "an attempt that was answered is answered again, with new noise", "through a whole ledger"
    plays = [partial(_asked_often, plan=plan, forgets=each) for each in (False, True)]
    epsilon, what = claimed(plan.person_events, COUNT_DELTA), "marginal counts across sites, noise in shares"
    return Game(what, threat, epsilon, COUNT_DELTA, CELLS, plays[0], plays[1], broken, way=way)


def sums_across() -> Game:
    """A second moment, rounded to 32 bits, of people with rows at two sites; the twin charges for the rows of one."""
    statistic = second_moment()
    plan, twin = (_summing_plan(statistic, sites_per_person) for sites_per_person in (2, 1))
    threat = (
        "a person with a row at each of two sites, or with none; the coordinator sees the sum, and colludes with the "
        "third site"
    )
    return Game(
        "second moment across sites, people at two of them, noise in shares",
        threat,
        claimed(plan.person_events, COUNT_DELTA),
        COUNT_DELTA,
        CELLS,
        partial(_summed, plan=plan, statistic=statistic),
        partial(_summed, plan=twin, statistic=statistic),
        "people at two sites are charged for their rows at one",
    )


def _summing_plan(statistic: Moments, sites_per_person: int) -> SummingPlan:
    trust = Trust("sites", True, None, fewest=3, colluding=1, sites_per_person=sites_per_person)
    bounds = SumBounds.of(statistic, adjacency="add_remove", rows_per_unit=1, rho=Fraction(1, 2))
    return SummingPlan((bounds,), "add_remove", 1, SITES, (1_000_000,) * 3, trust, reserve=0)


def _summed(there: bool, trials: int, *, plan: SummingPlan, statistic: Moments) -> Floats:
    """Add up what two sites send, so often, and weigh it by the noise that is left without the third's."""
    many, noise, share = cast(Moments, Repeated(statistic, trials)), SampledNoise(SecureBytes()), plan.site_noise(0)
    steps = plan.sent(0, exact_total(ONE if there else NOBODY, many, LAYOUT))

    def drawn() -> NDArray[np.int64]:
        return steps if share is None else steps + noise.share(steps.size, noise=share)

    seen = lifted(residues_of(drawn()) + residues_of(drawn())).reshape(trials, statistic.length)
    moved = 2 * plan.sent(0, statistic.total(ONE, LAYOUT))
    return log_odds(seen, (np.zeros_like(moved), moved), plan.person_event(0))


def _training_plan(trust: Trust) -> FederatedPlan:
    training = TrainingPlan(Fraction(1), Fraction(1), 1, Fraction(1, 100), Fraction(1), 1, reserve=0)
    return FederatedPlan(training, SITES, (1, 1, 1), trust)


def _rounds(there: bool, trials: int, *, plan: FederatedPlan) -> Floats:
    """Make a round so often; return how far what the two see went along the canary's gradient [clipping norms]."""
    torch.set_num_threads(1)
    session = Session(LEARNER, LAYOUT, START, step=0, steps=1, execution=CPU)
    unit = session.clipped_sum(ONE, bound=1.0, normals=normals_from(SecureBytes())).astype(np.float64)
    unit /= np.linalg.norm(unit)
    sites = {CANARY: ONE if there else NOBODY, COLLUDING: ONE}
    seen = np.stack([_seen(plan, _answers(plan, sites), 0) for _ in range(trials)])
    return np.asarray(seen @ unit * plan.lattice / float(plan.training.clipping_norm))


def _answers(plan: FederatedPlan, rows_at: Mapping[str, Unsigned]) -> dict[str, SiteAnswer]:
    """Return the sites of one training, each with a grant of its own."""

    def answer(call: Call, grant: Grant, rows: PrivateRows) -> Contribution:
        query = TrainingQuery(rows, LEARNER, plan.training, CPU)
        return grant.draw(SiteShare(query, plan, call), key="fed")

    return {
        name: partial(
            answer,
            grant=UnrecordedSite(plan.record_events),
            rows=PrivateRows(LAYOUT, HASH, CONTRACT, lambda codes=codes: codes),  # type: ignore[misc]
        )
        for name, codes in rows_at.items()
    }


def _seen(plan: HasSites, answers: Mapping[str, SiteAnswer], number: int, attempt: str = "0") -> NDArray[np.int64]:
    """Make an attempt; return its sum less what the colluding site says that it sent."""
    told: list[Contribution | None] = []

    def telling(call: Call) -> Contribution | None:
        told.append(answers[COLLUDING](call))
        return told[-1]

    parameters = START.parameters if isinstance(plan, FederatedPlan) else _NOTHING
    sites = InProcessSites(plan, {**answers, COLLUDING: telling, DROPPED: lambda call: None})
    collected = sites.collect(Call(number, attempt * 16, parameters))
    if not collected.present[SITES.index(CANARY)]:
        return np.zeros(0, np.int64)
    own = told[0].residues if told and told[0] is not None else np.zeros_like(collected.residues)
    return lifted(collected.residues - own)


def _asked_often(there: bool, trials: int, *, plan: CountingPlan, forgets: bool) -> Floats:
    """Ask for attempts of one table, some again; return the sum of all that came, in rows, above what is expected."""
    found = []
    with ExitStack() as kept:
        place = Path(kept.enter_context(TemporaryDirectory()))
        for number, attempt in enumerate(_ASKED):
            home = place / str(number if forgets else 0)
            found.append(_counted(home, there, trials, plan, attempt))
    answered = [each for each in found if each.size]
    return np.asarray(sum(each / 2**plan.fine_bits - _COUNT - 0.5 for each in answered), dtype=np.float64)


def _counted(home: Path, there: bool, cells: int, plan: CountingPlan, attempt: str) -> NDArray[np.int64]:
    """Open both sites' ledgers, or open them again, and make one attempt."""
    exact = np.full(cells, _COUNT, dtype=np.int64)
    with ExitStack() as kept:

        def answer(call: Call, name: str, counted: NDArray[np.int64]) -> Contribution:
            ledger = kept.enter_context(
                opened(home / name, plan.record_events, _CALCULUS, epsilon=_PAID, delta=_ROOM)
            )
            handle = PrivateCounts(("place",), counted.shape, HASH, CONTRACT, lambda: counted)
            query = MarginalQuery(handle, plan.noise(call.number))
            return open_grant(ledger, RUN).draw(SiteShare(query, plan, call), key="fed")

        answers = {
            CANARY: partial(answer, name=CANARY, counted=exact + there),
            COLLUDING: partial(answer, name=COLLUDING, counted=exact),
        }
        return _seen(plan, answers, 0, attempt)


GAMES: Final[Mapping[str, Callable[[], Game]]] = {
    "federated_training": training_across,
    "federated_counts": counts_across,
    "federated_sums": sums_across,
}
