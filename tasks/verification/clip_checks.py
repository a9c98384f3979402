"""Private clips against the histograms that they come of: a part of the bounds, the one that the rule finds again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.domains.lattice import ValueLattice
from contracts.errors import Finding
from contracts.release.statistics import StatisticsProduct, StatisticsTable
from contracts.release.survey_weight import groups_of
from privacy.accounting.events import PrivacyEvent
from privacy.statistics.clips import find_clips, narrowed_plan
from privacy.statistics.plan import (
    StatisticsDraw,
    StatisticsPlan,
    WantedDraw,
    plan_statistics,
    wanted_choices,
    wanted_draws,
)
from tasks.records.clip_statements import found_lattice, stated_clips
from tasks.records.draws.draws import CellSumDraw, DistinctStatement
from tasks.records.model.version_statements import FittedDraw
from tasks.records.statistics_fields import StatisticsReplay
from tasks.verification.record_identity import differences

COUNTED: Final = {"counts": "rows"}
"""What is compared, beside its columns, of a selection of keys that counts them."""


def selection_terms(table: StatisticsTable, contract: Contract) -> dict[str, Any]:
    """Return what is compared of a selection of keys: that it counts them, or how many of them a unit may have."""
    return COUNTED if table.counts_with_keys else {"groups": groups_of(table.at_most_groups, contract)}


class ProductMeaning(Protocol):
    """Contract and product of a release of statistics."""

    @property
    def contract(self) -> Contract:
        """The contract."""
        ...

    @property
    def product(self) -> StatisticsProduct:
        """The product."""
        ...


def wanted_of(
    stated: Sequence[FittedDraw], meaning: ProductMeaning
) -> list[tuple[str, list[str], dict[str, Any] | None]]:
    """Return key, columns and addends of each draw that a record must have; of a private clip any part of its bounds.

    Whether it is the right part, `check_clips` says.
    """
    by_key, (histograms, draws) = {draw.key: draw for draw in stated}, wanted_draws(meaning.product, meaning.contract)
    contract, product = meaning.contract, meaning.product
    expected: list[tuple[str, list[str], dict[str, Any] | None]] = [
        (table.selection_key, list(contract.texts(table.by)), selection_terms(table, contract))
        for table in product.tables
        if table.selection_key is not None
    ]
    for draw in (*histograms, *draws):
        addends = _stated_lattice(by_key.get(draw.key), draw) or draw.addends
        expected.append((draw.key, list(draw.clique), None if addends is None else addends.to_json()))
    chosen = wanted_choices(product, contract)
    return [*expected, *((each.key, list(each.clique), each.choices.to_json()) for each in chosen)]


def stated_events(replay: StatisticsReplay, meaning: ProductMeaning) -> list[PrivacyEvent]:
    """Return the event that each draw must have, over the lattices that are stated of private clips.

    Raises:
        SudareError, ArithmeticError, ValueError: a charge that its draws cannot share.
    """
    plan, stated = _plan(replay, meaning), {draw.key: draw for draw in replay.draws}
    found = {draw.key: _stated_lattice(stated.get(draw.key), draw) for draw in plan.draws}
    lattices = {key: lattice for key, lattice in found.items() if lattice is not None}
    draws = narrowed_plan(plan, lattices).draws
    selected, chosen = ([each.event for each in plan.selections], [each.event for each in plan.choices])
    return [*selected, *(draw.event for draw in (*plan.clips, *draws)), *chosen]


def check_clips(
    replay: StatisticsReplay,
    meaning: ProductMeaning,
    noisy: Mapping[str, NDArray[np.int64]],
    skipped: list[str],
    *,
    where: str,
) -> list[Finding]:
    """Find every private clip again, and compare it with what is stated of it, and with the lattice of its draw.

    Args:
        replay: the record's replay block.
        meaning: contract and product.
        noisy: what was drawn, by key.
        skipped: what could not be checked is added here.
        where: the record's file name.
    """
    plan = _plan(replay, meaning)
    if any(draw.key not in noisy for draw in plan.clips):
        skipped.append("private clips: not all histograms of magnitudes can be read")
        return []
    found = find_clips(plan, meaning.product.tables, meaning.contract, noisy)
    stated, expected = [each.model_dump() for each in replay.clips], stated_clips(plan, found)
    pairs: list[tuple[str, object, object]] = [("replay.clips", f"{len(stated)} of them", f"{len(expected)} of them")]
    for place, (one, other) in enumerate(zip(stated, expected, strict=False)):
        pairs += [(f"replay.clips[{place}].{name}", str(one[name]), str(value)) for name, value in other.items()]
    for place, draw in enumerate(replay.draws):
        if draw.key in found and isinstance(draw, CellSumDraw):
            wanted = str(found[draw.key].lattice.to_json())
            pairs.append((f"replay.draws[{place}].addends", str(draw.addends.model_dump(exclude_none=True)), wanted))
    return list(differences(pairs, where=where, allowed="as the histogram that was drawn for it says"))


def _plan(replay: StatisticsReplay, meaning: ProductMeaning) -> StatisticsPlan:
    """Return the plan as it was charged."""
    epsilon, delta = replay.charge.amounts
    return plan_statistics(meaning.product, meaning.contract, epsilon=epsilon, delta=delta)


def _stated_lattice(stated: FittedDraw | None, wanted: StatisticsDraw | WantedDraw) -> ValueLattice | None:
    """Return the lattice that is stated of a draw with a private clip; None where it is no part of its bounds."""
    if wanted.clip is None or not isinstance(stated, CellSumDraw) or isinstance(stated.addends, DistinctStatement):
        return None
    try:
        return found_lattice(wanted, stated.addends.low, stated.addends.high)
    except (ArithmeticError, ValueError):
        return None
