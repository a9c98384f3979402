"""What a release publishes: tables, the mechanism behind them, and their refinement."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from inspect import getdoc
from itertools import combinations
from math import comb
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import (
    AfterValidator,
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
from contracts.domains.domain import Frozen
from contracts.errors import Finding, SpecRefused
from contracts.reading.findings import dotted
from contracts.reading.scalars import (
    FINEST_DECIMALS,
    Amount,
    FieldPath,
    Flag,
    Label,
    Problem,
    Whole,
    as_tuple,
    nearest,
    parse_whole,
    plain_decimal,
    refuse,
    show,
    spelled,
    word_list,
)
from contracts.release.product import (
    AUTO,
    LAMBDAS,
    LabelledTable,
    Lambda,
    LambdaReference,
    ProductSpec,
    TableName,
    repeated_names,
    unfit_name,
)
from contracts.release.tables.hierarchy import Hierarchy, TableBins, hierarchy_schema, written_form

# --- The short form for many tables, every marginal of so many columns.


RESIDUALS: Final = "residuals"
"""The split by which all tables are made of one draw of residuals."""

_SHORT = re.compile(r"all ([1-9][0-9]?)-way")
_SCHEMA_OF_SHORT = {"type": "string", "pattern": "^all [1-9][0-9]?-way$"}
MOST_WAYS = 99
ALLOWED_WEIGHTS = "a weight from 0.000001 to 1000000"


def check_weight(weight: Decimal) -> Decimal:
    """Refuse a weight that is zero, negative or extreme."""
    if not Decimal("1e-6") <= weight <= Decimal("1e6"):
        refuse([Problem(str(weight), ALLOWED_WEIGHTS)])
    return plain_decimal(weight)


Weight = Annotated[Amount, AfterValidator(check_weight)]
"""The weight of a table's share of the charge."""


class AllMarginals(Frozen):
    """Every table of so many columns, each with the same weight.

    Args:
        ways: how many columns each table has; written `all`.
        of: the columns to choose from; all of the contract's where nothing is said.
        weight: of each of the tables.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_by_name=True, validate_by_alias=True, defer_build=True
    )
    union_tag: ClassVar[str] = "all marginals"

    ways: Whole = Field(alias="all")
    of: Annotated[tuple[Label, ...] | None, BeforeValidator(lambda of: None if of is None else as_tuple(of))] = None
    weight: Weight = Decimal(1)

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, written: Any) -> Any:
        """Read `all 2-way`."""
        if not isinstance(written, str):
            return written
        short = _SHORT.fullmatch(written.strip())
        if short is None:
            allowed = "a list of columns, {columns: [...], name: ..., weight: ...}, or all 2-way"
            refuse([Problem(show(written), allowed, "write all 1-way, all 2-way, all 3-way, or a list of tables")])
        return {"all": int(short[1])}

    @field_validator("ways")
    @classmethod
    def _some(cls, ways: int) -> int:
        if not 1 <= ways <= MOST_WAYS:
            refuse([Problem(str(ways), f"a number of columns from 1 to {MOST_WAYS}")])
        return ways

    @field_validator("of")
    @classmethod
    def _each_once(cls, of: tuple[str, ...] | None) -> tuple[str, ...] | None:
        twice = [place for place, name in enumerate(of or ()) if name in (of or ())[:place]]
        if of == ():
            refuse([Problem("an empty list", "at least one column", "name the columns, or drop `of:` to take all")])
        if of is not None and twice:
            refuse([Problem(f"{of[place]!r} twice", "each column once", "drop one", (place,)) for place in twice])
        return of

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Describe both written forms."""
        full = handler.resolve_ref_schema(handler(core))
        return {"title": "AllMarginals", "description": getdoc(cls), "anyOf": [_SCHEMA_OF_SHORT, full]}


def form_of(written: Any) -> str:
    """Say which form an entry of `tables:` has: one table, or all marginals of so many columns."""
    short = isinstance(written, str | AllMarginals) or (isinstance(written, dict) and {"all", "ways"} & set(written))
    return AllMarginals.union_tag if short else "a table"


def as_entries(written: Any) -> Any:
    """Read `tables: all 2-way` as a list of one."""
    return (written,) if isinstance(written, str) else as_tuple(written)


class ShortFormToo:
    """Says in the JSON Schema that the list may be written as one text."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Add the text to what the list is described by."""
        return {"anyOf": [handler(core), _SCHEMA_OF_SHORT]}


# --- The minimum-frequency rule of a spec.


SUPPRESSED: Final = "suppressed"
"""The column that marks suppressed cells."""
LARGEST_THRESHOLD: Final = 10**12
SMALLEST_CHANCE: Final = Decimal("1e-12")
_AUTO: Final = "auto"


def _parse_margin(written: object) -> int | str:
    """Read t: `auto`, or a whole number from 0."""
    return _AUTO if written == _AUTO else parse_whole(written)


Margin = Annotated[
    int | Literal["auto"],
    BeforeValidator(_parse_margin),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"const": _AUTO}]}),
]


class MinimumFrequency(Frozen):
    """A cell is published only if its noisy count is at least k + t.

    Args:
        k: the least exact count that the rule lets out.
        t: how much more the noisy count has to be; `auto` for the least that keeps to `at_most`.
        at_most: with `t: auto`, the largest probability with which a cell whose exact count is below k is published.
    """

    k: Whole
    t: Margin
    at_most: Amount | None = None

    @field_validator("k")
    @classmethod
    def _above_zero(cls, k: int) -> int:
        if not 1 <= k <= LARGEST_THRESHOLD:
            refuse([Problem(str(k), f"a whole number from 1 to {LARGEST_THRESHOLD}", "offices use 3 to 30")])
        return k

    @field_validator("t")
    @classmethod
    def _not_negative(cls, t: int | str) -> int | str:
        if isinstance(t, int) and not 0 <= t <= LARGEST_THRESHOLD:
            allowed = f"a whole number from 0 to {LARGEST_THRESHOLD}, or auto"
            refuse([Problem(str(t), allowed, "auto finds the least that keeps to `at_most`")])
        return t

    @field_validator("at_most")
    @classmethod
    def _a_probability(cls, at_most: Decimal | None) -> Decimal | None:
        if at_most is None:
            return None
        if not SMALLEST_CHANCE <= at_most < 1:
            allowed = f"a probability from {spelled(SMALLEST_CHANCE)} to below 1"
            refuse([Problem(spelled(at_most), allowed, "write 0.01 for one cell in a hundred")])
        return plain_decimal(at_most)

    def shared_by(self, draws: int) -> MinimumFrequency:
        """Return the rule on each of several draws of one cell: their chances together keep to `at_most`.

        Args:
            draws: how many there are, >= 1.
        """
        return self if self.at_most is None else self.model_copy(update={"at_most": self.at_most / draws})

    @model_validator(mode="after")
    def _one_way_to_the_margin(self) -> MinimumFrequency:
        if self.t == _AUTO and self.at_most is None:
            remedy = "add `at_most: 0.01`, or write t as a number"
            refuse([Problem("t: auto without `at_most`", "`at_most:` a probability", remedy)])
        if self.t != _AUTO and self.at_most is not None:
            remedy = "drop `at_most`: the record states the probability that follows from t"
            refuse([Problem("`at_most` beside a written t", "`at_most` with t: auto only", remedy, ("at_most",))])
        return self


CONSISTENT_METHODS: Final = ("none", "simplex")


TableForm = Literal["dense", "sparse"]
Objective = Literal["sum", "max"]


class TableSpec(Frozen):
    """One published table: the marginal of its columns, and the weight of its share of the budget.

    With a `hierarchy` coarser tables are measured and published too, and all add up. `form` says whether it has a
    value for every cell (dense) or lists those above a threshold (sparse); where nothing is said, the size of the
    domain decides.
    """

    union_tag: ClassVar[str] = "a table"

    columns: tuple[Label, ...]
    name: TableName
    weight: Weight = Decimal(1)
    hierarchy: Annotated[Hierarchy | None, WithJsonSchema(hierarchy_schema())] = None
    form: TableForm | None = None
    bins: TableBins = Field(default=(), exclude_if=lambda bins: not bins)

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
        if "name" not in written and isinstance(columns, list | tuple) and columns:
            return {**written, "name": "_x_".join(map(str, columns))}
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
        cliques: dict[tuple[frozenset[str], TableBins], int] = {}
        names = []
        for place, table in enumerate(tables):
            if isinstance(table, AllMarginals):
                continue
            first = cliques.setdefault((frozenset(table.columns), table.bins), place)
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
            check_residuals(
                self.mechanism, self.tables, consistent=self.refine.consistent, rule=self.minimum_frequency
            )
        elif self.objective == "max":
            found, remedy = f"objective max with split {self.split}", "add `split: residuals`, or drop the objective"
            refuse([Problem(found, "objective sum, or split residuals", remedy, ("objective",))])
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


# --- From the entries of `tables:` to the tables.


MOST_TABLES: Final = 4000
"""A Gaussian charge leaves room for the roundings of so many draws (`privacy.accounting.renyi.rho_for`)."""
MOST_BY_RESIDUALS: Final = 10_000
"""Tables that follow from one draw."""

Placed = tuple[int, TableSpec]


def expand(product: TablesProduct, columns: Sequence[str]) -> tuple[tuple[Placed, ...], list[Problem]]:
    """Write the tables of a product out.

    Args:
        product: the product.
        columns: names of the contract's columns, in its order.
    Returns:
        tuple: each table with the number of its entry, and what keeps an entry from being written out (`at` begins
        with the entry's number).
    """
    whole = (entry for entry in product.tables if isinstance(entry, TableSpec) and not entry.bins)
    taken = {frozenset(entry.columns) for entry in whole}
    placed: list[Placed] = []
    problems: list[Problem] = []
    most = MOST_BY_RESIDUALS if product.split == RESIDUALS else MOST_TABLES
    for place, entry in enumerate(product.tables):
        if isinstance(entry, TableSpec):
            placed.append((place, entry))
            continue
        wrong = _problems(entry, place, columns, most - len(placed), most)
        problems += wrong
        cliques = [] if wrong else list(combinations(entry.of or columns, entry.ways))
        fresh = [clique for clique in cliques if frozenset(clique) not in taken]
        taken.update(map(frozenset, fresh))
        unfit = [clique for clique in fresh if unfit_name("_x_".join(clique)) is not None]
        problems += [_unnamed(clique, place) for clique in unfit[:1]]
        placed += [(place, TableSpec(columns=c, name="_x_".join(c), weight=entry.weight)) for c in fresh if not unfit]
    return tuple(placed), problems + _clashes(placed)


def tables_of(product: TablesProduct, contract: Contract) -> tuple[TableSpec, ...]:
    """Return the tables of a product over a contract, every short form written out.

    Raises:
        SpecRefused: a short form cannot be written out over this contract.
    """
    pictures = contract.pictures()
    columns = [column.name for column in contract.columns if column.name not in pictures]
    placed, problems = expand(product, columns)
    if problems:
        raise SpecRefused([_finding(problem) for problem in problems])
    return tuple(table for _, table in placed)


def _finding(problem: Problem) -> Finding:
    at = ("product", "tables", *problem.at)
    return Finding("the release spec", dotted(at), problem.found, problem.allowed, problem.remedy)


def _problems(entry: AllMarginals, place: int, columns: Sequence[str], left: int, most: int) -> list[Problem]:
    """Say what keeps an entry from being written out."""
    unknown = [(spot, name) for spot, name in enumerate(entry.of or ()) if name not in columns]
    if unknown:
        return [
            Problem(f"the column {name!r}", word_list(columns), nearest(name, columns), (place, "of", spot))
            for spot, name in unknown
        ]
    choice = entry.of or tuple(columns)
    if entry.ways > len(choice):
        found, allowed = f"all {entry.ways}-way tables of {len(choice)} columns", f"at most {len(choice)}"
        return [Problem(found, allowed, "take fewer columns a table", (place,))]
    many = comb(len(choice), entry.ways)
    if many > left:
        found = f"{many} tables of {entry.ways} out of {len(choice)} columns"
        remedy = "choose columns by `of:`, or take fewer columns a table"
        return [Problem(found, f"at most {most} tables in a release", remedy, (place,))]
    return []


def _unnamed(clique: Sequence[str], place: int) -> Problem:
    """Ask for a name where the columns do not give one that a file can have."""
    found, allowed = f"the table of {', '.join(clique)}", str(unfit_name("_x_".join(clique)))
    return Problem(found, allowed, "list this table by itself with a `name:`; it names a file", (place,))


def _clashes(placed: Iterable[Placed]) -> list[Problem]:
    """Name the tables that would write the same file: `a_x_b` alone, and `a` by `b`."""
    first: dict[str, TableSpec] = {}
    problems = []
    for place, table in placed:
        other = first.setdefault(table.name.casefold(), table)
        if other is not table:
            found = f"the name {table.name!r} of {', '.join(other.columns)} again for {', '.join(table.columns)}"
            remedy = "list one of them by itself with another `name:`"
            problems.append(Problem(found, "each name once", remedy, (place,)))
    return problems


# --- Dense or sparse.


MOST_DENSE_CELLS: Final = 2**24
MOST_CODES: Final = 2**63 - 1
_SPARSE_METHODS: Final = "none, simplex, or negative_l2 with `lambda:`"


def form_of_table(table: TableSpec, product: TablesProduct, contract: Contract) -> TableForm:
    """Return the form of a table whose columns are in the contract."""
    if table.form is not None:
        return table.form
    large = contract.cells(table.columns) > MOST_DENSE_CELLS
    return "sparse" if large and not product.noise_is_gaussian else "dense"


def form_problems(table: TableSpec, product: TablesProduct, contract: Contract, at: FieldPath) -> list[Problem]:
    """List what speaks against a table's form, as problems inside the spec's product.

    Args:
        table: a table whose columns are in the contract.
        product: the product that it belongs to.
        contract: gives the sizes of the domains.
        at: the table's place in the product.
    """
    cells, form = contract.cells(table.columns), form_of_table(table, product, contract)
    size = f"{' x '.join(map(str, contract.shape(table.columns)))} = {cells} cells"
    fewer = "take fewer columns, or coarser bins"
    if cells > MOST_CODES:
        found = f"{' x '.join(table.columns)}: {size}"
        return [Problem(found, f"at most {MOST_CODES} cells (2^63 - 1)", fewer, at)]
    if form == "dense" and cells > MOST_DENSE_CELLS:
        written = " with form: dense" if table.form else ""
        sparse = "drop `form: dense`" if product.mechanism != "gaussian" else "choose mechanism: laplace"
        remedy = f"{fewer}; or {sparse}: then the table lists the cells above a threshold"
        return [Problem(size + written, f"at most {MOST_DENSE_CELLS} cells for a dense table", remedy, at)]
    if form == "dense":
        return []
    problems = []
    if product.mechanism == "gaussian":
        found = "form: sparse with mechanism gaussian"
        remedy = "choose mechanism: laplace, or drop `form: sparse`"
        problems.append(Problem(found, "laplace: sparse noise is discrete Laplace", remedy, (*at, "form")))
    if table.hierarchy is not None:
        found = f"a hierarchy on table {table.name!r}, which is sparse ({size})"
        problems.append(
            Problem(found, "a hierarchy on dense tables only", f"drop it, or {fewer}", (*at, "hierarchy"))
        )
    if product.minimum_frequency is not None:
        found = f"`minimum_frequency` for table {table.name!r}, which is sparse ({size})"
        remedy = f"{fewer}; or drop it: a sparse table lists the cells above a threshold of its own"
        problems.append(Problem(found, "the rule for dense tables only", remedy, ("minimum_frequency",)))
    if table.hierarchy is None and not _lists(product.refine):
        asked, field = _unsupported_refinement(product.refine)
        found = f"{asked} for table {table.name!r}, which is sparse ({size})"
        remedy = "refine by negative_l2 with `lambda: auto`, or release the table in a spec of its own"
        allowed = f"for a sparse table {_SPARSE_METHODS} {AUTO} or a number, by itself"
        problems.append(Problem(found, allowed, remedy, ("refine", field)))
    return problems


def _lists(refine: Refine) -> bool:
    """Say whether a refinement needs the listed cells alone."""
    alone = refine.sparsity is None and not refine.consistent and not isinstance(refine.lambda_, LambdaReference)
    return alone and refine.method in ("none", "simplex", "negative_l2")


def _unsupported_refinement(refine: Refine) -> tuple[str, str]:
    """Name what a sparse table cannot be refined by, and its key."""
    if refine.consistent:
        return "`consistent`", "consistent"
    if isinstance(refine.lambda_, LambdaReference):
        return "lambda by `reference`", "lambda"
    return ("sparsity", "sparsity") if refine.sparsity is not None else (f"method {refine.method}", "method")


def measurement_marks(cells: int, threshold: int) -> dict[str, str]:
    """Say in a file of sparse measurements what the cells are that it does not list."""
    return {
        "sudare_form": "sparse",
        "sudare_cells": str(cells),
        "sudare_threshold": str(threshold),
        "sudare_absent": f"the noisy count of a cell that is not listed is below {threshold}",
    }


def data_marks(cells: int) -> dict[str, str]:
    """Say in a file of a refined sparse table what the cells are that it does not list."""
    absent = "the refined count of a cell that is not listed is 0"
    return {"sudare_form": "sparse", "sudare_cells": str(cells), "sudare_absent": absent}


# --- `split.


MOST_COLUMNS: Final = 12
"""A table of so many columns has 4,096 residuals."""
NOISES: Final = ("auto", "gaussian")
"""Mechanisms whose noise may be Gaussian."""


def check_residuals(mechanism: str, tables: Sequence[object], *, consistent: bool, rule: object | None) -> None:
    """Refuse what does not go with `split: residuals`.

    Noise is Gaussian: the least error is known for it alone. Every table is of the contract's own cells, since
    residuals are of one domain. Tables agree by themselves. No count is suppressed, since residuals would tell it.

    Args:
        mechanism: of the product.
        tables: its entries.
        consistent: whether tables are refined together.
        rule: the minimum-frequency rule, if there is one.
    Raises:
        PydanticCustomError: with every problem.
    """
    problems = []
    if mechanism not in NOISES:
        found, remedy = f"split residuals with mechanism {mechanism}", "write `mechanism: auto`, or another split"
        problems.append(Problem(found, " or ".join(NOISES), remedy, ("mechanism",)))
    if rule is not None:
        found, remedy = "`minimum_frequency` with split residuals", "choose `split: optimal`, or drop the rule"
        problems.append(
            Problem(found, "another split: residuals tell of small counts", remedy, ("minimum_frequency",))
        )
    if consistent:
        found, remedy = (
            "`consistent: true` with split residuals",
            "drop it: these tables agree before they are refined",
        )
        problems.append(Problem(found, "tables that are refined one by one", remedy, ("refine", "consistent")))
    for place, table in enumerate(tables):
        problems += _table_problems(table, place)
    if problems:
        refuse(problems)


def _table_problems(table: object, place: int) -> list[Problem]:
    """Return what one entry has that does not go with residuals."""
    given = [name for name in ("hierarchy", "bins") if getattr(table, name, None)]
    given += ["form"] if getattr(table, "form", None) == "sparse" else []
    problems = [
        Problem(
            f"`{name}` with split residuals",
            "whole tables of the contract's cells",
            "publish that table in a release of its own, or choose `split: optimal`",
            ("tables", place, name),
        )
        for name in given
    ]
    columns = getattr(table, "ways", None) or len(getattr(table, "columns", ()))
    if columns > MOST_COLUMNS:
        found, remedy = f"a table of {columns} columns with split residuals", "choose `split: optimal`"
        problems.append(Problem(found, f"at most {MOST_COLUMNS} columns", remedy, ("tables", place)))
    return problems
