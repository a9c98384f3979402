"""What a release of adaptive tables publishes: groups, and the levels of detail among which a noisy total chooses.

    product:
      kind: adaptive
      tables:
        - by: [place, race]
          adapt:
            share: 0.1
            levels: [[], [sex], [sex, {age: 0..99 by 25}], [sex, age]]
            thresholds: auto                 # or [50, 400, 2000], a number for each level but the first
            relative_error: 0.5

A row belongs to one group, a cell of the `by` columns. First the total of every group is measured with `share` of the
table's charge. The noisy total says which level a group gets. Then the counts of all groups at their levels are
measured with the rest.
"""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, field_validator, model_validator

from contracts.contract.contract import Contract
from contracts.domains.domain_terms import Frozen
from contracts.reading.scalars import (
    FINEST_DECIMALS,
    Amount,
    FieldPath,
    Label,
    Problem,
    Whole,
    as_tuple,
    plain_decimal,
    refuse,
    show,
)
from contracts.release.file_names import TableName, repeated_names
from contracts.release.product_spec import ProductSpec
from contracts.release.tables.all_marginals import Weight
from contracts.release.tables.table_bins import TableBins

AUTO: Final = "auto"
MOST_LEVELS: Final = 12
MOST_THRESHOLD: Final = 10**12
RELATIVE_ERROR: Final = Decimal("0.5")
LEVEL: Final = "level"
"""The column of a published table that says how detailed a row is."""
VALUES: Final = (LEVEL, "count", "lower", "upper")
_REFUSED: Final = {
    "refine": "whole counts of a group that add up to its total, always",
    "total": "noisy totals of groups: a declared total is not kept",
    "split": "`weight:` of each table",
    "minimum_frequency": "thresholds: a group with few rows gets the first level",
}
_LEVEL_SCHEMA: Final = {
    "type": "array",
    "items": {"anyOf": [{"type": "string"}, {"type": "object", "minProperties": 1, "maxProperties": 1}]},
}


class DetailLevel(Frozen):
    """What the rows of a group are counted by: columns, some of them in bins of their own; none for the total."""

    columns: tuple[Label, ...] = ()
    bins: TableBins = Field(default=(), exclude_if=lambda bins: not bins)

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, written: Any) -> Any:
        """Read a list of columns, each by its name or as {COLUMN: BINS}."""
        if isinstance(written, dict):
            return written
        columns: list[Any] = []
        bins: dict[Any, Any] = {}
        for place, each in enumerate(as_tuple(written)):
            if isinstance(each, dict) and len(each) == 1:
                bins |= each
                columns += each
            elif isinstance(each, str):
                columns.append(each)
            else:
                refuse([Problem(show(each), "a column, or {COLUMN: BINS}", at=(place,))])
        return {"columns": columns, **({"bins": bins} if bins else {})}

    @field_validator("columns")
    @classmethod
    def _each_once(cls, columns: tuple[str, ...]) -> tuple[str, ...]:
        twice = [place for place, name in enumerate(columns) if name in columns[:place]]
        if twice:
            refuse([Problem(f"{columns[twice[0]]!r} twice", "each column once", "drop one", (twice[0],))])
        return columns


class Adapt(Frozen):
    """How noisy totals choose.

    Args:
        share: of the table's charge that measures the totals; the counts have the rest.
        levels: from the coarsest; each next one splits the cells of the one before.
        thresholds: from which noisy total on a group gets each level but the first; `auto` takes the noise.
        relative_error: of `auto`: the 95 % interval of an average cell, as a share of its count; 0.5 without it.
    """

    share: Amount
    levels: Annotated[tuple[Annotated[DetailLevel, WithJsonSchema(_LEVEL_SCHEMA)], ...], BeforeValidator(as_tuple)]
    thresholds: Literal["auto"] | Annotated[tuple[Whole, ...], BeforeValidator(as_tuple)] = AUTO
    relative_error: Amount | None = Field(default=None, exclude_if=lambda share: share is None)

    @field_validator("share", "relative_error")
    @classmethod
    def _a_share(cls, share: Decimal | None, about: Any) -> Decimal | None:
        if share is None:
            return None
        most = Decimal(1) if about.field_name == "share" else Decimal(1000)
        if not 0 < share < most or share.adjusted() < -FINEST_DECIMALS:
            allowed = f"a number above 0 and below {most}"
            refuse([Problem(str(share), allowed, "write 0.1 for a tenth" if most == 1 else "write 0.5 for a half")])
        return plain_decimal(share)

    @field_validator("levels")
    @classmethod
    def _several(cls, levels: tuple[DetailLevel, ...]) -> tuple[DetailLevel, ...]:
        if not 2 <= len(levels) <= MOST_LEVELS:
            found = f"{len(levels)} level{'' if len(levels) == 1 else 's'}"
            remedy = "begin with [] for the total, and end with all columns"
            refuse([Problem(found, f"2 to {MOST_LEVELS} levels, the coarsest first", remedy)])
        for place, (above, below) in enumerate(pairwise(levels), start=1):
            lost = [name for name in above.columns if name not in below.columns]
            if lost:
                found = f"the level {_words(below)} after {_words(above)}, without {lost[0]!r}"
                remedy = f"add {lost[0]!r} to it, or put the levels in order"
                refuse(
                    [
                        Problem(
                            found, "levels that are nested: each has all columns of the one before", remedy, (place,)
                        )
                    ]
                )
        return levels

    @field_validator("thresholds", mode="before")
    @classmethod
    def _auto_or_numbers(cls, written: Any) -> Any:
        if isinstance(written, str) and written != AUTO:
            refuse([Problem(show(written), "auto, or a list of numbers of rows", "write thresholds: auto")])
        return written

    @model_validator(mode="after")
    def _as_many_as_levels(self) -> Adapt:
        if self.thresholds == AUTO:
            return self
        if self.relative_error is not None:
            found = "`relative_error` beside thresholds of the spec"
            refuse([Problem(found, "one of the two", "drop one, or write thresholds: auto", ("relative_error",))])
        given, wanted = self.thresholds, len(self.levels) - 1
        if len(given) != wanted:
            found, allowed = (
                f"{len(given)} thresholds for {wanted + 1} levels",
                f"{wanted}: one for each level but the first",
            )
            refuse([Problem(found, allowed, "add or drop one, or write thresholds: auto", ("thresholds",))])
        for place, number in enumerate(given):
            least = 1 if place == 0 else int(given[place - 1]) + 1
            if not least <= int(number) <= MOST_THRESHOLD:
                allowed = f"increasing whole numbers of rows, from 1 to {MOST_THRESHOLD:,}"
                refuse([Problem(f"{number} at this place", allowed, "put them in order", ("thresholds", place))])
        return self


def wanted_error(adapt: Adapt) -> Decimal:
    """Return the relative error that `auto` aims at."""
    return RELATIVE_ERROR if adapt.relative_error is None else adapt.relative_error


def _words(level: DetailLevel) -> str:
    return f"[{', '.join(level.columns)}]"


class AdaptiveTable(Frozen):
    """A table whose groups get more or less detail.

    Args:
        by: columns whose cells are the groups.
        adapt: how the detail is chosen.
        name: of its files.
        weight: of its share of the charge.
    """

    by: Annotated[tuple[Label, ...], BeforeValidator(as_tuple)]
    adapt: Adapt
    name: TableName
    weight: Weight = Decimal(1)

    @model_validator(mode="before")
    @classmethod
    def _named(cls, written: Any) -> Any:
        """Name the table after its groups where it has no name."""
        if not isinstance(written, dict):
            refuse([Problem(show(written), "{by: [COLUMN, ...], adapt: {share: ..., levels: [...]}}")])
        by = written.get("by")
        if "name" not in written and isinstance(by, list | tuple) and by:
            return {**written, "name": "_x_".join(map(str, by))}
        return written

    @field_validator("by")
    @classmethod
    def _groups(cls, by: tuple[str, ...]) -> tuple[str, ...]:
        twice = [place for place, name in enumerate(by) if name in by[:place]]
        if twice or not by:
            found = f"{by[twice[0]]!r} twice" if twice else "an empty list"
            refuse([Problem(found, "at least one column, each once", "name the columns whose cells are groups")])
        return by

    @model_validator(mode="after")
    def _apart_from_groups(self) -> AdaptiveTable:
        for place, level in enumerate(self.adapt.levels):
            both = [name for name in level.columns if name in self.by]
            if both:
                at: FieldPath = ("adapt", "levels", place)
                remedy = "drop it from the level: every group has one label of it"
                refuse([Problem(f"the column {both[0]!r} of the groups", "columns other than `by`", remedy, at)])
        return self

    @property
    def detail(self) -> tuple[str, ...]:
        """The columns of the most detailed level."""
        return self.adapt.levels[-1].columns

    @property
    def clique(self) -> tuple[str, ...]:
        """All its columns, those of the groups first."""
        return (*self.by, *self.detail)


class AdaptiveProduct(ProductSpec):
    """Tables whose groups get as much detail as their noisy totals allow (as SafeTab-P does).

    The noise is discrete Gaussian or Laplace. What a group's counts cost does not depend on its level. The choice is
    made of noisy totals alone.
    """

    kind: Literal["adaptive"]
    reads_rows: ClassVar[bool] = False
    total_at: ClassVar[FieldPath] = ("product", "tables")
    mechanism: Literal["laplace", "gaussian"] = Field(
        default="gaussian", description="gaussian, which needs a delta, or laplace, which spends none"
    )
    tables: Annotated[tuple[AdaptiveTable, ...], BeforeValidator(as_tuple)]

    @model_validator(mode="before")
    @classmethod
    def _without_options_of_tables(cls, written: Any) -> Any:
        """Say of options of tables what stands in their place."""
        for key, instead in _REFUSED.items():
            if isinstance(written, dict) and key in written:
                refuse([Problem(f"`{key}` beside `adapt`", instead, "drop it, or publish `kind: tables`", (key,))])
        return written

    @field_validator("tables")
    @classmethod
    def _tables_differ(cls, tables: tuple[AdaptiveTable, ...]) -> tuple[AdaptiveTable, ...]:
        problems = [] if tables else [Problem("no tables", "at least one table")]
        problems += repeated_names((place, table.name) for place, table in enumerate(tables))
        if problems:
            refuse(problems)
        return tables

    def names(self, contract: Contract) -> tuple[str, ...]:
        """Return the columns that are counted by, in the contract's order."""
        used = {name for table in self.tables for name in table.clique}
        return tuple(column.name for column in contract.columns if column.name in used)

    @property
    def keeps_total(self) -> bool:
        """No declared total is kept."""
        return False


def adaptive_product(product: ProductSpec) -> AdaptiveProduct:
    """Return a product that is adaptive tables.

    Raises:
        TypeError: it is another.
    """
    if not isinstance(product, AdaptiveProduct):
        raise TypeError(f"no adaptive tables are published, but kind {product.kind}")
    return product
