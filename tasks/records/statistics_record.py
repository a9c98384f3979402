"""What a record says of statistics: the statement, the run as far as it states it, the section for people."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, ClassVar, Final

import numpy as np

from contracts.contract.contract import Contract
from contracts.message import message
from contracts.release.statistic import CLIPPED
from contracts.release.statistic_forms import DISTINCTS, EFFECTIVE_SIZE, RATIO
from contracts.release.statistics_table import NEAR_ZERO, REFINED
from contracts.release.tables.minimum_frequency import SUPPRESSED
from privacy.generators.generator import Fitted
from privacy.statistics.plan import StatisticsPlan, plan_statistics
from tasks.records.clip_statements import FoundClipStatement, read_clips, stated_clips
from tasks.records.draws.drawn import drawn_files, published_draws, stated_draws
from tasks.records.files.tidy_tables import DATA, ColumnValues
from tasks.records.groups.field import NONE, FieldGroup, Run, with_sections
from tasks.records.model.record_kinds import DataColumn, ProductWords, ShownFile
from tasks.records.model.statement import Hash, StatedText, Statement, Tuple
from tasks.records.model.synthetic_statements import DrawsRecord, DrawsReplay
from tasks.records.outputs import StatisticsTableValues
from tasks.records.statistics_fields import CHANGED
from tasks.records.unpublished import Published
from tasks.records.values import Values

_WORDS: Final = {"sd": "standard deviation"}
LACKING: Final = " Missing where the noisy number of rows with a value is not above its noise."


class StatisticsTableStatement(Statement):
    """A published table: the draws that it comes of, its file, and the digest of its numbers."""

    name: StatedText
    columns: Tuple[StatedText]
    draws: Tuple[StatedText]
    data: StatedText
    sha256: Hash


class StatisticsReplay(DrawsReplay):
    """All that a stranger needs to check a release of statistics."""

    tables: Tuple[StatisticsTableStatement]
    clips: Tuple[FoundClipStatement] = ()


class StatisticsRecord(DrawsRecord):
    """record.json of a version of statistics."""

    replay: StatisticsReplay


class StatisticsRecordPart:
    """The record of statistics."""

    model: ClassVar = StatisticsRecord
    notice: ClassVar[str] = message("noisy counts, sums, means and quantiles by these items; no record of a person")
    words: ClassVar = ProductWords(
        label="counts, sums and means",
        registered="Summary statistics",
        made="Noisy counts, sums and means",
        remark="Each number has a 95 % interval; record.html explains them.",
        data="Statistics by cell, with 95 % intervals.",
    )

    def groups(self, groups: tuple[FieldGroup, ...]) -> tuple[FieldGroup, ...]:
        """Return the sections, some of them filled in another way."""
        return with_sections(groups, CHANGED)

    def columns(self, run: Run) -> set[str]:
        """Name the columns that are grouped by, and those that are added up."""
        return set(run.facts.spec.product.names(run.facts.contract))

    def stated(self, run: Run) -> dict[str, Any]:
        """Return what was drawn, and what follows from it."""
        plan, made = run.facts.summarized
        clips = {"clips": stated_clips(plan, made.clips)} if made.clips else {}
        return {
            **clips,
            "draws": stated_draws(run.facts),
            "tables": [
                {
                    "name": table.name,
                    "columns": list(table.columns),
                    "draws": list(table.draws),
                    "data": f"{DATA}/{table.name}.parquet",
                    "sha256": values_digest(table.values),
                }
                for table in made.tables
            ],
        }

    def published(
        self, record: StatisticsRecord, contract: Contract, product: Any, accounts: Any, reserved: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return plan and draws; a plan whose events are not those that were charged is not the run's."""
        replay = record.replay
        epsilon, delta = Decimal(replay.charge.epsilon), Decimal(replay.charge.delta)
        plan: Any = plan_statistics(product, contract, epsilon=epsilon, delta=delta)
        clips = _read_clips(replay, plan)
        if [event.to_json() for event in plan.events] != list(reserved["events"]):
            plan = Published()
        made = Published(
            **clips,
            fitted=Fitted(Published(), published_draws(replay.draws), ()),
            tables=tuple(
                StatisticsTableValues(table.name, table.columns, {}, table.draws) for table in replay.tables
            ),
        )
        fit = {"fit": (plan, made), "summarized": (plan, made), "statistics": made, "plan": plan}
        return {**fit, "synthesis": None, "classifier": None, "tables": ()}

    def files(self, record: StatisticsRecord) -> Iterator[tuple[str, ShownFile]]:
        """Yield the tables, and the files of what was drawn."""
        for table in record.replay.tables:
            yield table.data, (table.draws[0], "data", "dense")
        yield from drawn_files(record.replay.draws)

    def data_columns(self, values: Values, path: str) -> Mapping[str, DataColumn]:
        """Return the statistics of a table with their intervals, and the mark of small cells."""
        file, _, part = path.removeprefix(f"{DATA}/").partition("/")
        name = file if part else file.rpartition(".")[0]
        [table] = [each for each in values["product.tables"] if each["table"] == name]
        clips = {} if table["lattices"] == NONE else {each["column"]: each["clip"] for each in table["lattices"]}
        found = {
            NEAR_ZERO: DataColumn("Whether the count of the cell cannot be told from 0."),
            REFINED: DataColumn(
                "Refined count: the noisy one made whole and not negative, so that all tables of the release "
                "with the same weight have one total."
            ),
            SUPPRESSED: DataColumn(
                "Whether a noisy count of the cell is below the threshold of the minimum-frequency rule; its other "
                "columns are missing then."
            ),
        }
        for statistic in table["statistics"]:
            what, _, column = statistic.partition("_")
            cut = column not in clips and column.endswith(CLIPPED)  # a column of the contract may end so too
            column = column.removesuffix(CLIPPED) if cut else column
            upper, _, lower = column.partition("_over_")
            if what == RATIO and upper in clips and lower in clips:
                found |= _ratio_columns(statistic, upper, lower)
                continue
            if statistic.startswith(f"{EFFECTIVE_SIZE}_"):
                found |= _size_columns(statistic, table["survey_weight"])
                continue
            if what in DISTINCTS:
                found |= _distinct_columns(statistic, column)
                continue
            of, what = (column,) if column in clips else (), _WORDS.get(what, what)
            rest = f" {column}, its values clipped to {clips[column]}" if of else " rows"
            not_of = ", and not of its values as they are" if cut else ""
            lacks = "" if what in ("count", "sum") else LACKING
            if "survey_weight" in table:
                weight = table["survey_weight"]
                rest += f", weighted by {weight['column']} clipped to {weight['clip']}"
                of = (*of, weight["column"])
            found[statistic] = DataColumn(f"Noisy {what} of{rest}.{lacks}", of)
            for end, word in (("low", "Lower"), ("high", "Upper")):
                means = f"{word} end of a 95 % interval of the exact {what} of{rest}{not_of}."
                found[f"{statistic}_{end}"] = DataColumn(means, of)
        return found


def _read_clips(replay: StatisticsReplay, plan: StatisticsPlan) -> dict[str, Any]:
    """Read the clips; what is none is as good as not published."""
    try:
        return {"clips": read_clips(replay.clips, plan)}
    except (ArithmeticError, ValueError):
        return {}


def _size_columns(statistic: str, weight: Mapping[str, str]) -> dict[str, DataColumn]:
    """Describe an effective sample size and its interval."""
    what, of = f"effective sample size under {weight['column']} clipped to {weight['clip']}", (weight["column"],)
    found = {statistic: DataColumn(f"Noisy {what}: the squared sum of the weights over the sum of squares.", of)}
    for end, word in (("low", "Lower"), ("high", "Upper")):
        found[f"{statistic}_{end}"] = DataColumn(f"{word} end of a 95 % interval of the exact {what}.", of)
    return found


def _ratio_columns(statistic: str, upper: str, lower: str) -> dict[str, DataColumn]:
    """Describe a ratio and its interval."""
    what, of = f"ratio of the sum of {upper} to that of {lower}", (upper, lower)
    found = {statistic: DataColumn(f"Noisy {what}, their values clipped.{LACKING}", of)}
    for end, word in (("low", "Lower"), ("high", "Upper")):
        found[f"{statistic}_{end}"] = DataColumn(f"{word} end of a 95 % interval of the exact {what}.", of)
    return found


def _distinct_columns(statistic: str, column: str) -> dict[str, DataColumn]:
    """Describe a number of units, or of different values of a column, and its interval."""
    what = f"number of different values of {column}" if column else "number of privacy units"
    of = (column,) if column else ()
    found = {statistic: DataColumn(f"Noisy {what}.", of)}
    for end, word in (("low", "Lower"), ("high", "Upper")):
        found[f"{statistic}_{end}"] = DataColumn(f"{word} end of a 95 % interval of the exact {what}.", of)
    return found


def values_digest(values: ColumnValues) -> str:
    """Return the SHA-256 of the columns in their order: little-endian int64, float64 or a byte a flag, row-major."""
    digest = hashlib.sha256()
    for array in values.values():
        form = "<i8" if np.issubdtype(array.dtype, np.integer) else "u1" if array.dtype == np.bool_ else "<f8"
        digest.update(np.ascontiguousarray(array, dtype=form).tobytes())
    return digest.hexdigest()
