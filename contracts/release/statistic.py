"""One statistic of a table, as a spec writes it: a count, a sum, a mean, quantiles, or how many different values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from inspect import getdoc
from typing import Annotated, Any, Final, Literal

from pydantic import (
    BeforeValidator,
    GetJsonSchemaHandler,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from contracts.domains.distinct_counts import distinct_key
from contracts.domains.domain import DeclaredDomain
from contracts.domains.domain_terms import Frozen
from contracts.domains.value_lattices import ValueLattice, usual_step
from contracts.domains.value_trees import tree_key
from contracts.reading.scalars import (
    Bound,
    Label,
    Problem,
    as_tuple,
    nearest,
    plain_text,
    refuse,
    show,
    word_list,
)
from contracts.release.private_clips import Clip, PrivateClip, clip_schema
from contracts.release.statistic_forms import (
    COUNT,
    DISTINCT,
    DISTINCTS,
    EFFECTIVE_SIZE,
    FORMS,
    OF_A_COLUMN,
    QUANTILES,
    QUANTILES_FORM,
    RATIO,
    RATIO_FORM,
    UNITS,
    form_remedy,
    interval_problems,
    quantiles_schema,
    read_quantiles,
    read_ratio,
    share_problems,
)

_ENDS: Final = ("low", "high")
_MORE: Final = ("clip", "step")
_OF_SUM: Final = ("per_unit",)
CLIPPED: Final = "_clipped"
"""The end of the name of a statistic whose spec writes a clip: it is one of the clipped values."""


class Statistic(Frozen):
    """One statistic of a table: `count`, `{sum: income, clip: [0, 200000]}`, `{mean: income}` or a ratio of two sums.

    Or `{variance: income}`, the mean of squared distances from the mean of the rows, and its root `{sd: income}`. Or
    some quantiles of a column: `{quantiles: [0.1, 0.5, 0.9], of: income, resolution: 100}`. A quantile p is the
    smallest value at or below which at least a share p of the rows lie; `resolution` is the length of the intervals
    in which rows are counted, and `method` says whether quantiles come of these counts alone, or are chosen by the
    exponential mechanism beside them. `interval_share` is then the share of their intervals in what both cost.

    `units` is the number of privacy units that have a row in the cell, and `{distinct: employer_id}` that of
    different values of a column there. A missing value is none. No survey weight enters.

    `{effective_size: person_weight}` is Kish's effective sample size of the cell under its survey weight: the square
    of the sum of the weights, over the sum of their squares.

    Values outside `clip` count as its ends; where nothing is said the contract's bounds are the clip. With `private`
    the run finds a clip within them by a charged draw. `step` is the unit in which values are added up, to which they
    are rounded. `per_unit` bounds what all rows of one privacy unit add to a sum together, in all cells: further
    rows of it add what is left.
    """

    what: Literal[
        "count", "sum", "mean", "variance", "sd", "ratio", "quantiles", "units", "distinct", "effective_size"
    ]
    column: Label | None = None
    clip: Clip | None = None
    step: Bound | None = None
    per_unit: Bound | None = None
    over: Statistic | None = None
    quantiles: Annotated[tuple[Bound, ...], BeforeValidator(as_tuple)] = ()
    resolution: Bound | None = None
    method: Literal["auto", "tree", "exponential"] = "auto"
    interval_share: Bound | None = None
    _is_clipped: bool = PrivateAttr(default=False)
    """Whether its table writes a clip of its column, or of one of its ratio; the table says so."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, written: Any) -> Any:
        """Read `count`, `units`, and a mapping whose first key says what is published of which column."""
        if written in (COUNT, UNITS):
            return {"what": written}
        if not isinstance(written, dict):
            refuse([Problem(show(written), FORMS, form_remedy(written))])
        if "what" in written:
            return written
        if RATIO in written:
            return read_ratio(written)
        if QUANTILES in written:
            return read_quantiles(written)
        named = [key for key in written if key in (COUNT, *OF_A_COLUMN, *DISTINCTS, EFFECTIVE_SIZE)]
        if len(named) != 1:
            refuse([Problem(show(written), FORMS, form_remedy(written))])
        what, column = named[0], written[named[0]]
        if isinstance(column, list | tuple | dict):
            refuse([Problem(show(column), "the name of one column", "write a statistic for each column", (what,))])
        rest = {key: value for key, value in written.items() if key != what}
        more = () if what in (*DISTINCTS, EFFECTIVE_SIZE) else (*_MORE, *_OF_SUM) if what == "sum" else _MORE
        unknown = [key for key in rest if key not in (*more, *(_OF_SUM if more else ()))]
        if unknown:
            remedies = {key: nearest(str(key), more) or "remove it" for key in unknown}
            allowed = word_list((what, *more))
            refuse([Problem(f"the unknown key {key!r}", allowed, remedies[key], (key,)) for key in unknown])
        return {"what": what, "column": column, **rest}

    @model_validator(mode="after")
    def _of_a_column(self) -> Statistic:
        if self.what == COUNT and (self.column, self.clip, self.step) != (None, None, None):
            refuse([Problem("a count with a column, a clip or a step", "count alone", "write count")])
        if self.what == UNITS and (self.column, self.clip, self.step) != (None, None, None):
            remedy = "write units for people, {distinct: COLUMN} for the values of a column"
            refuse([Problem("units of a column", "units alone: those of the contract", remedy)])
        if self.what not in (COUNT, UNITS) and self.column is None:
            refuse([Problem(f"a {self.what} of no column", FORMS)])
        if self.what == EFFECTIVE_SIZE and (self.clip, self.step) != (None, None):
            refuse([Problem("an effective size with a clip or a step", "those of `survey_weight:`")])
        if (self.what == RATIO) != (self.over is not None):
            refuse([Problem("`over:` without a ratio, or a ratio without it", RATIO_FORM)])
        if self.over is not None and (self.over.what != "sum" or self.over.column == self.column):
            refuse([Problem("a ratio of a column to itself, or of no sum", f"{RATIO_FORM} of two columns")])
        if self.per_unit is not None and self.what != "sum":
            remedy = "write it beside {sum: COLUMN} in a table of its own, or drop it"
            refuse([Problem(f"per_unit of a {self.what}", "per_unit of a sum", remedy, ("per_unit",))])
        if self.over is not None and self.over.per_unit is not None:
            remedy = "publish the two sums with per_unit, each in a table of its own, or drop it"
            refuse([Problem("per_unit of a ratio", "per_unit of a sum", remedy, ("over", "per_unit"))])
        own = self.quantiles, self.resolution, self.method, self.interval_share
        if self.what != QUANTILES and own != ((), None, "auto", None):
            refuse([Problem(f"quantiles, a resolution or a method with a {self.what}", QUANTILES_FORM)])
        if self.what == QUANTILES:
            problems = [*share_problems(self.quantiles), *interval_problems(self.interval_share, self.method)]
            if problems:
                refuse(problems)
        return self

    @model_serializer(mode="wrap")
    def _without_what_is_usual(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write `per_unit` and `interval_share` only where there is one: what was written before reads alike."""
        written: dict[str, Any] = handler(self)
        for name in ("per_unit", "interval_share"):
            if getattr(self, name) is None:
                written.pop(name, None)
        return written

    @property
    def name(self) -> str:
        """Its column in the published file; of quantiles, what they are called together."""
        named = self.what if self.column is None else f"{self.what}_{self.column}"
        return (named if self.over is None else f"{named}_over_{self.over.column}") + self._end

    @property
    def is_clipped(self) -> bool:
        """Whether its column in the published file is named one of clipped values."""
        return self._is_clipped

    @property
    def _end(self) -> str:
        return CLIPPED if self._is_clipped else ""

    @property
    def terms(self) -> tuple[Statistic, ...]:
        """What it says of columns of numbers: itself, and of a ratio the lower sum too; nothing where it counts."""
        if self.what in (COUNT, *DISTINCTS):
            return ()
        return (self,) if self.over is None else (self, self.over)

    @property
    def key(self) -> str | None:
        """What its draw is found by among those of a table; None of a count, which others give too."""
        if self.what in DISTINCTS:
            return distinct_key(self.column)
        return tree_key(self.column) if self.what == QUANTILES and self.column is not None else self.column

    @property
    def estimates(self) -> tuple[str, ...]:
        """Its estimates in the published file: one, or one for each quantile."""
        if self.what != QUANTILES:
            return (self.name,)
        return tuple(f"q{plain_text(100 * share)}_{self.column}{self._end}" for share in self.quantiles)

    @property
    def published(self) -> tuple[str, ...]:
        """Its columns in the published file: each estimate, and the ends of its interval."""
        return tuple(name for each in self.estimates for name in (each, *(f"{each}_{end}" for end in _ENDS)))

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Describe the written forms."""
        more = {"clip": clip_schema(), "step": {"type": ["number", "string"]}}
        of_sum = {"sum": {"per_unit": {"type": ["number", "string"]}}}
        forms = [
            {
                "type": "object",
                "properties": {what: {"type": "string"}, **more, **of_sum.get(what, {})},
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
        for what in (DISTINCT, EFFECTIVE_SIZE):
            column = {what: {"type": "string"}}
            forms.append({"type": "object", "properties": column, "required": [what], "additionalProperties": False})
        words = [{"const": COUNT}, {"const": UNITS}]
        return {"title": "Statistic", "description": getdoc(cls), "anyOf": [*words, *forms]}


def column_lattice(
    statistics: Iterable[Statistic], name: str, domain: DeclaredDomain, weight: ValueLattice | None
) -> ValueLattice:
    """Return the lattice of a column: the first clip and the first step that one of its statistics has.

    Args:
        statistics: those of one table.
        name: the column.
        domain: what the contract says of it.
        weight: the lattice of the table's survey weight; None without one.

    Raises:
        ValueError: nothing bounds the column.
    """
    own = [term for each in statistics for term in each.terms if term.column == name]
    if weight is not None and weight.column == name:  # of an effective size: the weight, weighted by itself
        return replace(weight, weight=weight)
    clip = next((each.clip for each in own if each.clip is not None), None) or domain.value_bounds
    clip = domain.value_bounds if isinstance(clip, PrivateClip) else clip
    if clip is None:
        raise ValueError(f"column {name} has no bounds")
    step = next((each.step for each in own if each.step is not None), None)
    low, high = clip
    step = usual_step(low, high, decimals=domain.decimals) if step is None else step
    return ValueLattice(name, low, high, step, domain.nulls.policy == "category", weight)
