"""The survey weight of a table: the column that says for how many people each row stands.

    survey_weight: person_weight
    survey_weight: {column: person_weight, clip: [0, 400], step: 1}

`weight:` of a table is already its share of the charge; so survey weights have a word of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from inspect import getdoc
from math import prod
from typing import Any

from pydantic import GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from contracts.contract.contract import Contract
from contracts.domains.addends import WeightedCount, addend_problems
from contracts.domains.domain import Frozen
from contracts.domains.lattice import ValueLattice, usual_step
from contracts.reading.scalars import Bound, BoundPair, Label, Problem, nearest, refuse, show, word_list

_FORM = "the name of a column, or {column: COLUMN, clip: [0, LARGEST WEIGHT], step: STEP}"


class SurveyWeight(Frozen):
    """The column of the weights, and how they are clipped and rounded.

    Weights above the clip count as its upper end, which is the contract's bound where nothing is said. They count in
    whole steps from 0 on. A row without a weight counts nowhere, unless the contract maps missing weights to a value.
    """

    column: Label
    clip: BoundPair | None = None
    step: Bound | None = None

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, written: Any) -> Any:
        """Read the name of a column."""
        if isinstance(written, str):
            return {"column": written}
        if not isinstance(written, dict) or "column" not in written:
            remedy = "leave it out where every row counts once"
            refuse([Problem(show(written), _FORM, remedy)])
        return written

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Describe both forms."""
        pair = {"type": "array", "items": {"type": ["number", "string"]}, "minItems": 2, "maxItems": 2}
        keys = {"column": {"type": "string"}, "clip": pair, "step": {"type": ["number", "string"]}}
        long = {"type": "object", "properties": keys, "required": ["column"], "additionalProperties": False}
        return {"title": "SurveyWeight", "description": getdoc(cls), "anyOf": [{"type": "string"}, long]}

    def lattice(self, contract: Contract) -> ValueLattice:
        """Return the lattice of the weights, which starts at 0.

        Raises:
            ValueError: the column has no bounds.
        """
        domain = contract.column(self.column).domain
        if domain.value_bounds is None:
            raise ValueError(f"column {self.column} has no bounds")
        low, high = (domain.value_bounds[0] * 0, domain.value_bounds[1]) if self.clip is None else self.clip
        step = usual_step(low, high, decimals=domain.decimals) if self.step is None else self.step
        return ValueLattice(self.column, low, high, step, domain.nulls.policy == "category")


def survey_weight_problems(weight: SurveyWeight, contract: Contract) -> list[Problem]:
    """List what in a survey weight does not fit its contract, with its place below the table."""
    names = [column.name for column in contract.columns]
    at = ("survey_weight",)
    if weight.column not in names:
        remedy = nearest(weight.column, names) or "write one of them"
        return [Problem(f"the column {weight.column!r}", word_list(names), remedy, at)]
    bounds = contract.column(weight.column).domain.value_bounds
    if bounds is None:
        remedy = "give the column a domain of kind integer or decimal with bounds"
        return [Problem(f"{weight.column!r}, a column without bounds", "a column of numbers", remedy, at)]
    if bounds[0] < 0:
        remedy = "raise the contract's lower bound to 0, or make the weight in a select"
        found = f"{weight.column!r}, whose bounds begin at {bounds[0]}"
        return [Problem(found, "weights of 0 or more", remedy, at)]
    lattice = weight.lattice(contract)
    if lattice.low != 0 or lattice.high > bounds[1]:
        found = f"[{lattice.low}, {lattice.high}]"
        allowed = f"a clip from 0 to at most the upper bound of {weight.column!r}, {bounds[1]}"
        return [Problem(found, allowed, f"write clip: [0, {min(max(lattice.high, 1), bounds[1])}]", (*at, "clip"))]
    problems = addend_problems(WeightedCount(lattice), contract.unit.max_rows_per_unit)
    return [Problem(f"{weight.column!r}: {p.found}", p.allowed, p.remedy, (*at, *p.at)) for p in problems]


# --- How many keys, and how many cells, the rows of one unit have at most, where keys are selected privately.


def groups_of(at_most_groups: int | None, contract: Contract) -> int:
    """Return how many keys one unit has at most: as many as rows, where the table bounds them no further."""
    return contract.unit.max_rows_per_unit if at_most_groups is None else at_most_groups


def most_cells(by: Sequence[str], at_most_groups: int | None, contract: Contract) -> int | None:
    """Return in how many cells of a table the rows of one unit lie at most, where its keys are bounded.

    In each of its keys, in the cell of all others, and in that of none; of each the cells of declared columns beside.
    """
    if at_most_groups is None:
        return None
    texts = contract.texts(by)
    return (at_most_groups + 2) * prod(contract.shape([name for name in by if name not in texts]))


def bounded_groups(tables: Iterable[tuple[Sequence[str], int | None]], contract: Contract) -> dict[str, int]:
    """Return by column of texts how many keys one unit has at most, of tables that bound them."""
    return {contract.texts(by)[0]: groups for by, groups in tables if groups is not None}
