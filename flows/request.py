"""What a run is asked for: the spec, its contract and the plan, read and checked before any data are touched."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from contracts.contract.contract import Contract
from contracts.contract.odcs import load_contract
from contracts.errors import SpecRefused
from contracts.periods.time_blocks import TimeBlock, time_block
from contracts.reading.scalars import Problem
from contracts.release.address import is_address
from contracts.release.spec import ModelProduct, ReleaseSpec, SyntheticProduct, TablesProduct, load_spec
from contracts.release.spec_checks import check_spec
from contracts.release.tables.product import AUTO
from privacy.accounting.amounts import PICO
from privacy.accounting.calculus import PureCalculus
from privacy.generators.calibration import MultiplierRange
from privacy.generators.release_plan import FittedPlan
from privacy.ledger.errors import LedgerRefusal
from privacy.ledger.terms import Charge
from privacy.table_plans.plan import TablesPlan, plan_tables
from tasks.products.classifier.classifier_plan import read_model_request
from tasks.products.synthetic.synthetic_plan import read_synthetic
from tasks.storage.workspace.settings import Workspace

NO_ROWS = Problem("an engine for a product that may read rows", "an engine for kind: tables", "drop it")


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
    plan: TablesPlan | FittedPlan[Any]

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
    contract = load_contract(spec.contract)
    findings = check_spec(spec, contract)
    if findings:
        raise SpecRefused(findings)
    if spec.source.engine is not None and not isinstance(spec.product, TablesProduct):
        raise SpecRefused([spec.finding(("source", "engine"), NO_ROWS)])
    return planned_request(spec, contract, workspace)


def planned_request(spec: ReleaseSpec, contract: Contract, workspace: Workspace | None = None) -> Request:
    """Plan a release whose spec fits its contract; arguments and refusals as for `read_request`."""
    if not isinstance(spec.product, TablesProduct):
        if workspace is None:
            return _fitted(spec, contract)
        plain = _fitted(spec, contract, noise_epsilon=Fraction(spec.charge.epsilon))
        return _fitted(spec, contract, rooms=_rooms(plain, workspace))
    plan = plan_tables(spec, contract)
    if spec.product.mechanism == AUTO and plan.mechanism == "gaussian" and workspace is not None:
        plan = plan_tables(spec, contract, pure_account=_pays_a_pure_account(spec, contract, workspace))
    return Request(spec, contract, plan)


def as_charged(request: Request, charge: Charge | None) -> Request:
    """Return the request with the noise of a charge that its run has already; it says what the charge says.

    What the accounts have left decides how much noise a plan takes, and a run that resumes finds less left.
    """
    if charge is None or isinstance(request.plan, TablesPlan):
        return request
    charged = charge.request.noise_epsilon
    noise = Fraction(request.spec.charge.epsilon) if charged is None else Fraction(charged, PICO)
    return _fitted(request.spec, request.contract, noise_epsilon=noise)


def _fitted(spec: ReleaseSpec, contract: Contract, **noise: Any) -> Request:
    """Plan what is fitted to noisy values, with its options as they were understood."""
    if isinstance(spec.product, SyntheticProduct):
        understood, planned = read_synthetic(spec, spec.product, contract, **noise)
        return Request(understood, contract, planned)
    if isinstance(spec.product, ModelProduct):
        read, made = read_model_request(spec, spec.product, contract, **noise)
        return Request(read, contract, made)
    raise TypeError("tables of counts are not fitted")


def _rooms(request: Request, workspace: Workspace) -> tuple[MultiplierRange, ...]:
    """Say what each account that would pay has left; nothing where the charge will be refused, later and in words."""
    from tasks.products.charge_request import request_for

    with closing(workspace.open_ledger()) as ledger:
        try:
            accounts = ledger.price(request_for(request.spec, request.contract, request.plan)).accounts
        except LedgerRefusal:
            return ()
    return tuple(MultiplierRange(state.terms.calculus, state.remaining) for state in accounts)


def _pays_a_pure_account(spec: ReleaseSpec, contract: Contract, workspace: Workspace) -> bool:
    """Say whether an account that would pay is pure; a charge that is refused is refused later, in words."""
    from tasks.products.charge_request import request_for

    laplace = plan_tables(spec, contract, pure_account=True)
    with closing(workspace.open_ledger()) as ledger:
        try:
            accounts = ledger.price(request_for(spec, contract, laplace)).accounts
        except LedgerRefusal:
            return False
    return any(isinstance(state.terms.calculus, PureCalculus) for state in accounts)
