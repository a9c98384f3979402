"""Exact marginals: counted over the full declared domain, and only behind a handle."""

from __future__ import annotations

import pickle
from pathlib import Path

import duckdb
import numpy as np
import pytest

from contracts.contract import Contract
from contracts.odcs import load_contract
from privacy.marginals.counts import SnapshotCounts
from privacy.private_table import PrivateTable

ADULT = Path(__file__).parents[2] / "examples" / "adult" / "adult.odcs.yaml"
CLIQUES = [(), ("sex",), ("education", "income"), ("income", "education"), ("marital-status", "sex", "income")]


@pytest.fixture(scope="module")
def contract() -> Contract:
    return load_contract(ADULT)


@pytest.fixture
def codes(contract: Contract) -> dict[str, np.ndarray]:
    """Random codes for all columns, 500 rows."""
    random = np.random.default_rng(3)
    return {column.name: random.integers(0, column.size, 500) for column in contract.columns}


@pytest.fixture
def table(tmp_path: Path, contract: Contract, codes: dict[str, np.ndarray]) -> PrivateTable:
    path = tmp_path / "snapshot.duckdb"
    with duckdb.connect(str(path)) as connection:
        columns = ", ".join(f'"{name}" USMALLINT' for name in codes)
        connection.execute(f"CREATE TABLE codes ({columns})")
        rows = np.stack(list(codes.values()), axis=1).tolist()
        connection.executemany(f"INSERT INTO codes VALUES ({', '.join('?' * len(codes))})", rows)
    return PrivateTable(path, "f" * 64, contract.digest, "people.csv")


@pytest.mark.parametrize("clique", CLIQUES, ids="×".join)
def test_a_marginal_is_counted_over_the_full_domain_in_row_major_order(
    table: PrivateTable, contract: Contract, codes: dict[str, np.ndarray], clique: tuple[str, ...]
) -> None:
    expected = np.zeros(contract.shape(clique), dtype=np.int64)
    np.add.at(expected, tuple(codes[name] for name in clique), 1)
    if not clique:
        expected[...] = 500
    counted = SnapshotCounts(table, contract).marginal(clique)._count()
    np.testing.assert_array_equal(counted, expected)
    assert counted.shape == contract.shape(clique)


def test_an_empty_table_counts_zeros(tmp_path: Path, contract: Contract) -> None:
    path = tmp_path / "empty.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE codes (sex USMALLINT)")
    counts = SnapshotCounts(PrivateTable(path, "f" * 64, contract.digest, "people.csv"), contract)
    assert not counts.marginal(("sex",))._count().any()
    assert counts.marginal(())._count() == 0


def test_a_snapshot_of_another_contract_is_refused(table: PrivateTable, contract: Contract) -> None:
    with pytest.raises(ValueError, match="another contract"):
        SnapshotCounts(PrivateTable(table.path, table.keyed_hash, "0" * 64, table.source), contract)


def test_private_references_show_nothing_and_refuse_pickling(table: PrivateTable, contract: Contract) -> None:
    handle = SnapshotCounts(table, contract).marginal(("sex",))
    assert "500" not in repr(handle)
    assert str(table.path) not in repr(table)
    for reference in (handle, table):
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(reference)


def test_only_the_grant_opens_handles() -> None:
    """No module but the grant reads what is behind a handle (law 1)."""
    root = Path(__file__).parents[2]
    packages = ("console", "flows", "tasks", "privacy", "contracts")
    users = [
        path for package in packages for path in (root / package).rglob("*.py") if "._count()" in path.read_text()
    ]
    assert [path.relative_to(root).as_posix() for path in users] == ["privacy/ledger/grant.py"]
