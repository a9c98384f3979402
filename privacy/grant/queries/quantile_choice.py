"""Quantiles of a column in every cell of a marginal, chosen by the exponential mechanism, in one draw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Adjacency
from contracts.contract.impossible_cells import Clique
from contracts.domains.lattice import lattice_problems
from contracts.domains.trees import QuantileChoices
from privacy.accounting.events import ExponentialMechanism
from privacy.grant.measurement import DurableDraw
from privacy.grant.queries.query import DrawStage, NoiseSource, Query, Relation
from privacy.marginals.cell_values import PrivateCellValues
from privacy.statistics.quantile_runs import candidate, quantile_runs

_ROWS_CHANGED: dict[str, int] = {"add_remove": 1, "replace_one": 2}


@dataclass(frozen=True)
class QuantileMeasurement:
    """Chosen quantiles by cell, with what they cost; released, no longer private.

    Args:
        key: name of the draw inside its run.
        clique: columns that rows are grouped by.
        choices: the column with its lattice, and the quantiles.
        values: the chosen offsets, int64, shape (*cells, quantiles) [steps of the lattice].
        event: the event.
        number: order of the draw inside its run.
        sha256: digest of the values.
    """

    key: str
    clique: Clique
    choices: QuantileChoices
    values: NDArray[np.int64]
    event: ExponentialMechanism
    number: int
    sha256: str
    kind: ClassVar[str] = "quantile_choice"


@dataclass(frozen=True)
class QuantileChoiceQuery(Query[QuantileMeasurement]):
    """Quantiles by cell.

    Args:
        values: handle on the exact values.
        epsilon: what all choices cost together, > 0 [dimensionless].
    """

    values: PrivateCellValues
    epsilon: Fraction
    kind: ClassVar[str] = "quantile_choice"

    @property
    def handles(self) -> tuple[PrivateCellValues]:
        """The exact values."""
        return (self.values,)

    @property
    def clique(self) -> Clique:
        """The columns that rows are grouped by."""
        return self.values.clique

    @property
    def choices(self) -> QuantileChoices:
        """What is chosen."""
        return self.values.choices

    def check(self, relation: Relation) -> None:
        """Refuse a lattice that is none, and quantiles that are out of order.

        Raises:
            ValueError: with what is allowed.
        """
        choices = self.choices
        lattice, shares = choices.lattice, choices.shares
        problems = lattice_problems(lattice.low, lattice.high, lattice.step, relation.rows_per_unit)
        if problems:
            raise ValueError(f"{problems[0].found}, allowed {problems[0].allowed}")
        if not shares or list(shares) != sorted(set(shares)) or not 0 < shares[0] <= shares[-1] < 1:
            raise ValueError("quantiles lie in (0, 1), ascending, each once")

    def event(self, relation: Relation) -> ExponentialMechanism:
        """Return the loss of all choices together."""
        return ExponentialMechanism(self.epsilon)

    def identity(self, relation: Relation, place: int) -> Mapping[str, Any]:
        """Return lattice and quantiles."""
        return {"choices": self.choices.to_json()}

    def sample(
        self, exact: tuple[Any, ...], *, event: ExponentialMechanism, noise: NoiseSource, stage: DrawStage
    ) -> NDArray[np.int64]:
        """Choose in every cell."""
        relation = stage.relation
        terms = {"adjacency": relation.adjacency, "rows_per_unit": relation.rows_per_unit}
        base = base_rate(self.choices, self.epsilon, **terms)  # type: ignore[arg-type]
        found = np.empty((prod(self.values.shape), self.choices.parts), dtype=np.int64)
        for cell, (offsets, rows) in enumerate(_by_cell(exact[0], len(found))):
            found[cell] = chosen_quantiles(self.choices, offsets, rows, base=base, noise=noise)
        return found.reshape(*self.values.shape, self.choices.parts)

    def result(self, event: ExponentialMechanism, drawn: tuple[DurableDraw, ...]) -> QuantileMeasurement:
        """Return the chosen offsets with what they cost."""
        (draw,) = drawn
        return QuantileMeasurement(draw.key, draw.clique, self.choices, draw.values, event, draw.number, draw.sha256)


def base_rate(choices: QuantileChoices, epsilon: Fraction, *, adjacency: Adjacency, rows_per_unit: int) -> Fraction:
    """Return the c of which the rate of each quantile is a share, so that all cells together lose epsilon.

    Formula: c = epsilon / (rows loss_factor), with the rows that one unit adds, removes or replaces twice.
    Privacy: a row is in one cell, so that the losses of a unit's rows add up, in whichever cells they are.
    """
    return epsilon / (_ROWS_CHANGED[adjacency] * rows_per_unit * choices.loss_factor)


def chosen_quantiles(
    choices: QuantileChoices,
    offsets: NDArray[np.int64],
    rows: NDArray[np.int64],
    *,
    base: Fraction,
    noise: NoiseSource,
) -> NDArray[np.int64]:
    """Choose the quantiles of one cell.

    Args:
        choices: lattice and quantiles.
        offsets: the different offsets of its rows, ascending; none where it has none.
        rows: how many rows have each.
        base: c, the loss of each quantile alone for one row [1 / rows].
        noise: what the choices are drawn with.
    Returns:
        NDArray: offsets, never descending, shape (quantiles,).
    Privacy: loss_factor c for one row that comes or goes.
    """
    found: dict[int | None, int | None] = {None: None}
    for place, below, above in choices.order:
        runs = quantile_runs(choices, place, offsets, rows, (found[below], found[above]))
        rate = base * choices.rate_share(place) / runs.unit
        run, drawn = noise.weighted_choice(runs.distances, runs.weights, rate=rate)
        found[place] = candidate(choices, int(runs.first[run]), int(runs.last[run]), drawn)
    return np.array([found[place] for place in range(choices.parts)], dtype=np.int64)


def _by_cell(exact: NDArray[np.int64], cells: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the offsets of each cell, ascending, and how many rows have each."""
    ends = np.searchsorted(exact[:, 0], np.arange(cells + 1))
    for start, end in pairwise(ends):
        yield exact[start:end, 1], exact[start:end, 2]
