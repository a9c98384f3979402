"""The short form for many tables, every marginal of so many columns: `all 2-way`, or `{all: 2, of: [...]}`.

A spec keeps the short form; `contracts.release.tables.expansion` writes it out where the spec meets its contract.
"""

from __future__ import annotations

import re
from decimal import Decimal
from inspect import getdoc
from typing import Annotated, Any, ClassVar, Final

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    field_validator,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from contracts.domains.domain_terms import Frozen
from contracts.reading.scalars import Amount, Label, Problem, Whole, as_tuple, plain_decimal, refuse, show

RESIDUALS: Final = "residuals"
"""The split by which all tables are made of one draw of residuals."""

_SHORT = re.compile(r"all ([1-9][0-9]?)-way")
_SCHEMA_OF_SHORT = {"type": "string", "pattern": "^all [1-9][0-9]?-way$"}
MOST_WAYS = 99
ALLOWED_WEIGHTS = "a weight from 0.000001 to 1000000"


def check_weight(weight: Decimal) -> Decimal:
    """Refuse a weight that is zero, negative or extreme."""
    if not Decimal("1e-6") <= weight <= Decimal("1e6"):
        refuse([Problem(str(weight), ALLOWED_WEIGHTS)])
    return plain_decimal(weight)


Weight = Annotated[Amount, AfterValidator(check_weight)]
"""The weight of a table's share of the charge."""


class AllMarginals(Frozen):
    """Every table of so many columns, each with the same weight.

    Args:
        ways: how many columns each table has; written `all`.
        of: the columns to choose from; all of the contract's where nothing is said.
        weight: of each of the tables.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_by_name=True, validate_by_alias=True, defer_build=True
    )
    union_tag: ClassVar[str] = "all marginals"

    ways: Whole = Field(alias="all")
    of: Annotated[tuple[Label, ...] | None, BeforeValidator(lambda of: None if of is None else as_tuple(of))] = None
    weight: Weight = Decimal(1)

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, written: Any) -> Any:
        """Read `all 2-way`."""
        if not isinstance(written, str):
            return written
        short = _SHORT.fullmatch(written.strip())
        if short is None:
            allowed = "a list of columns, {columns: [...], name: ..., weight: ...}, or all 2-way"
            refuse([Problem(show(written), allowed, "write all 1-way, all 2-way, all 3-way, or a list of tables")])
        return {"all": int(short[1])}

    @field_validator("ways")
    @classmethod
    def _some(cls, ways: int) -> int:
        if not 1 <= ways <= MOST_WAYS:
            refuse([Problem(str(ways), f"a number of columns from 1 to {MOST_WAYS}")])
        return ways

    @field_validator("of")
    @classmethod
    def _each_once(cls, of: tuple[str, ...] | None) -> tuple[str, ...] | None:
        twice = [place for place, name in enumerate(of or ()) if name in (of or ())[:place]]
        if of == ():
            refuse([Problem("an empty list", "at least one column", "name the columns, or drop `of:` to take all")])
        if of is not None and twice:
            refuse([Problem(f"{of[place]!r} twice", "each column once", "drop one", (place,)) for place in twice])
        return of

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Describe both written forms."""
        full = handler.resolve_ref_schema(handler(core))
        return {"title": "AllMarginals", "description": getdoc(cls), "anyOf": [_SCHEMA_OF_SHORT, full]}


def form_of(written: Any) -> str:
    """Say which form an entry of `tables:` has: one table, or all marginals of so many columns."""
    short = isinstance(written, str | AllMarginals) or (isinstance(written, dict) and {"all", "ways"} & set(written))
    return AllMarginals.union_tag if short else "a table"


def as_entries(written: Any) -> Any:
    """Read `tables: all 2-way` as a list of one."""
    return (written,) if isinstance(written, str) else as_tuple(written)


class ShortFormToo:
    """Says in the JSON Schema that the list may be written as one text."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Add the text to what the list is described by."""
        return {"anyOf": [handler(core), _SCHEMA_OF_SHORT]}
