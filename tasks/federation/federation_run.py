"""What a federation spec means: learner, layout and plan. Every party works them out from its own copy."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path

from contracts.canonical import digest
from contracts.contract.contract import Contract
from contracts.contract.impossible_cells import Clique
from contracts.contract.odcs import load_contract
from contracts.errors import SpecRefused
from contracts.release.federation_spec import FederationSpec, TablesTerms, check_federation
from privacy.accounting.amounts import delta_up, loss_up
from privacy.accounting.calibrate import gaussian_sigma_squared
from privacy.accounting.convert import best_epsilon, rho_for
from privacy.accounting.events import PrivacyEvent
from privacy.federation.counting import CountingPlan
from privacy.federation.phases import PhasedPlan
from privacy.federation.plan import FederatedPlan, Trust, planned
from privacy.generators.p3gm_across import P3gmAcross
from privacy.learning.layout import RowLayout, row_layout
from privacy.learning.learners import Classifier
from privacy.learning.network import perceptron
from privacy.learning.optimizer import Adam
from privacy.ledger.terms import ChargeRequest
from privacy.marginals.sensitivity import marginal_moves
from tasks.federation.generator_terms import Parties, check_estimation, generator_across


@dataclass(frozen=True)
class Federation:
    """A federation as it is understood.

    Args:
        spec: the spec.
        contract: the contract that this party has.
        plan: sites, trust, and how a model is trained or tables are counted.
        trained: how rows lie in vectors, and what is trained; None where no classifier is.
        generated: what released sums are made into; None where no rows are made.
    """

    spec: FederationSpec
    contract: Contract
    plan: FederatedPlan | CountingPlan | PhasedPlan
    trained: tuple[RowLayout, Classifier] | None
    generated: P3gmAcross | None = None

    @property
    def training(self) -> tuple[RowLayout, Classifier, FederatedPlan]:
        """Layout, learner and plan of a training.

        Raises:
            TypeError: no classifier is trained.
        """
        if self.trained is None or not isinstance(self.plan, FederatedPlan):
            raise TypeError(f"federation {self.spec.federation} trains no classifier")
        return (*self.trained, self.plan)

    @property
    def counting(self) -> CountingPlan:
        """The plan of tables.

        Raises:
            TypeError: no tables are counted.
        """
        if not isinstance(self.plan, CountingPlan):
            raise TypeError(f"federation {self.spec.federation} counts no tables")
        return self.plan

    @property
    def run_key(self) -> str:
        """Key of the coordinator's run: the same spec under the same contract is the same run."""
        told = {"spec": self.spec.digest, "contract": self.contract.digest}
        return f"{self.spec.federation}-{digest(told)[:24]}"

    @cached_property
    def digests(self) -> dict[str, str]:
        """Digests of spec, contract and plan, which are one and the same for all parties.

        The plan is worked out by each party, and another version may work out another: other noise, or other units.
        """
        return {
            "spec": self.spec.digest,
            "contract": self.contract.digest,
            "plan": digest(self.plan.to_json()),
        }

    def shape(self, clique: Clique) -> tuple[int, ...]:
        """Cells along each column of a table."""
        return tuple(self.contract.column(name).size for name in clique)

    def request(
        self, events: tuple[PrivacyEvent, ...], *, run_key: str, account: str, source: str, snapshot_hash: str
    ) -> ChargeRequest:
        """Return a charge: of a site, or of the coordinator."""
        delta = Fraction(self.spec.charge.delta)
        return ChargeRequest(
            run_key=run_key,
            account=account,
            source=source,
            release=self.spec.federation,
            spec_digest=self.spec.digest,
            contract_digest=self.contract.digest,
            snapshot_hash=snapshot_hash,
            adjacency=self.contract.adjacency,
            unit=self.contract.unit.column or "row",
            scope=self.contract.unit.scope,
            rows_per_unit=self.contract.unit.max_rows_per_unit,
            events=events,
            epsilon=loss_up(best_epsilon(events, delta)[0]),
            delta=delta_up(delta),
        )


def understood(spec: FederationSpec, contract_path: Path) -> Federation:
    """Work out learner, layout and plan.

    Args:
        spec: the federation spec.
        contract_path: this party's copy of the contract.
    Raises:
        SpecRefused, ContractRefused: it does not fit the contract.
        CannotTrain, CannotGenerate: no such training can be planned.
    Privacy: reads no data.
    """
    contract = load_contract(contract_path)
    findings = check_federation(spec, contract)
    if findings:
        raise SpecRefused(findings)
    trust, sites = Trust(**dict(spec.trust)), tuple(site.name for site in spec.sites)
    rows_about = tuple(site.rows_about for site in spec.sites)
    tables = spec.tables if spec.generator is None else spec.generator.tables
    if tables is not None:
        if spec.generator is not None:
            check_estimation(spec, spec.generator, contract, tables.cliques)
        return Federation(spec, contract, _counting(spec, tables, contract, sites, rows_about, trust), None)
    terms, training = spec.learner, spec.training
    if spec.generator is not None and training is not None:
        generated = generator_across(spec, spec.generator, training, contract, Parties(sites, rows_about, trust))
        return Federation(spec, contract, generated.plan, None, generated)
    if terms is None or training is None:
        raise TypeError("a federation trains a model, makes rows or counts tables")
    layout = row_layout(contract, terms.columns)
    label = layout.column(terms.label)
    network = perceptron(layout.width - label.width, *terms.hidden, outputs=label.width)
    learner = Classifier(network, terms.label, Adam(float(terms.learning_rate), decay="linear"), terms.seed)
    learner.check(layout)
    plan = planned(
        sites,
        rows_about,
        trust,
        rounds=training.rounds,
        batch=training.batch,
        clipping_norm=Fraction(training.clipping_norm),
        reserve=training.reserve,
        epsilon=spec.charge.epsilon,
        delta=Fraction(spec.charge.delta),
    )
    return Federation(spec, contract, plan, (layout, learner))


def _counting(
    spec: FederationSpec,
    terms: TablesTerms,
    contract: Contract,
    sites: tuple[str, ...],
    rows_about: tuple[int, ...],
    trust: Trust,
) -> CountingPlan:
    """Share the charge out over the tables and the reserve, evenly."""
    draws, unit = len(terms.cliques) + terms.reserve, contract.unit.max_rows_per_unit
    rho = rho_for(spec.charge.epsilon, Fraction(spec.charge.delta)) / draws
    moves = marginal_moves(contract.adjacency, unit * trust.sites_per_person)
    variance = gaussian_sigma_squared(rho, moves)
    return CountingPlan(terms.cliques, variance, contract.adjacency, unit, sites, rows_about, trust, terms.reserve)
