"""Synthetic rows that are published only if they are accepted: which candidates, in which order, by which criteria.

A criterion is one of a closed list. Each is a number that the grant computes from exact marginals and from what a
candidate's model says of them, with a sensitivity that follows from the criterion alone. None names code or rows.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import combinations
from math import comb, floor, prod
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, ValidationError, field_validator, model_validator

from contracts.contract.contract import Contract
from contracts.domains.domain_terms import Frozen
from contracts.reading.scalars import (
    Amount,
    FieldPath,
    Flag,
    Label,
    Problem,
    Text,
    Whole,
    as_tuple,
    nearest,
    plain_decimal,
    refuse,
    show,
    spelled,
    word_list,
)
from contracts.release.product_spec import SyntheticModifier

if TYPE_CHECKING:
    from contracts.contract.impossible_cells import Clique

FIRST_ACCEPTED: Final = "first_accepted"
"""The generator that tries candidates in order and gives the first that meets all criteria."""
MOST_CANDIDATES: Final = 20
MOST_CRITERIA: Final = 50
MOST_TESTED_CELLS: Final = 2**22
"""Cells of all marginals of a criterion together."""
_FRACTION: Final = re.compile(r"0?\.\d+")
_MOST_MARGINALS: Final = 5_000
_MOST_ROWS: Final = 10**9

MarginalList = Annotated[
    tuple[Annotated[tuple[Label, ...], BeforeValidator(as_tuple)], ...], BeforeValidator(as_tuple)
]


def _share(name: str, amount: Decimal) -> Decimal:
    """Refuse what lies not between 0 and 1."""
    if not 0 < amount < 1:
        refuse([Problem(spelled(amount), f"{name}, above 0 and below 1", "write a share of the whole, such as 0.05")])
    return plain_decimal(amount)


class _MarginalCriterion(Frozen, ABC):
    """The total variation distance of marginals: half the L1 distance of counts, as a share of the model's rows.

    Args:
        marginals: the sets of columns.
        ways: instead of them: all sets of so many columns.
        at_most: the largest distance that is good enough [share of the rows].
    """

    marginals: MarginalList | None = None
    ways: Whole | None = None
    at_most: Amount

    @field_validator("at_most")
    @classmethod
    def _a_distance(cls, at_most: Decimal) -> Decimal:
        return _share("a total variation distance", at_most)

    @model_validator(mode="after")
    def _some_marginals(self) -> _MarginalCriterion:
        if (self.marginals is None) == (self.ways is None):
            none = self.ways is None
            found = "neither marginals nor ways" if none else "marginals and ways"
            remedy = "write `ways: 2`" if none else "drop one of the two"
            refuse([Problem(found, "one of them: lists of columns, or a number of columns", remedy)])
        if self.marginals is not None and not self.marginals:
            refuse(
                [Problem("an empty list", "at least one list of columns", "write `ways: 2` instead", ("marginals",))]
            )
        if self.ways is not None and self.ways < 1:
            refuse([Problem(str(self.ways), "a number of columns, from 1", "write `ways: 2`", ("ways",))])
        return self

    def cliques(self, columns: Sequence[str]) -> tuple[Clique, ...]:
        """Return the marginals, each in the product's order of columns.

        Args:
            columns: those of the product, in order.
        """
        if self.marginals is None:
            return tuple(combinations(columns, min(self.ways or 1, len(columns))))
        return tuple(tuple(name for name in columns if name in clique) for clique in self.marginals)

    def largest(self, rows: int, marginals: int) -> int:
        """Return the largest L1 distance that is good enough [rows].

        Args:
            rows: of the candidate's model.
            marginals: how many there are.
        """
        return floor(2 * Fraction(self.at_most) * rows * self.parts(marginals))

    @abstractmethod
    def parts(self, marginals: int) -> int:
        """Return how many distances are added up."""


class WorstMarginal(_MarginalCriterion):
    """The distance of the marginal that is farthest off."""

    kind: Literal["worst_marginal"]

    def parts(self, marginals: int) -> int:
        """Return one: it is the largest distance."""
        return 1


class MeanMarginal(_MarginalCriterion):
    """The mean of the distances."""

    kind: Literal["mean_marginal"]

    def parts(self, marginals: int) -> int:
        """Return all: their sum is held against the bound, times their number."""
        return marginals


class CellCriterion(Frozen):
    """The error of the count that is farthest off, among named cells.

    Args:
        cells: each a mapping from columns to labels.
        at_most: the largest error that is good enough [rows].
    """

    kind: Literal["worst_cell"]
    cells: Annotated[tuple[dict[Label, Text], ...], BeforeValidator(as_tuple)]
    at_most: Whole

    @field_validator("at_most", mode="before")
    @classmethod
    def _rows(cls, at_most: object) -> object:
        if isinstance(at_most, float | Decimal | str) and _FRACTION.fullmatch(str(at_most).strip()):
            remedy = "write how many rows; shares are for worst_marginal and mean_marginal"
            refuse([Problem(show(at_most), "a number of rows, such as 400", remedy)])
        return at_most

    @model_validator(mode="after")
    def _some_cells(self) -> CellCriterion:
        empty = [place for place, cell in enumerate(self.cells) if not cell]
        if not self.cells:
            refuse([Problem("an empty list", "at least one cell", "write one: {column: label}", ("cells",))])
        if empty:
            found, allowed = "a cell without columns", "a label for each of some columns"
            refuse([Problem(found, allowed, "write {column: label}", ("cells", empty[0]))])
        if not 1 <= self.at_most <= _MOST_ROWS:
            allowed = f"a number of rows from 1 to {_MOST_ROWS}"
            refuse([Problem(str(self.at_most), allowed, "write how many rows a cell may be off", ("at_most",))])
        return self

    def cliques(self, columns: Sequence[str]) -> tuple[Clique, ...]:
        """Return the columns of each cell, in the product's order."""
        return tuple(tuple(name for name in columns if name in cell) for cell in self.cells)

    def largest(self, rows: int, marginals: int) -> int:
        """Return the largest error that is good enough [rows]."""
        return self.at_most


Criterion = Annotated[WorstMarginal | MeanMarginal | CellCriterion, Field(discriminator="kind")]


class CandidateTerms(Frozen):
    """A generator with its options."""

    generator: Label
    options: dict[str, Any] = Field(default_factory=dict)

    @field_validator("generator")
    @classmethod
    def _one_that_fits(cls, generator: str) -> str:
        if generator == FIRST_ACCEPTED:
            refuse([Problem(show(generator), "a generator that fits a model itself", "list its candidates here")])
        return generator


class Acceptance(Frozen):
    """Which candidates are tried, and what the first of them must meet to be published.

    Args:
        criteria: what a model must meet, all of them.
        candidates: in the order in which they are tried; each is fitted under an equal share of the charge.
        share_of_tests: the share of the charge that pays the noise of all tests, above 0 and below 1.
        false_accept: the most likely that rows are published which miss a criterion, over all candidates.
        rows_about: about how many rows there are, where that is public: a bound that the noise of the test alone
            passes is then refused before anything is charged.
        keep_measured: whether a candidate's model is fitted also to what refused candidates before it measured.
    """

    criteria: Annotated[tuple[Criterion, ...], BeforeValidator(as_tuple)]
    candidates: Annotated[tuple[CandidateTerms, ...], BeforeValidator(as_tuple)]
    share_of_tests: Amount = Decimal("0.1")
    false_accept: Amount = Decimal("0.05")
    rows_about: Whole | None = None
    keep_measured: Flag = True

    @field_validator("share_of_tests", "false_accept")
    @classmethod
    def _between_0_and_1(cls, amount: Decimal) -> Decimal:
        return _share("a share", amount)

    @field_validator("criteria", "candidates")
    @classmethod
    def _some_and_not_too_many(cls, listed: tuple[Any, ...], info: Any) -> tuple[Any, ...]:
        most = MOST_CRITERIA if info.field_name == "criteria" else MOST_CANDIDATES
        if not 1 <= len(listed) <= most:
            found = f"{len(listed)} {info.field_name}" if listed else "an empty list"
            refuse(
                [Problem(found, f"from 1 to {most} {info.field_name}", "leave some out" if listed else "write one")]
            )
        return listed

    @field_validator("rows_about")
    @classmethod
    def _some_rows(cls, rows: int | None) -> int | None:
        if rows is not None and not 1 <= rows <= _MOST_ROWS:
            allowed = f"a number of rows from 1 to {_MOST_ROWS}"
            refuse([Problem(str(rows), allowed, "write about how many rows there are, or drop the key")])
        return rows

    @property
    def false_accept_each(self) -> Fraction:
        """The most likely that one candidate passes which misses a criterion."""
        return Fraction(self.false_accept) / len(self.candidates)


def acceptance_of(product: Any) -> Acceptance | None:
    """Return what a product of any kind asks of candidates; None where there are none, or they cannot be read."""
    if getattr(product, "generator", None) != FIRST_ACCEPTED:
        return None
    try:
        return Acceptance.model_validate(product.options)
    except ValidationError:  # told by whoever reads the options of the generator
        return None


def generator_or_accept(schema: dict[str, Any]) -> None:
    """Say in the JSON Schema that a product names a generator, or candidates in its place."""
    schema["required"] = [name for name in schema["required"] if name != "generator"]
    schema["oneOf"] = [{"required": ["generator"]}, {"required": ["accept"]}]


class AcceptModifier(SyntheticModifier):
    """Candidates of which the first that meets all criteria is published."""

    def asked(self, product: Any) -> bool:
        """Say whether candidates are tried."""
        return bool(product.generator == FIRST_ACCEPTED)

    def as_read(self, written: dict[str, Any]) -> dict[str, Any]:
        """Read `accept` as a generator with options."""
        if written.get("accept") is None:
            return written
        beside = [name for name in ("generator", "options") if name in written]
        if beside:
            remedy = "move it into `candidates:`, which has a generator and options each"
            refuse([Problem(f"{beside[0]} beside accept", "one of the two", remedy, (beside[0],))])
        options = written["accept"]
        return {**written, "generator": FIRST_ACCEPTED, "options": options if isinstance(options, dict) else {}}

    def options_at(self, product: Any) -> FieldPath | None:
        """Return `accept`, where that was written."""
        return None if product.accept is None else ("accept",)

    def problems(
        self, product: Any, names: tuple[str, ...], contract: Contract
    ) -> Iterator[tuple[FieldPath, Problem]]:
        """Yield what in criteria does not fit columns and contract."""
        acceptance = acceptance_of(product)
        if acceptance is not None and names:
            for at, problem in acceptance_problems(acceptance, names, contract):
                yield (*product.options_at, *at), problem


def acceptance_problems(
    acceptance: Acceptance, columns: Sequence[str], contract: Contract
) -> Iterator[tuple[FieldPath, Problem]]:
    """Yield what in criteria does not fit columns and contract, with its place below the acceptance."""
    for place, criterion in enumerate(acceptance.criteria):
        for at, problem in _criterion_problems(criterion, columns, contract):
            yield ("criteria", place, *at), problem


def _criterion_problems(
    criterion: WorstMarginal | MeanMarginal | CellCriterion, columns: Sequence[str], contract: Contract
) -> Iterator[tuple[FieldPath, Problem]]:
    wrong = False
    if isinstance(criterion, CellCriterion):
        for number, cell in enumerate(criterion.cells):
            for problem in _cell_problems(cell, columns, contract):
                wrong = True
                yield ("cells", number), problem
    elif criterion.marginals is not None:
        for number, clique in enumerate(criterion.marginals):
            for problem in _clique_problems(clique, columns):
                wrong = True
                yield ("marginals", number), problem
    elif criterion.ways is not None:
        many = comb(len(columns), min(criterion.ways, len(columns)))
        if criterion.ways > len(columns) or many > _MOST_MARGINALS:
            wrong = True
            found = f"{criterion.ways} of {len(columns)} columns"
            beyond = criterion.ways > len(columns)
            found += "" if beyond else f", {many:,} marginals"
            allowed = f"at most {len(columns)} columns, and {_MOST_MARGINALS:,} marginals"
            remedy = "write `ways: 2`" if beyond else "name the marginals that matter"
            yield ("ways",), Problem(found, allowed, remedy)
    cells = 0 if wrong else sum(contract.cells(clique) for clique in criterion.cliques(columns))
    if cells > MOST_TESTED_CELLS:
        yield (), Problem(f"{cells:,} cells", f"at most {MOST_TESTED_CELLS:,}", "name fewer or smaller marginals")


def _clique_problems(clique: Sequence[str], columns: Sequence[str]) -> Iterator[Problem]:
    for name in clique:
        if name not in columns:
            yield Problem(
                f"the column {name!r}", f"columns of the product, {word_list(columns)}", nearest(name, columns)
            )
    if not clique or len(set(clique)) < len(clique):
        yield Problem(show(list(clique)), "at least one column, each once", "name each column once")


def _cell_problems(cell: dict[str, str], columns: Sequence[str], contract: Contract) -> Iterator[Problem]:
    yield from _clique_problems(tuple(cell), columns)
    for name, label in cell.items():
        labels = contract.column(name).labels if name in columns else (label,)
        if label not in labels:
            allowed = f"a label of {name!r}, {word_list(labels)}"
            yield Problem(f"the label {label!r} of {name!r}", allowed, nearest(label, labels))


def cell_numbers(criterion: CellCriterion, columns: Sequence[str], contract: Contract) -> tuple[int, ...]:
    """Return the place of each cell in its marginal, row by row.

    Args:
        criterion: names the cells, by labels of the contract.
        columns: of the product, in order.
        contract: says the labels.
    """
    numbers = []
    for clique, cell in zip(criterion.cliques(columns), criterion.cells, strict=True):
        sizes = [contract.column(name).size for name in clique]
        codes = [contract.column(name).labels.index(cell[name]) for name in clique]
        numbers.append(sum(code * prod(sizes[place + 1 :]) for place, code in enumerate(codes)))
    return tuple(numbers)
