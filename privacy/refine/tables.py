"""Refinement of a measured table: total, structural zeros, sparsity, whole numbers. Costs nothing.

The same function serves the release and its verification, so that what was published can be replayed from the
published noisy measurements alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, assert_never

import numpy as np
from numpy.typing import NDArray

from privacy.refine.negative_l2 import negative_l2
from privacy.refine.rounding import round_to_total
from privacy.refine.simplex import project_simplex

Method = Literal["none", "simplex", "negative_l2"]


@dataclass(frozen=True)
class Refined:
    """A refined table.

    Args:
        values: int64 when whole numbers were asked for, else float64; shape of the table [units].
        total: the sum that was reached, or None where no total was used [units].
        notes: what a reader of the record should know.
    """

    values: NDArray[np.int64] | NDArray[np.float64]
    total: int | None
    notes: tuple[str, ...]


def refine_table(
    noisy: NDArray[np.int64],
    *,
    impossible: NDArray[np.bool_],
    total: int | None,
    method: Method,
    lambda_: Decimal | None,
    integers: bool,
) -> Refined:
    """Turn a noisy marginal into a table that a reader can use.

    Args:
        noisy: noisy counts over the declared domain, any shape [units].
        impossible: declared structural zeros, same shape.
        total: sum to reach, noisy or declared public; a negative one becomes 0 with a note; None only with
            method "none" [units].
        method: none (structural zeros only), simplex, or negative_l2.
        lambda_: λ of negative_l2.
        integers: round to whole numbers that keep the total.
    Returns:
        Refined: same shape.
    Raises:
        ValueError: λ missing, no total, or every cell a structural zero while the total is positive.
    Privacy: post-processing.
    """
    if method == "none":
        return Refined(np.where(impossible, 0, noisy), None, ())
    if total is None:
        raise ValueError(f"method {method!r} needs a total")
    notes = () if total >= 0 else ("The noisy total was below zero and was set to zero.",)
    total = max(0, total)
    values = np.zeros(noisy.shape, dtype=np.float64)
    values[~impossible] = _estimate(noisy[~impossible], total, method, lambda_)
    if not integers:
        return Refined(values, total, notes)
    return Refined(round_to_total(values, total), total, notes)


def _estimate(
    noisy: NDArray[np.int64], total: int, method: Literal["simplex", "negative_l2"], lambda_: Decimal | None
) -> NDArray[np.float64]:
    match method:
        case "simplex":
            return project_simplex(noisy, total)
        case "negative_l2":
            if lambda_ is None:
                raise ValueError("method 'negative_l2' needs lambda")
            return negative_l2(noisy, total, lambda_=float(lambda_))
        case _:
            assert_never(method)
