"""How many keys, and how many cells, the rows of one unit have at most, where keys are selected privately."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from contracts.contract.contract import Contract


def groups_of(at_most_groups: int | None, contract: Contract) -> int:
    """Return how many keys one unit has at most: as many as rows, where the table bounds them no further."""
    return contract.unit.max_rows_per_unit if at_most_groups is None else at_most_groups


def most_cells(by: Sequence[str], at_most_groups: int | None, contract: Contract) -> int | None:
    """Return in how many cells of a table the rows of one unit lie at most, where its keys are bounded.

    In each of its keys, in the cell of all others, and in that of none; of each the cells of declared columns beside.
    """
    if at_most_groups is None:
        return None
    texts = contract.texts(by)
    return (at_most_groups + 2) * prod(contract.shape([name for name in by if name not in texts]))


def bounded_groups(tables: Iterable[tuple[Sequence[str], int | None]], contract: Contract) -> dict[str, int]:
    """Return by column of texts how many keys one unit has at most, of tables that bound them."""
    return {contract.texts(by)[0]: groups for by, groups in tables if groups is not None}
