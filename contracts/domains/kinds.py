"""Domains: the finite set of cells that a column can fall into, declared and never learned from data (law 3)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from contracts.domains.bins import DECIMALS, INTEGERS, MAX_CELLS, bin_index
from contracts.domains.calendar_periods import Granularity, count_periods, period_index, period_label, periods
from contracts.domains.domain_terms import (
    NULL_LABEL,
    DeclaredDomain,
    clashes,
    increasing,
    otherwise_written,
    target_value,
    within,
)
from contracts.domains.image import ImageDomain
from contracts.domains.notation import DayNotation, NumberNotation, check_format, check_zone, number_notation
from contracts.domains.spellings import one_value_problems
from contracts.reading.scalars import (
    BoundPair,
    Days,
    Label,
    Problem,
    Text,
    Wholes,
    as_items,
    as_tuple,
    nearest,
    parse_bound,
    parse_day,
    parse_whole,
    read_day,
    read_number,
    refuse,
    show,
)


class _ListedValues(DeclaredDomain):
    """A domain of named categories, with or without an `other` for everything else."""

    other: Label | None = None

    @property
    @abstractmethod
    def categories(self) -> tuple[str, ...]:
        """The declared categories, in the order of their codes."""

    @property
    def misfit_code(self) -> int:
        """The code of `other`, or of a null where no other is declared."""
        return len(self.categories) if self.other is not None else self.null_code

    def _declared_labels(self) -> tuple[str, ...]:
        return self.categories + ((self.other,) if self.other is not None else ())

    def _target_code(self, text: str) -> int:
        declared = self._declared_labels()
        if text not in declared:
            remedy = nearest(text, declared) or "name one of the declared categories"
            refuse([Problem(f"nulls mapped to {show(text)}", "a category of this column", remedy, ("nulls", "to"))])
        return declared.index(text)

    def _list_problems(self, at: str) -> list[Problem]:
        """Name what makes labels ambiguous; `at` is the key that lists the categories."""
        problems = []
        if not self.categories:
            problems.append(Problem("no category", "at least one category", at=(at,)))
        if len(self.categories) > MAX_CELLS - 2:
            problems.append(Problem(f"{len(self.categories)} categories", f"at most {MAX_CELLS - 2}", at=(at,)))
        if NULL_LABEL in self._declared_labels():
            remedy = "it is the label of nulls: choose another text"
            problems.append(Problem(f"the category {NULL_LABEL!r}", "any other text", remedy, (at,)))
        if self.other in self.categories:
            remedy = "`other` has a cell of its own: choose another name, or drop it"
            problems.append(Problem(f"{self.other!r} listed as a category", "a new name", remedy, ("other",)))
        return problems

    def _value_problems(self, mapped: Mapping[str, str], at: str) -> list[Problem]:
        """Name texts that are one value and mean different cells; what is missing means none."""
        meanings: dict[str, str | None] = {label: label for label in self._declared_labels()}
        meanings |= {**mapped, **dict.fromkeys(self.missing)}
        return one_value_problems(meanings, (at,))


class CategoryDomain(_ListedValues):
    """Values that are their own categories."""

    kind: Literal["categories"]
    values: Annotated[tuple[Label, ...], BeforeValidator(as_tuple)]

    @property
    def categories(self) -> tuple[str, ...]:
        """The declared values, in the order of the contract."""
        return self.values

    @model_validator(mode="after")
    def _unambiguous(self) -> CategoryDomain:
        problems = self._list_problems("values")
        seen: set[str] = set()
        for place, value in enumerate(self.values):
            if value in seen:
                problems.append(Problem(f"{value!r} twice", "each value once", "drop one", ("values", place)))
            seen.add(value)
        problems += clashes(self.missing, set(self._declared_labels()))
        problems += self._value_problems({}, "values")
        return self._finished(problems)


class MappingDomain(_ListedValues):
    """Raw texts mapped to categories; a category's own name is understood too, so that released data encode again."""

    kind: Literal["mapping"]
    mapping: tuple[tuple[Label, Label], ...]

    @field_validator("mapping", mode="before")
    @classmethod
    def _as_pairs(cls, written: Any) -> Any:
        return as_items(written, "a mapping of raw value: category")

    @cached_property
    def categories(self) -> tuple[str, ...]:
        """The categories in the order of their first mention."""
        return tuple(dict.fromkeys(category for _, category in self.mapping))

    @model_validator(mode="after")
    def _unambiguous(self) -> MappingDomain:
        problems = self._list_problems("mapping")
        named = set(self._declared_labels())
        for raw, category in self.mapping:
            if raw in named and raw != category:
                found = f"{raw!r}, itself a category, mapped to {category!r}"
                problems.append(Problem(found, f"{raw}: {raw}", "rename the category", ("mapping", raw)))
        problems += clashes(self.missing, {raw for raw, _ in self.mapping} | named)
        problems += self._value_problems(dict(self.mapping), "mapping")
        return self._finished(problems)


class _Numbers(DeclaredDomain):
    """A domain of numbers; texts may write them in a declared notation (`contracts.domains.notation`)."""

    decimal: Text | None = None
    grouping: Text | None = None

    @model_validator(mode="after")
    def _one_notation(self) -> _Numbers:
        number_notation(self.decimal, self.grouping)
        return self

    @property
    def notation(self) -> NumberNotation | None:
        """How texts write the numbers; None where the contract does not say, and any usual spelling is read."""
        return number_notation(self.decimal, self.grouping)

    def _missing_problems(self, bounds: tuple[Decimal, Decimal]) -> list[Problem]:
        """Name missing texts that are numbers inside the bounds, or numbers in another notation than the column's."""
        notation = self.notation
        if notation is None:
            return within(self.missing, read_number, bounds)

        def read(text: str) -> Decimal | None:
            number = notation.read(text)
            return None if number is None else Decimal(number)

        remedy = f"write it with the decimal mark {notation.decimal!r}"
        return within(self.missing, read, bounds) + otherwise_written(self.missing, read, read_number, remedy)


class IntegerDomain(_Numbers):
    """Whole numbers in bins, both ends of a bin included; numbers outside the bounds are clipped to them."""

    kind: Literal["integer"]
    bounds: Wholes
    bins: tuple[tuple[int, int], ...]

    @field_validator("bounds")
    @classmethod
    def _ordered_bounds(cls, bounds: tuple[int, int]) -> tuple[int, int]:
        return increasing(bounds, strictly=False)

    @field_validator("bins", mode="before")
    @classmethod
    def _read_bins(cls, written: Any, info: ValidationInfo) -> Any:
        return INTEGERS.read(written, info.data.get("bounds"))

    def _declared_labels(self) -> tuple[str, ...]:
        return tuple(str(low) if low == high else f"{low} to {high}" for low, high in self.bins)

    def _target_code(self, text: str) -> int:
        return bin_index(self.bins, target_value(text, parse_whole, self.bounds))

    @model_validator(mode="after")
    def _complete(self) -> IntegerDomain:
        return self._finished(self._missing_problems((Decimal(self.bounds[0]), Decimal(self.bounds[1]))))


class DecimalDomain(_Numbers):
    """Decimal numbers in half-open bins, the last one closed; numbers outside the bounds are clipped to them."""

    kind: Literal["decimal"]
    bounds: BoundPair
    bins: tuple[tuple[Decimal, Decimal], ...]

    @field_validator("bounds")
    @classmethod
    def _ordered_bounds(cls, bounds: tuple[Decimal, Decimal]) -> tuple[Decimal, Decimal]:
        return increasing(bounds, strictly=True)

    @field_validator("bins", mode="before")
    @classmethod
    def _read_bins(cls, written: Any, info: ValidationInfo) -> Any:
        return DECIMALS.read(written, info.data.get("bounds"))

    def _declared_labels(self) -> tuple[str, ...]:
        open_ended = [f"[{low}, {high})" for low, high in self.bins[:-1]]
        return (*open_ended, f"[{self.bins[-1][0]}, {self.bins[-1][1]}]")

    def _target_code(self, text: str) -> int:
        return bin_index(self.bins, target_value(text, parse_bound, self.bounds))

    @model_validator(mode="after")
    def _complete(self) -> DecimalDomain:
        return self._finished(self._missing_problems(self.bounds))


class DateDomain(DeclaredDomain):
    """Days in calendar periods; days outside the bounds are clipped to them."""

    kind: Literal["date"]
    bounds: Days
    granularity: Granularity
    format: Annotated[Text, AfterValidator(check_format)] | None = None
    time_zone: Annotated[Text, AfterValidator(check_zone)] | None = None

    @field_validator("bounds")
    @classmethod
    def _ordered_bounds(cls, bounds: tuple[date, date]) -> tuple[date, date]:
        return increasing(bounds, strictly=False)

    @property
    def notation(self) -> DayNotation | None:
        """How texts write the days; None where the contract does not say, and texts begin with YYYY-MM-DD."""
        return None if self.format is None else DayNotation(self.format)

    @cached_property
    def bins(self) -> tuple[tuple[date, date], ...]:
        """The periods as (first day, last day), cut at the bounds."""
        return periods(*self.bounds, self.granularity)

    def _declared_labels(self) -> tuple[str, ...]:
        return tuple(period_label(first, self.granularity) for first, _ in self.bins)

    def _target_code(self, text: str) -> int:
        day = target_value(text, parse_day, self.bounds)
        return period_index(day, self.granularity) - period_index(self.bounds[0], self.granularity)

    @model_validator(mode="after")
    def _complete(self) -> DateDomain:
        count = count_periods(*self.bounds, self.granularity)
        if count > MAX_CELLS - 1:
            refuse(
                [Problem(f"{count} periods", f"at most {MAX_CELLS - 1}", "choose a coarser one", ("granularity",))]
            )
        if self.notation is None:
            return self._finished(within(self.missing, read_day, self.bounds))
        others = otherwise_written(self.missing, self.notation.read, read_day, f"write it as {self.format}")
        return self._finished(within(self.missing, self.notation.read, self.bounds) + others)


Domain = Annotated[
    CategoryDomain | MappingDomain | IntegerDomain | DecimalDomain | DateDomain | ImageDomain,
    Field(discriminator="kind"),
]
