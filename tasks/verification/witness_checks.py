"""Have enough witnesses seen this journal? Rule 15, where the checker pins a policy."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from contracts.errors import Finding, SpecRefused
from privacy.ledger.journal.notes import FalseSignature, MalformedNote, VerifiedLine, read_note, verified_lines
from privacy.ledger.journal.witness_policy import PolicyUnmet, WitnessPolicy, read_policy, time_problem
from tasks.storage.manifest import PROOF

_LATEST: Final = 30 * 86_400
_SLACK: Final = 86_400 + 3_600
"""Seconds: an interrupted run may be witnessed weeks later; a clock may be a day off, and hours are rounded down."""
_CLOCKS: Final = (
    "correct your clock where it is wrong (with --at, the time you named), else tell witness and publisher"
)
_DATED: Final = (
    "the dates of the journal are not to be relied on: its publisher's clock was wrong, or they were chosen"
)


def pinned_policy(text: str, where: str) -> WitnessPolicy:
    """Read the policy that a checker pins.

    Raises:
        SpecRefused: names the line.
    """
    try:
        return read_policy(text)
    except PolicyUnmet as error:
        allowed = "a policy of witnesses (tlog-policy) that some of them can meet"
        raise SpecRefused([Finding(where, "policy", str(error), allowed, "correct the policy")]) from None


def check_witnesses(
    checkpoint: str, policy: WitnessPolicy, *, now: datetime, published: datetime | None = None
) -> tuple[list[Finding], list[str]]:
    """Hold the cosignatures of a checkpoint against a pinned policy.

    Args:
        checkpoint: the signed note, whose own signature was checked.
        policy: who has to have seen it.
        now: the checker's clock; a cosignature may be an hour ahead of it.
        published: when the journal says that the version was published; None where it cannot be read.
    Returns:
        tuple: findings, and a note for each witness that has.
    """
    seen: dict[str, VerifiedLine] = {}
    findings = []
    try:
        note = read_note(checkpoint.encode())
    except MalformedNote as error:
        return [Finding(PROOF, "checkpoint", str(error), "a signed note", "get the version again")], []
    for name, witness in policy.witnesses.items():
        try:
            lines = verified_lines(note, [witness.key])
        except FalseSignature:
            allowed, remedy = "a line that holds, or none", "it was changed, or made without this witness's key"
            findings.append(Finding(PROOF, f"witness {name}", "a line that does not hold", allowed, remedy))
            continue
        untimely = time_problem(lines[0].time or 0, now=now.timestamp()) if lines else ""
        if untimely:
            findings.append(
                Finding(PROOF, f"witness {name}", untimely, "a time after 1970, up to an hour from now", _CLOCKS)
            )
        elif lines:
            seen[name] = lines[0]
    notes = [f"witness {name} saw this journal at {_clock(line.time or 0)}" for name, line in seen.items()]
    if not policy.is_met(seen.keys()):
        found = f"{len(seen)} of them ({', '.join(seen) or 'none'})"
        remedy = "others may be shown another journal: ask the publisher for a proof that the witnesses signed"
        findings.append(Finding(PROOF, "cosignatures", found, f"those of {policy.words}", remedy))
    first = min((line.time or 0 for line in seen.values()), default=None)
    late = 0 if first is None or published is None else first - published.timestamp()
    if published is not None and not -_SLACK <= late <= _LATEST + _SLACK:
        allowed = (
            f"at most 30 days before {_clock(first or 0)}, when a witness first saw this journal, and not after it"
        )
        found = published.strftime("%Y-%m-%d %H:%M UTC")
        findings.append(Finding(PROOF, "version_published, date", found, allowed, _DATED))
    return findings, notes


def _clock(time: int) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M UTC")
