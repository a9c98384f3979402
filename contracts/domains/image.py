"""Pictures: a column whose values are arrays of fixed size, each place at one of some levels."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, model_validator
from pydantic_core import PydanticCustomError

from contracts.domains.domain_terms import DeclaredDomain
from contracts.reading.scalars import Problem, parse_whole, refuse

MOST_PLACES: Final = 2**14
MOST_LEVELS: Final = 256
_Whole = Annotated[int, BeforeValidator(parse_whole)]


class ImageDomain(DeclaredDomain):
    """Pictures of fixed height and width, row by row; each place a level from 0 to `levels` - 1.

    Levels outside are clipped, and a level that is missing or no whole number is read as `nulls: to`. A picture that
    is missing, or has another number of places, is one whose every place is at that level.
    """

    kind: Literal["image"]
    height: _Whole
    width: _Whole
    levels: _Whole

    @property
    def places(self) -> int:
        """How many levels a value has."""
        return self.height * self.width

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
