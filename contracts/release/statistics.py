"""A release of statistics: counts, sums, means and quantiles of columns of numbers, by the cells of other columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from decimal import Decimal
from inspect import getdoc
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import (
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from contracts.contract.contract import Contract
from contracts.domains.addends import (
    Addends,
    DistinctCount,
    LoneSum,
    WeightedCount,
    distinct_count,
    distinct_key,
    encoded_beside,
    form_of,
)
from contracts.domains.domain import DeclaredDomain, Frozen
from contracts.domains.lattice import ValueLattice, one_step_wider, usual_step
from contracts.domains.text import KeyColumn, UnitOrder
from contracts.domains.trees import CHOICE, ValueTree, tree_key, usual_resolution
from contracts.reading.scalars import (
    Amount,
    Bound,
    BoundPair,
    FieldPath,
    Flag,
    Label,
    Problem,
    Whole,
    as_tuple,
    nearest,
    plain_decimal,
    plain_text,
    refuse,
    show,
    word_list,
)
from contracts.release.product import LabelledTable, ProductSpec, TableName, repeated_names
from contracts.release.survey_weight import SurveyWeight, bounded_groups, most_cells
from contracts.release.tables.tables import MinimumFrequency, Refine, Weight

# --- Ratios and quantiles as a spec writes them, and the forms that a statistic may have.


COUNT: Final = "count"
SPREADS: Final = ("variance", "sd")
OF_A_COLUMN: Final = ("sum", "mean", *SPREADS)
EFFECTIVE_SIZE: Final = "effective_size"
RATIO: Final = "ratio"
RATIO_FORM: Final = "{ratio: {sum: COLUMN}, over: {sum: COLUMN}}"
QUANTILES: Final = "quantiles"
UNITS: Final = "units"
DISTINCT: Final = "distinct"
DISTINCTS: Final = (UNITS, DISTINCT)
"""Statistics of which each is a draw of its own: how many privacy units, or different values, a cell has."""
OF_ROWS: Final = ("mean", *SPREADS, RATIO, QUANTILES)
"""Statistics that say what rows are like: a cell without rows has none, and they do not add up."""
QUANTILES_FORM: Final = "{quantiles: [0.1, 0.5, 0.9], of: COLUMN}"
FORMS: Final = (
    "count, {sum: COLUMN}, {mean: COLUMN}, {variance: COLUMN} or {sd: COLUMN}, each with `clip:` and `step:` if "
    "wanted, or "
    f"{RATIO_FORM}, or {QUANTILES_FORM}, or units, or {{distinct: COLUMN}}, or {{effective_size: WEIGHT}}"
)
METHODS: Final = ("auto", "tree", "exponential")
"""How quantiles are drawn."""
USUAL_INTERVAL_SHARE: Final = Decimal("0.25")
"""Of what chosen quantiles and their intervals cost, the share of the intervals, where nothing is said."""
_OF_QUANTILES: Final = ("method", "interval_share", "resolution")
_LEAST_INTERVAL_SHARE, _MOST_INTERVAL_SHARE = Decimal("0.01"), Decimal("0.9")
_FINEST_SHARE: Final = 6
"""Decimals of a quantile."""


def form_remedy(written: object) -> str:
    """Suggest the word that was begun; the nearest one would be a mean for a median."""
    words = [str(key) for key in written] if isinstance(written, dict) else [str(written)]
    begun = (
        (word, what)
        for word in words
        for what in (COUNT, *OF_A_COLUMN, RATIO, QUANTILES, *DISTINCTS, EFFECTIVE_SIZE)
        if word != what and word.lower().startswith(what)
    )
    hits = (f"write {what!r} instead of {word!r}" for word, what in begun)
    return next(hits, "write one of these, each in an entry of its own")


def read_ratio(written: dict[str, Any]) -> dict[str, Any]:
    """Read a ratio of two sums, each with a clip and a step of its own."""
    upper, lower = written[RATIO], written.get("over")
    if set(written) != {RATIO, "over"} or not isinstance(upper, dict) or "sum" not in upper:
        refuse([Problem(show(written), RATIO_FORM)])
    rest = {key: value for key, value in upper.items() if key != "sum"}
    return {"what": RATIO, "column": upper["sum"], **rest, "over": lower}


def read_quantiles(written: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a statistic that is written as quantiles of a column."""
    if not {QUANTILES, "of"} <= set(written) <= {QUANTILES, "of", *_OF_QUANTILES, "clip", "step"}:
        more = "`method:`, `interval_share:`, `resolution:`, `clip:` and `step:`"
        refuse([Problem(show(written), f"{QUANTILES_FORM}, with {more} if wanted")])
    rest = {key: value for key, value in written.items() if key != "of"}
    return {"what": QUANTILES, "column": written["of"], **rest}


def share_problems(shares: tuple[Decimal, ...]) -> Iterator[Problem]:
    """Yield what is wrong with a list of quantiles."""
    if not shares:
        yield Problem("an empty list of quantiles", "at least one", "write [0.5] for the median", (QUANTILES,))
    for place, share in enumerate(shares):
        at = (QUANTILES, place)
        if not 0 < share < 1:
            remedy = f"write {plain_text(share / 100)}" if 1 < share < 100 else "drop it"
            yield Problem(f"the quantile {share}", "a number above 0 and below 1", remedy, at)
        elif share != round(share, _FINEST_SHARE):
            yield Problem(f"the quantile {share}", f"at most {_FINEST_SHARE} decimals", "round it", at)
        elif share in shares[:place]:
            yield Problem(f"the quantile {share} twice", "each once", "drop one", at)


def interval_problems(share: Decimal | None, method: str) -> Iterator[Problem]:
    """Yield what is wrong with the share of the intervals of quantiles, where one is written."""
    at = ("interval_share",)
    if share is not None and method == METHODS[1]:
        found, remedy = "interval_share with method: tree", "drop it: a tree gives quantiles and intervals alike"
        yield Problem(found, "method: exponential, or auto", remedy, at)
    if share is not None and not _LEAST_INTERVAL_SHARE <= share <= _MOST_INTERVAL_SHARE:
        allowed = f"from {_LEAST_INTERVAL_SHARE} to {_MOST_INTERVAL_SHARE}, of what quantiles and intervals cost"
        yield Problem(f"interval_share: {share}", allowed, f"write {USUAL_INTERVAL_SHARE}, or drop it", at)
    elif share is not None and share != round(share, _FINEST_SHARE):
        yield Problem(f"interval_share: {share}", f"at most {_FINEST_SHARE} decimals", "round it", at)


def quantiles_schema(more: dict[str, Any]) -> dict[str, Any]:
    """Describe the written form; `more` are the keys that every statistic of a column may have."""
    shares = {"type": "array", "items": {"type": ["number", "string"]}, "minItems": 1}
    method = {"enum": [*METHODS], "default": METHODS[0]}
    keys = {
        QUANTILES: shares,
        "of": {"type": "string"},
        "method": method,
        "interval_share": {"type": ["number", "string"]},
        "resolution": {"type": ["number", "string"]},
        **more,
    }
    return {"type": "object", "properties": keys, "required": [QUANTILES, "of"], "additionalProperties": False}


# --- Clips that a run finds itself, by a charged draw.


PRIVATE: Final = "private"
PRIVATE_FORM: Final = "{private: true, share: 0.1}"
USUAL_SHARE: Final = Decimal("0.1")
_LEAST_SHARE, _LARGEST_SHARE = Decimal("0.001"), Decimal("0.9")


class PrivateClip(Frozen):
    """A clip that the run finds in a noisy histogram of the column; `share` is what it takes of the column's part.

    Written `private`, or `{private: true, share: 0.1}`. Each draw of the column gives so much of its part of the
    charge to the histogram, which is drawn first.
    """

    private: Flag = True
    share: Amount = USUAL_SHARE

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, written: Any) -> Any:
        """Read `private`; refuse a mapping that does not say it."""
        if written == PRIVATE:
            return {PRIVATE: True}
        if isinstance(written, dict) and PRIVATE not in written:
            remedy = "write the word private, or drop the clip: the contract's bounds are one"
            refuse([Problem(show(written), PRIVATE_FORM, remedy)])
        return written

    @field_validator("private")
    @classmethod
    def _private(cls, private: bool) -> bool:
        if not private:
            refuse([Problem("false", "true", "drop the clip: the contract's bounds are one")])
        return private

    @field_validator("share")
    @classmethod
    def _within(cls, share: Decimal) -> Decimal:
        if not _LEAST_SHARE <= share <= _LARGEST_SHARE:
            remedy = f"leave it out: it is {USUAL_SHARE} then"
            refuse([Problem(f"a share of {share}", f"a number from {_LEAST_SHARE} to {_LARGEST_SHARE}", remedy)])
        return plain_decimal(share)


_PAIR: Final[TypeAdapter[tuple[Decimal, Decimal]]] = TypeAdapter(BoundPair)


def _read_clip(written: Any) -> Any:
    """Read `private` or a mapping as a private clip, and anything else as a pair of ends."""
    if isinstance(written, PrivateClip):
        return written
    if isinstance(written, dict) or written == PRIVATE:
        return PrivateClip.model_validate(written)
    if isinstance(written, str):
        refuse([Problem(show(written), f"a pair [low, high], {PRIVATE} or {PRIVATE_FORM}")])
    return _PAIR.validate_python(written)


def clip_schema() -> dict[str, Any]:
    """Describe the written forms of a clip: two ends, `private`, or `private` with a share."""
    number = {"type": ["number", "string"]}
    pair = {"type": "array", "items": number, "minItems": 2, "maxItems": 2}
    keys = {PRIVATE: {"const": True}, "share": number}
    long = {"type": "object", "properties": keys, "required": [PRIVATE], "additionalProperties": False}
    return {"anyOf": [pair, {"const": PRIVATE}, long]}


Clip = Annotated[PrivateClip | tuple[Decimal, Decimal], BeforeValidator(_read_clip)]
"""Two ends, or a clip that the run finds; read by itself, so that what is wrong is said once."""


# --- One statistic of a table, as a spec writes it.


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


# --- One table of a release of statistics.


NEAR_ZERO: Final = "near_zero"
"""The column that marks cells whose count cannot be told from 0."""
REFINED: Final = "count_refined"
"""The column of refined counts."""


class StatisticsTable(Frozen):
    """Statistics by the cells of some columns; without columns, of all rows together.

    `weight` is that of its share of the charge. `survey_weight` is the column that says for how many people a row
    stands: then every count and sum of the table is a weighted one. With `keys: private` one of the columns is of
    texts that nobody declared: its keys are selected privately, with a part of delta, and all other texts have one
    cell together.
    """

    by: Annotated[tuple[Label, ...], BeforeValidator(as_tuple)] = ()
    of: Annotated[tuple[Statistic, ...], BeforeValidator(as_tuple)]
    name: TableName
    weight: Weight = Decimal(1)
    survey_weight: SurveyWeight | None = None
    key_choice: Literal["declared", "private"] = Field(default="declared", alias="keys")
    # Not named `keys`: whoever asks an object for its keys takes it for a mapping.
    at_most_groups: Whole | None = None
    _whole_counts: bool = PrivateAttr(default=False)
    """Whether something else is made of its counts, so that each must have the same noise."""

    @model_validator(mode="before")
    @classmethod
    def _named(cls, written: Any) -> Any:
        """Name the table after its columns where it has no name."""
        if not isinstance(written, dict):
            refuse([Problem(show(written), "{by: [...], of: [...]}, and `name:`, `weight:`, `survey_weight:`")])
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

    @model_validator(mode="after")
    def _name_what_is_clipped(self) -> StatisticsTable:
        """Tell each statistic whether a clip of its column is written, by which its published column is named.

        A clip is one of the column in the whole table, but for quantiles beside a private one. Without any the
        contract's bounds are the clip: by its declaration the column has no value beyond them.
        """
        written = {term.column: term.clip for each in self.of for term in each.terms if term.clip is not None}
        for each in self.of:
            clips = [written[term.column] for term in each.terms if term.column in written]
            each._is_clipped = any(each.what != QUANTILES or not isinstance(clip, PrivateClip) for clip in clips)
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Describe what has to be written: the name does not."""
        schema = handler.resolve_ref_schema(handler(core))
        return {**schema, "required": [key for key in schema["required"] if key != "name"]}

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of numbers of which statistics are published, each once, in their order."""
        terms = (term for each in self.of for term in each.terms)
        return tuple(dict.fromkeys(term.column for term in terms if term.column is not None))

    @property
    def told_apart(self) -> tuple[str, ...]:
        """The columns whose different values are counted, in their order."""
        return tuple(str(each.column) for each in self.of if each.what == DISTINCT)

    @property
    def published_columns(self) -> tuple[str, ...]:
        """The columns of the published file, in their order."""
        return (*self.by, *(name for each in self.of for name in each.published), NEAR_ZERO)

    @property
    def may_lack(self) -> tuple[str, ...]:
        """The columns of the published file in which a cell without rows has no value."""
        return tuple(name for each in self.of if each.what in OF_ROWS for name in each.published)

    def lattices(self, contract: Contract) -> tuple[ValueLattice, ...]:
        """Return the lattice of each such column; of one whose statistics say nothing, its bounds'."""
        return tuple(self._lattice(name, contract) for name in self.columns)

    def clipped_lattices(self, contract: Contract) -> tuple[ValueLattice, ...]:
        """Return the lattices, of columns and the weight, whose clip is narrower than the contract's bounds."""
        weights = () if self.survey_weight is None else (self.survey_weight.lattice(contract),)
        found = {replace(each, weight=None) for each in (*self.lattices(contract), *weights)}
        bounds = {each: contract.column(each.column).domain.value_bounds for each in found}
        cut = (each for each, ends in bounds.items() if ends and (each.low > ends[0] or each.high < ends[1]))
        return tuple(sorted(cut, key=lambda each: each.name))

    def _lattice(self, name: str, contract: Contract) -> ValueLattice:
        weight = None if self.survey_weight is None else self.survey_weight.lattice(contract)
        return column_lattice(self.of, name, contract.column(name).domain, weight)

    @property
    def private_clips(self) -> dict[str, PrivateClip]:
        """The clips that the run finds itself, by column; until then their lattices are those of the bounds."""
        terms = (term for each in self.of if each.what != QUANTILES for term in each.terms)
        clips = {str(term.column): term.clip for term in terms if term.clip is not None}
        return {column: clip for column, clip in clips.items() if isinstance(clip, PrivateClip)}

    @property
    def quotas(self) -> dict[str, Decimal]:
        """What one unit adds at most to the sums of a column, by column; of those that say so."""
        terms = (term for each in self.of for term in each.terms)
        return {str(term.column): term.per_unit for term in terms if term.per_unit is not None}

    def trees(self, contract: Contract) -> tuple[ValueTree, ...]:
        """Return the trees of counts of all quantiles, in their order."""
        found = []
        for each in self.of:
            if each.what == QUANTILES and each.column is not None:
                lattice = self._lattice(each.column, contract)
                found.append(
                    ValueTree(lattice, usual_resolution(lattice) if each.resolution is None else each.resolution)
                )
        return tuple(found)

    @model_serializer(mode="wrap")
    def _without_declared_keys(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write `keys` only where they are private, and a weight or a bound of keys only where there is one."""
        written: dict[str, Any] = handler(self)
        choice = written.pop("key_choice", None) or written.pop("keys", None)
        for name in ("survey_weight", "at_most_groups"):
            if getattr(self, name) is None:
                written.pop(name, None)
        return written if choice in (None, "declared") else {**written, "keys": choice}

    @property
    def selection_key(self) -> str | None:
        """The name of the draw that selects its keys; None where they are declared."""
        return f"table:{self.name}/keys" if self.key_choice == "private" else None

    @property
    def draw_keys(self) -> tuple[str, ...]:
        """The names of the draws: of columns that are added up, of trees, or counts alone; then distinct counts."""
        summed = {term.column for each in self.of if each.what != QUANTILES for term in each.terms}
        sums = [f"table:{self.name}/{column}" for column in self.columns if column in summed]
        trees = [f"table:{self.name}/quantiles/{each.column}" for each in self.of if each.what == QUANTILES]
        base = *sums, *trees, *([f"table:{self.name}"] if self._counts_alone else [])
        counted = ("/".join(filter(None, (each.what, each.column))) for each in self.of if each.what in DISTINCTS)
        return (*base, *(f"table:{self.name}/{each}" for each in counted))

    @property
    def number_keys(self) -> tuple[str, ...]:
        """The names of the draws that its numbers come of: those, and a selection that counts its keys."""
        return (*([self.selection_key] if self.selection_key and self.counts_with_keys else []), *self.draw_keys)

    @property
    def counts_with_keys(self) -> bool:
        """Whether the draw that selects its keys counts their rows too: they alone make its cells, and count once.

        Counts of which something else is made, by refinement or a minimum frequency, are drawn apart. So are those of
        keys of which a unit has fewer than rows: a selection by units then needs fewer of them.
        """
        alone = self.key_choice == "private" and len(self.by) == 1 and self.survey_weight is None
        alone = alone and self.at_most_groups is None
        return alone and self._needs_counts and not self._whole_counts

    @property
    def _counts_alone(self) -> bool:
        return self._needs_counts and not self.counts_with_keys

    @property
    def _needs_counts(self) -> bool:
        """Whether it needs a draw of its counts: it publishes them, and no other draw of it tells how many rows are.

        A sum with a quota of each unit does not: its noise hides less than a row's whole part of a count.
        """
        counting = {term.column for each in self.of for term in each.terms} - set(self.quotas)
        trees = any(each.what == QUANTILES for each in self.of)
        return any(each.what == COUNT for each in self.of) and not counting and not trees

    @property
    def choice_keys(self) -> tuple[str, ...]:
        """The names of the draws of quantiles that may be chosen."""
        return tuple(f"table:{self.name}/{CHOICE}/{each.column}" for each in self.of if each.what == QUANTILES)

    def draws(self, contract: Contract) -> tuple[tuple[str, Addends | None], ...]:
        """Return what is drawn under each of these names."""
        summed = {term.column for each in self.of if each.what != QUANTILES for term in each.terms}
        sums = [self._form(each, contract) for each in self.lattices(contract) if each.column in summed]
        counted = None if self.survey_weight is None else WeightedCount(self.survey_weight.lattice(contract))
        base = *sums, *self.trees(contract), *([counted] if self._counts_alone else [])
        return tuple(zip(self.draw_keys, (*base, *self.distinct_counts(contract)), strict=True))

    def distinct_counts(self, contract: Contract) -> tuple[DistinctCount, ...]:
        """Return what is counted of units and of different values, in their order."""
        terms: dict[str, Any] = {"declared_cells": self.key_choice == "declared"}
        terms["most_cells"] = most_cells(self.by, self.at_most_groups, contract)
        return tuple(
            DistinctCount(None, None, **terms)
            if each.what == UNITS
            else distinct_count(str(each.column), contract.column(str(each.column)).domain, **terms)
            for each in self.of
            if each.what in DISTINCTS
        )

    def _form(self, lattice: ValueLattice, contract: Contract) -> Addends:
        """Return how a column is added up: as its statistics need, a sum alone where nothing asks for a count."""
        if lattice.column in self.quotas:
            return LoneSum(lattice, self.quotas[lattice.column])
        asked = {each.what for each in self.of if lattice.column in {term.column for term in each.terms}}
        alone = asked <= {"sum", QUANTILES} and all(each.what != COUNT for each in self.of)
        alone = alone and lattice.weight is None and lattice.column not in self.private_clips
        rows = contract.unit.max_rows_per_unit * lattice.most_weight
        return form_of(lattice, rows, spread=bool(asked & set(SPREADS)), alone=alone)


class StatisticsProduct(ProductSpec):
    """Counts, sums, means, variances and quantiles by the cells of declared columns, with their intervals.

    Each column that is added up is drawn once for each table, and all that is said of it comes of that draw. It is a
    sum alone where nothing else is asked for and that has less noise. All quantiles of a column come of one draw
    more, and so does each number of units or of different values. Without a column that is added up the counts are
    drawn alone. `split` says how the draws share the charge: tables by their weights and the draws of a table alike,
    or so that the sum of the squared stated errors of all cells, each times its table's weight, is least.
    """

    reads_rows: ClassVar[bool] = False
    total_at: ClassVar[FieldPath] = ("product", "tables")

    kind: Literal["statistics"]
    mechanism: Literal["laplace", "gaussian"] = Field(
        default="laplace", description="the noise; gaussian needs a delta above 0 and pays for many draws"
    )
    tables: Annotated[tuple[StatisticsTable, ...], BeforeValidator(as_tuple)]
    split: Literal["by_weight", "optimal"] = "by_weight"
    minimum_frequency: MinimumFrequency | None = Field(
        default=None, description="cells whose noisy count is too small are suppressed, with all their statistics"
    )

    refine: Refine | None = Field(
        default=None, description="counts are published refined too: not negative, with one total in all tables"
    )

    @model_serializer(mode="wrap")
    def _without_what_is_usual(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write `split` and the two rules only where they are unusual: what was written before them reads alike."""
        written: dict[str, Any] = handler(self)
        usual = {key for key in ("minimum_frequency", "refine") if getattr(self, key) is None}
        usual |= {"split"} if self.split == "by_weight" else set()
        return {key: each for key, each in written.items() if key not in usual}

    @model_validator(mode="after")
    def _counts_as_it_needs(self) -> StatisticsProduct:
        """Tell each table whether counts are what something else is made of."""
        for table in self.tables:
            table._whole_counts = self.refine is not None or self.minimum_frequency is not None
        return self

    @model_validator(mode="after")
    def _refines_what_it_can(self) -> StatisticsProduct:
        """Refuse methods that need one noise in every cell, and a refinement of no counts, or of suppressed ones."""
        terms = self.refine
        if terms is None:
            return self
        fixed = terms.method == "simplex" or (terms.method == "negative_l2" and isinstance(terms.lambda_, Decimal))
        if not fixed or terms.consistent or not terms.integers:
            allowed = "{method: simplex}, or {method: negative_l2, lambda: NUMBER}"
            remedy = "write one of these: the others need tables of `kind: tables`"
            refuse([Problem(f"`refine` by method {terms.method} so", allowed, remedy, ("refine",))])
        if self.minimum_frequency is not None:
            remedy = "drop one: refined counts are made of all cells, and would tell of the suppressed ones"
            refuse([Problem("`refine` with `minimum_frequency`", "one of the two", remedy, ("refine",))])
        if not any(each.what == COUNT for table in self.tables for each in table.of):
            refuse([Problem("`refine` without a count", "a table with count", "add count to `of:`", ("refine",))])
        return self

    @field_validator("tables")
    @classmethod
    def _tables_differ(cls, tables: tuple[StatisticsTable, ...]) -> tuple[StatisticsTable, ...]:
        problems = [] if tables else [Problem("no tables", "at least one table")]
        problems += repeated_names((place, table.name) for place, table in enumerate(tables))
        if problems:
            refuse(problems)
        return tables

    @property
    def keeps_total(self) -> bool:
        """No count is replaced by a declared total."""
        return False

    def minimum_frequency_of(self, key: str) -> MinimumFrequency | None:
        """Return the rule on a draw, whose table may have several; None without a rule, or where no table has it."""
        drawn = next((table.draw_keys for table in self.tables if key in table.draw_keys), ())
        return self.minimum_frequency.shared_by(len(drawn)) if self.minimum_frequency and drawn else None

    def bounded_groups(self, contract: Contract) -> dict[str, int]:
        """Return by column of texts how many keys one unit has at most, where that is fewer than rows."""
        return bounded_groups([(table.by, table.at_most_groups) for table in self.tables], contract)

    def names(self, contract: Contract) -> tuple[str, ...]:
        """Return the columns that are grouped by, added up, told apart or weights, in the contract's order."""
        used = {name for table in self.tables for name in (*table.by, *table.columns, *table.told_apart)}
        used |= {table.survey_weight.column for table in self.tables if table.survey_weight is not None}
        return tuple(column.name for column in contract.columns if column.name in used)

    def labelled(self, contract: Contract) -> tuple[LabelledTable, ...]:
        """Return every table."""
        return tuple(
            LabelledTable(("tables", place), table.by, table.published_columns[len(table.by) :])
            for place, table in enumerate(self.tables)
        )

    def lattices(self, contract: Contract) -> tuple[ValueLattice | KeyColumn, ...]:
        """Return the lattices of all tables, each once, those of weights, and the texts and ids to tell apart.

        A clip that is narrower than the bounds has one more, by which the operator's look counts what it cuts.
        """
        found = [replace(each, weight=None) for table in self.tables for each in table.lattices(contract)]
        weights = (table.survey_weight for table in self.tables)
        found += [each.lattice(contract) for each in weights if each is not None]
        found += [one_step_wider(each) for table in self.tables for each in table.clipped_lattices(contract)]
        selected = (table.by for table in self.tables if table.key_choice == "private")
        keys = [KeyColumn(name) for by in selected for name in contract.texts(by)]
        apart = (name for table in self.tables for name in table.told_apart)
        beside = [encoded_beside(name, contract.column(name).domain) for name in apart]
        bounded = any(table.quotas or table.at_most_groups is not None for table in self.tables)
        bounded = bounded and contract.unit.max_rows_per_unit > 1
        units = bounded or any(each.what == UNITS for table in self.tables for each in table.of)
        unit = contract.unit.column if units else None
        ids = [] if unit is None else [KeyColumn(unit), *([UnitOrder(unit)] if bounded else [])]
        return tuple(dict.fromkeys([*found, *keys, *(each for each in beside if each is not None), *ids]))


def statistics_product(product: ProductSpec) -> StatisticsProduct:
    """Return a product that is one of statistics.

    Raises:
        TypeError: it is another.
    """
    if not isinstance(product, StatisticsProduct):
        raise TypeError(f"no statistics are published, but kind {product.kind}")
    return product
