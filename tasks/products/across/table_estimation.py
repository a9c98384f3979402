"""A model estimated from noisy tables over all sites, as AIM's is from its measurements. Post-processing."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from privacy.federation.rounds import RoundSum
from privacy.generators.fitting import zeros
from privacy.generators.models import PublishedModel
from privacy.generators.options import Options
from privacy.marginals.estimation import estimate
from privacy.marginals.measured import Measured, estimate_total
from tasks.products.across.federation import Federation
from tasks.products.across.generator_terms import estimated_of


def estimated_model(federation: Federation, rounds: Sequence[RoundSum]) -> PublishedModel:
    """Fit a graphical model to the tables.

    A table counts the rows of the sites that took part in its round.

    Args:
        federation: the federation.
        rounds: the noisy tables, in order.
    Raises:
        ValueError: tables of another form.
    """
    terms, contract = federation.spec.generator, federation.contract
    if terms is None:
        raise TypeError(f"federation {federation.spec.federation} makes no rows")
    asked, cliques = estimated_of(federation.spec, terms, contract), federation.counting.cliques
    measured = [
        measured_table(federation, number, each) for number, each in zip(range(len(cliques)), rounds, strict=True)
    ]
    total = float(asked.public_total) if asked.public_total is not None else estimate_total(measured)
    found = estimate(
        asked.domain,
        measured,
        total=max(total, 1.0),
        structural_zeros=zeros(asked),
        cap_mb=Options().max_model_megabytes,
    )
    return PublishedModel.of(found.model, max(0, round(total)))


def measured_table(federation: Federation, number: int, summed: RoundSum) -> Measured:
    """Return a table in rows, with the variance of its noise: of all shares that are in it."""
    plan = federation.counting
    clique = plan.cliques[number]
    values = summed.steps.reshape(federation.shape(clique)) / 2.0**plan.fine_bits
    return Measured(clique, values, float(fine_noise(federation, summed)) / 4.0**plan.fine_bits)


def fine_noise(federation: Federation, summed: RoundSum) -> Fraction:
    """Return the parameter of the noise of a sum: of all shares that are in it [fine units squared]."""
    plan = federation.counting
    return plan.fine_variance if plan.trust.noise == "server" else plan.share_variance * sum(summed.present)
