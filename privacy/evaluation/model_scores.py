"""How well a released model tells the label of confidential rows, and its members: for the auditor alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from privacy.evaluation.membership import Attack, attack, scaled_confidence


@dataclass(frozen=True, repr=False)
class PrivateModelScores:
    """Scores of a model on confidential rows (DESIGN law 5).

    Args:
        label: the column that is told.
        accuracy: share of the rows whose cell is told.
        f_measure: mean over the cells that occur of the F-measure of each.
        recalled: by cell that occurs, the share of its rows that are told.
        membership: the loss-threshold attack, where rows that were not trained on are at hand; else None.
        majority: share of the most frequent cell: the accuracy of a model that has learned nothing.
    """

    label: str
    accuracy: float
    f_measure: float
    recalled: Mapping[str, float]
    membership: Attack | None
    majority: float

    def __repr__(self) -> str:
        """Show no number."""
        return "PrivateModelScores(for the auditor alone)"

    def __reduce__(self) -> NoReturn:
        """Refuse pickling: scores on real rows must not land in a result store or a cache."""
        raise TypeError("PrivateModelScores cannot be pickled: scores on real rows stay with the auditor")

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as JSON, for the private folder."""
        attacked = None if self.membership is None else vars(self.membership)
        return {**vars(self), "recalled": dict(self.recalled), "membership": attacked}


def model_scores(
    chances: NDArray[np.float64],
    labels: NDArray[np.int64],
    *,
    column: str,
    cells: tuple[str, ...],
    others: tuple[NDArray[np.float64], NDArray[np.int64]] | None = None,
) -> PrivateModelScores:
    """Score a model on rows, and attack it with rows that it was not trained on.

    Args:
        chances: of the label's cells, shape (rows, cells); private, for the rows are.
        labels: the true cells, shape (rows,).
        column, cells: the label and its cells.
        others: chances and true cells of rows of the same population that were not trained on.
    Privacy: private; nothing is drawn or charged.
    """
    told = chances.argmax(axis=1)
    recalled, measures = {}, []
    for cell in np.unique(labels):
        hits = int(((told == cell) & (labels == cell)).sum())
        occurs, said = int((labels == cell).sum()), int((told == cell).sum())
        recalled[cells[int(cell)]] = hits / occurs
        measures.append(2 * hits / (occurs + said))
    accuracy, attacked = float((told == labels).mean()), _attacked(chances, labels, others)
    most = float(np.bincount(labels).max() / labels.size)
    return PrivateModelScores(column, accuracy, float(np.mean(measures)), recalled, attacked, most)


def _attacked(
    chances: NDArray[np.float64],
    labels: NDArray[np.int64],
    others: tuple[NDArray[np.float64], NDArray[np.int64]] | None,
) -> Attack | None:
    if others is None:
        return None
    inside, outside = scaled_confidence(chances, labels), scaled_confidence(*others)
    members = np.arange(inside.size + outside.size) < inside.size
    return attack(np.concatenate([inside, outside]), members)
