"""Whether a source is still the one that was read: its place and what changes when it is written, never its rows."""

from __future__ import annotations

import hashlib
import hmac

from contracts.canonical import canonical_json
from contracts.domains.lattice import ValueLattice
from contracts.domains.text import KeyColumn
from contracts.release.spec import Source
from tasks.storage.snapshot.snapshot import subkey


def fingerprint(
    source: Source,
    marks: object,
    key: bytes,
    lattices: tuple[ValueLattice | KeyColumn, ...] = (),
    *,
    parent: str | None = None,
) -> str:
    """Fingerprint a source, and what is made of it beside its codes, under a key.

    Any write to the source changes it (a copy of the same bytes does too; reading again then costs time only).

    Args:
        source: the source.
        marks: what changes when it is written: sizes, times and inodes of files, tags of objects.
        key: the workspace's snapshot key.
        lattices: what is encoded beside the codes, to be added up.
        parent: the table above the base whose rows lie beside them; None without.
    Returns:
        HMAC-SHA256, 64 hexadecimal digits.
    """
    what = [str(source.path), source.format, source.files, source.table, source.select, source.delimiter]
    if source.types:
        what += [f"{name}: {kind}" for name, kind in sorted(source.types.items())]
    what += [f"{name} in {place}" for name, place in sorted((source.tables or {}).items())]
    what += [] if source.base is None else [f"rows of {source.base}"]
    what += [each.name for each in lattices]
    what += [] if parent is None else [f"beside rows of {parent}"]
    return hmac.digest(
        subkey(key, "fingerprint"), canonical_json({"what": what, "marks": marks}), hashlib.sha256
    ).hex()
