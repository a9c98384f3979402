"""What a run is asked for: the spec, its contract and the plan, read and checked before any data are touched."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from contracts.contract.contract import Contract
from contracts.errors import SpecRefused
from contracts.periods.time_blocks import TimeBlock, time_block
from contracts.plug_ins import PlugInAway
from contracts.reading.scalars import FieldPath, Problem, word_list
from contracts.release.address import is_address, read_address
from contracts.release.engine_kinds import engine_kind
from contracts.release.linked_source import contract_of
from contracts.release.product_kinds import BUILT_IN
from contracts.release.spec import ReleaseSpec, load_spec
from contracts.release.spec_checks import check_spec
from privacy.generators.latent import TrainingOptions
from privacy.learning.network import CannotTrain
from privacy.learning.plan import Execution
from privacy.ledger.entries import LedgerRefusal
from privacy.ledger.terms import AccountState, Charge
from tasks.products.charge_request import request_for
from tasks.products.product_kind import Needs, planning_of
from tasks.records.model.draw_kinds import GROUP as DRAWS
from tasks.records.model.draw_kinds import draw_kinds
from tasks.storage.source_engine import SourceEngine
from tasks.storage.workspace.settings import Workspace

if TYPE_CHECKING:
    from tasks.records.outputs import Plan


NO_ROWS = Problem(
    "an engine for a product that reads more than counts and sums of cells",
    "an engine for kind: tables, hierarchies, statistics of declared groups, and synthetic rows of marginals",
    "drop it",
)


@dataclass(frozen=True)
class Request:
    """A release that was asked for.

    Args:
        spec: the release spec.
        contract: its contract.
        plan: what will be measured, at what cost.
    """

    spec: ReleaseSpec
    contract: Contract
    plan: Plan

    @property
    def days(self) -> TimeBlock | None:
        """The days of its period; None for a spec of one release."""
        return None if self.spec.block is None else time_block(self.spec.block)

    def store(self, workspace: Workspace) -> Path:
        """Return the release store: `publish.to` of the spec, from the workspace's root where it is relative.

        Where that is an address, versions become whole in the workspace's own store, and are copied from there.
        """
        return workspace.releases if self.copy_to is not None else workspace.root / self.spec.written_paths[2]

    @property
    def copy_to(self) -> str | None:
        """The address that versions are copied to, or None."""
        written = self.spec.written_paths[2]
        return written if is_address(written) else None


def read_request(
    path: Path, workspace: Workspace | None = None, period: str | None = None, due: str | None = None
) -> Request:
    """Read a spec and its contract, hold one against the other, and plan the release.

    Args:
        path: the release spec.
        workspace: whose ledger knows the accounts; asked only where `mechanism: auto` could take Gaussian noise.
        period: which period, for a spec with `period:` (2024-Q3).
        due: the date that the run is due on, for a spec with `redraw: on_schedule`.
    Raises:
        SpecRefused: the spec cannot be followed.
        ContractRefused: the contract is incomplete.
    Privacy: reads no data.
    """
    spec = load_spec(path, period, due)
    if workspace is not None:
        workspace.open_ledger(create=False).close()  # one that is gone is refused, and none is made in its place
    contract = contract_of(spec)
    findings = check_spec(spec, contract)
    if findings:
        raise SpecRefused(findings)
    if spec.source.engine is not None and (spec.product.reads_rows or spec.product.reads_texts(contract)):
        raise SpecRefused([spec.finding(("source", "engine"), NO_ROWS)])
    return planned_request(spec, contract, workspace)


def planned_request(spec: ReleaseSpec, contract: Contract, workspace: Workspace | None = None) -> Request:
    """Plan a release whose spec fits its contract; arguments and refusals as for `read_request`."""
    payers = None if workspace is None else partial(_payers, workspace, contract)
    understood, plan = planning_of(spec.product.kind).plan(spec, contract, payers)
    return Request(understood, contract, plan)


def check_recorded(request: Request) -> None:
    """Refuse what no record could state: it would be charged, and never published.

    Raises:
        SpecRefused: the kind of product is a package's; those can be planned alone.
        PlugInAway: a package brings a kind of draw without the form in which it is published.
    """
    # A plan asks no kind of draw; only a run, whose charge is at stake, loads them.
    from privacy.grant.queries.kinds import BUILT_IN as BUILT_IN_QUERIES
    from privacy.grant.queries.kinds import query_kinds

    kind = request.spec.product.kind
    if kind not in BUILT_IN:
        problem = Problem(f"kind {kind}, which has no audit record", word_list(tuple(BUILT_IN)), "plan it only")
        raise SpecRefused([request.spec.finding(("product", "kind"), problem)])
    for query in set(query_kinds()) - set(BUILT_IN_QUERIES):
        if query.kind not in draw_kinds():
            found = f"the kind of draw {query.kind!r} of {query.__module__}, which no version can hold"
            raise PlugInAway(found, f"a form and checks for it, registered under {DRAWS}")


def as_charged(request: Request, charge: Charge | None) -> Request:
    """Return the request with the noise of a charge that its run has already; it says what the charge says.

    What the accounts have left decides how much noise a plan takes, and a run that resumes finds less left.
    """
    if charge is None:
        return request
    kind, noise = planning_of(request.spec.product.kind), charge.request.noise_epsilon
    understood, plan = kind.planned_again(request.spec, request.contract, request.plan, noise)
    return Request(understood, request.contract, plan)


def _payers(workspace: Workspace, contract: Contract, spec: ReleaseSpec, plan: Plan) -> tuple[AccountState, ...]:
    """Return each account that would pay; none where the charge will be refused, later and in words."""
    with closing(workspace.open_ledger()) as ledger:
        try:
            return ledger.price(request_for(spec, contract, plan)).accounts
        except LedgerRefusal:
            return ()


# --- Whether this machine can make a release at all.


_MEGABYTE: Final = 2**20
_LEAST_DISK: Final = 100
"""Megabytes that must be free for a ledger, a snapshot and a small version."""
_NOTHING: Final = "nothing was charged"


def check_capacity(request: Request, workspace: Workspace | None) -> None:
    """Refuse a release that this machine cannot make. Reads no row, charges nothing.

    Raises:
        SpecRefused: with what is missing, and how to get it.
    """
    wrong = [*_software(request), *_engine(request, workspace), *_memory(request), *_disk(request, workspace)]
    if wrong:
        raise SpecRefused([request.spec.finding(at, problem) for at, problem in wrong])


def _software(request: Request) -> Iterator[tuple[FieldPath, Problem]]:
    """Find libraries that cannot be imported, and a device that is not there."""
    spec = request.spec
    options = _needs(request).options
    if isinstance(options, TrainingOptions):
        try:
            Execution(options.device, options.rows_at_once).chosen_device()
        except CannotTrain as refused:
            at: FieldPath = ("product", "options", "device") if refused.what == "device" else ("product",)
            remedy = "install it: make neural" if refused.what == "torch" else "choose device: cpu"
            yield at, Problem(f"{refused.what} {refused.found}", refused.allowed, f"{remedy}; {_NOTHING}")
    needed: list[tuple[FieldPath, str, str]] = []
    for at, written in ((("source", "path"), spec.written_paths[1]), (("publish", "to"), spec.written_paths[2])):
        package = read_address(written).package if is_address(written) else None
        if package is not None:
            needed.append((at, *package))
    for at, module, extra in needed:
        try:
            import_module(module)
        except ImportError:
            remedy = f'pip install "sudare[{extra}]"; {_NOTHING}'
            yield at, Problem(f"{module} is not installed here", f"an installation with the extra {extra}", remedy)


def _engine(request: Request, workspace: Workspace | None) -> Iterator[tuple[FieldPath, Problem]]:
    """Find what the engine says that it lacks."""
    name = request.spec.source.engine
    if name is not None and (lacks := engine_kind(name, SourceEngine).missing(workspace)) is not None:
        yield ("source", "engine"), replace(lacks, remedy=f"{lacks.remedy}; {_NOTHING}")


def _memory(request: Request) -> Iterator[tuple[FieldPath, Problem]]:
    """Compare what the plan foretells with the machine's memory."""
    needs, have = _needs(request), memory_megabytes()
    wanted, at = needs.megabytes, needs.at
    if wanted > have:
        remedy = f"take fewer cells, a smaller model or batch, or a larger machine; {_NOTHING}"
        yield at, Problem(f"about {wanted:,.0f} MB of memory", f"at most {have:,.0f} MB, which it has", remedy)


def _disk(request: Request, workspace: Workspace | None) -> Iterator[tuple[FieldPath, Problem]]:
    """Find too little room for what is written."""
    if workspace is None:
        return
    wanted = _LEAST_DISK + _needs(request).disk_megabytes
    for folder in dict.fromkeys((workspace.root, request.store(workspace))):
        free = free_megabytes(folder)
        if free < wanted:
            remedy = f"make room below {folder}; {_NOTHING}"
            yield ("publish", "to"), Problem(f"{free:,.0f} MB free", f"at least {wanted:,.0f} MB", remedy)


def _needs(request: Request) -> Needs:
    return planning_of(request.spec.product.kind).needs(request.plan)


def memory_megabytes() -> float:
    """Return the machine's memory [MB of 2^20 bytes]."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _MEGABYTE


def free_megabytes(folder: Path) -> float:
    """Return what is free where a folder lies, or will lie [MB of 2^20 bytes]."""
    there = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    return shutil.disk_usage(there).free / _MEGABYTE
