"""How a table's share of the budget is split over the levels of its hierarchy, from public parameters alone."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Final, Literal

STEP: Final = Fraction(1, 1000)


def level_shares(
    sizes: Sequence[int], *, noise: Literal["laplace", "gaussian"], total_known: bool
) -> tuple[Fraction, ...]:
    """Return each level's part: the sum of the levels' error variances after consistency is least.

    A cell of every level counts the same, so that counts at all resolutions come out about equally accurate. Parts
    are rounded down to thousandths, and the finest level takes what the rounding leaves: the last digits of a search,
    which differ between machines, do not change a plan.

    Args:
        sizes: declared cells of each level, coarsest first.
        noise: which noise.
        total_known: the total is public.
    Returns:
        tuple[Fraction, ...]: > 0, summing to 1.
    Raises:
        ValueError: sizes that decrease or are below 1.
    Privacy: reads public parameters only.
    """
    return _shares(tuple(sizes), noise, total_known)


@cache
def _shares(sizes: tuple[int, ...], noise: Literal["laplace", "gaussian"], total_known: bool) -> tuple[Fraction, ...]:
    if len(sizes) == 1:
        return (Fraction(1),)
    from privacy.refine.hierarchy import split_budget  # here, so that plans without a hierarchy do not load scipy

    best = split_budget(sizes, weights=[1.0] * len(sizes), noise=noise, total_known=total_known)
    coarser = [max(share // STEP, 1) * STEP for share in best[:-1]]
    return (*coarser, 1 - sum(coarser, Fraction(0)))
