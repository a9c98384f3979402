"""Pictures: a column whose values are arrays of fixed size, each place at one of some levels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import BeforeValidator, model_validator
from pydantic_core import PydanticCustomError

from contracts.domains.domain import DeclaredDomain, DomainCheck
from contracts.domains.statements import CELLS_CHANGED, NESTED, Change, CheckKind, DecodedKind, Parameter
from contracts.domains.value_sql import absent_sql
from contracts.message import message
from contracts.reading.scalars import Problem, parse_whole, refuse

MOST_PLACES: Final = 2**14
MOST_LEVELS: Final = 256
_Whole = Annotated[int, BeforeValidator(parse_whole)]


class ImageDomain(DeclaredDomain):
    """Pictures of fixed height and width, row by row; each place a level from 0 to `levels` - 1.

    Levels outside are clipped, and a level that is missing or no whole number is read as `nulls: to`. A picture that
    is missing, or has another number of places, is one whose every place is at that level.
    """

    logical_types: ClassVar[tuple[str, ...]] = ("array",)
    stored_kinds: ClassVar[frozenset[str]] = frozenset({NESTED})

    kind: Literal["image"]
    height: _Whole
    width: _Whole
    levels: _Whole

    @property
    def places(self) -> int:
        """How many levels a value has."""
        return self.height * self.width

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width."""
        return self.height, self.width

    def _declared_labels(self) -> tuple[str, ...]:
        return tuple(str(level) for level in range(self.levels))

    def _target_code(self, text: str) -> int:
        allowed = f"a level from 0 to {self.levels - 1}"
        try:
            level = parse_whole(text)
        except PydanticCustomError:
            level = -1
        if not 0 <= level < self.levels:
            refuse([Problem(f"nulls mapped to {text}", allowed, "name a level", ("nulls", "to"))])
        return level

    @model_validator(mode="after")
    def _complete(self) -> ImageDomain:
        problems = []
        for name, most in (("height", MOST_PLACES), ("width", MOST_PLACES), ("levels", MOST_LEVELS)):
            least, value = 1 + (name == "levels"), getattr(self, name)
            if not least <= value <= most:
                problems.append(Problem(str(value), f"a whole number from {least} to {most}", at=(name,)))
        if not problems and not 2 <= self.places <= MOST_PLACES:
            found = f"{self.height} x {self.width} = {self.places} places"
            problems.append(Problem(found, f"2 to {MOST_PLACES}", "scale the pictures"))
        if self.nulls.to is None:
            remedy = "write nulls: {policy: map, to: 0}; a missing picture is then one of level 0"
            problems.append(Problem("policy: category", "policy: map for pictures", remedy, ("nulls", "policy")))
        if self.missing:
            problems.append(Problem("`missing` for pictures", "no texts", "drop it", ("missing",)))
        return self._finished(problems)

    def value_sql(self, raw: str) -> str:
        """Return SQL for the levels as doubles."""
        return f"TRY_CAST({raw} AS DOUBLE[])"

    def code_sql(self, value: str, raw: str) -> str:
        """Return SQL for an array of fixed length: each level clipped, misfits at the level of nulls."""
        kind = self.code_type
        level = f"{self.null_code}::{kind}"
        clipped = f"CAST(greatest(0, least({self.levels - 1}, x)) AS {kind})"
        each = f"list_transform({value}, lambda x: CASE WHEN {_misfit('x')} THEN {level} ELSE {clipped} END)"
        codes = (
            f"CASE WHEN {self._fits(value)} THEN {each} ELSE list_resize([]::{kind}[], {self.places}, {level}) END"
        )
        return f"CAST({codes} AS {kind}[{self.places}])"

    def _fits(self, value: str) -> str:
        return f"COALESCE(len({value}) = {self.places}, FALSE)"

    def checks(self) -> tuple[DomainCheck, ...]:
        """Every value has the declared places, each a whole number; and all of these are levels."""
        bounds: Mapping[str, Parameter] = {
            "low": "0",
            "high": str(self.levels - 1),
            "to": "levels",
            "missing": self.missing,
        }
        return (
            ("type", "castable", {"to": "levels", "missing": self.missing, "places": self.places}),
            ("domain", "between", bounds),
        )

    def violation_sql(self, check: CheckKind, raw: str) -> str:
        """True where there is no picture; one with other places or a place that is no whole number; or no level."""
        value = self.value_sql(raw)
        if check == "not_null":
            return f"({absent_sql(raw)})"
        if check == "castable":
            misfits = f"len(list_filter({value}, lambda x: {_misfit('x')})) = 0"
            return f"{raw} IS NOT NULL AND NOT ({self._fits(value)} AND {misfits})"
        outside = f"NOT {_misfit('x')} AND NOT x BETWEEN 0 AND {self.levels - 1}"
        return f"{self._fits(value)} AND len(list_filter({value}, lambda x: {outside})) > 0"

    def decoded_kind(self, logical_type: str, scale: int) -> DecodedKind:
        """Pictures."""
        return "picture"

    @property
    def extent(self) -> str:
        """The size, and the number of levels."""
        return message(
            "pictures of {height} x {width} places of {levels} levels",
            height=self.height,
            width=self.width,
            levels=self.levels,
        )

    @property
    def misfit_rule(self) -> str:
        """Levels are clipped."""
        return message(
            "levels clipped; what is no level, and every place of a picture of another size, treated as null"
        )

    def changes(self, older: Self) -> Iterator[Change]:
        """Compare size and levels."""
        for key in ("height", "width", "levels"):
            before, after = getattr(older, key), getattr(self, key)
            if before != after:
                yield Change(key, str(before), str(after), "account", CELLS_CHANGED)


def _misfit(level: str) -> str:
    """Return SQL that is true where a place of a picture, read as a number, is no whole number."""
    return f"({level} IS NULL OR isnan({level}) OR {level} <> floor({level}))"
