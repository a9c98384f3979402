"""Statistics: every planned draw through the grant, then the numbers that follow from them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from contracts.contract.contract import Contract
from contracts.release.statistics import StatisticsTable, statistics_product
from privacy.generators.generator import Fitted
from privacy.grant.measurement import CellSumMeasurement, Measurement
from privacy.grant.queries.cell_sums import CellSumQuery
from privacy.grant.queries.marginal import MarginalQuery
from privacy.grant.queries.quantile_choice import QuantileChoiceQuery, QuantileMeasurement
from privacy.snapshots.snapshot_counts import SnapshotCounts
from privacy.snapshots.snapshot_sums import SnapshotSums
from privacy.snapshots.snapshot_values import SnapshotValues
from privacy.statistics.chosen_quantiles import ChosenQuantiles
from privacy.statistics.plan import StatisticsPlan
from privacy.statistics.table_values import NoisyNumbers, table_values
from tasks.products.product_kind import Making, MakingStep
from tasks.records.draws.drawn import write_drawn
from tasks.records.facts import Outputs, RunFacts
from tasks.records.files.row_group_parts import write_parts
from tasks.records.files.tidy_tables import DATA, Tidy, WrittenFile
from tasks.records.outputs import ReleasedStatistics, StatisticsTableValues
from tasks.storage.progress import step

logger = logging.getLogger(__name__)
Drawn = Measurement | CellSumMeasurement | QuantileMeasurement


def _measured(making: Making, _before: None) -> tuple[Drawn, ...]:
    """Draw, or replay, in the order of the plan; sums over the same cells are added up in one scan."""
    plan: StatisticsPlan = making.plan
    counts, sums = SnapshotCounts(making.table, making.contract), SnapshotSums(making.table, making.contract)
    drawn: list[Drawn] = []
    with step("measure") as bar:
        for name in dict.fromkeys(draw.table for draw in plan.draws):
            draws = plan.of_table(name)
            addends = [draw.addends for draw in draws if draw.addends is not None]
            handles = iter(sums.sums(draws[0].clique, addends) if addends else ())
            for draw in draws:
                if draw.addends is None:
                    query = MarginalQuery(counts.marginal(draw.clique), draw.noise)
                    drawn.append(making.grant.draw(query, key=draw.key))
                else:
                    drawn.append(making.grant.draw(CellSumQuery(next(handles), draw.noise), key=draw.key))
                bar.advance(len(drawn) / len(plan.events))
        values = SnapshotValues(making.table, making.contract)
        for each in plan.choices:
            choice = QuantileChoiceQuery(values.values(each.clique, each.choices), each.event.epsilon)
            drawn.append(making.grant.draw(choice, key=each.key))
            bar.advance(len(drawn) / len(plan.events))
    logger.info("measured %d draws of %d numbers", len(drawn), plan.numbers)
    return tuple(drawn)


def _summarized(making: Making, drawn: tuple[Drawn, ...]) -> Outputs:
    tables = released_tables(making.plan, making.contract, statistics_product(making.spec.product).tables, drawn)
    return Outputs(statistics=ReleasedStatistics(Fitted(None, drawn), tables))


def released_tables(
    plan: StatisticsPlan, contract: Contract, tables: tuple[StatisticsTable, ...], drawn: tuple[Drawn, ...]
) -> tuple[StatisticsTableValues, ...]:
    """Return the tables that follow from what was drawn. Post-processing."""
    numbers = {each.key: each for each in drawn}
    made = []
    for table in tables:
        draws = plan.of_table(table.name)
        found = {
            None if draw.addends is None else draw.addends.key: NoisyNumbers(
                numbers[draw.key].values, draw.event, draw.addends
            )
            for draw in draws
        }
        choices = plan.choices_of(table.name)
        chosen = {each.choices.column: ChosenQuantiles(numbers[each.key].values, each.choices) for each in choices}
        values = table_values(table, found, contract.impossible(table.by), chosen=chosen)
        keys = *(draw.key for draw in draws), *(each.key for each in choices)
        made.append(StatisticsTableValues(table.name, table.by, values, keys))
    return tuple(made)


class StatisticsMaking:
    """Statistics."""

    steps: ClassVar[tuple[MakingStep, ...]] = (
        MakingStep("measure", _measured),
        MakingStep("summarize", _summarized),
    )

    def write_files(self, facts: RunFacts, folder: Path, *, marks: Mapping[str, str]) -> tuple[WrittenFile, ...]:
        """Write the tables in their order, then what was drawn."""
        _, made = facts.summarized
        formats, formulas = facts.spec.publish.formats, facts.spec.publish.formulas
        files: list[WrittenFile] = []
        for table in made.tables:
            tidy = Tidy(facts.contract, table.columns, table.values)
            named = f"{DATA}/{table.name}"
            files.append(tidy.write(folder, f"{named}.parquet", draw=table.draws[0], marks=marks))
            if "parts" in formats:
                files += write_parts(folder, files[-1])
            if "csv" in formats:
                csv = tidy.write(folder, f"{named}.csv", draw=table.draws[0], marks=marks, formulas=formulas)
                files.append(csv)
        return (*files, *write_drawn(made.fitted, facts, folder, marks=marks))
