"""An approval: what an approver signs before a release is charged, and what the record states of it.

Signed are release, spec, contract and plan by their digests. The plan's digest is that of the charge: account,
relation, events, ε and δ. The journal has all of it, so a checker computes the digest again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from contracts.canonical import digest
from privacy.ledger.journal.notes import ED25519, MalformedNote, read_verifier_key
from privacy.ledger.journal.signing import signature_holds
from tasks.records.model.statement import Hash, Signature, StatedText, Statement, Tuple

APPROVAL_SCHEMA: Final = "sudare-approval/2"
PURPOSE: Final = "approval"
APPROVAL_TERMS: Final = ("replay.approvals.by", "replay.approvals.needed")
"""What only the publisher says of approvals: who may give them, and how many are needed."""
SignedDay = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\d$")]
PublicKey = Annotated[str, Field(max_length=512, pattern=r"^[^\s+]+\+[0-9a-f]{8}\+[A-Za-z0-9+/]{44}$")]
_PLANNED: Final = (
    *("account", "adjacency", "unit", "scope", "rows_per_unit", "events", "epsilon", "delta"),
    *("public_total", "days", "noise_epsilon"),
)


class SignedApproval(Statement):
    """An approval, as its file has it.

    Attributes:
        schema_: of the file.
        release: name of the product.
        spec_digest, contract_digest: of spec and contract.
        plan_digest: of what is charged.
        at: the approver's word.
        key: of the approver.
        signature: over all the rest.
    """

    schema_: Literal["sudare-approval/2"] = Field(alias="schema")
    release: StatedText
    spec_digest: Hash
    contract_digest: Hash
    plan_digest: Hash
    at: SignedDay
    key: PublicKey
    signature: Signature

    @property
    def holds(self) -> bool:
        """Whether the signature is that of its key over all the rest."""
        content = self.model_dump(mode="json", by_alias=True, exclude={"signature"})
        return signature_holds(self.key, PURPOSE, content, self.signature)


class ApproverStatement(Statement):
    """Who may approve."""

    name: StatedText
    key: PublicKey


class GivenApproval(Statement):
    """A signature; the rest of what was signed stands elsewhere in the version."""

    key: PublicKey
    at: SignedDay
    signature: Signature


class ApprovalsStatement(Statement):
    """How many of whom had to approve, and who did."""

    needed: Annotated[int, Field(ge=1, le=64)]
    by: Tuple[ApproverStatement]
    given: Tuple[GivenApproval]


def plan_digest(charge: Mapping[str, Any]) -> str:
    """Return the digest of what is charged.

    Args:
        charge: a charge as JSON: `ChargeRequest.public_json`, or the body of charge_reserved in the journal.
    """
    return digest({name: charge[name] for name in _PLANNED})


def about(release: str, charge: Mapping[str, Any]) -> dict[str, str]:
    """Return what an approval of a charge must be about; arguments as for `plan_digest`."""
    return {
        "schema": APPROVAL_SCHEMA,
        "release": release,
        "spec_digest": charge["spec_digest"],
        "contract_digest": charge["contract_digest"],
        "plan_digest": plan_digest(charge),
    }


def unsound(stated: ApprovalsStatement, meant: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the approvals of a record: what was found, and what is allowed.

    Args:
        stated: of the record.
        meant: what they must be about (`about`).
    """
    from contracts.release.terms import public_part  # here: few records have approvals

    known, given = [each.key for each in stated.by], [each.key for each in stated.given]
    for number, key in enumerate(known, 1):
        wrong = _malformed(key)
        if wrong:
            yield (
                f"approver {number} of `by`, whose key is malformed ({wrong})",
                "Ed25519 keys, each with its own hash",
            )
    for number, each in enumerate(stated.given, 1):
        signed = SignedApproval.model_validate({**meant, **each.model_dump(mode="json")})
        if each.key not in known:
            yield f"approval {number}, by a key of nobody who may approve", "signatures by the keys of `by`"
        elif not signed.holds:
            yield f"approval {number}, whose signature does not hold", "a signature over this release, spec and plan"
    if any(len({public_part(key) for key in keys}) < len(keys) for keys in (known, given)):
        yield "a key twice", "each key once"
    if len(given) < stated.needed:
        yield f"{len(given)} approvals", f"{stated.needed}, as the record says are needed"


def _malformed(key: str) -> str:
    """Say what is wrong with a public key: a hash that is not its own, or another type; empty where nothing is."""
    try:
        read = read_verifier_key(key)
    except MalformedNote as error:
        return str(error)
    return "" if read.kind == ED25519 else f"key type: {read.kind}; an approver signs with type {ED25519}"
