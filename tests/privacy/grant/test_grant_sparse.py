"""Sparse tables through the grant: one draw for all layers, at the dense table's cost, distributed as that is."""

import json
import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import log, sqrt
from pathlib import Path

import duckdb
import numpy as np
import pytest
from numpy.typing import NDArray

from contracts.contract.cell_codes import ImpossibleCells
from contracts.contract.odcs import load_contract
from contracts.release.tables.tables import Refine
from privacy.accounting.amounts import PICO
from privacy.accounting.events import DiscreteLaplace
from privacy.grant.grant import Grant, open_grant
from privacy.grant.queries.marginal import MarginalQuery
from privacy.grant.queries.sparse_marginal import SparseMarginalQuery, draw_listed
from privacy.grant.sampled_noise import SampledNoise
from privacy.ledger import draw_files
from privacy.ledger.entries import GrantExceeded, LedgerCorrupt, LedgerRefusal
from privacy.ledger.store.journal import Journal
from privacy.marginals.counts import SparseCounts
from privacy.marginals.sensitivity import LaplaceNoise, noise_event
from privacy.noise.random_bytes import SeededBytes
from privacy.private_table import PrivateTable
from privacy.refine import sparse_depth
from privacy.refine.negative_l2 import negative_l2
from privacy.refine.simplex import round_to_total
from privacy.refine.sparse import SparseTable
from privacy.refine.sparse_depth import Depth, depth_of
from privacy.refine.tables import refine_sparse_table, refine_table
from privacy.snapshots.snapshot import SnapshotCounts
from tests.privacy.grant.crashes import Killed, die, opened
from tests.privacy.ledger.ledgers import HALF, KEYED_HASH, Counted, Place, ledger_with_account, request

Populated = tuple[NDArray[np.int64], NDArray[np.int64]]
ADULT = Path(__file__).parents[3] / "examples" / "adult" / "adult.odcs.yaml"
CELLS = 10**9
T = Fraction(1, 2)
POPULATED = np.array([5, 70, 999_999_999]), np.array([1000, 2, 400])


class Listed:
    def __init__(self, populated: Populated = POPULATED, *, cells: int = CELLS, clique: tuple[str, ...] = ("a", "b")):
        self.opened = 0
        self._populated = populated
        self.handle = SparseCounts(clique, cells, KEYED_HASH, "b" * 64, self._count)

    def _count(self) -> Populated:
        self.opened += 1
        return self._populated


def depth(*, cells: int = CELLS, first: int | None = None, total: int | None = 1400) -> Depth:
    terms = Refine(method="none" if total is None else "simplex")
    made = depth_of(terms, cells=cells, inverse_scale=T, total=total, impossible=ImpossibleCells((cells,)))
    return made if first is None else replace(made, first=first)


def test_a_sparse_draw_is_one_event_with_the_cost_of_the_dense_table(place: Place):
    """Layers, but one draw: the journal has one entry, whose event and cost are those of the dense one beside it."""
    ledger, grant = opened(place)
    dense = grant.draw(MarginalQuery(Counted(np.zeros(4, np.int64)).handle, HALF), key="dense")
    sparse = grant.draw(SparseMarginalQuery(Listed().handle, HALF, depth(first=60)), key="sparse")
    assert sparse.table.threshold < 60
    assert (sparse.event, sparse.variance) == (dense.event, dense.variance)
    entered = [entry.body for entry in ledger.entries_of("run-1") if entry.kind == "noise_drawn"]
    assert [body["key"] for body in entered] == ["dense", "sparse"]
    assert entered[0]["costs"] == entered[1]["costs"]
    assert entered[0]["event"] == entered[1]["event"]
    assert entered[1]["sha256"] == sparse.sha256
    assert ledger.verify() == []


def test_the_file_holds_the_listed_cells_and_nothing_of_the_others(place: Place):
    """Everything in it is at or above the threshold; a populated cell of 2 leaves no mark; codes ascend."""
    _, grant = opened(place)
    table = grant.draw(SparseMarginalQuery(Listed().handle, HALF, depth()), key="a").table
    (file,) = (place.folder / "draws" / "run-1").glob("*.draw")
    header, _, rest = file.read_bytes().partition(b"\n")
    told = json.loads(header)
    assert told["listing"] == {"threshold": table.threshold, "cells": CELLS}
    assert len(rest) == 16 * table.codes.size
    numbers = np.frombuffer(rest, "<i8").reshape(2, -1)
    assert np.array_equal(numbers, [table.codes, table.values])
    assert table.values.min() >= table.threshold > 2
    assert (np.diff(table.codes) > 0).all()
    assert set(told) == {
        *("ledger", "run_key", "key", "number", "event", "clique", "security", "shape", "sha256", "about", "listing")
    }


def test_a_run_that_resumes_replays_the_list_and_never_reads_or_draws_again(place: Place):
    ledger, grant = opened(place)
    first = grant.draw(SparseMarginalQuery(Listed().handle, HALF, depth()), key="a")
    again = Listed()
    second = open_grant(ledger, "run-1").draw(SparseMarginalQuery(again.handle, HALF, depth()), key="a")
    assert again.opened == 0
    assert (second.sha256, second.table.threshold, second.table.cells) == (first.sha256, first.table.threshold, CELLS)
    assert np.array_equal(second.table.codes, first.table.codes)
    assert np.array_equal(second.table.values, first.table.values)
    assert [entry.kind for entry in ledger.entries_of("run-1")].count("noise_drawn") == 1


@pytest.mark.parametrize("other", [Listed(cells=CELLS + 1), Listed(clique=("a", "c"))])
def test_another_table_under_a_known_key_is_refused(place: Place, other: Listed):
    _, grant = opened(place)
    grant.draw(SparseMarginalQuery(Listed().handle, HALF, depth()), key="a")
    with pytest.raises(LedgerRefusal, match="as it was drawn before"):
        grant.draw(SparseMarginalQuery(other.handle, HALF, depth()), key="a")
    with pytest.raises(LedgerRefusal, match="as it was drawn before"):
        grant.draw(MarginalQuery(Counted(np.zeros(3, np.int64), ("a", "b")).handle, HALF), key="a")
    assert other.opened == 0


def test_what_was_not_planned_or_not_charged_is_refused_before_anything_is_counted(place: Place):
    _, grant = opened(place)
    quarter, listed = LaplaceNoise(Fraction(1, 4)), Listed()
    with pytest.raises(GrantExceeded, match="not planned"):
        grant.draw(
            SparseMarginalQuery(listed.handle, quarter, replace(depth(), inverse_scale=Fraction(1, 4))), key="a"
        )
    with pytest.raises(LedgerRefusal, match="another snapshot"):
        grant.draw(SparseMarginalQuery(replace(listed.handle, keyed_hash="d" * 64), HALF, depth()), key="a")
    assert listed.opened == 0


def test_the_rule_for_the_threshold_cannot_be_code_of_the_caller(place: Place):
    """A subclass would see noisy values before they are written; a depth for other noise would end elsewhere."""

    class Spy(Depth):
        def next(self, table: SparseTable) -> int:
            raise AssertionError("it was shown what is not written down yet")

    _, grant = opened(place)
    listed, honest = Listed(), depth()
    spy = Spy(honest.inverse_scale, honest.first, honest.least, honest.target, honest.impossible)
    for until in (spy, replace(honest, inverse_scale=Fraction(1, 3))):
        with pytest.raises(ValueError, match="until must be"):
            grant.draw(SparseMarginalQuery(listed.handle, HALF, until), key="a")
    assert listed.opened == 0


CRASHES: dict[str, tuple[object, str]] = {
    "before a layer is drawn": (Depth, "next"),
    "before the file is written": (draw_files.DrawFiles, "write"),
    "before the file gets its name": (os, "link"),
    "before the file's name is durable": (draw_files, "sync_folder"),
    "before the event is entered": (Journal, "append"),
}


@pytest.mark.parametrize("instant", CRASHES)
def test_a_crash_at_any_instant_neither_loses_nor_repeats_the_draw(
    place: Place, monkeypatch: pytest.MonkeyPatch, instant: str
):
    ledger, grant = opened(place)
    with monkeypatch.context() as patch:
        patch.setattr(*CRASHES[instant], die)
        with pytest.raises(Killed):
            grant.draw(SparseMarginalQuery(Listed().handle, HALF, depth(first=60)), key="a")
    folder = place.folder / "draws" / "run-1"
    written = list(folder.glob("*.draw")) if folder.exists() else []
    listed = Listed()
    measured = open_grant(ledger, "run-1").draw(SparseMarginalQuery(listed.handle, HALF, depth(first=60)), key="a")
    assert listed.opened == (0 if written else 1)
    drawn = [entry.body["sha256"] for entry in ledger.entries_of("run-1") if entry.kind == "noise_drawn"]
    assert drawn == [measured.sha256]
    assert ledger.verify() == []


def test_two_holders_of_one_grant_get_one_draw(place: Place):
    ledger, grant = opened(place)
    first: list[str] = []

    class Slow(Listed):
        def _count(self) -> Populated:
            first.append(grant.draw(SparseMarginalQuery(Listed().handle, HALF, depth()), key="a").sha256)
            return super()._count()

    second = open_grant(ledger, "run-1").draw(SparseMarginalQuery(Slow().handle, HALF, depth()), key="a")
    assert second.sha256 == first[0]
    assert [entry.kind for entry in ledger.entries_of("run-1")].count("noise_drawn") == 1


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "a code": lambda content: content.replace(
        (999_999_999).to_bytes(8, "little"), (999_999_998).to_bytes(8, "little")
    ),
    "a value": lambda content: content[:-1] + bytes([content[-1] ^ 1]),
    "the threshold": lambda content: content.replace(b'"threshold":', b'"threshold":1'),
    "the size of the domain": lambda content: content.replace(b'"listing":{"cells":1', b'"listing":{"cells":2'),
    "a cell less": lambda content: content[:-8],
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_the_digest_covers_codes_values_threshold_and_cells(place: Place, damage: str):
    ledger, grant = opened(place)
    grant.draw(SparseMarginalQuery(Listed().handle, HALF, depth()), key="a")
    (file,) = (place.folder / "draws").rglob("*.draw")
    content = file.read_bytes()
    spoilt = DAMAGE[damage](content)
    assert spoilt != content
    file.write_bytes(spoilt)
    with pytest.raises(LedgerCorrupt):
        open_grant(ledger, "run-1").draw(SparseMarginalQuery(Listed().handle, HALF, depth()), key="a")


def test_handles_show_nothing_and_refuse_pickling():
    handle = Listed().handle
    assert repr(handle) == "SparseCounts(a×b)"
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(handle)


def test_the_populated_cells_of_a_snapshot_are_those_of_the_dense_marginal(tmp_path: Path):
    """Three columns of Adult; ascending codes with the counts that stand there; structural zeros change nothing."""
    contract = load_contract(ADULT)
    clique = ("marital-status", "sex", "income")
    random = np.random.default_rng(3)
    rows = np.stack([random.integers(0, contract.column(name).size, 60) for name in clique], axis=1)
    path = tmp_path / "snapshot.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute('CREATE TABLE codes ("marital-status" USMALLINT, sex USMALLINT, income USMALLINT)')
        connection.executemany("INSERT INTO codes VALUES (?, ?, ?)", rows.tolist())
    counts = SnapshotCounts(PrivateTable(path, "f" * 64, contract.digest, "people.csv"), contract)
    dense = counts.marginal(clique)._count().reshape(-1)
    handle = counts.sparse(clique)
    codes, values = handle._count()
    assert handle.cells == dense.size
    assert np.array_equal(codes, np.flatnonzero(dense))
    assert np.array_equal(values, dense[codes])
    with pytest.raises(ValueError, match="at least one column"):
        counts.sparse(())


RUNS, BATCH = 400, 50
SMALL = np.zeros(60, np.int64)
SMALL[::6] = (0, 3, 8, 30, 1, 2, 60, 5, 12, 20)
SPARSE = np.flatnonzero(SMALL), SMALL[SMALL > 0]
TERMS = Refine.model_validate({"method": "negative_l2", "lambda": "0.1"})
NO_ZEROS = ImpossibleCells((SMALL.size,))
Found = tuple[int, int, int, int]


def statistics_of(values: NDArray[np.int64]) -> Found:
    """How many cells stay; the largest one; a populated cell; all that empty cells got."""
    return int(np.count_nonzero(values)), int(values.max()), int(values[18]), int(values[SMALL == 0].sum())


def dense_refined(grant: Grant, key: str) -> Found:
    measured = grant.draw(MarginalQuery(Counted(SMALL).handle, HALF), key=key)
    none = np.zeros(SMALL.size, np.bool_)
    total = int(SMALL.sum())
    made = refine_table(measured.values, TERMS, impossible=none, total=total, event=measured.event, ordered=())
    return statistics_of(made.values)  # type: ignore[arg-type]


def sparse_refined(grant: Grant, key: str, until: Depth) -> Found:
    measured = grant.draw(SparseMarginalQuery(Listed(SPARSE, cells=60).handle, HALF, until), key=key)
    assert measured.table.threshold <= until.first
    total, event = int(SMALL.sum()), measured.event
    made = refine_sparse_table(measured.table, TERMS, impossible=NO_ZEROS, total=total, event=event)
    spread = np.zeros(SMALL.size, np.int64)
    spread[made.codes] = made.values
    return statistics_of(spread)


def shallow_refined(seed: int, until: Depth) -> Found:
    """The wrong way: nothing is drawn below the first threshold, and the cells there are projected."""
    event = noise_event(HALF, adjacency="add_remove", rows_per_unit=1)
    assert isinstance(event, DiscreteLaplace)
    shallow = replace(until, least=until.first)
    table = draw_listed(SPARSE, cells=60, event=event, until=shallow, noise=SampledNoise(SeededBytes(seed)))
    spread = np.zeros(SMALL.size, np.int64)
    values = negative_l2(table.values, int(SMALL.sum()), lambda_=0.1)
    spread[table.codes] = round_to_total(values, int(SMALL.sum()))
    return statistics_of(spread)


def apart(one: list[Found], other: list[Found]) -> float:
    def distance(a: NDArray[np.int64], b: NDArray[np.int64]) -> float:
        values = np.union1d(a, b)
        both = [np.searchsorted(np.sort(part), values, side="right") / part.size for part in (a, b)]
        return float(np.abs(both[0] - both[1]).max())

    return max(distance(a, b) for a, b in zip(np.array(one).T, np.array(other).T, strict=True))


@pytest.mark.long
@pytest.mark.stat
def test_measured_and_refined_sparsely_a_table_has_the_distribution_of_the_dense_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """n = 400 tables each way, through grants, refined and rounded: four statistics of 60 cells agree. Each of the
    two empirical distributions lies within sqrt(log(4 / 1e-9) / 2n) of the true one but for 1e-9 (DKW): they lie
    within twice that, 0.332, of each other; false alarms below 4e-9. The wrong case must lie further."""
    monkeypatch.setattr(sparse_depth, "FALSE_HITS", 2)
    ledger = ledger_with_account(Place(f"sqlite:///{tmp_path / 'ledger.sqlite'}", tmp_path), epsilon=2 * RUNS)
    given = {"cells": 60, "total": int(SMALL.sum()), "impossible": NO_ZEROS}
    until = depth_of(TERMS, inverse_scale=T, **given)  # type: ignore[arg-type]
    assert until.first > until.least
    dense, sparse = [], []
    for batch in range(2 * RUNS // BATCH):
        ledger.reserve(request(f"run-{batch}", noise=(HALF,) * BATCH, epsilon=BATCH * PICO))
        grant = open_grant(ledger, f"run-{batch}", seeded=SeededBytes(batch))
        for run in range(BATCH // 2):
            dense.append(dense_refined(grant, f"dense-{run}"))
            sparse.append(sparse_refined(grant, f"sparse-{run}", until))
    bound = 2 * sqrt(log(4 / 1e-9) / (2 * RUNS))
    assert apart(dense, sparse) < bound
    assert apart(dense, [shallow_refined(run, until) for run in range(RUNS)]) > bound
    ledger.close()
