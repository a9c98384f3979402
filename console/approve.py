"""`sudare approve`: plan a release, show the plan, and sign it with a key of one's own."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from console.output import AsJson, At, Interrupted, Spec, answer, print_facts, terminal
from console.plan import nearest_workspace, plan_object, print_plan
from contracts.canonical import readable_json
from contracts.errors import SpecRefused
from contracts.reading.scalars import Problem
from flows.request import read_request
from privacy.ledger.journal.notes import read_verifier_key
from privacy.ledger.journal.signing import Signer, key_id
from tasks.products.charge_request import request_for
from tasks.records.model.approval_statements import PURPOSE, SignedApproval, about
from tasks.storage.workspace.keys import read_key
from tasks.verification.keys import read_public_key

_UNASKED = Problem("no `approvals:`", "who may approve, and how many are needed", "add `approvals:` to the spec")


def approve(
    spec: Spec,
    key: Annotated[Path, typer.Option("--key", metavar="FILE", help="Your secret key: sudare keys new FILE")],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Where to write it; the spec's folder of approvals without it."),
    ] = None,
    period: Annotated[
        str | None, typer.Option(help="Which period, for a spec with `period:`: 2024Q3, 2024-07, 2024.")
    ] = None,
    workspace: At = None,
    as_json: AsJson = False,
) -> None:
    """Show the plan of a release, and sign it. Reads no data, charges nothing.

    You sign release, spec, contract and plan: what `sudare plan` shows of them is
    shown first, and a person at a terminal is asked. `approvals:` in the spec
    names the approvers; without enough signatures the release does not run.

    Examples:

        sudare approve visits.yaml --key board.key
    """
    where = nearest_workspace(workspace)
    request = read_request(spec, where, period)
    if request.spec.approvals is None:
        raise SpecRefused([request.spec.finding(("approvals",), _UNASKED)])
    plan = plan_object(request, where, None)
    if not as_json:
        print_plan(terminal(), plan, exact=False)
        asks = sys.stdin.isatty() and sys.stderr.isatty()
        if asks and not typer.confirm("\nSign this plan?", default=False, err=True):
            raise Interrupted("nothing was signed")
    charge = request_for(request.spec, request.contract, request.plan).public_json()
    signer = Signer(read_key(key), _name_of(key))
    content = {
        **about(request.spec.release, charge),
        "at": datetime.now(UTC).date().isoformat(),
        "key": signer.public_key,
    }
    signed = SignedApproval.model_validate({**content, "signature": signer.sign(PURPOSE, content)})
    own, folder = key_id(signer.public_key), out or spec.parent / request.spec.approvals.folder
    target = folder / f"{signed.release}-{signed.plan_digest[:8]}-{own}.json"
    folder.mkdir(parents=True, exist_ok=True)
    target.write_bytes(readable_json(signed.model_dump(mode="json", by_alias=True)))
    payload = {
        "approval": str(target),
        "release": signed.release,
        "epsilon": plan["epsilon"],
        "delta": plan["delta"],
        "account": charge["account"],
        "key_id": own,
    }
    answer(payload, lambda console: _print(console, payload), as_json=as_json)


def _name_of(key: Path) -> str | None:
    """Return the name that the public half beside a key has; None where there is none."""
    public = key.with_name(f"{key.name}.pub")
    return read_verifier_key(read_public_key(public)).name if public.exists() else None


def _print(console: Console, payload: dict[str, str]) -> None:
    console.print()
    print_facts(
        console,
        [
            (
                "signed",
                f"{payload['release']}, ε = {payload['epsilon']} at δ = {payload['delta']}, of {payload['account']}",
            ),
            ("by key", payload["key_id"]),
            ("approval", payload["approval"]),
            ("next", "the publisher needs it in the spec's folder of approvals: sudare run SPEC"),
        ],
    )
