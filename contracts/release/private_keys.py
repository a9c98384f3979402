"""What `keys: private` must be beside its contract: one column of texts, selected once, where units come and go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from contracts.contract.contract import Contract
from contracts.reading.scalars import Problem, word_list
from contracts.release.key_bounds import groups_of

if TYPE_CHECKING:
    from contracts.release.statistics import StatisticsProduct

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
    if groups_of(table.at_most_groups, contract) > MOST_GROUPS:
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
