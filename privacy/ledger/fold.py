"""The balances are a fold over the journal; this module does that fold again and compares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from contracts.errors import Finding
from privacy.ledger.entries import GENESIS, KINDS, Entry


def check_journal(
    entries: Sequence[Entry], hashes: Sequence[str], accounts: Mapping[str, tuple[int, int]]
) -> list[Finding]:
    """Check the chain, every cap at every instant, and the accounts against the fold of the journal.

    Args:
        entries: the journal in the order of its sequence.
        hashes: the stored hash of each entry.
        accounts: (cap, spent) of each account as the database has it.
    Returns:
        list[Finding]: empty when everything holds.
    """
    findings = _check_chain(entries, hashes)
    folded, over = fold(entries)
    findings += over
    for name in sorted(set(folded) | set(accounts)):
        if folded.get(name) != accounts.get(name):
            found, allowed = _words(accounts.get(name)), _words(folded.get(name))
            findings.append(Finding(f"account {name}", "balance", found, f"{allowed}, as the journal says"))
    return findings


def fold(entries: Sequence[Entry]) -> tuple[dict[str, tuple[int, int]], list[Finding]]:
    """Fold the journal into (cap, spent) by account, with a finding for each instant at which a cap was passed."""
    balances: dict[str, tuple[int, int]] = {}
    findings = []
    for entry in entries:
        body = entry.body
        if entry.kind == "account_opened":
            balances[body["name"]] = (body["cap"], 0)
        elif entry.kind in ("charge_reserved", "charge_returned"):
            sign = 1 if entry.kind == "charge_reserved" else -1
            cap, spent = balances.get(body["account"], (0, 0))
            balances[body["account"]] = (cap, spent + sign * body["amount"])
            if not 0 <= spent + sign * body["amount"] <= cap:
                found = f"{spent + sign * body['amount']} of {cap} spent after entry {entry.sequence}"
                findings.append(Finding(f"account {body['account']}", "cap", found, "0 to the cap"))
    return balances, findings


def _check_chain(entries: Sequence[Entry], hashes: Sequence[str]) -> list[Finding]:
    findings = []
    previous = GENESIS
    for position, (entry, stored) in enumerate(zip(entries, hashes, strict=True)):
        where = f"journal entry {entry.sequence}"
        if entry.sequence != position:
            findings.append(Finding(where, "sequence", str(entry.sequence), f"{position}: entries have no gaps"))
        if entry.previous != previous:
            findings.append(Finding(where, "previous", entry.previous, f"{previous}, the entry before"))
        if entry.hash != stored:
            findings.append(Finding(where, "hash", stored, f"{entry.hash}, the hash of what the entry says"))
        if entry.kind not in KINDS:
            findings.append(Finding(where, "kind", entry.kind, ", ".join(KINDS)))
        previous = stored
    return findings


def _words(balance: tuple[int, int] | None) -> str:
    return "no such account" if balance is None else f"{balance[1]} of {balance[0]} spent"


def summary(entry: Entry) -> dict[str, Any]:
    """Return what one line of `budget history` shows of an entry."""
    shown = {key: value for key, value in entry.body.items() if isinstance(value, str | int)}
    return {"sequence": entry.sequence, "at": entry.at, "kind": entry.kind, **shown}
