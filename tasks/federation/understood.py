"""What a federation spec means: learner, layout and plan. Every party works them out from its own copy."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from contracts.contract import Contract
from contracts.errors import SpecRefused
from contracts.federation import FederationSpec, check_federation
from contracts.odcs import load_contract
from privacy.accounting.amounts import delta_up, loss_up
from privacy.accounting.convert import best_epsilon
from privacy.accounting.events import Event
from privacy.federation.plan import FederatedPlan, Trust, planned
from privacy.learning.layout import RowLayout, row_layout
from privacy.learning.learners import Classifier
from privacy.learning.network import perceptron
from privacy.learning.optimizer import Adam
from privacy.ledger.terms import ChargeRequest


@dataclass(frozen=True)
class Federation:
    """A federation as it is understood.

    Args:
        spec: the spec.
        contract: the contract that this party has.
        layout: how rows lie in vectors.
        learner: what is trained.
        plan: sites, trust, sampling, clipping and noise.
    """

    spec: FederationSpec
    contract: Contract
    layout: RowLayout
    learner: Classifier
    plan: FederatedPlan

    def request(
        self, events: tuple[Event, ...], *, run_key: str, account: str, source: str, snapshot_hash: str
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
        CannotTrain: no such training can be planned.
    Privacy: reads no data.
    """
    contract = load_contract(contract_path)
    findings = check_federation(spec, contract)
    if findings:
        raise SpecRefused(findings)
    terms, training = spec.learner, spec.training
    layout = row_layout(contract, terms.columns)
    label = layout.column(terms.label)
    network = perceptron(layout.width - label.width, *terms.hidden, outputs=label.width)
    learner = Classifier(network, terms.label, Adam(float(terms.learning_rate), decay="linear"), terms.seed)
    learner.check(layout)
    plan = planned(
        tuple(site.name for site in spec.sites),
        tuple(site.rows_about for site in spec.sites),
        Trust(**dict(spec.trust)),
        rounds=training.rounds,
        batch=training.batch,
        clipping_norm=Fraction(training.clipping_norm),
        reserve=training.reserve,
        epsilon=spec.charge.epsilon,
        delta=Fraction(spec.charge.delta),
    )
    return Federation(spec, contract, layout, learner, plan)
