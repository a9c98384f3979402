"""What a record says of counts by place to people: levels, what was measured, what public totals give away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, ClassVar, Final

from contracts.contract.contract import Contract
from contracts.message import SEMICOLON, joined, message
from contracts.release.spine.product import INVARIANTS, PLACES, PlaceInvariant, SpineProduct, spine_product
from contracts.release.spine.tree import NEEDED
from privacy.generators.generator import Fitted
from privacy.table_plans.spine_plan import SpinePlan, place_file, plan_spine
from tasks.records.draws.marginal import drawn_files, published_draws, stated_draws
from tasks.records.draws.marginal import measured as measured_draws
from tasks.records.files.tidy_tables import DATA
from tasks.records.fitted_groups.synthesis_groups import draws, mechanism, samplers, sensitivities, with_fills
from tasks.records.groups.field import NONE, FieldGroup, Run, public, with_sections
from tasks.records.groups.guarantee import LEDGER, NOISE
from tasks.records.groups.origin import BYTEWISE, OUTPUT, REPRODUCIBILITY, in_parts, line, loss
from tasks.records.groups.post_processing import UTILITY
from tasks.records.groups.terms import UNIT, UNPROTECTED
from tasks.records.groups.terms import quantities as all_quantities
from tasks.records.model.record_kinds import COUNT_COLUMNS, DataColumn, ProductWords, ShownFile
from tasks.records.model.statement import Count, StatedText, Statement, Tuple
from tasks.records.model.version_statements import DrawsRecord, DrawsReplay
from tasks.records.spine.spine_files import PLACES_FILE, TOTAL, invariant_files, places_files
from tasks.records.unpublished import Published
from tasks.records.values import Values

STEPS: Final = (
    message("all measurements of all levels combined by generalised least squares over the tree of places"),
    message("made whole and not negative from the whole down, so that the parts of each place add up to it"),
)
CROSSING: Final = message(
    "smallest places moved to the sums of either tree in turns, the first tree last; levels of further trees are "
    "sums of the same smallest places, and their intervals are of their own estimates"
)
BIAS: Final = message(
    "counts of small places and cells lie a little high on average, since none is negative; what one cell gains "
    "others of the same larger place lose. Intervals are of the estimates before that"
)
INTERVALS: Final = message(
    "intervals hold in 95 % of releases for a cell, or a sum of cells, that is chosen beforehand. They use all "
    "measurements of all levels; sudare interval gives that of any sum"
)


def _product(run: Run) -> SpineProduct:
    return spine_product(run.facts.spec.product)


def _plan(run: Run) -> SpinePlan:
    plan: SpinePlan = run.facts.fit[0]
    return plan


def levels(run: Run) -> list[dict[str, Any]]:
    """Describe each level of the tree."""
    invariants = _product(run).invariants
    return [
        {"level": name, "places": size, "invariant": invariants[name].reference if name in invariants else NONE}
        for name, size in _plan(run).sizes.items()
    ]


def tables(run: Run) -> list[dict[str, Any]]:
    """Describe each table: its columns, its levels, how it is made."""
    product = _product(run)
    return [
        {
            "table": table.name,
            "columns": [product.spine.column, *table.columns],
            "levels": list(product.levels_of(table)),
            "method": message("generalised least squares"),
            "steps": [STEPS[0], *([CROSSING] if product.other_spines else []), *STEPS[1:]],
        }
        for table in product.tables
    ]


def given_away(run: Run) -> list[str]:
    """Say what public totals of places give away."""
    return [_given_away(level, each) for level, each in _product(run).invariants.items()]


def _given_away(level: str, public: PlaceInvariant) -> str:
    if public.columns:
        return message(
            "counts of level {level} by {columns} are exact and public ({reference}). A change of one person's row "
            "is protected as far as it leaves them as they are: with all other people known, they tell in which of "
            "these places and labels a person is counted. That two people change places or labels with each other "
            "costs at most twice the stated loss",
            level=level,
            columns=", ".join(public.columns),
            reference=public.reference,
        )
    return message(
        "totals of level {level} are exact and public ({reference}). A change of one person's row is protected "
        "as far as it leaves them as they are: with all other people known, the totals tell in which of these "
        "places a person is counted. That two people change places costs at most twice the stated loss",
        level=level,
        reference=public.reference,
    )


def quantities(run: Run) -> list[str]:
    """List what is visible without noise: what every release lists, and public totals of places."""
    return [*given_away(run), *all_quantities(run)]


def mechanism_choice(run: Run) -> dict[str, Any]:
    """Say who chose the noise."""
    return {"by": message("the spec: {mechanism}", mechanism=_product(run).mechanism)}


def row_count_origin(run: Run) -> str:
    """Say where the number of rows comes from."""
    return message("the declared domains: one row for each place of the level and cell of the columns")


def partitioning(run: Run) -> str:
    """Say how the files are split."""
    whole = message("none: {draws} tables at their levels, each in a file of its own", draws=len(_plan(run).draws))
    parts = sum(file.role == "part" for file in run.files)
    return joined([whole, in_parts(parts)], SEMICOLON) if parts else whole


def reproducible(run: Run) -> list[dict[str, str]]:
    """List what a stranger makes again, from what, and how exactly."""
    return [
        line(message("all tables"), message("the noisy counts of all levels, and the public totals"), BYTEWISE),
        line(*loss(run)),
    ]


def expected_error(run: Run) -> list[dict[str, Any]]:
    """Give for each draw the half width of its own interval; those of all measurements together are shorter."""
    return [
        {"table": draw.table, "level": draw.level, "half_width_95": f"{draw.half_width}"} for draw in _plan(run).draws
    ]


def computed_on(run: Run) -> list[dict[str, str]]:
    """Say of each metric what it was computed on, and what it cost."""
    told = message("the declared noise of {n} draws; no data", n=len(_plan(run).draws))
    return [{"metric": "expected_error", "computed_on": told, "cost": "none"}]


def exact_total(run: Run) -> dict[str, Any] | str:
    """Give the total that the counts add up to, where one is declared public."""
    declared = run.facts.contract.total
    return NONE if declared is None else {"value": declared.value, "declared_public_in": declared.reference}


SPINE: Final = FieldGroup(
    "product",
    "Counts by place",
    (
        public("levels", "The levels of the tree of places, and which have public totals.", levels),
        public("tables", "What is counted at which levels.", tables),
        public("measured", "What was drawn, with its noise.", lambda run: measured_draws(run.facts)),
        public("invariants", "What public totals of places give away.", lambda run: given_away(run) or NONE),
        public("known_bias", "What numbers are known to get wrong.", lambda run: [BIAS]),
        public("intervals", "What the intervals say.", lambda run: INTERVALS),
    ),
)
CHANGED: Final = (
    SPINE,
    with_fills(UNIT, sensitivity=sensitivities),
    with_fills(LEDGER, draws=draws),
    with_fills(UNPROTECTED, quantities=quantities, exact_total=exact_total),
    with_fills(NOISE, mechanism=mechanism, mechanism_choice=mechanism_choice, samplers=samplers),
    with_fills(OUTPUT, row_count_origin=row_count_origin, partitioning=partitioning),
    with_fills(UTILITY, expected_error=expected_error, error_against_noisy=lambda run: NONE, computed_on=computed_on),
    with_fills(REPRODUCIBILITY, reproducible=reproducible),
)


# --- What the record of counts by place states.


class PlaceLevelStatement(Statement):
    """A level of the tree: how many places it has, and whether their totals are public."""

    name: StatedText
    places: Count
    invariant: bool


class PlaceTableStatement(Statement):
    """A published table at a level: its columns, the draw of the same cells, and its file."""

    name: StatedText
    level: StatedText
    columns: Tuple[StatedText]
    draws: Tuple[StatedText]
    data: StatedText


class SpineReplay(DrawsReplay):
    """All that a stranger needs to check counts by place."""

    levels: Tuple[PlaceLevelStatement]
    places: StatedText
    tables: Tuple[PlaceTableStatement]

    @property
    def sizes(self) -> Mapping[str, int]:
        """Places of each level."""
        return {level.name: level.places for level in self.levels}


class SpineRecord(DrawsRecord):
    """record.json of a version of counts by place."""

    replay: SpineReplay


def stated_tables(plan: SpinePlan) -> list[dict[str, Any]]:
    """State each table at each of its levels."""
    return [
        {
            "name": place_file(draw.table, draw.level),
            "level": draw.level,
            "columns": list(draw.clique),
            "draws": [draw.key],
            "data": f"{DATA}/{place_file(draw.table, draw.level)}.parquet",
        }
        for draw in plan.draws
    ]


def stated_levels(plan: SpinePlan, invariants: Mapping[str, Any]) -> list[dict[str, Any]]:
    """State the levels."""
    return [{"name": name, "places": size, "invariant": name in invariants} for name, size in plan.sizes.items()]


# --- What a record says of counts by place.


class SpineRecordPart:
    """The record of counts by place."""

    model: ClassVar = SpineRecord
    notice: ClassVar[str] = message("noisy counts by place and these items; no record of a person")
    words: ClassVar = ProductWords(
        label="counts by place",
        registered="Summary statistics",
        made="Noisy counts by place",
        remark="Counts of all levels add up, and have 95 % intervals; record.html explains them.",
        data="Counts by place, with 95 % intervals.",
    )

    def groups(self, groups: tuple[FieldGroup, ...]) -> tuple[FieldGroup, ...]:
        """Return the sections, some of them filled in another way."""
        return with_sections(groups, CHANGED)

    def columns(self, run: Run) -> set[str]:
        """Name the columns that are counted by."""
        return set(run.facts.spec.product.names(run.facts.contract))

    def stated(self, run: Run) -> dict[str, Any]:
        """Return the levels, what was drawn, and the tables that follow from it."""
        plan, product = run.facts.fit[0], spine_product(run.facts.spec.product)
        return {
            "draws": stated_draws(run.facts),
            "levels": stated_levels(plan, product.invariants),
            "places": PLACES_FILE,
            "tables": stated_tables(plan),
        }

    def published(
        self, record: SpineRecord, contract: Contract, product: Any, accounts: Any, reserved: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return plan and draws; a plan whose events are not those that were charged is not the run's."""
        replay = record.replay
        terms: dict[str, Any] = {"epsilon": Decimal(replay.charge.epsilon), "delta": Decimal(replay.charge.delta)}
        plan: Any = plan_spine(product, contract, sizes=replay.sizes, **terms)
        if [event.to_json() for event in plan.events] != list(reserved["events"]):
            plan = Published()
        made = Published(fitted=Fitted(Published(), published_draws(replay.draws), ()))
        known = {"fit": (plan, made), "made": made, "plan": plan}
        return {**known, "statistics": None, "synthesis": None, "classifier": None, "tables": ()}

    def files(self, record: SpineRecord) -> Iterator[tuple[str, ShownFile]]:
        """Yield the places, the tables, and the files of what was drawn."""
        product = SpineProduct.model_validate(record.replay.product)
        for path in (*places_files(1 + len(product.other_spines)), *invariant_files(product).values()):
            yield path, ("", "data", "dense")
        for table in record.replay.tables:
            yield table.data, (table.draws[0], "data", "dense")
        yield from drawn_files(record.replay.draws)

    def data_columns(self, values: Values, path: str) -> Mapping[str, DataColumn]:
        """Return counts with their intervals; of the places their links and public totals."""
        if path.startswith(f"{DATA}/{PLACES}."):
            means = ("A place.", "The place that it is part of; itself where a level is skipped.", "Its level.")
            links = {name: DataColumn(text) for name, text in zip(NEEDED, means, strict=True)}
            return {**links, TOTAL: DataColumn("Its public total, where its level has such.")}
        return {TOTAL: DataColumn("Its public total, published exactly.")} if _is_exact(path) else COUNT_COLUMNS


def _is_exact(path: str) -> bool:
    """Say whether a file is one of public counts by columns."""
    return path.startswith(f"{DATA}/{INVARIANTS}.")
