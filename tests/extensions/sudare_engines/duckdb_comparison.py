"""A table that an engine counts, held against a snapshot of it in DuckDB: the same counts, checks and sums."""

from itertools import combinations
from pathlib import Path

import numpy as np

from contracts.contract.contract import Contract
from privacy.private_table import PrivateTable
from privacy.snapshots.snapshot import SnapshotCounts
from tasks.validate import validate
from tests.extensions.sudare_engines.statistics_rows import exact


def compare_counts(here: PrivateTable, there: PrivateTable, contract: Contract, folder: Path) -> None:
    """Compare total, columns, pairs and all columns in one scan, which rows of each unit are kept, and broken checks.

    Args:
        here: the snapshot in DuckDB.
        there: the table in the engine.
        contract: of both; some of its checks hold and some do not.
        folder: for what is written meanwhile.
    """
    names = [column.name for column in contract.columns]
    cliques = [(), *((name,) for name in names), *combinations(names, 2), tuple(names)]
    ours, theirs = SnapshotCounts(here, contract), SnapshotCounts(there, contract)
    for one, other in zip(ours.marginals(cliques), theirs.marginals(cliques), strict=True):
        np.testing.assert_array_equal(one._count(), other._count())
    for one, other in zip(ours.sparse(tuple(names))._count(), theirs.sparse(tuple(names))._count(), strict=True):
        np.testing.assert_array_equal(one, other)
    outcomes = validate(here, contract, folder=folder / "here")
    assert validate(there, contract, folder=folder / "there") == outcomes
    assert {outcome.passed for outcome in outcomes} == {True, False}


def compare_sums(here: PrivateTable, there: PrivateTable, contract: Contract) -> None:
    """Every form of adding up, by some cells; arguments as of `compare_counts`."""
    for (name, one), (_, other) in zip(exact(here, contract), exact(there, contract), strict=True):
        np.testing.assert_array_equal(one, other, err_msg=name)
