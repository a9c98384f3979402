"""What an evaluation found, in a type that says that it may not leave (DESIGN law 5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import comb
from statistics import fmean
from typing import Any, Final, NoReturn

from privacy.evaluation.association import association_errors
from privacy.evaluation.cells import EncodedRows
from privacy.evaluation.errors import WorkloadError, alpha_way_error
from privacy.evaluation.linked_errors import LinkedErrors
from privacy.evaluation.mutual_information import mutual_information_errors
from privacy.evaluation.propensity import Propensity
from privacy.evaluation.yardsticks import Yardstick

MOST_MARGINALS: Final = 20_000


@dataclass(frozen=True)
class Scores:
    """How close made-up rows come to others.

    Args:
        columns: the columns that were compared.
        errors: the α-way error, by α; an order with more than `MOST_MARGINALS` marginals is left out.
        mutual_information: absolute difference for each pair of columns, by place [nats]; empty for one column.
        accuracies: share of rows whose target a classifier predicts that was trained on the made-up rows, by
            classifier; empty where no target was named.
        association: absolute difference of Cramér's V for each pair of columns, by place; a pair of too many cells is
            left out.
        propensity: how far classifiers tell the made-up rows from the others, by classifier.
        yardsticks: the same scores of other rows, by name; to be read beside these.
        learned_from_real: the accuracies of classifiers that were trained on four fifths of the other rows, and
            tested on the last fifth.
        majority: share of the most frequent cell of the target; None where none was named.
        linked: of two linked tables, errors of the parent table, across, and of children of one parent; None else.
    """

    columns: tuple[str, ...]
    errors: Mapping[int, WorkloadError]
    mutual_information: Mapping[tuple[int, int], float]
    accuracies: Mapping[str, float]
    association: Mapping[tuple[int, int], float] = field(default_factory=dict)
    propensity: Mapping[str, Propensity] = field(default_factory=dict)
    yardsticks: Mapping[str, Yardstick] = field(default_factory=dict)
    learned_from_real: Mapping[str, float] = field(default_factory=dict)
    majority: float | None = None
    linked: LinkedErrors | None = None

    @property
    def association_error(self) -> float | None:
        """The mean over all pairs; None for one column."""
        return fmean(self.association.values()) if self.association else None

    @property
    def mutual_information_error(self) -> float | None:
        """The mean over all pairs [nats]; None for one column."""
        return fmean(self.mutual_information.values()) if self.mutual_information else None

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as JSON, with the distance of every marginal."""
        return {
            "columns": list(self.columns),
            "alpha_way_error": {
                str(alpha): {
                    "mean": error.mean,
                    "by_marginal": [
                        {"columns": [self.columns[place] for place in clique], "error": distance}
                        for clique, distance in zip(error.cliques, error.distances, strict=True)
                    ],
                }
                for alpha, error in self.errors.items()
            },
            "mutual_information_error": self.mutual_information_error,
            "mutual_information_error_by_pair": [
                {"columns": [self.columns[left], self.columns[right]], "error": error}
                for (left, right), error in self.mutual_information.items()
            ],
            "association_error": self.association_error,
            "association_error_by_pair": [
                {"columns": [self.columns[left], self.columns[right]], "error": error}
                for (left, right), error in self.association.items()
            ],
            "propensity": {
                name: {"pmse": each.pmse, "expected": each.expected, "ratio": each.ratio}
                for name, each in self.propensity.items()
            },
            "accuracy": dict(self.accuracies),
            "yardsticks": {
                **{name: each.to_json() for name, each in self.yardsticks.items()},
                "accuracy": {"learned_from_real": dict(self.learned_from_real), "majority_class": self.majority},
            },
            **({} if self.linked is None else {"linked": self.linked.to_json()}),
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
    real: EncodedRows,
    synthetic: EncodedRows,
    *,
    degrees: tuple[int, ...] = (1, 2, 3),
    shares: bool = False,
    accuracies: Mapping[str, float] | None = None,
    propensity: Mapping[str, Propensity] | None = None,
    yardsticks: Mapping[str, Yardstick] | None = None,
    learned_from_real: Mapping[str, float] | None = None,
    majority: float | None = None,
) -> PrivateScores:
    """Compare made-up rows with those that they imitate.

    Args:
        real: the rows that are imitated.
        synthetic: the imitation.
        degrees: the α of the errors; those beyond the number of columns, or of more than `MOST_MARGINALS` marginals,
            are left out.
        shares: compare shares of the rows rather than counts, for tables of unequal size.
        accuracies: what classifiers reached, when they were trained.
        propensity: how far classifiers told the tables apart, when they were asked.
        yardsticks, learned_from_real, majority: what other rows, and other learners, reach.
    Returns:
        PrivateScores: whatever the rows are, for nobody is asked whether they are confidential.
    Raises:
        ValueError: the tables do not have the same columns, or there are no rows.
    """
    width = len(real.columns)
    asked = [alpha for alpha in degrees if alpha <= width and comb(width, alpha) <= MOST_MARGINALS]
    errors = {alpha: alpha_way_error(real, synthetic, alpha=alpha, shares=shares) for alpha in asked}
    information = mutual_information_errors(real, synthetic) if width > 1 else {}
    associations = association_errors(real, synthetic) if width > 1 and len(synthetic.codes) else {}
    told = dict(accuracies or {}), associations, dict(propensity or {})
    beside = dict(yardsticks or {}), dict(learned_from_real or {}), majority
    return PrivateScores(Scores(real.columns, errors, information, *told, *beside))
