"""Private rows travel as a reference: where they are and a keyed hash of them, never the rows themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from contracts.canonical import digest

if TYPE_CHECKING:
    from privacy.counting_engine import CountingEngine


@dataclass(frozen=True, repr=False)
class PrivateTable:
    """A snapshot of confidential rows: a DuckDB file (tables `raw` and `codes`), or a stage that an engine keeps.

    Args:
        path: the snapshot file, or the stage, inside the run's private folder.
        keyed_hash: HMAC-SHA256 (hex) of the encoded rows under the workspace's snapshot key; private, since equal
            hashes tell that a table did not change.
        contract_digest: digest of the contract that the rows were encoded by.
        source: canonical name of the source that was read; whose people it is about, the ledger knows.
        engine: counts the stage where it is; None for a DuckDB file, which this process counts.
        bounded_groups: by column of texts, how many keys the rows of one unit have at most, as was seen to here.
    """

    path: Path
    keyed_hash: str
    contract_digest: str
    source: str
    engine: CountingEngine | None = None
    bounded_groups: Mapping[str, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Show the keyed hash only."""
        return f"PrivateTable({self.keyed_hash[:12]}…)"

    def __reduce__(self) -> NoReturn:
        """Refuse pickling: a private table must not land in a result store, a cache or another process."""
        raise TypeError("a PrivateTable cannot be pickled: private rows stay in the run's folder")


def snapshot_mark(keyed_hash: str, spec_digest: str, due: str | None = None) -> str:
    """Return the public name of a snapshot inside the releases of one spec.

    Without the private hash nobody can tell whether marks of two specs are of the same rows. Within one spec a mark
    comes again only with the same rows, which is what lets a run resume; the record says so. On a schedule it comes
    again within one due date only, so that marks of two dates do not tell whether the rows changed between them.

    Args:
        keyed_hash: the private hash of the encoded rows.
        spec_digest: digest of the release spec.
        due: the date that the run is due on, of a spec with `redraw: on_schedule`.
    Returns:
        str: SHA-256 (hex) of all that is given.
    """
    return digest({"snapshot": keyed_hash, "spec": spec_digest} | ({} if due is None else {"due": due}))
