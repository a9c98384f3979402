"""A release of synthetic rows: which generator makes them, from which columns, and how many."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, reduce
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, WithJsonSchema, field_validator, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

from contracts.contract.contract import Contract
from contracts.contract.decoding import too_fine
from contracts.domains.domain import Frozen
from contracts.domains.lattice import ValueLattice
from contracts.domains.trees import FEWEST_JOINED, BinTree, bin_tree
from contracts.errors import Finding
from contracts.plug_ins import load_place
from contracts.reading.scalars import Amount, FieldPath, Label, Problem, nearest, parse_whole, refuse, show, word_list
from contracts.release.copies import CopyCount
from contracts.release.product import (
    ALL,
    MOST_ROWS,
    ColumnChoice,
    ProductSpec,
    SyntheticModifier,
    chosen,
    distinct_columns,
)

# --- The table of modifiers of synthetic rows.


ModifierPart = Literal["fit", "record", "checks", "evaluation", "view"]
Use = Literal["sample", "interval", "holdout"]


@dataclass(frozen=True)
class ModifierParts:
    """Where the parts of a modifier stand, each as `module:name`; None where it has none.

    Args:
        spec: what a product asks for, a `SyntheticModifier` (`contracts.release.product`).
        fit: what it asks of the fit, a `FitModifier` (`privacy.generators.calibration`).
        record: what the record, its page and its files have of it, a `RecordModifier`
            (`tasks.records.modifiers.record_modifier`).
        checks: what a verification asks of it, `ModifierChecks` (`tasks.verification.fitted.modifier_checks`).
        evaluation: how its rows are compared with real ones, where that is another way, a `ModifierEvaluation`
            (`flows.evaluation.evaluate`).
        view: what the console shows of it, a `ModifierView` (`console.products.synthetic`).
        model: the kind of model that it makes of the generator's, and the function that reads such a model back.
        replay: the keys that lead to what the replay block of a record states of it; none where it states nothing.
    """

    spec: str
    fit: str | None = None
    record: str | None = None
    checks: str | None = None
    evaluation: str | None = None
    view: str | None = None
    model: tuple[str, str] | None = None
    replay: tuple[str, ...] = ()


MODIFIERS: Final = {
    "inside_bins": ModifierParts(
        spec="contracts.release.synthetic:InsideModifier",
        fit="privacy.generators.inside_bins:InsideFit",
        record="tasks.records.modifiers.linked_record:InsideRecord",
        checks="tasks.products.synthetic.inside_checks:InsideChecks",
        view="console.products.synthetic:InsideView",
        model=("filled", "privacy.generators.inside_bins:read_filled"),
    ),
    "bins": ModifierParts(spec="contracts.release.synthetic:JoinedBinsModifier"),
    "linked_tables": ModifierParts(
        spec="contracts.release.linked_rows:LinkedTablesModifier",
        record="tasks.records.modifiers.linked_record:LinkedRecord",
        checks="tasks.products.synthetic.link_checks:LinkChecks",
        evaluation="flows.evaluation.evaluate:LinkedEvaluation",
        view="console.products.synthetic:LinkedTablesView",
        model=("linked", "privacy.generators.linked_tables:read_linked"),
        replay=("rows", "parents"),
    ),
    "copies": ModifierParts(
        spec="contracts.release.copies:CopiesModifier",
        fit="privacy.generators.copies:CopiesFit",
        record="tasks.records.modifiers.copies_record:CopiesRecord",
        checks="tasks.products.synthetic.copies_checks:CopiesChecks",
        view="console.products.synthetic:CopiesView",
        model=("copied", "privacy.generators.copied_model:read_copied"),
        replay=("copies",),
    ),
}
"""By the key of the product, or the generator, that asks for it. Findings and lines come in this order."""


@dataclass(frozen=True)
class Exclusion:
    """Two modifiers that no product may ask for together.

    Args:
        modifier: one of them, whose key the finding names.
        beside: the other.
        found: what is found; `{product.copies}` stands for what the product has there.
        allowed: what is allowed.
        remedy: what to do.
        at: the place of the finding in the product.
    """

    modifier: str
    beside: str
    found: str
    allowed: str
    remedy: str
    at: FieldPath

    def problem(self, product: Any) -> Problem:
        """Return what is wrong with a product that asks for both."""
        return Problem(self.found.format(product=product), self.allowed, self.remedy)


EXCLUSIONS: Final = (
    Exclusion(
        "linked_tables",
        beside="inside_bins",
        found="inside_bins beside linked_tables",
        allowed="one of the two",
        remedy="drop the key; values of a bin are equally likely then",
        at=("inside_bins",),
    ),
    Exclusion(
        "copies",
        beside="inside_bins",
        found="copies: {product.copies} beside counts inside bins, which would be the same in all copies",
        allowed="copies whose bins are filled uniformly",
        remedy="drop `copies:`, or `inside_bins:`",
        at=("copies",),
    ),
)
"""What excludes what. A generator may be one that a modifier cannot go with too: that its `fit` part says."""


@dataclass(frozen=True)
class Unusable:
    """What a version with a modifier cannot be used for.

    Args:
        modifier: the modifier.
        use: `sample`, further rows; `interval`, estimates with intervals; `holdout`, a comparison with public rows.
        found, allowed, remedy: of the finding.
    """

    modifier: str
    use: Use
    found: str
    allowed: str
    remedy: str


UNUSABLE: Final = (
    Unusable(
        "linked_tables",
        use="sample",
        found="a version of two linked tables, whose rows belong together by keys",
        allowed="a version of one table",
        remedy="select from the published rows: keep the children whose key is among the parents that you keep",
    ),
    Unusable(
        "linked_tables",
        use="interval",
        found="a version of two linked tables",
        allowed="a version of one table",
        remedy="name another version",
    ),
    Unusable(
        "linked_tables",
        use="holdout",
        found="a version of two linked tables",
        allowed="a version of one table: public rows are one file",
        remedy="sudare evaluate compares both tables with the confidential ones, privately",
    ),
)


@cache
def spec_modifiers() -> dict[str, SyntheticModifier]:
    """Return the spec part of each modifier by its name, in the order of the table."""
    return {name: load_place(parts.spec)() for name, parts in MODIFIERS.items()}


def asked_modifiers(product: Any) -> tuple[str, ...]:
    """Return the modifiers that a product of synthetic rows asks for, in the order of the table.

    Args:
        product: a `SyntheticProduct`; of any other kind none is asked for.
    """
    if getattr(product, "kind", None) != "synthetic":
        return ()
    return tuple(name for name, modifier in spec_modifiers().items() if modifier.asked(product))


def modifier_parts(product: Any, part: ModifierPart) -> Iterator[tuple[str, Any]]:
    """Yield the name and a part of each modifier that a product asks for; as `named_parts`."""
    return named_parts(asked_modifiers(product), part)


def named_parts(names: Collection[str], part: ModifierPart) -> Iterator[tuple[str, Any]]:
    """Yield the name and a part of each modifier of these names that has it; only its own modules are loaded."""
    for name, places in MODIFIERS.items():
        place = getattr(places, part) if name in names else None
        if place is not None:
            yield name, load_place(place)()


def stated_modifiers(replay: object) -> frozenset[str]:
    """Return the modifiers of which the replay block of a record states something."""
    found = {name: reduce(getattr, parts.replay, replay) for name, parts in MODIFIERS.items() if parts.replay}
    return frozenset(name for name, stated in found.items() if stated)


def modifiers_of_model(kind: str) -> frozenset[str]:
    """Return the modifier that makes models of that kind, if one does."""
    return frozenset(name for name, parts in MODIFIERS.items() if parts.model is not None and parts.model[0] == kind)


def contradiction_of(product: Any) -> Problem | None:
    """Say why a product cannot be read: a modifier that contradicts itself."""
    asked = asked_modifiers(product)
    found = (modifier.contradiction(product) for name, modifier in spec_modifiers().items() if name in asked)
    return next((problem for problem in found if problem is not None), None)


def modifier_problems(
    product: Any, names: tuple[str, ...], contract: Contract
) -> Iterator[tuple[FieldPath, Problem]]:
    """Yield what of the modifiers excludes each other or does not fit the contract, with its place in the product.

    Args:
        product: the product.
        names: its columns; none where some of them are unknown.
        contract: its contract.
    """
    asked = asked_modifiers(product)
    for name, modifier in spec_modifiers().items():
        for each in EXCLUSIONS:
            if each.modifier == name and {name, each.beside} <= set(asked):
                yield each.at, each.problem(product)
        yield from modifier.problems(product, names, contract)


def idle_options(product: Any) -> Iterator[tuple[FieldPath, Problem]]:
    """Yield what of the modifiers is written in a spec and does nothing, with its place in the product."""
    for modifier in spec_modifiers().values():
        yield from modifier.idle_options(product)


def unusable(product: Any, use: Use, *, where: str, field: str) -> list[Finding]:
    """Say why a version of a product cannot be used for something; nothing where it can.

    Args:
        product: the product.
        use: for what.
        where, field: of the findings.
    """
    asked = asked_modifiers(product)
    return [
        Finding(where, field, each.found, each.allowed, each.remedy)
        for each in UNUSABLE
        if each.use == use and each.modifier in asked
    ]


# --- How synthetic values lie inside the bins of their columns.


UNIFORM: Final = "uniform"
MEASURED: Final = "measured"
USUAL_SHARE: Final = Decimal("0.1")
JOINED_SHARE: Final = Decimal("0.2")
"""What is usual with joined bins: the generator counts the fewer cells the better its bins are known."""
MOST_SHARE: Final = Decimal("0.9")
MOST_JOINABLE: Final = 256
"""Declared bins of a column that may be joined: marginals of three such columns are still counted in memory."""
_BINNED: Final = "a column of numbers or days in bins"
_FORMS: Final = f"{UNIFORM}, {MEASURED}, or {{share: {USUAL_SHARE}, columns: [...]}}"


def _parse_joined(written: object) -> object:
    """Read the one word; what says how much is counted, and of which columns, is a key beside it."""
    if written is None or isinstance(written, str):
        return written
    refuse([Problem(show(written), "private", "write `bins: private`, and share and columns under `inside_bins:`")])


PrivateBins = Annotated[Literal["private"] | None, BeforeValidator(_parse_joined)]


class InsideSpec(Frozen):
    """How values lie inside bins.

    Args:
        method: `uniform`, or `measured` by a charged histogram.
        share: of the charge that is measured with, for all columns together, above 0 and at most 0.9.
        columns: whose bins are measured; `all` whose bins hold several values.
    """

    method: Literal["uniform", "measured"] = MEASURED
    share: Amount = USUAL_SHARE
    columns: ColumnChoice = ALL

    @model_validator(mode="before")
    @classmethod
    def _from_word(cls, written: Any) -> Any:
        """Read the two words, or a mapping."""
        if isinstance(written, dict | InsideSpec):
            return written
        if written in (UNIFORM, MEASURED):
            return {"method": written}
        refuse([Problem(show(written), _FORMS, nearest(str(written), [UNIFORM, MEASURED]))])

    @field_validator("share")
    @classmethod
    def _part_of_the_charge(cls, share: Decimal) -> Decimal:
        if not 0 < share <= MOST_SHARE:
            remedy = f"write {USUAL_SHARE}, or `inside_bins: {UNIFORM}` to spend nothing on it"
            refuse([Problem(str(share), f"a share of the charge above 0, at most {MOST_SHARE}", remedy)])
        return share

    @field_validator("columns")
    @classmethod
    def _some(cls, columns: str | tuple[str, ...]) -> str | tuple[str, ...]:
        return distinct_columns(columns, least="at least one column")

    @property
    def idle(self) -> Problem | None:
        """What is written beside values that are drawn uniformly."""
        written = [name for name, usual in (("share", USUAL_SHARE), ("columns", ALL)) if getattr(self, name) != usual]
        if self.method != UNIFORM or not written:
            return None
        found = f"{' and '.join(written)} beside method: {UNIFORM}, which measures nothing"
        remedy = f"drop {' and '.join(written)}, or write method: {MEASURED}"
        return Problem(found, f"method: {UNIFORM} alone, or method: {MEASURED}", remedy)

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Describe both forms: a word, or a mapping."""
        return {"anyOf": [{"enum": [UNIFORM, MEASURED]}, handler(core)]}


def bin_trees(
    measured: InsideSpec, names: tuple[str, ...], contract: Contract, *, joins: bool = False
) -> tuple[BinTree, ...]:
    """Return the tree of counts of each column whose bins are looked into, in the contract's order.

    Args:
        measured: what the product asks for.
        names: the product's columns, in the contract's order.
        contract: gives their domains.
        joins: whether bins may be joined (`contracts.domains.trees`).
    Privacy: reads the contract alone.
    """
    rows, wanted = contract.unit.max_rows_per_unit, measured.columns
    columns = (contract.column(name) for name in names if wanted == ALL or name in wanted)
    found = (bin_tree(each.name, each.domain, rows, joins=joins) for each in columns if each.length == 1)
    return tuple(tree for tree in found if tree is not None)


def inside_problems(
    measured: InsideSpec, names: tuple[str, ...], contract: Contract, *, joins: bool = False
) -> Iterator[tuple[FieldPath, Problem]]:
    """Yield what does not fit the contract: columns that are not there, or bins that cannot be measured or joined."""
    trees = {tree.column for tree in bin_trees(measured, names, contract, joins=joins)}
    wanted = f"{FEWEST_JOINED} bins of numbers or days or more" if joins else "bins of several numbers or days"
    for place, name in enumerate(() if measured.columns == ALL else measured.columns):
        if name not in names:
            yield ("columns", place), Problem(f"the column {name!r}", word_list(names), nearest(name, names))
        elif name not in trees:
            yield ("columns", place), Problem(f"the column {name!r}, which has no {wanted}", _BINNED, "drop it")
    many = [name for name in sorted(trees) if joins and len(contract.column(name).domain.axis) > MOST_JOINABLE]
    for name in many:
        found, allowed = f"{len(contract.column(name).domain.axis)} bins of {name!r}", f"at most {MOST_JOINABLE}"
        remedy = "declare wider bins in the contract: where values lie inside a bin is counted too"
        yield (), Problem(found, allowed, f"{remedy}; or list other columns in `inside_bins:`")
    if not trees and measured.columns == ALL:
        remedy = "drop the key" if joins else f"write `inside_bins: {UNIFORM}`, or drop the key"
        yield (), Problem(f"no column with {wanted}", "at least one such column", remedy)


class InsideModifier(SyntheticModifier):
    """Counts inside bins; `bins: private` takes them too."""

    def asked(self, product: Any) -> bool:
        """Say whether anything is measured inside bins."""
        return product.measured_inside is not None

    def problems(
        self, product: Any, names: tuple[str, ...], contract: Contract
    ) -> Iterator[tuple[FieldPath, Problem]]:
        """Yield columns that are not there, and bins that cannot be measured or joined."""
        if product.measured_inside is None or not names:
            return
        where = "bins" if product.inside_bins is None else "inside_bins"
        for at, problem in inside_problems(product.measured_inside, names, contract, joins=product.bins is not None):
            yield (where, *at), problem

    def idle_options(self, product: Any) -> Iterator[tuple[FieldPath, Problem]]:
        """Yield a share or columns beside values that are drawn uniformly."""
        idle = None if product.inside_bins is None else product.inside_bins.idle
        if idle is not None:
            yield ("inside_bins",), idle

    def lattices(self, product: Any, contract: Contract) -> tuple[ValueLattice, ...]:
        """Return the lattices of the trees of counts."""
        return tuple(tree.lattice for tree in product.trees(contract))


def with_joined_share(written: dict[str, Any]) -> dict[str, Any]:
    """Read `inside_bins` beside `bins`, without a share, as one with the share that is usual with joined bins."""
    inside = {} if written.get("inside_bins") == MEASURED else written.get("inside_bins")
    if written.get("bins") is None or not isinstance(inside, dict) or "share" in inside:
        return written
    if inside.get("method") == UNIFORM:
        return written  # `contradiction` refuses the two
    return {**written, "inside_bins": {**inside, "share": str(JOINED_SHARE)}}


class JoinedBinsModifier(SyntheticModifier):
    """Neighbouring bins that are joined before the generator counts them."""

    def asked(self, product: Any) -> bool:
        """Say whether bins are joined."""
        return product.bins is not None

    def contradiction(self, product: Any) -> Problem | None:
        """Refuse joined bins of values that are drawn uniformly."""
        if product.inside_bins is None or product.inside_bins.method != UNIFORM:
            return None
        allowed = f"`inside_bins: {MEASURED}` or a mapping: the same counts say which bins are joined"
        return Problem(f"inside_bins: {UNIFORM} beside bins: private", allowed, "drop one of the two", ("bins",))


ESTIMATED: Final = "estimated"
MOST_CELLS: Final = 2**24
MEASURED_COLUMNS: Final = frozenset({"noisy", "variance", "lower", "upper", "structural_zero"})
_ROWS = f"{ESTIMATED}, or a whole number from 1 to {MOST_ROWS}"
_ROWS_REMEDY: Final = f"write `rows: {ESTIMATED}`, or how many rows to make"


def _parse_rows(written: object) -> int | str:
    """Read `estimated`, or a number of rows."""
    if written == ESTIMATED:
        return ESTIMATED
    try:
        rows = parse_whole(written)
    except PydanticCustomError:
        refuse([Problem(show(written), _ROWS, nearest(str(written), [ESTIMATED]) or _ROWS_REMEDY)])
    if not 1 <= rows <= MOST_ROWS:
        refuse([Problem(str(rows), _ROWS, _ROWS_REMEDY)])
    return rows


RowCount = Annotated[
    int | Literal["estimated"],
    BeforeValidator(_parse_rows),
    WithJsonSchema({"anyOf": [{"const": ESTIMATED}, {"type": "integer", "minimum": 1, "maximum": MOST_ROWS}]}),
]


class SyntheticProduct(ProductSpec):
    """Synthetic rows, sampled from a model that is fitted to noisy marginals.

    `columns` are all of the contract, or those that are listed; they stand in the contract's order. `options` are the
    generator's own. `rows` is the estimated number (the public one, where the contract declares it), or a number that
    is written here and says nothing about the data. `inside_bins` says how values lie inside the bins of numbers:
    uniformly, or as a charged histogram says; without the key uniformly. With `bins: private` that histogram also
    says which neighbouring bins are joined before the generator counts them. `copies` are further tables,
    each of a model of its own.
    """

    reads_rows: ClassVar[bool] = False

    kind: Literal["synthetic"]
    generator: Label
    columns: ColumnChoice = ALL
    options: dict[str, Any] = Field(default_factory=dict)
    rows: RowCount = ESTIMATED
    inside_bins: InsideSpec | None = Field(default=None, exclude_if=lambda written: written is None)
    copies: CopyCount | None = Field(default=None, exclude_if=lambda written: written is None)
    bins: PrivateBins = Field(default=None, exclude_if=lambda written: written is None)

    @model_validator(mode="before")
    @classmethod
    def _as_read(cls, written: Any) -> Any:
        """Read what is usual with joined bins."""
        return with_joined_share(written) if isinstance(written, dict) else written

    @model_validator(mode="after")
    def _without_contradiction(self) -> SyntheticProduct:
        pass

        problem = contradiction_of(self)
        if problem is not None:
            refuse([problem])
        return self

    @field_validator("columns")
    @classmethod
    def _each_once(cls, columns: str | tuple[str, ...]) -> str | tuple[str, ...]:
        return distinct_columns(columns, least="at least one column")

    def _asked(self) -> tuple[SyntheticModifier, ...]:
        pass

        return tuple(spec_modifiers()[name] for name in asked_modifiers(self))

    @property
    def rows_about(self) -> object:
        """About how many rows there are, where an option declares it."""
        return self.options.get("rows_about")

    @property
    def counts_parents(self) -> bool:
        """Whether a modifier counts the rows of the base's parent table."""
        return any(modifier.counts_parents for modifier in self._asked())

    def names(self, contract: Contract) -> tuple[str, ...]:
        """Return the columns that are synthesized, in the contract's order."""
        return chosen(self.columns, contract)

    @property
    def measured_inside(self) -> InsideSpec | None:
        """What is measured inside bins; None where values are drawn uniformly."""
        inside = InsideSpec(share=JOINED_SHARE) if self.inside_bins is None and self.bins else self.inside_bins
        return inside if inside is not None and inside.method == MEASURED else None

    @property
    def resolved(self) -> SyntheticProduct:
        """The product with what is measured inside bins, where `bins` alone says that it is."""
        return self.model_copy(update={"inside_bins": self.measured_inside}) if self.inside_bins is None else self

    def trees(self, contract: Contract) -> tuple[BinTree, ...]:
        """Return the trees of counts inside bins, in the contract's order; none where values are drawn uniformly."""
        measured = self.measured_inside
        joins = self.bins is not None
        return () if measured is None else bin_trees(measured, self.names(contract), contract, joins=joins)

    def lattices(self, contract: Contract) -> tuple[ValueLattice, ...]:
        """Return the lattices of what its modifiers count."""
        return tuple(lattice for modifier in self._asked() for lattice in modifier.lattices(self, contract))


def synthetic_problems(product: SyntheticProduct, contract: Contract) -> Iterator[tuple[FieldPath, Problem]]:
    """Yield what in a synthetic product does not fit its contract, with its place in the product."""
    pass

    known = [column.name for column in contract.columns]
    unknown = [] if product.columns == ALL else [c for c in enumerate(product.columns) if c[1] not in known]
    for place, name in unknown:
        remedy = nearest(name, known)
        if name == contract.unit.column:
            remedy = "drop it: it is the privacy unit's id, which is never published"
        yield ("columns", place), Problem(f"the column {name!r}", word_list(known), remedy)
    names = product.names(contract)
    for name in names:
        if name.lower() in MEASURED_COLUMNS:
            allowed = "a column not named " + ", ".join(sorted(MEASURED_COLUMNS))
            remedy = "rename it in the contract, and in the source by a select"
            yield ("columns",), Problem(f"the column {name!r}", allowed, remedy)
        if too_fine(contract.column(name)):
            allowed = "bounds and edges whose digits, decimals included, are at most 15"
            remedy = "write coarser edges, or rescale the column in `select:`"
            yield ("columns",), Problem(f"the column {name!r}, too fine for a double", allowed, remedy)
    yield from modifier_problems(product, () if unknown else names, contract)
    if names and not unknown:
        yield from _impossible(names, contract)


def _impossible(names: tuple[str, ...], contract: Contract) -> Iterator[tuple[FieldPath, Problem]]:
    """Say that structural zeros and constraints leave no row, or stand on too many cells."""
    from contracts.contract.impossible_cells import some_row_possible

    cliques = contract.zero_cliques(names)
    large = next((clique for clique in cliques if contract.cells(clique) > MOST_CELLS), None)
    if large is not None:
        found = f"{contract.cells(large)} cells of {', '.join(large)}, on which the contract excludes some"
        yield ("columns",), Problem(found, f"at most {MOST_CELLS}", "drop a column, or take coarser bins")
        return
    sizes = {name: contract.column(name).size for name in names}
    if some_row_possible(sizes, {clique: contract.impossible(clique) for clique in cliques}) is False:
        found = "structural zeros and constraints that together leave no possible row"
        yield ("columns",), Problem(found, "a contract that some row satisfies", "mend the contract's constraints")
