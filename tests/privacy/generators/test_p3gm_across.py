"""P3GM over sites that are not alike: planned in its charge, drawn as planned, resumed, made again of its sums."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from privacy.accounting.events import event_from_json
from privacy.accounting.renyi import best_epsilon
from privacy.coordination.coordinator import Attempts, FederatedModel, contribute_phase, replayed, run_phases
from privacy.federation.plan import Trust
from privacy.federation.plans import PhasedPlan, encode_sums, heard
from privacy.federation.rounds import AttemptLost, Call, InProcessSites, RoundSum
from privacy.generators.generator import CannotGenerate
from privacy.generators.latent import PhasedOptions
from privacy.generators.p3gm_across import Across, P3gmAcross
from privacy.grant.grant import open_grant
from privacy.learning.layout import PrivateRows
from privacy.learning.learners import learner_digest
from privacy.learning.network import CannotTrain
from privacy.learning.plan import Execution
from tests.privacy.federation.sites import a_ledger
from tests.privacy.generators.test_latent_generators import DELTA, LAYOUT, MEANS, Rows, question, same, table
from tests.privacy.ledger.ledgers import Place

pytestmark = pytest.mark.usefixtures("one_thread")
NAMES = ("north", "east", "south")
CPU = Execution("cpu", rows_at_once=2048)
BLIND = Trust("sites", secure_aggregation=True, server=None, fewest=3, colluding=1, sites_per_person=1)
WIDE = 20_000
ACROSS = Across(NAMES, (9_000, 7_000, 4_000), BLIND, 60, 2_000, Fraction(1), reserve=1, sums_reserve=1)
QUICK = Across(NAMES, (9_000, 7_000, 4_000), BLIND, 3, 2_000, Fraction(1), reserve=1, sums_reserve=1)


def across(where: Across = ACROSS, epsilon: int = 8, **options: Any) -> P3gmAcross:
    plain = {"label": "kind", "labels": "components", "hidden": (16,), "learning_rate": 0.03, "dimensions": 4}
    given = {**plain, **options}
    return P3gmAcross(question(Fraction(epsilon)), PhasedOptions(rows_about=sum(where.rows_about), **given), where)


def shared_out(rows: NDArray[np.uint8]) -> dict[str, NDArray[np.uint8]]:
    kind, random = rows[:, 5], np.random.default_rng(2).random(len(rows))
    owner = np.where(kind == 0, 0, np.where(random < 0.7, 1, 2))
    return {name: rows[owner == place] for place, name in enumerate(NAMES)}


@dataclass
class Federation:
    places: Callable[[str], Place]
    phased: P3gmAcross
    rows: int = WIDE

    def __post_init__(self) -> None:
        plan = self.phased.plan
        self.ledgers = {name: a_ledger(self.places(name), plan.record_events) for name in NAMES}
        self.ledgers["coordinator"] = a_ledger(self.places("coordinator"), plan.person_events)
        self.sources = {name: Rows(codes) for name, codes in shared_out(table(self.rows)).items()}
        self.names, self.calls = count(), list[Call]()
        self.silent: dict[str, set[int]] = {}

    def answer(self, name: str, call: Call) -> Any:
        self.calls.append(call)
        if call.number in self.silent.get(name, set()):
            self.silent[name].remove(call.number)
            return None
        grant, source = open_grant(self.ledgers[name], "run-1"), self.sources[name]
        rows, trained = (
            source.rows(each.names).with_layout(each) for each in (self.phased.layout, self.phased.trained_layout)
        )
        return contribute_phase(
            grant, self.phased, rows, trained, call, plan=self.phased.plan, key="fed", execution=CPU
        )

    def run(self, stop: int | None = None) -> tuple[tuple[RoundSum, ...], FederatedModel]:
        def say(summed: RoundSum) -> None:
            if stop is not None and next(done) == stop:
                raise KeyboardInterrupt

        done = count(1)
        answers: Any = {name: lambda call, name=name: self.answer(name, call) for name in NAMES}
        return run_phases(
            open_grant(self.ledgers["coordinator"], "run-1"),
            InProcessSites(self.phased.plan, answers),
            self.phased,
            plan=self.phased.plan,
            key="fed",
            execution=CPU,
            attempts=Attempts(lambda: f"{next(self.names):016x}", AttemptLost, say),
        )

    def drawn(self, name: str) -> list[dict[str, Any]]:
        return [e.body for e in self.ledgers[name].entries_of("run-1") if e.kind == "noise_drawn"]


@pytest.mark.long
def test_rows_of_sites_that_are_not_alike_come_out_with_their_shares(places: Callable[[str], Place]):
    """Epsilon 8, 20,000 rows; the labels' shares and the clouds' means, as of P3GM in one place. What one site alone
    would give, a label that it has all of, is out of the allowed range."""
    federation = Federation(places, across())
    sums, trained = federation.run()
    model, notes = federation.phased.model(sums, trained.parameters)
    made = model.sample(6000, seed=4)
    assert notes == ()
    assert model.rows == pytest.approx(WIDE, abs=400)
    assert np.bincount(made[:, 5], minlength=3) / 6000 == pytest.approx([1 / 2, 1 / 3, 1 / 6], abs=0.06)
    for kind in range(3):
        cloud = made[made[:, 5] == kind]
        assert cloud[:, :4].mean(axis=0) / 100 == pytest.approx(MEANS[kind], abs=0.2)
        assert cloud[:, 4].mean() == pytest.approx([0.1, 0.1, 0.9][kind], abs=0.3)
    plan, phased = trained.plan, federation.phased
    again = replayed(phased.learner(sums), phased.trained_layout, plan, trained.rounds, execution=CPU)
    assert same(phased.model(sums, again)[0], model)
    for name, ledger in federation.ledgers.items():
        assert ledger.verify() == []
        charged = phased.plan.person_events if name == "coordinator" else phased.plan.record_events
        drawn = Counter(event_from_json(body["event"]) for body in federation.drawn(name))
        assert all(drawn[event] <= Counter(charged)[event] for event in drawn)
        assert sum(drawn.values()) == phased.plan.rounds == len(charged) - 2


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"trust": replace(BLIND, sites_per_person=2)},
        {"trust": replace(BLIND, noise="server", server="office", colluding=0)},
        {"sums_reserve": 0, "reserve": 0},
        {"sums_reserve": 3},
    ],
)
def test_both_phases_together_cost_the_charge_and_hardly_less(changed: dict[str, Any]):
    plan = across(replace(QUICK, **changed), epsilon=2).plan
    assert 1.99 < best_epsilon(plan.person_events, DELTA)[0] <= 2
    assert best_epsilon(plan.record_events, DELTA)[0] <= best_epsilon(plan.person_events, DELTA)[0]
    both = PhasedPlan(plan.sums, plan.training)
    assert both.to_json() == plan.to_json()


@pytest.mark.long
@pytest.mark.parametrize(
    "options", [{}, {"labels": "joined", "components": 3, "rounds": 2}, {"scale": "declared", "numbers": "bins"}]
)
def test_a_run_that_is_stopped_goes_on_in_either_phase(places: Callable[[str], Place], options: dict[str, Any]):
    """Stopped after each round and started again: the same draws, each made once, as of a run that is not stopped."""
    federation = Federation(places, across(QUICK, **options), rows=3000)
    plan = federation.phased.plan
    for stop in range(1, plan.rounds):
        with pytest.raises(KeyboardInterrupt):
            federation.run(stop)
    sums, trained = federation.run()
    assert [call.number for call in federation.calls[:: len(NAMES)]] == list(range(plan.rounds))
    assert [each.sha256 for each in (*sums, *trained.rounds)] == [
        body["sha256"] for body in federation.drawn("coordinator")
    ]
    for name in NAMES:
        assert len(federation.drawn(name)) == plan.rounds


@pytest.mark.long
def test_an_attempt_that_is_lost_in_either_phase_is_made_again(places: Callable[[str], Place]):
    federation = Federation(places, across(QUICK), rows=3000)
    rounds = federation.phased.plan.sums.rounds
    federation.silent = {"east": {rounds - 1, rounds + 1}}
    federation.run()
    keys = [body["key"] for body in federation.drawn("coordinator")]
    assert [key for key in keys if "lost" in key] == [
        f"fed/sums/{rounds - 1:05d}/lost-{rounds - 1}",
        f"fed/training/00001/lost-{rounds + 2}",
    ]
    assert all(ledger.verify() == [] for ledger in federation.ledgers.values())


@pytest.mark.long
def test_what_a_coordinator_makes_up_is_refused_or_moves_nothing_that_is_charged(places: Callable[[str], Place]):
    """Sums that no round can have released are refused; others change what is added up, and not its bounds."""
    federation = Federation(places, across(QUICK), rows=3000)
    sums, _ = federation.run()
    plan, phased = federation.phased.plan, federation.phased
    numbers = encode_sums(sums)
    again, rest = heard(Call(plan.sums.rounds, "0" * 16, numbers), plan)
    assert rest.size == 0
    assert [each.present for each in again] == [each.present for each in sums]
    assert all((one.steps == other.steps).all() for one, other in zip(again, sums, strict=True))
    assert learner_digest(phased.learner(again)) == learner_digest(phased.learner(sums))
    for made_up in (numbers[:-1], numbers + np.float32(0.5), np.full_like(numbers, np.nan), -numbers - 1):
        with pytest.raises(CannotTrain):
            heard(Call(plan.sums.rounds, "0" * 16, made_up), plan)
    with pytest.raises(CannotTrain, match="round"):
        heard(Call(plan.rounds, "0" * 16, numbers), plan)
    other = [replace(sums[0], steps=sums[0].steps * 0)]
    terms: Any = {"adjacency": "add_remove", "rows_per_unit": 1}
    for released in (other, list(sums[:1])):
        statistic = phased.statistic(released)
        assert statistic.moves(**terms) == plan.sums.sums[1].moves
        assert statistic.length == plan.sums.sums[1].length
    with pytest.raises(IndexError):
        phased.statistic(sums)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"batch": 30_000}, "batch"),
        ({"rows_about": (10**7, 7_000, 4_000)}, "rows_about"),
        ({"trust": replace(BLIND, fewest=4)}, "fewest"),
    ],
)
def test_what_cannot_be_planned_is_refused(changed: dict[str, Any], said: str):
    with pytest.raises((CannotTrain, CannotGenerate), match=said):
        across(replace(QUICK, **changed))


def test_phases_of_other_parties_do_not_belong_together():
    one, other = across(QUICK).plan, across(replace(QUICK, rows_about=(8_000, 8_000, 4_000))).plan
    with pytest.raises(CannotTrain, match="rows_about"):
        PhasedPlan(one.sums, other.training)


def test_sites_read_the_rows_of_the_layouts(places: Callable[[str], Place]):
    """The label that owns components is added up with, and not trained on."""
    phased = across(QUICK)
    assert phased.layout.names == LAYOUT.names
    assert phased.trained_layout.names == LAYOUT.names[:-1]
    rows = Rows(table(10)).rows(phased.trained_layout.names)
    assert isinstance(rows, PrivateRows)
    assert rows.layout.digest == phased.trained_layout.digest
