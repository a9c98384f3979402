"""What all readers of an encoded snapshot share: the contract that encoded it, and that nothing of it is pickled."""

from __future__ import annotations

from typing import ClassVar, NoReturn

from contracts.contract.contract import Contract
from privacy.private_table import PrivateTable


class SnapshotReader:
    """Reads an encoded snapshot, for handles that a grant alone opens.

    Args:
        table: the snapshot.
        contract: the contract that encoded it.
        threads: threads that DuckDB may use.
    Raises:
        ValueError: the snapshot was encoded by another contract.
    """

    _reads: ClassVar[str]
    """What is read: it stays in this process."""
    _engine_refuses: ClassVar[str | None] = None
    """What an engine does not do; None where it does all, or where no engine comes this far."""

    def __init__(self, table: PrivateTable, contract: Contract, *, threads: int = 2) -> None:
        if table.contract_digest != contract.digest:
            raise ValueError("the snapshot was encoded by another contract")
        self._table = table
        self._contract = contract
        self._threads = threads

    def __repr__(self) -> str:
        """Show which snapshot is read."""
        return f"{type(self).__name__}({self._table!r})"

    def __reduce__(self) -> NoReturn:
        """Refuse pickling: private data stay in this process."""
        raise TypeError(f"{type(self).__name__} cannot be pickled: {self._reads} stay in this process")

    @property
    def _mark(self) -> tuple[str, str]:
        """What ties a handle to this snapshot: its keyed hash, and the digest of its contract.

        Raises:
            ValueError: the snapshot lies in an engine that cannot give what is read.
        """
        if self._table.engine is not None and self._engine_refuses is not None:
            raise ValueError(f"an engine counts, and {self._engine_refuses}")
        return self._table.keyed_hash, self._table.contract_digest
