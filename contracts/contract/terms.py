"""Constraints between two columns: one is never above the other, or one determines the other or that it is missing.

They are public, declared like structural zeros and never learned from the rows. A missing value breaks no
constraint. What each rules out is a set of cells of two columns (`contracts.contract.impossible_cells`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from contracts.contract.column import Column
from contracts.domains.domain import NULL_LABEL, Frozen, exactness_problems
from contracts.reading.scalars import (
    Bound,
    FieldPath,
    Label,
    Problem,
    Text,
    Whole,
    as_items,
    as_pair,
    as_tuple,
    nearest,
    refuse,
    show,
    word_list,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# --- Conditions under which a column is missing, and is there everywhere else.


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


# --- The privacy terms of a table.


Adjacency = Literal["add_remove", "replace_one"]
Scope = Literal["block", "lifetime"]


class Unit(Frozen):
    """Whose privacy counts: each row, or everyone with rows under one id (at most `max_rows_per_unit` are kept).

    `scope` says over which data the loss of a unit is bounded; nothing that changes privacy has a default:

    - `block`: a unit is a row or a person within one time block of the data. Accounts of different time blocks bound
      the loss block by block; somebody who is in several blocks may lose the sum.
    - `lifetime`: the same person may be in many time blocks and is protected over all of them. Every charge is also
      taken from an account whose block is `lifetime`; without one the ledger refuses.
    """

    kind: Literal["row", "id"]
    scope: Scope = Field(
        description="`scope: block` if each time block's people are bounded by themselves, `scope: lifetime` if "
        "people appear in several blocks and are protected over all of them"
    )
    column: Label | None = None
    max_rows_per_unit: Whole = 1
    numbers_up_to: Whole | None = Field(
        default=None,
        exclude_if=lambda largest: largest is None,
        description="the largest id that is a number: larger ones count as missing. Where it is declared, ids may be "
        "stored as floating-point numbers",
    )

    @model_validator(mode="after")
    def _bounded(self) -> Unit:
        problems = []
        problems += exactness_problems(self.numbers_up_to)
        if self.max_rows_per_unit < 1:
            problems.append(Problem(str(self.max_rows_per_unit), "a whole number from 1", at=("max_rows_per_unit",)))
        if self.kind == "id":
            for key in ("column", "max_rows_per_unit"):
                if key not in self.model_fields_set or getattr(self, key) is None:
                    problems.append(Problem(f"kind: id without `{key}`", f"`{key}` given", f"add `{key}:`"))
            if self.column is not None and self.column.lower() == "row":
                remedy = (
                    "rename it in the contract and in the source's table: the ledger tells units apart by this name"
                )
                problems.append(Problem(repr(self.column), "a name other than row", remedy, ("column",)))
        elif self.column is not None or self.max_rows_per_unit != 1 or self.numbers_up_to is not None:
            remedy = "write kind: id if one person may have several rows"
            problems.append(Problem("kind: row with further keys", "kind: row and its scope alone", remedy))
        if problems:
            refuse(problems)
        return self


class TotalInvariant(Frozen):
    """The number of rows, declared public with the place where it is published."""

    kind: Literal["total"]
    value: Whole
    reference: Label

    @field_validator("value")
    @classmethod
    def _countable(cls, value: int) -> int:
        if value < 0:
            refuse([Problem(str(value), "a number of rows, zero or more")])
        return value


class StructuralZero(Frozen):
    """A combination that cannot occur: each column at one of its listed labels, all at once."""

    assignment: tuple[tuple[str, tuple[Label, ...]], ...]

    @model_validator(mode="before")
    @classmethod
    def _from_mapping(cls, written: Any) -> Any:
        """Read the written form, {column: [labels]}, beside the parsed one."""
        if not isinstance(written, dict) or not written:
            refuse([Problem(show(written), "a mapping of column: [labels]")])
        inner = written.get("assignment")
        if len(written) == 1 and isinstance(inner, list | tuple) and all(isinstance(p, list | tuple) for p in inner):
            return written
        problems = [
            Problem(show(labels), "a list of labels, such as [A, B]", at=(str(name),))
            for name, labels in written.items()
            if not isinstance(labels, list | tuple) or not labels
        ]
        if problems:
            refuse(problems)
        return {"assignment": tuple((str(name), tuple(labels)) for name, labels in written.items())}


class PrivacyTerms(Frozen):
    """The `privacy` block of a contract; nothing in it that changes a sensitivity has a default.

    `left_out` names columns that the source may have and no release uses: free texts, names, addresses.
    """

    unit: Unit
    adjacency: Adjacency
    invariants: Annotated[tuple[TotalInvariant, ...], BeforeValidator(as_tuple)] = ()
    structural_zeros: Annotated[tuple[StructuralZero, ...], BeforeValidator(as_tuple)] = ()
    constraints: Annotated[tuple[Constraint, ...], BeforeValidator(as_tuple)] = ()
    gates: Annotated[tuple[Text, ...], BeforeValidator(as_tuple)] = ()
    left_out: Annotated[tuple[Label, ...], BeforeValidator(as_tuple)] = ()

    @model_serializer(mode="wrap")
    def _only_what_is_left_out(self, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write `left_out` only where it names columns: contracts from before it keep their digest and record."""
        content: dict[str, Any] = written(self)
        if not self.left_out:
            content.pop("left_out", None)
        return content

    @property
    def total(self) -> TotalInvariant | None:
        """The declared public number of rows, if there is one."""
        return next((invariant for invariant in self.invariants if invariant.kind == "total"), None)


# --- What shows only when the parts of a contract are seen together.


def check_names(columns: Sequence[Column], unit: Unit) -> tuple[str, ...]:
    """Name every check that the contract implies; a gate is one of these."""
    names = ["columns", "rows"]
    if unit.column is not None:
        names.append(f"nulls:{unit.column}")
    for column in columns:
        names += [f"nulls:{column.name}", *(f"{of}:{column.name}" for of, _, _ in column.domain.checks())]
    return tuple(names)


def contradictions(terms: PrivacyTerms, columns: Sequence[Column], declared: Sequence[str]) -> list[Problem]:
    """List what contradicts what; empty means that the parts fit.

    Args:
        terms: the privacy block.
        columns: the columns that could be read.
        declared: the names of all declared properties, the unit's id column and unreadable ones included.
    """
    return [
        *_unit_problems(terms, columns, declared),
        *_invariant_problems(terms),
        *_zero_problems(terms, {column.name: column for column in columns}, declared),
        *constraint_problems(terms.constraints, {column.name: column for column in columns}, declared),
        *_gate_problems(terms, columns, declared),
        *_left_out_problems(terms, declared),
    ]


def _unit_problems(terms: PrivacyTerms, columns: Sequence[Column], declared: Sequence[str]) -> list[Problem]:
    """The id column is a declared property, and nothing of it is published."""
    name, at = terms.unit.column, ("unit", "column")
    if name is None:
        return []
    if name not in declared:
        return [Problem(repr(name), "a declared property", nearest(name, declared) or "declare it", at)]
    if any(column.name == name for column in columns):
        remedy = "drop its `domain`: an id is never published"
        return [Problem(f"{name!r} has a domain", "a property without `domain`", remedy, at)]
    return []


def _invariant_problems(terms: PrivacyTerms) -> list[Problem]:
    """An exact total is public only where neighbours have the same size (law 4)."""
    problems = []
    if len(terms.invariants) > 1:
        problems.append(Problem("the total declared twice", "at most one total", at=("invariants", 1)))
    if terms.invariants and terms.adjacency != "replace_one":
        remedy = "a public total makes neighbours equal in size: write adjacency: replace_one, or drop the invariant"
        problems.append(Problem(f"{terms.adjacency} with a public total", "replace_one", remedy, ("adjacency",)))
    if terms.invariants and terms.unit.max_rows_per_unit != 1:
        remedy = "replacing a unit with several rows changes the total: drop the invariant, or keep one row per unit"
        found = f"max_rows_per_unit {terms.unit.max_rows_per_unit} with a public total"
        problems.append(Problem(found, "1", remedy, ("unit", "max_rows_per_unit")))
    return problems


def _zero_problems(terms: PrivacyTerms, columns: Mapping[str, Column], declared: Sequence[str]) -> list[Problem]:
    """Structural zeros name declared columns, and labels of theirs."""
    problems = []
    for place, zero in enumerate(terms.structural_zeros):
        for name, labels in zero.assignment:
            at = ("structural_zeros", place, name)
            if name not in columns:
                if name not in declared or name == terms.unit.column:
                    allowed = "a column with a domain"
                    problems.append(Problem(f"the column {name!r}", allowed, nearest(name, columns), at))
                continue
            if columns[name].length > 1:
                allowed = "columns of single values"
                problems.append(Problem(f"{name!r}, a column of pictures", allowed, "drop it", at))
                continue
            known = columns[name].labels
            for spot, label in enumerate(labels):
                if label not in known:
                    remedy = nearest(label, known)
                    problems.append(Problem(f"the label {label!r}", word_list(known), remedy, (*at, spot)))
    return problems


def _gate_problems(terms: PrivacyTerms, columns: Sequence[Column], declared: Sequence[str]) -> list[Problem]:
    """Gates name checks that the contract implies."""
    known = check_names(columns, terms.unit)
    unread = set(declared) - {column.name for column in columns}
    return [
        Problem(f"the gate {gate!r}", word_list(known), nearest(gate, known), ("gates", place))
        for place, gate in enumerate(terms.gates)
        if gate not in known and gate.partition(":")[2] not in unread
    ]


def _left_out_problems(terms: PrivacyTerms, declared: Sequence[str]) -> list[Problem]:
    """What is left out is no declared column, and is named once."""
    known = {name.casefold(): name for name in declared}
    seen: set[str] = set()
    problems = []
    for place, name in enumerate(terms.left_out):
        at, folded = ("left_out", place), name.casefold()
        if folded in known:
            allowed = "columns that the contract does not declare"
            problems.append(Problem(f"the declared column {known[folded]!r}", allowed, "drop one of the two", at))
        if folded in seen:
            problems.append(Problem(f"{name!r} again", "each column once", "drop one", at))
        seen.add(folded)
    return problems
