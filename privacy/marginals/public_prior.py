"""A public prior: marginals of rows of other people, which anybody may see, and what they lend to a model.

Where:
    q_c, q_ab   shares of the prior's rows in the cells of a column, and of a pair
    y, v        noisy counts of a column, and the variance of a cell's noise
    N           the number of rows, public or estimated

A column's q_c N stands beside y as a further measurement of the column, with the variance

    b² = max(|y - q_c N|² / (cells - 2) - v, v / 10)

which is what y itself tells of how far the prior is off: positive-part James-Stein. A prior that is off by far has no
weight. It costs nothing, since y is released.

The pairs give a model whose dependence another model may begin with (`privacy.generators.prior_choice`).

Source: Baranchik 1970, A family of minimax estimators of the mean of a multivariate normal distribution. A prior
never weighs more than ten times what was measured (docs/derivations.md, "A choice among models").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.impossible_cells import Clique
from privacy.arrays import Floats
from privacy.marginals.domain import CellDomain
from privacy.marginals.estimation import estimate
from privacy.marginals.measured import Measured, combine
from privacy.marginals.model_sizes import ModelSizes

LARGEST_MODEL: Final = 4.0
"""Of the prior's pairs [MB]; what is measured needs room beside it."""
_FLOOR: Final = 0.1
_SMOOTHING: Final = 0.5
"""Rows that are added to a pair for each of its cells, spread as its columns are when independent."""
_VARIANCE: Final = 1.0
_TEMPERATURE: Final = 0.02
_TOLERANCE: Final = 1.0
"""The prior's pairs are fitted to within about a row: they are exact, and its model is finite."""


@dataclass(frozen=True, eq=False)
class PublicPrior:
    """Marginals of public rows, as a version publishes them.

    Args:
        file: name of the file of the rows.
        rows: how many there are, at least 1.
        counts: of each column that the prior has, and of pairs of these [rows].
    """

    file: str
    rows: int
    counts: Mapping[Clique, NDArray[np.int64]]

    @property
    def pairs(self) -> tuple[Clique, ...]:
        """The pairs, those first whose columns depend most on each other."""
        return tuple(clique for clique in self.counts if len(clique) == 2)

    def to_json(self) -> dict[str, Any]:
        """Write the marginals as JSON values."""
        counts = [{"columns": list(clique), "counts": each.ravel().tolist()} for clique, each in self.counts.items()]
        return {"file": self.file, "rows": self.rows, "counts": counts}

    @classmethod
    def from_json(cls, value: Any, domain: CellDomain) -> PublicPrior:
        """Read published marginals strictly: of distinct columns and pairs of a domain, each of all rows.

        Raises:
            ValueError: they are not that.
        """
        try:
            file, rows, listed = value["file"], value["rows"], value["counts"]
            found = [(tuple(each["columns"]), np.array(each["counts"], dtype=np.int64)) for each in listed]
            counts = {clique: numbers.reshape(domain.sizes(clique)) for clique, numbers in found}
            known = all(len(clique) in (1, 2) and domain.canonical(clique) == clique for clique in counts)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ValueError("no marginals of a prior") from error
        whole = all(numbers.min() >= 0 and numbers.sum() == rows for numbers in counts.values())
        if not known or not whole or len(counts) < len(found) or type(rows) is not int or rows < 1:
            raise ValueError("marginals of a prior that are not of one table")
        if any((name,) not in counts for clique in counts for name in clique):
            raise ValueError("a pair of a prior without its columns")
        return cls(str(file), rows, counts)

    def share(self, clique: Clique) -> Floats:
        """Return the shares of the rows in the cells of a column or pair."""
        return self.counts[clique] / self.rows

    def smoothed(self, pair: Clique) -> Floats:
        """Return the counts of a pair, every cell above 0 that its columns leave possible [rows]."""
        counts, added = self.counts[pair], _SMOOTHING * self.counts[pair].size
        apart = _apart(self.share(pair[:1]), self.share(pair[1:]))
        mixed: Floats = (counts + added * apart) * (self.rows / (self.rows + added))
        return mixed


def prior_of(file: str, domain: CellDomain, names: Sequence[str], codes: NDArray[np.int64]) -> PublicPrior:
    """Count columns and pairs of public rows: pairs by how much their columns depend on each other, up to a size.

    Args:
        file: name of the file.
        domain: all columns of the product.
        names: those that the rows have, in the domain's order.
        codes: shape (rows, names), at least one row.
    Privacy: the rows are public.
    """
    places = {name: place for place, name in enumerate(names)}

    def count(clique: Clique) -> NDArray[np.int64]:
        sizes = domain.sizes(clique)
        cells = np.ravel_multi_index(tuple(codes[:, places[name]] for name in clique), sizes)
        return np.bincount(cells, minlength=domain.cells(clique)).reshape(sizes).astype(np.int64)

    counts: dict[Clique, NDArray[np.int64]] = {(name,): count((name,)) for name in names}
    dependence: dict[Clique, float] = {}
    for one, other in combinations(names, 2):
        apart = _apart(counts[(one,)] / len(codes), counts[(other,)] / len(codes))
        dependence[(one, other)] = float(np.abs(count((one, other)) / len(codes) - apart).sum())
    ranked = sorted(dependence, key=lambda pair: (-dependence[pair], pair))
    counts |= {pair: count(pair) for pair in _within(domain, (), ranked, LARGEST_MODEL)}
    return PublicPrior(file, len(codes), counts)


def column_beliefs(
    prior: PublicPrior, domain: CellDomain, measured: Sequence[Measured], total: float
) -> tuple[Measured, ...]:
    """Return the prior's columns as measurements, with the variance that the noisy columns tell.

    Args:
        prior: the prior.
        domain: all columns.
        measured: what was measured so far.
        total: N.
    Privacy: post-processing.
    """
    beliefs = []
    for clique, (noisy, variance) in combine(domain, [one for one in measured if len(one.clique) == 1]).items():
        if clique in prior.counts:
            expected = prior.share(clique) * total
            misfit = float(((noisy - expected) ** 2).sum())
            # James-Stein needs three cells; of two the whole misfit counts as bias.
            bias = misfit / (noisy.size - 2) - variance if noisy.size > 2 else misfit / noisy.size
            beliefs.append(Measured(clique, expected, max(bias, _FLOOR * variance)))
    return tuple(beliefs)


def dependence_of(
    prior: PublicPrior, domain: CellDomain, *, impossible: Iterable[Clique], cap: float
) -> dict[Clique, Floats]:
    """Return the factors of a model of the prior's pairs, finite, in log space, as far as a cap has room.

    Args:
        prior: the prior.
        domain: all columns.
        impossible: cliques that every model has.
        cap: of the model's tables [MB].
    Privacy: a function of public rows.
    """
    pairs = _within(domain, impossible, prior.pairs, min(cap, LARGEST_MODEL))
    found = estimate(
        domain,
        [Measured(pair, prior.smoothed(pair), _VARIANCE) for pair in pairs],
        total=float(prior.rows),
        steps=1,
        temperature=_TEMPERATURE,
        tolerance=_TOLERANCE,
    )
    return dict(found.model.factors)


def _within(domain: CellDomain, known: Iterable[Clique], ranked: Sequence[Clique], cap: float) -> list[Clique]:
    """Return the pairs, in their order, that keep a model within a size [MB]."""
    chosen: list[Clique] = []
    beside = list(known)
    sizes = ModelSizes(domain, beside)
    for pair in ranked:
        if sizes.with_one(pair) <= cap:
            chosen.append(pair)
            sizes = ModelSizes(domain, [*beside, *chosen])
    return chosen


def _apart(one: Floats, other: Floats) -> Floats:
    """Return the shares of a pair if its columns were independent."""
    product: Floats = np.multiply.outer(one, other)
    return product
