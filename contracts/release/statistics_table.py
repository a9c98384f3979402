"""One table of a release of statistics: its columns, what is told of them, and what is drawn for that."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Annotated, Any, Final, Literal

from pydantic import (
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from contracts.contract.contract import Contract
from contracts.domains.addends import Addends, WeightedCount
from contracts.domains.distinct_counts import DistinctCount, distinct_count
from contracts.domains.domain_terms import Frozen
from contracts.domains.quantile_choices import CHOICE
from contracts.domains.value_lattices import ValueLattice
from contracts.domains.value_sums import LoneSum, form_of
from contracts.domains.value_trees import ValueTree, usual_resolution
from contracts.reading.scalars import (
    Label,
    Problem,
    Whole,
    as_tuple,
    refuse,
    show,
)
from contracts.release.file_names import TableName
from contracts.release.key_bounds import most_cells
from contracts.release.private_clips import PrivateClip
from contracts.release.statistic import Statistic, column_lattice
from contracts.release.statistic_forms import (
    COUNT,
    DISTINCT,
    DISTINCTS,
    FORMS,
    OF_ROWS,
    QUANTILES,
    SPREADS,
    UNITS,
)
from contracts.release.survey_weight import SurveyWeight
from contracts.release.tables.all_marginals import Weight

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
