"""What an evaluation found, in a type that says whether it may leave (DESIGN law 5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from privacy.evaluation.cells import Rows
from privacy.evaluation.errors import WorkloadError, alpha_way_error
from privacy.evaluation.mutual_information import mutual_information_error


@dataclass(frozen=True)
class Scores:
    """How close made-up rows come to others; released or public, when both tables are.

    Args:
        errors: the α-way error, by α.
        mutual_information_error: mean absolute difference over all pairs of columns [nats]; None for one column.
        accuracies: share of rows whose target a classifier predicts that was trained on the made-up rows, by
            classifier; empty where no target was named.
    """

    errors: Mapping[int, WorkloadError]
    mutual_information_error: float | None
    accuracies: Mapping[str, float]

    def to_json(self, columns: tuple[str, ...]) -> dict[str, Any]:
        """Return the numbers as JSON, with the distance of every marginal."""
        return {
            "alpha_way_error": {
                str(alpha): {
                    "mean": error.mean,
                    "by_marginal": [
                        {"columns": [columns[place] for place in clique], "error": distance}
                        for clique, distance in zip(error.cliques, error.distances, strict=True)
                    ],
                }
                for alpha, error in self.errors.items()
            },
            "mutual_information_error": self.mutual_information_error,
            "accuracy": dict(self.accuracies),
        }


@dataclass(frozen=True, repr=False, eq=False)
class PrivateScores:
    """Scores against confidential rows: for the auditor alone.

    They cost no budget because they never leave: no record, log, orchestrator result or error shows them.

    Args:
        scores: the numbers.
    """

    scores: Scores

    def __repr__(self) -> str:
        """Show no number."""
        return "PrivateScores(for the auditor alone)"

    def __reduce__(self) -> NoReturn:
        """Refuse pickling: scores against real rows must not land in a result store or a cache."""
        raise TypeError("PrivateScores cannot be pickled: scores against real rows stay with the auditor")


def compare(
    real: Rows, made: Rows, *, degrees: tuple[int, ...] = (1, 2, 3), accuracies: Mapping[str, float] | None = None
) -> Scores:
    """Compare two tables of the same columns.

    Args:
        real: the rows that are imitated.
        made: the imitation.
        degrees: the α of the errors; those beyond the number of columns are left out.
        accuracies: what classifiers reached, when they were trained.
    Returns:
        Scores: of the class of the inputs; wrap them in `PrivateScores` when `real` is confidential.
    Raises:
        ValueError: the tables do not have the same columns, or there are no rows.
    """
    width = len(real.columns)
    errors = {alpha: alpha_way_error(real, made, alpha=alpha) for alpha in degrees if alpha <= width}
    information = mutual_information_error(real, made) if width > 1 else None
    return Scores(errors, information, dict(accuracies or {}))
