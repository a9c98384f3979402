"""A release of statistics: counts, sums, means and quantiles of columns of numbers, by the cells of other columns."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, field_validator, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from contracts.contract.contract import Contract
from contracts.domains.domain_terms import Frozen
from contracts.domains.quantile_choices import CHOICE
from contracts.domains.value_lattices import ValueLattice, usual_step
from contracts.domains.value_trees import ValueTree, tree_key, usual_resolution
from contracts.reading.scalars import (
    Amount,
    Bound,
    BoundPair,
    FieldPath,
    Label,
    Problem,
    as_tuple,
    nearest,
    plain_text,
    refuse,
    show,
    word_list,
)
from contracts.release.file_names import unfit_name
from contracts.release.product_spec import ProductSpec
from contracts.release.statistic_forms import (
    COUNT,
    FORMS,
    OF_A_COLUMN,
    QUANTILES,
    QUANTILES_FORM,
    RATIO,
    RATIO_FORM,
    form_remedy,
    quantiles_schema,
    read_quantiles,
    read_ratio,
    share_problems,
)
from contracts.release.tables.all_marginals import check_weight

NEAR_ZERO: Final = "near_zero"
"""The column that marks cells whose count cannot be told from 0."""
_ENDS: Final = ("low", "high")
_MORE: Final = ("clip", "step")


class Statistic(Frozen):
    """One statistic of a table: `count`, `{sum: income, clip: [0, 200000]}`, `{mean: income}` or a ratio of two sums.

    Or some quantiles of a column: `{quantiles: [0.1, 0.5, 0.9], of: income, resolution: 100}`. A quantile p is the
    smallest value at or below which at least a share p of the rows lie; `resolution` is the length of the intervals
    in which rows are counted, and `method` says whether quantiles come of these counts alone, or are chosen by the
    exponential mechanism beside them.

    Values outside `clip` count as its ends; where nothing is said the contract's bounds are the clip. `step` is the
    unit in which values are added up, to which they are rounded.
    """

    what: Literal["count", "sum", "mean", "ratio", "quantiles"]
    column: Label | None = None
    clip: BoundPair | None = None
    step: Bound | None = None
    over: Statistic | None = None
    quantiles: Annotated[tuple[Bound, ...], BeforeValidator(as_tuple)] = ()
    resolution: Bound | None = None
    method: Literal["auto", "tree", "exponential"] = "auto"

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, written: Any) -> Any:
        """Read `count`, and a mapping whose first key says what is published of which column."""
        if written == COUNT:
            return {"what": COUNT}
        if not isinstance(written, dict):
            refuse([Problem(show(written), FORMS, form_remedy(written))])
        if "what" in written:
            return written
        if RATIO in written:
            return read_ratio(written)
        if QUANTILES in written:
            return read_quantiles(written)
        named = [key for key in written if key in (COUNT, *OF_A_COLUMN)]
        if len(named) != 1:
            refuse([Problem(show(written), FORMS, form_remedy(written))])
        what, column = named[0], written[named[0]]
        if isinstance(column, list | tuple | dict):
            refuse([Problem(show(column), "the name of one column", "write a statistic for each column", (what,))])
        rest = {key: value for key, value in written.items() if key != what}
        unknown = [key for key in rest if key not in _MORE]
        if unknown:
            remedies = {key: nearest(str(key), _MORE) or "remove it" for key in unknown}
            allowed = word_list((what, *_MORE))
            refuse([Problem(f"the unknown key {key!r}", allowed, remedies[key], (key,)) for key in unknown])
        return {"what": what, "column": column, **rest}

    @model_validator(mode="after")
    def _of_a_column(self) -> Statistic:
        if self.what == COUNT and (self.column, self.clip, self.step) != (None, None, None):
            refuse([Problem("a count with a column, a clip or a step", "count alone", "write count")])
        if self.what != COUNT and self.column is None:
            refuse([Problem(f"a {self.what} of no column", FORMS)])
        if (self.what == RATIO) != (self.over is not None):
            refuse([Problem("`over:` without a ratio, or a ratio without it", RATIO_FORM)])
        if self.over is not None and (self.over.what != "sum" or self.over.column == self.column):
            refuse([Problem("a ratio of a column to itself, or of no sum", f"{RATIO_FORM} of two columns")])
        if self.what != QUANTILES and (self.quantiles, self.resolution, self.method) != ((), None, "auto"):
            refuse([Problem(f"quantiles, a resolution or a method with a {self.what}", QUANTILES_FORM)])
        if self.what == QUANTILES:
            problems = list(share_problems(self.quantiles))
            if problems:
                refuse(problems)
        return self

    @property
    def name(self) -> str:
        """Its column in the published file; of quantiles, what they are called together."""
        named = COUNT if self.column is None else f"{self.what}_{self.column}"
        return named if self.over is None else f"{named}_over_{self.over.column}"

    @property
    def terms(self) -> tuple[Statistic, ...]:
        """What it says of columns: itself, and of a ratio the lower sum too."""
        return (self,) if self.over is None else (self, self.over)

    @property
    def key(self) -> str | None:
        """What its draw is found by among those of a table; None of a count, which any of them gives."""
        return tree_key(self.column) if self.what == QUANTILES and self.column is not None else self.column

    @property
    def estimates(self) -> tuple[str, ...]:
        """Its estimates in the published file: one, or one for each quantile."""
        if self.what != QUANTILES:
            return (self.name,)
        return tuple(f"q{plain_text(100 * share)}_{self.column}" for share in self.quantiles)

    @property
    def published(self) -> tuple[str, ...]:
        """Its columns in the published file: each estimate, and the ends of its interval."""
        return tuple(name for each in self.estimates for name in (each, *(f"{each}_{end}" for end in _ENDS)))

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Describe the written forms."""
        pair = {"type": "array", "items": {"type": ["number", "string"]}, "minItems": 2, "maxItems": 2}
        more = {"clip": pair, "step": {"type": ["number", "string"]}}
        forms = [
            {
                "type": "object",
                "properties": {what: {"type": "string"}, **more},
                "required": [what],
                "additionalProperties": False,
            }
            for what in OF_A_COLUMN
        ]
        term = {
            "type": "object",
            "properties": {"sum": {"type": "string"}, **more},
            "required": ["sum"],
            "additionalProperties": False,
        }
        parts = {RATIO: term, "over": term}
        forms.append({"type": "object", "properties": parts, "required": [*parts], "additionalProperties": False})
        forms.append(quantiles_schema(more))
        return {"title": "Statistic", "description": cls.__doc__, "anyOf": [{"const": COUNT}, *forms]}


class StatisticsTable(Frozen):
    """Statistics by the cells of some columns; without columns, of all rows together.

    `weight` is that of its share of the charge.
    """

    by: Annotated[tuple[Label, ...], BeforeValidator(as_tuple)] = ()
    of: Annotated[tuple[Statistic, ...], BeforeValidator(as_tuple)]
    name: Label
    weight: Amount = Decimal(1)

    @model_validator(mode="before")
    @classmethod
    def _named(cls, written: Any) -> Any:
        """Name the table after its columns where it has no name."""
        if not isinstance(written, dict):
            refuse([Problem(show(written), "{by: [...], of: [...]}, with `name:` and `weight:` if wanted")])
        by = written.get("by", ())
        if "name" not in written:  # what is no list is refused as such
            return {**written, "name": "_x_".join(map(str, by if isinstance(by, list | tuple) else ())) or "all"}
        return written

    @field_validator("by")
    @classmethod
    def _each_once(cls, by: tuple[str, ...]) -> tuple[str, ...]:
        twice = [place for place, name in enumerate(by) if name in by[:place]]
        if twice:
            refuse([Problem(f"{by[place]!r} twice", "each column once", "drop one", (place,)) for place in twice])
        return by

    @field_validator("of")
    @classmethod
    def _distinct(cls, of: tuple[Statistic, ...]) -> tuple[Statistic, ...]:
        names = [each.name for each in of]
        if not of:
            refuse([Problem("an empty list", "at least one statistic", f"write {FORMS}")])
        twice = [place for place, name in enumerate(names) if name in names[:place]]
        if twice:
            refuse([Problem(f"{names[place]} twice", "each once", "drop one", (place,)) for place in twice])
        return of

    @field_validator("name")
    @classmethod
    def _fit_for_a_file(cls, name: str) -> str:
        allowed = unfit_name(name)
        if allowed is not None:
            refuse(
                [Problem(f"the table name {show(name)}", allowed, "give the table another `name:`: it names a file")]
            )
        return name

    @field_validator("weight")
    @classmethod
    def _moderate(cls, weight: Decimal) -> Decimal:
        return check_weight(weight)

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Describe what has to be written: the name does not."""
        schema = handler.resolve_ref_schema(handler(core))
        return {**schema, "required": [key for key in schema["required"] if key != "name"]}

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of which statistics are published, each once, in their order."""
        terms = (term for each in self.of for term in each.terms)
        return tuple(dict.fromkeys(term.column for term in terms if term.column is not None))

    @property
    def published_columns(self) -> tuple[str, ...]:
        """The columns of the published file, in their order."""
        return (*self.by, *(name for each in self.of for name in each.published), NEAR_ZERO)

    def lattices(self, contract: Contract) -> tuple[ValueLattice, ...]:
        """Return the lattice of each such column; of one whose statistics say nothing, its bounds'."""
        return tuple(_lattice(self, name, contract) for name in self.columns)

    def trees(self, contract: Contract) -> tuple[ValueTree, ...]:
        """Return the trees of counts of all quantiles, in their order."""
        found = []
        for each in self.of:
            if each.what == QUANTILES and each.column is not None:
                lattice = _lattice(self, each.column, contract)
                found.append(
                    ValueTree(lattice, usual_resolution(lattice) if each.resolution is None else each.resolution)
                )
        return tuple(found)

    @property
    def draw_keys(self) -> tuple[str, ...]:
        """The names of the draws: of columns that are added up, then of trees; else of the counts alone."""
        terms = [term for each in self.of if each.what != QUANTILES for term in each.terms]
        sums = [f"table:{self.name}/{column}" for column in self.columns if column in {term.column for term in terms}]
        trees = [f"table:{self.name}/quantiles/{each.column}" for each in self.of if each.what == QUANTILES]
        return (*sums, *trees) or (f"table:{self.name}",)

    @property
    def choice_keys(self) -> tuple[str, ...]:
        """The names of the draws of quantiles that may be chosen."""
        return tuple(f"table:{self.name}/{CHOICE}/{each.column}" for each in self.of if each.what == QUANTILES)

    def draws(self, contract: Contract) -> tuple[tuple[str, ValueLattice | ValueTree | None], ...]:
        """Return what is drawn under each of these names."""
        terms = (term for each in self.of if each.what != QUANTILES for term in each.terms)
        summed = {term.column for term in terms}
        sums = [each for each in self.lattices(contract) if each.column in summed]
        return tuple(zip(self.draw_keys, (*sums, *self.trees(contract)) or (None,), strict=True))


class StatisticsProduct(ProductSpec):
    """Counts, sums, means and quantiles by the cells of declared columns, with their intervals.

    Each column that is added up is drawn once for each table; its counts, sums and means come of that draw. All
    quantiles of a column come of one draw more, whatever their number. Without such a column the counts are drawn
    alone. Tables share the charge by their weights, draws of a table alike.
    """

    reads_rows: ClassVar[bool] = True
    total_at: ClassVar[FieldPath] = ("product", "tables")

    kind: Literal["statistics"]
    mechanism: Literal["laplace", "gaussian"] = Field(
        default="laplace", description="the noise; gaussian needs a delta above 0 and pays for many draws"
    )
    tables: Annotated[tuple[StatisticsTable, ...], BeforeValidator(as_tuple)]

    @field_validator("tables")
    @classmethod
    def _tables_differ(cls, tables: tuple[StatisticsTable, ...]) -> tuple[StatisticsTable, ...]:
        names = [table.name.casefold() for table in tables]
        twice = [place for place, name in enumerate(names) if name in names[:place]]
        if not tables:
            refuse([Problem("no tables", "at least one table")])
        if twice:
            found = [(place, f"the name {tables[place].name!r} again") for place in twice]
            refuse([Problem(text, "each name once", "give one a `name:`", (place, "name")) for place, text in found])
        return tables

    @property
    def keeps_total(self) -> bool:
        """No count is replaced by a declared total."""
        return False

    def names(self, contract: Contract) -> tuple[str, ...]:
        """Return the columns that are grouped by or added up, in the contract's order."""
        used = {name for table in self.tables for name in (*table.by, *table.columns)}
        return tuple(column.name for column in contract.columns if column.name in used)

    def lattices(self, contract: Contract) -> tuple[ValueLattice, ...]:
        """Return the lattices of all tables, each once."""
        return tuple(dict.fromkeys(each for table in self.tables for each in table.lattices(contract)))


def statistics_product(product: ProductSpec) -> StatisticsProduct:
    """Return a product that is one of statistics.

    Raises:
        TypeError: it is another.
    """
    if not isinstance(product, StatisticsProduct):
        raise TypeError(f"no statistics are published, but kind {product.kind}")
    return product


def _lattice(table: StatisticsTable, name: str, contract: Contract) -> ValueLattice:
    """Return the lattice of a column: the first clip and the first step that one of its statistics has."""
    terms = (term for each in table.of for term in each.terms)
    domain, own = contract.column(name).domain, [term for term in terms if term.column == name]
    clip = next((each.clip for each in own if each.clip is not None), None) or domain.value_bounds
    if clip is None:
        raise ValueError(f"column {name} has no bounds")
    step = next((each.step for each in own if each.step is not None), None)
    low, high = clip
    step = usual_step(low, high, decimals=domain.decimals) if step is None else step
    return ValueLattice(name, low, high, step, domain.nulls.policy == "category")
