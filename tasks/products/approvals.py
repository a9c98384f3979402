"""The approvals that a spec asks for: read before the charge, and refused by name where one is of something else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from contracts.contract.contract import Contract
from contracts.errors import Finding, Refused
from contracts.release.spec import ReleaseSpec
from contracts.release.terms import Approvals
from privacy.ledger.ledger import Ledger
from tasks.products.charge_request import request_for
from tasks.records.model.approval_statements import (
    ApprovalsStatement,
    ApproverStatement,
    GivenApproval,
    SignedApproval,
    about,
)
from tasks.records.outputs import Plan

_MOST_BYTES: Final = 1 << 16
_PARTS: Final = {
    "spec_digest": "another spec",
    "contract_digest": "another contract",
    "plan_digest": "another plan of this spec: the accounts decide with it how much noise there is",
}


class ApprovalMissing(Refused):
    """A release that needs approvals has too few; nothing was charged."""

    exit_code = 4


def approved(spec: ReleaseSpec, contract: Contract, plan: Plan) -> ApprovalsStatement | None:
    """Return who approved a release; None where no approval is asked for.

    Args:
        spec: the release.
        contract: its contract.
        plan: what will be charged.
    Raises:
        ApprovalMissing: fewer than needed hold; each file that counts for nothing is named, with why. Nothing was
            charged.
    Privacy: reads no data.
    """
    asked = spec.approvals
    if asked is None:
        return None
    charge = request_for(spec, contract, plan).public_json()
    meant, folder = about(spec.release, charge), spec.path.parent / asked.folder
    given: dict[str, SignedApproval] = {}
    findings: list[Finding] = []
    for path in sorted(folder.glob("*.json")):
        found = _read(path)
        problem = found if isinstance(found, str) else _problem(found, asked, meant)
        if problem is not None:
            findings.append(Finding(str(path), "the approval", problem, "an approval of this plan", _remedy(spec)))
        elif isinstance(found, SignedApproval):
            given.setdefault(found.key, found)
    if len(given) < asked.needed:
        raise ApprovalMissing([_too_few(spec, asked, given, folder), *findings])
    names = tuple(ApproverStatement(name=each.name, key=each.key) for each in asked.by)
    signed = tuple(GivenApproval(key=each.key, at=each.at, signature=each.signature) for each in given.values())
    return ApprovalsStatement(needed=asked.needed, by=names, given=signed)


def check_approved(spec: ReleaseSpec, contract: Contract, plan: Plan, ledger: Ledger) -> None:
    """Refuse a release without its approvals before any row is read; one that is charged already goes on.

    What a run that resumes plans may differ from what it was charged for: `approved` is asked again at the charge.

    Raises:
        ApprovalMissing: as `approved`.
    """
    if spec.approvals is not None and not ledger.charges(spec_digest=spec.digest):
        approved(spec, contract, plan)


def _read(path: Path) -> SignedApproval | str:
    """Read an approval, or say what stands there."""
    try:
        with path.open("rb") as file:
            return SignedApproval.model_validate(json.loads(file.read(_MOST_BYTES)))
    except OSError as error:
        return error.strerror or type(error).__name__
    except (ValueError, ValidationError, RecursionError):
        return "a file of another form than `sudare approve` writes"


def _problem(found: SignedApproval, asked: Approvals, meant: dict[str, str]) -> str | None:
    """Say why an approval counts for nothing."""
    if found.release != meant["release"]:
        return f"an approval of the release {found.release}"
    for name, what in _PARTS.items():
        if getattr(found, name) != meant[name]:
            return f"an approval of {what}"
    if found.key not in [each.key for each in asked.by]:
        return f"a signature by key {found.key.rpartition('+')[0]}, which is none of `approvals.by`"
    return None if found.holds else f"a signature that does not hold under key {found.key.rpartition('+')[0]}"


def _too_few(spec: ReleaseSpec, asked: Approvals, given: dict[str, SignedApproval], folder: Path) -> Finding:
    missing = ", ".join(each.name for each in asked.by if each.key not in given)
    found = f"{len(given)} of {asked.needed} approvals in {folder}"
    allowed = f"{asked.needed} signatures over this plan; not yet: {missing}"
    return Finding(str(spec.path), "approvals.needed", found, allowed, _remedy(spec))


def _remedy(spec: ReleaseSpec) -> str:
    period = "" if spec.block is None else f" --period {spec.block}"
    return f"each approver: sudare approve {spec.path.name}{period} --key FILE"
