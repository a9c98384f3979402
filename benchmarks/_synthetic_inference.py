"""Intervals of regressions from synthetic versions alone: how often they hold the coefficient of the exact table.

Rows of NIST's excerpt of the American Community Survey by the contract of `examples/acs`. The regressions below were
written before any was looked at. Each release is measured through the grant, and fitted with copies. Five intervals:

    noisy marginals    `privacy.inference.least_squares`: the pairs themselves, no model; ours, for measured pairs
    copies             `privacy.inference.combining`: the same regression on the rows of each copy
    Rubin              the mean of the copies; within + (1 + 1/m) between
    one copy           the classical interval of one table of synthetic rows, as if it were a sample

The target of all is the exact table's own coefficient, numbers in the middles of their bins.
"""

from __future__ import annotations

from typing import Final

REGRESSIONS: Final = (
    "PINCP ~ AGEP + SEX[female] + EDU[bachelor] + DPHY[yes]",
    "OWN_RENT[owned] ~ AGEP + HISP[not Hispanic] + DPHY[yes]",
    "DPHY[yes] ~ AGEP + SEX[female]",
    "PINCP_DECILE[9] ~ AGEP + SEX[female] + MSP[married, together]",
)
MISSING: Final = {"AGEP": 0.0, "PINCP": 0.0}
