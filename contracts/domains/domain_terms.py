"""What every domain declares: where it comes from, what nulls become, which texts are missing values."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic_core import PydanticCustomError

from contracts.reading.scalars import Problem, Text, refuse

NULL_LABEL = "(null)"
NOTATION_KEYS: Final = ("decimal", "grouping", "format", "time_zone")
"""Keys that say how the texts and instants of a column are read; a domain has those that fit its values."""
ValueT = TypeVar("ValueT", int, Decimal, date)


class Frozen(BaseModel):
    """A value that does not change and knows all its keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Provenance(Frozen):
    """Where a domain comes from: declared by the data owner, or public with a reference that anybody can look up."""

    kind: Literal["declared", "public"]
    reference: Text | None = None

    @model_validator(mode="after")
    def _public_means_checkable(self) -> Provenance:
        if self.kind == "public" and not (self.reference or "").strip():
            refuse([Problem("public without a reference", "a reference", "say where the domain is published")])
        return self


class NullPolicy(Frozen):
    """What a missing value becomes: a cell of its own, labelled "(null)", or a declared value (`to`, as text)."""

    policy: Literal["category", "map"]
    to: Text | None = None

    @model_validator(mode="after")
    def _map_has_a_target(self) -> NullPolicy:
        if self.policy == "map" and self.to is None:
            refuse([Problem("policy: map without `to`", "the value that nulls become", "add `to:`")])
        if self.policy == "category" and self.to is not None:
            refuse([Problem("`to` beside policy: category", "`to` with policy: map only", "drop one of them")])
        return self


def exactness_problems(largest: int | None) -> list[Problem]:
    """Name a `numbers_up_to` that no id is below."""
    if largest is None or largest >= 1:  # a `Whole` is at most 10^15, and from 2^53 on doubles are not exact
        return []
    return [Problem(str(largest), "a whole number from 1", "write the largest id there can be", ("numbers_up_to",))]


def increasing(bounds: tuple[ValueT, ValueT], *, strictly: bool) -> tuple[ValueT, ValueT]:
    """Refuse bounds in the wrong order, and equal ones where a bin between them would be empty."""
    low, high = bounds
    if high < low or (strictly and low == high):
        refuse([Problem(f"[{low}, {high}]", "a lower bound below the upper bound", "swap or widen them")])
    return bounds


def target_value(text: str, parse: Callable[[object], ValueT], bounds: tuple[ValueT, ValueT]) -> ValueT:
    """Read the value that nulls are mapped to and refuse one outside the bounds."""
    at = ("nulls", "to")
    allowed = f"a value between {bounds[0]} and {bounds[1]}"
    try:
        value = parse(text)
    except PydanticCustomError:
        refuse([Problem(f"nulls mapped to {text!r}", allowed, at=at)])
    if not bounds[0] <= value <= bounds[1]:
        refuse([Problem(f"nulls mapped to {text}", allowed, "choose one inside the bounds", at)])
    return value


def clashes(tokens: tuple[str, ...], values: set[str]) -> list[Problem]:
    """Name the texts that are declared both as missing and as a value."""
    allowed = "a text that means either null or a value"
    remedy = "take it out of `missing` or out of the values; where `missing` is a default, write missing: [] here"
    return [
        Problem(f"{token!r} is also a value", allowed, remedy, ("missing",)) for token in tokens if token in values
    ]


def within(
    tokens: tuple[str, ...], read: Callable[[str], ValueT | None], bounds: tuple[ValueT, ValueT]
) -> list[Problem]:
    """Name the missing texts that can be read as a value inside the bounds: such a value would be null as well."""
    allowed = f"a text that is no value between {bounds[0]} and {bounds[1]}"
    values = [(token, read(token)) for token in tokens]
    inside = [token for token, value in values if value is not None and bounds[0] <= value <= bounds[1]]
    return [
        Problem(f"{token!r} lies inside the bounds", allowed, "narrow the bounds", ("missing",)) for token in inside
    ]


def otherwise_written(
    tokens: tuple[str, ...], read: Callable[[str], object], usual: Callable[[str], object], remedy: str
) -> list[Problem]:
    """Name the missing texts that are values in the usual notation and none in the column's own: never met."""
    allowed = "missing texts as the column writes its values"
    others = [token for token in tokens if read(token) is None and usual(token) is not None]
    return [Problem(f"{token!r}, a value in another notation", allowed, remedy, ("missing",)) for token in others]
