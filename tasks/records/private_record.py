"""The private record for auditors: one file in the workspace, signed, to which the published record commits."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from contracts.canonical import canonical_json, readable_json
from privacy.ledger.journal.signing import Signer, key_id, signature_holds
from tasks.records.model.declarations import AUDITOR_SCHEMA, PURPOSE, SALT_BYTES, commitment, withheld
from tasks.records.record import RecordJson

AUDITOR_RECORD: Final = "record.auditor.json"


@dataclass(frozen=True)
class AuditorRecords:
    """Where the complete records are kept, and who signs them.

    Args:
        folder: the workspace's private folder of records.
        signer: the ledger's key.
    """

    folder: Path
    signer: Signer

    def path(self, record: RecordJson) -> Path:
        """Return the file of a version's complete record."""
        return self.folder / str(record["release"]) / f"v{record['version']}" / AUDITOR_RECORD

    def keep(self, record: RecordJson) -> str:
        """Write the complete record, signed, mode 0600; return the commitment to it (hex).

        A record that is there already, is signed by this key and says the same to the public is kept with its salt,
        so that a run that resumes publishes the same bytes again.

        Raises:
            OSError: the private folder cannot be written.
        """
        path = self.path(record)
        for folder in (self.folder, path.parent.parent, path.parent):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept = self._kept(path, record)
        if kept is not None:
            path.chmod(0o600)
            return commitment(bytes.fromhex(kept["salt"]), kept["record"])
        salt = secrets.token_bytes(SALT_BYTES)
        complete = {
            "schema": AUDITOR_SCHEMA,
            "release": record["release"],
            "version": record["version"],
            "salt": salt.hex(),
            "record": record,
            "key_id": key_id(self.signer.public_key),
        }
        _write_private(path, readable_json({**complete, "signature": self.signer.sign(PURPOSE, complete)}))
        return commitment(salt, record)

    def _kept(self, path: Path, record: RecordJson) -> dict[str, Any] | None:
        """Return what is there, if it is ours and the public part of it is that of this record."""
        try:
            found: dict[str, Any] = json.loads(path.read_bytes())
            signed = {key: part for key, part in found.items() if key != "signature"}
            same = canonical_json(withheld(found["record"])) == canonical_json(withheld(record))
            ours = signature_holds(self.signer.public_key, PURPOSE, signed, found["signature"])
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
            return None
        return found if same and ours else None


def _write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, from its first byte on; it appears whole, and is durable."""
    partial = path.with_name(f".{path.name}.partial")
    partial.unlink(missing_ok=True)
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
