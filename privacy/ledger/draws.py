"""Noisy values on disk: one self-contained file a draw, written and fsynced before anyone sees the values.

A draw's file holds its event in its header, so that value and event can never come apart: line one is canonical
JSON (ledger, run key, key, event, what the noise came from, shape, SHA-256 of the rest), then little-endian int64
values. A file appears under its name only when it is whole (fsync, link, fsync of the folder) and never takes the
place of another; what a crash left half-written was never seen.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contracts.canonical import canonical_json
from privacy.ledger.errors import LedgerCorrupt


@dataclass(frozen=True)
class Draw:
    """One noisy value that was drawn, with what it cost.

    Args:
        key: name of the draw inside its run.
        number: its order inside the run, from 0.
        event: JSON of the event.
        clique: columns of the marginal.
        values: noisy counts, int64, in the marginal's shape.
        sha256: digest of the values' bytes.
        security: "csprng" or "seeded": what the noise came from.
        about: what else the draw was asked for, such as the digest of a choice's candidates.
    """

    key: str
    number: int
    event: Mapping[str, Any]
    clique: tuple[str, ...]
    values: NDArray[np.int64]
    sha256: str
    security: str
    about: Mapping[str, Any] = field(default_factory=dict)


class DrawFiles:
    """The draws of all runs, below one folder.

    Args:
        root: private folder; made when it is missing.
        ledger: identity of the ledger that the draws belong to (the hash of its first entry).
    """

    def __init__(self, root: Path, ledger: str) -> None:
        self._root = root
        self._ledger = ledger

    def write(self, run_key: str, draw: Draw) -> None:
        """Write a draw durably; `FileExistsError` when that draw is there already, which then stays as it is."""
        folder = self._folder(run_key)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        header = {
            "ledger": self._ledger,
            "run_key": run_key,
            "key": draw.key,
            "number": draw.number,
            "event": dict(draw.event),
            "clique": list(draw.clique),
            "security": draw.security,
            "shape": list(draw.values.shape),
            "sha256": draw.sha256,
            **({"about": dict(draw.about)} if draw.about else {}),
        }
        with NamedTemporaryFile(dir=folder, suffix=".partial") as file:  # mode 0600
            file.write(canonical_json(header) + b"\n")
            file.write(_bytes(draw.values))
            file.flush()
            os.fsync(file.fileno())
            os.link(file.name, folder / _file_name(draw.number))
        sync_folder(folder)

    def read(self, run_key: str, number: int) -> Draw | None:
        """Return draw `number` of a run, or None when it was never completed.

        Raises:
            LedgerCorrupt: the file is not what was written.
        """
        path = self._folder(run_key) / _file_name(number)
        if not path.exists():
            return None
        header_line, _, rest = path.read_bytes().partition(b"\n")
        try:
            header = json.loads(header_line)
            values = np.frombuffer(rest, dtype="<i8").astype(np.int64).reshape(header["shape"])
            named = (header["ledger"], header["run_key"], header["number"])
            draw = Draw(
                header["key"],
                number,
                header["event"],
                tuple(header["clique"]),
                values,
                header["sha256"],
                header["security"],
                header.get("about", {}),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise LedgerCorrupt(f"draw {number} of run {run_key} cannot be read: {path}") from error
        if named != (self._ledger, run_key, number) or hashlib.sha256(rest).hexdigest() != header["sha256"]:
            raise LedgerCorrupt(f"draw {number} of run {run_key} is not what was written: {path}")
        return draw

    def _folder(self, run_key: str) -> Path:
        return self._root / run_key


def values_digest(values: NDArray[np.int64]) -> str:
    """Return the SHA-256 (hex) of the values as little-endian int64 in C order."""
    return hashlib.sha256(_bytes(values)).hexdigest()


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _bytes(values: NDArray[np.int64]) -> bytes:
    return np.ascontiguousarray(values, dtype="<i8").tobytes()


def _file_name(number: int) -> str:
    return f"{number:06d}.draw"
