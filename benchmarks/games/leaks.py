"""How well scores tell people of a table from others, and the scores of the surrogate attacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from benchmarks.games.distinguishing import learned_direction
from privacy.arrays import Floats, Integers
from privacy.games.inference import value_shares

LOW: Final = 0.01
"""False positive rate at which the true one is told."""


@dataclass(frozen=True)
class Leak:
    """How well scores tell people of the table from others.

    Args:
        area: under the ROC curve; 1/2 for guessing.
        true_rate: share of the table's people that are found at a false positive rate of `LOW`, ties broken by lot.
        people: of the table, and others, that were scored.
    """

    area: float
    true_rate: float
    people: tuple[int, int]

    def to_json(self) -> dict[str, Any]:
        """Write it as JSON values."""
        rounded = {"area": round(self.area, 4), "true_rate": round(self.true_rate, 4)}
        return {**rounded, "false_rate": LOW, "people": list(self.people)}


def leak(members: Floats, others: Floats) -> Leak:
    """Compare the scores of people of the table and of others, each shape (people,); ties count half."""
    order = np.sort(others)
    below = np.searchsorted(order, members, side="left") + np.searchsorted(order, members, side="right")
    area = float(below.mean()) / (2 * len(others))
    thresholds = np.unique(np.concatenate([members, others]))[::-1]
    rates = [
        np.concatenate([[0.0], 1 - np.searchsorted(np.sort(each), thresholds) / len(each)])
        for each in (others, members)
    ]
    return Leak(area, float(np.interp(LOW, rates[0], rates[1])), (len(members), len(others)))


def guesses(synthetic: Integers, people: Integers, *, secret: int) -> Floats:
    """Score by how many of the synthetic rows that are nearest in all other columns have a person's true value.

    Args:
        synthetic, people, secret: as of `value_shares`.
    """
    truth = people[:, secret]
    values = 1 + int(max(truth.max(), synthetic[:, secret].max()))
    shares = value_shares(synthetic, people, secret=secret, values=values)
    return np.asarray(shares[np.arange(len(people)), truth])


def shadow(synthetic: Integers, target: Integers) -> Floats:
    """Describe synthetic rows around a target: how many agree with it in so many columns; shape (columns + 1,)."""
    agreed = (synthetic == target).sum(axis=1)
    return np.bincount(agreed, minlength=synthetic.shape[1] + 1)[: synthetic.shape[1] + 1].astype(np.float64)


def shadow_leak(there: Floats, not_there: Floats) -> Leak:
    """Learn to tell on half of the shadow models, with and without the target, and score the other half.

    Args:
        there, not_there: descriptions of the synthetic rows of each, shape (models, numbers).
    """
    half = min(len(there), len(not_there)) // 2
    direction = learned_direction(there[:half], not_there[:half])
    return leak(there[half:] @ direction, not_there[half:] @ direction)
