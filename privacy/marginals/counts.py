"""Exact counts as opaque handles: anybody may ask for one, only a grant can open it.

The handle knows which marginal it is of (so that a grant can derive the sensitivity) and how to count it; it shows
no value, refuses pickling, and has no public way to the numbers. A marginal over a domain that memory does not hold
is counted as the list of its populated cells.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from contracts.cell_codes import MOST_CODES
from contracts.contract import Contract
from privacy.private_table import PrivateTable

Clique = tuple[str, ...]


@dataclass(frozen=True, repr=False, eq=False)
class PrivateCounts:
    """The exact marginal of a clique, not yet counted and not to be seen.

    Args:
        clique: the columns; the empty clique is the total.
        shape: cells along each column.
        keyed_hash: private hash of the snapshot that is counted.
        contract_digest: digest of the contract that encoded it.
    """

    clique: Clique
    shape: tuple[int, ...]
    keyed_hash: str
    contract_digest: str
    _count: Callable[[], NDArray[np.int64]]

    def __repr__(self) -> str:
        """Show the clique only."""
        return f"PrivateCounts({'×'.join(self.clique) or 'total'})"

    def __reduce__(self) -> NoReturn:
        """Refuse pickling: exact counts stay in this process."""
        raise TypeError("PrivateCounts cannot be pickled: exact counts stay in this process")


@dataclass(frozen=True, repr=False, eq=False)
class SparseCounts:
    """The populated cells of a clique's marginal and their exact counts, not yet counted and not to be seen.

    Args:
        clique: the columns, at least one.
        cells: cells of the declared domain, at most 2^63 - 1.
        keyed_hash: private hash of the snapshot that is counted.
        contract_digest: digest of the contract that encoded it.
    """

    clique: Clique
    cells: int
    keyed_hash: str
    contract_digest: str
    _count: Callable[[], tuple[NDArray[np.int64], NDArray[np.int64]]]

    def __repr__(self) -> str:
        """Show the clique only."""
        return f"SparseCounts({'×'.join(self.clique)})"

    def __reduce__(self) -> NoReturn:
        """Refuse pickling: exact counts stay in this process."""
        raise TypeError("SparseCounts cannot be pickled: exact counts stay in this process")


class SnapshotCounts:
    """Counts marginals of an encoded snapshot in DuckDB, over the full declared domain.

    Args:
        table: the snapshot.
        contract: the contract that encoded it.
        threads: threads that DuckDB may use.
    Raises:
        ValueError: the snapshot was encoded by another contract.
    """

    def __init__(self, table: PrivateTable, contract: Contract, *, threads: int = 2) -> None:
        if table.contract_digest != contract.digest:
            raise ValueError("the snapshot was encoded by another contract")
        self._table = table
        self._contract = contract
        self._threads = threads

    def marginal(self, clique: Clique) -> PrivateCounts:
        """Return the handle on the marginal of `clique`, shape as the contract's columns [cells].

        Privacy: nothing is read yet; the handle opens only inside a grant.
        """
        shape = self._contract.shape(clique)
        table, threads = self._table, self._threads
        return PrivateCounts(
            clique,
            shape,
            table.keyed_hash,
            table.contract_digest,
            lambda: _count(table.path, clique, shape, threads),
        )

    def sparse(self, clique: Clique) -> SparseCounts:
        """Return the handle on the populated cells of the marginal of `clique`, by their row-major numbers.

        Raises:
            ValueError: the domain has no column, or more than 2^63 - 1 cells.
        Privacy: nothing is read yet; the handle opens only inside a grant.
        """
        shape = self._contract.shape(clique)
        if not clique or prod(shape) > MOST_CODES:
            raise ValueError(f"clique must have at least one column and at most {MOST_CODES} cells")
        table, threads = self._table, self._threads
        return SparseCounts(
            clique,
            prod(shape),
            table.keyed_hash,
            table.contract_digest,
            lambda: _count_populated(table.path, clique, shape, threads),
        )


def _count(path: Path, clique: Clique, shape: tuple[int, ...], threads: int) -> NDArray[np.int64]:
    """Count one marginal over all declared cells."""
    codes, rows = _count_populated(path, clique, shape, threads)
    counts = np.zeros(prod(shape), dtype=np.int64)
    counts[codes] = rows
    return counts.reshape(shape)


def _count_populated(
    path: Path, clique: Clique, shape: tuple[int, ...], threads: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count the populated cells of one marginal by a GROUP BY over the mixed-radix cell number; ascending codes."""
    import duckdb  # here, so that looking at a budget does not load it

    with duckdb.connect(str(path), read_only=True, config={"threads": threads}) as connection:
        found = connection.execute(
            f"SELECT {_cell_number(clique, shape)} AS cell, count(*)::BIGINT AS rows FROM codes GROUP BY cell"
        ).fetchnumpy()
    codes, rows = (np.asarray(found[name], dtype=np.int64) for name in ("cell", "rows"))
    order = np.argsort(codes)
    return codes[order], rows[order]


def _cell_number(clique: Clique, shape: tuple[int, ...]) -> str:
    """Return SQL for the row-major number of a row's cell; 0 for the empty clique."""
    terms = []
    stride = prod(shape)
    for name, size in zip(clique, shape, strict=True):
        stride //= size
        quoted = '"' + name.replace('"', '""') + '"'
        terms.append(f"{quoted}::BIGINT * {stride}")
    return " + ".join(terms) if terms else "0::BIGINT"
