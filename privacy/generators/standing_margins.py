"""Margins of numbers without the bins that do not stand out of the noise: post-processing of a fitted model.

A column with many bins has many that hold few rows or none. Least squares keeps what noise puts there, as far as it
is above zero: small counts, but many, and where bins reach far out they move the mean far. So of each column inside
whose bins rows were counted

    ESTIMATE  a bin's count is the mean, weighted by inverse variances, of what the generator measured of the column
              by itself and of the sum of the bin's leaves
    STAND     a bin stands if its estimate is above twice its deviation; the others get nothing. Where these have more
              than a tenth of the rows, as they have in many small bins, the margin is left as it is
    FIT       the model's potentials take a factor for each bin, so that the margin has these shares (iterative
              proportional fitting: of all models with this margin the nearest one)

Missing values keep their share. A bin that gets nothing keeps a millionth of the rows, so that no cell becomes
impossible. A model without potentials stays as it is.

Source: Deming, Stephan 1940 (proportional fitting); McKenna, Miklau, Sheldon 2021, who join labels whose counts are
below three deviations. Here none are joined: the margin alone is changed. On incomes in 69 bins (American Community
Survey) two deviations gave the least error of the mean, of 2, 2.5 and 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from contracts.domains.value_bins import BinTree, bin_ends
from privacy.arrays import Floats
from privacy.generators.bin_weights import Bins, leaf_estimates, nodes_between
from privacy.generators.generator import Model
from privacy.generators.models import PublishedModel
from privacy.grant.measurement import CellSumMeasurement, Measurement
from privacy.marginals.graphical_model import GraphicalModel

_DEVIATIONS: Final = 2.0
_MOST_LOST: Final = 0.1
_LEAST: Final = 1e-6
_ROUNDS: Final = 10
_CLOSE: Final = 1e-6


def standing_margins(
    model: Model,
    trees: Sequence[tuple[BinTree, Bins, CellSumMeasurement]],
    measured: Sequence[Measurement],
) -> Model:
    """Return the model with such margins.

    Args:
        model: what the generator fitted.
        trees: of each column its tree, its declared bins, and the noisy counts.
        measured: the marginals that the generator measured.
    Privacy: post-processing.
    """
    if not isinstance(model, PublishedModel) or not trees:
        return model
    alone = {one.clique: one for one in measured if len(one.clique) == 1}
    found = {tree.column: _shares(tree, axis, drawn, alone.get((tree.column,))) for tree, axis, drawn in trees}
    return _fitted(model, {column: shares for column, shares in found.items() if shares is not None})


def _shares(tree: BinTree, axis: Bins, drawn: CellSumMeasurement, own: Measurement | None) -> Floats | None:
    """Return the shares of the bins of a column, which add up to 1, shape (bins,); None to leave them as they are."""
    counts, ends = leaf_estimates(drawn.values, tree, drawn.variance), bin_ends(axis, tree)
    found = np.add.reduceat(counts, ends[:-1])
    spread = drawn.variance * nodes_between(tree, ends)
    if own is not None:
        part = spread / (spread + own.variance)
        found, spread = part * own.values[: found.size] + (1 - part) * found, part * own.variance
    return standing(found, spread)


def standing(estimates: Floats, variances: Floats) -> Floats | None:
    """Return the shares of bins without those that do not stand out of the noise; None where too many rows are there.

    Args:
        estimates: of their counts [rows].
        variances: of these [rows²].
    """
    stands = estimates > _DEVIATIONS * np.sqrt(variances)
    kept = np.where(stands, estimates, 0.0)
    if estimates.sum() - kept.sum() > _MOST_LOST * max(estimates.sum(), 0.0) or not stands.any():
        return None
    shares = np.maximum(kept / kept.sum(), _LEAST)
    return np.asarray(shares / shares.sum())


def _fitted(model: PublishedModel, wanted: Mapping[str, Floats]) -> PublishedModel:
    """Fit margins one after the other until all hold, or ten times."""
    graphical = model.graphical
    if not wanted:
        return model
    for _ in range(_ROUNDS):
        worst = 0.0
        for column, shares in wanted.items():
            factors, moved = _factors(graphical.marginal((column,)), shares)
            worst = max(worst, moved)
            if moved > _CLOSE:
                graphical = _times(graphical, column, factors)
        if worst <= _CLOSE:
            break
    return PublishedModel.of(graphical, model.rows)


def _factors(margin: NDArray[np.float64], shares: Floats) -> tuple[Floats, float]:
    """Return the logarithm of each cell's factor, and by how much shares are off; missing values have none."""
    bins = margin[: shares.size]
    there = bins > 0
    aim = np.where(there, shares, 0.0)
    if not there.any():
        return np.zeros(margin.size), 0.0
    now, aim = bins / bins.sum(), aim / aim.sum()
    factors = np.zeros(margin.size)
    factors[: shares.size][there] = np.log(aim[there] / now[there])
    return factors, float(np.abs(aim - now).sum())


def _times(graphical: GraphicalModel, column: str, factors: Floats) -> GraphicalModel:
    """Return the model with a factor for each cell of a column."""
    place = next(number for number, clique in enumerate(graphical.cliques) if column in clique)
    clique, potentials = graphical.cliques[place], list(graphical.potentials)
    shape = [-1 if name == column else 1 for name in clique]
    potentials[place] = potentials[place] + factors.reshape(shape)
    return GraphicalModel(graphical.domain, graphical.cliques, tuple(potentials), graphical.total)
