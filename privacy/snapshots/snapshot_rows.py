"""Rows of a snapshot: handles on them, read when a grant opens one; kept with the object that reads them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from contracts.contract.contract import Contract
from privacy.arrays import Unsigned
from privacy.learning.layout import RowLayout, row_layout
from privacy.learning.rows import PrivateRows
from privacy.private_table import PrivateTable
from privacy.snapshots.snapshot_reader import SnapshotReader

BATCH_ROWS: Final = 1 << 16
"""Rows fetched at a time."""


class SnapshotRows(SnapshotReader):
    """Reads rows of an encoded snapshot.

    Args:
        table: the snapshot.
        contract: the contract that encoded it.
        threads: threads that DuckDB may use.
    Raises:
        ValueError: the snapshot was encoded by another contract; or, when a handle is asked for, it lies in an
            engine.
    """

    _reads = "private rows"
    _engine_refuses = "gives no rows"

    def __init__(self, table: PrivateTable, contract: Contract, *, threads: int = 2) -> None:
        super().__init__(table, contract, threads=threads)
        self._known: dict[tuple[str, ...], Unsigned] = {}

    def rows(self, names: Sequence[str] | None = None) -> PrivateRows:
        """Return the handle on the rows, of all columns or of the given ones in their order.

        Raises:
            ContractRefused: no such column.
            ValueError: a column named twice.
        Privacy: nothing is read yet; the handle opens only inside a grant.
        """
        layout = row_layout(self._contract, names)
        return PrivateRows(layout, *self._mark, partial(self._codes, layout))

    def _codes(self, layout: RowLayout) -> Unsigned:
        """Read the codes, once; read-only."""
        if layout.names not in self._known:
            codes = _read_codes(self._table.path, layout, threads=self._threads)
            codes.flags.writeable = False
            self._known[layout.names] = codes
        return self._known[layout.names]


def _read_codes(path: Path, layout: RowLayout, *, threads: int) -> Unsigned:
    """Read codes from the snapshot's table `codes`, shape (rows, columns), in the smallest type that holds them."""
    import duckdb  # here, so that looking at a budget does not load it

    dtype = np.min_scalar_type(max(column.table.shape[0] for column in layout.columns) - 1)
    quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in layout.names)
    batches = [np.empty((0, layout.code_width), dtype=dtype)]
    with duckdb.connect(str(path), read_only=True, config={"threads": threads}) as connection:
        for batch in connection.execute(f"SELECT {quoted} FROM codes").to_arrow_reader(BATCH_ROWS):
            codes = np.empty((batch.num_rows, layout.code_width), dtype=dtype)
            for column, values in zip(layout.columns, batch.columns, strict=True):
                place = layout.code_place(column.name)
                each = values if column.length == 1 else values.flatten()
                codes[:, place : place + column.length] = each.to_numpy().reshape(-1, column.length)
            batches.append(codes)
    return np.concatenate(batches)
