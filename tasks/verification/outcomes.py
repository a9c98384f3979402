"""What a verification says: the outcome of each rule, and what no rule can tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from contracts.errors import Finding
from tasks.storage.manifest import LATEST_NOTE, PROOF

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from pathlib import Path

    from privacy.ledger.journal.key_changes import SignedChange, TrustedKey
    from privacy.ledger.journal.witness_policy import WitnessPolicy
    from tasks.verification.files.folder import Sealed

RuleFindings = tuple[list[Finding], list[str]]
"""What a part of a rule found wrong, and what it could not check."""

WITHDRAWN: Final = "withdrawn"
"""The field of the finding that a version was withdrawn."""
AUDITORS: Final = 12
"""The rule about the auditors' record, which needs the published one."""
REPORT_SCHEMA: Final = "sudare-verify-report/1"
CANNOT_TELL: Final = (
    "that the noise was drawn as the record says: it is random, so it cannot be replayed",
    "that the noisy values were computed from the data that the record names: the rows stay with the publisher",
    "that the accounts' earlier charges are those of the whole journal: the publisher has it",
    "whether this version was superseded or withdrawn since: ask the publisher's journal, with --online",
    "whether the pinned key is the publisher's: that is for you to establish",
)
_SINCE: Final = CANNOT_TELL[3]


def cannot_tell(*, asked: bool) -> tuple[str, ...]:
    """Return what no rule can tell; `asked` says whether the public journal was asked what became of the version."""
    return tuple(line for line in CANNOT_TELL if not (asked and line == _SINCE))


@dataclass(frozen=True)
class Rule:
    """One rule that a version is checked by.

    Args:
        number: its place, from 1; the manual has it too.
        code: what programs call it; a code never changes what it means.
        name: what it says.
        meaning: what a finding under it means for whoever relies on the version.
    """

    number: int
    code: str
    name: str
    meaning: str


ALL_RULES: Final = (
    Rule(
        1,
        "files",
        "the folder holds the published files, no more and no fewer",
        "files were lost, added, renamed or replaced since they were published: nobody vouches for what is here",
    ),
    Rule(
        2,
        "signature",
        "the manifest is signed under the pinned key",
        "the owner of the pinned key does not vouch for this folder",
    ),
    Rule(3, "contents", "every file is as it was published", "a file was damaged or changed after it was published"),
    Rule(
        4,
        "journal",
        "the journal proves the run and this publication",
        "the publisher's ledger does not stand behind this version, or its journal was rewritten since",
    ),
    Rule(
        5,
        "record",
        "the record is of this version, contract and charge",
        "the record is not of this version, or tells people something else than its exact values",
    ),
    Rule(
        6,
        "draws",
        "draws and sensitivities are those of charge and contract",
        "what was drawn is not what was charged, or what one unit can change is misstated",
    ),
    Rule(
        7,
        "loss",
        "costs and ε recomputed from the events",
        "the guarantee that is claimed does not follow from what was drawn and charged: rely on the recomputed value",
    ),
    Rule(
        8,
        "measurements",
        "noisy measurements and their uncertainty",
        "the noisy values, or how uncertain they are said to be, are not those that were entered when drawn",
    ),
    Rule(
        9,
        "replay",
        "refinement replayed from the noisy measurements",
        "what is published does not follow from the noisy values alone",
    ),
    Rule(
        10,
        "descriptions",
        "fields for people, pages, label and entries follow from what is published",
        "words for people say something else than was computed: go by `replay` of the record, and by the data files",
    ),
    Rule(
        11,
        "model",
        "model estimated again from the noisy measurements",
        "the published model is not what the noisy measurements lead to",
    ),
    Rule(
        12,
        "auditors",
        "the auditors' record is the one that the published record commits to",
        "auditors and the public were told different things",
    ),
    Rule(
        13,
        "status",
        "the public journal has this version, and no withdrawal of it",
        "the publisher took the version back, or the public journal does not stand behind it",
    ),
    Rule(
        14,
        "latest",
        "this is the newest version, by a note that is not too old",
        "an older state is shown to you, or newer ones are kept from you",
    ),
    Rule(
        15,
        "witnesses",
        "enough witnesses have seen this journal",
        "others may be shown another journal under this key",
    ),
)
RULES: Final = ALL_RULES[:10]
"""Checked always; 11 where it is asked for and something was estimated, 12 where an auditors' record is named,
13 where the public journal is asked, 14 where the newest version is wanted, 15 where a policy is pinned."""


@dataclass(frozen=True)
class RuleOutcome:
    """The outcome of one rule.

    Args:
        rule: its number.
        name: what it says.
        findings: what breaks it.
        skipped: what could not be checked, and why.
    """

    rule: int
    name: str
    findings: tuple[Finding, ...]
    skipped: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether all of the rule was checked and holds."""
        return not self.findings and not self.skipped

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as JSON values; every finding under the rule's code, with what it means."""
        code, meaning = ALL_RULES[self.rule - 1].code, ALL_RULES[self.rule - 1].meaning
        return {
            "rule": self.rule,
            "code": code,
            "name": self.name,
            "passed": self.passed,
            "findings": [{"code": code, "meaning": meaning, **vars(finding)} for finding in self.findings],
            "skipped": list(self.skipped),
        }


@dataclass(frozen=True)
class CheckerTerms:
    """What else a checker pins and wants, beside the key.

    Args:
        recovery: the publisher's recovery key, which revokes a signing key.
        changes: changes of the signing key that are known from elsewhere.
        now: the checker's clock, where the newest version is wanted (rule 14).
        pins: the folder that remembers which notes were seen.
        witnesses: the pinned policy (tlog-policy) that says whose cosignatures are needed (rule 15).
        strict: whether pages that were made by another version count as not checked (rule 10).
        page: the name of the page (`PAGES`) that is wanted of the verified record, as this code renders it.
    """

    recovery: str | None = None
    changes: tuple[SignedChange, ...] = ()
    now: datetime | None = None
    pins: Path | None = None
    witnesses: WitnessPolicy | None = None
    strict: bool = False
    page: str | None = None


@dataclass(frozen=True)
class Asked:
    """What a checker asks beside the rules that are always checked.

    Args:
        sealed: the auditors' record, to be held against the published one.
        online: where the publisher's journal is.
        terms: what else the checker pins and wants.
    """

    sealed: Sealed | None
    online: str | None
    terms: CheckerTerms

    def rules(self) -> Iterator[tuple[int, str]]:
        """Yield the rules that are asked for, each with the file that it is about."""
        if self.sealed is not None:
            yield AUDITORS, "record.json"
        if self.online is not None:
            yield 13, PROOF
        if self.terms.now is not None:
            yield 14, LATEST_NOTE
        if self.terms.witnesses is not None:
            yield 15, PROOF


@dataclass(frozen=True)
class KeyInUse:
    """The key that a version is held against.

    Args:
        key: NAME+HASH+BASE64.
        trusted: the keys that count for what lies beside it, each with the journal that it vouches for.
        signed_before: keys that were changed or revoked since, whose manifests a proof by `key` still vouches for.
        notes: how the pinned key led to it.
        findings: why no version by it is to be believed.
    """

    key: str
    trusted: tuple[TrustedKey, ...] = ()
    signed_before: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def others(self) -> tuple[str, ...]:
        """The trusted keys alone."""
        return tuple(each.key for each in self.trusted)


@dataclass(frozen=True)
class VerificationReport:
    """The outcome of all rules.

    Args:
        checks: one a rule, in their order.
        key_id: short public name of the pinned key.
        release: name of the product, as the manifest states it.
        version: number, as the manifest states it.
        notes: what lies around the version and whoever relies on it should know; none of it is held against it.
        cannot_tell: what no check of a version folder can establish.
        word: what the record declares, by name: nothing published confirms it, it is the publisher's word.
        page: the page of the record that was asked for; None where a rule before it does not hold.
    """

    checks: tuple[RuleOutcome, ...]
    key_id: str
    release: str | None
    version: int | None
    notes: tuple[str, ...] = ()
    cannot_tell: tuple[str, ...] = CANNOT_TELL
    word: tuple[str, ...] = ()
    page: bytes | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Everything that is wrong, in the order of the rules."""
        return tuple(finding for check in self.checks for finding in check.findings)

    @property
    def ok(self) -> bool:
        """Whether every rule was checked and holds."""
        return all(check.passed for check in self.checks)

    @property
    def only_pages_unread(self) -> bool:
        """Whether all holds, pages that were made by another version aside."""
        unread = {reason for check in self.checks for reason in check.skipped}
        return not self.findings and unread <= {PAGES_NOT_COMPARED}

    @property
    def only_withdrawn(self) -> bool:
        """Whether all holds but that the public journal says, with proof, that the version was withdrawn."""
        wrong = [check for check in self.checks if not check.passed]
        return [check.rule for check in wrong] == [13] and [each.field for each in self.findings] == [WITHDRAWN]

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "schema": REPORT_SCHEMA,
            "ok": self.ok,
            "release": self.release,
            "version": self.version,
            "key_id": self.key_id,
            "checks": [check.to_json() for check in self.checks],
            "notes": list(self.notes),
            "cannot_tell": list(self.cannot_tell),
            "publishers_word": list(self.word),
        }


NOT_COMPARED: Final = (
    "whether record.html, record.ja.html, label.html, croissant.json, deployment.yaml and lineage.json read as what "
    "is published: words by other code: not compared, go by the statement, record.json"
)

EXCHANGE_WORDS: Final = (
    "whether the descriptions in exchange/ read as what is published: words by other code: not compared; the counts "
    "there are the published ones"
)

PAGES_NOT_COMPARED: Final = "pages not compared (made by another version)"
"""How the verdict says so; under `strict` it is what was not checked."""

FILES_NOT_COMPARED: Final = "NOT COMPARED"
"""How a note begins that names files whose extension is not installed; under `strict` it is what was not checked."""

NOTE: Final = (
    "MADE BY OTHER CODE: pages, label and entries were not compared with what is published. Go by record.json, "
    "from which the loss was recomputed; or write your own page of it: --page FILE."
)


@dataclass(frozen=True)
class Words:
    """What came of the check.

    Args:
        findings: what is wrong.
        cannot_tell: what could not be compared at all.
        page: the page that was asked for, as this code renders it.
        uncompared: the same of files whose extension is not installed.
    """

    findings: tuple[Finding, ...] = ()
    cannot_tell: tuple[str, ...] = ()
    page: bytes | None = None
    uncompared: tuple[str, ...] = ()
