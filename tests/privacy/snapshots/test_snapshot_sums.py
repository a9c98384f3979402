"""Exact sums by cell: what one scan adds up, how far a row moves them, and only behind a handle."""

import pickle
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.domains.addends import LoneSum, ValueMoments, moments_of
from contracts.domains.lattice import ValueLattice
from privacy.private_table import PrivateTable
from privacy.snapshots import snapshot as sums_module
from privacy.snapshots.scans import sum_offsets
from privacy.snapshots.snapshot import SnapshotSums

CLIQUES = [(), ("sex",), ("education", "income"), ("income", "education"), ("marital-status", "sex", "income")]
ADDENDS = (
    ValueLattice("age", Decimal(17), Decimal(90), Decimal(1), counts_missing=True),
    ValueLattice("capital-gain", Decimal(0), Decimal(99999), Decimal(1), counts_missing=False),
    ValueLattice('of "quotes"', Decimal(0), Decimal(10**9), Decimal(1), counts_missing=True),
)
ROWS = 700


@pytest.fixture(scope="module")
def rows(contract: Contract) -> dict[str, NDArray[np.int64]]:
    """Random codes, and random offsets with the ends among them; 0 is a missing value."""
    random = np.random.default_rng(3)
    codes = {column.name: random.integers(0, column.size, ROWS) for column in contract.columns}
    for each in ADDENDS:
        values = random.integers(1, each.width + 2, ROWS)
        values[:40:2], values[1:40:2] = 1, each.width + 1
        codes[each.name] = np.where(random.random(ROWS) < 0.2, 0, values) if each.counts_missing else values
    return codes


@pytest.fixture(scope="module")
def table(
    tmp_path_factory: pytest.TempPathFactory, contract: Contract, rows: dict[str, NDArray[np.int64]]
) -> PrivateTable:
    return stored(tmp_path_factory.mktemp("sums") / "snapshot.duckdb", contract, rows)


def stored(path: Path, contract: Contract, rows: dict[str, NDArray[np.int64]]) -> PrivateTable:
    with duckdb.connect(str(path)) as connection:
        connection.register("rows", pl.DataFrame(rows).cast(pl.UInt32).to_arrow())
        connection.execute("CREATE TABLE codes AS SELECT * FROM rows")
    return PrivateTable(path, "f" * 64, contract.digest, "people.csv")


def brute_force(
    contract: Contract, rows: dict[str, NDArray[np.int64]], clique: tuple[str, ...], addends: ValueLattice
) -> NDArray[np.int64]:
    exact = np.zeros((*contract.shape(clique), addends.parts), dtype=np.int64)
    for place in range(len(next(iter(rows.values())))):
        cell, offset = tuple(int(rows[name][place]) for name in clique), int(rows[addends.name][place])
        if offset == 0:
            exact[(*cell, 2)] += addends.width
        else:
            exact[(*cell, 0)] += offset - 1
            exact[(*cell, 1)] += addends.width - (offset - 1)
    return exact


def opened(handle: Any) -> NDArray[np.int64]:
    found: NDArray[np.int64] = handle._read()
    return found


@pytest.mark.parametrize("clique", CLIQUES, ids="×".join)
def test_sums_are_those_of_the_rows_over_the_full_domain(
    table: PrivateTable, contract: Contract, rows: dict[str, NDArray[np.int64]], clique: tuple[str, ...]
):
    """int64 above, below and missing; each row hands out `width` steps, so that they add up to rows times width."""
    for handle in SnapshotSums(table, contract).sums(clique, ADDENDS):
        exact = opened(handle)
        assert exact.dtype == np.int64
        assert (handle.clique, handle.shape) == (clique, contract.shape(clique))
        assert (handle.keyed_hash, handle.contract_digest) == (table.keyed_hash, contract.digest)
        np.testing.assert_array_equal(exact, brute_force(contract, rows, clique, handle.addends))
        assert exact.sum() == ROWS * handle.addends.width
        assert exact.shape == (*contract.shape(clique), handle.addends.parts)


def test_nobody_is_a_table_of_zeros(tmp_path: Path, contract: Contract, rows: dict[str, NDArray[np.int64]]):
    path = stored(tmp_path / "one.duckdb", contract, {name: codes[:1] for name, codes in rows.items()}).path
    with duckdb.connect(str(path)) as connection:
        connection.execute("DELETE FROM codes")
    empty = PrivateTable(path, "f" * 64, contract.digest, "people.csv")
    for clique in ((), ("sex",)):
        for handle in SnapshotSums(empty, contract).sums(clique, ADDENDS):
            assert not opened(handle).any()


def test_sums_of_some_columns_are_added_up_in_one_scan_when_the_first_is_opened(
    table: PrivateTable, contract: Contract, monkeypatch: pytest.MonkeyPatch
):
    """Nothing is read before; what a grant was given cannot be written to."""
    scans: list[tuple[str, ...]] = []

    def watched(read: PrivateTable, clique: tuple[str, ...], *rest: Any, **terms: Any) -> Any:
        scans.append(clique)
        return sum_offsets(read, clique, *rest, **terms)

    monkeypatch.setattr(sums_module, "sum_offsets", watched)
    handles = SnapshotSums(table, contract).sums(("sex",), ADDENDS)
    assert scans == []
    exact = [opened(handle) for handle in (*handles, *handles)]
    assert scans == [("sex",)]
    assert not any(each.flags.writeable for each in exact)
    np.testing.assert_array_equal(exact[0], exact[3])


def test_the_largest_sums_fit_64_bits(tmp_path: Path, contract: Contract):
    """A billion steps a row, and a unit's share of them, as often as the docstring of the lattice says."""
    wide = ADDENDS[2]
    codes = {column.name: np.zeros(3, dtype=np.int64) for column in contract.columns}
    table = stored(tmp_path / "w.duckdb", contract, {**codes, wide.name: np.array([wide.width + 1] * 3)})
    (handle,) = SnapshotSums(table, contract).sums((), [wide])
    assert opened(handle).tolist() == [3 * 10**9, 0, 0]
    assert 9 * 10**9 * (wide.width + 1) < 2**63


def test_only_the_snapshot_of_the_contract_is_added_up(table: PrivateTable, contract: Contract):
    with pytest.raises(ValueError, match="another contract"):
        SnapshotSums(PrivateTable(table.path, table.keyed_hash, "0" * 64, table.source), contract)
    assert repr(SnapshotSums(table, contract)) == f"SnapshotSums({table!r})"
    with pytest.raises(TypeError, match="exact sums stay"):
        pickle.dumps(SnapshotSums(table, contract))


def test_a_lattice_that_the_snapshot_lacks_is_no_other_lattice(table: PrivateTable, contract: Contract):
    """Offsets stand under the name of their lattice: another one is not there, and never taken for it."""
    (handle,) = SnapshotSums(table, contract).sums((), [replace(ADDENDS[0], high=Decimal(80))])
    with pytest.raises(duckdb.Error, match="not found"):
        opened(handle)


def test_a_handle_reads_the_lattice_that_its_price_is_derived_of(
    table: PrivateTable, contract: Contract, rows: dict[str, NDArray[np.int64]]
):
    """Whoever puts another lattice into a handle gets the sums of that one, and pays for it."""
    narrow, wide = ADDENDS[0], ADDENDS[1]
    (made,) = SnapshotSums(table, contract).sums(("sex",), [narrow])
    assert (replace(made, addends=wide)._read() == brute_force(contract, rows, ("sex",), wide)).all()
    assert (made._read() == brute_force(contract, rows, ("sex",), narrow)).all()


WIDE = ADDENDS[2]
FORMS: tuple[LoneSum | ValueMoments, ...] = (
    LoneSum(ADDENDS[0]),
    LoneSum(replace(ADDENDS[1], low=Decimal(-9), high=Decimal(99990))),
    moments_of(ADDENDS[0], 1),
    moments_of(ADDENDS[1], 3),
    moments_of(WIDE, 1),
)


def one_by_one(
    contract: Contract, rows: dict[str, NDArray[np.int64]], clique: tuple[str, ...], form: LoneSum | ValueMoments
) -> NDArray[np.int64]:
    exact = np.zeros((*contract.shape(clique), form.parts), dtype=np.int64)
    width = form.lattice.width
    for place in range(len(next(iter(rows.values())))):
        cell, stored = tuple(int(rows[name][place]) for name in clique), int(rows[form.lattice.name][place])
        if isinstance(form, LoneSum):
            exact[(*cell, 0)] += form.low_steps + stored - 1 if stored else 0
        elif stored == 0:
            exact[(*cell, 3)] += form.whole
        else:
            low, high = ((away * away * form.whole) // width**2 for away in (width - stored + 1, stored - 1))
            exact[(*cell, slice(0, 3))] += [low, form.whole - low - high, high]
    return exact


@pytest.mark.parametrize("clique", CLIQUES[:3], ids="×".join)
def test_moments_and_sums_alone_are_those_of_the_rows(
    tmp_path: Path, contract: Contract, rows: dict[str, NDArray[np.int64]], clique: tuple[str, ...]
):
    """Squares of a billion steps among them; sums alone are added up in the scan of the other sums."""
    coded = {**rows, FORMS[1].lattice.name: rows[ADDENDS[1].name]}
    table = stored(tmp_path / "forms.duckdb", contract, coded)
    handles = SnapshotSums(table, contract).sums(clique, [*FORMS, ADDENDS[0]])
    for handle, form in zip(handles, FORMS, strict=False):
        exact = opened(handle)
        assert exact.dtype == np.int64
        np.testing.assert_array_equal(exact, one_by_one(contract, coded, clique, form))
        if isinstance(form, ValueMoments):
            assert exact.sum() == ROWS * form.whole
    np.testing.assert_array_equal(opened(handles[-1]), brute_force(contract, rows, clique, ADDENDS[0]))


def test_a_handle_reads_the_form_that_its_price_is_derived_of(
    table: PrivateTable, contract: Contract, rows: dict[str, NDArray[np.int64]]
):
    """Moments in more steps are read in more steps, and paid for."""
    (made,) = SnapshotSums(table, contract).sums(("sex",), [FORMS[2]])
    finer = ValueMoments(FORMS[2].lattice, 10 * 73**2)
    assert (replace(made, addends=finer)._read() == one_by_one(contract, rows, ("sex",), finer)).all()
    alone = LoneSum(ADDENDS[0])
    assert (replace(made, addends=alone)._read() == one_by_one(contract, rows, ("sex",), alone)).all()
