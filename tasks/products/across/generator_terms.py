"""What the `generator` of a federation spec means: options, sums and training, worked out without data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from pydantic import ValidationError

from contracts.contract.contract import Contract
from contracts.contract.impossible_cells import Clique
from contracts.errors import Finding, SpecRefused
from contracts.reading.scalars import nearest, word_list
from contracts.release.federation_spec import FederationTerms, GeneratorTerms, TrainingTerms
from privacy.federation.plan import Trust
from privacy.generators.generator import SynthesisTask
from privacy.generators.latent_options import PhasedOptions
from privacy.generators.options import Options
from privacy.generators.p3gm_across import FEDERATED, Across, P3gmAcross
from privacy.generators.planning import check, check_size
from privacy.generators.release_plan import task_of


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
                Finding(
                    where,
                    ".".join((field, *map(str, each["loc"]))),
                    "another value",
                    each["msg"],
                )
                for each in error.errors(include_input=False, include_url=False)
            ]
        ) from None
