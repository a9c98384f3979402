"""Which refinement errs least, judged from the noisy values alone.

The judge is the posterior whose means have the least unbiased risk (`unbiased_risk`). Under it the expected squared
error of any table is known without drawing: the variance of the truth plus the squared distance to its mean, cell by
cell. That is the limit, for many draws, of the parametric bootstrap that redraws truths given the noisy values.
Source: Efron 2014, "Two modeling strategies for empirical Bayes estimation": risk from the fitted prior.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.events import CountNoise
from privacy.arrays import Numbers
from privacy.refine.empirical_bayes import empirical_bayes, unbiased_risk
from privacy.refine.posterior import Posterior, check_total, refine_posterior
from privacy.refine.simplex import project_simplex, round_to_total
from privacy.refine.spatial import spatial_bayes


@dataclass(frozen=True)
class Choice:
    """The table of the method that errs least, as far as the noisy values tell.

    Args:
        method: its name.
        table: refined counts [units].
        risks: estimated RMSE of each candidate [units].
        posterior: the judge; its intervals go with the table.
    """

    method: str
    table: Numbers
    risks: Mapping[str, float]
    posterior: Posterior


def estimate_risk(table: Numbers, posterior: Posterior) -> float:
    """Return the RMSE that the posterior expects of a refined table [units].

    Raises:
        ValueError: table and posterior differ in shape.
    Privacy: post-processing.
    """
    if table.shape != posterior.codes.shape:
        raise ValueError(f"table must have the shape {posterior.codes.shape}, not {table.shape}")
    if table.size == 0:
        return 0.0
    gap = posterior.mean[posterior.codes]
    np.subtract(table, gap, out=gap)
    spread = float(np.sum(posterior.cells() * posterior.variance))
    return sqrt((spread + float(np.vdot(gap, gap))) / table.size)


def refine_auto(
    noisy: NDArray[np.int64],
    event: CountNoise,
    *,
    total: int,
    axes: int,
    integers: bool,
    others: Mapping[str, Numbers] | None = None,
) -> Choice:
    """Refine by the method of the least estimated risk: simplex, empirical_bayes, spatial, or one of `others`.

    Args:
        noisy: exact counts plus independent noise, whole numbers [units].
        event: the noise.
        total: sum to reach, ≥ 0 [units].
        axes: how many of the last axes are ordered: 0, 1 or 2.
        integers: whole numbers.
        others: tables refined elsewhere that compete, by name.
    Returns:
        Choice.
    Raises:
        ValueError: an argument out of range, as in the methods themselves.
    Privacy: post-processing; deterministic.
    """
    if axes not in (0, 1, 2):
        raise ValueError(f"axes must be 0, 1 or 2, not {axes}")
    check_total(total, noisy.size)
    posteriors = {"empirical_bayes": empirical_bayes(noisy, event)}
    if axes:
        posteriors["spatial"] = spatial_bayes(noisy, event, axes=axes)
    tables: dict[str, Numbers] = dict(others or {})
    projected = project_simplex(noisy, total)
    tables["simplex"] = round_to_total(projected, total) if integers else projected
    unbiased = {name: unbiased_risk(noisy, each, event) for name, each in posteriors.items()}
    # The judge must not be a party: it is chosen by an estimate of its error that trusts no prior.
    best = min(unbiased, key=lambda name: unbiased[name])
    for name, each in posteriors.items():
        tables[name] = refine_posterior(each, total=total, integers=integers)
    risks = {name: estimate_risk(table, posteriors[best]) for name, table in tables.items()}
    # A tie goes to a table that refines, and to the judge's own.
    chosen = min(risks, key=lambda name: (risks[name], name == "none", name != best))
    return Choice(chosen, tables[chosen], risks, posteriors[best])
