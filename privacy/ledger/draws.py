"""Noisy values on disk: one self-contained file a draw, written and fsynced before anyone sees the values.

A draw's file holds its event in its header, so that value and event can never come apart: line one is canonical
JSON (run key, key, event, shape, SHA-256 of the rest), then little-endian int64 values. A file appears under its
name only when it is whole (fsync, rename, fsync of the folder); what a crash left half-written was never seen.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
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
    """

    key: str
    number: int
    event: Mapping[str, Any]
    clique: tuple[str, ...]
    values: NDArray[np.int64]
    sha256: str


class DrawFiles:
    """The draws of all runs, below one folder.

    Args:
        root: private folder; made when it is missing.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def write(self, run_key: str, draw: Draw) -> None:
        """Write a draw durably; raises `FileExistsError` when that draw is already there."""
        folder = self._folder(run_key)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        final = folder / _file_name(draw.number)
        if final.exists():
            raise FileExistsError(f"draw {draw.number} of run {run_key} was already written")
        header = {
            "run_key": run_key,
            "key": draw.key,
            "number": draw.number,
            "event": dict(draw.event),
            "clique": list(draw.clique),
            "shape": list(draw.values.shape),
            "sha256": draw.sha256,
        }
        partial = final.with_suffix(".partial")
        with partial.open("wb") as file:
            partial.chmod(0o600)
            file.write(canonical_json(header) + b"\n")
            file.write(_bytes(draw.values))
            file.flush()
            os.fsync(file.fileno())
        partial.rename(final)
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
            named = (header["run_key"], header["number"])
        except (ValueError, KeyError, TypeError) as error:
            raise LedgerCorrupt(f"draw {number} of run {run_key} cannot be read: {path}") from error
        if named != (run_key, number) or hashlib.sha256(rest).hexdigest() != header["sha256"]:
            raise LedgerCorrupt(f"draw {number} of run {run_key} is not what was written: {path}")
        clique = tuple(header["clique"])
        return Draw(header["key"], number, header["event"], clique, values, header["sha256"])

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
