"""What a grant does not let in: code of a caller never sees counts, and no derived sensitivity is false."""

import json
import re
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from contracts.contract.cell_codes import ImpossibleCells
from contracts.contract.impossible_cells import Clique
from privacy.accounting.amounts import ATTO
from privacy.accounting.calculus import RenyiCalculus
from privacy.accounting.events import ZeroConcentrated
from privacy.grant.exact_types import rebuilt
from privacy.grant.grant import Grant, open_grant
from privacy.grant.measurement import DurableDraw
from privacy.grant.queries.choice import ChoiceQuery
from privacy.grant.queries.marginal import MarginalQuery
from privacy.grant.queries.query import DrawStage, NoiseSource, Query, Relation
from privacy.grant.queries.sparse_marginal import SparseMarginalQuery
from privacy.ledger.entries import LedgerRefusal
from privacy.ledger.journal.signing import Signer
from privacy.ledger.ledger import Ledger
from privacy.marginals.counts import Coarsening, PrivateCounts, SparseCounts
from privacy.marginals.scores import Candidate, DistanceScore, MutualInformationScore
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise
from privacy.noise.random_bytes import SecureBytes
from privacy.refine.sparse_depth import Depth
from tests.privacy.ledger.ledgers import (
    HALF,
    KEYED_HASH,
    Counted,
    Place,
    ledger_with_account,
    record_publication,
    request,
)

RENYI = RenyiCalculus(Fraction(12))
ZEROS = np.zeros(3, dtype=np.int64)
ONE, NIL = Fraction(1), Fraction(0)
NOISE = GaussianNoise(Fraction(1, 100))


def opened(place: Place, **changed: Any) -> tuple[Ledger, Grant]:
    ledger = ledger_with_account(place, RENYI)
    made = request(events=(ZeroConcentrated(Fraction(1, 10)),), delta=ATTO // 10**9)
    ledger.reserve(replace(made, **changed))
    return ledger, open_grant(ledger, "run-1")


LooseArray, LooseFraction = type("LooseArray", (np.ndarray,), {}), type("LooseFraction", (Fraction,), {})
Listener, Spy = type("Listener", (Candidate,), {}), type("Spy", (Coarsening,), {})
Deep, Chatty = type("Deep", (Depth,), {}), type("Chatty", (MarginalQuery,), {})


class Cheaper(DistanceScore):
    """A score that understates how far a unit moves it."""

    def sensitivity(self, adjacency: str, rows_per_unit: int) -> Fraction:
        return Fraction(1, 1000)


def distance(prediction: Any = ZEROS, weight: Any = ONE, bias: Any = NIL) -> DistanceScore:
    score = DistanceScore(ZEROS, ONE, NIL)
    for name, value in (("prediction", prediction), ("weight", weight), ("bias", bias)):
        object.__setattr__(score, name, value)
    return score


SCORES: list[tuple[Any, str]] = [
    (distance(prediction=np.zeros((1000, 3), dtype=np.int64)), "int64 of shape"),
    (distance(prediction=np.zeros((3, 1), dtype=np.int64)), "int64 of shape"),
    (distance(prediction=np.zeros(3)), "prediction must hold int64, not float64"),
    (distance(prediction=np.full(3, -(2**63) + 1)), "within 9007199254740992 of 0"),
    (distance(prediction=ZEROS.view(LooseArray)), "prediction must be ndarray itself"),
    (distance(weight=-ONE), "weight must be above 0"),
    (distance(weight=1.0), "weight must be Fraction itself"),
    (distance(bias=LooseFraction(1)), "bias must be Fraction itself"),
    (Cheaper(ZEROS, ONE, NIL), "DistanceScore or MutualInformationScore itself, not Cheaper"),
    (MutualInformationScore(2), "declares public"),
]


@pytest.mark.parametrize(("score", "message"), SCORES, ids=[f"{n}-{m[:12]}" for n, (_, m) in enumerate(SCORES)])
def test_a_score_whose_derived_sensitivity_would_be_false_is_refused_before_a_count_is_read(
    place: Place, score: Any, message: str
):
    _, grant = opened(place)
    counted = Counted(ZEROS)
    with pytest.raises(ValueError, match=message):
        grant.draw(ChoiceQuery((Candidate(counted.handle, score),), Fraction(1, 100)), key="choice")
    assert counted.opened == 0


def test_a_distance_whose_sum_would_leave_64_bits_is_refused_before_a_count_is_read(place: Place):
    """Each number is within 2^53 and their sum is not within 2^63: one row more would turn the largest score over."""
    _, grant = opened(place)
    cells = np.zeros(1024, dtype=np.int64)
    edge = np.full(1024, -(2**53), dtype=np.int64)
    edge[0] += 8
    for prediction in (edge, -edge):
        counted = Counted(cells)
        candidate = Candidate(counted.handle, DistanceScore(prediction, ONE, NIL))
        with pytest.raises(ValueError, match="times its cells"):
            grant.draw(ChoiceQuery((candidate,), ONE / 10), key="choice")
        assert counted.opened == 0


def test_mutual_information_takes_the_declared_number_of_rows_and_one_row_a_unit(place: Place):
    """The sensitivity grows with log n: a smaller n than the declared one would understate it."""
    counted = Counted(np.array([[2, 1], [0, 3]]), ("age", "sex"))
    _, grant = opened(place, adjacency="add_remove", public_total=6)
    with pytest.raises(ValueError, match="declares public"):
        grant.draw(ChoiceQuery((Candidate(counted.handle, MutualInformationScore(6)),), ONE / 10), key="choice")
    assert counted.opened == 0


def test_handles_candidates_and_numbers_of_another_making_are_refused(place: Place):
    _, grant = opened(place)
    counted, score = Counted(ZEROS), DistanceScore(ZEROS, ONE, NIL)
    asked: list[tuple[Any, str]] = [
        (lambda: grant.draw(ChoiceQuery((Listener(counted.handle, score),), ONE / 10), key="k"), "Candidate itself"),
        (lambda: grant.draw(ChoiceQuery((Candidate(counted, score),), ONE / 10), key="k"), "PrivateCounts itself"),
        (
            lambda: grant.draw(ChoiceQuery((Candidate(counted.handle, score),), 0.1), key="k"),
            "epsilon must be Fraction",
        ),
        (lambda: grant.draw(MarginalQuery(counted, NOISE), key="k"), "PrivateCounts itself"),
        (
            lambda: grant.draw(MarginalQuery(counted.handle, GaussianNoise(LooseFraction(1))), key="k"),
            "Fraction itself",
        ),
        (lambda: grant.draw(MarginalQuery(counted.handle, NOISE, 5), key="k"), "MinimumFrequency"),
    ]
    for ask, message in asked:
        with pytest.raises(ValueError, match=message):
            ask()
    assert counted.opened == 0


@dataclass(frozen=True)
class WithNames:
    codes: dict[str, int]


@dataclass(frozen=True)
class WithPlaces:
    codes: tuple[tuple[int, NDArray[np.int64] | None], ...]
    order: Literal["up", "down"] = "up"


@dataclass
class Changeable:
    code: int


@dataclass(frozen=True)
class Cheap(Query[int]):
    """A kind that no sampler is registered for, and that says that it costs nothing."""

    counts: PrivateCounts
    kind: ClassVar[str] = "cheap"

    @property
    def handles(self) -> tuple[PrivateCounts]:
        return (self.counts,)

    @property
    def clique(self) -> Clique:
        return self.counts.clique

    def event(self, relation: Relation) -> Any:
        return ZeroConcentrated(Fraction(0))

    def identity(self, relation: Relation, place: int) -> dict[str, Any]:
        return {}

    def sample(
        self, exact: tuple[Any, ...], *, event: Any, noise: NoiseSource, stage: DrawStage
    ) -> NDArray[np.int64]:
        return np.asarray(exact[0])

    def result(self, event: Any, drawn: tuple[DurableDraw, ...]) -> int:
        return 0


def test_a_query_of_another_making_or_with_such_a_part_is_refused_before_a_count_is_read(place: Place):
    """The registered classes themselves, each part exactly as its class declares it, also behind a frozen value."""
    _, grant = opened(place)
    counted = Counted(ZEROS)
    changed, noise = MarginalQuery(counted.handle, GaussianNoise(ONE / 100)), GaussianNoise(ONE / 100)
    object.__setattr__(noise, "rho", LooseFraction(1))
    object.__setattr__(changed, "noise", noise)
    spied = replace(counted.handle, coarsening=Spy("level", (2,), np.array([0, 0, 1])))
    queries: list[tuple[Any, str]] = [
        (Chatty(counted.handle, NOISE), "itself, not Chatty"),
        (Cheap(counted.handle), "itself, not Cheap"),
        (changed, "query.noise.rho must be Fraction itself, not LooseFraction"),
        (MarginalQuery(spied, NOISE), "query.counts.coarsening must be Coarsening itself, not Spy"),
    ]
    for query, message in queries:
        with pytest.raises(ValueError, match=re.escape(message)):
            grant.draw(query, key="k")
    assert counted.opened == 0


def test_a_query_is_drawn_from_a_copy_and_replayed_by_the_same_query(place: Place):
    _, grant = opened(place)
    query = MarginalQuery(Counted(ZEROS).handle, NOISE)
    copied = rebuilt("query", query, (MarginalQuery,))
    assert (copied.noise, copied.counts.clique) == (query.noise, query.counts.clique)
    assert copied is not query
    assert copied.noise is not query.noise
    assert copied.counts is not query.counts
    drawn, again = grant.draw(query, key="k"), Counted(ZEROS)
    np.testing.assert_array_equal(grant.draw(MarginalQuery(again.handle, NOISE), key="k").values, drawn.values)
    assert again.opened == 0


def test_a_part_that_the_walk_does_not_know_is_refused():
    """Fails closed: a mapping could hold anything, and a class that is not frozen be changed while noise is drawn."""
    with pytest.raises(ValueError, match=r"value\.codes: dict is not a frozen value"):
        rebuilt("value", WithNames({"a": 1}), (WithNames,))
    with pytest.raises(ValueError, match="value: Changeable is not a frozen value"):
        rebuilt("value", Changeable(1), (Changeable,))


def test_tuples_and_arrays_are_walked_and_copied_part_by_part():
    """Nobody else holds what the grant reads; a part of another type is named by its place."""
    array = np.array([1, 2])
    copied = rebuilt("value", WithPlaces(((1, array), (2, None))), (WithPlaces,))
    array[0] = 7
    assert copied.codes[0][1].tolist() == [1, 2]
    assert not copied.codes[0][1].flags.writeable
    loose = np.array([object()])
    for codes, said in (
        (((1, array.view(LooseArray)),), r"value\.codes\[0\]\[1\] must be ndarray itself, not LooseArray"),
        (((True, array),), r"value\.codes\[0\]\[0\] must be int itself, not bool"),
        (((1, array, 2),), r"value\.codes\[0\] must have 2 parts, not 3"),
        (((1, loose),), r"value\.codes\[0\]\[1\] must hold int64, not object"),
        ([(1, array)], r"value\.codes must be tuple itself, not list"),
    ):
        with pytest.raises(ValueError, match=said):
            rebuilt("value", WithPlaces(codes), (WithPlaces,))
    with pytest.raises(ValueError, match="order must be up or down, not left"):
        rebuilt("value", WithPlaces((), "left"), (WithPlaces,))


def test_no_coarsening_of_another_making_sees_counts_and_none_can_be_changed_later():
    cells = np.array([0, 0, 1])
    with pytest.raises(ValueError, match="Coarsening itself"):
        Counted(ZEROS).handle.coarser(Spy("level", (2,), cells))
    genuine = Coarsening("level", (2,), cells)
    cells[:] = 0
    assert genuine.cell_of.tolist() == [0, 0, 1]
    with pytest.raises(ValueError, match="read-only"):
        genuine.cell_of[0] = 1


LAPLACE = LaplaceNoise(Fraction(1, 4))


def populated() -> tuple[list[int], SparseCounts]:
    opened: list[int] = []

    def count() -> tuple[Any, Any]:
        opened.append(1)
        return np.array([5]), np.array([1000])

    return opened, SparseCounts(("age",), 10, KEYED_HASH, "b" * 64, count)


@pytest.mark.parametrize(
    "until",
    [
        Depth(Fraction(1, 4), 60, 0, Fraction(1030), ImpossibleCells((10,))),
        Depth(Fraction(1, 4), 60, 61, Fraction(1030), ImpossibleCells((10,))),
        Depth(Fraction(1, 4), 60, 1, Fraction(-1), ImpossibleCells((10,))),
        Deep(Fraction(1, 4), 60, 1, Fraction(1030), ImpossibleCells((10,))),
        Depth(Fraction(1, 4), 60, 1, LooseFraction(1030), ImpossibleCells((10,))),
        Depth(Fraction(1, 4), 60, 1, Fraction(1030), None),
    ],
)
def test_a_depth_that_could_fail_half_way_or_brings_code_is_refused_before_a_count_is_read(
    place: Place, until: Depth
):
    _, grant = opened(place)
    counted, handle = populated()
    with pytest.raises(ValueError, match="until"):
        grant.draw(SparseMarginalQuery(handle, LAPLACE, until), key="k")
    assert counted == []


def test_a_draw_that_fails_once_the_counts_are_there_stays_paid_and_is_never_made_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    """Whether it fails may tell something of the counts: a second attempt would be a second, unpaid question. The
    failure is real: the operating system's randomness is switched off between the counting and the noise."""
    ledger, grant = opened(place)
    counted = Counted(ZEROS)

    def fails(self: SecureBytes, size: int) -> None:
        raise OSError("no randomness; secret 41")

    with monkeypatch.context() as broken:
        broken.setattr(SecureBytes, "take", fails)
        with pytest.raises(
            LedgerRefusal, match=r"(?s)failed while noise was drawn \(OSError\).*stays charged"
        ) as told:
            grant.draw(MarginalQuery(counted.handle, NOISE), key="k")
    assert "41" not in str(told.value)
    assert told.value.__cause__ is None
    assert told.value.__context__ is None
    assert [entry.kind for entry in ledger.entries_of("run-1")].count("noise_drawn") == 1
    with pytest.raises(LedgerRefusal, match="not made again"):
        open_grant(ledger, "run-1").draw(MarginalQuery(Counted(ZEROS).handle, NOISE), key="k")
    assert ledger.verify() == []


def test_times_of_a_run_are_told_to_the_hour(place: Place):
    """How long a draw, a fit or a count took may depend on the rows; all entries that everybody may read are cut.
    Sealed ones keep their seconds. So does nothing that is proven: the checkpoint is cut too."""
    ledger_with_account(place).close()
    ledger = place.open(clock=lambda: "2036-03-04T05:06:07Z")
    ledger.reserve(request("run-1"))
    open_grant(ledger, "run-1").draw(MarginalQuery(Counted(ZEROS).handle, HALF), key="k")
    ledger.allocate_version("run-1")
    record_publication(ledger, "run-1", "0" * 64)
    ledger.withdraw(request().release, 1, reason="a test")
    sealed = ledger.record_gate_failure(request("run-2"), ["rows"])
    assert len({entry.kind for entry in ledger.entries_of("run-1")}) == 5
    assert {entry.at for entry in ledger.entries_of("run-1")} == {"2036-03-04T05:00:00Z"}
    assert sealed.at == "2036-03-04T05:06:07Z"
    assert "05:06" not in json.dumps(ledger.prove("run-1", Signer(bytes(32))))


def test_the_handle_still_is_the_only_kind_of_counts():
    assert isinstance(Counted(ZEROS).handle, PrivateCounts)
