"""Private clips on the page: the lattices of a table as they were found, and in words what a clip cost and cuts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from contracts.contract.contract import Contract
from contracts.domains.value_lattices import ValueLattice
from contracts.domains.value_trees import tree_key
from contracts.message import message
from contracts.reading.scalars import parse_bound
from contracts.release.statistics_table import StatisticsTable
from tasks.records.clip_statements import outside_words

Stated = Sequence[Mapping[str, Any]]


def found_lattices(
    table: StatisticsTable, contract: Contract, clips: Stated, draws: Sequence[str]
) -> dict[str, ValueLattice]:
    """Return the lattices of a table by `Statistic.key`, those of private clips as they were found.

    Args:
        table: the table.
        contract: its contract.
        clips: those that the record states.
        draws: the keys of the table's draws.
    """
    columns = dict(zip(table.draw_keys, (addends for _, addends in table.draws(contract)), strict=True))
    found: dict[str, ValueLattice] = {}
    for lattice in table.lattices(contract):
        found |= {lattice.column: lattice, tree_key(lattice.column): lattice}
    for clip in clips:
        addends = columns.get(clip["draw"]) if clip["draw"] in draws else None
        if isinstance(addends, ValueLattice):
            low, high = parse_bound(clip["low"]), parse_bound(clip["high"])
            found[addends.column] = replace(addends, low=low, high=high)
    return found


def clip_words(key: str, clips: Stated, draws: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Say how the clip of a draw was found, what that cost, and how many rows lie outside."""
    return [
        message(
            "the clip was found in a noisy histogram of all rows, a draw that cost {cost}; outside it lie {rows}",
            cost=draws[clip["histogram"]]["cost"],
            rows=outside_words(clip["rows"], clip["below"], clip["above"]),
        )
        for clip in clips
        if clip["draw"] == key
    ]
