"""Trainings over Adult's sites: pooled, central and local through grants of real ledgers; FedAvg without privacy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

import numpy as np

from benchmarks._federated_averages import averaged
from benchmarks._federation_data import SITES, Split, Vector
from contracts.periods.time_blocks import time_block
from privacy.accounting.amounts import ATTO, PICO
from privacy.accounting.calculus import RenyiCalculus
from privacy.accounting.events import PrivacyEvent
from privacy.arrays import Unsigned
from privacy.coordination.coordinator import Attempts, train_across
from privacy.federation.plan import FederatedPlan, Trust, planned
from privacy.federation.rounds import AttemptLost, InProcessSites
from privacy.grant.grant import Grant, open_grant
from privacy.grant.queries.across_sites import SiteShare
from privacy.grant.queries.training import TrainingQuery
from privacy.learning.layout import PrivateRows, RowLayout
from privacy.learning.learners import Classifier
from privacy.learning.network import Adam
from privacy.learning.plan import Execution, Schedule, calibrated_multiplier
from privacy.learning.training import Session, TrainingState, initial_state
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import AccountTerms, ChargeRequest
from privacy.noise.lattice_gaussian import normals_from
from privacy.noise.random_bytes import SecureBytes
from privacy.private_table import snapshot_mark

EPSILON: Final = Fraction(1)
DELTA: Final = Fraction(1, 10**5)
NORM: Final = Fraction(1)
FREE_RATE: Final = 0.003
"""Learning rate of the baselines without privacy."""
CPU: Final = Execution("cpu", rows_at_once=4096)
_HASH, _CONTRACT, _SPEC = "c" * 64, "b" * 64, "a" * 64


@dataclass(frozen=True)
class Rounds:
    """How often and from how much is learned.

    Args:
        steps: rounds.
        batch: expected rows a round, of all sites together.
    """

    steps: int
    batch: int


def central(split: Split, learner: Classifier, rounds: Rounds, trust: Trust, folder: Path) -> Vector:
    """Train across sites, with the noise of the trust, at epsilon 1 for each record."""
    plan = planned(
        SITES,
        split.rows,
        trust,
        rounds=rounds.steps,
        batch=rounds.batch,
        clipping_norm=NORM,
        reserve=0,
        epsilon=EPSILON,
        delta=DELTA,
    )
    answers = {}
    for name, codes in zip(SITES, split.sites, strict=True):
        grant, rows = grant_of(folder / name, plan.record_events), private(split.layout, codes)
        answers[name] = _answer(grant, rows, learner, plan)
    model = train_across(
        grant_of(folder / "coordinator", plan.person_events),
        InProcessSites(plan, answers),
        learner,
        split.layout,
        plan=plan,
        key="fed",
        execution=CPU,
        attempts=Attempts(lambda: token_hex(8), AttemptLost),
    )
    return model.parameters


def pooled(layout: RowLayout, codes: Unsigned, learner: Classifier, rounds: Rounds, folder: Path) -> Vector:
    """Train on rows in one place, at the same epsilon."""
    batch = min(rounds.batch, len(codes))
    schedule = Schedule(len(codes), batch, Fraction(rounds.steps * batch, len(codes)), checkpoints=1, reserve=0)
    multiplier = calibrated_multiplier(schedule, epsilon=EPSILON, delta=DELTA)
    plan = schedule.plan(noise_multiplier=multiplier, clipping_norm=NORM)
    grant = grant_of(folder, plan.events)
    return grant.draw(TrainingQuery(private(layout, codes), learner, plan, CPU), key="t").parameters


def local(split: Split, learner: Classifier, rounds: Rounds, folder: Path) -> tuple[Vector, list[Vector]]:
    """Train at each site alone, at the same epsilon; the average of the models, and the models."""
    share = [Rounds(rounds.steps, max(1, ceil(rounds.batch * rows / sum(split.rows)))) for rows in split.rows]
    models = [
        pooled(split.layout, codes, learner, each, folder / name)
        for name, codes, each in zip(SITES, split.sites, share, strict=True)
    ]
    return averaged(models, split.rows), models


def without_privacy(
    layout: RowLayout, sites: Sequence[Unsigned], learner: Classifier, *, rounds: int, batch: int, seed: int
) -> Vector:
    """FedAvg: each site an epoch of its own from the common model, then the average. No privacy: a baseline only."""
    generator, rows = np.random.default_rng(seed), [len(codes) for codes in sites]
    plain = replace(learner, optimizer=Adam(FREE_RATE))
    common = initial_state(plain).parameters
    for _ in range(rounds):
        common = averaged([_epoch(layout, codes, plain, common, batch, generator) for codes in sites], rows)
    return common


def _epoch(
    layout: RowLayout,
    codes: Unsigned,
    learner: Classifier,
    common: Vector,
    batch: int,
    generator: np.random.Generator,
) -> Vector:
    start = TrainingState(common, initial_state(learner).moments, np.empty(0, np.float32))
    session = Session(learner, layout, start, step=0, steps=1, execution=CPU)
    order = generator.permutation(len(codes))
    for place in range(0, len(order), batch):
        some = codes[order[place : place + batch]]
        total = session.clipped_sum(some, bound=1e6, normals=normals_from(SecureBytes())).copy()
        session.advance(total, expected_batch_size=len(some))
    return session.state().parameters


def private(layout: RowLayout, codes: Unsigned) -> PrivateRows:
    """Return the handle on some rows."""
    return PrivateRows(layout, _HASH, _CONTRACT, lambda: codes)


def grant_of(folder: Path, events: tuple[PrivacyEvent, ...]) -> Grant:
    """Open a ledger with an account that holds the events, and return the grant of their charge."""
    folder.mkdir(parents=True)
    ledger = Ledger(f"sqlite:///{folder / 'ledger.sqlite'}", draws=folder / "draws")
    calculus = RenyiCalculus(Fraction(12))
    ledger.open_account(
        AccountTerms("people", "people", "1994", "row", "add_remove", calculus, 10**15, ATTO // 10**5)
    )
    ledger.bind_source("file:people", "people", time_block("1994"))
    mark = snapshot_mark(_HASH, _SPEC)
    given: dict[str, Any] = {"adjacency": "add_remove", "unit": "row", "scope": "block", "rows_per_unit": 1}
    ledger.reserve(
        ChargeRequest(
            "run",
            "people",
            "file:people",
            "model",
            _SPEC,
            _CONTRACT,
            mark,
            events=events,
            epsilon=PICO,
            delta=ATTO // 10**5,
            **given,
        )
    )
    return open_grant(ledger, "run")


def _answer(grant: Grant, rows: PrivateRows, learner: Classifier, plan: FederatedPlan) -> Callable[[Any], Any]:
    query = TrainingQuery(rows, learner, plan.training, CPU)
    return lambda call: grant.draw(SiteShare(query, plan, call), key="fed")
