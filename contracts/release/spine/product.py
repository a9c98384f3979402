"""What a release of counts by place publishes: the tree of places, tables at chosen levels, invariants.

    product:
      kind: spine
      spine: {column: block, file: places.csv, levels: [nation, region, block]}
      tables:
        - {columns: [sex, age], levels: {nation: 1, region: 2, block: 4}}
        - {columns: [sex], weight: 2}
      invariants: {region: {column: residents, reference: "Register of residents, 2025"}}

Rows are in the smallest places. Each larger place is the union of those below it.
One table has all columns. The others are its margins, so that all of them agree.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from contracts.contract.contract import Contract
from contracts.domains.domain import Frozen
from contracts.reading.scalars import Amount, FieldPath, Flag, Label, Problem, as_tuple, refuse, show, word_list
from contracts.release.product import ProductSpec, unfit_name
from contracts.release.tables.tables import Weight, check_weight

MOST_LEVELS: Final = 12
MOST_COLUMNS: Final = 6
PLACES: Final = "places"
INVARIANTS: Final = "invariants"
"""The files of the places, and of public counts by columns, in `data/`; no table has these names."""


class PlaceLevels(Frozen):
    """A tree of places, as its file is read.

    Args:
        file: a public CSV or Parquet file with the columns place, parent and level, beside the spec.
        levels: from the whole down to the smallest places.
        unbalanced: whether a place may lie more than one level below its parent, or have none below it.
    """

    file: Label
    levels: Annotated[tuple[Label, ...], BeforeValidator(as_tuple)]
    unbalanced: Flag = False

    @field_validator("levels")
    @classmethod
    def _several_and_each_once(cls, levels: tuple[str, ...]) -> tuple[str, ...]:
        if not 2 <= len(levels) <= MOST_LEVELS:
            remedy = "name the levels from the whole down to the smallest places"
            refuse([Problem(f"{len(levels)} levels", f"2 to {MOST_LEVELS}", remedy)])
        folded = [level.casefold() for level in levels]
        for place, level in enumerate(levels):
            if folded[place] in folded[:place]:
                refuse([Problem(f"the level {level!r} twice", "each level once", "rename one", (place,))])
            if unfit_name(level) is not None:
                refuse([Problem(show(level), str(unfit_name(level)), "rename it: it names a file", (place,))])
        return levels


class SpineTerms(PlaceLevels):
    """The tree of places.

    Args:
        column: the column of the contract whose labels are the smallest places.
        sha256: of the places as they were read; what is planned fills it in, and a spec may pin it.
    """

    column: Label
    sha256: Label | None = None


class PlaceInvariant(Frozen):
    """Totals of the places of a level, which are public and published exactly.

    Args:
        column: of the file of places; a whole number of rows for each place of the level.
        reference: where the totals are published.
        columns: by which the totals are; none for the number of rows.
        file: of totals by columns, beside the spec: place, these columns, and `column`.
    """

    column: Label
    reference: Label
    columns: Annotated[tuple[Label, ...], BeforeValidator(as_tuple)] = Field(
        default=(), exclude_if=lambda columns: not columns
    )
    file: Label | None = Field(default=None, exclude_if=lambda file: file is None)

    @model_validator(mode="after")
    def _both_or_none(self) -> PlaceInvariant:
        if bool(self.columns) != (self.file is not None):
            found = "columns without a file" if self.columns else "a file without columns"
            remedy = "name the file with a line a place and label, or leave both out for totals of the file of places"
            refuse([Problem(found, "both, or neither", remedy)])
        return self


class SpineTable(Frozen):
    """A table that is measured and published at levels of the spine.

    Args:
        columns: what is counted in each place; empty for the number of rows.
        name: of its files.
        weight: of its share of the charge.
        levels: weights of its levels; all levels alike where none is named.
    """

    columns: Annotated[tuple[Label, ...], BeforeValidator(as_tuple)]
    name: Label
    weight: Weight = Decimal(1)
    levels: dict[Label, Amount] | None = None

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, written: Any) -> Any:
        """Read a bare list of columns; name the table after its columns where it has no name."""
        if isinstance(written, list | tuple):
            written = {"columns": written}
        if not isinstance(written, dict):
            refuse([Problem(show(written), "a list of columns, or {columns: [...], levels: {LEVEL: WEIGHT, ...}}")])
        columns = written.get("columns")
        if "name" not in written and isinstance(columns, list | tuple):
            return {**written, "name": "_x_".join(map(str, columns)) or "rows"}
        return written

    @field_validator("columns")
    @classmethod
    def _each_once(cls, columns: tuple[str, ...]) -> tuple[str, ...]:
        twice = [place for place, name in enumerate(columns) if name in columns[:place]]
        if twice:
            refuse([Problem(f"{columns[twice[0]]!r} twice", "each column once", "drop one", (twice[0],))])
        return columns

    @field_validator("name")
    @classmethod
    def _fit_for_a_file(cls, name: str) -> str:
        taken = (PLACES, INVARIANTS)
        allowed = f"a name other than {' and '.join(taken)}" if name.casefold() in taken else unfit_name(name)
        if allowed is not None:
            refuse([Problem(f"the table name {show(name)}", allowed, "give the table a `name:`, it names a file")])
        return name

    @field_validator("levels")
    @classmethod
    def _all_moderate(cls, levels: dict[str, Decimal] | None) -> dict[str, Decimal] | None:
        if levels is not None and not levels:
            refuse([Problem("no level", "at least one level, or no `levels:` for all", "name a level")])
        return None if levels is None else {level: check_weight(weight) for level, weight in levels.items()}


class SpineProduct(ProductSpec):
    """Counts by place at all levels of a tree of places: whole, not negative, and they all add up.

    The noise is discrete Gaussian. Each table is measured at each of its levels with its share of the charge. All
    measurements together are estimated by generalised least squares, and made whole numbers from the top down.
    `invariants` names public totals of the places of a level: they are published exactly.
    """

    kind: Literal["spine"]
    reads_rows: ClassVar[bool] = False
    total_at: ClassVar[FieldPath] = ("product", "spine")
    mechanism: Literal["gaussian"] = Field(default="gaussian", description="discrete Gaussian noise; needs a delta")
    spine: SpineTerms
    tables: Annotated[tuple[SpineTable, ...], BeforeValidator(as_tuple)]
    invariants: dict[Label, PlaceInvariant] = Field(
        default_factory=dict, description="public totals of the places of a level, published exactly"
    )

    other_spines: Annotated[tuple[PlaceLevels, ...], BeforeValidator(as_tuple)] = Field(
        default=(),
        exclude_if=lambda spines: not spines,
        description="further trees over the same smallest places: the same first and last level, others between",
    )

    @field_validator("tables")
    @classmethod
    def _one_has_all_columns(cls, tables: tuple[SpineTable, ...]) -> tuple[SpineTable, ...]:
        if not tables:
            refuse([Problem("no tables", "at least one table")])
        for key in ("name", "columns"):
            found = [str(getattr(table, key)) if key == "name" else set(table.columns) for table in tables]
            twice = [place for place, each in enumerate(found) if each in found[:place]]
            if twice:
                allowed = "each once: shares of a table's levels are its weights"
                refuse([Problem(f"a table with the {key} of another", allowed, "drop one", (twice[0], key))])
        every = {name for table in tables for name in table.columns}
        if all(set(table.columns) != every for table in tables):
            allowed = f"one table with all columns: {', '.join(sorted(every))}"
            refuse([Problem("tables of which none has all columns", allowed, "add a table of all of them")])
        if len(every) > MOST_COLUMNS:
            refuse([Problem(f"{len(every)} columns", f"at most {MOST_COLUMNS}", "drop a column")])
        return tables

    @model_validator(mode="after")
    def _trees_share_whole_and_smallest_places(self) -> SpineProduct:
        first, last = self.spine.levels[0], self.spine.levels[-1]
        taken = {level.casefold() for level in self.spine.levels}
        for place, other in enumerate(self.other_spines):
            at: FieldPath = ("other_spines", place, "levels")
            if len(other.levels) < 3 or (other.levels[0], other.levels[-1]) != (first, last):
                allowed = f"{first}, levels of its own, {last}"
                remedy = "name the first and the last level as the spine does"
                refuse([Problem(f"the levels {', '.join(other.levels)}", allowed, remedy, at)])
            for order, level in enumerate(other.levels[1:-1], start=1):
                if level.casefold() in taken:
                    allowed = "a name that no other tree has for a level"
                    refuse([Problem(f"the level {level!r}", allowed, "rename it", (*at, order))])
                taken.add(level.casefold())
        return self

    @model_validator(mode="after")
    def _levels_are_the_spines(self) -> SpineProduct:
        known = self.levels
        for place, table in enumerate(self.tables):
            for level in table.levels or ():
                if level not in known:
                    remedy = "name a level of the spine"
                    at: FieldPath = ("tables", place, "levels", level)
                    refuse([Problem(f"the level {level!r}", word_list(known), remedy, at)])
        for level in self.invariants:
            if level not in self.spine.levels:
                allowed = word_list(self.spine.levels)
                refuse([Problem(f"the level {level!r}", allowed, "name a level of the spine", ("invariants", level))])
        place = self.tables.index(self.detail)
        last = self.spine.levels[-1]
        if last not in self.levels_of(self.detail):
            found = f"no measurement of {self.detail.name!r} at {last}"
            remedy = f"add {last} to its levels: nothing else tells smallest places apart"
            refuse([Problem(found, f"the level {last} in the table of all columns", remedy, ("tables", place))])
        return self

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels of the spine, then those that other trees have between the whole and the smallest places."""
        return (*self.spine.levels, *(level for other in self.other_spines for level in other.levels[1:-1]))

    @property
    def detail(self) -> SpineTable:
        """The table of all columns."""
        return max(self.tables, key=lambda table: len(table.columns))

    def levels_of(self, table: SpineTable) -> dict[str, Decimal]:
        """Return the levels of a table with their weights, from the whole down."""
        weights = table.levels
        every = {level: Decimal(1) for level in self.levels}
        return every if weights is None else {level: weights[level] for level in self.levels if level in weights}

    @property
    def draws(self) -> tuple[tuple[SpineTable, str], ...]:
        """Every table at each of its levels, in the order in which they are drawn."""
        return tuple((table, level) for table in self.tables for level in self.levels_of(table))

    def names(self, contract: Contract) -> tuple[str, ...]:
        """Return the columns that are counted by, in the contract's order."""
        used = {self.spine.column, *self.detail.columns}
        return tuple(column.name for column in contract.columns if column.name in used)


def spine_product(product: ProductSpec) -> SpineProduct:
    """Return a product that is counts by place.

    Raises:
        TypeError: it is another.
    """
    if not isinstance(product, SpineProduct):
        raise TypeError(f"no counts by place are published, but kind {product.kind}")
    return product
