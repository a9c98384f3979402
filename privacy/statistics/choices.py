"""Quantiles that a release will have chosen by the exponential mechanism: which, for what share of the charge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import floor, isqrt
from typing import Literal

from contracts.contract.contract import Contract
from contracts.contract.impossible_cells import Clique
from contracts.domains.quantile_choices import QuantileChoices
from contracts.domains.value_trees import ValueTree
from contracts.release.statistics import StatisticsProduct
from privacy.accounting.amounts import PICO
from privacy.accounting.events import ExponentialMechanism
from privacy.statistics.quantile_method import column_choice_share, table_choices
from privacy.statistics.shares import draw_shares


@dataclass(frozen=True)
class WantedChoices:
    """Quantiles of a column that are chosen, before they are priced; fields as of `PlannedChoices`."""

    key: str
    table: str
    clique: Clique
    choices: QuantileChoices
    share: Fraction


@dataclass(frozen=True)
class PlannedChoices:
    """Quantiles of a column that the release will have chosen.

    Args:
        key: name of the draw inside the run.
        table: the table that it is for.
        clique: columns that rows are grouped by.
        choices: the column with its lattice, and the quantiles.
        shape: of the offsets that are chosen.
        share: share of the release's budget.
        event: what all choices cost together.
    """

    key: str
    table: str
    clique: Clique
    choices: QuantileChoices
    shape: tuple[int, ...]
    share: Fraction
    event: ExponentialMechanism


def wanted_choices(product: StatisticsProduct, contract: Contract) -> Iterator[WantedChoices]:
    """Yield which quantiles are chosen, each with its key, and with its share of what its tree would get."""
    shares = draw_shares(product, contract)
    for table in product.tables:
        trees = {addends.column: key for key, addends in table.draws(contract) if isinstance(addends, ValueTree)}
        for each in table_choices(table, contract, product.mechanism):
            part = shares[trees[each.column]] * column_choice_share(table, each.column)
            yield WantedChoices(f"table:{table.name}/{each.key_name}", table.name, table.by, each, part)


def plan_choices(
    wanted: WantedChoices, contract: Contract, part: Fraction, mechanism: Literal["laplace", "gaussian"]
) -> PlannedChoices:
    """Plan a private choice; of a rho it has the bounded range epsilon with epsilon^2 / 8 = rho, rounded down.

    Args:
        wanted: what is chosen.
        contract: its contract.
        part: of the charge, an epsilon for Laplace noise, else a rho.
        mechanism: the product's noise.
    Privacy: reads no data.
    """
    units = part * PICO if mechanism == "laplace" else isqrt(floor(8 * part * PICO * PICO))
    shape, event = (
        (*contract.shape(wanted.clique), wanted.choices.parts),
        ExponentialMechanism(Fraction(floor(units), PICO)),
    )
    return PlannedChoices(wanted.key, wanted.table, wanted.clique, wanted.choices, shape, wanted.share, event)
