"""The operator's look: how the rows fit the contract, counted after the data are in and before the charge.

What it finds goes to a person at a terminal and to a private page. No orchestrator, lineage event, journal or record
learns of it, nor that a person stopped a release because of it (docs/derivations.md, section 11).
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from typing import Final

from contracts.errors import Finding, GateBroken
from flows.prepare import take_in_engine
from flows.request import Request
from privacy.private_table import PrivateTable
from tasks.ingest import ingest
from tasks.products.charge_request import run_key
from tasks.storage.sources.days import days_of
from tasks.storage.workspace.run_folder import RunFolder, run_name
from tasks.storage.workspace.settings import Workspace
from tasks.validation.clip_misfits import clip_misfits
from tasks.validation.misfits import Misfits, misfits
from tasks.validation.misfits_page import percent, write_misfits

MISFITS_GATE: Final = "misfits"
"""What the journal calls a run that nobody watched, and that rows which do not fit have stopped."""


def checked(run: RunFolder, request: Request, workspace: Workspace) -> Misfits:
    """Take the rows in and look at them, for `sudare check`: nothing is charged, and nothing is entered anywhere.

    Args:
        run: a private folder of its own (see `check_name`), so that no snapshot of a charged run is touched.
        request: what would be released.
        workspace: gives the snapshot key, the memory limit and the share.
    Raises:
        SudareError: as `tasks.ingest`; that a gate broke is not entered in the journal, since nothing was released.
    Privacy: private; the page lies in the run's folder.
    """
    source, contract, key = request.spec.source, request.contract, workspace.snapshot_key()
    if source.engine is not None:
        table = take_in_engine(run, request, workspace)
    else:
        beside = request.spec.product.lattices(contract)
        limit, days = workspace.memory_limit, days_of(request.spec)
        table = ingest(source, contract, folder=run.path, key=key, memory_limit=limit, days=days, lattices=beside)
    return looked(run, request, workspace, table)


def check_name(request: Request) -> str:
    """Return the name of the private folder of `sudare check`."""
    return f"check-{run_name(request.spec.release, request.spec.run_digest)}"


def before_charge(run: RunFolder, request: Request, workspace: Workspace, table: PrivateTable) -> Misfits | None:
    """Look at the rows of a run that is not charged yet; None for one that is, which only goes on."""
    with closing(workspace.open_ledger()) as ledger:
        charge = ledger.charge(run_key(request.spec, request.contract, table))
    if charge is not None and charge.status != "returned":
        return None
    return looked(run, request, workspace, table)


def check_share(found: Misfits, share: Fraction) -> None:
    """Stop a run that nobody watches where too many rows do not fit: nothing is charged.

    Raises:
        GateBroken: more than this share of the rows of a column do not fit, are clipped, or repeat an id.
    Privacy: that it stopped is an exact bit about the rows; no column is named (derivations, section 11).
    """
    if found.asks(share):
        stated = "more rows of a column do not fit the contract than a scheduled run lets pass"
        remedy = (
            "sudare check SPEC shows you alone which; correct the contract, or set [run] schedule_stops_above in "
            "sudare.toml, at which every later run stops"
        )
        allowed = f"at most {percent(share)} of the rows of a column"
        raise GateBroken([Finding("the source", MISFITS_GATE, stated, allowed, remedy)])


def looked(run: RunFolder, request: Request, workspace: Workspace, table: PrivateTable) -> Misfits:
    """Count how the rows fit and what the spec's clips cut, and write the private page."""
    found = misfits(table, request.contract, folder=run.path, memory_limit=workspace.memory_limit)
    cut = clip_misfits(table, request.contract, request.spec.product, workspace.asks_above)
    found = replace(found, clips=cut)
    write_misfits(found, release=request.spec.release, share=workspace.asks_above, folder=run.path)
    return found
