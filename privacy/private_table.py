"""Private rows travel as a reference: where they are and a keyed hash of them, never the rows themselves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn


@dataclass(frozen=True, repr=False)
class PrivateTable:
    """A snapshot of confidential rows in a DuckDB file (tables `raw` and `codes`).

    Args:
        path: the snapshot file, inside the run's private folder.
        keyed_hash: HMAC-SHA256 (hex) of the encoded rows under the workspace's snapshot key.
        contract_digest: digest of the contract that the rows were encoded by.
    """

    path: Path
    keyed_hash: str
    contract_digest: str

    def __repr__(self) -> str:
        """Show the keyed hash only."""
        return f"PrivateTable({self.keyed_hash[:12]}…)"

    def __reduce__(self) -> NoReturn:
        """Refuse pickling: a private table must not land in a result store, a cache or another process."""
        raise TypeError("a PrivateTable cannot be pickled: private rows stay in the run's folder")
