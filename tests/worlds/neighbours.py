"""Two neighbouring tables on the real path, from the file to the published folder, with the same noisy answers.

The first run draws; the second one asks, and is answered what the first was. What else is random or of the moment is
held equal too (`held_equal` says what, and why that hides nothing). So a byte that differs between the two folders is
a byte that came around the draws.
"""

import random
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from hashlib import shake_256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.orchestration import release_plainly
from contracts.canonical import canonical_json
from contracts.contract.contract import Contract, checks
from contracts.periods.time_blocks import time_block
from contracts.release.linked_source import contract_of
from contracts.release.spec import load_spec
from privacy.accounting.calculus import Calculus
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace
from privacy.grant.durable_draws import DurableDraws
from privacy.grant.grant import Grant
from privacy.grant.queries.choice import ChoiceQuery
from privacy.grant.queries.keys import KeyCountQuery, KeyQuery
from privacy.grant.queries.parameters import STEPS, ParameterQuery
from privacy.grant.queries.quantile_choice import QuantileChoiceQuery
from privacy.grant.queries.query import DrawStage, Query
from privacy.grant.queries.sparse_marginal import SparseMarginalQuery
from privacy.grant.queries.training import TrainingQuery
from privacy.learning.learners import parameters_of
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import AccountTerms
from privacy.private_table import PrivateTable
from tasks.records.facts import CheckOutcome
from tasks.storage.workspace.settings import Workspace

NOON = "2026-03-04T12:00:00Z"
Moves = list[tuple[str, float, float]]
"""How far something moved, what it was, and how far it may."""


@dataclass
class Question:
    """One draw: what was asked, the exact numbers behind it, and what was answered."""

    asked: bytes
    query: Query[Any]
    stage: DrawStage
    exact: tuple[Any, ...]
    answer: Any


@dataclass
class Replay:
    """The draws of a run, in order; with `answers` each is answered what it was answered there."""

    answers: dict[str, Any] = field(default_factory=dict)
    questions: dict[str, Question] = field(default_factory=dict)

    @contextmanager
    def of_every_grant(self) -> Iterator[None]:
        """Note every draw of any grant inside the block."""
        drawing: dict[str, tuple[Query[Any], DrawStage]] = {}
        enter, draw = Grant._drawn, DurableDraws._read_and_draw

        def entered(grant: Grant, own: Query[Any], name: str, stage: DrawStage, *, prefix: str) -> Any:
            drawing[name] = own, stage
            return enter(grant, own, name, stage, prefix=prefix)

        def answered(
            draws: DurableDraws,
            request: Any,
            number: int,
            read: Callable[[], Any],
            make: Callable[[Any], Any],
            *,
            again: bool,
        ) -> Any:
            exact = read()
            kept, asked = deepcopy(exact), canonical_json(request.to_json())
            answer = self.answers.get(request.key)
            if answer is None:
                answer = draw(draws, request, number, lambda: exact, make, again=again)
            self.questions[request.key] = Question(asked, *drawing[request.key], kept, answer)
            return deepcopy(answer)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Grant, "_drawn", entered)
            patch.setattr(DurableDraws, "_read_and_draw", answered)
            yield


@contextmanager
def held_equal(*, first: bool) -> Iterator[None]:
    """Hold equal what differs from run to run, whatever the rows are."""

    def taken(size: int) -> bytes:
        return shake_256(b"neighbours").digest(size)

    def ledger(workspace: Workspace, **_: bool) -> Ledger:
        return Ledger(workspace.ledger_url, draws=workspace.draws, signer=workspace.signer(), clock=lambda: NOON)

    def outcomes(table: PrivateTable, contract: Contract, **_: object) -> tuple[CheckOutcome, ...]:
        return tuple(CheckOutcome(check.name, first, check.gate) for check in checks(contract))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(random, "_urandom", taken)
        patch.setattr(secrets, "randbits", lambda bits: int.from_bytes(taken(-(-bits // 8))) >> -bits % 8)
        patch.setattr("tasks.ingest.keyed_hash", lambda *_, **__: "5" * 64)
        patch.setattr("tasks.storage.snapshot.snapshot.keyed_hash", lambda *_, **__: "5" * 64)
        patch.setattr("tasks.records.private_record.commitment", lambda *_: "6" * 64)
        patch.setattr("flows.prepare.warm", lambda: None)
        patch.setattr("tasks.validate.validate", outcomes)
        if not first:  # it verifies if its bytes are those of the first one
            patch.setattr("tasks.verify.check_staged", lambda *_: None)
        patch.setattr(Workspace, "open_ledger", ledger)
        yield


@dataclass(frozen=True)
class Published:
    """What a run published, and the draws that it asked for."""

    files: dict[str, bytes]
    questions: dict[str, Question]


def published(
    folder: Path, write: Callable[[Path], None], account: tuple[Calculus, int, int], answers: dict[str, Any]
) -> Published:
    """Publish a release on the real path, in a folder of that one name that is gone afterwards."""
    place = folder / "work"
    place.mkdir()
    replay = Replay(answers)
    with held_equal(first=not answers), replay.of_every_grant():
        write(place)
        workspace = Workspace.create(place / "w")
        spec = load_spec(place / "spec.yaml")
        contract, (calculus, epsilon, delta) = contract_of(spec), account
        unit = contract.unit.column or "row"
        with closing(workspace.open_ledger()) as ledger:
            terms = (spec.charge.account, "people", "2024", unit, contract.adjacency)
            ledger.open_account(AccountTerms(*terms, calculus, epsilon, delta))
            ledger.bind_source(spec.source.name, "people", time_block("2024"))
        release_plainly(place / "spec.yaml", workspace.root)
    version = next(each for each in workspace.releases.rglob("v1") if each.is_dir())
    files = {path.relative_to(version).as_posix(): path.read_bytes() for path in version.rglob("*") if path.is_file()}
    shutil.rmtree(place)
    return Published(files, replay.questions)


class Still:
    """A source of noise that adds nothing: a query's answer is the exact one, and a choice shows its scores."""

    def __init__(self) -> None:
        self.choices: list[tuple[Sequence[Any], Any]] = []

    def integers(self, size: int, *, event: Any) -> NDArray[np.int64]:
        return np.zeros(size, dtype=np.int64)

    def exponential_mechanism(self, scores: Sequence[Any], *, epsilon: Any, sensitivity: Any) -> int:
        self.choices.append((scores, sensitivity))
        return 0


def of_numbers(query: Query[Any], stage: DrawStage, exact: Any, other: Any) -> Moves:
    """Compare the numbers under the noise with the moves of the event: in L1 for Laplace, in L2 for Gaussian."""
    if getattr(query, "minimum_frequency", None) is not None:
        query = replace(query, minimum_frequency=None)  # type: ignore[type-var]
    event = query.event(stage.relation)
    values = [
        query.sample(each, event=event, noise=Still(), stage=stage)  # type: ignore[arg-type]
        for each in (exact, other)
    ]
    return of_event(event, [abs(int(step)) for step in (values[0] - values[1]).reshape(-1) if step])


def of_event(event: Any, change: list[int]) -> Moves:
    if isinstance(event, DiscreteLaplace):
        return [("L1", sum(change), sum(map(abs, event.moves)))]
    assert isinstance(event, DiscreteGaussian)
    return [("L2 squared", sum(move**2 for move in change), sum(move**2 for move in event.moves))]


def of_sparse(query: SparseMarginalQuery, stage: DrawStage, exact: Any, other: Any) -> Moves:
    """Compare populated cells with the moves of the event."""
    (codes, counts), (others, beside) = exact[0], other[0]
    found = dict(zip(codes.tolist(), counts.tolist(), strict=True))
    for code, rows in zip(others.tolist(), beside.tolist(), strict=True):
        found[code] = found.get(code, 0) - rows
    return of_event(query.event(stage.relation), [abs(step) for step in found.values() if step])


def of_scores(query: Query[Any], stage: DrawStage, exact: Any, other: Any) -> Moves:
    still = Still()
    for each in (exact, other):
        query.sample(each, event=query.event(stage.relation), noise=still, stage=stage)  # type: ignore[arg-type]
    (scores, sensitivity), (beside, _) = still.choices
    return [("score", float(max(abs(a - b) for a, b in zip(scores, beside, strict=True))), float(sensitivity))]


def _rows_moved(stage: DrawStage) -> int:
    """How many rows one unit adds or removes, or takes away and puts there."""
    return stage.relation.rows_per_unit * (2 if stage.relation.adjacency == "replace_one" else 1)


def of_values(query: QuantileChoiceQuery, stage: DrawStage, exact: Any, other: Any) -> Moves:
    """Compare how many rows have each value in each cell: the loss of a choice is by rows that come and go."""
    found: dict[tuple[int, int], int] = {}
    for sign, (rows,) in ((1, exact), (-1, other)):
        for cell, offset, number in rows.tolist():
            found[cell, offset] = found.get((cell, offset), 0) + sign * number
    return [("rows", sum(map(abs, found.values())), _rows_moved(stage))]


def _by_key(exact: Any, other: Any) -> list[int]:
    found: dict[Any, int] = {}
    for sign, (keys, numbers) in ((1, exact), (-1, other)):
        for key, number in zip(keys, numbers.tolist(), strict=True):
            found[key] = found.get(key, 0) + sign * number
    return [abs(step) for step in found.values() if step]


def of_keys(query: KeyQuery, stage: DrawStage, exact: Any, other: Any) -> Moves:
    """Compare the units of each key: one unit is in so many keys at most, once in each."""
    change = _by_key(exact[0], other[0])
    return [("keys", len(change), query.keys.groups), ("units of a key", max(change, default=0), 1)]


def of_key_counts(query: KeyCountQuery, stage: DrawStage, exact: Any, other: Any) -> Moves:
    """Compare the rows of each key, those of texts that are no keys, and those without a text."""
    (keys, rows, *beside), (others, numbers, *next_to) = exact[0], other[0]
    change = sum(_by_key((keys, rows), (others, numbers)))
    change += sum(abs(int(a) - int(b)) for a, b in zip(beside, next_to, strict=True))
    return [("rows", change, _rows_moved(stage))]


def of_parameters(query: ParameterQuery, stage: DrawStage, exact: Any, other: Any) -> Moves:
    """Every number is clamped before the noise, whatever the rows are: it moves by its whole range at most."""
    event = query.event(stage.relation)
    moves = event.moves if isinstance(event, DiscreteGaussian) else (event.move,)
    return [("range", STEPS, sum(move**2 for move in moves) ** 0.5)]


def of_training(query: TrainingQuery, stage: DrawStage, exact: Any, other: Any) -> Moves:
    """Compare the rows, and the clipped gradient of each row that is in one table alone, at the step's parameters."""
    rows = [{bytes(row): 0 for row in np.ascontiguousarray(each[0])} for each in (exact, other)]
    for found, each in zip(rows, (exact, other), strict=True):
        for row in np.ascontiguousarray(each[0]):
            found[bytes(row)] += 1
    change = {row: abs(rows[0].get(row, 0) - rows[1].get(row, 0)) for row in {**rows[0], **rows[1]}}
    moved = [row for row, number in change.items() if number]
    session, bound = query._session(stage.before, stage.place), query.plan.clipped_to(parameters_of(query.learner))
    like = exact[0]

    def normals(size: int, width: int) -> NDArray[np.float32]:
        return np.zeros((size, width), dtype=np.float32)

    norms = [
        float(np.linalg.norm(session.clipped_sum(
            np.frombuffer(row, like.dtype).reshape(1, *like.shape[1:]), bound=bound, normals=normals
        ).astype(np.float64)))
        for row in moved
    ]  # fmt: skip
    return [("rows", sum(change.values()), 1), ("gradient", max(norms, default=0.0), float(query.plan.clipping_norm))]


OF_KIND: dict[type[Query[Any]], Callable[..., Moves]] = {
    SparseMarginalQuery: of_sparse,
    ChoiceQuery: of_scores,
    QuantileChoiceQuery: of_values,
    KeyQuery: of_keys,
    KeyCountQuery: of_key_counts,
    ParameterQuery: of_parameters,
    TrainingQuery: of_training,
}
"""How the exact numbers of a kind are compared, where the noise is not added to each of them: `of_numbers`."""


def moves(one: Question, other: Question) -> Moves:
    """How far the exact numbers of one question moved, and how far they may."""
    return OF_KIND.get(type(one.query), of_numbers)(one.query, one.stage, one.exact, other.exact)


def differing(one: Published, other: Published) -> list[str]:
    """Names of the files whose bytes differ, or that one of the two lacks."""
    names = {*one.files, *other.files}
    return sorted(name for name in names if one.files.get(name) != other.files.get(name))
