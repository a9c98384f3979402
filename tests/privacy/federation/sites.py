"""A federation for the tests: sites and a coordinator, each with a ledger of its own."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import count
from typing import Any

from privacy.accounting.calculus import RenyiCalculus
from privacy.arrays import Unsigned
from privacy.coordination.coordinator import Attempts, FederatedModel, train_across
from privacy.federation.plan import FederatedPlan, Trust
from privacy.federation.rounds import AttemptLost, Call, Collect, Contribution, InProcessSites, RoundSum, SiteAnswers
from privacy.grant.grant import Grant, open_grant
from privacy.grant.queries.across_sites import SiteShare, SumOverSites
from privacy.grant.queries.training import TrainingQuery
from privacy.learning.layout import PrivateRows
from privacy.learning.learners import Learner, parameters_of
from privacy.learning.network import Sgd, perceptron
from privacy.learning.plan import Execution, TrainingPlan
from privacy.learning.training import initial_state
from privacy.ledger.ledger import Ledger
from privacy.noise.random_bytes import SeededBytes
from tests.privacy.learning.reference_learners import classifier, mixed_codes, mixed_layout
from tests.privacy.ledger.ledgers import KEYED_HASH, Place, bind, request, terms

LAYOUT = mixed_layout()
LEARNER = classifier(network=perceptron(18, 4, outputs=3), optimizer=Sgd(0.5))
CPU = Execution("cpu", rows_at_once=64)
NAMES = ("north", "east", "south")
TRAINING = TrainingPlan(Fraction(1, 2), Fraction(60), 3, Fraction(1), Fraction(2), 1, reserve=2)
BLIND = Trust("sites", secure_aggregation=True, server=None, fewest=2, colluding=0, sites_per_person=1)
TRUSTED = replace(BLIND, noise="server", secure_aggregation=False, server="the statistics office")
PLAN = FederatedPlan(TRAINING, NAMES, (40, 40, 40), BLIND)
SIZE = parameters_of(LEARNER)


def a_ledger(place: Place, events: tuple[Any, ...]) -> Ledger:
    ledger = place.open()
    ledger.open_account(terms(RenyiCalculus(Fraction(12)), epsilon=1000))
    bind(ledger, "2024")
    ledger.reserve(request(events=events, epsilon=10**14, delta=10**9))
    return ledger


def contribute(
    grant: Grant, rows: PrivateRows, learner: Learner, call: Call, *, plan: FederatedPlan = PLAN
) -> Contribution:
    return grant.draw(SiteShare(TrainingQuery(rows, learner, plan.training, CPU), plan, call), key="fed")


def sum_round(grant: Grant, collect: Collect, *, plan: FederatedPlan = PLAN) -> RoundSum:
    query = TrainingQuery(PrivateRows.of_nobody(LAYOUT), LEARNER, plan.training, CPU)
    return grant.draw(SumOverSites(query, plan, 0, SiteAnswers("0" * 16, collect)), key="fed")


class Site:
    def __init__(self, place: Place, codes: Unsigned, plan: FederatedPlan, seeded: SeededBytes | None = None) -> None:
        self.ledger, self.plan, self.asked, self.silent = a_ledger(place, plan.record_events), plan, 0, False
        self.rows = PrivateRows(LAYOUT, KEYED_HASH, "b" * 64, lambda: codes)
        self.grant = open_grant(self.ledger, "run-1", seeded=seeded)
        self.sent: list[Contribution] = []

    def __call__(self, call: Call) -> Contribution | None:
        self.asked += 1
        if self.silent:
            return None
        self.sent.append(contribute(self.grant, self.rows, LEARNER, call, plan=self.plan))
        return self.sent[-1]

    def drawn(self) -> list[dict[str, Any]]:
        return [entry.body for entry in self.ledger.entries_of("run-1") if entry.kind == "noise_drawn"]


class Federation:
    def __init__(self, places: Callable[[str], Place], plan: FederatedPlan = PLAN) -> None:
        self.plan = plan
        self.sites = {
            name: Site(places(name), mixed_codes(40, seed=place), plan) for place, name in enumerate(plan.sites)
        }
        self.ledger = a_ledger(places("coordinator"), plan.person_events)
        self.names = count()

    def train(self, **changed: Any) -> FederatedModel:
        given: dict[str, Any] = {"told": lambda summed: None, **changed}
        return train_across(
            open_grant(self.ledger, "run-1"),
            InProcessSites(self.plan, self.sites),
            LEARNER,
            LAYOUT,
            plan=self.plan,
            key="fed",
            execution=CPU,
            attempts=Attempts(lambda: f"{next(self.names):016x}", AttemptLost, **given),
        )

    def drawn(self) -> list[str]:
        return [entry.body["key"] for entry in self.ledger.entries_of("run-1") if entry.kind == "noise_drawn"]


def call(number: int = 0, attempt: int = 0) -> Call:
    return Call(number, f"{attempt:016x}", initial_state(LEARNER).parameters)
