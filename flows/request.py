"""What a run is asked for: the spec, its contract and the plan, read and checked before any data are touched."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from contracts.contract import Contract
from contracts.errors import SpecRefused
from contracts.odcs import load_contract
from contracts.spec import ReleaseSpec, check_spec, load_spec
from privacy.marginals.plan import TablesPlan, plan_tables
from tasks.settings import Workspace


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
    plan: TablesPlan

    def store(self, workspace: Workspace) -> Path:
        """Return the release store: `publish.to` of the spec, from the workspace's root where it is relative."""
        return workspace.root / self.spec.written_paths[2]


def read_request(path: Path) -> Request:
    """Read a spec and its contract, hold one against the other, and plan the release.

    Raises:
        SpecRefused: the spec cannot be followed.
        ContractRefused: the contract is incomplete.
    Privacy: reads no data.
    """
    spec = load_spec(path)
    contract = load_contract(spec.contract)
    findings = check_spec(spec, contract)
    if findings:
        raise SpecRefused(findings)
    return Request(spec, contract, plan_tables(spec, contract))
