"""What a record says of statistics to people: how tables were made, what they cost, how far off they are."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, ClassVar, Final

import numpy as np

from contracts.contract.contract import Contract
from contracts.domains.lattice import ValueLattice
from contracts.message import SEMICOLON, joined, message
from contracts.reading.scalars import plain_text
from contracts.release.statistics import CLIPPED as CLIPPEDOfStatisticsRecord
from contracts.release.statistics import (
    COUNT,
    DISTINCTS,
    EFFECTIVE_SIZE,
    NEAR_ZERO,
    QUANTILES,
    RATIO,
    REFINED,
    SPREADS,
    StatisticsTable,
    statistics_product,
)
from contracts.release.tables.tables import SUPPRESSED
from privacy.generators.generator import Fitted
from privacy.statistics.cell_suppression import rule_of_table
from privacy.statistics.clips import narrowed_plan
from privacy.statistics.plan import StatisticsPlan, expected_errors, plan_statistics
from tasks.records.clip_statements import FoundClipStatement, described_clips, read_clips, stated_clips
from tasks.records.draws.draws import weight_terms
from tasks.records.draws.marginal import drawn_files, published_draws, stated_draws
from tasks.records.draws.marginal import measured as measured_draws
from tasks.records.files.tidy_tables import DATA, ColumnValues
from tasks.records.fitted_groups.synthesis_groups import draws, mechanism, samplers, sensitivities, with_fills
from tasks.records.groups.field import NONE, FieldGroup, Run, public, with_sections
from tasks.records.groups.guarantee import LEDGER, NOISE
from tasks.records.groups.origin import BYTEWISE, OUTPUT, REPRODUCIBILITY, in_parts, line, loss
from tasks.records.groups.post_processing import UTILITY
from tasks.records.groups.terms import UNIT, UNPROTECTED
from tasks.records.model.record_kinds import DataColumn, ProductWords, ShownFile
from tasks.records.model.statement import Hash, StatedText, Statement, Tuple
from tasks.records.model.version_statements import DrawsRecord, DrawsReplay
from tasks.records.outputs import StatisticsTableValues
from tasks.records.unpublished import Published
from tasks.records.values import Values

IN_RANKS: Final = message("of any number, in ranks")
ANY_SIZE: Final = message("of any number")
RANKS: Final = message(
    "a quantile p is the smallest value at or below which at least a share p of the rows with a value lie, of values "
    "clipped and rounded to steps. Its error is one of ranks: how far apart the values at these ranks are depends on "
    "the data"
)
UNBIASED: Final = message(
    "noisy counts and sums are unbiased. What is published of them is cut to what is possible: no count is negative, "
    "and no sum where all values are 0 or more. Small cells lie a little high on average for that: add up "
    "measurements/ for totals. A mean is a ratio of noisy sums within its clip"
)
INTERVALS: Final = message(
    "intervals hold in 95 % of releases, cell by cell, for the noise alone; one that is missing counts as holding"
)
OF_ROWS_ALONE: Final = message(
    "means, variances, ratios and quantiles are missing in cells that may have no rows: where near_zero is "
    "true, and where the noisy number of rows with a value is not above its noise. They have no more digits than a "
    "tenth of their standard error, half of their interval over 1.96; measurements/ has the noisy numbers in full"
)
OF_CLIPPED: Final = message(
    "numbers named _clipped, and their intervals, are of the values after the clip that the spec writes. It cuts "
    "values which the contract allows, so their intervals may miss the number of the values as they are"
)
SPREAD: Final = message(
    "a variance is that of the rows of a cell: the mean of squared distances from their mean. It is no estimate for "
    "people beyond them. The standard deviation is its root"
)
CLIPPED: Final = message(
    "values outside the clip count as its ends and values between two steps as the nearer one, so that sums and "
    "means are those of the clipped values"
)

WEIGHED: Final = message(
    "in tables with a survey weight every row counts as often as its weight says, in all statistics. Weights above "
    "the clip count as its upper end, and all are rounded to steps. Intervals are about the noise alone: they say "
    "nothing of the sampling that the weights stand for"
)
TOLD_APART: Final = message(
    "privacy units and different values are those of the rows that each unit keeps; a missing value is none, and no "
    "survey weight enters. They are cut to what is possible: from 0 to the values that the contract declares"
)
BOUNDED: Final = message(
    "sums with a quota (per_unit) are those of values that are cut: all rows of one privacy unit together add at "
    "most the quota, over all cells of a table. Its rows are taken in an order that no value decides, and rows "
    "beyond the quota add nothing. Such sums are too small where units have more; intervals do not say by how much"
)

SIZED: Final = message(
    "effective sample sizes are of the clipped and rounded weights, and biased in small cells. The expected half "
    "width is that of cells whose weights are about a quarter of their clip: it is larger where they are smaller"
)

CENSORED: Final = message(
    "small cells are suppressed by their noisy counts, before these were written down. A cell near the threshold is "
    "published only where its count came out high: its count and its sums lie above the exact ones on average, and "
    "their intervals miss more often. The rule is about the rows of each cell. A sum of a column of 0 and 1 counts "
    "some of these rows, and differences of published cells are not tested"
)

_STEPS: Final = (
    message("statistics computed from the noisy numbers of the table's draws"),
    message("95 % intervals from the declared noise; of means by Fieller's method, of quantiles by tests of ranks"),
)
_REFINED: Final = message(
    "refined counts (count_refined): the nearest ones that are whole and not negative, and that add up to the total "
    "of all tables of the same weight. They have no interval, and are biased in small cells"
)
_SPREAD_STEP: Final = message("95 % intervals of variances by tests of all pairs of a mean and a variance")


def tables(run: Run) -> list[dict[str, Any]]:
    """Describe each table: what it is grouped by, and what is published of which column under which clip."""
    contract = run.facts.contract
    return [
        {
            "table": table.name,
            "columns": list(table.by),
            "steps": [
                *_STEPS,
                *([_SPREAD_STEP] if any(each.what in SPREADS for each in table.of) else ()),
                *_refinement(run, table),
            ],
            "statistics": [name for each in table.of for name in each.estimates],
            "lattices": [
                {
                    "column": lattice.column,
                    "clip": f"[{plain_text(lattice.low)}, {plain_text(lattice.high)}]",
                    "steps_of": plain_text(lattice.step),
                    **_resolution(table, lattice, contract),
                    **_quota(table, lattice),
                }
                for lattice in _lattices(run, table)
            ]
            or NONE,
            **({} if table.at_most_groups is None else {"at_most_groups": table.at_most_groups}),
            **_weighed_by(table, contract),
            **_rule_on(run, table),
        }
        for table in statistics_product(run.facts.spec.product).tables
    ]


def _refinement(run: Run, table: StatisticsTable) -> list[str]:
    """Say how the counts of a table are refined, where they are."""
    terms = statistics_product(run.facts.spec.product).refine
    if terms is None or all(each.what != COUNT for each in table.of):
        return []
    strength = "0" if terms.lambda_ is None else str(terms.lambda_)
    told: dict[str, str] = {"words": _REFINED, "method": terms.method, "strength": strength}
    return [message("{words}; method {method}, lambda {strength}", **told)]


def _rule_on(run: Run, table: StatisticsTable) -> dict[str, Any]:
    """Say what the minimum-frequency rule is on a table; nothing without a rule."""
    rule = statistics_product(run.facts.spec.product).minimum_frequency
    if rule is None:
        return {}
    draws = _narrowed(run).of_table(table.name)
    return {"minimum_frequency": rule_of_table(rule, [(draw.key, draw.addends, draw.event) for draw in draws])}


def _lattices(run: Run, table: StatisticsTable) -> list[ValueLattice]:
    """Return the lattices of a table, those of private clips as they were found."""
    plan, made = run.facts.summarized
    draws = plan.of_table(table.name) if made.clips else ()
    found = [made.clips[draw.key].lattice for draw in draws if draw.key in made.clips]
    by_column: dict[str, ValueLattice] = {lattice.column: lattice for lattice in found}
    return [by_column.get(lattice.column, lattice) for lattice in table.lattices(run.facts.contract)]


def clips(run: Run) -> list[dict[str, Any]] | str:
    """Describe the clips that the run found."""
    plan, made = run.facts.summarized
    return described_clips(statistics_product(run.facts.spec.product).tables, plan, made.clips) or NONE


def _narrowed(run: Run) -> StatisticsPlan:
    """Return the plan with the clips that were found."""
    plan, made = run.facts.summarized
    lattices = {key: clip.lattice for key, clip in made.clips.items()}
    return narrowed_plan(plan, lattices) if lattices else plan


def _resolution(table: StatisticsTable, lattice: ValueLattice, contract: Contract) -> dict[str, str]:
    """Give the length of the intervals in which rows are counted, where quantiles are published."""
    tree = next((each for each in table.trees(contract) if each.column == lattice.column), None)
    return {} if tree is None else {"resolution": plain_text(tree.resolution)}


def _quota(table: StatisticsTable, lattice: ValueLattice) -> dict[str, str]:
    """Give what all rows of one unit add at most, where a sum has such a quota."""
    most = table.quotas.get(lattice.column)
    return {} if most is None else {"per_unit": plain_text(most)}


def _weighed_by(table: StatisticsTable, contract: Contract) -> dict[str, Any]:
    """Give the survey weight of a table, where it has one."""
    return {} if table.survey_weight is None else weight_terms(table.survey_weight.lattice(contract))


def mechanism_choice(run: Run) -> dict[str, Any]:
    """Say who chose the noise."""
    return {"by": message("the spec: {mechanism}", mechanism=statistics_product(run.facts.spec.product).mechanism)}


def row_count_origin(run: Run) -> str:
    """Say where the number of rows comes from."""
    return message("the declared domains: one row for each cell of the columns that a table is grouped by")


def partitioning(run: Run) -> str:
    """Say how the files are split."""
    _, made = run.facts.summarized
    whole = message(
        "none: {tables} tables, and {draws} draws in files of their own",
        tables=len(made.tables),
        draws=len(made.fitted.draws),
    )
    parts = sum(file.role == "part" for file in run.files)
    return joined([whole, in_parts(parts)], SEMICOLON) if parts else whole


def reproducible(run: Run) -> list[dict[str, str]]:
    """List what a stranger makes again, from what, and how exactly."""
    _, made = run.facts.summarized
    lines = [
        (table.name, message("the noisy numbers of {keys}", keys=joined(table.draws)), BYTEWISE)
        for table in made.tables
    ]
    return [line(*each) for each in [*lines, loss(run)]]


def expected_error(run: Run) -> list[dict[str, Any]]:
    """Give for each statistic the half width of its interval, from the declared noise alone."""
    plan = _narrowed(run)
    return [
        {
            "table": table.name,
            "statistic": each.statistic,
            "rows": IN_RANKS if each.ranks else ANY_SIZE if each.rows is None else each.rows,
            "half_width_95": f"{each.half_width:.6g}",
        }
        for table in statistics_product(run.facts.spec.product).tables
        for each in expected_errors(table, plan.of_table(table.name), plan.counted_with_keys(table.name))
    ]


def computed_on(run: Run) -> list[dict[str, str]]:
    """Say of each metric what it was computed on, and what it cost."""
    drawn = len(run.facts.summarized[1].fitted.draws)
    told = message("the declared noise of {n} draws; no data", n=drawn)
    return [{"metric": "expected_error", "computed_on": told, "cost": "none"}]


def known_bias(run: Run) -> list[str]:
    """Say what numbers are known to get wrong, and of quantiles what they are."""
    tables = statistics_product(run.facts.spec.product).tables
    ranked = any(each.what == QUANTILES for table in tables for each in table.of)
    weighed = any(table.survey_weight is not None for table in tables)
    spread = any(each.what in SPREADS for table in tables for each in table.of)
    apart = any(each.what in DISTINCTS for table in tables for each in table.of)
    ruled = statistics_product(run.facts.spec.product).minimum_frequency is not None
    sized = any(each.what == EFFECTIVE_SIZE for table in tables for each in table.of)
    told = {
        OF_ROWS_ALONE: any(table.may_lack for table in tables),
        RANKS: ranked,
        SPREAD: spread,
        WEIGHED: weighed,
        SIZED: sized,
        TOLD_APART: apart,
    }
    told |= {BOUNDED: any(table.quotas for table in tables), CENSORED: ruled}
    return [UNBIASED, CLIPPED, *(words for words, holds in told.items() if holds)]


def intervals(run: Run) -> str:
    """Say what intervals are of: of clipped values, where the spec clips."""
    product = statistics_product(run.facts.spec.product)
    cut = any(each.is_clipped for table in product.tables for each in table.of)
    return joined([INTERVALS, OF_CLIPPED], SEMICOLON) if cut else INTERVALS


STATISTICS: Final = FieldGroup(
    "product",
    "Statistics",
    (
        public("tables", "What each table is grouped by, and what it says of which column.", tables),
        public("measured", "What was drawn, with its noise.", lambda run: measured_draws(run.facts)),
        public("clips", "The clips that the run found, the draws that they cost, and the rows that they cut.", clips),
        public("known_bias", "What numbers are known to get wrong.", known_bias),
        public("intervals", "What the intervals say.", intervals),
    ),
)
CHANGED: Final = (
    STATISTICS,
    with_fills(UNIT, sensitivity=sensitivities),
    with_fills(LEDGER, draws=draws),
    with_fills(UNPROTECTED, exact_total=lambda run: NONE),
    with_fills(NOISE, mechanism=mechanism, mechanism_choice=mechanism_choice, samplers=samplers),
    with_fills(OUTPUT, row_count_origin=row_count_origin, partitioning=partitioning),
    with_fills(UTILITY, expected_error=expected_error, error_against_noisy=lambda run: NONE, computed_on=computed_on),
    with_fills(REPRODUCIBILITY, reproducible=reproducible),
)


# --- What a record says of statistics.


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
            cut = column not in clips and column.endswith(
                CLIPPEDOfStatisticsRecord
            )  # a column of the contract may end so too
            column = column.removesuffix(CLIPPEDOfStatisticsRecord) if cut else column
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
