"""The refinement methods by the name that a spec calls them, on the cells of a table that can hold something.

A declared structural zero is known to be 0 and takes no part: totals, shares and priors are of the other cells alone.
Only for `neighbourhood` does it stand in its place with the value 0, since its neighbours must stay where they are;
that pulls the cells right beside it down a little.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final, Literal, assert_never

import numpy as np
from numpy.typing import NDArray

from contracts.message import message
from contracts.reading.scalars import plain_decimal
from contracts.release.product import AUTO, LambdaReference
from contracts.release.tables.tables import Refine
from privacy.accounting.events import CountNoise, DiscreteGaussian
from privacy.arrays import Floats, Numbers
from privacy.refine.empirical_bayes import empirical_bayes, posterior_means
from privacy.refine.lambda_choice import choose_lambda_auto, lambda_for_reference, lambda_for_sparsity
from privacy.refine.mixture import LEAST_VARIANCE, Refiner, mix, shrink_to_margins
from privacy.refine.negative_l2 import negative_l2
from privacy.refine.posterior import Posterior, refine_posterior
from privacy.refine.risk import Choice, estimate_risk, refine_auto
from privacy.refine.simplex import project_simplex, round_to_total
from privacy.refine.spatial import spatial_bayes

Method = Literal["none", "simplex", "negative_l2", "empirical_bayes", "neighbourhood", "hierarchy", "mixture"]
NO_NEIGHBOURS = message("The cells around a cell did not tell it apart; each cell was refined by itself.")
"""Where counts are far larger than their noise, the regression on the neighbours may have no solution."""
NEIGHBOURS: Final = 1000
"""Cells from which neighbours are a part of a mixture: below, they say little and take most of the time."""


@dataclass(frozen=True)
class CellEvidence:
    """A noisy table with all that its refinement may look at.

    Args:
        noisy: noisy counts over the declared domain [units].
        impossible: declared structural zeros, same shape.
        event: the noise.
        ordered: the axes, at most two, along which neighbouring cells are neighbouring values.
        total: sum to reach, > 0 [units].
        reference: counts of the table in an earlier published version, same shape, if λ is chosen on one [units].
        estimated: the total is an estimate, so that keeping it may cost more than it gains.
        by_columns: of noise that is not independent from cell to cell, as `mix` takes it [units²].
    """

    noisy: NDArray[np.int64]
    impossible: NDArray[np.bool_]
    event: CountNoise
    ordered: tuple[int, ...]
    total: int
    reference: NDArray[np.int64] | None = None
    estimated: bool = False
    by_columns: Floats | None = None

    @property
    def possible(self) -> NDArray[np.int64]:
        """Return the noisy counts of the cells that are no structural zeros, shape (possible cells,)."""
        return self.noisy[~self.impossible]

    def whole_table(self, counts: Numbers) -> NDArray[Any]:
        """Put one count for each possible cell back into the table, with 0 elsewhere."""
        table: NDArray[Any] = np.zeros(self.noisy.shape, dtype=counts.dtype)
        table[~self.impossible] = counts
        return table

    def ordered_last(self, table: Numbers) -> NDArray[Any]:
        """Move the ordered axes to the end."""
        return np.ascontiguousarray(np.moveaxis(table, self.ordered, range(-len(self.ordered), 0)))

    def as_declared(self, table: NDArray[np.int32]) -> NDArray[np.int32]:
        """Move the ordered axes from the end to where they belong."""
        return np.moveaxis(table, range(-len(self.ordered), 0), self.ordered)


@dataclass(frozen=True)
class Estimate:
    """What a method made of the possible cells.

    Args:
        counts: one a possible cell; int64 if whole numbers were asked for [units].
        method: the one that made them; never "auto".
        lambda_: the λ that was used, if any.
        estimated_rmse: of each method that was judged, the RMSE that is expected from the noisy values [units].
        notes: what a reader of the record should know.
    """

    counts: Numbers
    method: Method
    lambda_: Decimal | None
    estimated_rmse: Mapping[str, float]
    notes: tuple[str, ...] = ()


def estimate(cells: CellEvidence, terms: Refine) -> Estimate:
    """Refine the possible cells by the method of the spec.

    Args:
        cells: the noisy table.
        terms: what the spec asks for; not method "none".
    Raises:
        ValueError: method neighbourhood without an ordered axis, or no possible cell.
    Privacy: post-processing; deterministic.
    """
    match terms.method:
        case "none" | "hierarchy":
            raise ValueError(f"method {terms.method!r} does not refine a table by itself")
        case "simplex":
            return Estimate(_counts(project_simplex(cells.possible, cells.total), cells, terms), "simplex", None, {})
        case "negative_l2":
            return _negative_l2(cells, terms)
        case "empirical_bayes":
            posterior = empirical_bayes(cells.possible, cells.event)
            return _from_posterior(posterior, cells, terms, "empirical_bayes")
        case "neighbourhood":
            return _neighbourhood(cells, terms)
        case "auto":
            if isinstance(cells.event, DiscreteGaussian) and cells.event.sigma_squared >= LEAST_VARIANCE:
                return _mixture(cells, cells.event, terms)
            return best_method(cells, terms)
        case _:
            assert_never(terms.method)


def _counts(values: NDArray[np.float64], cells: CellEvidence, terms: Refine) -> Numbers:
    return round_to_total(values, cells.total) if terms.integers else values


def _negative_l2(cells: CellEvidence, terms: Refine) -> Estimate:
    """Use the λ that is written, or choose one from the noisy values or on an earlier version."""
    noisy, lambda_, risks = cells.possible, terms.lambda_, {}
    if terms.sparsity is not None:
        target = float(terms.sparsity)
        sparse = lambda_for_sparsity(noisy, cells.total, target_share=target, integers=terms.integers)
        lambda_ = _exactly(sparse.lambda_)
    elif lambda_ == AUTO:
        best = choose_lambda_auto(noisy, cells.total, event=cells.event, integers=terms.integers)
        lambda_ = _exactly(best.lambda_)
        risks = {} if best.expected_rmse is None else {"negative_l2": best.expected_rmse}
    elif isinstance(lambda_, LambdaReference) and cells.reference is not None:
        # λ is chosen as if this earlier, published table were drawn again: it reads nothing of today's rows.
        known = cells.reference[~cells.impossible]
        best = lambda_for_reference(known, event=cells.event, integers=terms.integers)
        lambda_ = _exactly(best.lambda_)
        risks = {} if best.expected_rmse is None else {"negative_l2": best.expected_rmse}
    if not isinstance(lambda_, Decimal):
        raise ValueError("method 'negative_l2' needs lambda, or the counts of the version on which it is chosen")
    values = negative_l2(noisy, cells.total, lambda_=float(lambda_))
    return Estimate(_counts(values, cells, terms), "negative_l2", lambda_, risks)


def _exactly(lambda_: float) -> Decimal:
    """Return a chosen λ as it is written down; read again it is the same float."""
    return plain_decimal(Decimal(repr(lambda_)))


def _neighbourhood(cells: CellEvidence, terms: Refine) -> Estimate:
    """Refine each cell given the cells around it, or by itself where these tell nothing."""
    if not cells.ordered:
        raise ValueError("method 'neighbourhood' needs a column whose cells are ordered")
    try:
        return _from_posterior(_neighbours(cells), cells, terms, "neighbourhood")
    except np.linalg.LinAlgError:
        # The regression has no solution: each cell is refined by itself, and the record says so.
        alone = _from_posterior(empirical_bayes(cells.possible, cells.event), cells, terms, "empirical_bayes")
        return replace(alone, notes=(NO_NEIGHBOURS,))


def _neighbours(cells: CellEvidence) -> Posterior:
    """Return the posterior of the possible cells given the table around them."""
    laid = cells.ordered_last(np.where(cells.impossible, 0, cells.noisy))
    posterior = spatial_bayes(laid, cells.event, axes=len(cells.ordered))
    return replace(posterior, codes=cells.as_declared(posterior.codes)[~cells.impossible])


def _from_posterior(posterior: Posterior, cells: CellEvidence, terms: Refine, method: Method) -> Estimate:
    counts = refine_posterior(posterior, total=cells.total, integers=terms.integers)
    return Estimate(counts, method, None, {method: estimate_risk(counts, posterior)})


def _mixture(cells: CellEvidence, event: DiscreteGaussian, terms: Refine) -> Estimate:
    """Take the mean of the methods that fit the table."""
    possible, total = ~cells.impossible, cells.total
    parts: dict[str, Refiner] = {
        "simplex": lambda noisy, _: project_simplex(noisy[possible], total),
        "empirical_bayes": lambda noisy, noise: project_simplex(posterior_means(noisy[possible], noise), total),
    }
    if cells.noisy.ndim > 1:
        parts["margins"] = lambda noisy, noise: shrink_to_margins(noisy, possible, noise, total=total)
    known: dict[str, Any] = {"by_columns": cells.by_columns}
    notes: tuple[str, ...] = ()
    if cells.ordered and cells.noisy.size >= NEIGHBOURS:

        def near(noisy: NDArray[np.int64], noise: CountNoise) -> Floats:
            posterior = _neighbours(replace(cells, noisy=noisy, event=noise))
            return np.asarray(refine_posterior(posterior, total=total, integers=False))

        try:
            made = mix(cells.noisy, possible, event, parts | {"neighbourhood": near}, pairs=1, **known)
        except np.linalg.LinAlgError:
            # Without neighbours the other parts are left.
            made, notes = mix(cells.noisy, possible, event, parts, **known), (NO_NEIGHBOURS,)
    else:
        made = mix(cells.noisy, possible, event, parts, **known)
    return Estimate(_counts(made.values, cells, terms), "mixture", None, made.estimated_rmse, notes)


def best_method(cells: CellEvidence, terms: Refine) -> Estimate:
    """Let the methods compete, then use the best one as if the spec had named it.

    The noisy counts themselves compete where the total is an estimate. Under an exact total they cannot win:
    projecting on the tables without negative cells that have it moves no two points apart. Where ordered axes leave
    structural zeros in their places, they are judged as zeros that were measured.
    """
    rival = _negative_l2(
        cells, Refine.model_validate({"method": "negative_l2", "lambda": AUTO, "integers": terms.integers})
    )
    noisy, table = cells.possible, rival.counts
    if cells.ordered:
        noisy = cells.ordered_last(np.where(cells.impossible, 0, cells.noisy))
        table = cells.ordered_last(cells.whole_table(rival.counts))

    def judged(axes: int) -> Choice:
        others: dict[str, Numbers] = {"negative_l2": table}
        # Under an exact total projecting can only help; under an estimated one not to refine is a rival.
        if cells.estimated:
            others["none"] = noisy
        total = cells.total
        return refine_auto(noisy, cells.event, total=total, axes=axes, integers=terms.integers, others=others)

    notes: tuple[str, ...] = ()
    try:
        choice = judged(len(cells.ordered))
    except np.linalg.LinAlgError:
        # Without neighbours the other methods still compete.
        choice, notes = judged(0), (NO_NEIGHBOURS,)
    risks: dict[str, float] = {_NAMES[name]: risk for name, risk in choice.risks.items()}
    method = _NAMES[choice.method]
    if method == "none":
        return Estimate(cells.possible, "none", None, risks, notes)
    best = rival if method == "negative_l2" else estimate(cells, terms.model_copy(update={"method": method}))
    return replace(best, estimated_rmse=risks, notes=notes)


_NAMES: Mapping[str, Method] = {
    "none": "none",
    "simplex": "simplex",
    "negative_l2": "negative_l2",
    "empirical_bayes": "empirical_bayes",
    "spatial": "neighbourhood",
}
