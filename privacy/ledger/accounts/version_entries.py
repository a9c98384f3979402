"""Versions in the ledger: allocated, published, superseded, withdrawn; each keeps its charge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection

from contracts.reading.scalars import is_not_plain
from privacy.ledger.accounts.fold import parts_in
from privacy.ledger.accounts.table_rows import check_charge
from privacy.ledger.entries import RUN_KINDS, Entry, LedgerRefusal, refusal, to_the_hour
from privacy.ledger.journal.key_changes import KeyChange, SignedChange, read_change
from privacy.ledger.journal.signing import Signer
from privacy.ledger.store import schema
from privacy.ledger.store.database import Transaction
from privacy.ledger.store.journal import Clock, Journal, earlier_checkpoints
from privacy.ledger.store.ledger_rows import existing_charge, find_version, set_charge, set_version, versions_of
from privacy.ledger.terms import Charge, VersionEntry

VISIBLE = ("published", "superseded", "withdrawn")
MOST_REASON = 2000
"""Characters of a reason: its entry is published whole, in a tile whose entries have at most 65,535 bytes each."""


def allocate(connection: Connection, run_key: str) -> VersionEntry:
    """Return the version that a run publishes as; the same run always gets the same number."""
    known = find_version(connection, run_key)
    if known is not None:
        return known
    release = existing_charge(connection, run_key).request.release
    number = 1 + max((version.number for version in versions_of(connection, release)), default=0)
    made = VersionEntry(release, number, run_key, "allocated", None)
    connection.execute(schema.versions.insert().values(**vars(made)))
    return made


def publish(transaction: Transaction, journal: Journal, run_key: str, manifest: str) -> Entry:
    """Enter that a version with this manifest is published; the same manifest twice gives the same entry.

    The entry names the checkpoints before it: a proof of the version that leaves one of them out is found.
    """
    connection = transaction.connection
    charge = existing_charge(connection, run_key)
    _check_secure(charge)
    version = find_version(connection, run_key)
    if version is None:
        raise refusal(f"run {run_key}", "version", "none", "an allocated version")
    known = next((e for e in journal.entries(connection, subject=run_key) if e.kind == "version_published"), None)
    if known is not None:
        if known.body["manifest"] != manifest:
            raise _another_manifest(version)
        return known
    before = [each for each in versions_of(connection, version.release) if each.status == "published"]
    newer = [each for each in before if each.number > version.number]
    supersedes = max((each.number for each in before if each.number < version.number), default=None)
    for each in before if not newer else ():
        set_version(connection, each.run_key, status="superseded")
    set_version(connection, run_key, status="superseded" if newer else "published", manifest=manifest)
    set_charge(connection, run_key, status="published")
    body = {"run_key": run_key, "release": version.release, "number": version.number, "manifest": manifest}
    checkpoints = earlier_checkpoints(transaction, follows(connection, run_key))
    earlier = [{"size": size, "root": root} for size, root in checkpoints]
    said = {**body, "supersedes": supersedes, "earlier": earlier}
    return journal.append(transaction, "version_published", said, subject=run_key)


def prove(transaction: Transaction, journal: Journal, run_key: str, signer: Signer) -> dict[str, Any]:
    """Return the proof that a run, and the openings of its accounts, are in the journal."""
    connection = transaction.connection
    check_charge(connection, existing_charge(connection, run_key))
    run = [entry for entry in journal.entries(connection, subject=run_key) if entry.kind in RUN_KINDS]
    last = next(entry.body for entry in reversed(run) if entry.kind == "charge_reserved")
    accounts = [  # an account that was opened again before anything was charged has its last opening's terms
        [*journal.entries(connection, kind="account_opened", subject=name)][-1] for name in parts_in(last)
    ]
    since = min(entry.sequence for entry in accounts)
    set_right = [
        each
        for each in journal.entries(connection, kind="clock_corrected")
        if since < each.sequence <= run[-1].sequence
    ]
    entries = sorted((*accounts, *run, *set_right), key=lambda entry: entry.sequence)
    proof = journal.prove(transaction, entries, signer, run_key=run_key, follows=follows(connection, run_key))
    return proof | {"keys": [entry.body["note"] for entry in journal.entries(connection, kind="key_changed")]}


def withdraw(transaction: Transaction, journal: Journal, release: str, number: int, reason: str) -> VersionEntry:
    """Enter that a version is withdrawn and why; what was charged for it stays charged."""
    connection, there = transaction.connection, versions_of(transaction.connection, release)
    if not reason.strip() or is_not_plain(reason):
        found, allowed = ascii(reason[:80]), "text that reads as it is, without control characters or direction marks"
        raise refusal(f"{release} v{number}", "reason", found, allowed)
    if len(reason) > MOST_REASON:
        found, remedy = f"{len(reason):,} characters", "say it shorter, and where the rest stands"
        raise refusal(f"{release} v{number}", "reason", found, f"at most {MOST_REASON:,} characters", remedy)
    known = next((each for each in there if each.number == number), None)
    if known is None:
        numbers = ", ".join(f"v{each.number}" for each in there)
        allowed = f"one of {numbers}" if there else "a release that has versions"
        remedy = "see which there are: sudare releases list"
        raise refusal("the ledger", "version", f"{release} v{number}", allowed, remedy)
    if known.status not in ("published", "superseded"):
        found = "never published" if known.status == "allocated" else known.status
        remedy = "see how its versions stand: sudare releases list"
        raise refusal(f"{release} v{number}", "status", found, "published or superseded", remedy)
    set_version(connection, known.run_key, status="withdrawn")
    body = {"run_key": known.run_key, "release": release, "number": number, "reason": reason}
    journal.append(transaction, "version_withdrawn", body, subject=known.run_key)
    return VersionEntry(release, number, known.run_key, "withdrawn", known.manifest)


def follows(connection: Connection, run_key: str) -> str | None:
    """Return the run of the last version of the same release that was published before a run's own."""
    own = find_version(connection, run_key)
    if own is None:
        return None
    earlier = [each for each in versions_of(connection, own.release) if each.number < own.number]
    return next((each.run_key for each in reversed(earlier) if each.status in VISIBLE), None)


def _check_secure(charge: Charge) -> None:
    if charge.security != "csprng":
        raise refusal(
            f"run {charge.request.run_key}",
            "randomness",
            charge.security or "none drawn",
            "csprng",
            "seeded noise is for tests only and is never published",
        )


def _another_manifest(version: VersionEntry) -> LedgerRefusal:
    return refusal(
        f"{version.release} v{version.number}",
        "MANIFEST.json",
        "other files than those that were published under this number",
        "the published ones: a version never changes",
        "copy its folder, from a backup or the store that has it: other `formats:` or other code write other files",
    )


# --- Changes of the signing key in the journal.


SignChange = Callable[[KeyChange], SignedChange]
"""Signs a change of the key with the keys that it needs."""


def key_changes(journal: Journal, connection: Connection) -> tuple[SignedChange, ...]:
    """Return the changes that the journal has, in their order."""
    return tuple(read_change(entry.body["note"]) for entry in journal.entries(connection, kind="key_changed"))


def change_key(
    transaction: Transaction, journal: Journal, clock: Clock, *, kind: str, key: str, successor: str, sign: SignChange
) -> SignedChange:
    """Enter a change of the signing key; the last one again changes nothing.

    Args:
        transaction: holds the write lock.
        journal: the journal.
        clock: gives the hour that the note states.
        kind: rotated or revoked.
        key: the key that is changed.
        successor: the key that signs from now on.
        sign: signs the note.
    Raises:
        LedgerRefusal: the key was changed already, to another one.
    """
    known = key_changes(journal, transaction.connection)
    for each in known:
        if (each.change.kind, each.change.key, each.change.successor) == (kind, key, successor):
            return each
        if each.change.key == key and kind == "rotated":
            allowed = "a key that was not changed yet"
            raise refusal("the journal", "signing key", f"changed already, at {each.change.at}", allowed)
    number, at = 1 + len(known), to_the_hour(clock())
    made = sign(KeyChange(number, kind, key, successor, transaction.size, at))  # type: ignore[arg-type]
    journal.append(transaction, "key_changed", {"note": made.note.to_bytes().decode()}, subject="")
    return made
