"""What shows only when the parts of a contract are seen together: unknown names, terms that exclude each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from contracts.contract.column import Column
from contracts.contract.constraints import constraint_problems
from contracts.contract.privacy_terms import PrivacyTerms, Unit
from contracts.reading.scalars import Problem, nearest, word_list


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
