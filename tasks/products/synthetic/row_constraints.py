"""Does every published row keep what the contract declares? By code of its own, from the values alone.

1. every value lies in its column's domain
2. no row lies in a cell that structural zeros or constraints exclude
3. where the contract says a <= b, the values of every row that has both are in that order
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.column import Column
from contracts.contract.contract import Contract
from contracts.contract.terms import order_pairs
from contracts.domains.domain import NULL_LABEL
from contracts.errors import Finding
from tasks.records.strict_json import printable

_BROKEN: Final = "the rows break what the contract declares: do not use them"


@dataclass(frozen=True)
class PublishedColumn:
    """One column of published rows.

    Args:
        values: numbers, days since 1970-01-01, flags, or places among `texts`; of pictures their levels, shape (rows,
            places).
        missing: True where there is no value.
        texts: of a column of texts, the texts that the values stand for.
    """

    values: NDArray[Any]
    missing: NDArray[np.bool_]
    texts: Sequence[str] | None = None


def check_rows(
    contract: Contract, columns: Mapping[str, PublishedColumn], *, first_row: int, where: str
) -> list[Finding]:
    """Check a piece of published rows.

    Args:
        contract: the contract.
        columns: the columns of the piece.
        first_row: number of its first row, from 1.
        where: name of the file.
    Returns:
        list[Finding]: the first row that breaks a rule, for each rule that is broken.
    """
    findings = []
    codes = {}
    for name, column in columns.items():
        codes[name] = codes_of(contract, name, column)
        outside = np.flatnonzero(codes[name] < 0)
        if outside.size:
            field = f"column {printable(name)}, row {first_row + int(outside[0])}"
            findings.append(Finding(where, field, "a value outside its domain", "values of the domain", _BROKEN))
    if findings:
        return findings
    for clique in contract.zero_cliques(list(columns)):
        broken = np.flatnonzero(contract.impossible(clique)[tuple(codes[name] for name in clique)])
        if broken.size:
            field = f"columns {printable(', '.join(clique))}, row {first_row + int(broken[0])}"
            findings.append(Finding(where, field, "a combination declared impossible", "possible ones", _BROKEN))
    for low, high in order_pairs(contract.constraints):
        if low in columns and high in columns:
            both = ~columns[low].missing & ~columns[high].missing
            broken = np.flatnonzero(both & (columns[low].values > columns[high].values))
            if broken.size:
                field = f"columns {printable(low)} and {printable(high)}, row {first_row + int(broken[0])}"
                allowed = f"{printable(low)} <= {printable(high)}"
                findings.append(Finding(where, field, "values in the other order", allowed, _BROKEN))
    return findings


def codes_of(contract: Contract, name: str, column: PublishedColumn) -> NDArray[np.int64]:
    """Return the cell that each value lies in, of a picture 0; -1 for none."""
    declared = contract.column(name)
    if declared.length > 1:
        shape, most = (column.missing.size, declared.length), declared.size - 1
        if column.values.shape != shape or column.missing.any():
            return np.full(column.missing.size, -1, dtype=np.int64)
        outside = ((column.values < 0) | (column.values > most)).any(axis=1)
        return np.where(outside, -1, 0)
    null = declared.labels.index(NULL_LABEL) if NULL_LABEL in declared.labels else -1
    if declared.ordered:
        found = _bins_of(declared, column.values)
    elif column.texts is not None:
        known = {label: code for code, label in enumerate(declared.labels) if label != NULL_LABEL}
        found = np.array([*(known.get(text, -1) for text in column.texts), -1], dtype=np.int64)[column.values]
    else:
        texts, places = np.unique(column.values, return_inverse=True)
        known = {_key(label): code for code, label in enumerate(declared.labels) if label != NULL_LABEL}
        found = np.array([known.get(_key(_text(text)), -1) for text in texts], dtype=np.int64)[places.reshape(-1)]
    return np.where(column.missing, null, found)


def _bins_of(column: Column, values: NDArray[Any]) -> NDArray[np.int64]:
    """Return the bin of each number or day; -1 outside the bounds."""
    ends = [(float(low), float(high)) for low, high in column.domain.axis]
    lows = np.array([low for low, _ in ends])
    inside = (values >= lows[0]) & (values <= ends[-1][1])
    return np.where(inside, np.searchsorted(lows, values, side="right") - 1, -1)


def _text(value: Any) -> str:
    return value.item().isoformat() if isinstance(value, np.datetime64) else str(value)


def _key(label: str) -> str:
    """Flags are True in an array and true or True in a contract."""
    return label.lower() if label.lower() in ("true", "false") else label
