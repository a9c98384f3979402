"""Averages of models: FedAvg's step. Post-processing where the models are released."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privacy.arrays import Singles
from privacy.learning.network import CannotTrain


def averaged(models: Sequence[Singles], rows_about: Sequence[int]) -> Singles:
    """Average flat parameter vectors, weighted by declared numbers of rows.

    Args:
        models: float32, all of one shape, at least one.
        rows_about: a whole number above 0 for each; declared, public [rows].
    Returns:
        float32, the same shape.
    Raises:
        CannotTrain: no models, shapes that differ, or other weights.
    Source: McMahan, Moore, Ramage, Hampson, Aguera y Arcas 2017, algorithm 1.
    """
    if not models or len(models) != len(rows_about) or len({model.shape for model in models}) != 1:
        raise CannotTrain(
            "models", f"{len(models)} for {len(rows_about)} sites", "one of the same shape for each site"
        )
    if any(type(rows) is not int or rows < 1 for rows in rows_about):
        raise CannotTrain("rows_about", "other numbers", "whole numbers above 0")
    weights = np.array(rows_about, np.float64) / sum(rows_about)
    average: Singles = np.tensordot(weights, np.stack(models).astype(np.float64), axes=1).astype(np.float32)
    return average
