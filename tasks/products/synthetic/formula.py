"""A regression as people write it, `income ~ age + sex[female]`, read into terms over the cells of columns.

column           a number: a cell counts as the middle of its bin
column[label]    1 where the row has this label, else 0
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

import numpy as np

from contracts.contract.column import Column
from contracts.contract.contract import NULL_LABEL, Contract
from contracts.errors import Finding, Refused
from contracts.reading.scalars import nearest, word_list
from privacy.inference.least_squares import Term

_FORM = "outcome ~ term + term, a term being `column` or `column[label]`"


def parse_formula(
    formula: str, contract: Contract, names: Sequence[str], *, missing: Mapping[str, float]
) -> tuple[Term, tuple[Term, ...]]:
    """Read a formula.

    Args:
        formula: as above.
        contract: gives the cells of columns.
        names: the columns that the version has.
        missing: the number that stands for a missing value, by column.
    Returns:
        tuple: the outcome, and the terms without the intercept, which every regression has.
    Raises:
        Refused: another form, an unknown column or label, text labels as a number, or a number with missing values
            that nothing stands for.
    """
    sides = formula.split("~")
    written = [part.strip() for part in sides[1].split("+")] if len(sides) == 2 else []
    if len(sides) != 2 or not sides[0].strip() or not all(written):
        _refuse("formula", repr(formula), _FORM, "write it like `income ~ age + sex[female]`")
    outcome = sides[0].strip()
    twice = [name for place, name in enumerate(written) if name in written[:place] or name == outcome]
    if twice:
        _refuse("formula", f"the term {twice[0]!r} twice", "each term once", "drop one")
    for name in missing:
        if name not in names:
            _refuse("missing", f"the column {name!r}", word_list(names), nearest(name, names))
    read = [_term(each, contract, names, missing) for each in (outcome, *written)]
    return read[0], tuple(read[1:])


def _term(written: str, contract: Contract, names: Sequence[str], missing: Mapping[str, float]) -> Term:
    name, bracket, rest = written.partition("[")
    name = name.strip()
    if name not in names:
        _refuse("formula", f"the column {name!r}", word_list(names), nearest(name, names))
    if contract.pictures([name]):
        _refuse("formula", f"{name!r}, a column of pictures", "columns of single values")
    column = contract.column(name)
    if bracket:
        return Term(written, name, _indicator(column, rest))
    return Term(written, name, _numbers(column, missing))


def _indicator(column: Column, rest: str) -> np.ndarray:
    label, labels = rest.removesuffix("]").strip(), list(column.labels)
    if label not in labels or not rest.endswith("]"):
        _refuse("formula", f"{column.name}[{rest}", word_list(labels), nearest(label, labels))
    return np.array([float(each == label) for each in labels])


def _numbers(column: Column, missing: Mapping[str, float]) -> np.ndarray:
    """Return the middle of each cell's bin; the missing cell's own number."""
    domain, labels = column.domain, list(column.labels)
    if not domain.ordered:
        example = f"{column.name}[{labels[-1] if labels[-1] != NULL_LABEL else labels[-2 if len(labels) > 1 else 0]}]"
        found = f"{column.name!r}, a column of labels"
        _refuse("formula", found, "a column of numbers, or one label of it", f"name a label, such as `{example}`")
    middles = [(float(low) + float(high)) / 2 for low, high in domain.axis]
    others = labels[len(middles) :]
    if others and column.name not in missing:
        found = f"{column.name!r}, a number with missing values (the cell {others[0]})"
        remedy = (
            f"say what stands for them: missing={{{column.name!r}: 0}}; or regress on `{column.name}[{others[0]}]`"
        )
        _refuse("formula", found, "numbers without missing values", remedy)
    return np.array([*middles, *(missing[column.name] for _ in others)])


def _refuse(field: str, found: str, allowed: str, remedy: str = "") -> NoReturn:
    raise Refused([Finding("the call", field, found, allowed, remedy)])
