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
            estimates: of the tree, for each of the quantiles; their intervals stay.
            shares: the quantiles, in the order in which they are published.
        Returns:
            Estimates: the chosen values; where one lies outside of its interval, the nearer end.
        Privacy: post-processing.
        """
        values, place = lattice_values(self.offsets, self.choices.lattice), self.choices.shares.index
        return tuple(
            Estimates(np.clip(values[..., place(share)], each.lower, each.upper), each.lower, each.upper)
            for each, share in zip(estimates, shares, strict=True)
        )
