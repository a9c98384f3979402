"""How synthetic values lie inside the bins of their columns: uniformly, or as a charged histogram says.

inside_bins: uniform                                every value of a bin is equally likely
inside_bins: measured                               a tenth of the charge counts rows inside bins
inside_bins: {share: 0.2, columns: [age, income]}   a fifth of it, for these columns
bins: private                                       a fifth of it, which also says which bins are joined
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BeforeValidator, GetJsonSchemaHandler, field_validator, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from contracts.domains.domain_terms import Frozen
from contracts.domains.value_bins import FEWEST_JOINED, BinTree, bin_tree
from contracts.reading.scalars import Amount, FieldPath, Problem, nearest, refuse, show, word_list
from contracts.release.column_choice import ALL, ColumnChoice, distinct_columns
from contracts.release.product_spec import SyntheticModifier

if TYPE_CHECKING:
    from contracts.contract.contract import Contract
    from contracts.domains.value_lattices import ValueLattice

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
        joins: whether bins may be joined (`contracts.domains.value_bins`).
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
