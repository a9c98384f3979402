"""What `keys: private` must be beside its contract: one column of texts, selected once, where units come and go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod
from typing import TYPE_CHECKING, Final

from contracts.contract.contract import Contract
from contracts.reading.scalars import Problem, word_list

if TYPE_CHECKING:
    from contracts.release.statistics import StatisticsProduct, StatisticsTable

MOST_GROUPS: Final = 4096


def key_problems(product: StatisticsProduct, place: int, contract: Contract) -> Iterator[Problem]:
    """Yield what does not fit of the keys of one table.

    Args:
        product: the product.
        place: the table's.
        contract: its contract.
    """
    table = product.tables[place]
    texts = contract.texts(table.by)
    if table.key_choice == "declared" and table.at_most_groups is not None:
        remedy = "drop it, or write keys: private beside `by:`"
        yield Problem("at_most_groups of declared keys", "keys: private beside it", remedy, ("at_most_groups",))
    if table.key_choice == "declared":
        for name in texts:
            remedy = "write keys: private beside `by:`, and a delta above 0"
            found = f"{name!r}, a column of texts that nobody declared"
            yield Problem(found, "declared columns, or keys: private", remedy, ("by", table.by.index(name)))
        return
    yield from _group_problems(table.at_most_groups, contract)
    if contract.adjacency != "add_remove":
        remedy = "declare the keys, or another adjacency in the contract"
        yield Problem(f"keys: private under {contract.adjacency}", "adjacency add_remove", remedy, ("keys",))
    if len(texts) != 1:
        known = contract.texts()
        allowed = word_list(known) if known else "a column of kind text, which the contract has none of"
        found = f"{len(texts)} columns of texts with keys: private"
        yield Problem(found, allowed, "group by one column of texts, and declared ones beside it", ("by",))
    if groups_of(table, contract) > MOST_GROUPS:
        found = f"{contract.unit.max_rows_per_unit} rows of a unit, each of which may have another key"
        remedy = "write at_most_groups beside `keys:`, or bound the rows of a unit in the contract"
        yield Problem(found, f"at most {MOST_GROUPS}", remedy, ("keys",))
    earlier = [each.name for each in product.tables[:place] if each.key_choice == "private" and {*each.by} & {*texts}]
    if earlier:
        found = f"{texts[0]!r}, whose keys table {earlier[0]!r} selects"
        yield Problem(found, "a column in one table with keys: private", "put all statistics into it", ("by",))


def _group_problems(groups: int | None, contract: Contract) -> Iterator[Problem]:
    """Yield what is wrong with the keys that a unit may have: none, or no fewer than it has rows."""
    rows = contract.unit.max_rows_per_unit
    if groups is None or 1 <= groups < rows:
        return
    found, allowed = f"at_most_groups: {groups}", f"a whole number from 1 to {rows - 1}"
    remedy = "write a smaller one, or drop it: a unit has no more keys than rows"
    if rows == 1:
        allowed, remedy = "none, where a unit has one row and so one key", "drop it"
    yield Problem(found, allowed, remedy, ("at_most_groups",))


def groups_of(table: StatisticsTable, contract: Contract) -> int:
    """Return how many keys one unit has at most in a table: as many as rows, where nothing bounds them."""
    return contract.unit.max_rows_per_unit if table.at_most_groups is None else table.at_most_groups


def most_cells(table: StatisticsTable, contract: Contract) -> int | None:
    """Return in how many cells of a table the rows of one unit lie at most, where its keys are bounded.

    In each of its keys, in the cell of all others, and in that of none; of each the cells of declared columns beside.
    """
    if table.at_most_groups is None:
        return None
    texts = contract.texts(table.by)
    beside = prod(contract.shape([name for name in table.by if name not in texts]))
    return (table.at_most_groups + 2) * beside


def bounded_groups(tables: Iterable[StatisticsTable], contract: Contract) -> dict[str, int]:
    """Return by column of texts how many keys one unit has at most, where a table says so."""
    bounded = [each for each in tables if each.at_most_groups is not None]
    return {contract.texts(each.by)[0]: groups_of(each, contract) for each in bounded}
