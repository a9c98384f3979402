"""What a federation spec means: learner, layout and plan. Every party works them out from its own copy.

So does whoever checks a version, from the terms and the contract that its record states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final

from pydantic import ValidationError

from contracts.canonical import digest
from contracts.contract.contract import Contract
from contracts.contract.impossible_cells import Clique
from contracts.errors import Finding, SpecRefused
from contracts.reading.scalars import nearest, word_list
from contracts.release.classifier import ClassifierProduct
from contracts.release.federation_spec import (
    FederationTerms,
    GeneratorTerms,
    TablesTerms,
    TrainingTerms,
    check_federation,
)
from privacy.accounting.amounts import delta_up, loss_up
from privacy.accounting.events import PrivacyEvent, gaussian_sigma_squared
from privacy.accounting.renyi import best_epsilon, rho_for
from privacy.federation.plan import FederatedPlan, Trust, planned
from privacy.federation.plans import CountingPlan, PhasedPlan, keys
from privacy.generators.calibration import task_of
from privacy.generators.fitting import check, check_size
from privacy.generators.generator import Options, SynthesisTask
from privacy.generators.latent import PhasedOptions
from privacy.generators.p3gm_across import FEDERATED, Across, P3gmAcross
from privacy.learning.layout import RowLayout, row_layout
from privacy.learning.learners import Classifier
from privacy.learning.network import Adam, perceptron
from privacy.ledger.terms import ChargeRequest
from privacy.marginals.sensitivity import marginal_moves

# --- What the `generator` of a federation spec means.


@dataclass(frozen=True)
class Parties:
    """Sites and trust, as of `FederatedPlan`."""

    sites: tuple[str, ...]
    rows_about: tuple[int, ...]
    trust: Trust


def generator_across(
    spec: FederationTerms,
    terms: GeneratorTerms,
    training: TrainingTerms,
    contract: Contract,
    parties: Parties,
    *,
    where: str,
) -> P3gmAcross:
    """Plan the generator over the sites.

    Raises:
        SpecRefused: options that there are not, or that are not the generator's to set in a federation.
        CannotGenerate, CannotTrain: no such sums or training can be planned.
    Privacy: reads no data.
    """
    options = _options(terms, sum(parties.rows_about), where=where)
    asked = task_of(terms.product, contract, epsilon=spec.charge.epsilon, delta=spec.charge.delta)
    across = Across(
        parties.sites,
        parties.rows_about,
        parties.trust,
        rounds=training.rounds,
        batch=training.batch,
        clipping_norm=Fraction(training.clipping_norm),
        reserve=training.reserve,
        sums_reserve=terms.reserve,
    )
    return P3gmAcross(asked, options, across)


def estimated_of(spec: FederationTerms, terms: GeneratorTerms, contract: Contract) -> SynthesisTask:
    """Return what a model estimated from tables is asked for."""
    return task_of(terms.product, contract, epsilon=spec.charge.epsilon, delta=spec.charge.delta)


def check_estimation(
    spec: FederationTerms, terms: GeneratorTerms, contract: Contract, cliques: Sequence[Clique]
) -> None:
    """Refuse tables whose model would be too large, or that leave no row.

    Raises:
        CannotGenerate: with what to do.
    """
    asked = estimated_of(spec, terms, contract)
    check(asked, Options(), cliques)
    check_size(asked, Options(), cliques, "the cliques together")


def _options(terms: GeneratorTerms, rows_about: int, *, where: str) -> PhasedOptions:
    """Read the options; those of sampling, clipping and rounds are the federation's."""
    allowed, field = sorted(FEDERATED), "generator.options"
    found, of_training = (
        "an option that a federation does not take",
        "what is sampled and clipped stands in `training`",
    )
    findings = [
        Finding(where, f"{field}.{name}", found, word_list(allowed), nearest(name, allowed) or of_training)
        for name in terms.options
        if name not in FEDERATED
    ]
    if findings:
        raise SpecRefused(findings)
    try:
        # labels own components unless it is written: joined ones take more rounds of sums, each asked of all sites
        return PhasedOptions.model_validate({"labels": "components", **terms.options, "rows_about": rows_about})
    except ValidationError as error:
        raise SpecRefused(
            [
                Finding(where, ".".join((field, *map(str, each["loc"]))), "another value", each["msg"])
                for each in error.errors(include_input=False, include_url=False)
            ]
        ) from None


DRAWS: Final = "fed"
"""What the keys of a run's draws begin with, at every party."""


@dataclass(frozen=True)
class Federation:
    """A federation as it is understood.

    Args:
        spec: the spec.
        contract: the contract that this party has.
        plan: sites, trust, and how a model is trained or tables are counted.
        trained: how rows lie in vectors, and what is trained; None where no classifier is.
        generated: what released sums are made into; None where no rows are made.
        where: names the file of the terms, for messages.
    """

    spec: FederationTerms
    contract: Contract
    plan: FederatedPlan | CountingPlan | PhasedPlan
    trained: tuple[RowLayout, Classifier] | None
    generated: P3gmAcross | None = None
    where: str = ""

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
    def rounds(self) -> tuple[tuple[str, PrivacyEvent], ...]:
        """Key and event of the coordinator's draw of each round, in order."""
        plan = self.plan
        if isinstance(plan, PhasedPlan):
            sums, training = keys(DRAWS)
            phases = ((sums, plan.sums), (training, plan.training))
            return tuple(
                (f"{key}/{n:05d}", phase.person_event(n)) for key, phase in phases for n in range(phase.rounds)
            )
        return tuple((f"{DRAWS}/{number:05d}", plan.person_event(number)) for number in range(plan.rounds))

    @property
    def reserves(self) -> dict[str, int]:
        """How many attempts of rounds may be lost, by what the keys of these draws begin with."""
        plan = self.plan
        if isinstance(plan, PhasedPlan):
            sums, training = keys(DRAWS)
            return {sums: plan.sums.reserve, training: plan.training.training.reserve}
        return {DRAWS: plan.training.reserve if isinstance(plan, FederatedPlan) else plan.reserve}

    @cached_property
    def person_epsilon(self) -> int:
        """Return what a person loses at all sites together at most, which is charged [10^-12]."""
        return loss_up(best_epsilon(self.plan.person_events, Fraction(self.spec.charge.delta))[0])

    @property
    def delta(self) -> int:
        """Return delta, at which losses are stated [10^-18]."""
        return delta_up(Fraction(self.spec.charge.delta))

    @cached_property
    def record_epsilon(self) -> int:
        """Return what a record loses at its site at most, at the charge's delta [10^-12]."""
        return loss_up(best_epsilon(self.plan.record_events, Fraction(self.spec.charge.delta))[0])

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
        return {"spec": self.spec.digest, "contract": self.contract.digest, "plan": digest(self.plan.to_json())}

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


def understood(spec: FederationTerms, contract: Contract, *, where: str) -> Federation:
    """Work out learner, layout and plan.

    Args:
        spec: what all parties agree on.
        contract: this party's copy of the contract.
        where: names the spec's file, for findings.
    Raises:
        SpecRefused: it does not fit the contract.
        CannotTrain, CannotGenerate: no such training can be planned.
    Privacy: reads no data.
    """
    findings = check_federation(spec, contract, where=where)
    if findings:
        raise SpecRefused(findings)
    trust, sites = Trust(**dict(spec.trust)), tuple(site.name for site in spec.sites)
    rows_about = tuple(site.rows_about for site in spec.sites)
    tables, product = spec.counted, spec.product
    if tables is not None:
        if spec.generator is not None:
            check_estimation(spec, spec.generator, contract, tables.cliques)
        counting = _counting(spec, tables, contract, sites, rows_about, trust)
        return Federation(spec, contract, counting, None, where=where)
    terms, training = spec.learner, spec.training
    if spec.generator is not None and training is not None:
        generated = generator_across(
            spec, spec.generator, training, contract, Parties(sites, rows_about, trust), where=where
        )
        return Federation(spec, contract, generated.plan, None, generated, where)
    if terms is None or training is None or not isinstance(product, ClassifierProduct):
        raise TypeError("a federation trains a model, makes rows or counts tables")
    layout = row_layout(contract, product.names(contract))
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
    return Federation(spec, contract, plan, (layout, learner), where=where)


def _counting(
    spec: FederationTerms,
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
