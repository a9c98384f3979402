"""Verify: check a published version offline, trusting nothing but a public key that the checker pins (DESIGN law 6).

The rules stand in `tasks.verification.outcomes`, in the order in which they are checked. docs/verify.md says what a
failure of each means, and what none of them can tell. A key inside the folder is never used.
Where a rule fails, the others go on with what can still be read safely; a table is parsed only if its checksum is
signed. What could not be checked is `skipped`, and a version with anything skipped does not pass.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from contracts.errors import Finding, Refused
from privacy.ledger.journal.signing import key_id
from tasks.products.record_checks import read_record
from tasks.records.model.approval_statements import APPROVAL_TERMS
from tasks.records.model.declarations import COMMITMENT
from tasks.records.model.journal_statements import Proof
from tasks.records.model.manifest import Manifest, SignedEnvelope, check_envelope, read_envelope
from tasks.records.model.statement import read_statement
from tasks.records.strict_json import read_json
from tasks.storage.manifest import MANIFEST, PROOF, may_have_changes
from tasks.storage.progress import Bar, step
from tasks.verification.advisories import concerning
from tasks.verification.files.folder import (
    VersionFolder,
    check_contents,
    check_listing,
    list_version,
    open_version,
    read_auditor_record,
    read_text_file,
)
from tasks.verification.inclusion import JournalledRun, check_inclusion, check_publication, read_run, weightiest
from tasks.verification.keys import check_pinned, read_public_key
from tasks.verification.outcomes import (
    ALL_RULES,
    AUDITORS,
    NOT_COMPARED,
    PAGES_NOT_COMPARED,
    RULES,
    Asked,
    CheckerTerms,
    KeyInUse,
    RuleOutcome,
    VerificationReport,
    Words,
    cannot_tell,
)
from tasks.verification.product_checks import ProductChecks
from tasks.verification.recompute.event_forms import MOST_TERMS
from tasks.verification.record_identity import name_version, without_exchange
from tasks.verification.succession import Surroundings, check_before, check_names, look_around
from tasks.verification.trial import tried

__all__ = ["check_staged", "read_public_key", "verify"]


RECORD: Final = "record.json"
CHARGE_TERMS: Final = ("replay.charge.delta", "replay.charge.epsilon")
"""What the spec asked for: what was charged is at most that, but nobody else has the spec."""
REFITTED: Final = 11
"""The rule that fits again."""
NOTES: Final = "replay.notes"
"""What is noted of a fit: rule 11 fits again."""
FORMULAS: Final = "replay.formulas"
CATALOGUE: Final = "croissant.json"
_MEND: Final = (
    "nothing is visible and the charge keeps its noise: tell Sudare's maintainers, and type the same command again "
    "with the version that mends it"
)
_STOPPED: Final = "the rest of this rule: its check stopped"


def verify(
    folder: Path,
    *,
    public_key: str,
    deep: bool = False,
    auditor: Path | None = None,
    terms: CheckerTerms | None = None,
    online: str | None = None,
) -> VerificationReport:
    """Check a version folder against a pinned key.

    Args:
        folder: a version folder.
        public_key: the publisher's Ed25519 public key that the checker pins, NAME+HASH+BASE64.
        deep: also estimate again what was estimated from the measurements (rule 11); takes as long as the fit did.
        auditor: the complete record, for auditors, to be held against the published one (rule 12).
        terms: what else the checker pins and wants.
        online: where the publisher's journal is, to be asked what became of the version (rule 13): one request.
    Returns:
        VerificationReport: the outcome of each rule, with findings; nothing that stands in the folder raises.
    Raises:
        SpecRefused: no version folder there, no such key can be, or the auditors' record cannot be read.
    Privacy: reads published files only, and the auditors' record where it is named.
    """
    check_pinned(public_key)
    path, sealed = open_version(folder), None if auditor is None else read_auditor_record(auditor)
    terms, used = terms or CheckerTerms(), KeyInUse(public_key)
    if terms.changes or terms.recovery is not None or may_have_changes(path):
        # a key that was never changed needs none of it
        from tasks.verification.keys import key_in_use

        used = key_in_use(path, pinned=public_key, recovery=terms.recovery, changes=terms.changes)
    with step("verify") as bar:
        return _Verification((folder, path), used, bar, deep=deep, asked=Asked(sealed, online, terms)).run()


def check_staged(staging: Path, public_key: str, rehearsed_by: str) -> None:
    """Refuse a version that would not verify, before the journal enters it and readers see it.

    Args:
        staging: all of its files, its PROOF.json rehearsed (`Ledger.rehearse`).
        public_key: the key that signed its manifest.
        rehearsed_by: the key that signed the rehearsed proof.
    Raises:
        UnverifiedVersion: a rule fails, or could not be checked.
    """
    used = KeyInUse(rehearsed_by, signed_before=(public_key,))
    with step("verify") as bar:
        report = _Verification(
            (staging, staging), used, bar, deep=False, asked=Asked(None, None, CheckerTerms())
        ).run()
    if not report.ok:
        raise UnverifiedVersion(report)


class UnverifiedVersion(Refused):
    """A version that was made does not verify: nothing of it is visible, and what was drawn is kept for this run.

    Args:
        report: of the staged folder.
    """

    exit_code = 5

    def __init__(self, report: VerificationReport) -> None:
        wrong = [check for check in report.checks if not check.passed]
        named = ", ".join(f"{check.rule} ({check.name})" for check in wrong)
        where, allowed = f"{report.release} v{report.version}", "a version whose rules all hold"
        first = Finding(where, "verification before publication", f"broken rules: {named}", allowed, _MEND)
        skipped = [
            Finding(where, check.name, "not checked", "checked", each) for check in wrong for each in check.skipped
        ]
        super().__init__([first, *report.findings, *skipped])


class _Verification:
    """One verification: what was read so far, and the checks that are done."""

    def __init__(self, paths: tuple[Path, Path], used: KeyInUse, bar: Bar, *, deep: bool, asked: Asked) -> None:
        self._used, self._key, self._bar = used, used.key, bar
        self._deep, self._asked = deep, asked
        (self._named, self._path), self._around = paths, Surroundings()
        self._checks: list[RuleOutcome] = []
        self._folder = VersionFolder(self._path, {}, {})
        self._sound: frozenset[str] = frozenset()
        self._manifest: Manifest | None = None
        self._manifest_sha256 = ""
        self._signed = False
        self._run: JournalledRun | None = None
        self._product: ProductChecks | None = None
        self._record: Any = None
        self._stated: Any = None
        self._words = Words()
        self._proof: Proof | None = None

    def run(self) -> VerificationReport:
        """Check the rules one by one; the manifest is read first, for rule 1 needs its list."""
        unread: list[Finding] = list(self._used.findings)
        stopped = self._tried(lambda: unread.extend(self._read_manifest()), MANIFEST)
        self._guarded(self._check_folder, MANIFEST, 1)
        self._close(unread if stopped is None else [*unread, stopped])
        self._guarded(self._check_contents, MANIFEST, 3)
        self._guarded(self._check_proof, PROOF, 4)
        self._guarded(self._check_record, RECORD, 5)
        self._guarded(self._check_draws, RECORD, 6)
        self._guarded(self._check_loss, RECORD, 7)
        self._guarded(self._check_outcome, RECORD, 8, 9)
        self._guarded(self._check_catalogue, CATALOGUE, 10)
        self._guarded(self._check_estimation, RECORD, 11)
        for rule, where in self._asked.rules():
            self._guarded(partial(self._check_asked, rule), where, rule)
        manifest, untold = self._manifest, () if self._product is None else self._product.untold
        advised = concerning(self._stated)
        return VerificationReport(
            checks=tuple(self._checks),
            key_id=key_id(self._key),
            release=None if manifest is None else manifest.release,
            version=None if manifest is None else manifest.version,
            notes=(
                *self._used.notes,
                *self._around.notes,
                *self._words.uncompared,
                *(f"ADVISORY {each.id}: {each.found} {each.remedy}" for each in advised),
            ),
            cannot_tell=(*cannot_tell(asked=self._asked.online is not None), *untold, *self._words.cannot_tell),
            word=self._word(),
            page=self._words.page,
        )

    def _word(self) -> tuple[str, ...]:
        """Name what only the publisher says, in the record and in the journal."""
        journal = () if self._run is None else self._run.word
        if self._product is None:
            return journal
        weighty = () if self._run is None else weightiest(self._run.charge)
        sealed = (COMMITMENT,) if self._asked.sealed is None else ()
        record, untraced = self._product.record, self._product.untraced
        fitted = "notes" in type(record.replay).model_fields
        noted = (NOTES,) if fitted and not self._deep else ()
        # A choice that no label calls for changes no byte, and of rows a label may be in none.
        chosen = () if record.replay.formulas is None else (FORMULAS,)
        approved = () if record.replay.approvals is None else APPROVAL_TERMS
        return (
            *weighty,
            *record.declarations.names(),
            *sealed,
            *CHARGE_TERMS,
            *untraced,
            *noted,
            *chosen,
            *approved,
            *journal,
        )

    def _guarded(self, check: Callable[[], object], where: str, *rules: int) -> None:
        """Run a check that closes these rules; what it raises is a finding of each that it did not close."""
        finding = self._tried(check, where)
        for rule in rules:
            if finding is not None and all(rule != done.rule for done in self._checks):
                self._close([finding], (_STOPPED,), rule=rule)

    def _tried(self, check: Callable[[], object], where: str) -> Finding | None:
        return tried(check, where, most=MOST_TERMS)

    def _close(self, findings: Sequence[Finding], skipped: Sequence[str] = (), *, rule: int | None = None) -> None:
        """Write down the outcome of the next rule, or of one that is asked for by itself."""
        rule = len(self._checks) + 1 if rule is None else rule
        own = {} if self._product is None else self._product.rules
        name = own.get(rule, ALL_RULES[rule - 1].name)
        if findings and self._product is not None:
            findings = name_version(findings, self._product.record, refitted=rule == REFITTED)
        self._checks.append(RuleOutcome(rule, name, tuple(findings), tuple(skipped)))
        self._bar.advance(min(1.0, rule / len(RULES)))

    def _read(self, name: str) -> tuple[Any, bytes, list[Finding]]:
        """Read a JSON file of the version in its canonical form; its value is None where it cannot be read."""
        data, findings = read_text_file(self._path, name)
        if data is None:
            return None, b"", findings
        value, findings = read_json(data, where=name)
        return value, data, findings

    def _read_manifest(self) -> list[Finding]:
        value, data, findings = self._read(MANIFEST)
        if value is None:
            return findings
        self._manifest_sha256 = hashlib.sha256(data).hexdigest()
        envelope, self._manifest, wrong = read_envelope(value, where=MANIFEST)
        findings += wrong
        if envelope is not None:
            findings += self._manifest_signature(envelope)
        self._signed = not findings and not self._used.findings
        return findings

    def _manifest_signature(self, envelope: SignedEnvelope) -> list[Finding]:
        """Check who signed the manifest: the key of the proof, or one before it; rule 4 holds its digest."""
        wrong = check_envelope(envelope, public_key=self._key, where=MANIFEST)
        before = (key for key in self._used.signed_before if key != self._key)
        return (
            wrong if wrong and all(check_envelope(envelope, public_key=key, where=MANIFEST) for key in before) else []
        )

    def _check_folder(self) -> None:
        names = () if self._manifest is None else tuple(self._manifest.files)
        self._folder, findings = list_version(self._path, names)
        findings += check_listing(self._folder, self._manifest)
        if self._manifest is None:
            return self._close(findings, ("which files belong here: no readable manifest",))
        self._around = look_around(self._path, self._manifest, public_key=self._key, others=self._used.others)
        return self._close(findings + check_names(self._named, self._path, self._manifest, self._around))

    def _check_contents(self) -> None:
        if self._manifest is None:
            return self._close((), ("sizes and checksums: no readable manifest",))
        self._sound, findings = check_contents(self._folder, self._manifest)
        return self._close(findings)

    def _check_proof(self) -> None:
        value, _, findings = self._read(PROOF)
        proof, wrong = (None, []) if value is None else read_statement(Proof, value, where=PROOF)
        if proof is None:
            return self._close(findings + wrong, ("the run: no readable proof",))
        self._proof = proof
        findings += check_inclusion(proof, public_key=self._key, where=PROOF)
        self._run, wrong = read_run(proof, where=PROOF)
        findings += wrong
        if self._run is None or self._manifest is None:
            return self._close(findings, ("the publication: no readable run or manifest",))
        published, manifest = self._run.published, self._manifest
        findings += check_publication(published, manifest, self._manifest_sha256, where=PROOF)
        findings += check_before(proof, self._run, self._around, where=PROOF)
        return self._close(findings)

    def _check_record(self) -> None:
        value, _, findings = self._read(RECORD)
        self._stated = value
        read = None if value is None else read_record(value, where=RECORD, manifest_name=MANIFEST)
        self._product, wrong = read or (None, [])
        self._record = None if self._product is None else value
        if self._product is None:
            return self._close(findings + wrong, ("what the record says: it cannot be read",))
        from tasks.verification.record_rule import check_record

        found, skipped = check_record(self._product, value, self._manifest, self._run, where=RECORD)
        return self._close(findings + found, skipped)

    def _check_draws(self) -> None:
        if self._product is None:
            return self._close((), ("the draws: no readable record",))
        return self._close(*self._product.check_draws(self._run))

    def _check_loss(self) -> None:
        priced = None if self._product is None else self._product.priced
        if self._product is None or priced is None:
            return self._close((), ("the loss: no readable events",))
        from tasks.verification.guarantee.loss_rule import check_loss

        return self._close(*check_loss(self._product, self._run, priced=priced, record=RECORD, proof=PROOF))

    def _check_outcome(self) -> None:
        """Check rules 8 and 9."""
        from tasks.verification.data_files.outcome_rules import check_outcome

        manifest = self._manifest if self._signed else None
        passed = all(done.passed for done in self._checks[4:])
        measured, again = check_outcome(
            self._product, self._folder, manifest, self._sound, passed=passed, where=RECORD
        )
        self._close(*measured)
        return self._close(*again)

    def _check_estimation(self) -> None:
        """Check rule 11 where it was asked for and something was estimated."""
        if not self._deep:
            return
        outcome = (
            ([], ["the model: no readable record"]) if self._product is None else self._product.reestimate(self._bar)
        )
        if outcome is not None:
            self._close(*outcome)

    def _check_asked(self, rule: int) -> None:
        """Check one of the rules that only this checker asks for."""
        from tasks.verification.verify import CheckedSoFar, check_asked

        value, _, wrong = self._read(RECORD) if rule == AUDITORS else (None, b"", [])
        manifest, digest, proven = self._manifest, self._manifest_sha256, self._checks[3].passed
        read = CheckedSoFar(
            self._path, self._used, manifest, digest, (value, wrong), self._proof, self._run, proven=proven
        )
        outcome = check_asked(rule, read, self._asked)
        self._around.notes.extend(outcome.notes)
        self._close(outcome.findings, outcome.skipped, rule=rule)

    def _check_words(self, catalogue: Any, *, whole: bool) -> None:
        """Check what people read; pages and data files are opened only once all before them holds."""
        if self._product and self._proof and self._manifest:
            from tasks.verification.pages import check_words

            record, manifest = self._product.record, self._manifest
            read = self._folder, record, self._record, self._proof, manifest, self._sound
            self._words = check_words(*read, catalogue=catalogue, complete=whole, page=self._asked.terms.page)

    def _check_catalogue(self) -> None:
        from tasks.verification.pages import check_catalogue

        value, _, findings = self._read(CATALOGUE)
        if value is None or self._manifest is None:
            return self._close(findings, ("the catalogue entry: it or the manifest cannot be read",))
        manifest, product = self._manifest, self._product
        described = manifest if product is None else without_exchange(manifest, product.record)
        findings += check_catalogue(value, described, where=CATALOGUE)
        if self._record is None or self._proof is None:
            return self._close(findings, ("registry entry, lineage and label: no readable record or proof",))
        whole = all(done.passed for done in self._checks)
        stopped = self._tried(lambda: self._check_words(value, whole=whole), RECORD)
        if stopped is not None and not whole:  # the rules before say what is wrong with it
            return self._close(findings, ("what people read: the record cannot be explained",))
        findings += [*self._words.findings, *([] if stopped is None else [stopped])]
        unread = self._asked.terms.strict and NOT_COMPARED in self._words.cannot_tell
        skipped = self._words.uncompared if self._asked.terms.strict else ()
        return self._close(findings, (*skipped, *([PAGES_NOT_COMPARED] if unread else [])))
