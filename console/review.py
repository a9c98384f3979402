"""`sudare review`: one file for those who must approve a release before it is charged."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console

from console.options import AsJson, At, Spec
from console.plan import PublicBecause, Surrogate, nearest_workspace, plan_object
from console.render import answer, print_facts
from console.review_memo import alternatives, memo
from contracts.canonical import readable_json
from contracts.errors import Finding, SpecRefused
from contracts.release.about import Publisher, declared
from flows.request import Request, read_request
from tasks.products.charge_request import request_for
from tasks.records.model.approval_statements import about as approval_about

if TYPE_CHECKING:
    from tasks.storage.workspace.settings import Workspace

MEMO: Final = "memo.md"
APPROVAL: Final = "approval.json"
SPEC: Final = "spec.json"
CONTRACT: Final = "contract.json"
CHARGE: Final = "charge.json"
PLAN: Final = "plan.json"
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)


def review(
    spec: Spec,
    out: Annotated[Path, typer.Option("--out", metavar="PACK", help="The file to write (.zip).")],
    period: Annotated[
        str | None, typer.Option(help="Which period, for a spec with `period:`: 2024Q3, 2024-07, 2024.")
    ] = None,
    rows: Annotated[
        int | None, typer.Option(min=1, help="About how many rows there are, if that is public: tells what is noise.")
    ] = None,
    surrogate: Surrogate = None,
    public_because: PublicBecause = None,
    workspace: At = None,
    as_json: AsJson = False,
) -> None:
    """Write one file for a review board: a memo, and what its members sign. Reads no data, charges nothing.

    The memo says what is published about whom, what it costs and why, which
    other ε were tried, what error to expect by the size of cells, and who
    approves. `approvals:` in the spec names the approvers; without enough
    signatures the release does not run.

    Examples:

        sudare review examples/adult/tables.yaml --out pack.zip
    """
    where = nearest_workspace(workspace)
    request = read_request(spec, where, period)
    further: list[str] = []
    if surrogate is not None or public_because is not None:
        from console.surrogate_plan import surrogate_section  # for the few packs that have a stand-in

        further.append(surrogate_section(request, surrogate, public_because, workspace))
    files = pack_files(request, where, rows, further)
    _write(out, files)
    payload = {
        "pack": str(out),
        "memo_sha256": hashlib.sha256(files[MEMO]).hexdigest(),
        "needed": 0 if request.spec.approvals is None else request.spec.approvals.needed,
        **json.loads(files[APPROVAL]),
    }
    answer(payload, lambda console: _print(console, payload), as_json=as_json)


def pack_files(
    request: Request, workspace: Workspace | None, rows: int | None, further: Sequence[str] = ()
) -> dict[str, bytes]:
    """Return the files of a pack: memo, plan, what is signed, and all that the signed digests are of.

    Args:
        request: the release, with its plan.
        workspace: whose ledger knows the accounts; None where there is none.
        rows: about how many rows there are, if that is public.
        further: sections of the memo, in Markdown.
    Privacy: reads no data.
    """
    charge = request_for(request.spec, request.contract, request.plan).public_json()
    payload = plan_object(request, workspace, rows)
    publisher = Publisher() if workspace is None else workspace.publisher or Publisher()
    about, tried = declared(request.spec.about, publisher), alternatives(request, workspace)
    text = memo(request, payload, about, tried, further).encode()
    signed = {**approval_about(request.spec.release, charge), "memo_sha256": hashlib.sha256(text).hexdigest()}
    return {
        MEMO: text,
        APPROVAL: readable_json(signed),
        SPEC: readable_json(request.spec.digested),
        CONTRACT: readable_json(request.contract.model_dump(mode="json")),
        CHARGE: readable_json(charge),
        PLAN: readable_json(payload),
    }


def _write(path: Path, files: dict[str, bytes]) -> None:
    """Write a zip whose bytes follow from its files."""
    try:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as pack:
            for name, content in files.items():
                pack.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)
    except OSError as error:
        found = error.strerror or type(error).__name__
        raise SpecRefused(
            [Finding(str(path), "--out", found, "a file that can be written", "name another")]
        ) from error


def _print(console: Console, payload: dict[str, object]) -> None:
    print_facts(
        console,
        [
            ("pack", str(payload["pack"])),
            (
                "needed",
                f"{payload['needed']} approvals" if payload["needed"] else "none: the spec has no `approvals:`",
            ),
            ("data read", "none"),
            ("to approve", f"sudare approve {payload['pack']} --key FILE"),
        ],
    )
