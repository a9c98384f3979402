"""Statistics: every planned draw through the grant, then the numbers that follow from them.

Histograms of magnitudes come first: the clips that are found in them decide the lattices of the draws after them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from contracts.contract.contract import Contract
from contracts.release.statistics import StatisticsProduct, statistics_product
from privacy.generators.generator import Fitted
from privacy.grant.measurement import (
    CellSumMeasurement,
    KeyCountMeasurement,
    KeyMeasurement,
    Measurement,
    selected_texts,
)
from privacy.grant.queries.cell_sums import CellSumQuery
from privacy.grant.queries.keys import KeyCountQuery, KeyQuery
from privacy.grant.queries.marginal import MarginalQuery
from privacy.grant.queries.quantile_choice import QuantileChoiceQuery, QuantileMeasurement
from privacy.snapshots.snapshot import SnapshotCounts, SnapshotKeys, SnapshotSums, SnapshotValues
from privacy.statistics.clips import FoundClip, find_clips, narrowed_plan
from privacy.statistics.key_counts import KeyCountNumbers
from privacy.statistics.plan import PlannedSelection, StatisticsPlan
from privacy.statistics.quantiles import ChosenQuantiles
from privacy.statistics.table import NoisyNumbers, refined_tables, table_values
from tasks.products.product_kind import Making, MakingStep
from tasks.records.draws.marginal import write_drawn
from tasks.records.facts import Outputs, RunFacts
from tasks.records.files.tidy_tables import DATA, Tidy, WrittenFile, shown_values
from tasks.records.files.write import write_parts
from tasks.records.outputs import ReleasedStatistics, StatisticsTableValues
from tasks.storage.progress import step

logger = logging.getLogger(__name__)
Drawn = Measurement | CellSumMeasurement | KeyMeasurement | QuantileMeasurement


def _measured(making: Making, _before: None) -> tuple[Drawn, ...]:
    """Draw, or replay, in the order of the plan; sums over the same cells are added up in one scan."""
    charged: StatisticsPlan = making.plan
    product = statistics_product(making.spec.product)
    rule_of = product.minimum_frequency_of
    drawn: list[Drawn] = []
    with step("measure") as bar:
        selected = _selected(making)
        drawn += selected
        apart = {name for each in product.tables for name in each.told_apart}
        keys = SnapshotKeys(making.table, making.contract)
        recoded = (
            keys.recoded(selected_texts(selected), apart, product.bounded_groups(making.contract))
            if selected
            else None
        )
        table, contract = recoded or (making.table, making.contract)
        counts, sums = SnapshotCounts(table, contract), SnapshotSums(table, contract)
        for clip in charged.clips:
            (handle,) = sums.sums((), [clip.addends] if clip.addends else [])
            drawn.append(making.grant.draw(CellSumQuery(handle, clip.noise), key=clip.key))
        plan = _narrowed(making, drawn)
        for name in dict.fromkeys(draw.table for draw in plan.draws):
            draws = plan.of_table(name)
            addends = [draw.addends for draw in draws if draw.addends is not None]
            handles = iter(sums.sums(draws[0].clique, addends) if addends else ())
            for draw in draws:
                rule = rule_of(draw.key)
                if draw.addends is None:
                    query = MarginalQuery(counts.marginal(draw.clique), draw.noise, rule)
                    drawn.append(making.grant.draw(query, key=draw.key))
                else:
                    drawn.append(making.grant.draw(CellSumQuery(next(handles), draw.noise, rule), key=draw.key))
                bar.advance(len(drawn) / plan.number)
        values = SnapshotValues(making.table, making.contract)
        for each in plan.choices:
            choice = QuantileChoiceQuery(values.values(each.clique, each.choices), each.event.epsilon)
            drawn.append(making.grant.draw(choice, key=each.key))
            bar.advance(len(drawn) / plan.number)
    logger.info("measured %d draws of %d numbers", len(drawn), plan.numbers)
    return tuple(drawn)


def _selected(making: Making) -> list[KeyMeasurement]:
    """Select the keys that nobody declared, one column after the other."""
    plan: StatisticsPlan = making.plan
    if not plan.selections:
        return []
    keys = SnapshotKeys(making.table, making.contract)
    return [_select(making, each, keys) for each in plan.selections]


def _select(making: Making, planned: PlannedSelection, keys: SnapshotKeys) -> KeyMeasurement:
    """Select keys, and count them too where no other draw does."""
    terms = planned.epsilon, planned.failure
    if planned.counted_rows is None:
        handle = keys.keys(planned.column, planned.event.groups)
        return making.grant.draw(KeyQuery(handle, *terms), key=planned.key)
    return making.grant.draw(KeyCountQuery(keys.key_rows(planned.column), *terms), key=planned.key)


def _summarized(making: Making, drawn: tuple[Drawn, ...]) -> Outputs:
    contract = making.contract.with_keys(selected_texts(drawn))
    made = released_tables(_narrowed(making, drawn), contract, statistics_product(making.spec.product), drawn)
    return Outputs(statistics=ReleasedStatistics(Fitted(None, drawn), made, _found(making, drawn)))


def _found(making: Making, drawn: Iterable[Drawn]) -> dict[str, FoundClip]:
    """Return the clips that the histograms among what was drawn lead to, by key of the draw that has each."""
    plan: StatisticsPlan = making.plan
    keys = {each.key for each in plan.clips}
    values = {each.key: each.values for each in drawn if isinstance(each, CellSumMeasurement) and each.key in keys}
    return find_clips(plan, statistics_product(making.spec.product).tables, making.contract, values)


def _narrowed(making: Making, drawn: Iterable[Drawn]) -> StatisticsPlan:
    """Return the plan with these clips."""
    lattices = {key: clip.lattice for key, clip in _found(making, drawn).items()}
    return narrowed_plan(making.plan, lattices)


def released_tables(
    plan: StatisticsPlan, contract: Contract, product: StatisticsProduct, drawn: tuple[Drawn, ...]
) -> tuple[StatisticsTableValues, ...]:
    """Return the tables that follow from what was drawn. Post-processing."""
    numbers = {each.key: each for each in drawn if not isinstance(each, KeyMeasurement)}
    found = {
        table.name: {
            None if draw.addends is None else draw.addends.key: NoisyNumbers(
                numbers[draw.key].values, draw.event, draw.addends
            )
            for draw in plan.of_table(table.name)
        }
        for table in product.tables
    }
    counted = _counted(plan, drawn)
    refined, rule = refined_tables(product, found, contract), product.minimum_frequency
    made = []
    for table in product.tables:
        choices = plan.choices_of(table.name)
        chosen = {each.choices.column: ChosenQuantiles(numbers[each.key].values, each.choices) for each in choices}
        terms: dict[str, Any] = {"chosen": chosen, "minimum_frequency": rule, "refined": refined.get(table.name)}
        terms["counted"] = counted.get(table.name)
        values = table_values(table, found[table.name], contract.impossible(table.by), **terms)
        keys = *table.number_keys, *(each.key for each in choices)
        made.append(StatisticsTableValues(table.name, table.by, values, keys))
    return tuple(made)


def _counted(plan: StatisticsPlan, drawn: Iterable[Drawn]) -> dict[str, KeyCountNumbers]:
    """Return the counts that were drawn with the keys of a table, by its name."""
    made = {each.key: each for each in drawn if isinstance(each, KeyCountMeasurement)}
    return {
        each.table: KeyCountNumbers(made[each.key].values, made[each.key].event, each.counted_rows)
        for each in plan.selections
        if each.counted_rows is not None
    }


class StatisticsMaking:
    """Statistics."""

    steps: ClassVar[tuple[MakingStep, ...]] = (MakingStep("measure", _measured), MakingStep("summarize", _summarized))

    def write_files(self, facts: RunFacts, folder: Path, *, marks: Mapping[str, str]) -> tuple[WrittenFile, ...]:
        """Write the tables in their order, then what was drawn."""
        _, made = facts.summarized
        formats, formulas = facts.spec.publish.formats, facts.spec.publish.formulas
        files: list[WrittenFile] = []
        lacking = {each.name: each.may_lack for each in statistics_product(facts.spec.product).tables}
        for table in made.tables:
            beside = () if facts.spec.publish.labels is None else facts.contract.beside(table.columns)
            shown = shown_values(table.values, lacking[table.name])
            tidy = Tidy(facts.contract, table.columns, shown, beside=beside)
            named = f"{DATA}/{table.name}"
            files.append(tidy.write(folder, f"{named}.parquet", draw=table.draws[0], marks=marks))
            if "parts" in formats:
                files += write_parts(folder, files[-1])
            if "csv" in formats:
                csv = tidy.write(folder, f"{named}.csv", draw=table.draws[0], marks=marks, formulas=formulas)
                files.append(csv)
        return (*files, *write_drawn(made.fitted, facts, folder, marks=marks))
