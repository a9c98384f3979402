"""Which keys the body of each kind of entry has: all of them, and no others.

Every reader of the journal, and the checker of a published proof, holds an entry against this before it looks a key
up. So an entry with a key too few or too many is refused by its number and that key's name, whoever signed it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, Final

from privacy.ledger.entries import OPEN, TAMPERED, Entry, LedgerCorrupt
from privacy.ledger.terms import TERMS, ChargeRequest

_REQUEST: Final = tuple(field.name for field in fields(ChargeRequest) if field.name != "source")
_RELEASE: Final = ("release", "account", "spec_digest", "contract_digest")
_PLAIN: Final[Mapping[str, tuple[str, ...]]] = {
    "ledger_created": ("schema_version", "id"),
    "account_opened": (*TERMS, "cap", "spent"),
    "charges_inherited": ("account", "parts"),
    "account_closed": ("name", "spent"),
    "source_bound": ("source", "population", "block"),
    "charge_reserved": (*_REQUEST, "population", "block", "parts"),
    "charge_returned": ("run_key", "parts"),
    "grant_opened": ("run_key", "security", "draws_folder"),
    "noise_drawn": ("run_key", "key", "number", "sha256", "event", "costs"),
    "gate_failed": (*_RELEASE, "gates"),
    "engine_failed": ("run_key", *_RELEASE),
    "version_published": ("run_key", "release", "number", "manifest", "supersedes", "earlier"),
    "version_withdrawn": ("run_key", "release", "number", "reason"),
    "key_changed": ("note",),
    "clock_corrected": ("latest",),
}
BODY_KEYS: Final[Mapping[str, frozenset[str]]] = {
    kind: frozenset(keys if kind in OPEN else (*keys, "salt")) for kind, keys in _PLAIN.items()
}
"""The keys of each kind's body."""
_LISTS: Final[Mapping[str, tuple[str, frozenset[str]]]] = {
    "charges_inherited": ("parts", frozenset({"run_key", "amount"})),
    "charge_reserved": ("parts", frozenset({"account", "amount", "before", "after", "returnable"})),
    "charge_returned": ("parts", frozenset({"account", "amount"})),
    "version_published": ("earlier", frozenset({"size", "root"})),
}
"""The lists of objects in bodies, with the keys of each object."""
_SECOND_SUM: Final = {"charge_reserved": frozenset({"failure_before", "failure_after"})}
"""Keys of those objects that are there together or not at all: an account that sets some δ aside has a second sum."""


_SUBJECTS: Final[Mapping[str, str]] = {
    "account_opened": "name",
    "account_closed": "name",
    "charges_inherited": "account",
    "source_bound": "source",
    "gate_failed": "account",
    "engine_failed": "account",
}


def subject_of(entry: Entry) -> str:
    """Return under which name an entry is found again."""
    if entry.kind in ("ledger_created", "key_changed", "clock_corrected"):
        return ""
    return str(entry.body[_SUBJECTS.get(entry.kind, "run_key")])


def wrong_keys(kind: str, body: Any) -> Iterator[tuple[str, str]]:
    """Yield the name of each key that an entry lacks or should not have, and which of the two it is.

    Args:
        kind: the entry's kind.
        body: its body; of another form than an object it has no keys.
    """
    if kind not in BODY_KEYS:
        yield "kind", "unknown"
        return
    yield from _compared("", body, BODY_KEYS[kind])
    name, keys = _LISTS.get(kind, ("", frozenset[str]()))
    parts = body.get(name) if isinstance(body, dict) else None
    if name and parts is not None and not isinstance(parts, list):
        yield name, "no list"
    for place, part in enumerate(parts if isinstance(parts, list) else ()):
        second = _SECOND_SUM.get(kind, frozenset[str]())
        both = keys | second if isinstance(part, dict) and second & part.keys() else keys
        yield from _compared(f"{name}[{place}].", part, both)
    for key in keys & {"account", "run_key"}:  # a part is found by it: of two, each reader would take another
        told = [part.get(key) for part in parts or () if isinstance(part, dict)] if isinstance(parts, list) else []
        yield from (
            (f"{name}[{place}].{key}", "there twice") for place, each in enumerate(told) if each in told[:place]
        )


def _compared(at: str, value: Any, keys: frozenset[str]) -> Iterator[tuple[str, str]]:
    if not isinstance(value, dict):
        yield at.rstrip(".") or "body", "no object"
    elif value.keys() != keys:
        yield from ((f"{at}{key}", "missing") for key in sorted(keys - value.keys()))
        yield from ((f"{at}{key}", "unknown") for key in sorted(value.keys() - keys))


def check_keys(entry: Entry) -> None:
    """Refuse an entry with a missing or an unknown key.

    Raises:
        LedgerCorrupt: names the entry and the key.
    """
    for key, wrong in wrong_keys(entry.kind, entry.body):
        raise LedgerCorrupt(f"journal entry {entry.sequence} ({entry.kind}): the key {key!r} is {wrong}; {TAMPERED}")
