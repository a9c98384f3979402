"""All that a run knows about itself when it ends: the only source of the audit record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from contracts.contract.contract import Contract
from contracts.release.spec import ReleaseSpec
from contracts.release.terms import About
from privacy.accounting.claim import release_claim
from privacy.classifiers.trainer import ClassificationTask
from privacy.evaluation.against_noisy import Distance, distance
from privacy.generators.calibration import FittedPlan
from privacy.generators.generator import SynthesisTask
from privacy.grant.measurement import Measurement
from privacy.ledger.entries import Entry
from privacy.ledger.terms import AccountState, Charge, VersionEntry
from privacy.marginals.counts import coarser_counts
from privacy.refine.tables import NoisySum
from privacy.statistics.plan import StatisticsPlan
from privacy.table_plans.plan import TablesPlan
from tasks.records.model.across_statements import ExecutionStatement
from tasks.records.model.approval_statements import ApprovalsStatement
from tasks.records.outputs import (
    DenseTable,
    DrawnTables,
    EarlierVersion,
    Fit,
    Plan,
    ReleasedStatistics,
    ReleasedTable,
    Synthesis,
    TrainedClassifier,
    WriteFiles,
)
from tasks.records.software import Software


@dataclass(frozen=True)
class CheckOutcome:
    """Whether one expectation of the contract held; auditor-only unless it is a declared gate.

    Args:
        name: name of the check ("domain:age").
        passed: pass or fail, and nothing else.
        gate: whether the contract declares it a gate.
    """

    name: str
    passed: bool
    gate: bool


@dataclass(frozen=True)
class Outputs:
    """What a run made, by the kind of its product.

    Args:
        measurements: what was drawn for tables.
        tables: the refined tables.
        synthesis: what a generator made.
        classifier: what a trainer made.
        statistics: what was drawn for statistics, and their tables.
        made: what any other kind of product made, with all that was drawn for it.
    """

    measurements: tuple[DrawnTables, ...] = ()
    tables: tuple[ReleasedTable, ...] = ()
    synthesis: Synthesis | None = None
    classifier: TrainedClassifier | None = None
    statistics: ReleasedStatistics | None = None
    made: Fit | None = None


@dataclass(frozen=True)
class RunFacts:
    """A finished run, before publication.

    Args:
        run_key: the run.
        spec: the release spec.
        contract: the contract.
        plan: what was planned.
        charge: the charge, with what the noise was drawn from.
        account: the account that the spec names, as this charge left it; what came later is not in it.
        other_accounts: the other accounts of these people, which were charged as well, as this charge left them.
        earlier: the charges that the named account had before this one.
        entries: the run's journal entries so far: the charge, the opening, every draw.
        total: the measured total, where one was drawn.
        estimated_total: the average of all tables' sums, where tables keep that.
        measurements: what was drawn for tables, in order.
        tables: the refined tables with their measurements; none of a synthetic release.
        synthesis: what a synthetic release's generator made; None for others.
        outcomes: outcome of each expectation.
        version: which version this will be, as it stands before its publication.
        supersedes: number of the version before, if any.
        started: the hour in which the run was charged (ISO 8601, UTC).
        finished: the hour in which the measurements were complete.
        software: what computed it.
        pld_epsilon: ε by the second accountant, where it applies.
        earlier_version: the version on which λ was chosen, if one was.
        about: what is declared about the release.
        flow_run: the orchestrator's ids of the flow run and its deployment; for auditors.
        classifier: what the trainer of a release of a classifier made; None for others.
        attempt: when the attempt that publishes began, and had measured; to the second, for auditors.
        execution: how it was made across sites; None where it was made in one place.
        write: writes the files of a release across sites.
        statistics: what a release of statistics publishes; None for others.
        approvals: who approved the plan before the charge; None where no approval was asked for.
        made: what a release of any other kind publishes; None for those above.
    """

    run_key: str
    spec: ReleaseSpec
    contract: Contract
    plan: Plan
    charge: Charge
    account: AccountState
    other_accounts: tuple[AccountState, ...]
    earlier: tuple[Charge, ...]
    entries: tuple[Entry, ...]
    total: Measurement | None
    estimated_total: NoisySum | None
    measurements: tuple[DrawnTables, ...]
    tables: tuple[ReleasedTable, ...]
    synthesis: Synthesis | None
    outcomes: tuple[CheckOutcome, ...]
    version: VersionEntry
    supersedes: int | None
    started: str
    finished: str
    software: Software
    pld_epsilon: float | None
    earlier_version: EarlierVersion | None = None
    about: About = field(default_factory=About)
    flow_run: dict[str, str] | None = None
    classifier: TrainedClassifier | None = None
    attempt: tuple[str, str] | None = None
    execution: ExecutionStatement | None = None
    write: WriteFiles | None = None
    statistics: ReleasedStatistics | None = None
    approvals: ApprovalsStatement | None = None
    made: Fit | None = None

    @property
    def of_tables(self) -> bool:
        """Whether tables of counts are published that were measured in one place, and not what was fitted."""
        others = (self.synthesis, self.classifier, self.statistics, self.made, self.execution)
        return all(each is None for each in others)

    @cached_property
    def distances(self) -> dict[str, Distance]:
        """How far published counts, or those that a model expects, lie from the noisy ones, by key of the draw."""
        if self.synthesis is not None:
            made = self.synthesis
            return {
                each.key: distance(coarser_counts(each.coarsening, made.model.marginal(each.clique)), each.values)
                for each in made.fitted.measurements
            }
        return {
            table.measurement.key: distance(table.refined.values, table.measurement.values, table.kept)
            for table in self.tables
            if isinstance(table, DenseTable)
        }

    @property
    def claim_source(self) -> str:
        """Which derivation gives the claimed ε (`release_claim`); it needs the second accountant."""
        return release_claim(self.charge.request.events, self.charge.request.delta).by

    @property
    def tables_plan(self) -> TablesPlan:
        """The plan of a release of tables.

        Raises:
            TypeError: the release publishes something else.
        """
        if not isinstance(self.plan, TablesPlan):
            raise TypeError("the release publishes no tables")
        return self.plan

    @property
    def synthetic(self) -> tuple[FittedPlan[SynthesisTask], Synthesis]:
        """The plan of a release of synthetic rows, and what was made.

        Raises:
            TypeError: the release publishes something else.
        """
        if not isinstance(self.plan, FittedPlan) or self.synthesis is None:
            raise TypeError("the release publishes no synthetic rows")
        return self.plan, self.synthesis

    @property
    def trained(self) -> tuple[FittedPlan[ClassificationTask], TrainedClassifier]:
        """The plan of a release of a classifier, and what was made.

        Raises:
            TypeError: the release publishes something else.
        """
        if not isinstance(self.plan, FittedPlan) or self.classifier is None:
            raise TypeError("the release publishes no model")
        return self.plan, self.classifier

    @property
    def summarized(self) -> tuple[StatisticsPlan, ReleasedStatistics]:
        """The plan of a release of statistics, and what was made.

        Raises:
            TypeError: the release publishes something else.
        """
        if not isinstance(self.plan, StatisticsPlan) or self.statistics is None:
            raise TypeError("the release publishes no statistics")
        return self.plan, self.statistics

    @property
    def fit(self) -> tuple[Any, Fit]:
        """The plan of a release of anything but tables of counts, and what was made.

        Raises:
            TypeError: the release publishes such tables.
        """
        if self.made is not None:
            return self.plan, self.made
        if self.statistics is not None:
            return self.summarized
        return self.trained if self.classifier is not None else self.synthetic


def reservation(entries: Sequence[Entry]) -> dict[str, dict[str, int]]:
    """Return what the run's charge took from each account: amount, before and after, by name of the account.

    Of a charge that was returned and reserved again the last reservation counts.
    """
    body = next(entry.body for entry in reversed(entries) if entry.kind == "charge_reserved")
    return {part["account"]: part for part in body["parts"]}
