"""`sudare approve`: sign what a review pack is about, with a key of one's own."""

from __future__ import annotations

import hashlib
import json
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from pydantic import ValidationError
from rich.console import Console

from console.options import AsJson
from console.render import answer, print_facts
from console.review import APPROVAL, CHARGE, CONTRACT, MEMO, SPEC
from contracts.canonical import digest, readable_json
from contracts.contract.contract import Contract
from contracts.errors import Finding, SpecRefused
from privacy.accounting.amounts import atto_to_text, pico_to_text
from privacy.ledger.journal.signed_note import read_verifier_key
from privacy.ledger.journal.signing import Signer, key_id
from tasks.records.model.approval_statements import PURPOSE, ApprovedPlan, SignedApproval, plan_digest
from tasks.storage.workspace.keys import read_key
from tasks.verification.public_keys import read_public_key

_MOST_BYTES: Final = 1 << 26
_AGAIN: Final = "ask the publisher for the pack that sudare review wrote"


def approve(
    pack: Annotated[Path, typer.Argument(metavar="PACK", help="What `sudare review` wrote.")],
    key: Annotated[Path, typer.Option("--key", metavar="FILE", help="Your secret key: sudare keys new FILE")],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Where to write it; here without it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Sign the plan of a review pack. Read its memo.md first: you sign spec, contract, plan and memo.

    Digests are computed again from the files of the pack, so that what you
    sign is what you read. Give the file that is written to the publisher.

    Examples:

        sudare approve pack.zip --key board.key
    """
    files = _read(pack)
    plan = _checked(pack, files)
    signer = Signer(read_key(key), _name_of(key))
    content = {
        **plan.model_dump(mode="json", by_alias=True),
        "at": datetime.now(UTC).date().isoformat(),
        "key": signer.public_key,
    }
    signed = SignedApproval.model_validate({**content, "signature": signer.sign(PURPOSE, content)})
    own = key_id(signer.public_key)
    target = (out or Path()) / f"{plan.release}-{plan.plan_digest[:8]}-{own}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(readable_json(signed.model_dump(mode="json", by_alias=True)))
    charge = json.loads(files[CHARGE])
    payload = {
        "approval": str(target),
        "release": plan.release,
        "epsilon": pico_to_text(charge["epsilon"]),
        "delta": atto_to_text(charge["delta"]),
        "account": charge["account"],
        "key_id": own,
    }
    answer(payload, lambda console: _print(console, payload), as_json=as_json)


def _name_of(key: Path) -> str | None:
    """Return the name that the public half beside a key has; None where there is none."""
    public = key.with_name(f"{key.name}.pub")
    return read_verifier_key(read_public_key(public)).name if public.exists() else None


def _read(pack: Path) -> dict[str, bytes]:
    """Return the files of a pack that are signed or digested."""
    try:
        with zipfile.ZipFile(pack) as archive:
            names = (MEMO, APPROVAL, SPEC, CONTRACT, CHARGE)
            sizes = sum(archive.getinfo(name).file_size for name in names)
            if sizes > _MOST_BYTES:
                raise _refused(pack, "the files", f"{sizes:,} bytes", f"at most {_MOST_BYTES:,}")
            return {name: archive.read(name) for name in names}
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        found = getattr(error, "strerror", None) or "no zip with memo, spec, contract and charge"
        raise _refused(pack, "the file", found, "a pack that `sudare review` wrote") from error


def _checked(pack: Path, files: dict[str, bytes]) -> ApprovedPlan:
    """Read what is signed, and compute its digests again from the other files.

    Raises:
        SpecRefused: one is of something else; it is named.
    """
    try:
        plan = ApprovedPlan.model_validate(json.loads(files[APPROVAL]))
        spec, charge = json.loads(files[SPEC]), json.loads(files[CHARGE])
        again: dict[str, tuple[str, str, Any]] = {
            "memo_sha256": (MEMO, plan.memo_sha256, hashlib.sha256(files[MEMO]).hexdigest()),
            "spec_digest": (SPEC, plan.spec_digest, digest(spec)),
            "contract_digest": (CONTRACT, plan.contract_digest, Contract.model_validate_json(files[CONTRACT]).digest),
            "plan_digest": (CHARGE, plan.plan_digest, plan_digest(charge)),
            "release": (SPEC, plan.release, spec["release"]),
        }
    except (ValueError, ValidationError, LookupError, TypeError, RecursionError) as error:
        raise _refused(pack, APPROVAL, "files of another form", "those that `sudare review` writes") from error
    for field, (name, stated, found) in again.items():
        if stated != found:
            raise _refused(pack, f"{APPROVAL}: {field}", f"another than that of {name} in the pack", "the same")
    return plan


def _refused(pack: Path, field: str, found: str, allowed: str) -> SpecRefused:
    return SpecRefused([Finding(str(pack), field, found, allowed, f"{_AGAIN}; nothing was signed")])


def _print(console: Console, payload: dict[str, str]) -> None:
    print_facts(
        console,
        [
            (
                "signed",
                f"{payload['release']}, ε = {payload['epsilon']} at δ = {payload['delta']}, of {payload['account']}",
            ),
            ("by key", payload["key_id"]),
            ("approval", payload["approval"]),
            ("next", "give it to the publisher, who puts it beside the spec: approvals/"),
        ],
    )
