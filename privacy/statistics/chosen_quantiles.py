"""Quantiles as they are published where they were chosen: chosen values, within the intervals that a tree gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from contracts.domains.quantile_choices import QuantileChoices
from privacy.statistics.estimates import Estimates
from privacy.statistics.quantiles import lattice_values


@dataclass(frozen=True)
class ChosenQuantiles:
    """What was chosen for a table.

    Args:
        offsets: the chosen offsets, int64, shape (*cells, quantiles) [steps of the lattice].
        choices: lattice and quantiles.
    """

    offsets: NDArray[np.int64]
    choices: QuantileChoices

    def placed(self, estimates: Sequence[Estimates], shares: Sequence[Decimal]) -> tuple[Estimates, ...]:
        """Put the chosen values in the place of a tree's estimates.

        Args:
            estimates: of the tree, for each of the quantiles, with their intervals.
            shares: the quantiles, in the order in which they are published.
        Returns:
            Estimates: the chosen values. An interval that misses its value is drawn out to it: it then holds more
            often, and a tree with little of the charge, which is far off where it misses, does not move the value.
        Privacy: post-processing.
        """
        values, place = lattice_values(self.offsets, self.choices.lattice), self.choices.shares.index
        return tuple(
            Estimates(value, np.minimum(each.lower, value), np.maximum(each.upper, value))
            for each, value in zip(estimates, (values[..., place(share)] for share in shares), strict=True)
        )
