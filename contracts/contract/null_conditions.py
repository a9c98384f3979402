"""Conditions under which a column is missing, and is there everywhere else: a child has no income, an adult has one.

    null_exactly_where: {column: income, by: age, below: 15}
    null_exactly_where: {column: income, by: age, at_least: 100}
    null_exactly_where: {column: employer, by: work, labels: [none, retired]}

A limit is where a bin begins, so that every cell lies on one side. Where `by` itself is missing nothing is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator, Field, model_validator

from contracts.contract.column import Column
from contracts.domains.domain_terms import NULL_LABEL, Frozen
from contracts.reading.scalars import Bound, FieldPath, Label, Problem, as_tuple, nearest, refuse, word_list

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FORMS = "one of `below: NUMBER`, `at_least: NUMBER` and `labels: [...]`"


class NullCondition(Frozen):
    """A column is missing exactly where another one is below a number, at least a number, or has some label."""

    column: Label
    by: Label
    below: Bound | None = Field(default=None, exclude_if=lambda limit: limit is None)
    at_least: Bound | None = Field(default=None, exclude_if=lambda limit: limit is None)
    labels: Annotated[tuple[Label, ...], BeforeValidator(as_tuple)] = Field(
        default=(), exclude_if=lambda labels: not labels
    )

    @model_validator(mode="after")
    def _one_condition(self) -> NullCondition:
        given = [name for name in ("below", "at_least") if getattr(self, name) is not None]
        given += ["labels"] if self.labels else []
        if len(given) != 1:
            refuse([Problem(" and ".join(given) or "no condition", _FORMS, "write one of them")])
        return self

    @property
    def limit(self) -> Decimal | None:
        """The number at which the condition changes; None for labels."""
        return self.below if self.below is not None else self.at_least

    def cells(self, by: Column) -> NDArray[np.bool_]:
        """Mark the cells of `by` in which the column is missing; not that of nulls."""
        import numpy as np

        if self.labels:
            return np.array([label in self.labels for label in by.labels])
        found = np.zeros(by.size, dtype=np.bool_)
        lows = np.array([Decimal(low) < (self.limit or 0) for low, _ in by.domain.axis])
        found[: lows.size] = lows if self.below is not None else ~lows
        return found


def null_mask(condition: NullCondition, by: Column, column: Column) -> NDArray[np.bool_]:
    """Mark the cells (i, j) of `by` and the column that a condition excludes."""
    import numpy as np

    missing = condition.cells(by)
    null = column.labels.index(NULL_LABEL)
    mask = np.repeat(missing[:, None], column.size, axis=1)
    mask[:, null] = ~missing
    if NULL_LABEL in by.labels:
        mask[by.labels.index(NULL_LABEL)] = False
    return mask


def condition_problems(condition: NullCondition, columns: Mapping[str, Column], at: FieldPath) -> list[Problem]:
    """Name what is wrong with a condition on known columns: no cell of nulls, no such label, no such limit."""
    by, column = columns[condition.by], columns[condition.column]
    problems = []
    if NULL_LABEL not in column.labels:
        found = f"{column.name}, whose missing values have no cell"
        problems.append(
            Problem(found, "a column of `nulls: {policy: category}`", "change its nulls", (*at, "column"))
        )
    for place, label in enumerate(condition.labels):
        if label not in by.labels or label == NULL_LABEL:
            known = [each for each in by.labels if each != NULL_LABEL]
            where = (*at, "labels", place)
            problems.append(Problem(f"the label {label!r}", word_list(known), nearest(label, known), where))
    limit = condition.limit
    if limit is not None and by.domain.value_bounds is None:
        found = f"a number for {by.name} of kind {by.domain.kind}"
        problems.append(Problem(found, "a column of numbers in bins", "write `labels: [...]`", at))
    elif limit is not None and limit not in [Decimal(low) for low, _ in by.domain.axis[1:]]:
        found, allowed = f"{limit}, inside a bin of {by.name} or at its bounds", "a number at which a bin begins"
        problems.append(Problem(found, allowed, f"cut the bins of {by.name} there", at))
    return problems
