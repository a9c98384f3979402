"""A release of statistics: counts, sums, means and quantiles of columns of numbers, by the cells of other columns."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from contracts.contract.contract import Contract
from contracts.domains.distinct_counts import encoded_beside
from contracts.domains.text import KeyColumn, UnitOrder
from contracts.domains.value_lattices import ValueLattice, one_step_wider
from contracts.reading.scalars import (
    FieldPath,
    Problem,
    as_tuple,
    refuse,
)
from contracts.release.file_names import repeated_names
from contracts.release.key_bounds import bounded_groups
from contracts.release.product_spec import LabelledTable, ProductSpec
from contracts.release.statistic_forms import (
    COUNT,
    UNITS,
)
from contracts.release.statistics_table import StatisticsTable
from contracts.release.tables.minimum_frequency import MinimumFrequency
from contracts.release.tables.product import Refine


class StatisticsProduct(ProductSpec):
    """Counts, sums, means, variances and quantiles by the cells of declared columns, with their intervals.

    Each column that is added up is drawn once for each table, and all that is said of it comes of that draw. It is a
    sum alone where nothing else is asked for and that has less noise. All quantiles of a column come of one draw
    more, and so does each number of units or of different values. Without a column that is added up the counts are
    drawn alone. `split` says how the draws share the charge: tables by their weights and the draws of a table alike,
    or so that the sum of the squared stated errors of all cells, each times its table's weight, is least.
    """

    reads_rows: ClassVar[bool] = False
    total_at: ClassVar[FieldPath] = ("product", "tables")

    kind: Literal["statistics"]
    mechanism: Literal["laplace", "gaussian"] = Field(
        default="laplace", description="the noise; gaussian needs a delta above 0 and pays for many draws"
    )
    tables: Annotated[tuple[StatisticsTable, ...], BeforeValidator(as_tuple)]
    split: Literal["by_weight", "optimal"] = "by_weight"
    minimum_frequency: MinimumFrequency | None = Field(
        default=None, description="cells whose noisy count is too small are suppressed, with all their statistics"
    )

    refine: Refine | None = Field(
        default=None, description="counts are published refined too: not negative, with one total in all tables"
    )

    @model_serializer(mode="wrap")
    def _without_what_is_usual(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write `split` and the two rules only where they are unusual: what was written before them reads alike."""
        written: dict[str, Any] = handler(self)
        usual = {key for key in ("minimum_frequency", "refine") if getattr(self, key) is None}
        usual |= {"split"} if self.split == "by_weight" else set()
        return {key: each for key, each in written.items() if key not in usual}

    @model_validator(mode="after")
    def _counts_as_it_needs(self) -> StatisticsProduct:
        """Tell each table whether counts are what something else is made of."""
        for table in self.tables:
            table._whole_counts = self.refine is not None or self.minimum_frequency is not None
        return self

    @model_validator(mode="after")
    def _refines_what_it_can(self) -> StatisticsProduct:
        """Refuse methods that need one noise in every cell, and a refinement of no counts, or of suppressed ones."""
        terms = self.refine
        if terms is None:
            return self
        fixed = terms.method == "simplex" or (terms.method == "negative_l2" and isinstance(terms.lambda_, Decimal))
        if not fixed or terms.consistent or not terms.integers:
            allowed = "{method: simplex}, or {method: negative_l2, lambda: NUMBER}"
            remedy = "write one of these: the others need tables of `kind: tables`"
            refuse([Problem(f"`refine` by method {terms.method} so", allowed, remedy, ("refine",))])
        if self.minimum_frequency is not None:
            remedy = "drop one: refined counts are made of all cells, and would tell of the suppressed ones"
            refuse([Problem("`refine` with `minimum_frequency`", "one of the two", remedy, ("refine",))])
        if not any(each.what == COUNT for table in self.tables for each in table.of):
            refuse([Problem("`refine` without a count", "a table with count", "add count to `of:`", ("refine",))])
        return self

    @field_validator("tables")
    @classmethod
    def _tables_differ(cls, tables: tuple[StatisticsTable, ...]) -> tuple[StatisticsTable, ...]:
        problems = [] if tables else [Problem("no tables", "at least one table")]
        problems += repeated_names((place, table.name) for place, table in enumerate(tables))
        if problems:
            refuse(problems)
        return tables

    @property
    def keeps_total(self) -> bool:
        """No count is replaced by a declared total."""
        return False

    def minimum_frequency_of(self, key: str) -> MinimumFrequency | None:
        """Return the rule on a draw, whose table may have several; None without a rule, or where no table has it."""
        drawn = next((table.draw_keys for table in self.tables if key in table.draw_keys), ())
        return self.minimum_frequency.shared_by(len(drawn)) if self.minimum_frequency and drawn else None

    def bounded_groups(self, contract: Contract) -> dict[str, int]:
        """Return by column of texts how many keys one unit has at most, where that is fewer than rows."""
        return bounded_groups([(table.by, table.at_most_groups) for table in self.tables], contract)

    def names(self, contract: Contract) -> tuple[str, ...]:
        """Return the columns that are grouped by, added up, told apart or weights, in the contract's order."""
        used = {name for table in self.tables for name in (*table.by, *table.columns, *table.told_apart)}
        used |= {table.survey_weight.column for table in self.tables if table.survey_weight is not None}
        return tuple(column.name for column in contract.columns if column.name in used)

    def labelled(self, contract: Contract) -> tuple[LabelledTable, ...]:
        """Return every table."""
        return tuple(
            LabelledTable(("tables", place), table.by, table.published_columns[len(table.by) :])
            for place, table in enumerate(self.tables)
        )

    def lattices(self, contract: Contract) -> tuple[ValueLattice | KeyColumn, ...]:
        """Return the lattices of all tables, each once, those of weights, and the texts and ids to tell apart.

        A clip that is narrower than the bounds has one more, by which the operator's look counts what it cuts.
        """
        found = [replace(each, weight=None) for table in self.tables for each in table.lattices(contract)]
        weights = (table.survey_weight for table in self.tables)
        found += [each.lattice(contract) for each in weights if each is not None]
        found += [one_step_wider(each) for table in self.tables for each in table.clipped_lattices(contract)]
        selected = (table.by for table in self.tables if table.key_choice == "private")
        keys = [KeyColumn(name) for by in selected for name in contract.texts(by)]
        apart = (name for table in self.tables for name in table.told_apart)
        beside = [encoded_beside(name, contract.column(name).domain) for name in apart]
        bounded = any(table.quotas or table.at_most_groups is not None for table in self.tables)
        bounded = bounded and contract.unit.max_rows_per_unit > 1
        units = bounded or any(each.what == UNITS for table in self.tables for each in table.of)
        unit = contract.unit.column if units else None
        ids = [] if unit is None else [KeyColumn(unit), *([UnitOrder(unit)] if bounded else [])]
        return tuple(dict.fromkeys([*found, *keys, *(each for each in beside if each is not None), *ids]))


def statistics_product(product: ProductSpec) -> StatisticsProduct:
    """Return a product that is one of statistics.

    Raises:
        TypeError: it is another.
    """
    if not isinstance(product, StatisticsProduct):
        raise TypeError(f"no statistics are published, but kind {product.kind}")
    return product
