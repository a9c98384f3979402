"""Is the run in the signed journal? The checks of a version's proof, in this order.

1. the checkpoint is a note that the pinned key signed, about the journal of that name
2. every entry's audit path leads from its hash to the checkpoint's root at its place
3. neighbouring entries name each other's hash
4. times are hours, in the order of the entries; one that corrects the clock may be earlier than those before
5. the journal still begins with what the earlier checkpoints held, which the proof names
6. the entries are the openings of the accounts that were charged, and those of one run: charge_reserved, grant_opened
   with noise of a CSPRNG, noise_drawn numbered from 0 without gap, version_published (before the charge, pairs of one
   that was reserved and returned unopened may stand)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from contracts.errors import Finding
from privacy.ledger.entries import Entry, is_to_the_hour
from privacy.ledger.entry_bodies import wrong_keys
from privacy.ledger.journal.merkle import root_from_proof, roots_from_consistency
from privacy.ledger.journal.notes import FalseSignature, MalformedNote, UnsignedCheckpoint, signed_head
from privacy.ledger.journal.signing import key_id, signature_holds
from tasks.records.model.journal_statements import (
    AccountBody,
    ChargeBody,
    CheckpointBody,
    ClockBody,
    DrawnBody,
    EntryStatement,
    OpenedBody,
    Proof,
    ProvenEntry,
    PublishedBody,
    ReturnedBody,
)
from tasks.records.model.manifest import Manifest
from tasks.records.model.statement import Statement, read_statement
from tasks.records.strict_json import printable, shown

_KINDS: Final[dict[str, type[Statement]]] = {
    "account_opened": AccountBody,
    "charge_returned": ReturnedBody,
    "clock_corrected": ClockBody,
    "charge_reserved": ChargeBody,
    "grant_opened": OpenedBody,
    "noise_drawn": DrawnBody,
    "version_published": PublishedBody,
}
JOURNAL_WORD: Final = (
    "journal.at",
    "journal.account_opened.salt",
    "journal.account_opened.spent",
    "journal.charge_reserved.parts.returnable",
    "journal.charge_reserved.salt",
    "journal.charge_reserved.snapshot_hash",
    "journal.grant_opened.draws_folder",
    "journal.grant_opened.salt",
    "journal.noise_drawn.salt",
)
"""Hours and salts; what an account took over; what could still be given back; a keyed hash; a folder's name."""
_MOST_KEYS: Final = 20
REWRITTEN: Final = "the journal was cut, rewritten or swapped since: ask the publisher for the whole journal"
UNPROVEN: Final = "the journal does not prove this run: take nothing in this version for what was drawn and charged"


@dataclass(frozen=True)
class JournalledRun:
    """What the journal says of one run.

    Args:
        accounts: the accounts that were charged, as they were opened, by name.
        charge: what was reserved.
        opened: what the noise was drawn from.
        draws: the noisy values in their order.
        published: the version.
        reserved_at: the charge's place in the journal.
        corrected: whether the clock was corrected meanwhile.
    """

    accounts: dict[str, AccountBody]
    charge: ChargeBody
    opened: OpenedBody
    draws: tuple[DrawnBody, ...]
    published: PublishedBody
    reserved_at: int
    corrected: bool = False

    @property
    def word(self) -> tuple[str, ...]:
        """Name the fields that nothing else in a version gives: they are the publisher's word."""
        unused = any(account.calculus == {"kind": "pure"} for account in self.accounts.values())
        clock = ("journal.clock_corrected.latest", "journal.clock_corrected.salt") if self.corrected else ()
        return (*(("journal.account_opened.delta",) if unused else ()), *clock, *JOURNAL_WORD)


def weightiest(charge: ChargeBody) -> tuple[str, ...]:
    """Name what the guarantee rests on most, and only the publisher can know."""
    person = "one row" if charge.unit == "row" else "one id"
    return (
        f"that {person} is one person (journal.charge_reserved.unit)",
        "that the rows are about these people (journal.charge_reserved.population)",
        "that the rows are of these days (journal.charge_reserved.block)",
        "that no domain was read off the rows (replay.contract)",
    )


def check_inclusion(proof: Proof, *, public_key: str, where: str) -> list[Finding]:
    """Check that the proof's entries are in the journal that the pinned key signed.

    Args:
        proof: the proof.
        public_key: the pinned key, NAME+HASH+BASE64.
        where: the proof's file name.
    Returns:
        list[Finding]: empty when all of it holds.
    Source: RFC 6962, section 2.1.1 (audit paths).
    """
    findings = check_checkpoint(proof.checkpoint, public_key=public_key, where=where)
    size, root = proof.head.size, proof.head.root
    entries = [Entry(**proven.entry.model_dump()) for proven in proof.entries]
    for place, (proven, entry) in enumerate(zip(proof.entries, entries, strict=True)):
        field = f"entries[{place}], sequence {entry.sequence}"
        try:
            reached = root_from_proof(entry.hash, entry.sequence, size, proven.path)
        except ValueError as error:
            findings.append(Finding(where, field, str(error), f"a path to the root of {size} entries", UNPROVEN))
            continue
        if reached != root:
            findings.append(Finding(where, field, f"a path to {reached}", f"to {root}, the checkpoint's", UNPROVEN))
    return [*findings, *_chain(entries, where), *_check_times(proof, where), *_check_earlier(proof, where)]


def _check_times(proof: Proof, where: str) -> list[Finding]:
    """Check that all times of the proof are hours in their one form, none before that of an entry before."""
    times = [proven.entry.at for proven in proof.entries]
    finer = [shown(at) for at in times if not is_to_the_hour(at)]
    pairs = pairwise(proven.entry for proven in proof.entries)
    back = [f"{b.at} after {a.at}" for a, b in pairs if b.at < a.at and b.kind != "clock_corrected"]
    found, allowed, remedy = back[:1], "times in the order of the entries", UNPROVEN
    if finer:
        found, allowed = [f"{len(finer)} time(s) such as {finer[0]}"], "times cut to the hour"
        remedy = "how long a step took may tell of the rows: tell the publisher, and do not pass the file on"
    return [Finding(where, "times of entries", each, allowed, remedy) for each in found]


def _check_earlier(proof: Proof, where: str) -> list[Finding]:
    """Check that the journal begins with what each earlier checkpoint held, and is listed once."""
    findings = []
    size, root = proof.head.size, proof.head.root
    listed = [(earlier.size, earlier.root) for earlier in proof.earlier]
    if listed != sorted(set(listed)) or (listed and listed[-1][0] >= size):
        allowed = f"checkpoints of fewer than {size} entries, in order, each once"
        findings.append(Finding(where, "earlier", f"{len(listed)} of another form", allowed, REWRITTEN))
    for place, earlier in enumerate(proof.earlier):
        field, allowed = f"earlier[{place}]", f"a proof that {size} entries begin with its {earlier.size}"
        try:
            reached = roots_from_consistency(earlier.size, size, earlier.root, earlier.path)
        except ValueError as error:
            findings.append(Finding(where, field, str(error), allowed, REWRITTEN))
            continue
        if reached != (earlier.root, root):
            findings.append(Finding(where, field, "a proof that leads to other roots", allowed, REWRITTEN))
    return findings


def check_predecessors(proof: Proof, published: PublishedBody, *, where: str) -> list[Finding]:
    """Check that the proof shows every earlier checkpoint that the publication's own entry names.

    The list of earlier checkpoints is outside the checkpoint's signature; the entry is under it.
    """
    shown_here = {(known.size, known.root) for known in proof.earlier}
    remedy = "what shows that the journal was not rewritten was taken away: get PROOF.json from the publisher again"
    found = f"{len(shown_here)} others" if shown_here else "no earlier checkpoint"
    return [
        Finding(where, "earlier", found, _named(known), remedy)
        for known in published.earlier
        if (known.size, known.root) not in shown_here
    ]


def _named(checkpoint: CheckpointBody) -> str:
    return f"{checkpoint.size} entries with root {checkpoint.root[:16]}…, which the entry version_published names"


def check_succession(proof: Proof, before: Proof, *, where: str, earlier: str) -> list[Finding]:
    """Check that a proof builds on that of the version before.

    Args:
        proof: the proof of the version that is checked.
        before: the proof of the version before, its signature checked.
        where: the proof's file name.
        earlier: what the version before is called.
    """
    last, held = before.head, [(known.size, known.root) for known in proof.earlier]
    if (last.size, last.root) not in held:
        found = ", ".join(f"{size} entries with root {root[:16]}…" for size, root in held) or "no earlier checkpoint"
        allowed = f"{last.size} entries with root {last.root[:16]}…, the checkpoint of {earlier}"
        return [Finding(where, "earlier", found, allowed, REWRITTEN)]
    return []


def check_checkpoint(note: str, *, public_key: str, where: str) -> list[Finding]:
    """Check that a checkpoint is signed under the pinned key; lines of other keys are left aside."""
    try:
        signed_head(note, public_key)
    except UnsignedCheckpoint as error:
        remedy = "another key signed it: ask the publisher, over another channel, which key is theirs"
        return [Finding(where, f"checkpoint, {error.field}", error.found, error.allowed, remedy)]
    except FalseSignature as error:
        remedy = "the owner of the pinned key did not sign this: do not trust what it says"
        allowed = "the pinned key's signature over the text of the note"
        return [Finding(where, "checkpoint, signature", str(error), allowed, remedy)]
    except MalformedNote as error:
        return [Finding(where, "checkpoint", str(error), "a signed note as c2sp.org/tlog-checkpoint says", UNPROVEN)]
    return []


def check_signature(
    purpose: str, value: object, by: str, signature: str, *, public_key: str, where: str
) -> list[Finding]:
    """Check one signature under the pinned key; `by` is the key that the file names."""
    pinned = key_id(public_key)
    findings = []
    if by != pinned:
        remedy = "it was signed with another key: ask the publisher, over another channel, which key is theirs"
        findings.append(Finding(where, "key_id", by, f"{pinned}, the pinned key", remedy))
    if not signature_holds(public_key, purpose, value, signature):
        allowed = f"the pinned key's signature over the {purpose}"
        remedy = "the owner of the pinned key did not sign this: do not trust what it says"
        findings.append(Finding(where, "signature", f"{signature[:16]}…, which does not hold", allowed, remedy))
    return findings


def _chain(entries: Sequence[Entry], where: str) -> list[Finding]:
    findings = []
    for before, after in pairwise(entries):
        field = f"sequence {after.sequence}"
        if after.sequence <= before.sequence:
            findings.append(Finding(where, field, f"after {before.sequence}", "entries in their order", UNPROVEN))
        elif after.sequence == before.sequence + 1 and after.previous != before.hash:
            found, allowed = after.previous, f"{before.hash}, the hash of the entry before"
            findings.append(Finding(where, f"{field}, previous", found, allowed, UNPROVEN))
    return findings


def read_run(proof: Proof, *, where: str) -> tuple[JournalledRun | None, list[Finding]]:
    """Read the run out of the proof's entries; the findings say what is missing, too much, or out of order."""
    opened = [proven for proven in proof.entries if proven.entry.kind == "account_opened"]
    clocks = [proven for proven in proof.entries if proven.entry.kind == "clock_corrected"]
    of_run = [proven for proven in proof.entries if proven.entry.kind not in ("account_opened", "clock_corrected")]
    accounts, findings = _accounts(opened, where)
    findings += [wrong for proven in clocks for wrong in _body(proven.entry, where=where)[1]]
    start = 0
    while [proven.entry.kind for proven in of_run[start : start + 2]] == ["charge_reserved", "charge_returned"]:
        findings += _check_pair(of_run[start].entry, of_run[start + 1].entry, where)
        start += 2
    entries = of_run[start:]
    kinds = [proven.entry.kind for proven in entries]
    drawn = len(entries) - 3
    wanted = ["charge_reserved", "grant_opened", *["noise_drawn"] * drawn, "version_published"]
    if drawn < 1 or kinds != wanted:
        found = ", ".join(kind if kind in _KINDS else shown(kind) for kind in kinds[:12]) or "none"
        allowed = "charge_reserved, grant_opened, noise_drawn (at least one), version_published, in this order"
        return None, [Finding(where, "entries", found, allowed, UNPROVEN)]
    bodies: list[Statement] = []
    for proven in entries:
        body, wrong = _body(proven.entry, where=where)
        findings += wrong
        if body is not None:
            bodies.append(body)
    if findings:
        return None, findings
    run = _run(accounts, bodies, entries[0].entry.sequence, corrected=bool(clocks))
    return run, _one_run(run, where)


def _check_pair(reserved: EntryStatement, returned: EntryStatement, where: str) -> list[Finding]:
    """Check that an unopened charge was given back as it was taken."""
    (charge, findings), (body, wrong) = _body(reserved, where=where), _body(returned, where=where)
    if not (isinstance(charge, ChargeBody) and isinstance(body, ReturnedBody)):
        return findings + wrong
    taken, given = ({(part.account, part.amount) for part in each.parts} for each in (charge, body))
    if charge.run_key == body.run_key and taken <= given:  # accounts opened between have parts of their own
        return []
    found, allowed = f"{len(given)} parts of {shown(body.run_key)}", f"what {shown(charge.run_key)} had taken"
    return [Finding(where, f"body of entry {returned.sequence}, parts", found, allowed, UNPROVEN)]


def _accounts(opened: Sequence[ProvenEntry], where: str) -> tuple[dict[str, AccountBody], list[Finding]]:
    """Read the accounts' openings."""
    accounts: dict[str, AccountBody] = {}
    findings: list[Finding] = []
    for proven in opened:
        body, wrong = _body(proven.entry, where=where)
        findings += wrong
        if isinstance(body, AccountBody) and body.name in accounts:
            found, allowed = f"{shown(body.name)} opened twice", "each account once"
            findings.append(Finding(where, "accounts", found, allowed, UNPROVEN))
        elif isinstance(body, AccountBody):
            accounts[body.name] = body
    return accounts, findings


def _body(entry: EntryStatement, *, where: str) -> tuple[Statement | None, list[Finding]]:
    at = f"body of entry {entry.sequence}"
    keys = [
        Finding(where, printable(f"{at}, {key}"), wrong, "the keys that the ledger writes, and no others", UNPROVEN)
        for key, wrong in wrong_keys(entry.kind, entry.body)
    ]
    if keys:
        return None, keys[:_MOST_KEYS]
    return read_statement(_KINDS[entry.kind], entry.body, where=where, at=at)


def _run(
    accounts: dict[str, AccountBody], bodies: Sequence[Statement], reserved_at: int, *, corrected: bool
) -> JournalledRun:
    """Sort bodies that stand in the checked order."""
    [charge] = [body for body in bodies if isinstance(body, ChargeBody)]
    [opened] = [body for body in bodies if isinstance(body, OpenedBody)]
    [published] = [body for body in bodies if isinstance(body, PublishedBody)]
    draws = tuple(body for body in bodies if isinstance(body, DrawnBody))
    return JournalledRun(accounts, charge, opened, draws, published, reserved_at, corrected)


def _one_run(run: JournalledRun, where: str) -> list[Finding]:
    """Check that all entries are of one run, drawn from a CSPRNG, each draw once."""
    findings = []
    key = run.charge.run_key
    for body in (run.opened, *run.draws, run.published):
        if body.run_key != key:
            findings.append(Finding(where, "run_key", shown(body.run_key), f"{shown(key)}, the charge's", UNPROVEN))
    charged = [part.account for part in run.charge.parts]
    if len(set(charged)) < len(charged) or set(charged) != set(run.accounts):
        found = f"openings of {_names(run.accounts)}"
        findings.append(Finding(where, "accounts", found, f"those of {_names(charged)}, each once", UNPROVEN))
    if run.opened.security != "csprng":
        remedy = "noise that repeats from a seed can be taken off again: do not use this version"
        findings.append(Finding(where, "security", shown(run.opened.security), "'csprng'", remedy))
    numbers = [draw.number for draw in run.draws]
    if numbers != list(range(len(numbers))):
        found, allowed = _numbers(numbers), f"0 to {len(numbers) - 1} without gap"
        findings.append(Finding(where, "numbers of the draws", found, allowed, UNPROVEN))
    for key, times in Counter(draw.key for draw in run.draws).items():
        if times > 1:
            findings.append(Finding(where, "keys of the draws", f"{shown(key)} twice", "each key once", UNPROVEN))
    return findings


def check_publication(published: PublishedBody, manifest: Manifest, sha256: str, *, where: str) -> list[Finding]:
    """Check that what was published is this version with this very manifest."""
    pairs = [
        ("manifest", published.manifest, sha256),
        ("release", published.release, manifest.release),
        ("number", published.number, manifest.version),
    ]
    return [
        Finding(
            where, f"version_published, {field}", shown(found), f"{shown(expected)}, as in MANIFEST.json", UNPROVEN
        )
        for field, found, expected in pairs
        if found != expected
    ]


def _names(names: Iterable[str]) -> str:
    """List names, the first dozen."""
    return ", ".join(shown(name) for name in sorted(names)[:12]) or "no account"


def _numbers(numbers: Sequence[int]) -> str:
    """List numbers, the first dozen."""
    return ", ".join(map(str, numbers[:12])) + (", …" if len(numbers) > 12 else "")
