"""The draws of a table of statistics on the page: what each added up or told apart, and how, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from contracts.contract.contract import Contract
from contracts.domains.addends import DistinctCount
from contracts.domains.lattice import ValueLattice
from contracts.domains.text import TextDomain
from contracts.domains.trees import tree_key
from contracts.message import message
from contracts.reading.scalars import parse_bound
from contracts.release.statistics import StatisticsTable
from tasks.records.clip_statements import outside_words
from tasks.records.page.statistics_words import distinct_name, lattice_words, quota_words, weight_words

# --- Private clips on the page.


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


@dataclass(frozen=True)
class DrawTerms:
    """How a column was added up, or rows were counted where there is none, with the record's entry of the draw.

    Args:
        column: the column that was added up.
        words: how, sentence by sentence.
        draw: the record's entry.
        counted: what was told apart, in words; None of other draws.
    """

    column: str | None
    words: list[str]
    draw: dict[str, Any]
    counted: str | None = None


def draw_terms(
    table: StatisticsTable,
    keys: Sequence[str],
    lattices: Mapping[str, ValueLattice],
    *,
    draws: Mapping[str, dict[str, Any]],
    clips: Stated,
    contract: Contract,
) -> list[DrawTerms]:
    """Say of each draw of a table what it added up, and how.

    Args:
        table: the table.
        keys: the names of its draws.
        lattices: of its columns, by `Statistic.key`.
        draws: what the record says of each draw, by name.
        clips: the clips that the record states.
        contract: its contract.
    """
    terms, weight = [], table.survey_weight
    apart = {key: counted for key, counted in table.draws(contract) if isinstance(counted, DistinctCount)}
    for key in keys:
        if key in apart:
            name = distinct_name(apart[key].column)
            terms.append(DrawTerms(None, distinct_words(apart[key], contract), draws[key], name))
            continue
        column = draws[key].get("of", "")
        lattice = lattices.get(column if draws[key]["what"] == "sums" else tree_key(column))
        words = [] if lattice is None else lattice_words(lattice, contract)
        if lattice is None and weight is not None:
            words = [weight_words(weight.lattice(contract))]
        if "per_unit" in draws[key]:
            words.append(quota_words(draws[key]["per_unit"]))
        words += clip_words(key, clips, draws)
        terms.append(DrawTerms(None if lattice is None else lattice.column, words, draws[key]))
    return terms


def distinct_words(counted: DistinctCount, contract: Contract) -> list[str]:
    """Say what is a value and what is none, or which units are counted."""
    if counted.column is None:
        most = f"{contract.unit.max_rows_per_unit:,}"
        return [message("units with a row in the cell, of the at most {most} rows that each one keeps", most=most)]
    domain = contract.column(counted.column).domain
    if isinstance(domain, TextDomain):
        longest = f"{domain.max_bytes:,}"
        return [
            message("texts of at most {bytes} bytes are told apart, without the spaces around them", bytes=longest),
            message("missing values are none, and neither are longer texts or those that can be no key"),
        ]
    most = message("of at most {values} values that the contract declares", values=f"{counted.values or 0:,}")
    if domain.nulls.to is not None:
        return [most, message("a missing value counts as {value}", value=domain.nulls.to)]
    return [most, message("a missing value is none")]
