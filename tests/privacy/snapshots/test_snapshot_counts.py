"""Exact marginals: counted over the full declared domain, and only behind a handle."""

import pickle
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from contracts.contract.contract import Contract
from privacy.marginals.counts import PrivateCounts
from privacy.private_table import PrivateTable
from privacy.snapshots import shared_scan
from privacy.snapshots import snapshot as counts_module
from privacy.snapshots.snapshot import SnapshotCounts
from tests.source_folders import FOLDERS, ROOT

CLIQUES = [(), ("sex",), ("education", "income"), ("income", "education"), ("marital-status", "sex", "income")]


@pytest.fixture(scope="module")
def codes(contract: Contract) -> dict[str, np.ndarray]:
    random = np.random.default_rng(3)
    return {column.name: random.integers(0, column.size, 500) for column in contract.columns}


@pytest.fixture
def table(tmp_path: Path, contract: Contract, codes: dict[str, np.ndarray]) -> PrivateTable:
    path = tmp_path / "snapshot.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("delivered", pa.table({name: each.astype(np.uint16) for name, each in codes.items()}))
        connection.execute("CREATE TABLE codes AS FROM delivered")
    return PrivateTable(path, "f" * 64, contract.digest, "people.csv")


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[tuple[str, ...]]]]:
    made: list[list[tuple[str, ...]]] = []
    real = shared_scan.count_marginals

    def watched(path: Path, shapes: dict[tuple[str, ...], tuple[int, ...]], **terms: Any):  # type: ignore[no-untyped-def]
        made.append(list(shapes))
        return real(path, shapes, **terms)

    monkeypatch.setattr(counts_module, "count_marginals", watched)
    return made


def brute_force(contract: Contract, codes: dict[str, np.ndarray], clique: tuple[str, ...]) -> np.ndarray:
    expected = np.zeros(contract.shape(clique), dtype=np.int64)
    np.add.at(expected, tuple(codes[name] for name in clique), 1)
    return expected if clique else np.array(500)


def opened(handle: PrivateCounts) -> np.ndarray:
    return handle._count()


@pytest.mark.parametrize("clique", CLIQUES, ids="×".join)
@pytest.mark.parametrize("batch_rows", [64, 1 << 18], ids=["some grouped, many batches", "one batch"])
def test_a_marginal_is_counted_over_the_full_domain_in_row_major_order(
    table: PrivateTable,
    contract: Contract,
    codes: dict[str, np.ndarray],
    clique: tuple[str, ...],
    batch_rows: int,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(shared_scan, "BATCH_ROWS", batch_rows)
    counted = opened(SnapshotCounts(table, contract).marginal(clique))
    np.testing.assert_array_equal(counted, brute_force(contract, codes, clique))
    assert (counted.shape, counted.dtype) == (contract.shape(clique), np.int64)


def test_all_pairs_of_a_round_are_counted_in_one_scan_when_the_first_is_opened(
    table: PrivateTable, contract: Contract, codes: dict[str, np.ndarray], scans: list[list[tuple[str, ...]]]
):
    """Nothing is read when handles are made; one scan answers all 121 of them, also when they are asked for again."""
    asked = [(), *((name,) for name in codes), *combinations(codes, 2)]
    counts = SnapshotCounts(table, contract)
    handles = counts.marginals(asked)
    assert scans == []
    assert [handle.clique for handle in handles] == asked
    for handle in (*handles[::-1], *counts.marginals(asked)):
        np.testing.assert_array_equal(opened(handle), brute_force(contract, codes, handle.clique))
    assert [len(scan) for scan in scans] == [121]


def test_counts_beyond_the_memory_for_them_are_counted_again(
    table: PrivateTable, contract: Contract, codes: dict[str, np.ndarray], scans: list[list[tuple[str, ...]]]
):
    """With room for 100 cells, what is kept never exceeds it, but for one marginal that is larger by itself."""
    counts = SnapshotCounts(table, contract, remembered_bytes=800)
    asked = [("sex",), ("income",), ("education", "income"), ("education", "occupation"), ("race",), ("age",)]
    for handle in counts.marginals(asked) * 2:
        np.testing.assert_array_equal(opened(handle), brute_force(contract, codes, handle.clique))
        cells = [kept.size for kept in counts._known.values()]
        assert sum(cells) <= 100 or len(cells) == 1
    sizes = [sum(contract.cells(clique) for clique in scan) for scan in scans]
    assert all(size <= 100 or len(scan) == 1 for size, scan in zip(sizes, scans, strict=True))
    assert scans[0] == [("sex",), ("income",), ("education", "income")]


def test_a_file_that_is_gone_is_missed_only_when_a_handle_is_opened(table: PrivateTable, contract: Contract):
    """Making handles does not even look at the file."""
    handles = SnapshotCounts(table, contract).marginals([("sex",), ("race",)])
    table.path.unlink()
    with pytest.raises(duckdb.Error):
        opened(handles[1])


def test_nobody_can_change_what_is_remembered(table: PrivateTable, contract: Contract):
    counted = opened(SnapshotCounts(table, contract).marginal(("sex",)))
    with pytest.raises(ValueError, match="read-only"):
        counted[0] = 7


def test_an_empty_table_counts_zeros(tmp_path: Path, contract: Contract):
    path = tmp_path / "empty.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE codes (sex USMALLINT)")
    counts = SnapshotCounts(PrivateTable(path, "f" * 64, contract.digest, "people.csv"), contract)
    assert not counts.marginal(("sex",))._count().any()
    assert counts.marginal(())._count() == 0


def test_a_snapshot_of_another_contract_is_refused(table: PrivateTable, contract: Contract):
    with pytest.raises(ValueError, match="another contract"):
        SnapshotCounts(PrivateTable(table.path, table.keyed_hash, "0" * 64, table.source), contract)


def test_private_references_show_nothing_and_refuse_pickling(table: PrivateTable, contract: Contract):
    counts = SnapshotCounts(table, contract)
    handle = counts.marginal(("sex",))
    opened(handle)
    for reference in (handle, table, counts):
        assert "500" not in repr(reference)
        assert str(table.path) not in repr(reference)
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(reference)


@pytest.mark.parametrize(
    ("call", "allowed"),
    [
        ("._count()", ["privacy/grant/grant.py"]),
        ("._counted", ["privacy/snapshots/snapshot.py"]),
        ("count_marginals(", ["privacy/snapshots/shared_scan.py", "privacy/snapshots/snapshot.py"]),
        ("count_populated(", ["privacy/snapshots/shared_scan.py", "privacy/snapshots/snapshot.py"]),
        ("sum_offsets(", ["privacy/snapshots/scans.py", "privacy/snapshots/snapshot.py"]),
        ("count_leaves(", ["privacy/snapshots/scans.py", "privacy/snapshots/snapshot.py"]),
        ("sum_moments(", ["privacy/snapshots/scans.py", "privacy/snapshots/snapshot.py"]),
        ("count_magnitudes(", ["privacy/snapshots/scans.py", "privacy/snapshots/snapshot.py"]),
        (" count_distinct(", ["privacy/snapshots/scans.py", "privacy/snapshots/snapshot.py"]),
        ("count_offsets(", ["privacy/snapshots/scans.py", "privacy/snapshots/snapshot.py"]),
        (".counted_cells(", ["privacy/snapshots/snapshot.py"]),
        ("cells_of(", ["extensions/sudare_engines/staged_table.py", "extensions/sudare_engines/staging.py"]),
    ],
)
def test_only_the_grant_opens_handles(call: str, allowed: list[str]):
    """No module but the grant reads what is behind a handle, and none counts beside the handles (law 1)."""
    users = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py") if call in path.read_text()]
    assert sorted(path.relative_to(ROOT).as_posix() for path in users) == [
        path for path in allowed if path.startswith(FOLDERS)
    ]
