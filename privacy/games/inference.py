"""Inference from synthetic rows: who was in the table (membership), and what a known person's other value is.

Both attackers give a score to each person of the table, and to as many who were not in it. Scores that are higher for
the former leak; that of a generator which knows only the population are alike. Attacks of this kind prove nothing
where they find nothing: they are far weaker than the worst-case games of `benchmarks.games`.

Under (epsilon, delta)-DP, for somebody who was in the table or not by the toss of a coin, no attacker's rates can lie
above the trade-off curve f(x) = max(0, 1 - delta - e^epsilon x, e^-epsilon (1 - delta - x)); so the area under its
ROC curve is at most one less the area under f.

Source: Chen, Yu, Zhang, Fritz 2020 (distance to the nearest synthetic row); Stadler, Oprisanu, Troncoso 2022 (shadow
models of one target); Carlini et al. 2022 (rates at low false positives).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import exp
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.arrays import Floats, Integers

_CHUNK: Final = 200


def allowed_area(epsilon: float, delta: float) -> float:
    """Return the largest area under the ROC curve that a claim allows, one less that under its trade-off curve."""
    meet = (1 - delta) * exp(-epsilon) / (1 + exp(-epsilon))
    left = meet * (1 - delta + meet) / 2
    return 1 - left - (1 - delta - meet) * meet / 2


def nearness(synthetic: Integers, people: Integers) -> Floats:
    """Score by the nearest synthetic row: minus the number of columns in which it differs.

    Args:
        synthetic: shape (rows, columns).
        people: shape (people, columns).
    """
    return np.concatenate([-away.min(axis=1) for away in _distances(synthetic, people)]).astype(np.float64)


def closeness(synthetic: Integers, people: Integers) -> Floats:
    """Score by all synthetic rows: log of the sum of e^-2d, d the number of columns in which one differs.

    Args:
        synthetic, people: as of `nearness`.
    """
    return np.concatenate([np.log(np.exp(-2.0 * away).sum(axis=1)) for away in _distances(synthetic, people)])


def value_shares(synthetic: Integers, people: Integers, *, secret: int, values: int) -> Floats:
    """Return, of the synthetic rows that are nearest in all other columns, the share with each value of the secret.

    Args:
        synthetic, people: as of `nearness`; what the people's secret is, is not read.
        secret: place of the column that the attacker does not know.
        values: its cells.
    Returns:
        Shape (people, values), each row adding up to 1.
    """
    known, rows = np.delete(people, secret, axis=1), np.delete(synthetic, secret, axis=1)
    has = np.eye(values)[synthetic[:, secret]]
    found = []
    for away in _distances(rows, known):
        nearest = (away == away.min(axis=1, keepdims=True)).astype(np.float64)
        found.append(nearest @ has / nearest.sum(axis=1, keepdims=True))
    return np.concatenate(found)


def _distances(synthetic: Integers, people: Integers) -> Iterator[NDArray[np.int64]]:
    """Yield in how many columns the synthetic rows differ from some people, shape (some, rows)."""
    for start in range(0, len(people), _CHUNK):
        away = np.zeros((len(people[start : start + _CHUNK]), len(synthetic)), np.int64)
        for column in range(people.shape[1]):
            away += people[start : start + _CHUNK, column, None] != synthetic[None, :, column]
        yield away
