"""A release of synthetic rows: which generator makes them, from which columns, and how many."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, field_validator, model_validator
from pydantic_core import PydanticCustomError

from contracts.contract.contract import Contract
from contracts.contract.decoding import too_fine
from contracts.domains.value_bins import BinTree
from contracts.domains.value_lattices import ValueLattice
from contracts.reading.scalars import (
    FieldPath,
    Label,
    Problem,
    nearest,
    parse_whole,
    refuse,
    show,
    word_list,
)
from contracts.release.column_choice import ALL, ColumnChoice, chosen, distinct_columns
from contracts.release.copies import CopyCount
from contracts.release.inside_bins import (
    JOINED_SHARE,
    MEASURED,
    InsideSpec,
    PrivateBins,
    bin_trees,
    with_joined_share,
)
from contracts.release.product_spec import MOST_ROWS, ProductSpec, SyntheticModifier

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
        from contracts.release.synthetic_modifiers import contradiction_of

        problem = contradiction_of(self)
        if problem is not None:
            refuse([problem])
        return self

    @field_validator("columns")
    @classmethod
    def _each_once(cls, columns: str | tuple[str, ...]) -> str | tuple[str, ...]:
        return distinct_columns(columns, least="at least one column")

    def _asked(self) -> tuple[SyntheticModifier, ...]:
        """Return the modifiers that it asks for."""
        from contracts.release.synthetic_modifiers import asked_modifiers, spec_modifiers

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
    from contracts.release.synthetic_modifiers import modifier_problems

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
