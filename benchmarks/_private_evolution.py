"""Private evolution of rows of numbers with a label, as Tab-PE does it, to compare with; nothing of it is published.

Rows are drawn at random, for each label as many as its share. In each step every confidential row votes for the
made-up row of its label that is nearest (Euclidean, columns scaled to one range). The votes get Gaussian noise, rows
are selected by them, and further rows are made of the selected ones by changing their numbers a little:

    first steps     as many rows as wanted are drawn in proportion to their votes, and each is changed once
    later steps     the rows with the most votes are kept, and three changed copies stand beside each

A change is uniform within ± rate · range and clipped to it. The rate falls from 0.5 to 0.01 with the fifth root of
time.
Votes of one step have L2 sensitivity 1 under add_remove, so T of them compose to a Gaussian of mu = √T / sigma.

Where it is not private, as in the original: each label's share of the rows is exact.
Source: Tran et al. 2026 (Tab-PE), and the settings of its examples: 1,000 rows, four first steps, three changed
copies, 20 populations for parities and 15 for causal models, the first of which costs nothing.
"""

from __future__ import annotations

from math import exp, inf, sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.spatial import cKDTree
from scipy.stats import norm

from benchmarks._stress_tables import Numbers, StressTable

POPULATION: Final = 1_000
COPIES: Final = 3
FIRST_STEPS: Final = 4
_RATE_BEFORE: Final = 0.5
_RATE_AFTER: Final = 0.01
_FALL: Final = 0.2
_RANGE: Final = 2.0


def evolved(
    table: StressTable, populations: int, *, epsilon: float, delta: float, seed: int
) -> tuple[Numbers, NDArray[np.int64]]:
    """Return made-up numbers and their labels.

    Args:
        table: the confidential rows.
        populations: how many there are in all, the random one among them; one less are paid for.
        epsilon, delta: of all votes together.
        seed: of noise and rows.
    """
    random = np.random.default_rng(seed)
    noise = noise_multiplier(populations - 1, epsilon=epsilon, delta=delta)
    numbers, labels = [], []
    for label in np.unique(table.labels):
        known = table.numbers[table.labels == label]
        wanted = round(POPULATION * len(known) / len(table.labels))
        numbers.append(_of_label(known, wanted, populations, noise, random))
        labels.append(np.full(wanted, label))
    return np.concatenate(numbers), np.concatenate(labels)


def noise_multiplier(steps: int, *, epsilon: float, delta: float) -> float:
    """Return the standard deviation of the noise with which so many Gaussian steps of sensitivity 1 are (ε, δ)-DP.

    Formula: delta = Phi(-epsilon / mu + mu / 2) - e^epsilon Phi(-epsilon / mu - mu / 2), mu = √steps / sigma.
    """

    def excess(sigma: float) -> float:
        mu = sqrt(steps) / sigma
        reached = norm.cdf(-epsilon / mu + mu / 2) - exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)
        return float(reached) - delta

    return float(brentq(excess, 0.1, 1e4))


def _of_label(known: Numbers, wanted: int, populations: int, noise: float, random: np.random.Generator) -> Numbers:
    rows = random.uniform(-1, 1, (wanted, known.shape[1]))
    selected = rows
    for step in range(1, populations):
        nearest = cKDTree(rows).query(known)[1]
        votes = np.bincount(nearest, minlength=len(rows)) + random.normal(scale=noise, size=len(rows))
        rate = _RATE_BEFORE - (_RATE_BEFORE - _RATE_AFTER) * ((step - 1) / populations) ** _FALL
        if step <= FIRST_STEPS:
            chances = np.clip(votes, 0, inf)
            selected = rows[random.choice(len(rows), wanted, p=chances / chances.sum())]
            rows = _changed(selected, rate, random)
        else:
            selected = rows[np.argsort(-votes, kind="stable")[:wanted]]
            rows = np.concatenate([selected, *(_changed(selected, rate, random) for _ in range(COPIES))])
    return selected


def _changed(rows: Numbers, rate: float, random: np.random.Generator) -> Numbers:
    return np.clip(rows + random.uniform(-rate, rate, rows.shape) * _RANGE, -1, 1)
