"""What a release publishes: tables, the mechanism behind them, and their refinement."""

from __future__ import annotations

from decimal import Decimal
from inspect import getdoc
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    GetJsonSchemaHandler,
    Tag,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from contracts.contract.contract import Contract
from contracts.domains.domain_terms import Frozen
from contracts.reading.scalars import (
    FINEST_DECIMALS,
    Amount,
    FieldPath,
    Flag,
    Label,
    Problem,
    as_tuple,
    plain_decimal,
    refuse,
    show,
)
from contracts.release.file_names import TableName, repeated_names
from contracts.release.lambda_reference import LAMBDAS, Lambda, LambdaReference
from contracts.release.product_spec import LabelledTable, ProductSpec
from contracts.release.tables.all_marginals import (
    RESIDUALS,
    AllMarginals,
    ShortFormToo,
    Weight,
    as_entries,
    form_of,
)
from contracts.release.tables.minimum_frequency import MinimumFrequency
from contracts.release.tables.table_bins import TableBins, TableQueries, default_name, written_queries
from contracts.release.tables.table_hierarchy import Hierarchy, hierarchy_schema, written_form

CONSISTENT_METHODS: Final = ("none", "simplex")


TableForm = Literal["dense", "sparse"]
Objective = Literal["sum", "max"]


class TableSpec(Frozen):
    """One published table: the marginal of its columns, and the weight of its share of the budget.

    With a `hierarchy` coarser tables are measured and published too, and all add up. `form` says whether it has a
    value for every cell (dense) or lists those above a threshold (sparse); where nothing is said, the size of the
    domain decides. With `queries` its rows are ranges of its ordered columns.
    """

    union_tag: ClassVar[str] = "a table"

    columns: tuple[Label, ...]
    name: TableName
    weight: Weight = Decimal(1)
    hierarchy: Annotated[Hierarchy | None, WithJsonSchema(hierarchy_schema())] = None
    form: TableForm | None = None
    bins: TableBins = Field(default=(), exclude_if=lambda bins: not bins)
    queries: TableQueries = Field(default=(), exclude_if=lambda queries: not queries)

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, written: Any) -> Any:
        """Read a bare list of columns; name the table after its columns where it has no name."""
        if isinstance(written, list | tuple):
            written = {"columns": written}
        if not isinstance(written, dict):
            allowed = "a list of columns, or {columns: [...], name: ..., weight: ..., form: ...}"
            refuse([Problem(show(written), allowed)])
        columns = written.get("columns")
        if written.get("hierarchy") is not None:
            written = {**written, "hierarchy": written_form(written["hierarchy"], columns)}
        if written.get("queries"):
            written = {**written, "queries": written_queries(written["queries"], columns)}
        if "name" not in written and isinstance(columns, list | tuple) and columns:
            return {**written, "name": default_name(columns, written.get("queries"))}
        return written

    @field_validator("columns", mode="before")
    @classmethod
    def _not_empty(cls, written: Any) -> Any:
        if not as_tuple(written):
            refuse([Problem("an empty list", "at least one column", "name the columns to count by")])
        return tuple(written)

    @field_validator("columns")
    @classmethod
    def _each_once(cls, columns: tuple[str, ...]) -> tuple[str, ...]:
        twice = [place for place, name in enumerate(columns) if name in columns[:place]]
        if twice:
            refuse(
                [Problem(f"{columns[place]!r} twice", "each column once", "drop one", (place,)) for place in twice]
            )
        return columns

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Describe both written forms."""
        full = handler.resolve_ref_schema(handler(core))
        full["required"] = ["columns"]
        names = {"type": "array", "items": {"type": "string"}, "minItems": 1}
        return {"title": "TableSpec", "description": getdoc(cls), "anyOf": [names, full]}


class Refine(Frozen):
    """Post-processing of the noisy counts, at no cost: how they lose negative values and noise, and whole numbers.

    `consistent` makes tables agree on the margins that they share; methods none (with `integers: false`) and simplex.
    `negative_l2` takes one of `lambda: NUMBER`, `lambda: auto`, `lambda: {reference: RELEASE/VERSION}` and `sparsity:
    SHARE of the cells`; `auto` takes the method that errs least by what the noisy values tell. Tables with a
    hierarchy are refined by `hierarchy`, whatever the others are refined by.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_by_name=True, validate_by_alias=True, defer_build=True
    )

    method: Literal["none", "simplex", "negative_l2", "empirical_bayes", "neighbourhood", "hierarchy", "auto"]
    lambda_: Lambda | None = Field(default=None, alias="lambda")
    sparsity: Amount | None = None
    integers: Flag = True
    consistent: Flag = False

    @field_validator("sparsity")
    @classmethod
    def _a_share(cls, sparsity: Decimal | None) -> Decimal | None:
        if sparsity is not None and (not 0 < sparsity <= 1 or sparsity.adjusted() < -FINEST_DECIMALS):
            allowed = "the wanted share of nonzero cells: above 0, at most 1"
            refuse([Problem(str(sparsity), allowed, "write 0.05 for one cell in twenty")])
        return None if sparsity is None else plain_decimal(sparsity)

    @model_validator(mode="after")
    def _one_way_to_lambda(self) -> Refine:
        given = [key for key, value in (("lambda", self.lambda_), ("sparsity", self.sparsity)) if value is not None]
        if self.method != "negative_l2" and given:
            found, remedy = f"`{given[0]}` with method {self.method}", "drop it, or choose negative_l2"
            refuse([Problem(found, f"`{given[0]}` with negative_l2 only", remedy, (given[0],))])
        if self.method == "negative_l2" and not given:
            remedy = "add `lambda: auto`, or one of the others"
            refuse([Problem("negative_l2 without `lambda`", f"`lambda:` {LAMBDAS}, or `sparsity:`", remedy)])
        if len(given) > 1:
            remedy = "drop one: lambda is chosen for the sparsity"
            refuse([Problem("`lambda` and `sparsity`", "one of the two", remedy, ("sparsity",))])
        return self

    @model_validator(mode="after")
    def _consistent_where_it_means_something(self) -> Refine:
        if not self.consistent:
            return self
        if self.method not in CONSISTENT_METHODS:
            found, allowed = f"`consistent` with method {self.method}", f"{' or '.join(CONSISTENT_METHODS)}"
            remedy = "choose simplex: the other methods refine each table by itself"
            refuse([Problem(found, allowed, remedy, ("consistent",))])
        if self.method == "none" and self.integers:
            found = "`consistent` with method none and whole numbers"
            remedy = "add `integers: false`: averages of noisy counts are fractions; or choose simplex"
            refuse([Problem(found, "`integers: false` with method none", remedy, ("consistent",))])
        return self


TableEntry = Annotated[
    Annotated[TableSpec, Tag(TableSpec.union_tag)] | Annotated[AllMarginals, Tag(AllMarginals.union_tag)],
    Discriminator(form_of),
]
"""One entry of `tables:`, a table or the short form of many."""


class TablesProduct(ProductSpec):
    """Published tables: each is the marginal of its columns over the full declared domain.

    `mechanism: auto` takes the noise with the least expected error; of residuals it is Gaussian. `split` says how the
    tables share the charge: by their weights; so that the sum of all cells' squared errors, each times its table's
    weight, is least; or not at all: `residuals` measures once what tables share, which makes that sum least of all,
    or with `objective: max` the largest weighted squared error of a cell. A table of many cells may be sparse: it
    lists those whose noisy count reached a threshold. `minimum_frequency` suppresses small noisy counts.
    """

    kind: Literal["tables"]
    reads_rows: ClassVar[bool] = False
    total_at: ClassVar[FieldPath] = ("product", "total")
    mechanism: Literal["laplace", "gaussian", "auto"]
    tables: Annotated[tuple[TableEntry, ...], BeforeValidator(as_entries), ShortFormToo]
    split: Literal["by_weight", "optimal", "residuals"] = "by_weight"
    objective: Objective = Field(default="sum", exclude_if=lambda objective: objective == "sum")
    refine: Refine = Refine(method="none")
    total: Literal["noisy", "invariant"] = Field(
        default="noisy", description="noisy, or invariant where the contract declares the total public"
    )
    minimum_frequency: MinimumFrequency | None = None

    @model_validator(mode="before")
    @classmethod
    def _hierarchies_alone(cls, written: Any) -> Any:
        """Refine by the hierarchy where nothing else is said and every table has one."""
        if not isinstance(written, dict) or "refine" in written:
            return written
        tables = written.get("tables")
        trees = isinstance(tables, list | tuple) and [
            isinstance(each, dict) and each.get("hierarchy") is not None for each in tables
        ]
        return {**written, "refine": {"method": "hierarchy"}} if trees and all(trees) else written

    @field_validator("tables")
    @classmethod
    def _tables_differ(cls, tables: tuple[TableEntry, ...]) -> tuple[TableEntry, ...]:
        problems = [] if tables else [Problem("no tables", "at least one table")]
        cliques: dict[tuple[frozenset[str], TableBins, TableQueries], int] = {}
        names = []
        for place, table in enumerate(tables):
            if isinstance(table, AllMarginals):
                continue
            first = cliques.setdefault((frozenset(table.columns), table.bins, table.queries), place)
            if first != place:
                found, remedy = f"the columns of table {first} again", "drop it: it would be paid for twice"
                problems.append(Problem(found, "each set of columns once", remedy, (place,)))
            else:
                names.append((place, table.name))
        problems += repeated_names(names)
        if problems:
            refuse(problems)
        return tables

    @model_validator(mode="after")
    def _method_has_its_tables(self) -> TablesProduct:
        """Refuse a method that no table would be refined by, `hierarchy` without one, and what residuals exclude."""
        if self.split == RESIDUALS:
            from contracts.release.tables.residual_split import check_residuals  # few releases have them

            check_residuals(
                self.mechanism,
                self.tables,
                method=self.refine.method,
                consistent=self.refine.consistent,
                keeps_total=self.keeps_total,
                rule=self.minimum_frequency,
            )
        elif self.objective == "max":
            found, remedy = f"objective max with split {self.split}", "add `split: residuals`, or drop the objective"
            refuse([Problem(found, "objective sum, or split residuals", remedy, ("objective",))])
        asked = [place for place, each in enumerate(self.tables) if getattr(each, "queries", ())]
        if asked and self.split != RESIDUALS:
            found, remedy = f"`queries` with split {self.split}", "add `split: residuals`, `mechanism: gaussian`"
            refuse(
                [Problem(found, "split residuals, which measures ranges", remedy, ("tables", asked[0], "queries"))]
            )
        flat = [each for each in self.tables if not isinstance(each, TableSpec) or each.hierarchy is None]
        if self.refine.consistent and len(flat) < len(self.tables):
            found, allowed = "`consistent: true` with a table that has a `hierarchy`", "one of the two in a release"
            remedy = "drop `consistent`, or publish the tables with a hierarchy in a release of their own"
            refuse([Problem(found, allowed, remedy, ("refine", "consistent"))])
        if self.refine.method == "hierarchy" and flat:
            which = f"table {flat[0].name!r}" if isinstance(flat[0], TableSpec) else f"all {flat[0].ways}-way tables"
            found = f"method hierarchy, but no `hierarchy` for {which}"
            allowed = "a method for the tables without one: none, simplex, negative_l2, empirical_bayes, auto"
            remedy = "name that method: tables with a hierarchy are refined by it in any case"
            refuse([Problem(found, allowed, remedy, ("refine", "method"))])
        if self.refine.method != "hierarchy" and not flat:
            found = f"method {self.refine.method}, but every table has a `hierarchy`"
            remedy = "write method: hierarchy, or publish the table without its hierarchy"
            refuse([Problem(found, "method hierarchy", remedy, ("refine", "method"))])
        return self

    @property
    def noise_is_gaussian(self) -> bool:
        """Whether no other noise may be used: the spec names it, or residuals are measured."""
        return self.mechanism == "gaussian" or self.split == RESIDUALS

    @property
    def keeps_total(self) -> bool:
        """Whether the total that the contract declares is kept."""
        return self.total != "noisy"

    @property
    def reference(self) -> LambdaReference | None:
        """The earlier version on which λ is chosen, if there is one."""
        lambda_ = self.refine.lambda_
        return lambda_ if isinstance(lambda_, LambdaReference) else None

    @model_validator(mode="after")
    def _rule_is_about_noisy_counts(self) -> TablesProduct:
        """Refuse the minimum-frequency rule where refined counts would tell of suppressed ones."""
        if self.minimum_frequency is None:
            return self
        method = next((m for m in map(self.method_of, self.tables) if m != "none"), None)
        if method is not None or self.refine.consistent:
            found = f"`minimum_frequency` with {'consistent tables' if method is None else f'method {method}'}"
            allowed = "method none, and tables without a hierarchy"
            drop = "`hierarchy:`" if method == "hierarchy" else "`refine:`"
            remedy = f"drop {drop}: refined counts are made of all cells, and would tell of the suppressed ones"
            refuse([Problem(found, allowed, remedy, ("minimum_frequency",))])
        return self

    def labelled(self, contract: Contract) -> tuple[LabelledTable, ...]:
        """Return every table; of a short form its columns together, since any two of them share a table."""
        others = ("count", "lower", "upper", *(() if self.minimum_frequency is None else ("suppressed",)))
        pictures, found = contract.pictures(), []
        for place, entry in enumerate(self.tables):
            own = entry.columns if isinstance(entry, TableSpec) else entry.of or [c.name for c in contract.columns]
            names = tuple(name for name in own if name not in pictures)
            apart = isinstance(entry, AllMarginals) and entry.ways == 1
            groups = [(name,) for name in names] if apart else [names]
            found += [LabelledTable(("tables", place), group, others) for group in groups]
        return tuple(found)

    def method_of(self, table: TableSpec | AllMarginals) -> str:
        """Return the method that a table, or the tables of an entry, are refined by: `hierarchy` with one."""
        alone = isinstance(table, TableSpec) and table.hierarchy is not None
        return "hierarchy" if alone else self.refine.method
