"""Noisy values on disk: one self-contained file a draw, written and fsynced before anyone sees the values.

A draw's file holds its event in its header, so that value and event can never come apart: line one is canonical
JSON (ledger, run key, key, event, what the noise came from, shape, digest of the rest), then little-endian int64
values. A sparse draw lists the cells at or above a threshold: its header has the threshold and the size of the
domain, and the cells' codes come before the values; nothing about any other cell is written. A file appears under its
name only when it is whole (fsync, link, fsync of the folder) and never takes the place of another; what a crash left
half-written was never seen.

The folder of a run has an identity, 16 random bytes in a file of their own. It is there before the charge is opened,
and the entry that opens it names it: in another folder, or in one that was emptied, what was drawn and not entered
before a crash would be missing, and would be drawn again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from tempfile import NamedTemporaryFile
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contracts.canonical import canonical_json
from privacy.ledger.entries import LedgerCorrupt

_IDENTITY: Final = "folder.json"


@dataclass(frozen=True)
class Listing:
    """Which cells a sparse draw holds: those whose noisy value reached the threshold.

    Args:
        codes: row-major numbers of the cells, ascending and distinct, int64.
        threshold: every cell that is not listed reads "less than this" [rows].
        cells: size of the declared domain.
    """

    codes: NDArray[np.int64]
    threshold: int
    cells: int


@dataclass(frozen=True)
class Draw:
    """One noisy value that was drawn, with what it cost.

    Args:
        key: name of the draw inside its run.
        number: its order inside the run, from 0.
        event: JSON of the event.
        clique: columns of the marginal.
        values: noisy counts, int64, in the marginal's shape; of a sparse draw one a listed cell.
        sha256: digest of the values' bytes; of a sparse draw also of codes, threshold and size of the domain.
        security: "csprng" or "seeded": what the noise came from.
        about: what else the draw was asked for, such as the digest of a choice's candidates.
        listing: the cells of a sparse draw; None where every cell has a value.
    """

    key: str
    number: int
    event: Mapping[str, Any]
    clique: tuple[str, ...]
    values: NDArray[np.int64]
    sha256: str
    security: str
    about: Mapping[str, Any] = field(default_factory=dict)
    listing: Listing | None = None


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
        folder = self.folder(run_key)
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
        if draw.listing is not None:
            header["listing"] = {"threshold": draw.listing.threshold, "cells": draw.listing.cells}
        codes = b"" if draw.listing is None else _bytes(draw.listing.codes)
        parts = (canonical_json(header) + b"\n", codes, _bytes(draw.values))
        _write_whole(folder / _file_name(draw.number), parts)

    def identify(self, run_key: str) -> str:
        """Return the identity of a run's folder, made durably where it has none yet."""
        known = self.identity(run_key)
        if known is not None:
            return known
        folder, made = self.folder(run_key), token_hex(16)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write_whole(folder / _IDENTITY, (canonical_json({"ledger": self._ledger, "run_key": run_key, "id": made}),))
        sync_folder(self._root)
        return made

    def identity(self, run_key: str) -> str | None:
        """Return the identity of a run's folder; None where it has none.

        Raises:
            LedgerCorrupt: the file is not what was written.
        """
        path = self.folder(run_key) / _IDENTITY
        if not path.exists():
            return None
        try:
            mark = json.loads(path.read_bytes())
            named, identity = (mark["ledger"], mark["run_key"]), str(mark["id"])
        except (ValueError, KeyError, TypeError) as error:
            raise LedgerCorrupt(f"the identity of the draws of run {run_key} cannot be read: {path}") from error
        if named != (self._ledger, run_key):
            raise LedgerCorrupt(f"the identity of the draws of run {run_key} is of something else: {path}")
        return identity

    def begin(self, run_key: str, number: int, request: Mapping[str, Any]) -> None:
        """Mark durably that a draw which may be interrupted is begun; `FileExistsError` when it was begun before."""
        folder = self.folder(run_key)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        mark = {"ledger": self._ledger, "run_key": run_key, "number": number, "asked": dict(request)}
        _write_whole(folder / _mark_name(number), (canonical_json(mark),))

    def begun(self, run_key: str, number: int) -> dict[str, Any] | None:
        """Return what was asked when draw `number` was begun, or None when it never was.

        Raises:
            LedgerCorrupt: the mark is not what was written.
        """
        path = self.folder(run_key) / _mark_name(number)
        if not path.exists():
            return None
        try:
            mark = json.loads(path.read_bytes())
            named, asked = (mark["ledger"], mark["run_key"], mark["number"]), dict(mark["asked"])
        except (ValueError, KeyError, TypeError) as error:
            raise LedgerCorrupt(f"the mark of draw {number} of run {run_key} cannot be read: {path}") from error
        if named != (self._ledger, run_key, number):
            raise LedgerCorrupt(f"the mark of draw {number} of run {run_key} is of something else: {path}")
        return asked

    def read(self, run_key: str, number: int) -> Draw | None:
        """Return draw `number` of a run, or None when it was never completed.

        Raises:
            LedgerCorrupt: the file is not what was written.
        """
        path = self.folder(run_key) / _file_name(number)
        if not path.exists():
            return None
        header_line, _, rest = path.read_bytes().partition(b"\n")
        try:
            header = json.loads(header_line)
            listing, values = _contents(header, rest)
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
                listing,
            )
        except (ValueError, KeyError, TypeError) as error:
            raise LedgerCorrupt(f"draw {number} of run {run_key} cannot be read: {path}") from error
        if named != (self._ledger, run_key, number) or draw_digest(values, listing) != draw.sha256:
            raise LedgerCorrupt(f"draw {number} of run {run_key} is not what was written: {path}")
        return draw

    def folder(self, run_key: str) -> Path:
        """Return where the draws of a run are."""
        return self._root / run_key


def draw_digest(values: NDArray[np.int64], listing: Listing | None) -> str:
    """Return the digest of a draw: of its values, or of a sparse one of all that it says."""
    if listing is None:
        return values_digest(values)
    return listing_digest(listing.codes, values, {"cells": listing.cells, "threshold": listing.threshold})


def listing_digest(
    codes: NDArray[np.int64], values: NDArray[np.int64] | NDArray[np.float64], terms: Mapping[str, int]
) -> str:
    """Return the SHA-256 (hex) of a list of cells: a line of canonical JSON, then codes, then values.

    Args:
        codes: the cells, shape (n,).
        values: a number for each; int64, or float64 where they are refined and not whole.
        terms: what else is said of the list, such as the size of the domain.
    """
    whole = hashlib.sha256(canonical_json({**terms, "listed": codes.size, "of": "cells"}) + b"\n")
    whole.update(_bytes(codes))
    whole.update(np.ascontiguousarray(values, dtype="<i8" if values.dtype.kind == "i" else "<f8").tobytes())
    return whole.hexdigest()


def values_digest(values: NDArray[np.int64]) -> str:
    """Return the SHA-256 (hex) of the values as little-endian int64 in C order."""
    return hashlib.sha256(_bytes(values)).hexdigest()


def _write_whole(path: Path, parts: Sequence[bytes]) -> None:
    """Write a file that appears whole and durable or not at all, and takes no other's place."""
    with NamedTemporaryFile(dir=path.parent, suffix=".partial") as file:  # mode 0600
        for part in parts:
            file.write(part)
        file.flush()
        os.fsync(file.fileno())
        os.link(file.name, path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _contents(header: Mapping[str, Any], rest: bytes) -> tuple[Listing | None, NDArray[np.int64]]:
    """Take apart what follows the header of a draw's file."""
    numbers = np.frombuffer(rest, dtype="<i8").astype(np.int64)
    if "listing" not in header:
        return None, numbers.reshape(header["shape"])
    codes, values = numbers.reshape(2, *header["shape"])
    return Listing(codes, header["listing"]["threshold"], header["listing"]["cells"]), values


def _bytes(values: NDArray[np.int64]) -> bytes:
    return np.ascontiguousarray(values, dtype="<i8").tobytes()


def _mark_name(number: int) -> str:
    return f"{number:06d}.begun"


def _file_name(number: int) -> str:
    return f"{number:06d}.draw"
