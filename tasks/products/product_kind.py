"""What every kind of product offers to those who plan, make and write one; the table of kinds names its class.

| who asks | for |
|---|---|
| the reading of a spec | `plan`, `planned_again` |
| `plan`, and a run before it charges | `needs` |
| the flow, once the charge is granted | `steps` |
| the report | `write_files` |
| an attack on shadow releases | `adapted_options` |

What a verification asks of its record is `ProductChecks`; what the console shows, a `ProductView`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import BaseModel

from contracts.contract.contract import Contract
from contracts.reading.scalars import FieldPath
from contracts.release.product_kinds import product_kinds
from contracts.release.spec import ReleaseSpec

if TYPE_CHECKING:  # a plan loads neither the grant nor what writes files
    from privacy.grant.grant import Grant
    from privacy.ledger.terms import AccountState
    from privacy.private_table import PrivateTable
    from tasks.records.facts import RunFacts
    from tasks.records.files.tidy_tables import WrittenFile
    from tasks.records.outputs import EarlierVersion, Plan

Payers = Callable[[ReleaseSpec, "Plan"], "tuple[AccountState, ...]"]
"""Finds the accounts that would pay for a plan; none where the charge will be refused, later and in words."""


@dataclass(frozen=True)
class Needs:
    """What a machine must have to make a release, as its plan foretells.

    Args:
        megabytes: of memory.
        disk_megabytes: of disk.
        at: the key of the spec that decides it.
        options: of what is fitted; None where nothing is.
    """

    megabytes: float
    disk_megabytes: float
    at: FieldPath
    options: BaseModel | None = None


@dataclass(frozen=True)
class Making:
    """What a product is made of, once its charge is granted.

    Args:
        grant: the opened grant of the run.
        spec: the release spec.
        plan: what is drawn.
        table: the snapshot.
        contract: the contract that encoded it.
        folder: the run's private folder; keeps the seed.
        run_key: the run.
        earlier: the version on which λ is chosen, if one is.
    """

    grant: Grant
    spec: ReleaseSpec
    plan: Any
    table: PrivateTable
    contract: Contract
    folder: Path
    run_key: str
    earlier: EarlierVersion | None = None


@dataclass(frozen=True)
class MakingStep:
    """One step of making a product.

    Args:
        name: of the task that a run shows.
        make: takes what is there, and what the step before gave; the last step gives `Outputs`.
    """

    name: str
    make: Callable[[Making, Any], Any]


class ProductPlanning(Protocol):
    """A kind of product, as a release of it is planned; loads nothing that draws or writes."""

    def plan(self, spec: ReleaseSpec, contract: Contract, payers: Payers | None) -> tuple[ReleaseSpec, Plan]:
        """Plan a release without data.

        Args:
            spec: the release spec, which fits its contract.
            contract: its contract.
            payers: finds what the accounts have left; None where no workspace is there.
        Returns:
            tuple: the spec with its options as they were understood, so that their spelling does not count; the plan.
        Raises:
            SpecRefused: an option is wrong, or the plan must fail under this charge.
        """
        ...

    def planned_again(
        self, spec: ReleaseSpec, contract: Contract, plan: Plan, noise_epsilon: int | None
    ) -> tuple[ReleaseSpec, Plan]:
        """Return the plan of a release that is charged already: the accounts hold less by now.

        Args:
            spec, contract: of the release.
            plan: as it is planned now.
            noise_epsilon: ε that its noise was planned for [10⁻¹²]; None for that of the spec.
        """
        ...

    def needs(self, plan: Any) -> Needs:
        """Say what a machine must have."""
        ...

    def adapted_options(self, spec: ReleaseSpec, rows: int) -> tuple[dict[str, Any], list[str]] | None:
        """Return the options for a shadow release of so many rows, and what was changed; None without options."""
        ...


class ProductMaking(Protocol):
    """A kind of product, as a release of it is made and written."""

    steps: tuple[MakingStep, ...]

    def write_files(self, facts: RunFacts, folder: Path, *, marks: Mapping[str, str]) -> tuple[WrittenFile, ...]:
        """Write data and measurements.

        Args:
            facts: the finished run.
            folder: the staging folder of the version.
            marks: what each Parquet file says of its version.
        """
        ...


def planning_of(kind: str) -> ProductPlanning:
    """Return how a kind is planned; only its own module is loaded."""
    planning: ProductPlanning = product_kinds()[kind].load("planning")()
    return planning


def making_of(kind: str) -> ProductMaking:
    """Return how a kind is made and written; only its own module is loaded."""
    making: ProductMaking = product_kinds()[kind].load("making")()
    return making
