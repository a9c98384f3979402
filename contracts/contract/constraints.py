"""Constraints between two columns: one is never above the other, or one determines the other or that it is missing.

They are public, declared like structural zeros and never learned from the rows. A missing value breaks no
constraint. What each rules out is a set of cells of two columns (`contracts.contract.impossible_cells`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, field_validator, model_validator

from contracts.contract.column import Column
from contracts.contract.null_conditions import NullCondition, condition_problems
from contracts.domains.domain_terms import NULL_LABEL, Frozen
from contracts.reading.scalars import FieldPath, Label, Problem, as_items, as_pair, nearest, refuse, word_list

Pair = tuple[str, str]
_NEVER_LEARNED = "it is public and never learned from the rows"


class Dependency(Frozen):
    """A functional dependency: the cell of `by` determines the cell of `column`, as the mapping says."""

    by: Label
    column: Label
    mapping: tuple[tuple[Label, Label], ...] = Field(
        description=f"`mapping: {{LABEL OF by: LABEL OF column, ...}}`; {_NEVER_LEARNED}"
    )

    @field_validator("mapping", mode="before")
    @classmethod
    def _as_pairs(cls, written: Any) -> Any:
        return as_items(written, "a mapping of label: label")


class Constraint(Frozen):
    """One constraint, written under the key that says which.

    less_or_equal: [a, b]    a <= b in every row that has both; numbers or dates
    determines: {by: a, column: b, mapping: {...}}    the cell of a determines that of b (not where a is `other` and
                                                      `other` is not mapped)
    null_exactly_where: {column: b, by: a, below: 15}  b is missing exactly where a is below 15 (`null_conditions`)
    """

    less_or_equal: Annotated[tuple[Label, Label], BeforeValidator(as_pair)] | None = None
    determines: Dependency | None = None
    null_exactly_where: NullCondition | None = Field(default=None, exclude_if=lambda condition: condition is None)

    @model_validator(mode="after")
    def _one_of_them(self) -> Constraint:
        given = [key for key in type(self).model_fields if getattr(self, key) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "neither `less_or_equal` nor `determines` nor `null_exactly_where`"
            refuse([Problem(found, "one of them", "write one list entry for each constraint")])
        return self

    @property
    def kind(self) -> str:
        """The key under which it is written."""
        return next(key for key in type(self).model_fields if getattr(self, key) is not None)

    @property
    def pair(self) -> Pair:
        """The two columns: (lower, upper), or (by, column)."""
        either = self.determines or self.null_exactly_where
        if either is not None:
            return either.by, either.column
        return self.less_or_equal or ("", "")


def order_pairs(constraints: Sequence[Constraint]) -> tuple[Pair, ...]:
    """Return every (a, b) with a <= b, also where it follows from others: a <= b <= c gives a <= c."""
    above: dict[str, list[str]] = {}
    for constraint in constraints:
        if constraint.less_or_equal is not None:
            above.setdefault(constraint.less_or_equal[0], []).append(constraint.less_or_equal[1])
    pairs = []
    for low in above:
        reached: dict[str, None] = {}
        waiting = list(above[low])
        while waiting:
            high = waiting.pop(0)
            if high not in reached:
                reached[high] = None
                waiting += above.get(high, [])
        pairs += [(low, high) for high in reached]
    return tuple(pairs)


def constraint_problems(
    constraints: Sequence[Constraint], columns: Mapping[str, Column], declared: Sequence[str]
) -> list[Problem]:
    """List what is wrong with the constraints of a contract.

    Args:
        constraints: as they were read.
        columns: the columns that could be read.
        declared: the names of all declared properties.
    """
    problems: list[Problem] = []
    seen: dict[tuple[str, Pair], int] = {}
    for place, constraint in enumerate(constraints):
        at: FieldPath = ("constraints", place)
        kind = constraint.kind
        first = seen.setdefault((kind, constraint.pair), place)
        if first != place:
            problems.append(Problem(f"constraint {first} again", "each constraint once", "drop one", at))
            continue
        wrong = list(_unknown(constraint, columns, declared, (*at, kind)))
        known = all(name in columns for name in constraint.pair)
        pictures = [name for name in constraint.pair if known and columns[name].length > 1]
        if pictures:
            found = f"{pictures[0]!r}, a column of pictures"
            wrong.append(Problem(found, "columns of single values", "drop the constraint", (*at, kind)))
        if known and not wrong and kind == "less_or_equal":
            wrong = _incomparable(columns[constraint.pair[0]], columns[constraint.pair[1]], (*at, kind))
        elif known and not wrong and constraint.determines is not None:
            wrong = _mismapped(constraint.determines, columns, (*at, kind))
        elif known and not wrong and constraint.null_exactly_where is not None:
            wrong = condition_problems(constraint.null_exactly_where, columns, (*at, kind))
        problems += wrong
    problems += [
        Problem(f"{low!r} below itself, by way of others", "an order without circles", "drop one", ("constraints",))
        for low, high in order_pairs(constraints)
        if low == high
    ][:1]
    return problems


def _unknown(
    constraint: Constraint, columns: Mapping[str, Column], declared: Sequence[str], at: FieldPath
) -> Iterator[Problem]:
    """Name columns that are not there, and one column in both places."""
    for spot, name in enumerate(constraint.pair):
        key = spot if constraint.less_or_equal is not None else ("by", "column")[spot]
        if name not in columns and (name not in declared or constraint.less_or_equal is not None):
            yield Problem(f"the column {name!r}", "a column with a domain", nearest(name, columns), (*at, key))
    if constraint.pair[0] == constraint.pair[1]:
        yield Problem(f"{constraint.pair[0]!r} twice", "two different columns", "name the other column", at)


def _incomparable(low: Column, high: Column, at: FieldPath) -> list[Problem]:
    """Say that two columns have no common order, or that no value of the one is at most one of the other."""
    kinds = (low.domain.kind, high.domain.kind)
    if kinds[0] != kinds[1] or not low.ordered:
        found = f"{low.name} of kind {kinds[0]} and {high.name} of kind {kinds[1]}"
        remedy = "declare both with the same kind of domain; categories have no order of values"
        return [Problem(found, "two of kind integer, two of kind decimal, or two of kind date", remedy, at)]
    least, most = low.domain.extremes[0], high.domain.extremes[1]
    if least > most:
        found = f"{low.name} from {least} on and {high.name} up to {most}: no row can satisfy it"
        return [Problem(found, "bounds that leave values with a <= b", "swap the columns, or mend the bounds", at)]
    return []


def _mismapped(dependency: Dependency, columns: Mapping[str, Column], at: FieldPath) -> list[Problem]:
    """Name labels that are none, labels given twice, and labels of `by` that are mapped to nothing."""
    by, column = columns[dependency.by], columns[dependency.column]
    values = tuple(label for label in by.labels if label != NULL_LABEL)
    problems = []
    seen: set[str] = set()
    for label, target in dependency.mapping:
        where = (*at, "mapping", label)
        if label not in values:
            problems.append(Problem(f"the label {label!r}", word_list(values), nearest(label, values), where))
        if target not in column.labels:
            remedy = nearest(target, column.labels)
            problems.append(Problem(f"the label {target!r}", word_list(column.labels), remedy, where))
        if label in seen:
            problems.append(Problem(f"{label!r} twice", "each label once", "drop one", where))
        seen.add(label)
    missing = [label for label in values if label not in seen and label != by.domain.rest_label]
    if missing and not problems:
        found = f"nothing for {missing[0]!r}" + (f" and {len(missing) - 1} more" if len(missing) > 1 else "")
        allowed = f"a label of {column.name} for every label of {by.name}"
        problems.append(Problem(found, allowed, f"add it: {_NEVER_LEARNED}", (*at, "mapping")))
    return problems
