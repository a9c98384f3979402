"""Selections of keys that nobody declared, as a release plans them: what share of the charge and of δ each has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import floor

from contracts.contract.contract import Contract
from contracts.release.key_bounds import groups_of
from contracts.release.statistics import StatisticsProduct
from privacy.accounting.amounts import PICO
from privacy.accounting.keep_chances import keep_chances
from privacy.accounting.key_count_law import KeyCountLaw, key_count_law
from privacy.accounting.key_selection import KeySelection, key_selection
from privacy.statistics.shares import draw_shares


@dataclass(frozen=True)
class PlannedSelection:
    """A selection of keys that nobody declared, before the draws of its table.

    Args:
        key: name of the draw inside the run.
        table: the table that it is for.
        column: the column of texts.
        share: share of the release's epsilon.
        epsilon: what it costs [dimensionless].
        failure: what it may fail with beside that [10⁻¹⁸].
        event: the event it will be: for as many keys of a unit as it may have; of all its rows together where they
            are counted, too.
        counted_rows: rows of one unit at most, where the draw counts the rows of its keys, too; None where it selects
            keys alone.
    """

    key: str
    table: str
    column: str
    share: Fraction
    epsilon: Fraction
    failure: int
    event: KeySelection
    counted_rows: int | None = None

    @property
    def law(self) -> KeyCountLaw | None:
        """The law of the counts; None where keys are selected alone."""
        if self.counted_rows is None:
            return None
        return key_count_law(self.event.epsilon, self.event.delta, rows_per_unit=self.counted_rows)


def selection_shares(product: StatisticsProduct, contract: Contract) -> dict[str, Fraction]:
    """Return the share of epsilon of each selection of keys, by its table."""
    shares = draw_shares(product, contract)
    keys = {table.name: table.selection_key for table in product.tables}
    return {name: shares[key] for name, key in keys.items() if key is not None}


def plan_selections(
    product: StatisticsProduct, contract: Contract, shares: Mapping[str, Fraction], epsilon: Fraction, delta: int
) -> Iterator[PlannedSelection]:
    """Yield the selections of keys, which have delta alike: all of it, or half of it beside Gaussian noise.

    Args:
        product: which fits the contract.
        contract: its contract.
        shares: of epsilon, by table.
        epsilon: of the release.
        delta: of the release [10⁻¹⁸].
    Raises:
        AmountRefused: epsilon is too small for the chances of so many keys.
    Privacy: reads no data.
    """
    rows = contract.unit.max_rows_per_unit
    for table in product.tables:
        if table.name in shares:
            [column] = contract.texts(table.by)
            part = Fraction(floor(epsilon * shares[table.name] * PICO), PICO)
            failure = delta // len(shares) // (1 if product.mechanism == "laplace" else 2)
            counted = rows if table.counts_with_keys else None
            event = key_selection(part, failure, groups_of(table.at_most_groups, contract) if counted is None else 1)
            key = f"table:{table.name}/keys"
            planned = PlannedSelection(key, table.name, column, shares[table.name], part, failure, event, counted)
            # What no draw could compute is refused before the charge.
            _ = keep_chances(event.epsilon, event.delta) if counted is None else planned.law
            yield planned
