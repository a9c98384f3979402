"""Training through the grant: what is charged, what a crash costs, and what is not let in."""

import json
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from privacy.accounting.calculus import RenyiCalculus
from privacy.accounting.events import PoissonSampledGaussian, ZeroConcentrated
from privacy.grant.grant import Grant, open_grant
from privacy.grant.queries.marginal import MarginalQuery
from privacy.grant.queries.training import TrainingQuery
from privacy.learning import training as training_module
from privacy.learning.layout import PrivateRows
from privacy.learning.learners import Classifier, Learner
from privacy.learning.network import Adam, CannotTrain, Sgd, TrainingDiverged, perceptron
from privacy.learning.plan import Execution, TrainingPlan
from privacy.learning.trained import Trained
from privacy.ledger.entries import GrantExceeded, LedgerRefusal
from privacy.ledger.ledger import Ledger
from privacy.noise.random_bytes import SeededBytes
from tests.privacy.grant.crashes import Killed
from tests.privacy.learning.reference_learners import classifier, clustered, mixed_codes, mixed_layout, p3gm
from tests.privacy.ledger.ledgers import KEYED_HASH, Counted, Place, bind, request, terms

RENYI = RenyiCalculus(Fraction(12))
PLAN = TrainingPlan(Fraction(1, 4), Fraction(10), 6, Fraction(1), Fraction(2), 2, reserve=1)
LAYOUT = mixed_layout()
SMALL = classifier(network=perceptron(18, 4, outputs=3))
CPU = Execution("cpu", rows_at_once=4)


class Rows:
    def __init__(self, rows: int = 40, keyed_hash: str = KEYED_HASH) -> None:
        self.opened, self._codes = 0, mixed_codes(rows)
        self.handle = PrivateRows(LAYOUT, keyed_hash, "b" * 64, self._read)

    def _read(self) -> Any:
        self.opened += 1
        return self._codes


def a_ledger(place: Place, plan: TrainingPlan = PLAN, **changed: Any) -> Ledger:
    ledger = place.open()
    ledger.open_account(terms(RENYI, epsilon=100, adjacency=changed.get("adjacency", "add_remove")))
    bind(ledger, "2024")
    ledger.reserve(replace(request(events=plan.events, epsilon=10**13, delta=10**9), **changed))
    return ledger


def train(grant: Grant, learner: Learner = SMALL, plan: TrainingPlan = PLAN, **changed: Any) -> Trained:
    rows, execution = changed.pop("rows", None) or Rows().handle, changed.pop("execution", CPU)
    return grant.draw(TrainingQuery(rows, learner, plan, execution), **{"key": "t", **changed})


def drawn(ledger: Ledger) -> list[tuple[str, dict[str, Any]]]:
    entries = [entry.body for entry in ledger.entries_of("run-1") if entry.kind == "noise_drawn"]
    return [(body["key"], body["event"]) for body in entries]


@pytest.mark.parametrize(
    "learner", [SMALL, p3gm(), p3gm(averaging=0.9), clustered()], ids=["sgd", "adam", "averaged", "clustered"]
)
def test_each_interval_is_one_draw_with_the_events_of_its_steps(sqlite_place: Place, learner: Learner):
    ledger = a_ledger(sqlite_place)
    told: list[tuple[int, int]] = []
    made = train(open_grant(ledger, "run-1"), learner, progress=lambda done, steps: told.append((done, steps)))
    event = PoissonSampledGaussian(Fraction(2), Fraction(1, 4), 2).to_json()
    assert drawn(ledger) == [(f"t/{place:05d}", event) for place in range(3)]
    assert made.draws == ("t/00000", "t/00001", "t/00002")
    assert told == [(step, 6) for step in range(1, 7)]
    assert np.isfinite(made.parameters).all()
    assert {part for part, _ in made.layers} == {part for part, _ in learner.parts}
    assert ledger.verify() == []


def test_a_run_that_resumes_replays_its_checkpoints_and_reads_nothing(sqlite_place: Place):
    ledger = a_ledger(sqlite_place)
    first, again = train(open_grant(ledger, "run-1")), Rows()
    second = train(open_grant(ledger, "run-1"), rows=again.handle)
    np.testing.assert_array_equal(first.parameters, second.parameters)
    assert (again.opened, len(drawn(ledger)), second.sha256) == (0, 3, first.sha256)


@pytest.mark.parametrize(
    ("other", "differs"),
    [
        ({"learner": replace(SMALL, seed=7)}, "of something else"),
        ({"learner": replace(SMALL, optimizer=Sgd(0.2))}, "of something else"),
        ({"plan": replace(PLAN, expected_batch_size=Fraction(11))}, "of something else"),
        ({"plan": replace(PLAN, clipping_norm=Fraction(2))}, "of something else"),
        ({"plan": replace(PLAN, noise_multiplier=PLAN.noise_multiplier + 1)}, "with other noise"),
    ],
)
def test_a_resumed_run_cannot_train_something_else(sqlite_place: Place, other: dict[str, Any], differs: str):
    """A training has no columns of its own: the refusal names all rows, and what is another one."""
    ledger = a_ledger(sqlite_place)
    train(open_grant(ledger, "run-1"))
    with pytest.raises(LedgerRefusal) as refused:
        train(open_grant(ledger, "run-1"), **other)
    assert f"of all rows, {differs}" in str(refused.value)
    assert "of all rows, as it was drawn before" in str(refused.value)


def killed_at(step: int, monkeypatch: pytest.MonkeyPatch, grant: Grant) -> None:
    advance, steps = training_module.Session.advance, iter(range(100))

    def dying(session: Any, *arguments: Any, **named: Any) -> None:
        if next(steps) == step:
            raise Killed
        advance(session, *arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(training_module.Session, "advance", dying)
        with pytest.raises(Killed):
            train(grant)


def test_an_interrupted_interval_is_paid_again_from_the_reserve(sqlite_place: Place, monkeypatch: pytest.MonkeyPatch):
    """Killed in the second interval: the first is replayed, the lost attempt stands in the journal with its event."""
    ledger = a_ledger(sqlite_place)
    killed_at(3, monkeypatch, open_grant(ledger, "run-1"))
    assert [key for key, _ in drawn(ledger)] == ["t/00000"]
    rows = Rows()
    made = train(open_grant(ledger, "run-1"), rows=rows.handle)
    keys = [key for key, _ in drawn(ledger)]
    assert keys == ["t/00000", "t/00001/lost-1", "t/00001", "t/00002"]
    assert rows.opened == 2
    assert {json.dumps(event) for _, event in drawn(ledger)} == {json.dumps(PLAN.event.to_json())}
    np.testing.assert_array_equal(train(open_grant(ledger, "run-1")).parameters, made.parameters)
    assert ledger.verify() == []


def test_a_second_interruption_finds_no_reserve(sqlite_place: Place, monkeypatch: pytest.MonkeyPatch):
    """Two of them where one is paid for: refused before anything is read, and again when asked again."""
    ledger = a_ledger(sqlite_place)
    killed_at(1, monkeypatch, open_grant(ledger, "run-1"))
    killed_at(0, monkeypatch, open_grant(ledger, "run-1"))
    for _ in range(2):
        rows = Rows()
        with pytest.raises(GrantExceeded, match="2 interrupted attempts"):
            train(open_grant(ledger, "run-1"), rows=rows.handle)
        assert rows.opened == 0
    assert [key for key, _ in drawn(ledger)] == ["t/00000/lost-0", "t/00000/lost-1"]
    assert ledger.verify() == []


def test_a_lost_attempt_is_entered_whatever_is_asked_next(sqlite_place: Place, monkeypatch: pytest.MonkeyPatch):
    """It is paid even if the run goes on with another draw."""
    from privacy.marginals.sensitivity import GaussianNoise

    ledger = a_ledger(sqlite_place, events=(*PLAN.events, ZeroConcentrated(Fraction(1, 2))))
    killed_at(0, monkeypatch, open_grant(ledger, "run-1"))
    counted = Counted(np.zeros(3, np.int64)).handle
    open_grant(ledger, "run-1").draw(MarginalQuery(counted, GaussianNoise(Fraction(1, 4))), key="a")
    assert [key for key, _ in drawn(ledger)] == ["t/00000/lost-0", "a"]
    train(open_grant(ledger, "run-1"))
    assert ledger.verify() == []


def test_a_kill_before_the_checkpoint_is_entered_adopts_it(sqlite_place: Place, monkeypatch: pytest.MonkeyPatch):
    """The file is there, the journal does not know it: it is the draw, and the reserve is not touched."""
    from privacy.ledger.store.journal import Journal

    ledger = a_ledger(sqlite_place)
    grant = open_grant(ledger, "run-1")

    def dying(*arguments: Any, **named: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "append", dying)
        with pytest.raises(Killed):
            train(grant)
    train(open_grant(ledger, "run-1"))
    assert [key for key, _ in drawn(ledger)] == ["t/00000", "t/00001", "t/00002"]


def test_a_progress_that_raises_loses_no_interval(sqlite_place: Place):
    ledger = a_ledger(sqlite_place)

    def stop(done: int, steps: int) -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        train(open_grant(ledger, "run-1"), progress=stop)
    assert [key for key, _ in drawn(ledger)] == ["t/00000"]
    train(open_grant(ledger, "run-1"))
    assert len(drawn(ledger)) == 3


def test_a_training_that_diverges_stops_keeps_its_charge_and_shows_no_value(sqlite_place: Place):
    """At a rate of 1000 and eight layers the loss overflows at once; asked again, it says so again. From a seed: by
    other noise the network is dead at once, and does not diverge, one time in some hundreds."""
    ledger = a_ledger(sqlite_place)
    wild = p3gm(optimizer=Sgd(1000.0, momentum=0.99), kl_weight=1e9, decoder=perceptron(2, *[8] * 8, outputs=21))
    plan = replace(PLAN, clipping_norm=Fraction(10**6))
    for seed in (1, 2):
        with pytest.raises(TrainingDiverged, match="stays charged") as stopped:
            train(open_grant(ledger, "run-1", seeded=SeededBytes(seed)), wild, plan)
        assert not any(word in str(stopped.value).lower() for word in ("nan", "inf ", "loss ="))
    assert len(drawn(ledger)) == 1
    assert ledger.charge("run-1").status == "opened"  # type: ignore[union-attr]


def test_what_fails_while_noise_is_drawn_stays_charged_and_is_not_made_again(
    sqlite_place: Place, monkeypatch: pytest.MonkeyPatch
):
    ledger = a_ledger(sqlite_place)

    def broken(*arguments: Any, **named: Any) -> None:
        raise ArithmeticError("row 17 is 4711")

    with monkeypatch.context() as patch:
        patch.setattr(training_module.Session, "clipped_sum", broken)
        with pytest.raises(LedgerRefusal, match="ArithmeticError") as refused:
            train(open_grant(ledger, "run-1"))
        assert "4711" not in str(refused.value)
    with pytest.raises(LedgerRefusal, match="stays charged"):
        train(open_grant(ledger, "run-1"))


def test_empty_batches_and_empty_tables_are_trained_on(sqlite_place: Place):
    """At q = 1/1000 nearly every sample is empty: the step is noise alone; without rows, always. Of 91 parameters one
    may stay where it was, by noise that adds up to 0."""
    plan = replace(PLAN, sampling_probability=Fraction(1, 1000))
    ledger = a_ledger(sqlite_place, plan)
    made = train(open_grant(ledger, "run-1"), plan=plan)
    start = training_module.initial_state(SMALL).parameters
    assert np.isfinite(made.parameters).all()
    assert (made.parameters != start).mean() > 0.9
    empty = a_ledger_again(ledger, plan)
    assert np.isfinite(train(empty, plan=plan, rows=Rows(0).handle).parameters).all()


def a_ledger_again(ledger: Ledger, plan: TrainingPlan) -> Grant:
    ledger.reserve(request("run-2", events=plan.events, epsilon=10**13, delta=10**9))
    return open_grant(ledger, "run-2")


EXECUTION = "query.execution must be Execution itself, not str"


class Loose(Classifier):
    """A learner with code of its own."""


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"learner": Loose(**vars(SMALL))}, "query.learner must be .* itself, not Loose"),
        ({"learner": object()}, "query.learner must be .* itself, not object"),
        ({"learner": replace(SMALL, label="age")}, "label is age"),
        ({"learner": replace(SMALL, network=perceptron(17, outputs=3))}, "network is a network from"),
        ({"learner": replace(SMALL, optimizer=object())}, "optimizer must be .* itself, not object"),
        ({"plan": PLAN.to_json()}, "query.plan must be TrainingPlan itself, not dict"),
        ({"plan": replace(PLAN, noise_multiplier=Fraction(10**6))}, "noise_multiplier"),
        ({"execution": "cpu"}, EXECUTION),
        ({"execution": Execution("cuda")}, "device is cuda"),
    ],
)
def test_what_is_not_of_the_closed_set_is_refused_and_nothing_is_read(
    sqlite_place: Place, changed: dict[str, Any], message: str
):
    import torch

    if "cuda" in message and torch.cuda.is_available():
        changed = {"execution": "cuda"}
        message = EXECUTION
    ledger, rows = a_ledger(sqlite_place), Rows()
    with pytest.raises(ValueError, match=message):
        train(open_grant(ledger, "run-1"), **{"rows": rows.handle, **changed})
    assert (rows.opened, drawn(ledger)) == (0, [])


def test_what_hides_behind_a_frozen_learner_is_refused(sqlite_place: Place):
    """A function in its own dictionary would be called in a method's place, where rows are."""
    ledger, learner = a_ledger(sqlite_place), replace(SMALL)
    seen: list[object] = []
    object.__setattr__(learner, "check", lambda layout: seen.append(layout))
    with pytest.raises(ValueError, match="keep its fields alone, and not 'check'"):
        train(open_grant(ledger, "run-1"), learner)
    assert (seen, drawn(ledger)) == ([], [])


@pytest.mark.parametrize(
    ("changed", "message"), [({"rows_per_unit": 2}, "rows_per_unit"), ({"adjacency": "replace_one"}, "adjacency")]
)
def test_relations_that_the_sampled_gaussian_is_not_accounted_for_are_refused(
    sqlite_place: Place, changed: dict[str, Any], message: str
):
    from privacy.grant.queries.training import check_relation

    with pytest.raises(CannotTrain, match=message):
        check_relation(request(**changed))
    if "rows_per_unit" in changed:
        ledger = a_ledger(sqlite_place, **changed)
        with pytest.raises(CannotTrain, match=message):
            train(open_grant(ledger, "run-1"))


def test_rows_of_another_snapshot_are_refused(sqlite_place: Place):
    ledger, other = a_ledger(sqlite_place), Rows(keyed_hash="d" * 64)
    with pytest.raises(LedgerRefusal, match="another snapshot"):
        train(open_grant(ledger, "run-1"), rows=other.handle)
    assert other.opened == 0


def test_more_than_the_charge_holds_is_refused(sqlite_place: Place):
    ledger = a_ledger(sqlite_place)
    with pytest.raises(LedgerRefusal):
        train(open_grant(ledger, "run-1"), plan=replace(PLAN, noise_multiplier=Fraction(1)))
    grant = open_grant(ledger, "run-1")
    train(grant, key="a")
    with pytest.raises(GrantExceeded):
        train(grant, key="b")


def test_pieces_of_a_batch_change_nothing_but_rounding(sqlite_place: Place):
    """The same random bytes with 1 and with 1,000 rows at once: parameters agree to float32."""
    ledger, found = a_ledger(sqlite_place), []
    for rows_at_once in (1, 1000):
        run_key = f"run-at-{rows_at_once}"
        ledger.reserve(request(run_key, events=PLAN.events, epsilon=10**13, delta=10**9))
        grant = open_grant(ledger, run_key, seeded=SeededBytes(3))
        found.append(train(grant, execution=Execution("cpu", rows_at_once)).parameters)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4, atol=1e-4)


def test_the_state_of_a_training_survives_its_file():
    learner = p3gm(averaging=0.5, optimizer=Adam(0.1))
    state = training_module.initial_state(learner)
    again = training_module.TrainingState.of(learner, state.to_vector())
    for name in ("parameters", "moments", "average"):
        np.testing.assert_array_equal(getattr(state, name), getattr(again, name))
    assert state.to_vector().size == training_module.state_size(learner)
