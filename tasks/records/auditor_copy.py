"""The complete record in the workspace's private folder: written once, signed, and committed to by the public one."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from contracts.canonical import canonical_json, readable_json
from privacy.ledger.journal.signing import Signer, key_id, signature_holds
from tasks.records.model.auditor_statements import AUDITOR_SCHEMA, PURPOSE, SALT_BYTES, commitment, withheld
from tasks.records.record import RecordJson

AUDITOR_RECORD: Final = "record.auditor.json"


@dataclass(frozen=True)
class AuditorCopies:
    """Where complete records are kept, and who signs them.

    Args:
        folder: the workspace's private folder of records.
        signer: the ledger's key.
    """

    folder: Path
    signer: Signer

    def place(self, record: RecordJson) -> Path:
        """Return the private folder of a version's complete record, and of what is rendered from it."""
        return self.folder / str(record["release"]) / f"v{record['version']}"

    def seal(self, record: RecordJson) -> tuple[str, RecordJson]:
        """Write the complete record, signed, mode 0600; return the commitment to it (hex), and what was written.

        A record that is there already, is signed by this key and says the same to the public is kept with its salt,
        so that a run that resumes publishes the same bytes again.

        Raises:
            OSError: the private folder cannot be written.
        """
        place = self.place(record)
        for folder in (self.folder, place.parent, place):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = place / AUDITOR_RECORD
        kept = self._kept(path, record)
        if kept is not None:
            path.chmod(0o600)
            complete = kept["record"]
            same = canonical_json(complete) == canonical_json(record)
            return commitment(bytes.fromhex(kept["salt"]), complete), record if same else complete
        salt = secrets.token_bytes(SALT_BYTES)
        sealed = {
            "schema": AUDITOR_SCHEMA,
            "release": record["release"],
            "version": record["version"],
            "salt": salt.hex(),
            "record": record,
            "key_id": key_id(self.signer.public_key),
        }
        write_private(path, readable_json({**sealed, "signature": self.signer.sign(PURPOSE, sealed)}))
        return commitment(salt, record), record

    def _kept(self, path: Path, record: RecordJson) -> dict[str, Any] | None:
        """Return what is there, if it is ours and the public part of it is that of this record."""
        try:
            sealed: dict[str, Any] = json.loads(path.read_bytes())
            signed = {key: part for key, part in sealed.items() if key != "signature"}
            same = canonical_json(withheld(sealed["record"])) == canonical_json(withheld(record))
            ours = signature_holds(self.signer.public_key, PURPOSE, signed, sealed["signature"])
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
            return None
        return sealed if same and ours else None


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, from its first byte on; it appears whole, and is durable."""
    partial = path.with_name(f".{path.name}.partial")
    partial.unlink(missing_ok=True)
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
