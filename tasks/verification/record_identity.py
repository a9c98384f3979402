"""Is the record about this version, this contract and this charge? The checks, in this order.

1. release and version are the manifest's; once the contract is read, all that the manifest says of privacy
2. auditor-only values are withheld, and committed to; the record lists each data file once, and has one form
3. the contract, read again, hashes to its digest, and charge and record name the same contract, spec, account
4. the manifest's files are those that the record speaks of, no more and no fewer
5. no CSV file has a label that a spreadsheet would run, unless the record says how it is written
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from contracts.canonical import canonical_json, digest, readable_json
from contracts.contract.contract import Contract
from contracts.contract.labels import formula_problem
from contracts.errors import Finding
from contracts.periods.period_rules import due_run_key
from contracts.plug_ins import OF_EXTENSIONS
from contracts.release.exchange_forms import EXCHANGE
from tasks.records.files.part_names import parts_among
from tasks.records.model.approval_statements import about, unsound
from tasks.records.model.declarations import withheld
from tasks.records.model.journal_statements import ChargeBody
from tasks.records.model.manifest import Manifest, stated_predicate
from tasks.records.model.statement import validation_findings
from tasks.records.model.version_statements import RecordTerms, ReplayTerms, recorded_contract
from tasks.records.strict_json import other_form, printable, shown
from tasks.verification.inclusion import JournalledRun

ProductT = TypeVar("ProductT", bound=BaseModel)
FIXED_FILES: Final = frozenset({"record.json", "record.html", "croissant.json"})
TRANSLATED: Final = frozenset(f"record.{code}.html" for code in OF_EXTENSIONS["sudare.languages"])
"""The record's page in the languages of extensions, which not every publisher has installed."""
DESCRIPTIONS: Final = frozenset({"label.html", "deployment.yaml", "lineage.json"}) | TRANSLATED
"""The record for other readers."""
_PREDICATE: Final = "as the predicate in MANIFEST.json says"
_RELEASED: Final = re.compile(r"[0-9]{1,4}(\.[0-9]{1,6}){0,3}((a|b|rc|\.post|\.dev)[0-9]{1,6}){0,3}")
"""The name of a version: a publisher writes it, and anything else in its place is not repeated to who verifies."""
OTHER: Final = "the record speaks of something else: do not believe the one or the other without asking the publisher"


def name_version(findings: Sequence[Finding], record: RecordTerms, *, refitted: bool) -> Sequence[Finding]:
    """Say what to verify with, where another version of Sudare made the record.

    A default or a formula may have changed since: the version that made it plans and fits as it did.

    Args:
        findings: of a rule.
        record: the record.
        refitted: whether they are of a fit that was made again; of others, those of another plan or identity count.
    """
    from tasks.records.software import software  # which reads what is installed

    made = record.declarations.software.packages.get("sudare", "")
    here = software().packages.get("sudare", "")
    if not findings or made == here or _RELEASED.fullmatch(made) is None:
        return findings
    asked = f"the record names Sudare {made}, and {here} verifies it: ask the publisher, and verify with {made} too"
    return [
        replace(each, remedy=f"{each.remedy}; {asked}") if refitted or each.remedy == OTHER else each
        for each in findings
    ]


def differences(pairs: Iterable[tuple[str, object, object]], *, where: str, allowed: str) -> Iterator[Finding]:
    """Yield a finding for each (field, found, expected) that differs; `allowed` says whose value is expected."""
    for field, found, expected in pairs:
        if found != expected:
            yield Finding(where, field, shown(found), f"{shown(expected)}, {allowed}", OTHER)


def check_predicate(manifest: Manifest, value: Any, *, where: str) -> list[Finding]:
    """Check what the manifest says of privacy; `value` was read as a record, and its contract as one."""
    stated = manifest.predicate
    listed = manifest.files.get(where)
    expected = stated_predicate(value, stated.record if listed is None else listed.sha256)
    pairs = [(name, found, getattr(stated, name)) for name, found in expected.items()]
    return list(differences(pairs, where=where, allowed=_PREDICATE))


def check_identity(record: RecordTerms, manifest: Manifest, *, where: str) -> list[Finding]:
    """Check that the record is the manifest's, and open about what it holds back."""
    stated = manifest.predicate
    pairs = [("release", record.release, stated.release), ("version", record.version, stated.version)]
    findings = list(differences(pairs, where=where, allowed=_PREDICATE))
    if record.auditor is not None:
        remedy = "values for auditors only were published: tell the publisher"
        findings.append(Finding(where, "auditor", "values", "no such section in a published record", remedy))
    if record.auditor_commitment is None:
        remedy = "auditors cannot tell whether their copy is of this record: ask the publisher"
        findings.append(Finding(where, "auditor_commitment", "nothing", "the commitment to the full record", remedy))
    return findings + _check_listed_files(record, manifest, where)


def without_exchange(manifest: Manifest, record: RecordTerms) -> Manifest:
    """Return the manifest without the files of the forms of exchange that a record states; rule 10 checks those."""
    if not record.replay.exchange:
        return manifest
    kept = tuple(each for each in manifest.subject if not each.name.startswith(EXCHANGE))
    return Manifest.model_construct(**{**dict(manifest), "subject": kept})


def check_form(record: RecordTerms, value: Any, *, where: str) -> list[Finding]:
    """Check that the record is written in the one form that it has: `value` is what was read as `record`."""
    found, understood = withheld(value), withheld(record.model_dump(mode="json", by_alias=True))
    findings, paths = [], [file.path for file in record.files]
    if canonical_json(found) != canonical_json(understood):
        findings.append(other_form(readable_json(found), readable_json(understood), where))
    if paths != sorted(paths):
        findings.append(Finding(where, "files", "in another order", "in the order of their paths", OTHER))
    return findings


def _check_listed_files(record: RecordTerms, manifest: Manifest, where: str) -> list[Finding]:
    """Check that the record lists each data file of the manifest once, and no other."""
    listed, signed = [file.path for file in record.files], set(manifest.files) - FIXED_FILES - DESCRIPTIONS
    twice = {path for path in listed if listed.count(path) > 1} if len(listed) > len(set(listed)) else set()
    return [
        Finding(
            where,
            printable(f"files, {name}"),
            f"listed {'twice' if name in twice else 'once' if name in listed else 'nowhere'}",
            "each data file of the manifest once, and no other",
            OTHER,
        )
        for name in sorted(set(listed) ^ signed | twice)
    ]


def read_again(
    replay: ReplayTerms, kind: type[ProductT], *, where: str
) -> tuple[tuple[Contract, ProductT] | None, list[Finding]]:
    """Read contract and product of a record again, by the same models that the release used."""
    findings: list[Finding] = []
    contract, product = None, None
    try:
        contract = recorded_contract(replay.contract)
    except ValidationError as error:
        findings += validation_findings(error, where=where, at="replay.contract")
    try:
        product = kind.model_validate(replay.product)
    except ValidationError as error:
        findings += validation_findings(error, where=where, at="replay.product")
    if contract is None or product is None:
        return None, findings
    return (contract, product), findings


def check_forms(contract: Contract, product: BaseModel, replay: ReplayTerms, where: str) -> list[Finding]:
    """Check that contract and product are written as they were understood, and the contract hashes to its digest."""
    forms = [("replay.contract", replay.contract, contract), ("replay.product", replay.product, product)]
    findings = [
        Finding(where, field, "another form of it", "the one form in which it is recorded", OTHER)
        for field, written, understood in forms
        if digest(written) != digest(understood.model_dump(mode="json"))
    ]
    found = contract.digest
    if found != replay.contract_digest:
        allowed = f"{found}, the digest of the recorded contract"
        findings.append(Finding(where, "replay.contract_digest", replay.contract_digest, allowed, OTHER))
    return findings


def check_charge(record: RecordTerms, contract: Contract, run: JournalledRun, *, where: str) -> list[Finding]:
    """Check that record, contract and journal name the same release, spec, contract, account, unit and relation."""
    replay, charge = record.replay, run.charge
    journalled = [
        ("release", record.release, charge.release),
        ("replay.spec_digest", replay.spec_digest, charge.spec_digest),
        ("replay.contract_digest", replay.contract_digest, charge.contract_digest),
        ("replay.charge.account", replay.charge.account, charge.account),
        ("replay.adjacency", replay.adjacency, charge.adjacency),
        ("replay.contract.unit", contract.unit.column or "row", charge.unit),
        ("replay.contract.unit.scope", contract.unit.scope, charge.scope),
        ("replay.rows_per_unit", replay.rows_per_unit, charge.rows_per_unit),
        ("replay.contract, total", None if contract.total is None else contract.total.value, charge.public_total),
        ("replay.due", replay.due, charge.due),
        ("supersedes", record.supersedes, run.published.supersedes),
    ]
    declared = [
        ("replay.adjacency", replay.adjacency, contract.adjacency),
        ("replay.rows_per_unit", replay.rows_per_unit, contract.unit.max_rows_per_unit),
    ]
    return [
        *differences(journalled, where=where, allowed="as the charge in the journal says"),
        *differences(declared, where=where, allowed="as the contract says"),
        *_check_due(replay, charge, where),
        *_check_approvals(record, charge, where),
    ]


def _check_approvals(record: RecordTerms, charge: ChargeBody, where: str) -> Iterator[Finding]:
    """Check that enough of those who may approve have signed this charge, each with a key of its own."""
    stated = record.replay.approvals
    if stated is None:
        return
    for found, allowed in unsound(stated, about(record.release, charge.model_dump(mode="json"))):
        yield Finding(where, "replay.approvals", found, allowed, OTHER)


def check_formulas(replay: ReplayTerms, contract: Contract, names: Iterable[str], *, where: str) -> list[Finding]:
    """Refuse, as the spec's reader does, labels in CSV files that a spreadsheet would run and nobody chose to write.

    Args:
        replay: the record's replay block.
        contract: the contract.
        names: the manifest's files.
        where: the record's file name.
    """
    formulas, csv = replay.formulas, any(name.endswith(".csv") for name in names)
    problem = formula_problem(contract.columns, formulas, replay.labels) if csv else None
    if problem is None:
        return []
    found, allowed = f"{formulas or 'nothing'}, with {problem.found}", problem.allowed
    return [Finding(where, "replay.formulas", printable(found), printable(allowed), OTHER)]


def _check_due(replay: ReplayTerms, charge: ChargeBody, where: str) -> list[Finding]:
    """Check that the run of a due date has the key that spec, contract and date give; no row is in it."""
    if replay.due is None:
        return []
    key = due_run_key(
        charge.release, spec_digest=charge.spec_digest, contract_digest=charge.contract_digest, due=replay.due
    )
    pairs = [("the run's key, by its due date", charge.run_key, key)]
    return list(differences(pairs, where=where, allowed="as spec, contract and due date give it"))


def check_file_list(
    required: Iterable[str], optional: Iterable[str], names: Iterable[str], *, where: str
) -> list[Finding]:
    """Check that all required files are there, and besides only optional ones, and parts of data files."""
    required, optional, listed = set(required), set(optional), set(names)
    for name in required:
        optional |= set(parts_among(name, listed)) if name.startswith("data/") else set()
    missing = [
        Finding(where, "files", f"no {printable(n)}", "every file of the record", OTHER) for n in required - listed
    ]
    extra = [
        Finding(
            where,
            "files",
            shown(name),
            "only files that the record speaks of",
            "nobody says what it is: do not use it",
        )
        for name in listed - required - optional - DESCRIPTIONS
    ]
    return sorted(missing + extra, key=lambda finding: finding.found)
